/* chaos_sets.c - see chaos_sets.h. */
#include "tests/support/chaos_sets.h"

#include <dirent.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/support/make_data.h"

#define N_ARRAYS 157
#define OWN_ROW  9

uint32_t chaos_draw(uint64_t *state, uint32_t n) {
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)((*state >> 33) % n);
}

static void die(const char *what, const char *why) {
    fprintf(stderr, "chaos_sets: %s: %s\n", what, why);
    exit(1);
}

/* ---- The test's own: f32 [9] = {index, eight random numbers}, label i32 = index -------------- */

typedef struct own_rows {
    bool variable; /* rows of 1 + index % 9 numbers */
    uint64_t at;   /* stream */
} own_rows;

static iter_status own_describe(void *user, iter_description *out, iter_error *err) {
    const own_rows *own = user;
    (void)err;
    out->n_samples = CHAOS_OWN_SAMPLES;
    out->n_fields = 2;
    out->fields[0] = (iter_field){.name = "data",
                                  .role = ITER_DATA,
                                  .desc = {.dtype = ITER_F32, .n_dims = 1, .dims = {OWN_ROW}}};
    if (own->variable) {
        out->fields[0].desc.dims[0] = ITER_VARIABLE;
        out->fields[0].desc.capacity = OWN_ROW;
    }
    out->fields[1] = (iter_field){.name = "label", .role = ITER_LABEL, .desc = {.dtype = ITER_I32}};
    return ITER_OK;
}

static iter_status stream_describe(void *user, iter_description *out, iter_error *err) {
    const iter_status status = own_describe(user, out, err);
    out->n_samples = ITER_UNKNOWN;
    return status;
}

static uint32_t own_length(bool variable, uint64_t index) {
    return variable ? (uint32_t)(index % OWN_ROW) + 1 : OWN_ROW;
}

static void own_row(const own_rows *own, const iter_tensor *rows, uint32_t i, uint64_t index,
                    iter_rng *rng) {
    float *data = (float *)rows[0].data + i * rows[0].strides[0];
    const uint32_t n = own_length(own->variable, index);
    data[0] = (float)index;
    for (uint32_t j = 1; j < n; j++)
        data[j] = rng ? iter_rng_uniform(rng) : (float)(index * j);
    if (own->variable) iter_rows_set_length(rows, 0, i, n);
    ((int32_t *)rows[1].data)[i * rows[1].strides[0]] = (int32_t)index;
}

static iter_status own_get(void *user, void *state, uint32_t n, const uint64_t *indices,
                           const iter_tensor *rows, iter_rng *rng, iter_error *err) {
    (void)state, (void)err;
    for (uint32_t i = 0; i < n; i++)
        own_row(user, rows, i, indices[i], &rng[i]);
    return ITER_OK;
}

static iter_status own_next(void *user, uint32_t n, const iter_tensor *rows, uint32_t *out_n,
                            iter_error *err) {
    own_rows *own = user;
    (void)err;
    for (*out_n = 0; *out_n < n && own->at < CHAOS_OWN_SAMPLES; own->at++)
        own_row(own, rows, (*out_n)++, own->at, NULL);
    return ITER_OK;
}

static iter_status own_rewind(void *user, iter_error *err) {
    (void)err;
    ((own_rows *)user)->at = 0;
    return ITER_OK;
}

static int64_t own_tell_length(const void *user, uint64_t index) {
    return own_length(((const own_rows *)user)->variable, index);
}

static void own_close(void *user) {
    free(user);
}

static const iter_dataset_ops own_ops = {.struct_size = sizeof(own_ops),
                                         .name = "chaos-own",
                                         .describe = own_describe,
                                         .get = own_get,
                                         .length = own_tell_length,
                                         .close = own_close,
                                         .parallel = 1};
static const iter_dataset_ops stream_ops = {.struct_size = sizeof(stream_ops),
                                            .name = "chaos-stream",
                                            .describe = stream_describe,
                                            .next = own_next,
                                            .rewind = own_rewind,
                                            .close = own_close};

uint32_t chaos_own_wrong_rows(const iter_batch *batch, uint64_t seed) {
    const iter_tensor *data = iter_batch_find(batch, "data"),
                      *label = iter_batch_find(batch, "label");
    uint32_t wrong = 0;
    for (uint32_t i = 0; i < iter_batch_describe(batch).n_rows; i++) {
        const uint64_t index = iter_batch_index(batch)[i];
        const float *row = (const float *)data->data + i * data->strides[0];
        iter_rng rng = iter_rng_at(iter_rng_key(seed, "get", 0), iter_batch_row_epoch(batch)[i],
                                   iter_batch_position(batch)[i]);
        bool right = row[0] == (float)index && ((const int32_t *)label->data)[i] == (int32_t)index;
        const int32_t *lengths = iter_batch_lengths(batch, 0);
        const int32_t n = lengths ? lengths[i] : OWN_ROW;
        right = right && n == (int32_t)own_length(lengths != NULL, index);
        for (int32_t j = 1; j < n && right; j++)
            right = row[j] == iter_rng_uniform(&rng);
        wrong += !right;
    }
    return wrong;
}

/* ---- Arrays ---------------------------------------------------------------------------------- */

static uint8_t array_data[N_ARRAYS][3][6][6];
static int32_t array_label[N_ARRAYS];
static atomic_llong unreleased;

static void count_release(void *user) {
    (void)user;
    atomic_fetch_sub(&unreleased, 1);
}

int64_t chaos_arrays_unreleased(void) {
    return atomic_load(&unreleased);
}

static void make_arrays(void) {
    for (uint32_t i = 0; i < N_ARRAYS; i++) {
        uint8_t *row = &array_data[i][0][0][0];
        for (uint32_t j = 0; j < sizeof(array_data[0]); j++)
            row[j] = make_pixel(i, j);
        array_label[i] = (int32_t)(i * 3);
    }
}

static iter_status arrays_loader(iter_chain *chain, const iter_loader_options *opt,
                                 iter_loader **out, iter_error *err) {
    const iter_array arrays[] = {
        {.name = "data",
         .role = ITER_DATA,
         .desc = {.dtype = ITER_U8, .n_dims = 4, .dims = {N_ARRAYS, 3, 6, 6}, .layout = "NCHW"},
         .data = array_data},
        {.name = "label",
         .role = ITER_LABEL,
         .desc = {.dtype = ITER_I32, .n_dims = 1, .dims = {N_ARRAYS}},
         .data = array_label}};
    iter_loader_options with = *opt;
    with.arrays.release = count_release;
    atomic_fetch_add(&unreleased, 1);
    const iter_status status = iter_ndarray_create(arrays, 2, chain, &with, out, err);
    if (status < 0) atomic_fetch_sub(&unreleased, 1); /* release() will not run then */
    return status;
}

/* ---- Files ----------------------------------------------------------------------------------- */

static char folder[MAKE_PATH_MAX];

static void make_small_cifar(const char *name, uint32_t n, uint32_t wrong_labels) {
    char path[MAKE_PATH_MAX];
    make_subfolder(folder, name);
    make_path(path, folder, name);
    for (uint32_t i = 0; i < 5; i++) {
        char file[32];
        snprintf(file, sizeof(file), "data_batch_%u.bin", i + 1);
        make_cifar(path, file, n * i / 5, n * (i + 1) / 5 - n * i / 5, 1);
        if (!wrong_labels) continue;
        char whole[MAKE_PATH_MAX];
        FILE *patched = fopen(make_path(whole, path, file), "r+b");
        for (long r = (long)i; patched && r < n / 5; r += wrong_labels) {
            if (fseek(patched, r * 3073, SEEK_SET) != 0 || fputc(200, patched) == EOF)
                die(whole, "cannot be changed");
        }
        if (!patched || fclose(patched) != 0) die(whole, "cannot be changed");
    }
    make_cifar(path, "test_batch.bin", 0, 10, 1);
}

static void make_npy_set(void) {
    enum { N = 173, ROW = 3 * 10 * 10 };
    static uint8_t bytes[256 + N * ROW];
    make_subfolder(folder, "npy");
    char path[MAKE_PATH_MAX];
    make_path(path, folder, "npy");
    size_t header = make_npy_header(
        bytes, "{'descr': '|u1', 'fortran_order': False, 'shape': (173, 3, 10, 10), }\n");
    for (uint32_t i = 0; i < N * ROW; i++)
        bytes[header + i] = make_pixel(i / ROW, i % ROW);
    make_file(path, "data.npy", bytes, header + (size_t)N * ROW);
    header =
        make_npy_header(bytes, "{'descr': '<i4', 'fortran_order': False, 'shape': (173,), }\n");
    for (uint32_t i = 0; i < N; i++)
        memcpy(bytes + header + 4 * (size_t)i, &i, 4);
    make_file(path, "label.npy", bytes, header + 4 * (size_t)N);
}

/* Writes one record as MXNet's im2rec does; leaves out content that would have to be split into
 * pieces. */
static void put_record(FILE *rec, const void *content, uint32_t n, uint64_t id) {
    const uint32_t magic = 0xced7230a, flag = 0, length = n + 24;
    const float label = (float)(id % 10);
    const uint64_t ids[2] = {id, 0};
    for (uint32_t at = 0; at + 4 <= n; at += 4) {
        if (memcmp((const char *)content + at, &magic, 4) == 0) return;
    }
    fwrite(&magic, 4, 1, rec);
    fwrite(&length, 4, 1, rec);
    fwrite(&flag, 4, 1, rec);
    fwrite(&label, 4, 1, rec);
    fwrite(ids, 8, 2, rec);
    fwrite(content, 1, n, rec);
    fwrite("\0\0\0", 1, (4 - length % 4) % 4, rec);
}

static FILE *open_record_file(const char *name, char path[MAKE_PATH_MAX]) {
    FILE *rec = fopen(make_path(path, folder, name), "wb");
    if (!rec) die(path, "cannot be made");
    return rec;
}

static void close_record_file(FILE *rec, const char *path) {
    if (ferror(rec) || fclose(rec) != 0) die(path, "cannot be written");
}

static void make_raw_records(void) {
    char path[MAKE_PATH_MAX];
    uint8_t pixels[8 * 8 * 3];
    FILE *rec = open_record_file("raw.rec", path);
    for (uint32_t i = 0; i < 190; i++) {
        for (uint32_t j = 0; j < sizeof(pixels); j++)
            pixels[j] = make_pixel(i, j);
        put_record(rec, pixels, sizeof(pixels), i);
    }
    close_record_file(rec, path);
}

/* Packs the photos of one class, as they are. Returns false if there are none. */
static bool make_photo_records(const char *class) {
    char path[MAKE_PATH_MAX], photo[MAKE_PATH_MAX];
    DIR *dir = opendir(class);
    if (!dir) return false;
    FILE *rec = open_record_file("photos.rec", path);
    uint64_t n = 0;
    for (struct dirent *entry; (entry = readdir(dir)) && n < 60;) {
        if (!strstr(entry->d_name, ".jpg")) continue;
        FILE *file = fopen(make_path(photo, class, entry->d_name), "rb");
        static uint8_t bytes[1 << 20];
        const size_t size = file ? fread(bytes, 1, sizeof(bytes), file) : 0;
        if (file) fclose(file);
        if (size > 0 && size < sizeof(bytes)) put_record(rec, bytes, (uint32_t)size, n++);
    }
    closedir(dir);
    close_record_file(rec, path);
    return n > 0;
}

/* ---- The list -------------------------------------------------------------------------------- */

static const char *const chains_chw[] = {
    "",
    "random-crop:size=32,pad=4 | random-flip | normalize:mean=0.49;0.48;0.45,std=0.25;0.24;0.26 | "
    "to:f32,nchw",
    "random-crop:size=24 | cutout:size=8 | to:f32,nhwc",
    "to:u8,hwc | color-jitter:brightness=0.4,hue=0.1 | random-resized-crop:20 | random-erasing | "
    "to:f32,nchw",
    "random-invert:p=0.3 | random-posterize:bits=3 | center-crop:28 | to:bf16,nchw",
    NULL};
static const char *const chains_small[] = {"", "random-flip | scale:0.5 | to:f32,nhwc",
                                           "random-crop:size=6,pad=1 | to:f16,nchw", NULL};
static const char *const chains_gray[] = {
    "", "random-crop:size=28,pad=2 | normalize:mean=0.13,std=0.3 | to:f32", "center-crop:20", NULL};
static const char *const chains_photos[] = {
    "random-resized-crop:32 | random-flip | normalize:mean=0.5,std=0.25 | to:f32,nchw",
    "resize:24 | to:u8,nhwc",
    "resize-short:40 | center-crop:32 | color-jitter:saturation=0.3 | "
    "to:f32,nchw",
    "random-crop:size=48,pad=8 | random-grayscale:p=0.5", NULL};
static const char *const chains_rows[] = {"", "scale:2", "cast:f16", NULL};
static const char *const chains_tokens[] = {"", "truncate:64", "tokens:offset=3,start=1", NULL};
static const char *const chains_lengths[] = {"pad-batch", "lengths | pad-batch",
                                             "truncate:100 | pad-batch:multiple=8 | tnc", NULL};
static const char *const chains_own_lengths[] = {"pad-batch", "lengths | pad-batch", NULL};

static void add(chaos_set *out, uint32_t *n, chaos_set set, const char *format, const char *root) {
    if (*n == CHAOS_SETS_MAX) die(set.name, "is one too many");
    if (format) snprintf(set.spec, sizeof(set.spec), format, root);
    if (set.most_rows == 0) set.most_rows = 400;
    out[*n] = set;
    if (set.how != CHAOS_STREAM) out[*n].shared = chaos_set_open(&out[*n], true);
    ++*n;
}

static void add_made(chaos_set *out, uint32_t *n) {
    make_folder(folder);
    make_small_cifar("cifar", 320, 0);
    make_small_cifar("broken", 240, 13);
    make_npy_set();
    make_raw_records();
    make_arrays();
    add(out, n,
        (chaos_set){.name = "cifar", .plain = true, .says_itself = true, .chains = chains_chw},
        "cifar10:\"%s/cifar\"", folder);
    add(out, n, (chaos_set){.name = "broken", .fails = true, .chains = chains_chw},
        "cifar10:\"%s/broken\"", folder);
    add(out, n, (chaos_set){.name = "npy", .plain = true, .chains = chains_small},
        "npy:\"%s/npy\"?layout=chw", folder);
    add(out, n, (chaos_set){.name = "raw", .chains = chains_small},
        "recordio:\"%s/raw.rec\"?raw=8x8x3", folder);
    add(out, n, (chaos_set){.name = "arrays", .how = CHAOS_ARRAYS, .chains = chains_small}, NULL,
        NULL);
    add(out, n, (chaos_set){.name = "own", .how = CHAOS_OWN, .chains = chains_rows}, NULL, NULL);
    add(out, n,
        (chaos_set){.name = "own-lengths",
                    .how = CHAOS_OWN,
                    .has_lengths = true,
                    .chains = chains_own_lengths},
        NULL, NULL);
    add(out, n, (chaos_set){.name = "stream", .how = CHAOS_STREAM, .chains = chains_rows}, NULL,
        NULL);
    add(out, n, (chaos_set){.name = "synthetic-cifar", .chains = chains_chw},
        "synthetic:cifar10?n=333%s", "");
    add(out, n, (chaos_set){.name = "synthetic", .chains = chains_rows},
        "synthetic:?n=410&shape=37&dtype=f32%s", "");
    add(out, n,
        (chaos_set){.name = "synthetic-imdb", .has_lengths = true, .chains = chains_lengths},
        "synthetic:imdb?n=300&variable=1%s", "");
}

#ifdef ITER_HAVE_JPEG
static const bool has_jpeg = true;
#else
static const bool has_jpeg = false;
#endif

static bool is_there(char path[MAKE_PATH_MAX], const char *root, const char *name) {
    return access(make_path(path, root, name), R_OK) == 0;
}

static void add_real(chaos_set *out, uint32_t *n, const char *root) {
    char path[MAKE_PATH_MAX];
    if (is_there(path, root, "cifar-10-batches-bin")) {
        add(out, n,
            (chaos_set){.name = "real-cifar", .large = true, .plain = true, .chains = chains_chw},
            "cifar10:\"%s\"", path);
        add(out, n, (chaos_set){.name = "real-cifar-test", .chains = chains_chw},
            "cifar10:\"%s\"?split=test", path);
    }
    if (is_there(path, root, "mnist"))
        add(out, n, (chaos_set){.name = "real-mnist", .chains = chains_gray},
            "mnist:\"%s\"?split=test", path);
    if (is_there(path, root, "aclImdb")) {
        add(out, n,
            (chaos_set){
                .name = "real-imdb", .large = true, .has_lengths = true, .chains = chains_tokens},
            "imdb:\"%s\"?split=test", path);
        add(out, n,
            (chaos_set){.name = "real-imdb-lengths",
                        .large = true,
                        .has_lengths = true,
                        .chains = chains_lengths},
            "imdb:\"%s\"?maxlen=0", path);
    }
    if (!has_jpeg) return;
    if (is_there(path, root, "clothing/test")) {
        const chaos_set photos = {.name = "real-photos",
                                  .large = true,
                                  .photos = true,
                                  .most_rows = 100,
                                  .chains = chains_photos};
        add(out, n, photos, "folder:\"%s\"", path);
    }
    if (is_there(path, root, "clothing/test/dress") && make_photo_records(path)) {
        const chaos_set photos = {
            .name = "photo-records", .photos = true, .most_rows = 60, .chains = chains_photos};
        add(out, n, photos, "recordio:\"%s/photos.rec\"", folder);
    }
}

uint32_t chaos_sets_make(chaos_set out[CHAOS_SETS_MAX]) {
    const char *root = getenv("ITER_DATA");
    uint32_t n = 0;
    add_made(out, &n);
    if (root && *root) add_real(out, &n, root);
    return n;
}

void chaos_sets_gone(chaos_set *sets, uint32_t n) {
    for (uint32_t i = 0; i < n; i++)
        iter_dataset_unref(sets[i].shared);
    make_folder_gone(folder);
}

iter_dataset *chaos_set_open(const chaos_set *set, bool anew) {
    iter_error err;
    iter_dataset *data;
    if (set->how == CHAOS_ARRAYS) return NULL;
    if (!anew && set->shared) return iter_dataset_ref(set->shared);
    if (set->how == CHAOS_BY_SPEC) {
        if (iter_dataset_open(set->spec, NULL, &data, &err) < 0) die(set->spec, err.message);
        return data;
    }
    own_rows *own = calloc(1, sizeof(*own));
    if (!own) die(set->name, "no memory");
    own->variable = set->has_lengths;
    const iter_dataset_ops *ops = set->how == CHAOS_STREAM ? &stream_ops : &own_ops;
    if (iter_dataset_create(ops, own, &data, &err) < 0) die(set->name, err.message);
    return data;
}

iter_status chaos_set_loader(const chaos_set *set, iter_dataset *data, iter_chain *chain,
                             const iter_loader_options *opt, iter_loader **out, iter_error *err) {
    if (set->how == CHAOS_ARRAYS) return arrays_loader(chain, opt, out, err);
    return iter_dataloader_create(data, chain, opt, out, err);
}

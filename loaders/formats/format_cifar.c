/*
 * format_cifar.c - CIFAR-10 and CIFAR-100, binary version.
 *
 * A file consists of records of equal size: one label byte (CIFAR-100: coarse, then fine), then
 * 3,072 bytes of pixels, the red, green and blue planes of 32 x 32, row by row. A record is one
 * extent, so that one read brings label and pixels.
 *
 * Opening looks at sizes only: reading the set here would double the cost of the first epoch from
 * cold files. If a label is out of range, that is found when its row is delivered
 * (iter_field.limit).
 *
 * Source: A. Krizhevsky, "The CIFAR-10 dataset", section "Binary version".
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include <iter/option_rows.h>

#include "iter/core/alloc.h"
#include "iter/core/error.h"
#include "iter/core/hash.h"
#include "loaders/files/file.h"

#define PIXEL_BYTES     3072u
#define FILES_MAX       6
#define META_BYTES_MAX  65536u
#define CLASS_NAMES_MAX 100

typedef enum split { ITER_SPLIT_TRAIN, ITER_SPLIT_TEST, ITER_SPLIT_ALL } split;

typedef struct cifar_options {
    int32_t split;
} cifar_options;

static const iter_option option_rows[] = {
    ITER_ROW_CHOICE("split", "which files of the folder", cifar_options, split, "train|test|all"),
    ITER_ROW_END,
};

/* The differences between the two sets. */
typedef struct cifar_kind {
    const char *name;
    const char *files[FILES_MAX]; /* train first, then one test file */
    int n_files;
    const char *meta; /* class names, a line each; the file may be missing */
    uint32_t n_label_bytes;
    struct {
        const char *name;
        uint32_t offset, limit;
    } labels[2]; /* in the order of the fields */
} cifar_kind;

static const cifar_kind cifar10 = {
    .name = "cifar10",
    .files = {"data_batch_1.bin", "data_batch_2.bin", "data_batch_3.bin", "data_batch_4.bin",
              "data_batch_5.bin", "test_batch.bin"},
    .n_files = 6,
    .meta = "batches.meta.txt",
    .n_label_bytes = 1,
    .labels = {{"label", 0, 10}},
};

static const cifar_kind cifar100 = {
    .name = "cifar100",
    .files = {"train.bin", "test.bin"},
    .n_files = 2,
    .meta = "fine_label_names.txt",
    .n_label_bytes = 2,
    .labels = {{"label", 1, 100}, {"coarse_label", 0, 20}},
};

typedef struct cifar_state {
    uint64_t record_bytes;
    int n_files;
    iter_file files[FILES_MAX];
    uint64_t first[FILES_MAX + 1]; /* first sample of each file, then the number of samples */
    char *names_text;
    const char *names[CLASS_NAMES_MAX];
} cifar_state;

static void cifar_close(void *state) {
    cifar_state *s = state;
    for (int i = 0; i < FILES_MAX; i++)
        iter__free((void *)s->files[i].path);
    iter__free(s->names_text);
    memset(s, 0, sizeof(*s));
}

/* Appends a file; owns `path` from now on. */
static iter_status add_file(cifar_state *s, const cifar_kind *kind, char *path, iter_error *err) {
    if (!path) return iter__fail(err, ITER_ENOMEM, "%s: no memory for a file name", kind->name);
    iter_file *file = &s->files[s->n_files];
    *file = iter__file_entry(path, 0);
    ITER_TRY(iter__file_check(path, &file->bytes, err));
    if (file->bytes == 0) return iter__fail(err, ITER_EFORMAT, "%s: is empty", path);
    if (file->bytes % s->record_bytes != 0) {
        return iter__fail(err, ITER_EFORMAT,
                          "%s: has %" PRIu64 " bytes, which is %" PRIu64 " records of %" PRIu64
                          " bytes and %" PRIu64 " bytes more",
                          path, file->bytes, file->bytes / s->record_bytes, s->record_bytes,
                          file->bytes % s->record_bytes);
    }
    s->first[s->n_files + 1] = s->first[s->n_files] + file->bytes / s->record_bytes;
    s->n_files++;
    return ITER_OK;
}

static iter_status add_folder(cifar_state *s, const cifar_kind *kind, const char *folder,
                              split which, iter_error *err) {
    const int n_train = kind->n_files - 1;
    const int begin = which == ITER_SPLIT_TEST ? n_train : 0;
    const int end = which == ITER_SPLIT_TRAIN ? n_train : kind->n_files;
    for (int i = begin; i < end; i++)
        ITER_TRY(add_file(s, kind, iter__path_join(folder, kind->files[i]), err));
    return ITER_OK;
}

/* Cuts s->names_text into lines and leaves out empty ones. */
static iter_status split_names(cifar_state *s, const char *path, uint32_t n_classes,
                               iter_error *err) {
    uint32_t n = 0;
    for (char *line = s->names_text; line;) {
        char *end = strchr(line, '\n');
        char *next = end ? end + 1 : NULL;
        size_t length = end ? (size_t)(end - line) : strlen(line);
        while (length > 0 && (line[length - 1] == '\r' || line[length - 1] == ' '))
            length--;
        line[length] = '\0';
        if (length > 0) {
            if (n < n_classes) s->names[n] = line;
            n++;
        }
        line = next;
    }
    if (n != n_classes) {
        return iter__fail(err, ITER_EFORMAT, "%s: has %" PRIu32 " class names, expected %" PRIu32,
                          path, n, n_classes);
    }
    return ITER_OK;
}

static iter_status load_names(cifar_state *s, const cifar_kind *kind, const char *folder,
                              iter_error *err) {
    char *path = iter__path_join(folder, kind->meta);
    if (!path) return iter__fail(err, ITER_ENOMEM, "%s: no memory for a file name", kind->name);
    iter_status status = ITER_OK;
    if (iter__path_exists(path)) {
        size_t bytes = 0;
        status = iter__file_load(path, META_BYTES_MAX, &s->names_text, &bytes, err);
        if (status == ITER_OK) status = split_names(s, path, kind->labels[0].limit, err);
    }
    iter__free(path);
    return status;
}

static void set_field(iter_field *field, const char *name, iter_role role, size_t offset) {
    memset(field, 0, sizeof(*field));
    (void)snprintf(field->name, sizeof(field->name), "%s", name);
    field->role = role;
    field->desc.dtype = ITER_U8;
    field->offset = offset;
}

static void fill_description(const cifar_state *s, const cifar_kind *kind, iter_description *out) {
    out->n_samples = s->first[s->n_files];
    set_field(&out->fields[0], "data", ITER_DATA, kind->n_label_bytes);
    out->fields[0].desc =
        (iter_desc){.dtype = ITER_U8, .n_dims = 3, .dims = {3, 32, 32}, .layout = "CHW"};
    for (uint32_t i = 0; i < kind->n_label_bytes; i++) {
        iter_field *field = &out->fields[1 + i];
        set_field(field, kind->labels[i].name, ITER_LABEL, kind->labels[i].offset);
        field->limit = kind->labels[i].limit;
    }
    out->n_fields = 1 + (int32_t)kind->n_label_bytes;
    out->n_extents = 1;
    out->max_extent_bytes[0] = s->record_bytes;
    out->files = s->files;
    out->n_files = (uint64_t)s->n_files;
    out->n_classes = (int32_t)kind->labels[0].limit;
    out->class_names = s->names_text ? s->names : NULL;

    uint64_t identity = iter__fnv1a_text(ITER_FNV_START, kind->name);
    for (int i = 0; i < s->n_files; i++) {
        identity = iter__fnv1a_text(identity, iter__path_base(s->files[i].path));
        identity = iter__fnv1a_u64(identity, s->files[i].bytes);
    }
    out->identity = identity;
}

static iter_status cifar_open(cifar_state *s, const cifar_kind *kind, const char *path, split which,
                              iter_description *out, iter_error *err) {
    static const char *const split_names_text[] = {"train", "test", "all"};
    const bool folder = iter__path_is_folder(path);
    s->record_bytes = kind->n_label_bytes + PIXEL_BYTES;

    iter_status status =
        folder ? add_folder(s, kind, path, which, err) : add_file(s, kind, iter__strdup(path), err);
    if (status == ITER_OK && folder) status = load_names(s, kind, path, err);
    if (status < 0) {
        cifar_close(s);
        return status;
    }
    fill_description(s, kind, out);
    out->split = folder ? split_names_text[which] : "";
    return ITER_OK;
}

/* ---- callbacks ------------------------------------------------------------------------------- */

static iter_status cifar10_open(void *state, const char *path, const void *options,
                                iter_description *out, iter_error *err) {
    const cifar_options *o = options;
    return cifar_open(state, &cifar10, path, (split)o->split, out, err);
}

static iter_status cifar100_open(void *state, const char *path, const void *options,
                                 iter_description *out, iter_error *err) {
    const cifar_options *o = options;
    return cifar_open(state, &cifar100, path, (split)o->split, out, err);
}

static void cifar_locate(const void *state, uint64_t index, iter_extent *out) {
    const cifar_state *s = state;
    int i = 0;
    while (index >= s->first[i + 1]) /* at most six files */
        i++;
    out->object = (uint64_t)i;
    out->offset = (index - s->first[i]) * s->record_bytes;
    out->size = s->record_bytes;
}

const iter_format_ops iter__format_cifar10 = {
    .base = {.struct_size = sizeof(iter_format_ops),
             .name = "cifar10",
             .help = "CIFAR-10, binary version: a folder of data_batch_*.bin, or one such file",
             .options = option_rows,
             .options_size = sizeof(cifar_options),
             .state_size = sizeof(cifar_state)},
    .open = cifar10_open,
    .close = cifar_close,
    .locate = cifar_locate,
};

const iter_format_ops iter__format_cifar100 = {
    .base = {.struct_size = sizeof(iter_format_ops),
             .name = "cifar100",
             .help = "CIFAR-100, binary version: a folder with train.bin and test.bin, or one file",
             .options = option_rows,
             .options_size = sizeof(cifar_options),
             .state_size = sizeof(cifar_state)},
    .open = cifar100_open,
    .close = cifar_close,
    .locate = cifar_locate,
};

/*
 * fuzz_imdb.c - folders of reviews with any names, and any word list beside them.
 *
 * Input: a byte for the split; names, a byte of flags before each (1 = pos, 2 = test, 4 = a
 * subfolder, 8 = the word list follows, to the end: with 1 as JSON), zero bytes between. Property:
 * open returns OK or a documented error that names the folder. If OK, the samples are exactly the
 * names of the requested split that end in .txt and do not begin with a point: neg before pos,
 * train before test, sorted as bytes. Each label is that of the folder.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <sys/stat.h>

#include "tests/support/builtin_tables.h"
#include "tests/support/fuzz_format.h"

#define N_MAX 24

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char *const folders[4] = {"train/neg", "train/pos", "test/neg", "test/pos"};
static char root[MAKE_PATH_MAX];

/* A file that was made: folder and name, without duplicates. */
typedef struct review {
    int folder; /* index in folders */
    bool is_folder;
    char name[64];
} review;

static void gone(void) {
    make_folder_gone(root);
}

static void prepare(void) {
    if (root[0]) return;
    make_folder(root);
    atexit(gone);
    make_subfolder(root, "train");
    make_subfolder(root, "test");
    for (int i = 0; i < 4; i++)
        make_subfolder(root, folders[i]);
}

static void path_of(const review *r, char out[MAKE_PATH_MAX]) {
    char folder[MAKE_PATH_MAX];
    make_path(out, make_path(folder, root, folders[r->folder]), r->name);
}

/* Reads the names into out and makes the files; *at moves to the first byte not read. */
static int make_reviews(const uint8_t *data, size_t size, size_t *at, review out[N_MAX]) {
    int n = 0;
    while (*at < size && n < N_MAX && !(data[*at] & 8)) {
        const unsigned flags = data[(*at)++];
        review *r = &out[n];
        const size_t length = strnlen((const char *)data + *at, size - *at);
        *r = (review){.folder = (int)(flags & 3), .is_folder = flags & 4};
        memcpy(r->name, data + *at, length < sizeof(r->name) ? length : sizeof(r->name) - 1);
        *at += length + (*at + length < size);
        char path[MAKE_PATH_MAX];
        if (!r->name[0] || strchr(r->name, '/')) continue;
        path_of(r, path);
        if (r->is_folder) {
            n += mkdir(path, 0700) == 0;
        } else {
            const int fd = open(path, O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0600);
            if (fd < 0) continue; /* ".", ".." or a duplicate */
            FUZZ_REQUIRE(write(fd, r->name, strlen(r->name)) >= 0);
            close(fd);
            n++;
        }
    }
    return n;
}

static bool is_sample(const review *r) {
    const size_t n = strlen(r->name);
    return r->name[0] != '.' && n > 4 && strcmp(r->name + n - 4, ".txt") == 0;
}

static int by_folder_and_name(const void *a, const void *b) {
    const review *x = a, *y = b;
    return x->folder != y->folder ? x->folder - y->folder : strcmp(x->name, y->name);
}

static void check(const opened *f, review *made, int n, int first, int end) {
    uint64_t i = 0;
    qsort(made, (size_t)n, sizeof(made[0]), by_folder_and_name);
    for (int k = 0; k < n; k++) {
        const review *r = &made[k];
        if (r->folder < first || r->folder >= end || !is_sample(r)) continue;
        FUZZ_REQUIRE(!r->is_folder && i < f->desc.n_samples);
        char path[MAKE_PATH_MAX];
        uint8_t label = 9;
        iter_extent x;
        path_of(r, path);
        f->ops->locate(f->state, i, &x);
        f->ops->index_row(f->state, i, 1, &label);
        FUZZ_REQUIRE(strcmp(f->desc.files[x.object].path, path) == 0);
        FUZZ_REQUIRE(x.offset == 0 && x.size == strlen(r->name));
        FUZZ_REQUIRE(label == r->folder % 2);
        i++;
    }
    FUZZ_REQUIRE(i == f->desc.n_samples);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const char *const splits[] = {"train", "test", "all"};
    if (size < 2 || size > 8192) return 0;
    prepare();
    const int split = data[0] % 3;
    review made[N_MAX];
    size_t at = 1;
    const int n = make_reviews(data, size, &at, made);
    const bool as_json = at < size && data[at] & 1;
    const size_t list = at < size ? at + 1 : size;
    make_file(root, as_json ? "words.json" : "words.txt", data + list, size - list);

    char options[64];
    opened f;
    snprintf(options, sizeof(options), "split=%s&%s", splits[split],
             as_json ? "index=words.json" : "vocab=words.txt");
    if (fuzz_open(&iter__format_imdb, root, options, root, &f)) {
        check(&f, made, n, split == 1 ? 2 : 0, split == 0 ? 2 : 4);
        fuzz_close(&f);
    }
    char path[MAKE_PATH_MAX];
    for (int i = 0; i < n; i++) {
        path_of(&made[i], path);
        FUZZ_REQUIRE(remove(path) == 0);
    }
    (void)remove(make_path(path, root, as_json ? "words.json" : "words.txt"));
    return 0;
}

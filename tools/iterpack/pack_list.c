/*
 * pack_list.c - lists of images: made from folders, and read.
 *
 * The library decides which files are images and what their classes are, so a list made here has
 * the order and labels of "folder:". The library's own parser reads lists, too.
 *
 * A list is written as NAME.part under a lock, synced, and renamed when it is complete; or it is
 * uploaded to s3://. Until then, what has that name stays as it was.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <iter/dataset.h>
#include <iter/rng.h>

#include "iter/remote/url.h"
#include "tools/iterpack/iterpack.h"
#include "tools/iterpack/pack_lock.h"
#include "tools/iterpack/pack_remote.h"

/* ---- reading --------------------------------------------------------------------------------- */

int pack_list_load(const char *path, pack_list *out) {
    const iter__list_options options = {.root = "", .items = true};
    iter_error err;
    *out = (pack_list){.n = 0};
    if (iter__list_load(path, &options, "", &out->list, &err) < 0)
        return pack_fail("%s", err.message);
    const iter__list *list = &out->list;
    out->n = list->files.n;
    out->n_labels = (uint32_t)list->label_width;
    const size_t n = (size_t)out->n * out->n_labels;
    out->labels = pack_memory(NULL, n, sizeof(*out->labels));
    for (size_t i = 0; i < n; i++)
        out->labels[i] = list->dtype == ITER_I32 ? (float)list->labels.i32[i] : list->labels.f32[i];
    return PACK_DONE;
}

void pack_list_free(pack_list *list) {
    iter__list_free(&list->list);
    free(list->labels);
    *list = (pack_list){.n = 0};
}

static int by_number(const void *a, const void *b) {
    const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

void pack_warn_twice(const char *what, const uint64_t *ids, uint64_t n) {
    uint64_t *sorted = pack_memory(NULL, n, sizeof(*sorted)), n_twice = 0, first = 0;
    if (n) memcpy(sorted, ids, n * sizeof(*sorted));
    qsort(sorted, n, sizeof(*sorted), by_number);
    for (uint64_t i = 1; i < n; i++) {
        if (sorted[i] != sorted[i - 1] || (i > 1 && sorted[i] == sorted[i - 2])) continue;
        if (n_twice++ == 0) first = sorted[i];
    }
    free(sorted);
    if (n_twice)
        pack_warn("%s: %" PRIu64 " ids occur more than once, %" PRIu64
                  " is the smallest: readers that look a record up by its id find only one of them",
                  what, n_twice, first);
}

/* ---- making ---------------------------------------------------------------------------------- */

static int by_text(const void *a, const void *b) {
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* Index of the name's first folder among the classes. */
static int32_t class_of(const char *name, const iter_description *desc) {
    char folder[4096];
    const char *key = folder;
    snprintf(folder, sizeof(folder), "%.*s", (int)strcspn(name, "/"), name);
    if (desc->n_classes == 0) return 0;
    const char *const *found = bsearch(&key, desc->class_names, (size_t)desc->n_classes,
                                       sizeof(*desc->class_names), by_text);
    return found ? (int32_t)(found - desc->class_names) : -1;
}

/* The order in which files are listed: sorted, or Fisher and Yates' shuffle. */
static uint64_t *make_order(uint64_t n, int64_t seed) {
    uint64_t *order = pack_memory(NULL, n, sizeof(*order));
    for (uint64_t i = 0; i < n; i++)
        order[i] = i;
    if (seed < 0) return order;
    iter_rng rng = iter_rng_at((uint64_t)seed, 0, 0);
    for (uint64_t i = n; i > 1; i--) {
        const uint64_t j = iter_rng_below(&rng, i), other = order[j];
        order[j] = order[i - 1];
        order[i - 1] = other;
    }
    return order;
}

typedef struct beside {
    const char *ext;
    uint64_t n;
    char *first; /* by name */
} beside;

static iter_status note_beside(void *user, const iter__entry *entry, iter_error *err) {
    beside *b = user;
    (void)err;
    if (entry->kind == ITER_ENTRY_FOLDER || !iter__list_is_image(entry->name, b->ext))
        return ITER_OK;
    b->n++;
    if (b->first && strcmp(b->first, entry->name) <= 0) return ITER_OK;
    free(b->first);
    b->first = pack_text("%s", entry->name);
    return ITER_OK;
}

/* Warns about files in the folder itself: they belong to no class and get no line. */
static void warn_beside_classes(const char *folder, const char *ext) {
    beside b = {.ext = ext};
    (void)iter__folder_list(folder, note_beside, &b, NULL);
    if (b.n)
        pack_warn("%s: %" PRIu64 " images lie beside the class folders and are left out, the first "
                  "is %s; --no-labels lists all images",
                  folder, b.n, b.first);
    free(b.first);
}

/* A terminal gets names escaped, a file or a pipe gets them as they are. */
static int write_list(const iter_description *desc, const char *folder, int64_t seed, FILE *out) {
    const bool shown = isatty(fileno(out));
    char line[4096];
    size_t skip = strlen(folder);
    while (skip > 0 && folder[skip - 1] == '/')
        skip--;
    uint64_t *order = make_order(desc->n_files, seed);
    int status = PACK_DONE;
    for (uint64_t i = 0; i < desc->n_files && status == PACK_DONE; i++) {
        const char *name = desc->files[order[i]].path + skip;
        name += strspn(name, "/");
        const int32_t label = class_of(name, desc);
        const size_t n = strlen(name);
        if (strpbrk(name, "\t\n") || name[n - 1] == '\r') {
            status = pack_fail("%s: a list cannot hold this name", name);
        } else {
            fprintf(out, "%" PRIu64 "\t%d.000000\t%s\n", i, label,
                    shown ? iter_text_escape(name, line, sizeof(line)) : name);
        }
    }
    free(order);
    return status;
}

/* Whether a path names something that cannot be replaced: a device, a pipe. */
static bool is_stream(const char *path) {
    struct stat st;
    return stat(path, &st) == 0 && !S_ISREG(st.st_mode);
}

/* Syncs the new file, gives it the old one's permissions, and renames it to `path`. */
static int publish(FILE *out, const char *part, const char *path) {
    struct stat st;
    if (fflush(out) != 0 || ferror(out)) return pack_fail_os("%s", part);
    if (stat(path, &st) == 0 && fchmod(fileno(out), st.st_mode & 07777) < 0)
        return pack_fail_os("%s", part);
    if (fsync(fileno(out)) < 0) return pack_fail_os("%s", part);
    if (rename(part, path) < 0) return pack_fail_os("%s", path);
    return pack_sync_folder(path);
}

static int write_under_lock(const iter_description *desc, const char *folder, int64_t seed,
                            const char *path) {
    pack_lock lock;
    int status = pack_lock_take(&lock, path);
    if (status != PACK_DONE) return status;
    char *part = pack_text("%s.part", path);
    FILE *out = fopen(part, "we");
    status = out ? write_list(desc, folder, seed, out) : pack_fail_os("%s", part);
    if (status == PACK_DONE) status = publish(out, part, path);
    if (out) fclose(out);
    if (status != PACK_DONE) (void)unlink(part);
    pack_lock_give(&lock);
    free(part);
    return status;
}

/* A list on its way to a URL, as a stream of the C library. */
typedef struct upload {
    iter__new_file file;
    iter_error err;
} upload;

static ssize_t write_upload(void *user, const char *bytes, size_t n) {
    upload *u = user;
    if (u->err.status < 0) return 0;
    return iter__new_file_write(&u->file, bytes, n, &u->err) == ITER_OK ? (ssize_t)n : 0;
}

static int upload_list(const iter_description *desc, const char *folder, int64_t seed,
                       const char *url) {
    const iter__upload_options options = {.part_bytes = 0};
    upload u = {.err.status = ITER_OK};
    if (iter__new_file_open(&u.file, url, &options, &u.err) < 0)
        return pack_fail("%s", u.err.message);
    FILE *out = fopencookie(&u, "w", (cookie_io_functions_t){.write = write_upload});
    int status = out ? write_list(desc, folder, seed, out) : pack_fail_os("%s", url);
    if (out && fclose(out) != 0 && u.err.status == ITER_OK && status == PACK_DONE)
        status = pack_fail_os("%s", url);
    const iter_status done = status == PACK_DONE ? u.err.status : ITER_ECANCELED;
    const iter_status ended = iter__new_file_close(&u.file, done, &u.err);
    return status == PACK_DONE && ended < 0 ? pack_fail("%s", u.err.message) : status;
}

/* Writes to stdout, into a device or pipe, to a URL, or in place of a file. */
static int put_list(const iter_description *desc, const char *folder, int64_t seed,
                    const char *path) {
    if (!path) return write_list(desc, folder, seed, stdout);
    if (iter__url_is(path)) return upload_list(desc, folder, seed, path);
    if (is_stream(path)) {
        FILE *out = fopen(path, "we");
        int status = out ? write_list(desc, folder, seed, out) : pack_fail_os("%s", path);
        const bool broken = out && ferror(out);
        if (out && (fclose(out) != 0 || broken) && status == PACK_DONE)
            status = pack_fail_os("%s", path);
        return status;
    }
    char *target = realpath(path, NULL); /* of a link, the file */
    const int status = write_under_lock(desc, folder, seed, target ? target : path);
    free(target);
    return status;
}

int pack_cmd_list(int n_args, char **args) {
    const char *words[2] = {NULL, NULL}, *ext = "jpg;jpeg;png;webp";
    int64_t seed = -1;
    bool no_labels = false, anonymous = false;
    int n_words = 0;
    const pack_option rows[] = {{"shuffle", PACK_NUMBER, &seed, 0, INT64_MAX},
                                {"ext", PACK_TEXT, &ext, 0, 0},
                                {"no-labels", PACK_FLAG, &no_labels, 0, 0},
                                PACK_ANONYMOUS_ROW(&anonymous),
                                {NULL, PACK_FLAG, NULL, 0, 0}};
    int status = pack_options(n_args, args, rows, words, 2, &n_words);
    if (status != PACK_DONE) return status;
    if (n_words == 0) return pack_usage("list: a folder is needed");
    if (strpbrk(words[0], "\"\\") || strpbrk(ext, "\"\\&"))
        return pack_usage("list: '%s': the path must not contain quotes or backslashes", words[0]);

    iter_error err = {.status = ITER_OK};
    if (words[1] && iter__url_is(words[1]) && iter__upload_check(words[1], &err) < 0)
        return pack_fail("%s", err.message);
    iter_dataset *dataset = NULL;
    char *spec = pack_text("folder:\"%s\"?ext=%s%s%s", words[0], ext, no_labels ? "&labels=no" : "",
                           anonymous && iter__url_is_s3(words[0]) ? "&anonymous=yes" : "");
    const iter_status opened = iter_dataset_open(spec, NULL, &dataset, &err);
    free(spec);
    if (opened < 0) return pack_fail("%s", err.message);
    if (!no_labels) warn_beside_classes(words[0], ext);
    status = put_list(iter_dataset_describe(dataset), words[0], seed, words[1]);
    iter_dataset_unref(dataset);
    return status;
}

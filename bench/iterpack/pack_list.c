/*
 * pack_list.c - lists of images: made from folders, and read.
 *
 * Which images there are and what their classes are, the library says: a list from here and
 * "folder:" have the same order and the same labels.
 */
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <iter/dataset.h>
#include <iter/rng.h>

#include "iterpack.h"

/* ---- reading --------------------------------------------------------------------------------- */

static char *load_text(const char *path, size_t *out_n) {
    FILE *file = fopen(path, "rb");
    char *text = NULL;
    size_t n = 0, capacity = 0;
    if (!file) {
        pack_fail_os("%s", path);
        return NULL;
    }
    do {
        if (n == capacity) {
            capacity = capacity ? 2 * capacity : 1 << 16;
            text = pack_memory(text, capacity, 1);
        }
        n += fread(text + n, 1, capacity - n, file);
    } while (n == capacity);
    if (ferror(file)) {
        pack_fail_os("%s", path);
        free(text);
        text = NULL;
    } else {
        text[n] = '\0';
    }
    fclose(file);
    *out_n = n;
    return text;
}

static bool read_label(const char *text, float *out) {
    char *end = NULL;
    *out = (float)strtod(text, &end); /* rounded twice, as Python does */
    return end != text && *end == '\0' && isfinite(*out);
}

/* Cuts the line at its tabs and takes it in. */
static int add_line(const char *path, uint64_t line, char *text, pack_list *list) {
    char *cells[2] = {text, strrchr(text, '\t')}, *end = NULL;
    if (!cells[1] || strlen(text) == 0)
        return pack_fail("%s: line %" PRIu64 " is not ID TAB LABEL TAB PATH", path, line);
    *cells[1]++ = '\0';
    pack_item *item = &list->items[list->n];
    item->path = cells[1];
    errno = 0;
    item->id = strtoull(text, &end, 10);
    if (end == text || *text == '-' || errno || (*end != '\t' && *end != '\0'))
        return pack_fail("%s: line %" PRIu64 ": '%s' is no id", path, line, text);
    uint32_t n = 0;
    for (char *p = end; *p; n++) {
        char *cell = p + 1, *tab = strchr(cell, '\t');
        if (tab) *tab = '\0';
        if (list->n > 0 && n == list->n_labels) { /* one too many */
            n++;
            break;
        }
        if (list->n == 0) list->labels = pack_memory(list->labels, n + 1, sizeof(float));
        if (!read_label(cell, &list->labels[list->n * list->n_labels + n]))
            return pack_fail("%s: line %" PRIu64 ": label '%s' is no number", path, line, cell);
        p = tab ? tab : cell + strlen(cell);
        if (tab) *p = '\t';
    }
    if (list->n == 0) list->n_labels = n;
    if (n == 0 || n != list->n_labels || !*item->path) {
        return pack_fail("%s: line %" PRIu64 ": %u labels, %u are expected", path, line, n,
                         list->n_labels ? list->n_labels : 1);
    }
    list->n++;
    return PACK_DONE;
}

int pack_list_load(const char *path, pack_list *out) {
    size_t n = 0;
    *out = (pack_list){.text = load_text(path, &n), .hash = 0xcbf29ce484222325u};
    if (!out->text) return PACK_FAILED;
    uint64_t lines = 1, line = 0;
    for (size_t i = 0; i < n; i++) {
        out->hash = (out->hash ^ (uint8_t)out->text[i]) * 0x100000001b3u;
        lines += out->text[i] == '\n';
    }
    if (strlen(out->text) != n) return pack_fail("%s: is no text: it holds zero bytes", path);
    out->items = pack_memory(NULL, lines, sizeof(*out->items));
    const bool mark = strncmp(out->text, "\xef\xbb\xbf", 3) == 0; /* of some editors */
    for (char *p = out->text + (mark ? 3 : 0); p;) {
        char *text = p, *newline = strchr(p, '\n');
        line++;
        p = newline ? newline + 1 : NULL;
        if (newline) *newline = '\0';
        if (newline > text && newline[-1] == '\r') newline[-1] = '\0';
        if (!*text) continue;
        const int status = add_line(path, line, text, out);
        if (status != PACK_DONE) return status;
        if (out->n == 1)
            out->labels = pack_memory(out->labels, lines * out->n_labels, sizeof(float));
    }
    return out->n == 0 ? pack_fail("%s: names no file", path) : PACK_DONE;
}

void pack_list_free(pack_list *list) {
    free(list->text);
    free(list->items);
    free(list->labels);
    *list = (pack_list){0};
}

/* ---- making ---------------------------------------------------------------------------------- */

static int by_text(const void *a, const void *b) {
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* The place of the name's first folder among the classes. */
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

static int write_list(const iter_description *desc, const char *folder, int64_t seed, FILE *out) {
    size_t skip = strlen(folder);
    while (skip > 0 && folder[skip - 1] == '/')
        skip--;
    uint64_t *order = make_order(desc->n_files, seed);
    int status = PACK_DONE;
    for (uint64_t i = 0; i < desc->n_files && status == PACK_DONE; i++) {
        const char *name = desc->files[order[i]].path + skip;
        name += strspn(name, "/");
        const int32_t label = class_of(name, desc);
        if (strpbrk(name, "\t\n")) {
            status = pack_fail("%s: its name cannot stand in a list", name);
        } else {
            fprintf(out, "%" PRIu64 "\t%d.000000\t%s\n", i, label, name);
        }
    }
    free(order);
    return status;
}

int pack_cmd_list(int n_args, char **args) {
    const char *words[2] = {NULL, NULL}, *ext = "jpg;jpeg;png";
    int64_t seed = -1;
    bool no_labels = false;
    int n_words = 0;
    const pack_option rows[] = {{"shuffle", PACK_NUMBER, &seed, 0, INT64_MAX},
                                {"ext", PACK_TEXT, &ext, 0, 0},
                                {"no-labels", PACK_FLAG, &no_labels, 0, 0},
                                {NULL, PACK_FLAG, NULL, 0, 0}};
    int status = pack_options(n_args, args, rows, words, 2, &n_words);
    if (status != PACK_DONE) return status;
    if (n_words == 0) return pack_usage("list: a folder is needed");
    if (strpbrk(words[0], "\"\\") || strpbrk(ext, "\"\\&"))
        return pack_usage("list: '%s': quotes and backslashes cannot be named here", words[0]);

    iter_error err = {.status = ITER_OK};
    iter_dataset *dataset = NULL;
    char *spec = pack_text("folder:\"%s\"?ext=%s%s", words[0], ext, no_labels ? "&labels=no" : "");
    const iter_status opened = iter_dataset_open(spec, NULL, &dataset, &err);
    free(spec);
    if (opened < 0) return pack_fail("%s", err.message);
    FILE *out = words[1] ? fopen(words[1], "w") : stdout;
    if (!out) {
        status = pack_fail_os("%s", words[1]);
    } else {
        status = write_list(iter_dataset_describe(dataset), words[0], seed, out);
        if ((ferror(out) | (words[1] ? fclose(out) : fflush(out))) && status == PACK_DONE)
            status = pack_fail_os("%s", words[1] ? words[1] : "standard output");
    }
    iter_dataset_unref(dataset);
    return status;
}

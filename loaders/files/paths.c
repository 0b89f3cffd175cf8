/*
 * paths.c - see paths.h.
 *
 * Braces are those of bash, without steps and letters: a range counts up or down; if an end begins
 * with 0, all numbers are as wide as the wider end. Matches of "*" come in the order of their
 * bytes, whatever the locale, so that an index means the same sample everywhere.
 */
#include "loaders/files/paths.h"

#include <errno.h>
#include <fnmatch.h>
#include <glob.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "iter/core/alloc.h"
#include "iter/core/error.h"
#include "iter/remote/client.h"
#include "iter/remote/url.h"
#include "loaders/files/file.h"
#include "loaders/formats/index_cache.h"

#define PATHS_MAX      10000000u
#define BRACES_MAX     32 /* braces in one path, one within another or one after another */
#define DIGITS_MAX     18
#define PATH_MAX_BYTES 4096

iter_status iter__paths_add(iter__paths *paths, char *name, iter_error *err) {
    if (name && paths->n == paths->capacity) {
        const uint64_t capacity = paths->capacity ? 2 * paths->capacity : 16;
        char **names = iter__realloc(paths->names, (size_t)capacity * sizeof(*names));
        if (names) {
            paths->names = names;
            paths->capacity = capacity;
        } else {
            iter__free(name);
            name = NULL;
        }
    }
    if (!name) return iter__fail(err, ITER_ENOMEM, "no memory for the names of files");
    paths->names[paths->n++] = name;
    return ITER_OK;
}

void iter__paths_free(iter__paths *paths) {
    for (uint64_t i = 0; i < paths->n; i++)
        iter__free(paths->names[i]);
    iter__free(paths->names);
    memset(paths, 0, sizeof(*paths));
}

static int by_name(const void *a, const void *b) {
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static void sort_from(iter__paths *paths, uint64_t first) {
    if (paths->n > first)
        qsort(paths->names + first, (size_t)(paths->n - first), sizeof(char *), by_name);
}

/* ---- folders and patterns -------------------------------------------------------------------- */

static bool ends_with(const char *name, const char *ending) {
    const size_t n = strlen(name), m = strlen(ending);
    return name[0] != '.' && n > m && strcmp(name + n - m, ending) == 0;
}

typedef struct shards {
    iter__paths *paths;
    const char *folder;
    const char *ending; /* of their names; or the pattern that they match */
} shards;

/* A list of objects has their sizes, so they need no look. */
static iter_status add_listed(iter__paths *paths, const char *folder, const iter__entry *entry,
                              iter_error *err) {
    char *path = iter__path_join(folder, entry->name);
    if (path && entry->kind == ITER_ENTRY_FILE)
        iter__remote_saw(iter__remote_of(path), path, entry->bytes);
    return iter__paths_add(paths, path, err);
}

static iter_status add_shard(void *user, const iter__entry *entry, iter_error *err) {
    const shards *s = user;
    if (!ends_with(entry->name, s->ending)) return ITER_OK;
    return add_listed(s->paths, s->folder, entry, err);
}

static iter_status add_folder(iter__paths *paths, const char *folder, const char *ending,
                              iter_error *err) {
    const uint64_t first = paths->n;
    shards s = {paths, folder, ending};
    iter_status status = iter__folder_list(folder, add_shard, &s, err);
    if (status == ITER_OK && paths->n == first)
        status = iter__fail(err, ITER_EIO, "%s: has no file *%s", folder, ending);
    sort_from(paths, first);
    return status;
}

/* A URL whose last part is a pattern. */
static iter_status add_match(void *user, const iter__entry *entry, iter_error *err) {
    const shards *s = user;
    if (entry->kind != ITER_ENTRY_FILE || ends_with(entry->name, ITER_INDEX_ENDING) ||
        fnmatch(s->ending, entry->name, FNM_PERIOD) != 0)
        return ITER_OK;
    return add_listed(s->paths, s->folder, entry, err);
}

static iter_status add_remote_matches(iter__paths *paths, const char *pattern, iter_error *err) {
    const uint64_t first = paths->n;
    const char *base = iter__path_base(pattern);
    char *folder = iter__strf("%.*s", (int)(base - pattern), pattern);
    if (!folder) return iter__fail(err, ITER_ENOMEM, "no memory for the names of files");
    iter_status status = ITER_OK;
    if (strpbrk(folder, "*?[")) {
        status = iter__fail(err, ITER_EINVAL,
                            "%s: only the last part of a URL may have '*', '?' and '['", pattern);
    } else {
        shards s = {paths, folder, base};
        status = iter__folder_list(folder, add_match, &s, err);
    }
    iter__free(folder);
    if (status == ITER_OK && paths->n == first)
        status = iter__fail(err, ITER_EIO, "%s: no file matches", pattern);
    sort_from(paths, first);
    return status;
}

static iter_status add_matches(iter__paths *paths, const char *pattern, iter_error *err) {
    char text[128];
    const uint64_t first = paths->n;
    iter_status status = ITER_OK;
    glob_t found;
    memset(&found, 0, sizeof(found));
    const int answer = glob(pattern, GLOB_NOSORT, NULL, &found);
    if (answer == GLOB_NOMATCH) {
        status = iter__fail(err, ITER_EIO, "%s: no file matches", pattern);
    } else if (answer == GLOB_NOSPACE) {
        status = iter__fail(err, ITER_ENOMEM, "%s: no memory for the files that match", pattern);
    } else if (answer != 0) {
        status =
            iter__fail(err, ITER_EIO, "%s: %s", pattern, iter__os_error(errno, text, sizeof(text)));
    }
    for (size_t i = 0; i < found.gl_pathc && status == ITER_OK; i++) {
        if (!ends_with(iter__path_base(found.gl_pathv[i]), ITER_INDEX_ENDING))
            status = iter__paths_add(paths, iter__strdup(found.gl_pathv[i]), err);
    }
    globfree(&found);
    if (status == ITER_OK && paths->n == first)
        status = iter__fail(err, ITER_EIO, "%s: no file matches", pattern);
    sort_from(paths, first);
    return status;
}

/* To ask what a URL is takes a request. One whose last part has a dot is taken for a file. */
static iter_status add_url(iter__paths *paths, const char *url, const char *ending,
                           iter_error *err) {
    const char *base = iter__path_base(url);
    if (strpbrk(base, "*?[") && iter__url_is_s3(url)) return add_remote_matches(paths, url, err);
    char *name = iter__remote_hide(iter__remote_of(url), url); /* messages have it, too */
    if (!name || strchr(base, '.') || !iter__path_is_folder(name))
        return iter__paths_add(paths, name, err);
    const iter_status status = add_folder(paths, name, ending, err);
    iter__free(name);
    return status;
}

/* Adds a path without braces. */
static iter_status add_plain(iter__paths *paths, const char *path, const char *ending,
                             iter_error *err) {
    if (iter__url_is(path)) return add_url(paths, path, ending, err);
    if (iter__path_is_folder(path)) return add_folder(paths, path, ending, err);
    if (strpbrk(path, "*?[") && !iter__path_exists(path)) return add_matches(paths, path, err);
    return iter__paths_add(paths, iter__strdup(path), err);
}

/* ---- braces ---------------------------------------------------------------------------------- */

/* The '}' that belongs to the '{' at `open`, or NULL. */
static const char *brace_end(const char *open) {
    int depth = 0;
    for (const char *p = open; *p; p++) {
        depth += (*p == '{') - (*p == '}');
        if (depth == 0) return p;
    }
    return NULL;
}

/* The comma that ends the choice at `p`, or `end`. */
static const char *choice_end(const char *p, const char *end) {
    int depth = 0;
    for (; p < end; p++) {
        depth += (*p == '{') - (*p == '}');
        if (*p == ',' && depth == 0) break;
    }
    return p;
}

/* Digits up to `end`; returns how many, 0 if there is anything else. */
static int read_digits(const char *p, const char *end, uint64_t *out) {
    if (end - p < 1 || end - p > DIGITS_MAX) return 0;
    *out = 0;
    for (const char *q = p; q < end; q++) {
        if (*q < '0' || *q > '9') return 0;
        *out = 10 * *out + (uint64_t)(*q - '0');
    }
    return (int)(end - p);
}

typedef struct range {
    uint64_t first, last;
    int width; /* 0 = as many digits as the number has */
} range;

/* "000..012" between p and end. */
static bool read_range(const char *p, const char *end, range *out) {
    const char *dots = p;
    while (dots + 1 < end && !(dots[0] == '.' && dots[1] == '.'))
        dots++;
    if (dots + 1 >= end) return false;
    const int a = read_digits(p, dots, &out->first), b = read_digits(dots + 2, end, &out->last);
    const bool padded = (a > 1 && *p == '0') || (b > 1 && dots[2] == '0');
    out->width = !padded ? 0 : a > b ? a : b;
    return a > 0 && b > 0;
}

static iter_status expand(iter__paths *paths, const char *path, const char *ending, int depth,
                          iter_error *err);

/* Replaces the text from `open` to `close`, then expands the rest of the braces. */
static iter_status expand_with(iter__paths *paths, const char *path, const char *open,
                               const char *close, const char *choice, size_t choice_bytes,
                               const char *ending, int depth, iter_error *err) {
    char *text =
        iter__strf("%.*s%.*s%s", (int)(open - path), path, (int)choice_bytes, choice, close + 1);
    if (!text) return iter__fail(err, ITER_ENOMEM, "no memory for the names of files");
    const iter_status status = expand(paths, text, ending, depth + 1, err);
    iter__free(text);
    return status;
}

static iter_status expand_range(iter__paths *paths, const char *path, const char *open,
                                const char *close, const range *r, const char *ending, int depth,
                                iter_error *err) {
    const uint64_t n = (r->first < r->last ? r->last - r->first : r->first - r->last) + 1;
    if (n > PATHS_MAX) return iter__fail(err, ITER_EINVAL, "%s: the range is too large", path);
    for (uint64_t i = 0; i < n; i++) {
        const uint64_t value = r->first < r->last ? r->first + i : r->first - i;
        char *number = iter__strf("%0*llu", r->width, (unsigned long long)value);
        if (!number) return iter__fail(err, ITER_ENOMEM, "no memory for the names of files");
        const iter_status status =
            expand_with(paths, path, open, close, number, strlen(number), ending, depth, err);
        iter__free(number);
        ITER_TRY(status);
    }
    return ITER_OK;
}

/* Expands the first brace of the path that means anything, then the rest, by recursion. */
static iter_status expand(iter__paths *paths, const char *path, const char *ending, int depth,
                          iter_error *err) {
    if (depth > BRACES_MAX) return iter__fail(err, ITER_EINVAL, "%s: too many braces", path);
    if (paths->n > PATHS_MAX) return iter__fail(err, ITER_EINVAL, "%s: too many files", path);
    for (const char *open = strchr(path, '{'); open; open = strchr(open + 1, '{')) {
        const char *close = brace_end(open);
        range r;
        if (!close) continue;
        if (read_range(open + 1, close, &r))
            return expand_range(paths, path, open, close, &r, ending, depth, err);
        if (choice_end(open + 1, close) == close) continue; /* no choice: kept as text */
        for (const char *p = open + 1; p <= close; p = choice_end(p, close) + 1) {
            ITER_TRY(expand_with(paths, path, open, close, p, (size_t)(choice_end(p, close) - p),
                                 ending, depth, err));
        }
        return ITER_OK;
    }
    return add_plain(paths, path, ending, err);
}

iter_status iter__paths_expand(const char *path, const char *ending, iter__paths *out,
                               iter_error *err) {
    if (strlen(path) > PATH_MAX_BYTES)
        return iter__fail(err, ITER_EINVAL, "a path of %zu bytes is too long", strlen(path));
    if (!iter__url_is(path) && iter__path_exists(path)) return add_plain(out, path, ending, err);
    const uint64_t first = out->n;
    ITER_TRY(expand(out, path, ending, 0, err));
    if (out->n > first)
        iter__remote_look_ahead(iter__remote_of(out->names[first]),
                                (const char *const *)out->names + first, out->n - first);
    return ITER_OK;
}

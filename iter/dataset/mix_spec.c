/*
 * mix_spec.c - the sources of a mix as text.
 *
 *     list   "{" entry { ";" entry } "}", or a file with an entry in each line
 *     entry  [ [ name "=" ] [ weight ] blank ] dataset
 *
 * A line of a file that begins with '#' is a comment. Quotes and braces inside an entry hide its
 * separators.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "iter/core/alloc.h"
#include "iter/core/error.h"
#include "iter/dataset/mix.h"
#include "iter/spec/options.h"

#define SOURCES_MAX 32768
#define FILE_MAX    ((size_t)64 << 20)

static bool is_blank(char c) {
    return c == ' ' || c == '\t' || c == '\r';
}

/* The end of the entry that begins at `at`: a separator outside of quotes and braces, or `end`. */
static char *entry_end(char *at, char *end, const char *separators) {
    int depth = 0;
    bool quoted = false;
    for (; at < end; at++) {
        if (quoted && *at == '\\' && at + 1 < end) {
            at++;
            continue;
        }
        quoted ^= *at == '"';
        if (quoted) continue;
        depth += (*at == '{') - (*at == '}');
        if (depth == 0 && strchr(separators, *at)) return at;
    }
    return end;
}

/* Adds an entry; `text` is its own and may be written. */
static iter_status add_entry(iter__mix_list *list, char *text, iter_error *err) {
    const int32_t n = list->n;
    if (n == SOURCES_MAX) return iter__fail(err, ITER_EINVAL, "more than %d sources", SOURCES_MAX);
    if ((n & (n - 1)) == 0) { /* its room is full at powers of two */
        iter__mix_entry *more =
            iter__realloc(list->entries, (size_t)(n ? 2 * n : 1) * sizeof(*more));
        if (!more) return iter__fail(err, ITER_ENOMEM, "out of memory");
        list->entries = more;
    }
    iter__mix_entry entry = {0};
    char *word = text + strcspn(text, " \t:={\"");
    char *name_end = *word == '=' && word > text ? word : NULL;
    char *number = name_end ? name_end + 1 : text;
    char *blank = number + strcspn(number, " \t");
    /* without a name, the first word is a weight only if it is a number */
    const char after = *blank;
    *blank = 0;
    const bool is_number = iter__parse_number(number, &entry.weight);
    if (name_end && *number && !is_number)
        return iter__fail(err, ITER_EINVAL,
                          "source %d: '%s' is no weight; expected NAME=WEIGHT FORMAT:PATH", n + 1,
                          number);
    *blank = after;
    char *spec = text;
    if (name_end || is_number) {
        if (is_number && !(entry.weight > 0))
            return iter__fail(err, ITER_EINVAL, "source %d: its weight must be above 0", n + 1);
        for (spec = blank; is_blank(*spec);)
            spec++;
    }
    if (!strchr(spec, ':'))
        return iter__fail(err, ITER_EINVAL,
                          "source %d: expected [NAME=][WEIGHT] FORMAT:PATH, got '%.80s'", n + 1,
                          text);
    if (name_end) *name_end = 0;
    entry.name = name_end ? iter__strdup(text) : NULL;
    entry.spec = iter__strdup(spec);
    list->entries[list->n++] = entry;
    if (!entry.spec || (name_end && !entry.name))
        return iter__fail(err, ITER_ENOMEM, "out of memory");
    return ITER_OK;
}

static iter_status parse_entries(char *at, char *end, const char *separators, bool comments,
                                 iter__mix_list *out, iter_error *err) {
    while (at < end) {
        char *stop = entry_end(at, end, separators);
        char *last = stop;
        while (at < last && (is_blank(*at) || *at == '\n'))
            at++;
        while (last > at && (is_blank(last[-1]) || last[-1] == '\n'))
            last--;
        *last = 0;
        if (*at && !(comments && *at == '#')) ITER_TRY(add_entry(out, at, err));
        at = stop + 1;
    }
    if (out->n > 0) return ITER_OK;
    return iter__fail(err, ITER_EINVAL, "no source; expected {web=0.7 tokens:a.idx; ...}");
}

/* The whole file as text; the caller frees it. */
static iter_status read_list(const char *path, char **out, size_t *out_n, iter_error *err) {
    char text[128];
    *out = NULL;
    FILE *file = fopen(path, "rbe");
    if (!file)
        return iter__fail(err, ITER_EIO, "%s: %s", path, iter__os_error(errno, text, sizeof(text)));
    size_t n = 0, room = 0;
    iter_status status = ITER_OK;
    for (;;) {
        if (n + 1 >= room) {
            room = room ? 2 * room : 4096;
            char *more = room > FILE_MAX ? NULL : iter__realloc(*out, room);
            if (!more) {
                status = iter__fail(err, ITER_ENOMEM, "%s: too large for a list of sources", path);
                break;
            }
            *out = more;
        }
        const size_t got = fread(*out + n, 1, room - 1 - n, file);
        if (got == 0) break;
        n += got;
    }
    if (status == ITER_OK && ferror(file))
        status = iter__fail(err, ITER_EIO, "%s: cannot be read", path);
    fclose(file);
    if (status == ITER_OK && memchr(*out, 0, n))
        status =
            iter__fail(err, ITER_EFORMAT, "%s: is not a text with a source in each line", path);
    *out_n = n;
    return status;
}

iter_status iter__mix_parse(const char *path, iter__mix_list *out, iter_error *err) {
    char *text = NULL;
    size_t n = strlen(path);
    const bool braced = n >= 2 && path[0] == '{' && path[n - 1] == '}';
    iter_status status = ITER_OK;
    if (braced) {
        text = iter__strdup(path);
        if (!text) status = iter__fail(err, ITER_ENOMEM, "out of memory");
    } else {
        status = read_list(path, &text, &n, err);
    }
    if (status == ITER_OK)
        status = braced ? parse_entries(text + 1, text + n - 1, ";\n", false, out, err)
                        : parse_entries(text, text + n, "\n", true, out, err);
    iter__free(text);
    return status;
}

void iter__mix_list_free(iter__mix_list *list) {
    for (int32_t i = 0; i < list->n; i++) {
        iter__free(list->entries[i].name);
        iter__free(list->entries[i].spec);
    }
    iter__free(list->entries);
    *list = (iter__mix_list){0};
}

/*
 * row_set.c - see row_set.h.
 *
 * A file is read in parts of 1 MiB, several at once if it is large and there are cores. No part
 * knows whether it begins inside quotation marks, so each lists its line feeds twice: those after
 * an even number of its own marks, and the others. Then the parts are taken in order. The marks of
 * all parts before decide which of the two lists ends rows.
 *
 * A mark that is never closed would hide all rows after it. So when a row is longer than max_bytes
 * and still inside, or the file ends inside, that row ends at its first line feed, and the search
 * goes on after that. Two such rows are max_bytes apart, so no byte is read more than a few times.
 */
#include "loaders/tables/row_set.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "iter/core/alloc.h"
#include "iter/core/arith.h"
#include "iter/core/error.h"
#include "iter/core/machine.h"
#include "iter/core/parallel.h"
#include "loaders/files/file.h"
#include "loaders/formats/index_cache.h"
#include "loaders/tables/row_scan.h"

#define PART_BYTES      ((size_t)1 << 20)
#define CHUNK_BYTES     ((size_t)1 << 15)
#define LIST_PLACES     ((size_t)1 << 17)
#define PARTS_MAX       4
#define PARALLEL_BYTES  ((uint64_t)16 << 20) /* of a file that is worth threads */
#define COUNT_BYTES_MAX ((uint64_t)64 << 20)

/* ---- Parts of a file ------------------------------------------------------------------------- */

typedef struct part {
    uint64_t offset;
    size_t n;          /* bytes read */
    size_t n_scanned;  /* of them; fewer if the lists are full */
    uint8_t *bytes;    /* [part_bytes] */
    uint32_t *list[2]; /* [list_places] line feeds after an even, and an odd number of marks */
    size_t n_list[2];
    bool odd; /* the number of marks */
    iter_status status;
    iter_error error;
} part;

typedef struct scanner {
    iter__row_set *set;
    iter__data_file file;
    size_t part_bytes, list_places; /* less than PART_BYTES and LIST_PLACES if the file is small */
    uint32_t n_parts;
    part parts[PARTS_MAX];
    uint64_t at;        /* all before was searched */
    uint64_t row;       /* where the current row begins, <= at */
    uint64_t n_lines;   /* line feeds before `at` */
    uint64_t n_skipped; /* rows that still come before the first sample */
    uint64_t clear;     /* no line feed is between `row` and this */
    bool inside;        /* at `at` */
    uint8_t first;      /* the byte at `row`, if that is before `at` */
} scanner;

static void scan_part(void *arg, uint32_t i) {
    const scanner *s = arg;
    part *p = (part *)&s->parts[i];
    p->offset = s->at + i * PART_BYTES;
    p->n = p->n_scanned = p->n_list[0] = p->n_list[1] = 0;
    p->odd = false;
    p->status = ITER_OK;
    if (p->offset >= s->file.bytes) return;
    const size_t n = (size_t)iter__min_u64(PART_BYTES, s->file.bytes - p->offset);
    p->status = iter__file_read_at(&s->file, p->offset, p->bytes, n, &p->n, &p->error);
    if (p->status < 0) return;
    while (p->n_scanned < p->n && p->n_list[0] + CHUNK_BYTES <= s->list_places &&
           p->n_list[1] + CHUNK_BYTES <= s->list_places) {
        const size_t from = p->n_scanned, chunk = iter__min_size(CHUNK_BYTES, p->n - from);
        uint32_t *outer = p->list[p->odd] + p->n_list[p->odd];
        uint32_t *inner = p->list[!p->odd] + p->n_list[!p->odd];
        size_t n_outer = 0, n_inner = 0;
        const bool odd = iter__row_scan(p->bytes + from, chunk, s->set->rule.quotes, outer,
                                        &n_outer, inner, &n_inner);
        for (size_t k = 0; k < n_outer; k++)
            outer[k] += (uint32_t)from;
        for (size_t k = 0; k < n_inner; k++)
            inner[k] += (uint32_t)from;
        p->n_list[p->odd] += n_outer;
        p->n_list[!p->odd] += n_inner;
        p->odd ^= odd;
        p->n_scanned += chunk;
    }
}

static void scanner_close(scanner *s) {
    iter__file_close(&s->file);
    for (uint32_t i = 0; i < s->n_parts; i++) {
        iter__free(s->parts[i].bytes);
        iter__free(s->parts[i].list[0]);
        iter__free(s->parts[i].list[1]);
    }
}

static iter_status scanner_open(scanner *s, iter__row_set *set, iter_error *err) {
    const iter_file *file = &set->spans.files[set->spans.n_done];
    *s = (scanner){.set = set, .n_skipped = set->rule.n_skipped};
    ITER_TRY(iter__file_open(file->path, &s->file, err));
    s->part_bytes = (size_t)iter__min_u64(PART_BYTES, s->file.bytes + 1);
    s->list_places = (size_t)iter__min_u64(LIST_PLACES, s->file.bytes + CHUNK_BYTES);
    const uint32_t cores = iter__cores("/proc", "/sys/fs/cgroup");
    const uint32_t n_parts = s->file.bytes < PARALLEL_BYTES ? 1 : iter__min_u32(cores, PARTS_MAX);
    for (; s->n_parts < n_parts; s->n_parts++) {
        part *p = &s->parts[s->n_parts];
        p->bytes = iter__alloc(s->part_bytes, 1);
        p->list[0] = iter__alloc(s->list_places, sizeof(uint32_t));
        p->list[1] = iter__alloc(s->list_places, sizeof(uint32_t));
        if (p->bytes && p->list[0] && p->list[1]) continue;
        s->n_parts++;
        scanner_close(s);
        return iter__fail(err, ITER_ENOMEM, "%s: no memory to find its rows", s->file.path);
    }
    return ITER_OK;
}

/* ---- Beginnings ------------------------------------------------------------------------------ */

/* Sets *out to the first byte of text. Errors: EIO, EFORMAT (not text of bytes). */
static iter_status skip_mark(const iter__data_file *file, uint64_t *out, iter_error *err) {
    const char *path = file->path;
    uint8_t head[4] = {0};
    size_t n = 0;
    ITER_TRY(iter__file_read_at(file, 0, head, sizeof(head), &n, err));
    *out = n >= 3 && memcmp(head, "\xef\xbb\xbf", 3) == 0 ? 3 : 0;
    if (n >= 2 && (memcmp(head, "\xff\xfe", 2) == 0 || memcmp(head, "\xfe\xff", 2) == 0))
        return iter__fail(err, ITER_EFORMAT, "%s: is UTF-16, expected UTF-8 or ASCII", path);
    if (n >= 2 && memcmp(head, "\x1f\x8b", 2) == 0)
        return iter__fail(err, ITER_EFORMAT,
                          "%s: is gzipped; rows are read where they lie, so unpack it first", path);
    return ITER_OK;
}

iter_status iter__row_set_open(iter__row_set *set, const char *path, const char *ending,
                               iter_error *err) {
    ITER_TRY(iter__span_set_open(&set->spans, path, ending, err));
    set->first_mark = iter__alloc((size_t)set->spans.paths.n + 1, sizeof(*set->first_mark));
    if (!set->first_mark) return iter__fail(err, ITER_ENOMEM, "%s: no memory for its files", path);
    return ITER_OK;
}

/* The first row of text[n], n > 0; *out_n = 0 if all is blank or a comment. False if the text ends
 * before the row. */
static bool first_row(const uint8_t *text, size_t n, const iter__row_rule *rule, size_t *out_from,
                      size_t *out_n) {
    size_t from = 0;
    *out_n = 0;
    while (from < n) {
        bool inside = false;
        size_t end = from;
        for (; end < n && (inside || text[end] != '\n'); end++)
            inside ^= rule->quotes && text[end] == '"';
        if (end == n) {
            *out_from = from;
            *out_n = n - from;
            return false;
        }
        const size_t length = end - from - (end > from && text[end - 1] == '\r');
        if (length > 0 && !(rule->comment && text[from] == rule->comment)) {
            *out_from = from;
            *out_n = length;
            return true;
        }
        from = end + 1;
    }
    return true;
}

static iter_status read_head(const iter__data_file *file, const iter__row_rule *rule, char **out,
                             size_t *out_n, iter_error *err) {
    const char *path = file->path;
    uint64_t from = 0;
    size_t n = 0, row = 0, n_row = 0;
    ITER_TRY(skip_mark(file, &from, err));
    const size_t most = (size_t)iter__min_u64(rule->max_bytes + 2, file->bytes - from);
    uint8_t *text = iter__alloc(most + 2, 1);
    if (!text) return iter__fail(err, ITER_ENOMEM, "%s: no memory for its first row", path);
    iter_status status = iter__file_read_at(file, from, text, most, &n, err);
    if (status == ITER_OK && !first_row(text, n, rule, &row, &n_row)) {
        if (from + n < file->bytes || (n_row && rule->quotes && memchr(text + row, '\n', n_row)))
            status = iter__fail(err, ITER_EFORMAT,
                                "%s: its first row does not end within %" PRIu64
                                " bytes; a quotation mark may be open, or max-row too small",
                                path, rule->max_bytes);
        if (n_row && text[row + n_row - 1] == '\r') n_row--;
        if (n_row && rule->comment && text[row] == rule->comment) n_row = 0;
    }
    if (status < 0) {
        iter__free(text);
        return status;
    }
    memmove(text, text + row, n_row);
    text[n_row] = '\n';
    text[n_row + 1] = 0;
    *out = (char *)text;
    *out_n = n_row;
    return ITER_OK;
}

iter_status iter__row_set_head(const iter__row_set *set, uint64_t f, const iter__row_rule *rule,
                               char **out, size_t *out_n, iter_error *err) {
    iter__data_file file;
    *out = NULL;
    *out_n = 0;
    ITER_TRY(iter__file_open(set->spans.files[f].path, &file, err));
    const iter_status status = read_head(&file, rule, out, out_n, err);
    iter__file_close(&file);
    return status;
}

/* ---- Rows ------------------------------------------------------------------------------------ */

static iter_status add_mark(iter__row_set *set, uint64_t offset, uint64_t n_lines, const char *path,
                            iter_error *err) {
    if (set->n_marks == set->marks_capacity) {
        const uint64_t capacity = set->marks_capacity ? 2 * set->marks_capacity : 16;
        iter__row_mark *marks = iter__realloc(set->marks, (size_t)capacity * sizeof(*marks));
        if (!marks) return iter__fail(err, ITER_ENOMEM, "%s: no memory for its index", path);
        set->marks = marks;
        set->marks_capacity = capacity;
    }
    set->marks[set->n_marks++] = (iter__row_mark){offset, n_lines};
    return ITER_OK;
}

/* The row ends before `end`, where its line feed is, or the file ends; `last` is the byte before.
 * */
static iter_status end_row(scanner *s, uint64_t end, uint8_t last, iter_error *err) {
    const iter__row_rule *rule = &s->set->rule;
    const uint64_t length = end - s->row;
    const bool blank = length == 0 || (length == 1 && last == '\r');
    const bool comment = length > 0 && rule->comment && s->first == rule->comment;
    if ((blank && !rule->keep_blank) || comment) return ITER_OK;
    if (s->n_skipped) {
        s->n_skipped--;
        return ITER_OK;
    }
    return iter__span_set_add(&s->set->spans, s->row, err);
}

/* Finds the first line feed in [from, to), else `to`. */
static iter_status look_back(const scanner *s, uint64_t from, uint64_t to, uint64_t *out_feed,
                             iter_error *err) {
    uint8_t *buffer = s->parts[0].bytes;
    *out_feed = to;
    for (uint64_t at = from; at < to;) {
        size_t n = (size_t)iter__min_u64(s->part_bytes, to - at);
        ITER_TRY(iter__file_read_at(&s->file, at, buffer, n, &n, err));
        if (n == 0) return ITER_OK;
        const uint8_t *feed = memchr(buffer, '\n', n);
        if (feed) {
            *out_feed = at + (uint64_t)(feed - buffer);
            return ITER_OK;
        }
        at += n;
    }
    return ITER_OK;
}

static iter_status count_lines(const iter__data_file *file, uint64_t from, uint64_t to,
                               uint8_t *buffer, size_t capacity, uint64_t *n_lines,
                               iter_error *err) {
    while (from < to) {
        size_t n = (size_t)iter__min_u64(capacity, to - from);
        ITER_TRY(iter__file_read_at(file, from, buffer, n, &n, err));
        if (n == 0) return ITER_OK;
        *n_lines += iter__row_scan_lines(buffer, n);
        from += n;
    }
    return ITER_OK;
}

/* Ends a row whose quotation never does at its first line feed. *out_done = it has none. */
static iter_status give_up(scanner *s, bool *out_done, iter_error *err) {
    iter__row_set *set = s->set;
    uint64_t feed = 0;
    ITER_TRY(look_back(s, iter__max_u64(s->row, s->clear), s->at, &feed, err));
    *out_done = feed == s->at;
    s->clear = s->at;
    if (*out_done) return ITER_OK;
    ITER_TRY(end_row(s, feed, 0, err));
    s->at = s->row = s->clear = feed + 1;
    s->inside = false;
    while (set->n_marks > 1 && set->marks[set->n_marks - 1].offset > s->at)
        set->n_marks--;
    const iter__row_mark mark = set->marks[set->n_marks - 1];
    s->n_lines = mark.n_lines;
    return count_lines(&s->file, mark.offset, s->at, s->parts[0].bytes, s->part_bytes, &s->n_lines,
                       err);
}

/* Takes the rows of a part, which begins at s->at. */
static iter_status take_part(scanner *s, const part *p, iter_error *err) {
    const uint32_t *feeds = p->list[s->inside];
    ITER_TRY(add_mark(s->set, s->at, s->n_lines, s->file.path, err));
    if (s->row == p->offset && p->n) s->first = p->bytes[0];
    for (size_t i = 0; i < p->n_list[s->inside]; i++) {
        ITER_TRY(
            end_row(s, p->offset + feeds[i], feeds[i] ? p->bytes[feeds[i] - 1] : s->first, err));
        s->row = p->offset + feeds[i] + 1;
        if (feeds[i] + 1 < p->n) s->first = p->bytes[feeds[i] + 1];
    }
    s->n_lines += p->n_list[0] + p->n_list[1];
    s->inside ^= p->odd;
    s->at += p->n_scanned;
    return ITER_OK;
}

/* Searches the next parts. */
static iter_status scan_more(scanner *s, iter_error *err) {
    const uint64_t left = (s->file.bytes - s->at + PART_BYTES - 1) / PART_BYTES;
    const uint32_t n = (uint32_t)iter__min_u64(s->n_parts, left);
    iter__parallel(n, scan_part, s);
    for (uint32_t i = 0; i < n; i++) {
        part *p = &s->parts[i];
        if (p->status < 0) return iter__fail(err, p->status, "%s", p->error.message);
        if (p->n == 0)
            return iter__fail(err, ITER_EIO, "%s: became shorter while its rows were searched",
                              s->file.path);
        ITER_TRY(take_part(s, p, err));
        if (p->n_scanned < PART_BYTES) return ITER_OK;
        if (s->inside && s->at - s->row > s->set->rule.max_bytes) return ITER_OK;
    }
    return ITER_OK;
}

static iter_status scan_rows(scanner *s, iter_error *err) {
    ITER_TRY(skip_mark(&s->file, &s->at, err));
    s->row = s->at;
    for (;;) {
        while (s->at < s->file.bytes && !(s->inside && s->at - s->row > s->set->rule.max_bytes))
            ITER_TRY(scan_more(s, err));
        if (!s->inside) break;
        bool done = false;
        ITER_TRY(give_up(s, &done, err));
        if (!done) continue;
        if (s->at == s->file.bytes) break;
        ITER_TRY(scan_more(s, err)); /* a long row without any line feed so far */
    }
    if (s->row < s->file.bytes) {
        uint8_t last = 0;
        size_t n = 0;
        ITER_TRY(iter__file_read_at(&s->file, s->file.bytes - 1, &last, 1, &n, err));
        ITER_TRY(end_row(s, s->file.bytes, last, err));
    }
    return iter__span_set_end(&s->set->spans, s->file.bytes, err);
}

static iter_status scan_file(iter__row_set *set, iter_error *err) {
    scanner s;
    ITER_TRY(scanner_open(&s, set, err));
    const iter_status status = scan_rows(&s, err);
    scanner_close(&s);
    return status;
}

/* What of the rule decides where rows begin. */
static uint64_t hash_of(const iter__row_rule *rule) {
    return (uint64_t)rule->quotes | (uint64_t)rule->keep_blank << 1 | (uint64_t)rule->comment << 8 |
           rule->n_skipped << 16 | rule->max_bytes << 20;
}

static iter_status cached_file(iter__row_set *set, uint32_t kind, iter_error *err) {
    iter__index_cache cache = {
        .kind = kind, .options = hash_of(&set->rule), .min_bytes = 1, .align = 1};
    bool there = false;
    iter_status status = iter__index_cache_load(&cache, &set->spans, &there, err);
    if (status == ITER_OK && there)
        status = add_mark(set, 0, 0, set->spans.files[set->spans.n_done - 1].path, err);
    if (status == ITER_OK && !there) {
        status = scan_file(set, err);
        if (status == ITER_OK) status = iter__index_cache_save(&cache, &set->spans, err);
    }
    iter__index_cache_free(&cache);
    return status;
}

/* While a file is scanned, a row set of its own has its marks, and the spans of the whole. */
typedef struct filling {
    const iter__row_rule *rule;
    int32_t index_cache;
    uint32_t kind;
    iter__row_set *found; /* [n]: the marks of each file */
} filling;

static iter_status add_file(void *user, iter__span_set *spans, uint64_t f, iter_error *err) {
    const filling *filled = user;
    iter__row_set *own = &filled->found[f];
    const iter_file *file = &spans->files[spans->n_done];
    own->rule = *filled->rule;
    own->spans = *spans;
    const iter_status status = iter__index_cache_wanted(filled->index_cache, file)
                                   ? cached_file(own, filled->kind, err)
                                   : scan_file(own, err);
    *spans = own->spans;
    return status;
}

/* Appends the marks of file `f`. */
static iter_status add_marks(iter__row_set *set, const iter__row_set *found, uint64_t f,
                             iter_error *err) {
    set->first_mark[f] = set->n_marks;
    for (uint64_t i = 0; i < found->n_marks; i++)
        ITER_TRY(add_mark(set, found->marks[i].offset, found->marks[i].n_lines,
                          set->spans.files[f].path, err));
    set->first_mark[f + 1] = set->n_marks;
    return ITER_OK;
}

iter_status iter__row_set_scan(iter__row_set *set, const iter__row_rule *rule, int32_t index_cache,
                               uint32_t kind, iter_error *err) {
    const uint64_t n = set->spans.paths.n;
    filling filled = {.rule = rule, .index_cache = index_cache, .kind = kind};
    filled.found = iter__alloc((size_t)n, sizeof(*filled.found));
    if (!filled.found)
        return iter__fail(err, ITER_ENOMEM, "%s: no memory for its index",
                          set->spans.files[0].path);
    set->rule = *rule;
    iter_status status = iter__span_set_fill_all(&set->spans, add_file, &filled, err);
    for (uint64_t f = 0; f < n; f++) {
        if (status == ITER_OK) status = add_marks(set, &filled.found[f], f, err);
        iter__free(filled.found[f].marks);
    }
    iter__free(filled.found);
    ITER_TRY(status);
    iter__span_set_trim(&set->spans);
    if (iter__span_set_count(&set->spans) > 0) return ITER_OK;
    return iter__fail(err, ITER_EFORMAT, "%s: %s no rows", set->spans.files[0].path,
                      n == 1 ? "has" : "and the files after it have");
}

/* ---- Places ---------------------------------------------------------------------------------- */

static uint64_t most_bytes(const iter__row_set *set) {
    return set->rule.max_bytes + 2;
}

iter_extent iter__row_set_locate(const iter__row_set *set, uint64_t index) {
    iter_extent x = iter__span_set_locate(&set->spans, index);
    x.size = iter__min_u64(x.size, most_bytes(set));
    return x;
}

uint64_t iter__row_set_largest(const iter__row_set *set) {
    return iter__max_u64(1, iter__min_u64(set->spans.largest, most_bytes(set)));
}

/* The last mark of a file at or before `offset`. */
static iter__row_mark mark_before(const iter__row_set *set, uint64_t f, uint64_t offset) {
    uint64_t first = set->first_mark[f], end = set->first_mark[f + 1];
    if (first == end) return (iter__row_mark){0, 0};
    while (end - first > 1) {
        const uint64_t middle = first + (end - first) / 2;
        if (set->marks[middle].offset <= offset)
            first = middle;
        else
            end = middle;
    }
    return set->marks[first].offset <= offset ? set->marks[first] : (iter__row_mark){0, 0};
}

void iter__row_set_place(const iter__row_set *set, uint64_t index, char *out, size_t capacity) {
    const iter_extent x = iter__span_set_locate(&set->spans, index);
    const char *path = set->spans.files[x.object].path;
    const iter__row_mark mark = mark_before(set, x.object, x.offset);
    uint8_t buffer[1 << 14];
    uint64_t n_lines = mark.n_lines;
    iter__data_file file;
    bool known = false;
    if (x.offset - mark.offset <= COUNT_BYTES_MAX &&
        iter__file_open(path, &file, NULL) == ITER_OK) {
        known = count_lines(&file, mark.offset, x.offset, buffer, sizeof(buffer), &n_lines, NULL) ==
                ITER_OK;
        iter__file_close(&file);
    }
    if (known)
        snprintf(out, capacity, "line %" PRIu64, n_lines + 1);
    else
        snprintf(out, capacity, "byte %" PRIu64, x.offset);
}

void iter__row_set_describe(const iter__row_set *set, iter_description *out) {
    iter__span_set_describe(&set->spans, out);
    out->max_extent_bytes[0] = iter__row_set_largest(set);
    out->index_bytes += set->marks_capacity * sizeof(*set->marks) +
                        (set->spans.paths.n + 1) * sizeof(*set->first_mark);
}

void iter__row_set_free(iter__row_set *set) {
    iter__span_set_free(&set->spans);
    iter__free(set->marks);
    iter__free(set->first_mark);
    memset(set, 0, sizeof(*set));
}

/*
 * image_list.c - see image_list.h.
 *
 * The text is loaded whole and cut into cells in place. One cell of each line is the file's name
 * and some are labels; the first line decides which. The first label decides whether labels are
 * numbers or names, and every later one must agree: else a single cell would turn all numbers into
 * names, and silently change every label. Numbers begin as integers; if one is not an integer, all
 * become floats. Names are kept in a table by their hash until the end, when they are sorted and
 * numbered.
 *
 * Source: RFC 4180 for quotes in .csv; MXNet, tools/im2rec.py for .lst.
 */
#include "loaders/formats/image_list.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "iter/core/alloc.h"
#include "iter/core/error.h"
#include "iter/core/hash.h"
#include "iter/remote/url.h"
#include "iter/spec/options.h"
#include "loaders/files/file.h"

#define LIST_BYTES_MAX ((uint64_t)1 << 34)
#define CELLS_MAX      256
#define NO_CELL        (-1)

typedef enum kind { KIND_LST, KIND_CSV, KIND_TXT } kind;
typedef enum label_mode { LABELS_OPEN, LABELS_NUMBERS, LABELS_NAMES } label_mode;

typedef struct reader {
    iter__list *list;
    const iter__list_options *options;
    const char *endings; /* of images */
    const char *path;
    char *folder; /* names are relative to it */
    kind kind;
    char *p, *end; /* the rest of the text; *end is NUL */
    uint64_t line; /* of the current row, from 1 */
    uint64_t next_line;
    int n_cells;
    char *cells[CELLS_MAX];
    int path_cell, n_labels, label_cells[CELLS_MAX];
    bool chosen; /* path_cell and labels are known */
    label_mode labels;
    char *first_label; /* a copy, for the error when another one differs in kind */
    /* names of classes by hash: place in list->class_names + 1; 0 = free */
    uint32_t *table;
    uint32_t table_size;
    uint64_t id_capacity;
} reader;

static iter_status fail_line(const reader *r, iter_error *err, const char *reason,
                             const char *what) {
    return iter__fail(err, ITER_EFORMAT, "%s: line %" PRIu64 ": %s%s%s%s", r->path, r->line, reason,
                      what ? " '" : "", what ? what : "", what ? "'" : "");
}

static iter_status no_memory(const reader *r, iter_error *err) {
    return iter__fail(err, ITER_ENOMEM, "%s: no memory for line %" PRIu64, r->path, r->line);
}

/* ---- cells ----------------------------------------------------------------------------------- */

/* Cuts off the line at r->p and moves past it; returns the line's end. */
static char *take_line(reader *r) {
    char *line = r->p, *newline = memchr(r->p, '\n', (size_t)(r->end - r->p));
    char *end = newline ? newline : r->end;
    r->p = newline ? newline + 1 : r->end;
    r->next_line++;
    if (end > line && end[-1] == '\r') end--;
    *end = '\0';
    return line;
}

static iter_status add_cell(reader *r, char *cell, iter_error *err) {
    if (r->n_cells == CELLS_MAX) return fail_line(r, err, "too many columns", NULL);
    r->cells[r->n_cells++] = cell;
    return ITER_OK;
}

static iter_status cut_at_tabs(reader *r, iter_error *err) {
    for (char *p = take_line(r); p;) {
        char *tab = strchr(p, '\t');
        if (tab) *tab++ = '\0';
        ITER_TRY(add_cell(r, p, err));
        p = tab;
    }
    return ITER_OK;
}

/* Moves the text of a quoted cell over its quotes. `p` is after the first one. Returns the place
 * after the last one, or NULL if it is missing. */
static char *unquote(reader *r, char *p, char **out_end) {
    char *to = p;
    for (; p < r->end; p++) {
        if (*p == '"' && *++p != '"') {
            *out_end = to;
            return p;
        }
        if (*p == '\n') r->next_line++;
        *to++ = *p;
    }
    return NULL;
}

/* A quoted cell may hold commas, quotes and line ends. */
static iter_status cut_csv(reader *r, iter_error *err) {
    for (;;) {
        char *cell = r->p, *end = r->p, *p = r->p;
        if (*p == '"') {
            p = unquote(r, ++cell, &end);
            if (p && p < r->end && *p == '\r' && p[1] == '\n') p++;
            if (!p || (p < r->end && *p != ',' && *p != '\n'))
                return fail_line(r, err, "a quote is not closed where the cell ends", NULL);
        } else {
            while (p < r->end && *p != ',' && *p != '\n')
                p++;
            end = p > cell && *p != ',' && p[-1] == '\r' ? p - 1 : p;
        }
        const bool more = p < r->end && *p == ',';
        if (p < r->end && *p == '\n') r->next_line++;
        r->p = p < r->end ? p + 1 : p;
        *end = '\0';
        ITER_TRY(add_cell(r, cell, err));
        if (!more) return ITER_OK;
    }
}

static bool is_blank(char c) {
    return c == ' ' || c == '\t';
}

static bool is_number(const char *text) {
    double value;
    return iter__parse_number(text, &value);
}

/* "name with blanks 1 2": cuts off numbers at the end, label_width of them, or all if that is 0;
 * the name is cell 0. */
static iter_status cut_txt(reader *r, iter_error *err) {
    char *line = take_line(r), *end = line + strlen(line), *labels[CELLS_MAX];
    const int64_t wanted = r->options->label_width ? r->options->label_width
                           : r->chosen             ? r->n_labels
                                                   : CELLS_MAX - 1;
    int n = 0;
    while (is_blank(*line))
        line++;
    for (;;) {
        while (end > line && is_blank(end[-1]))
            end--;
        *end = '\0';
        char *word = end;
        while (word > line && !is_blank(word[-1]))
            word--;
        if (word == line || n == wanted || n == CELLS_MAX - 1 || !is_number(word)) break;
        labels[n++] = word;
        end = word;
    }
    ITER_TRY(add_cell(r, line, err));
    while (n > 0)
        ITER_TRY(add_cell(r, labels[--n], err));
    return ITER_OK;
}

/* Reads the cells of the next line that is not empty; none at the text's end. */
static iter_status next_row(reader *r, iter_error *err) {
    do {
        r->n_cells = 0;
        if (r->p == r->end) return ITER_OK;
        r->line = r->next_line;
        ITER_TRY(r->kind == KIND_LST   ? cut_at_tabs(r, err)
                 : r->kind == KIND_CSV ? cut_csv(r, err)
                                       : cut_txt(r, err));
    } while (r->n_cells == 1 && r->cells[0][0] == '\0');
    return ITER_OK;
}

/* ---- columns --------------------------------------------------------------------------------- */

/* The column that text[n] means: a name in `header`, else a number from 1. */
static int find_column(const reader *r, const char *text, size_t n, bool header) {
    char number[32];
    double value = 0;
    for (int i = 0; i < r->n_cells && header; i++) {
        if (strlen(r->cells[i]) == n && memcmp(r->cells[i], text, n) == 0) return i;
    }
    if (n >= sizeof(number)) return NO_CELL;
    memcpy(number, text, n);
    number[n] = '\0';
    if (!iter__parse_number(number, &value)) return NO_CELL;
    for (int i = 0; i < r->n_cells; i++) {
        if (value == i + 1) return i;
    }
    return NO_CELL;
}

static iter_status choose_named(reader *r, bool header, iter_error *err) {
    const char *path = r->options->path_column, *labels = r->options->label_columns;
    if (path) {
        r->path_cell = find_column(r, path, strlen(path), header);
        if (r->path_cell < 0)
            return iter__fail(err, ITER_EINVAL, "%s: has no column '%s'", r->path, path);
    }
    for (const char *end; labels; labels = *end ? end + 1 : NULL) {
        end = strchrnul(labels, ';');
        const int cell = find_column(r, labels, (size_t)(end - labels), header);
        if (cell < 0 || r->n_labels == CELLS_MAX) {
            return iter__fail(err, ITER_EINVAL, "%s: has no column '%.*s'", r->path,
                              (int)(end - labels), labels);
        }
        r->label_cells[r->n_labels++] = cell;
    }
    return ITER_OK;
}

static int find_image(const reader *r) {
    for (int i = 0; i < r->n_cells; i++) {
        if (iter__list_is_image(r->cells[i], r->endings)) return i;
    }
    return NO_CELL;
}

/* True if the first row is a header: none of its cells looks like a file, and if path-column is a
 * number, that cell is no file either. */
static iter_status is_header(const reader *r, bool *out, iter_error *err) {
    const char *path = r->options->path_column;
    *out = find_image(r) < 0;
    const int cell =
        *out && path && is_number(path) ? find_column(r, path, strlen(path), false) : -1;
    if (cell < 0 || !r->cells[cell][0]) return ITER_OK;
    char *file = iter__strf("%s%s%s", r->cells[cell][0] == '/' ? "" : r->folder,
                            *r->folder ? "/" : "", r->cells[cell]);
    if (!file) return no_memory(r, err);
    *out = !iter__path_exists(file) ||
           /* "images" may name both a column and a folder */
           iter__path_is_folder(file);
    iter__free(file);
    return ITER_OK;
}

/* Columns of a .csv: those of the options; else the first that looks like a file, and all
 * others. */
static iter_status choose_csv(reader *r, iter_error *err) {
    bool header;
    ITER_TRY(is_header(r, &header, err));
    ITER_TRY(choose_named(r, header, err));
    if (header) ITER_TRY(next_row(r, err));
    if (r->path_cell < 0) r->path_cell = find_image(r);
    if (r->path_cell < 0 && r->n_cells > 0) {
        return fail_line(r, err,
                         "no cell ends like a file's name; name the column by path-column=", NULL);
    }
    if (r->options->label_columns) return ITER_OK;
    for (int i = 0; i < r->n_cells; i++) {
        if (i == r->path_cell) continue;
        if (!is_number(r->cells[i]) && r->n_cells > 2) {
            return fail_line(r, err,
                             "several columns, not all numbers: label-columns= names those wanted; "
                             "no number is",
                             r->cells[i]);
        }
        r->label_cells[r->n_labels++] = i;
    }
    return ITER_OK;
}

/* Decides by the first row which cells are the file and the labels. */
static iter_status choose_cells(reader *r, iter_error *err) {
    r->path_cell = NO_CELL;
    if (r->kind == KIND_CSV) {
        ITER_TRY(choose_csv(r, err));
    } else if (r->kind == KIND_LST) {
        if (r->n_cells < 2) return fail_line(r, err, "should be ID TAB LABEL TAB FILE", NULL);
        r->path_cell = r->n_cells - 1;
        for (int i = 1; i < r->n_cells - 1; i++)
            r->label_cells[r->n_labels++] = i;
        if (r->options->items && r->n_labels == 0) return fail_line(r, err, "has no label", NULL);
    } else {
        r->path_cell = 0;
        for (int i = 1; i < r->n_cells; i++)
            r->label_cells[r->n_labels++] = i;
    }
    if (r->options->label_width && r->n_labels != r->options->label_width && r->n_cells > 0) {
        return iter__fail(err, ITER_EFORMAT,
                          "%s: line %" PRIu64 ": has %d labels; label-width is %" PRId64, r->path,
                          r->line, r->n_labels, r->options->label_width);
    }
    r->list->label_width = r->n_labels;
    r->chosen = true;
    return ITER_OK;
}

/* ---- labels ---------------------------------------------------------------------------------- */

static bool is_integer(const char *text, int32_t *out) {
    char *end = NULL;
    const char *digits = text + (*text == '-' || *text == '+');
    if (strspn(digits, "0123456789") != strlen(digits) || strlen(digits) > 10) return false;
    const long value = strtol(text, &end, 10);
    *out = (int32_t)value;
    return *digits && value >= INT32_MIN && value <= INT32_MAX;
}

static void become_floats(iter__list *list, uint64_t n) {
    for (uint64_t i = 0; i < n; i++)
        list->labels.f32[i] = (float)list->labels.i32[i];
    list->dtype = ITER_F32;
}

/* Makes the table, or doubles it. */
static iter_status grow_table(reader *r, iter_error *err) {
    iter__list *list = r->list;
    const uint32_t size = r->table_size ? 2 * r->table_size : 256;
    uint32_t *table = iter__alloc(size, sizeof(*table));
    const char **names = iter__realloc(list->class_names, size / 2 * sizeof(*names));
    if (names) list->class_names = names;
    if (!table || !names) {
        iter__free(table);
        return no_memory(r, err);
    }
    for (int32_t c = 0; c < list->n_classes; c++) {
        uint32_t at = (uint32_t)iter__fnv1a_text(ITER_FNV_START, names[c]) & (size - 1);
        while (table[at])
            at = (at + 1) & (size - 1);
        table[at] = (uint32_t)c + 1;
    }
    iter__free(r->table);
    r->table = table;
    r->table_size = size;
    return ITER_OK;
}

/* The number of a class, in the order of appearance. */
static iter_status class_of(reader *r, const char *name, int32_t *out, iter_error *err) {
    iter__list *list = r->list;
    if (2 * (uint32_t)list->n_classes >= r->table_size) ITER_TRY(grow_table(r, err));
    const uint32_t mask = r->table_size - 1;
    uint32_t at = (uint32_t)iter__fnv1a_text(ITER_FNV_START, name) & mask;
    for (; r->table[at]; at = (at + 1) & mask) {
        *out = (int32_t)r->table[at] - 1;
        if (strcmp(list->class_names[*out], name) == 0) return ITER_OK;
    }
    const char *kept = iter__file_set_text(&list->files, "", name);
    if (!kept) return no_memory(r, err);
    *out = list->n_classes++;
    list->class_names[*out] = kept;
    r->table[at] = (uint32_t)*out + 1;
    return ITER_OK;
}

static iter_status fail_label(const reader *r, int cell, const char *text, const char *reason,
                              iter_error *err) {
    return iter__fail(err, ITER_EFORMAT, "%s: line %" PRIu64 ", column %d: label '%.80s' %s",
                      r->path, r->line, cell + 1, text, reason);
}

/* Digits with points, commas and underscores between them. */
static const char *skip_digits(const char *p) {
    if (*p < '0' || *p > '9') return p;
    return p + strspn(p, "0123456789_,.'");
}

/* True for text that is meant as a number but is not read as one: "nan", "1e400", "1_000", "0x10",
 * "0,5". */
static bool looks_like_number(const char *text) {
    const char *p = text + (*text == '-' || *text == '+');
    if (strcasecmp(p, "nan") == 0 || strcasecmp(p, "inf") == 0 || strcasecmp(p, "infinity") == 0)
        return true;
    if (p[0] == '0' && (p[1] == 'x' || p[1] == 'X') && p[2])
        return p[2 + strspn(p + 2, "0123456789abcdefABCDEF")] == '\0';
    const char *end = skip_digits(p + (*p == '.'));
    if (end == p + (*p == '.')) return false;
    if (*end == 'e' || *end == 'E') {
        const char *power = end + 1 + (end[1] == '-' || end[1] == '+');
        end = skip_digits(power);
        if (end == power) return false;
    }
    return *end == '\0';
}

#define ASK_NAMES "; label-names=yes takes labels as names of classes"

/* Decides by the first label: numbers or names? */
static iter_status choose_labels(reader *r, int cell, const char *text, bool number,
                                 iter_error *err) {
    if (r->options->label_names && r->n_labels > 1)
        return iter__fail(err, ITER_EINVAL, "%s: label-names= is for one label a line, this has %d",
                          r->path, r->n_labels);
    if (number && !r->options->label_names) {
        r->labels = LABELS_NUMBERS;
        return ITER_OK;
    }
    if (r->options->items || r->n_labels > 1)
        return fail_label(r, cell, text, "is not a number", err);
    if (!r->options->label_names && looks_like_number(text))
        return fail_label(r, cell, text, "is not a number that can be read" ASK_NAMES, err);
    r->labels = LABELS_NAMES;
    r->first_label = iter__strdup(text);
    return r->first_label ? grow_table(r, err) : no_memory(r, err);
}

static iter_status add_name(reader *r, int cell, uint64_t at, const char *text, bool number,
                            iter_error *err) {
    if (!r->options->label_names && (number || looks_like_number(text))) {
        char reason[160];
        (void)snprintf(reason, sizeof(reason), "is a number, the first one, '%.40s', is none%s",
                       r->first_label, ASK_NAMES);
        return fail_label(r, cell, text, reason, err);
    }
    return class_of(r, text, &r->list->labels.i32[at], err);
}

/* Stores label number `at` of all, from this cell of the line. */
static iter_status add_label(reader *r, uint64_t at, int cell, iter_error *err) {
    iter__list *list = r->list;
    double value = 0;
    char *text = r->cells[cell];
    while (is_blank(*text))
        text++;
    for (char *end = text + strlen(text); end > text && is_blank(end[-1]);)
        *--end = '\0';
    if (!*text) return fail_label(r, cell, text, "is empty", err);
    const bool number = iter__parse_number(text, &value);
    if (r->labels == LABELS_OPEN) ITER_TRY(choose_labels(r, cell, text, number, err));
    if (r->labels == LABELS_NAMES) return add_name(r, cell, at, text, number, err);
    if (!number) return fail_label(r, cell, text, "is not a number, the first one is", err);
    if (list->dtype == ITER_I32 && is_integer(text, &list->labels.i32[at])) return ITER_OK;
    if (!isfinite((float)value))
        return fail_label(r, cell, text, "is beyond a float of 32 bits", err);
    if (list->dtype == ITER_I32) become_floats(list, at);
    list->labels.f32[at] = (float)value;
    return ITER_OK;
}

static iter_status add_labels(reader *r, uint64_t sample, iter_error *err) {
    iter__list *list = r->list;
    const uint64_t need = (sample + 1) * (uint64_t)r->n_labels;
    if (need > list->capacity) {
        const uint64_t capacity = need < 2048 ? 4096 : 2 * need;
        void *labels = iter__realloc(list->labels.memory, (size_t)capacity * 4);
        if (!labels) return no_memory(r, err);
        list->labels.memory = labels;
        list->capacity = capacity;
    }
    for (int i = 0; i < r->n_labels; i++) {
        if (r->label_cells[i] >= r->n_cells) return fail_line(r, err, "has too few columns", NULL);
        ITER_TRY(
            add_label(r, sample * (uint64_t)r->n_labels + (uint64_t)i, r->label_cells[i], err));
    }
    return ITER_OK;
}

/* ---- names of classes, sorted ---------------------------------------------------------------- */

static int by_text(const void *a, const void *b) {
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* Numbers the classes by the order of their names. */
static iter_status sort_classes(reader *r, iter_error *err) {
    iter__list *list = r->list;
    const size_t n = (size_t)list->n_classes;
    const char **sorted = iter__alloc(n + 1, sizeof(*sorted));
    int32_t *number = iter__alloc(n + 1, sizeof(*number));
    if (!sorted || !number) {
        iter__free(sorted);
        iter__free(number);
        return no_memory(r, err);
    }
    memcpy(sorted, list->class_names, n * sizeof(*sorted));
    qsort(sorted, n, sizeof(*sorted), by_text);
    for (size_t c = 0; c < n; c++) {
        const char **found = bsearch(&list->class_names[c], sorted, n, sizeof(*sorted), by_text);
        number[c] = (int32_t)(found - sorted);
    }
    for (uint64_t i = 0; i < list->files.n; i++)
        list->labels.i32[i] = number[list->labels.i32[i]];
    iter__free(number);
    iter__free(list->class_names);
    list->class_names = sorted;
    return ITER_OK;
}

/* Digits alone, at most 2^64 - 1. */
static bool read_id(const char *text, uint64_t *out) {
    *out = 0;
    for (const char *p = text; *p; p++) {
        if (*p < '0' || *p > '9' || __builtin_mul_overflow(*out, 10, out) ||
            __builtin_add_overflow(*out, (uint64_t)(*p - '0'), out))
            return false;
    }
    return *text != '\0';
}

/* ---- the list -------------------------------------------------------------------------------- */

/* Keeps the id and the name as they are, for programs that pack the files. */
static iter_status add_item(reader *r, iter_error *err) {
    iter__list *list = r->list;
    const uint64_t n = list->files.n;
    const char *name = r->cells[r->path_cell];
    uint64_t id = 0;
    if (n == r->id_capacity) {
        const uint64_t capacity = n ? 2 * n : 1024;
        uint64_t *ids = iter__realloc(list->ids, (size_t)capacity * sizeof(*ids));
        if (!ids) return no_memory(r, err);
        list->ids = ids;
        r->id_capacity = capacity;
    }
    if (!read_id(r->cells[0], &id)) {
        return iter__fail(err, ITER_EFORMAT,
                          "%s: line %" PRIu64 ": '%.80s' is not an id, 0 to 2^64 - 1", r->path,
                          r->line, r->cells[0]);
    }
    if (!*name) return fail_line(r, err, "has no file", NULL);
    const char *path = iter__file_set_text(&list->files, "", name);
    if (!path) return no_memory(r, err);
    list->ids[n] = id;
    return iter__file_set_add(&list->files, path, 0, err);
}

static iter_status add_row(reader *r, iter_error *err) {
    iter__list *list = r->list;
    const int expected = r->kind == KIND_CSV ? r->path_cell + 1 : r->n_labels + 1;
    if (r->kind == KIND_LST) {
        if (r->n_cells != r->n_labels + 2) {
            return iter__fail(err, ITER_EFORMAT,
                              "%s: line %" PRIu64 ": has %d columns, the first line has %d",
                              r->path, r->line, r->n_cells, r->n_labels + 2);
        }
    } else if (r->n_cells < expected) {
        return iter__fail(err, ITER_EFORMAT, "%s: line %" PRIu64 ": has %d columns, %d are needed",
                          r->path, r->line, r->n_cells, expected);
    }
    ITER_TRY(add_labels(r, list->files.n, err));

    if (r->options->items) return add_item(r, err);
    iter__entry found;
    const char *path = iter__file_set_text(&list->files, r->folder, r->cells[r->path_cell]);
    if (!path) return no_memory(r, err);
    if (iter__url_is(path)) return iter__file_set_add_unseen(&list->files, path, err);
    iter__path_look(path, &found);
    return iter__file_set_add_found(&list->files, path, &found, err);
}

static iter_status read_rows(reader *r, iter_error *err) {
    ITER_TRY(next_row(r, err));
    if (r->n_cells > 0) ITER_TRY(choose_cells(r, err));
    while (r->n_cells > 0) {
        ITER_TRY(add_row(r, err));
        ITER_TRY(next_row(r, err));
    }
    if (r->list->files.n == 0) return iter__fail(err, ITER_EFORMAT, "%s: names no file", r->path);
    if (r->options->items) return ITER_OK;
    ITER_TRY(iter__file_set_look(&r->list->files, err));
    char said[256];
    (void)snprintf(said, sizeof(said), "; names are relative to %s%.160s",
                   r->options->root ? "root=" : "the list's folder, or to root=",
                   r->options->root ? r->options->root : "");
    ITER_TRY(iter__file_set_check(&r->list->files, r->path, said, err));
    return r->list->class_names ? sort_classes(r, err) : ITER_OK;
}

bool iter__list_is_image(const char *name, const char *endings) {
    const char *dot = strrchr(name, '.');
    if (!dot || dot == name) return false;
    const size_t n = strlen(++dot);
    for (const char *p = endings; p; p = strchr(p, ';') ? strchr(p, ';') + 1 : NULL) {
        p += *p == '.';
        if (strcspn(p, ";") == n && strncasecmp(p, dot, n) == 0) return n > 0;
    }
    return false;
}

static bool find_kind(const char *path, kind *out) {
    static const char *const endings[] = {".lst", ".csv", ".txt"};
    const size_t n = strlen(path);
    for (size_t i = 0; i < sizeof(endings) / sizeof(endings[0]); i++) {
        *out = (kind)i;
        if (n > 4 && strcasecmp(path + n - 4, endings[i]) == 0) return true;
    }
    *out = KIND_TXT;
    return false;
}

bool iter__list_is_one(const char *path) {
    kind found;
    return find_kind(path, &found);
}

iter_status iter__list_load(const char *path, const iter__list_options *options,
                            const char *endings, iter__list *out, iter_error *err) {
    char *text = NULL;
    size_t bytes = 0;
    memset(out, 0, sizeof(*out));
    out->dtype = ITER_I32;
    reader *r = iter__alloc(1, sizeof(*r));
    if (!r) return iter__fail(err, ITER_ENOMEM, "%s: no memory to read it", path);
    *r = (reader){.list = out, .options = options, .endings = endings, .path = path};
    r->next_line = 1;
    (void)find_kind(path, &r->kind);
    if (options->items) r->kind = KIND_LST;
    const char *base = iter__path_base(path);
    r->folder =
        options->root ? iter__strdup(options->root) : iter__strf("%.*s", (int)(base - path), path);
    iter_status status =
        r->folder ? iter__file_load(path, LIST_BYTES_MAX, &text, &bytes, err) : no_memory(r, err);
    if (status == ITER_OK && memchr(text, '\0', bytes))
        status = iter__fail(err, ITER_EFORMAT, "%s: is not text: it holds zero bytes", path);
    if (status == ITER_OK) {
        const bool mark = bytes >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0;
        if (options->items) out->hash = iter__fnv1a(ITER_FNV_START, text, bytes);
        r->p = text + (mark ? 3 : 0);
        r->end = text + bytes;
        status = read_rows(r, err);
    }
    iter__free(text);
    iter__free(r->folder);
    iter__free(r->first_label);
    iter__free(r->table);
    iter__free(r);
    return status;
}

void iter__list_free(iter__list *list) {
    iter__file_set_free(&list->files);
    iter__free(list->labels.memory);
    iter__free(list->class_names);
    iter__free(list->ids);
    memset(list, 0, sizeof(*list));
}

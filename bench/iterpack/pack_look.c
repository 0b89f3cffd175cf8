/*
 * pack_look.c - `iterpack verify` and `iterpack info`: every record of a file, one after the other.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "iterpack.h"
#include "pack_files.h"

typedef enum content { CONTENT_JPEG, CONTENT_PNG, CONTENT_EMPTY, CONTENT_OTHER, CONTENTS } content;

typedef struct look {
    uint64_t n, n_cut, n_bad, least, most, sum;
    uint64_t contents[CONTENTS];
    uint32_t least_labels, most_labels;
    float least_label, most_label;
} look;

static content content_of(const uint8_t *p, size_t n) {
    if (n == 0) return CONTENT_EMPTY;
    if (n >= 3 && memcmp(p, "\xff\xd8\xff", 3) == 0) return CONTENT_JPEG;
    if (n >= 8 && memcmp(p, "\x89PNG\r\n\x1a\n", 8) == 0) return CONTENT_PNG;
    return CONTENT_OTHER;
}

static float label_at(const pack_reader *reader, const pack_header *header, uint32_t i) {
    float label = header->label;
    if (header->flag) memcpy(&label, reader->payload + PACK_HEADER_BYTES + 4 * (size_t)i, 4);
    return label;
}

static void count(look *l, const pack_reader *reader, const pack_header *header, size_t begin) {
    const size_t n = reader->n - begin;
    const uint32_t n_labels = header->flag ? header->flag : 1;
    if (l->n == 0 || n < l->least) l->least = n;
    if (n > l->most) l->most = n;
    if (l->n == 0 || n_labels < l->least_labels) l->least_labels = n_labels;
    if (n_labels > l->most_labels) l->most_labels = n_labels;
    for (uint32_t i = 0; i < n_labels; i++) {
        const float label = label_at(reader, header, i);
        if ((l->n == 0 && i == 0) || label < l->least_label) l->least_label = label;
        if ((l->n == 0 && i == 0) || label > l->most_label) l->most_label = label;
    }
    l->sum += n;
    l->n_cut += reader->n_pieces > 1;
    l->contents[content_of(reader->payload + begin, n)]++;
    l->n++;
}

/* ---- verify ---------------------------------------------------------------------------------- */

/* The index, sorted by offset, beside the records as they come. */
typedef struct check {
    const char *path;
    pack_reader reader;
    pack_index index;
    bool has_index;
    uint64_t *order; /* of the index's lines */
    uint64_t n_seen; /* records */
    const pack_list *list;
    pack_files *files;
    uint64_t item;
    uint64_t n_bad;
} check;

static const uint64_t *sort_offsets;

static int by_offset(const void *a, const void *b) {
    const uint64_t x = sort_offsets[*(const uint64_t *)a], y = sort_offsets[*(const uint64_t *)b];
    return (x > y) - (x < y);
}

static int open_index(check *c) {
    char *idx = pack_idx_path(c->path);
    int status = PACK_DONE;
    c->has_index = access(idx, F_OK) == 0;
    if (c->has_index) status = pack_index_load(idx, &c->index);
    if (status == PACK_DONE && c->index.torn) {
        status = pack_fail("%s: its last line has no end", idx);
    }
    free(idx);
    c->order = pack_memory(NULL, c->index.n, sizeof(*c->order));
    for (uint64_t i = 0; i < c->index.n; i++)
        c->order[i] = i;
    sort_offsets = c->index.offsets;
    qsort(c->order, c->index.n, sizeof(*c->order), by_offset);
    return status;
}

static void wrong(check *c, const char *reason) {
    c->n_bad++;
    pack_fail("%s: record %" PRIu64 " at %" PRIu64 ": %s", c->path, c->n_seen, c->reader.offset,
              reason);
}

static void check_index(check *c, const pack_header *header) {
    char reason[160];
    if (!c->has_index) return;
    if (c->n_seen >= c->index.n) {
        wrong(c, "is not in the index");
        return;
    }
    const uint64_t line = c->order[c->n_seen];
    if (c->index.offsets[line] != c->reader.offset) {
        snprintf(reason, sizeof(reason),
                 "the index has offset %" PRIu64 " for it (line %" PRIu64 ")",
                 c->index.offsets[line], line + 1);
        wrong(c, reason);
    } else if (c->index.keys[line] != header->id && c->list) {
        snprintf(reason, sizeof(reason), "has id %" PRIu64 ", the index has key %" PRIu64,
                 header->id, c->index.keys[line]);
        wrong(c, reason);
    }
}

/* The record against the list's next item and its file. */
static void check_item(check *c, const pack_header *header, size_t begin) {
    const pack_list *list = c->list;
    if (!list) return;
    if (c->item == list->n) {
        wrong(c, "is one more than the list has");
        return;
    }
    const uint64_t i = c->item++;
    const uint32_t n_labels = header->flag ? header->flag : 1;
    pack_file file;
    pack_files_take(c->files, &file);
    if (header->id != list->items[i].id) wrong(c, "has another id than the list");
    if (n_labels != list->n_labels) {
        wrong(c, "has another number of labels than the list");
    } else {
        for (uint32_t k = 0; k < n_labels; k++) {
            const float a = label_at(&c->reader, header, k), b = list->labels[i * n_labels + k];
            if (memcmp(&a, &b, sizeof(a)) != 0) {
                wrong(c, "has another label than the list");
                break;
            }
        }
    }
    if (file.reason) {
        pack_fail("%s: %s", list->items[i].path, file.reason);
        c->n_bad++;
    } else if (file.n != c->reader.n - begin ||
               (file.n && memcmp(file.bytes, c->reader.payload + begin, file.n) != 0)) {
        wrong(c, "has other bytes than the file");
    }
}

static int verify_records(check *c) {
    char reason[160];
    for (bool more = true; more; c->n_seen += more) {
        pack_header header = {0};
        if (pack_reader_next(&c->reader, &more, reason, sizeof(reason)) != PACK_DONE) {
            wrong(c, reason);
            return PACK_FAILED;
        }
        if (!more) break;
        const size_t begin = pack_header_read(c->reader.payload, c->reader.n, &header);
        check_index(c, &header);
        if (begin == 0) {
            wrong(c, "is shorter than its header and labels");
        } else {
            check_item(c, &header, begin);
        }
    }
    if (c->has_index && c->index.n > c->n_seen) {
        c->n_bad++;
        pack_fail("%s: the index has %" PRIu64 " lines, the file %" PRIu64 " records", c->path,
                  c->index.n, c->n_seen);
    }
    return c->n_bad ? PACK_FAILED : PACK_DONE;
}

/* One file; *item is the list's next. */
static int verify_file(const char *path, const pack_list *list, pack_files *files, uint64_t *item) {
    check c = {.path = path, .list = list, .files = files, .item = *item, .reader.fd = -1};
    int status = open_index(&c);
    if (status == PACK_DONE) status = pack_reader_open(&c.reader, path);
    if (status == PACK_DONE) status = verify_records(&c);
    if (status == PACK_DONE) {
        printf("%s: %" PRIu64 " records%s%s\n", path, c.n_seen,
               c.has_index ? ", as in its index" : ", no index",
               list ? ", with labels and bytes as in the list" : "");
    }
    *item = c.item;
    pack_reader_close(&c.reader);
    pack_index_free(&c.index);
    free(c.order);
    return status;
}

int pack_cmd_verify(int n_args, char **args) {
    const char **words = pack_memory(NULL, (size_t)n_args, sizeof(*words));
    const char *list_path = NULL, *root = NULL;
    pack_list list = {0};
    pack_files *files = NULL;
    pack_image_options image = {0};
    pack_images *images = NULL;
    uint64_t item = 0;
    int n_words = 0;
    char *folder = NULL;
    const pack_option rows[] = {{"list", PACK_TEXT, &list_path, 0, 0},
                                {"root", PACK_TEXT, &root, 0, 0},
                                PACK_IMAGE_ROWS(&image),
                                {NULL, PACK_FLAG, NULL, 0, 0}};
    int status = pack_options(n_args, args, rows, words, n_args, &n_words);
    if (status == PACK_DONE && n_words == 0) status = pack_usage("verify: a .rec is needed");
    if (status == PACK_DONE && pack_image_wanted(&image) && !list_path)
        status = pack_usage("verify: --resize and its like belong to --list");
    if (status == PACK_DONE) status = pack_images_open(&image, &images);
    if (status == PACK_DONE && list_path) {
        const char *slash = strrchr(list_path, '/');
        folder = slash ? pack_text("%.*s/", (int)(slash - list_path), list_path) : pack_text(".");
        status = pack_list_load(list_path, &list);
        if (status == PACK_DONE)
            files = pack_files_start(&list, 0, list.n, root ? root : folder, 4, images);
    }
    int worst = status;
    for (int i = 0; i < n_words && status == PACK_DONE; i++) {
        const int one = verify_file(words[i], list_path ? &list : NULL, files, &item);
        if (one != PACK_DONE) worst = one;
    }
    if (worst == PACK_DONE && list_path && item < list.n)
        worst = pack_fail("%s: has %" PRIu64 " files, %" PRIu64 " records were found", list_path,
                          list.n, item);
    if (files) pack_files_stop(files);
    pack_images_close(images);
    pack_list_free(&list);
    free(folder);
    free(words);
    return worst;
}

/* ---- info ------------------------------------------------------------------------------------ */

static void print_look(const char *path, const look *l, uint64_t bytes) {
    static const char *const names[CONTENTS] = {"JPEG", "PNG", "empty", "other"};
    char *idx = pack_idx_path(path);
    printf("%s: %" PRIu64 " records, %" PRIu64 " bytes, %s index\n", path, l->n, bytes,
           access(idx, F_OK) == 0 ? "with" : "no");
    free(idx);
    if (l->n == 0) return;
    printf("  content  %" PRIu64 " to %" PRIu64 " bytes, %" PRIu64 " on average:", l->least,
           l->most, l->sum / l->n);
    for (int i = 0; i < CONTENTS; i++)
        if (l->contents[i]) printf(" %" PRIu64 " %s", l->contents[i], names[i]);
    printf("\n  labels   ");
    if (l->least_labels == l->most_labels) {
        printf("%u a record", l->most_labels);
    } else {
        printf("%u to %u a record", l->least_labels, l->most_labels);
    }
    printf(", %g to %g\n", (double)l->least_label, (double)l->most_label);
    if (l->n_cut)
        printf("  pieces   %" PRIu64 " records are cut: the magic stands in them\n", l->n_cut);
    if (l->n_bad) printf("  header   %" PRIu64 " records have none\n", l->n_bad);
}

static int info_file(const char *path) {
    pack_reader reader;
    look l = {0};
    char reason[160];
    bool more = true;
    int status = pack_reader_open(&reader, path);
    while (status == PACK_DONE && more) {
        pack_header header = {0};
        status = pack_reader_next(&reader, &more, reason, sizeof(reason));
        if (status != PACK_DONE) pack_fail("%s: %s", path, reason);
        if (status != PACK_DONE || !more) break;
        const size_t begin = pack_header_read(reader.payload, reader.n, &header);
        l.n_bad += begin == 0;
        if (begin == 0) header.flag = 0;
        count(&l, &reader, &header, begin);
    }
    if (status == PACK_DONE) print_look(path, &l, reader.bytes);
    pack_reader_close(&reader);
    return status;
}

int pack_cmd_info(int n_args, char **args) {
    const char **words = pack_memory(NULL, (size_t)n_args, sizeof(*words));
    const pack_option rows[] = {{NULL, PACK_FLAG, NULL, 0, 0}};
    int n_words = 0;
    int status = pack_options(n_args, args, rows, words, n_args, &n_words);
    if (status == PACK_DONE && n_words == 0) status = pack_usage("info: a .rec is needed");
    for (int i = 0; i < n_words && status == PACK_DONE; i++)
        status = info_file(words[i]);
    free(words);
    return status;
}

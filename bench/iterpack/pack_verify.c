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

typedef struct look {
    uint64_t n, n_cut, n_bad, least, most, sum;
    uint64_t contents[PACK_CONTENTS];
    uint32_t least_labels, most_labels;
    float least_label, most_label;
} look;

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
    l->contents[pack_content_of(reader->payload + begin, n)]++;
    l->n++;
}

/* ---- verify ---------------------------------------------------------------------------------- */

#define SHOWN 10 /* faults of a file */

/* The list beside the records of all files. */
typedef struct walk {
    const pack_list *list;
    pack_files *files;
    uint64_t item;   /* next */
    uint64_t *by_id; /* items, sorted by id and place */
    bool skip;       /* files that cannot be read may be missing */
    uint64_t n_left_out;
} walk;

/* The index, sorted by offset, beside the records as they come. */
typedef struct check {
    const char *path;
    pack_reader reader;
    pack_index index;
    bool has_index;
    uint64_t *order; /* of the index's lines */
    uint64_t n_seen; /* records */
    walk *walk;      /* NULL = no list */
    uint64_t n_bad, n_other_bytes, n_missing;
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

static void say_wrong(const check *c, const char *reason) {
    pack_fail("%s: record %" PRIu64 " at %" PRIu64 ": %s", c->path, c->n_seen, c->reader.offset,
              reason);
}

static void wrong(check *c, const char *reason) {
    if (c->n_bad++ < SHOWN) say_wrong(c, reason);
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
    } else if (c->index.keys[line] != header->id && c->walk) {
        snprintf(reason, sizeof(reason), "has id %" PRIu64 ", the index has key %" PRIu64,
                 header->id, c->index.keys[line]);
        wrong(c, reason);
    }
}

static const pack_item *sort_items;

static int by_id(const void *a, const void *b) {
    const uint64_t i = *(const uint64_t *)a, k = *(const uint64_t *)b;
    const uint64_t x = sort_items[i].id, y = sort_items[k].id;
    return x != y ? (x > y) - (x < y) : (i > k) - (i < k);
}

static void walk_start(walk *w) {
    w->by_id = pack_memory(NULL, w->list->n, sizeof(*w->by_id));
    for (uint64_t i = 0; i < w->list->n; i++)
        w->by_id[i] = i;
    sort_items = w->list->items;
    qsort(w->by_id, w->list->n, sizeof(*w->by_id), by_id);
}

/* The next item with this id; without one, the next item. */
static uint64_t find_item(const walk *w, uint64_t id) {
    uint64_t low = 0, high = w->list->n;
    if (w->list->items[w->item].id == id) return w->item;
    while (low < high) {
        const uint64_t middle = low + (high - low) / 2, item = w->by_id[middle];
        const uint64_t other = w->list->items[item].id;
        if (other < id || (other == id && item < w->item)) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    const bool found = low < w->list->n && w->list->items[w->by_id[low]].id == id;
    return found ? w->by_id[low] : w->item;
}

/* The list's next item is in no record: as it should be where its file cannot be read, if that is allowed. */
static bool may_be_missing(walk *w) {
    pack_file file;
    pack_files_take(w->files, &file);
    w->item++;
    if (!w->skip || !file.reason) return false;
    w->n_left_out++;
    return true;
}

static void pass_over(check *c) {
    const uint64_t i = c->walk->item;
    if (may_be_missing(c->walk)) return;
    c->n_missing++;
    if (c->n_bad++ < SHOWN)
        pack_fail("%s: item %" PRIu64 " of the list is in no record: %s", c->path, i + 1,
                  c->walk->list->items[i].path);
}

/* The id that says which item a record is of: the index's, if it has the record. */
static uint64_t id_of(const check *c, const pack_header *header) {
    if (c->n_seen >= c->index.n) return header->id;
    const uint64_t line = c->order[c->n_seen];
    return c->index.offsets[line] == c->reader.offset ? c->index.keys[line] : header->id;
}

static bool same_labels(const check *c, const pack_header *header, uint64_t item) {
    const pack_list *list = c->walk->list;
    for (uint32_t k = 0; k < list->n_labels; k++) {
        const float a = label_at(&c->reader, header, k),
                    b = list->labels[item * list->n_labels + k];
        if (memcmp(&a, &b, sizeof(a)) != 0) return false;
    }
    return true;
}

/* The record against its item of the list and that one's file; items in between are missing. */
static void check_item(check *c, const pack_header *header, size_t begin) {
    walk *w = c->walk;
    char reason[PACK_REASON_BYTES];
    if (w->item == w->list->n) {
        wrong(c, "is one more than the list has");
        return;
    }
    for (const uint64_t i = find_item(w, id_of(c, header)); w->item < i;)
        pass_over(c);
    const uint64_t i = w->item++;
    const pack_item *item = &w->list->items[i];
    pack_file file;
    pack_files_take(w->files, &file);
    if (header->id != item->id) wrong(c, "has another id than the list");
    if ((header->flag ? header->flag : 1) != w->list->n_labels) {
        wrong(c, "has another number of labels than the list");
    } else if (!same_labels(c, header, i)) {
        wrong(c, "has another label than the list");
    }
    if (file.reason) {
        if (c->n_bad++ < SHOWN) pack_fail("%s: %s", item->path, file.reason);
    } else if (file.n != c->reader.n - begin ||
               (file.n && memcmp(file.bytes, c->reader.payload + begin, file.n) != 0)) {
        c->n_other_bytes++;
        snprintf(reason, sizeof(reason), "has other bytes than the file %s", item->path);
        wrong(c, reason);
    }
}

/* What is behind many faults. */
static void sum_up(const check *c) {
    if (c->n_bad > SHOWN)
        pack_fail("%s: %" PRIu64 " faults, of which the first %d are shown", c->path, c->n_bad,
                  SHOWN);
    if (c->n_missing)
        pack_fail("%s: %" PRIu64 " items of the list are in no record: with --skip that is right "
                  "where their files cannot be read",
                  c->path, c->n_missing);
    if (c->n_other_bytes > c->n_seen / 2)
        pack_fail("%s: %" PRIu64 " of %" PRIu64
                  " records have other bytes than their files: was it "
                  "packed with other options (--resize, --center-crop, --gray, --quality, "
                  "--encoding), or another --root?",
                  c->path, c->n_other_bytes, c->n_seen);
}

static int verify_records(check *c) {
    char reason[160];
    bool more = true;
    for (; more; c->n_seen += more) {
        pack_header header = {0};
        if (pack_reader_next(&c->reader, &more, reason, sizeof(reason)) != PACK_DONE) {
            c->n_bad++;
            say_wrong(c, reason); /* always: it is why the rest is not looked at */
            break;
        }
        if (!more) break;
        const size_t begin = pack_header_read(c->reader.payload, c->reader.n, &header);
        check_index(c, &header);
        if (begin == 0) {
            wrong(c, "is shorter than its header and labels");
        } else if (c->walk) {
            check_item(c, &header, begin);
        }
    }
    if (!more && c->has_index && c->index.n > c->n_seen) {
        c->n_bad++;
        pack_fail("%s: the index has %" PRIu64 " lines, the file %" PRIu64 " records", c->path,
                  c->index.n, c->n_seen);
    }
    sum_up(c);
    return c->n_bad ? PACK_FAILED : PACK_DONE;
}

/* One file; a walk goes on from where it is. */
static int verify_file(const char *path, walk *w) {
    check c = {.path = path, .walk = w, .reader.fd = -1};
    int status = open_index(&c);
    if (status == PACK_DONE) status = pack_reader_open(&c.reader, path);
    if (status == PACK_DONE) status = verify_records(&c);
    if (status == PACK_DONE) {
        printf("%s: %" PRIu64 " records%s%s\n", path, c.n_seen,
               c.has_index ? ", as in its index" : ", no index",
               w ? ", with labels and bytes as in the list" : "");
    }
    pack_reader_close(&c.reader);
    pack_index_free(&c.index);
    free(c.order);
    return status;
}

/* What the list has behind the last record. */
static int verify_rest(walk *w, const char *list_path) {
    const uint64_t n_found = w->item - w->n_left_out;
    for (uint64_t i = w->item; w->skip && i < w->list->n; i++)
        if (!may_be_missing(w))
            return pack_fail("%s: item %" PRIu64 " is in no record, and its file can be read: %s",
                             list_path, i + 1, w->list->items[i].path);
    if (w->item < w->list->n)
        return pack_fail("%s: has %" PRIu64 " files, %" PRIu64 " records were found: with --skip "
                         "that is right where the other files cannot be read",
                         list_path, w->list->n, n_found);
    if (w->n_left_out)
        printf("%s: %" PRIu64 " files that cannot be read are left out\n", list_path,
               w->n_left_out);
    return PACK_DONE;
}

int pack_cmd_verify(int n_args, char **args) {
    const char **words = pack_memory(NULL, (size_t)n_args, sizeof(*words));
    const char *list_path = NULL, *root = NULL;
    pack_list list = {0};
    walk w = {.list = &list};
    pack_image_options image = {0};
    pack_images *images = NULL;
    int n_words = 0;
    char *folder = NULL;
    const pack_option rows[] = {{"list", PACK_TEXT, &list_path, 0, 0},
                                {"root", PACK_TEXT, &root, 0, 0},
                                {"skip", PACK_FLAG, &w.skip, 0, 0},
                                PACK_IMAGE_ROWS(&image),
                                {NULL, PACK_FLAG, NULL, 0, 0}};
    int status = pack_options(n_args, args, rows, words, n_args, &n_words);
    if (status == PACK_DONE && n_words == 0) status = pack_usage("verify: a .rec is needed");
    if (status == PACK_DONE && pack_image_wanted(&image) && !list_path)
        status = pack_usage("verify: --resize and its like belong to --list");
    if (status == PACK_DONE && w.skip && !list_path)
        status = pack_usage("verify: --skip belongs to --list");
    if (status == PACK_DONE) status = pack_images_open(&image, &images);
    if (status == PACK_DONE && list_path) {
        const char *slash = strrchr(list_path, '/');
        folder = slash ? pack_text("%.*s/", (int)(slash - list_path), list_path) : pack_text(".");
        status = pack_list_load(list_path, &list);
        if (status == PACK_DONE) {
            walk_start(&w);
            w.files = pack_files_start(&list, 0, list.n, root ? root : folder, 4, images);
        }
    }
    int worst = status;
    for (int i = 0; i < n_words && status == PACK_DONE; i++) {
        const int one = verify_file(words[i], list_path ? &w : NULL);
        if (one != PACK_DONE) worst = one;
    }
    if (worst == PACK_DONE && list_path) worst = verify_rest(&w, list_path);
    if (w.files) pack_files_stop(w.files);
    pack_images_close(images);
    pack_list_free(&list);
    free(w.by_id);
    free(folder);
    free(words);
    return worst;
}

/* ---- info ------------------------------------------------------------------------------------ */

static void print_look(const char *path, const look *l, uint64_t bytes) {
    static const char *const names[PACK_CONTENTS] = {"JPEG", "PNG", "empty", "other"};
    char *idx = pack_idx_path(path);
    printf("%s: %" PRIu64 " records, %" PRIu64 " bytes, %s index\n", path, l->n, bytes,
           access(idx, F_OK) == 0 ? "with" : "no");
    free(idx);
    if (l->n == 0) return;
    printf("  content  %" PRIu64 " to %" PRIu64 " bytes, %" PRIu64 " on average:", l->least,
           l->most, l->sum / l->n);
    for (int i = 0; i < PACK_CONTENTS; i++)
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

/*
 * pack_verify.c - `iterpack verify`: checks every record of a file, one after the other, and its
 * index.
 *
 * RecordIO has no checksums. Without a list, a fault shows only in the framing of a record (magic,
 * lengths, padding), in a contradiction to the index, and in a difference from all other records:
 * an id that is not the record's key, an id2 that is not zero. --decode adds the faults that an
 * image's decoder notices. A flipped bit in pixels or labels may still go unnoticed. Only a
 * comparison with a list and its files is certain.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "tools/iterpack/iterpack.h"
#include "tools/iterpack/pack_files.h"
#include "tools/iterpack/pack_remote.h"

#define SHOWN    10 /* reported faults per file */
#define UNLIKELY 10 /* a property of fewer than one record in so many is a fault */

/* The list, compared with the records of all files. */
typedef struct walk {
    const pack_list *list;
    pack_files *files;
    uint64_t item;   /* next */
    uint64_t *by_id; /* items, sorted by id and position */
    bool skip;       /* files that cannot be read may be missing */
    uint64_t n_left_out;
} walk;

/* Records that differ from most others. */
typedef struct odd {
    uint64_t n, record, offset; /* of the first */
} odd;

/* The index, sorted by offset, compared with the records in file order. */
typedef struct check {
    const char *path;
    pack_reader reader;
    pack_index index;
    bool has_index;
    uint64_t *order;     /* of the index's lines */
    uint64_t n_seen;     /* records */
    walk *walk;          /* NULL = no list */
    pack_image *decoder; /* NULL = contents are not decoded */
    uint64_t n_bad, n_other_bytes, n_missing;
    odd other_id, other_id2; /* differs from its key; from 0 */
} check;

static const uint64_t *sort_offsets;

static int by_offset(const void *a, const void *b) {
    const uint64_t x = sort_offsets[*(const uint64_t *)a], y = sort_offsets[*(const uint64_t *)b];
    return (x > y) - (x < y);
}

static int open_index(check *c) {
    char *idx = pack_idx_path(c->path);
    int status = PACK_DONE;
    c->has_index = iter__path_exists(idx);
    if (c->has_index) status = pack_index_load(idx, &c->index);
    if (status == PACK_DONE && c->index.torn) {
        status = pack_fail("%s: its last line is incomplete", idx);
    }
    free(idx);
    c->order = pack_memory(NULL, c->index.n, sizeof(*c->order));
    for (uint64_t i = 0; i < c->index.n; i++)
        c->order[i] = i;
    if (status == PACK_DONE) pack_warn_twice(c->path, c->index.keys, c->index.n);
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

static void note_odd(const check *c, odd *o) {
    if (o->n++ > 0) return;
    o->record = c->n_seen;
    o->offset = c->reader.offset;
}

static void say_odd(check *c, const odd *o, const char *reason) {
    if (o->n == 0 || o->n >= (c->n_seen + UNLIKELY - 1) / UNLIKELY) return;
    c->n_bad += o->n;
    pack_fail("%s: record %" PRIu64 " at %" PRIu64 ": %s, unlike the others (%" PRIu64
              " records are so)",
              c->path, o->record, o->offset, reason, o->n);
}

static void check_index(check *c) {
    char reason[160];
    const iter__record_header *header = &c->reader.header;
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
    } else if (c->index.keys[line] != header->id) {
        note_odd(c, &c->other_id);
    }
}

static const uint64_t *sort_ids;

static int by_id(const void *a, const void *b) {
    const uint64_t i = *(const uint64_t *)a, k = *(const uint64_t *)b;
    const uint64_t x = sort_ids[i], y = sort_ids[k];
    return x != y ? (x > y) - (x < y) : (i > k) - (i < k);
}

static void walk_start(walk *w) {
    w->by_id = pack_memory(NULL, w->list->n, sizeof(*w->by_id));
    for (uint64_t i = 0; i < w->list->n; i++)
        w->by_id[i] = i;
    sort_ids = w->list->list.ids;
    qsort(w->by_id, w->list->n, sizeof(*w->by_id), by_id);
}

/* The next item with this id; if there is none, the next item. */
static uint64_t find_item(const walk *w, uint64_t id) {
    uint64_t low = 0, high = w->list->n;
    if (pack_list_id(w->list, w->item) == id) return w->item;
    while (low < high) {
        const uint64_t middle = low + (high - low) / 2, item = w->by_id[middle];
        const uint64_t other = pack_list_id(w->list, item);
        if (other < id || (other == id && item < w->item)) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    const bool found = low < w->list->n && pack_list_id(w->list, w->by_id[low]) == id;
    return found ? w->by_id[low] : w->item;
}

/* Called if the list's next item is in no record. True if --skip allows that and its file cannot be
 * read. */
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
                  pack_list_path(c->walk->list, i));
}

/* The id that selects the record's item: the index's, if it has the record. */
static uint64_t id_of(const check *c) {
    const uint64_t id = c->reader.header.id;
    if (c->n_seen >= c->index.n) return id;
    const uint64_t line = c->order[c->n_seen];
    return c->index.offsets[line] == c->reader.offset ? c->index.keys[line] : id;
}

static bool same_labels(const check *c, uint64_t item) {
    const pack_list *list = c->walk->list;
    return memcmp(c->reader.labels, list->labels + item * list->n_labels,
                  list->n_labels * sizeof(float)) == 0;
}

/* Compares the record with its item of the list and the item's file. Items skipped on the way are
 * missing. */
static void check_item(check *c) {
    walk *w = c->walk;
    char reason[PACK_REASON_BYTES];
    const pack_reader *reader = &c->reader;
    if (w->item == w->list->n) {
        wrong(c, "is one more than the list has");
        return;
    }
    for (const uint64_t i = find_item(w, id_of(c)); w->item < i;)
        pass_over(c);
    const uint64_t i = w->item++;
    pack_file file;
    pack_files_take(w->files, &file);
    if (reader->header.id != pack_list_id(w->list, i)) wrong(c, "has another id than the list");
    if (reader->header.id2 != 0) wrong(c, "has an id2, which iterpack and im2rec leave 0");
    if (reader->n_labels != w->list->n_labels) {
        wrong(c, "has another number of labels than the list");
    } else if (!same_labels(c, i)) {
        wrong(c, "has another label than the list");
    }
    if (file.reason) {
        if (c->n_bad++ < SHOWN) pack_fail("%s: %s", pack_list_path(w->list, i), file.reason);
    } else if (file.n != reader->n_content ||
               (file.n && memcmp(file.bytes, reader->content, file.n) != 0)) {
        c->n_other_bytes++;
        snprintf(reason, sizeof(reason), "has other bytes than the file %.400s",
                 pack_list_path(w->list, i));
        wrong(c, reason);
    }
}

static void check_content(check *c) {
    const uint8_t *none = NULL;
    size_t n = 0;
    bool warned = false;
    char reason[PACK_REASON_BYTES], text[PACK_REASON_BYTES + 32];
    if (pack_image_make(c->decoder, c->reader.content, c->reader.n_content, &none, &n, &warned,
                        reason, sizeof(reason)))
        return;
    snprintf(text, sizeof(text), "does not decode: %s", reason);
    wrong(c, text);
}

/* Sums up faults that were not printed one by one. */
static void sum_up(const check *c) {
    if (c->n_bad > SHOWN)
        pack_fail("%s: %" PRIu64 " faults, of which the first %d are shown", c->path, c->n_bad,
                  SHOWN);
    if (c->n_missing)
        pack_fail("%s: %" PRIu64 " items of the list are in no record: with --skip that is right "
                  "if their files cannot be read",
                  c->path, c->n_missing);
    if (c->n_other_bytes > c->n_seen / 2)
        pack_fail("%s: %" PRIu64 " of %" PRIu64
                  " records have other bytes than their files: was it "
                  "packed with other options (--resize, --center-crop, --gray, --quality, "
                  "--encoding), or another --root?",
                  c->path, c->n_other_bytes, c->n_seen);
}

static void check_record(check *c) {
    const pack_reader *reader = &c->reader;
    check_index(c);
    if (!reader->filled) wrong(c, "is not padded with zeros");
    if (reader->header.id2 != 0 && !c->walk) note_odd(c, &c->other_id2);
    if (!reader->has_header) {
        wrong(c, "is shorter than its header and labels");
        return;
    }
    if (c->walk) check_item(c);
    if (c->decoder) check_content(c);
}

static int verify_records(check *c) {
    iter_error err;
    bool more = true;
    for (; more; c->n_seen += more) {
        if (pack_reader_next(&c->reader, &more, &err) != PACK_DONE) {
            c->n_bad++;
            /* always printed: the rest of the file is not checked after it */
            pack_fail("%s", err.message);
            break;
        }
        if (more) check_record(c);
    }
    if (!more && c->has_index && c->index.n > c->n_seen) {
        c->n_bad++;
        pack_fail("%s: the index has %" PRIu64 " lines, the file %" PRIu64 " records", c->path,
                  c->index.n, c->n_seen);
    }
    say_odd(c, &c->other_id, "its id is not its key in the index");
    say_odd(c, &c->other_id2, "its id2 is not 0");
    sum_up(c);
    return c->n_bad ? PACK_FAILED : PACK_DONE;
}

/* Reports what was checked, and what was not. */
static void say_good(const check *c) {
    const char *index = c->has_index ? ", as in its index" : ", no index";
    const char *decoded = c->decoder ? ", which all decode" : "";
    if (c->walk) {
        pack_line("%s: %" PRIu64 " records%s, with labels and bytes as in the list%s", c->path,
                  c->n_seen, index, decoded);
    } else if (c->decoder) {
        pack_line("%s: %" PRIu64 " records%s%s; labels were not compared (--list)", c->path,
                  c->n_seen, index, decoded);
    } else {
        pack_line("%s: %" PRIu64 " records%s; labels and contents were not checked (--decode, "
                  "--list)",
                  c->path, c->n_seen, index);
    }
}

/* Checks one file; a walk continues from its position. */
static int verify_file(const char *path, walk *w, pack_image *decoder) {
    check c = {.path = path, .walk = w, .decoder = decoder};
    int status = open_index(&c);
    if (status == PACK_DONE) status = pack_reader_open(&c.reader, path);
    if (status == PACK_DONE) status = verify_records(&c);
    if (status == PACK_DONE) say_good(&c);
    pack_reader_close(&c.reader);
    pack_index_free(&c.index);
    free(c.order);
    return status;
}

/* Checks the list's items after the last record. */
static int verify_rest(walk *w, const char *list_path) {
    const uint64_t n_found = w->item - w->n_left_out;
    for (uint64_t i = w->item; w->skip && i < w->list->n; i++)
        if (!may_be_missing(w))
            return pack_fail("%s: item %" PRIu64 " is in no record, and its file can be read: %s",
                             list_path, i + 1, pack_list_path(w->list, i));
    if (w->item < w->list->n)
        return pack_fail("%s: has %" PRIu64 " files, %" PRIu64 " records were found: with --skip "
                         "that is right if the other files cannot be read",
                         list_path, w->list->n, n_found);
    if (w->n_left_out)
        pack_line("%s: %" PRIu64 " files that cannot be read are left out", list_path,
                  w->n_left_out);
    return PACK_DONE;
}

/* The options of the command line, and everything that is opened for them. */
typedef struct verify {
    const char *list_path, *root;
    bool decode;
    walk walk;
    pack_list list;
    pack_image_options image;
    pack_images *images, *check; /* check: of --decode */
    pack_image *decoder;
    char *folder;
} verify;

static int check_options(const verify *v, int n_words) {
    if (n_words == 0) return pack_usage("verify: a .rec is needed");
    if (pack_image_wanted(&v->image) && !v->list_path)
        return pack_usage("verify: --resize and similar options belong to --list");
    if (v->walk.skip && !v->list_path) return pack_usage("verify: --skip belongs to --list");
    return PACK_DONE;
}

static int verify_open(verify *v) {
    char reason[PACK_REASON_BYTES];
    if (v->decode) {
        v->check = pack_images_to_check();
        v->decoder = pack_image_start(v->check, reason, sizeof(reason));
        if (!v->decoder) return pack_fail("--decode: %s", reason);
    }
    int status = pack_images_open(&v->image, &v->images);
    if (status != PACK_DONE || !v->list_path) return status;
    v->folder = pack_folder_of(v->list_path);
    status = pack_list_load(v->list_path, &v->list);
    if (status != PACK_DONE) return status;
    walk_start(&v->walk);
    const char *root = v->root ? v->root : v->folder;
    v->walk.files =
        pack_files_start(&v->list, 0, v->list.n, root, pack_files_threads(root, false), v->images);
    return PACK_DONE;
}

static void verify_close(verify *v) {
    if (v->walk.files) pack_files_stop(v->walk.files);
    pack_image_stop(v->decoder);
    pack_images_close(v->check);
    pack_images_close(v->images);
    pack_list_free(&v->list);
    free(v->walk.by_id);
    free(v->folder);
}

int pack_cmd_verify(int n_args, char **args) {
    const char **words = pack_memory(NULL, (size_t)n_args, sizeof(*words));
    verify v = {.walk.list = &v.list};
    bool anonymous = false; /* pack_remote_open() has read it */
    int n_words = 0;
    const pack_option rows[] = {{"list", PACK_TEXT, &v.list_path, 0, 0},
                                {"root", PACK_TEXT, &v.root, 0, 0},
                                {"skip", PACK_FLAG, &v.walk.skip, 0, 0},
                                {"decode", PACK_FLAG, &v.decode, 0, 0},
                                PACK_ANONYMOUS_ROW(&anonymous),
                                PACK_IMAGE_ROWS(&v.image),
                                {NULL, PACK_FLAG, NULL, 0, 0}};
    int status = pack_options(n_args, args, rows, words, n_args, &n_words);
    if (status == PACK_DONE) status = check_options(&v, n_words);
    if (status == PACK_DONE) status = verify_open(&v);
    int worst = status;
    for (int i = 0; i < n_words && status == PACK_DONE; i++) {
        const int one = verify_file(words[i], v.list_path ? &v.walk : NULL, v.decoder);
        if (one != PACK_DONE) worst = one;
    }
    if (worst == PACK_DONE && v.list_path) worst = verify_rest(&v.walk, v.list_path);
    verify_close(&v);
    free(words);
    return worst;
}

/*
 * pack_pack.c - `iterpack pack`: packs a list's files into .rec and .idx.
 *
 * Both are written under other names, *.part, and renamed when they are complete and synced, the
 * index first: so a .rec always has its index. Every 64 MiB and every few seconds the records are
 * synced; only then their lines are added to the index, which is synced, too. So after an
 * interruption of any kind, each whole line of the index has its record on the disk, and the next
 * run continues after the last one. *.part.of keeps the list, options and root of the run, and what
 * was counted so far.
 *
 * A lock on the output (pack_lock.c) keeps a second run away from the parts of the first.
 *
 * To s3:// both are uploaded while they are made, and become visible when they are complete, the
 * index first. An interrupted upload is dropped, so there is nothing to resume, and no lock.
 *
 * A file's id is its key in the index. A single label is written in the header, several after it,
 * as im2rec does with --pack-label.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "iter/remote/url.h"
#include "tools/iterpack/iterpack.h"
#include "tools/iterpack/pack_files.h"
#include "tools/iterpack/pack_image.h"
#include "tools/iterpack/pack_lock.h"
#include "tools/iterpack/pack_remote.h"

#define SYNC_BYTES   ((uint64_t)64 << 20)
#define SYNC_SECONDS 10
#define ROOT_BYTES   (PATH_MAX + 1)

static atomic_bool interrupted; /* by a signal; threads that upload look at it, too */

static void on_signal(int number) {
    (void)number;
    atomic_store_explicit(&interrupted, true, memory_order_relaxed);
}

static bool is_interrupted(void *unused) {
    (void)unused;
    return atomic_load_explicit(&interrupted, memory_order_relaxed);
}

/* Counters of a shard, over all runs that made it. */
typedef struct tally {
    uint64_t n_records, n_skipped, n_warned;
    uint64_t n_empty, n_other, first_odd; /* written as they are, although they are not images */
} tally;

typedef struct pack_run {
    const pack_list *list;
    const char *list_path, *root;
    char *whole_root; /* absolute, without links: the same however it was spelled */
    int64_t threads, shards, sync_seconds, part_mib;
    bool skip, restart;
    bool to_url; /* the output is uploaded */
    pack_image_options image;
    pack_images *images; /* NULL = files as they are */
    uint64_t n_written, n_resumed;
    tally all;         /* of all shards */
    bool lost_a_tally; /* a run ended between the index and its tally */
} pack_run;

/* One .rec in progress. */
typedef struct shard {
    char *rec, *idx, *of; /* of: describes the work that made the parts */
    uint64_t first, last; /* of the list */
    uint64_t next;        /* item to continue with */
    uint64_t synced;      /* bytes of the .rec */
    pack_writer data, index;
    char *lines; /* of the index, for records that are not synced so far */
    size_t n_lines, capacity;
    time_t synced_at;
    tally so_far;
} shard;

/* ---- names ----------------------------------------------------------------------------------- */

static char *shard_name(const char *out, int64_t k, int64_t n) {
    const size_t length = strlen(out);
    if (n == 1) return pack_text("%s", out);
    return pack_text("%.*s-%05" PRId64 ".rec", (int)(length - 4), out, k);
}

static char *part_of(const char *path) {
    return pack_text("%s.part", path);
}

/* ---- resuming -------------------------------------------------------------------------------- */

/* The work that the parts of a shard were begun with. */
typedef struct mark {
    bool there, same;
    tally so_far;
    char root[ROOT_BYTES]; /* if not "": everything is the same except the root, which is this */
} mark;

/* Everything that decides a shard's bytes: a line that ends with the root, which may have any
 * name. */
static char *fingerprint(const pack_run *run, const shard *s, bool skip, const char *root) {
    char *image = pack_image_text(&run->image);
    char *text = pack_text("iterpack 3 list %016" PRIx64 " items %" PRIu64 " %" PRIu64
                           " skip %d, %s, root %s\n",
                           run->list->list.hash, s->first, s->last, skip, image, root);
    free(image);
    return text;
}

static bool is_of(const pack_run *run, const shard *s, bool skip, const char *root,
                  const char *text) {
    char *expected = fingerprint(run, s, skip, root);
    const bool same = strcmp(text, expected) == 0;
    free(expected);
    return same;
}

/* Removes the tally from the end of a mark's text. */
static void cut_tally(char *text, tally *out) {
    char *line = strstr(text, "\nso far ");
    *out = (tally){.n_records = 0};
    if (!line) return;
    tally t;
    if (sscanf(line,
               "\nso far %" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu64,
               &t.n_records, &t.n_skipped, &t.n_warned, &t.n_empty, &t.n_other, &t.first_odd) == 6)
        *out = t;
    line[1] = '\0';
}

/* Whether `path` has the same fingerprint. Parts begun without --skip match a run with it, since
 * nothing was left out so far. If there is no mark, PACK_DONE with `there` false. */
static int read_mark(const pack_run *run, const shard *s, const char *path, mark *out) {
    char text[ROOT_BYTES + 512] = "";
    *out = (mark){.there = false};
    FILE *file = fopen(path, "r");
    if (!file) return errno == ENOENT ? PACK_DONE : pack_fail_os("%s", path);
    const size_t n = fread(text, 1, sizeof(text) - 1, file);
    fclose(file);
    text[n] = '\0';
    cut_tally(text, &out->so_far);
    out->there = true;
    const char *root = strstr(text, ", root ");
    if (!root) return PACK_DONE;
    snprintf(out->root, sizeof(out->root), "%.*s", (int)strlen(root) - 8, root + 7);
    const bool alike = is_of(run, s, run->skip, out->root, text) ||
                       (run->skip && is_of(run, s, false, out->root, text));
    out->same = alike && strcmp(out->root, run->whole_root) == 0;
    if (out->same || !alike) out->root[0] = '\0';
    return PACK_DONE;
}

/* Sets *out_there if there is a part of the same work; its tally is then the shard's. */
static int check_part(const pack_run *run, shard *s, bool *out_there) {
    mark m;
    const int status = read_mark(run, s, s->of, &m);
    *out_there = m.there;
    if (status != PACK_DONE || !m.there) return status;
    if (run->restart) {
        *out_there = false;
        return PACK_DONE;
    }
    if (m.same) {
        s->so_far = m.so_far;
        return PACK_DONE;
    }
    if (*m.root)
        return pack_fail(
            "%s.part: was begun with files from %s, and this run's are from %s (--root); "
            "--restart forgets it",
            s->rec, m.root, run->whole_root);
    return pack_fail("%s.part: was begun from another list or with other options; --restart "
                     "forgets it",
                     s->rec);
}

/* Replaces the mark by a rename, since parts depend on it. */
static int write_mark(const pack_run *run, const shard *s) {
    const tally *t = &s->so_far;
    char *text = fingerprint(run, s, run->skip, run->whole_root);
    char *path = pack_text("%s.new", s->of);
    FILE *file = fopen(path, "we");
    bool good =
        file && fputs(text, file) >= 0 &&
        fprintf(file,
                "so far %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 "\n",
                t->n_records, t->n_skipped, t->n_warned, t->n_empty, t->n_other,
                t->first_odd) > 0 &&
        fflush(file) == 0 && fsync(fileno(file)) == 0;
    if (file && fclose(file) != 0) good = false;
    if (good) good = rename(path, s->of) == 0;
    const int status = good ? PACK_DONE : pack_fail_os("%s", s->of);
    free(text);
    free(path);
    return status;
}

/* Finds the end of the index: the item to continue with, and the offset of its record. */
static int find_end(const pack_run *run, shard *s, const char *rec, const pack_index *index,
                    uint64_t *out_rec_bytes) {
    pack_reader reader;
    bool more = false;
    iter_error err;
    *out_rec_bytes = 0;
    for (uint64_t i = 0; i < index->n; i++, s->next++) {
        while (s->next < s->last && pack_list_id(run->list, s->next) != index->keys[i] && run->skip)
            s->next++;
        if (s->next == s->last || pack_list_id(run->list, s->next) != index->keys[i])
            return pack_fail("%s.part: its key %" PRIu64 " is not the list's; --restart forgets it",
                             s->idx, index->keys[i]);
    }
    if (index->n == 0) return PACK_DONE;
    int status = pack_reader_open(&reader, rec);
    if (status == PACK_DONE) {
        reader.next = index->offsets[index->n - 1];
        if (reader.next >= reader.window.file.bytes ||
            pack_reader_next(&reader, &more, &err) != PACK_DONE || !more) {
            status = pack_fail("%s: ends before its index does; --restart forgets it", rec);
        }
        *out_rec_bytes = reader.next;
    }
    pack_reader_close(&reader);
    return status;
}

static uint64_t lines_bytes(const pack_index *index) {
    uint64_t n = 0;
    for (uint64_t i = 0; i < index->n; i++)
        n += (uint64_t)snprintf(NULL, 0, "%" PRIu64 "\t%" PRIu64 "\n", index->keys[i],
                                index->offsets[i]);
    return n;
}

/* Opens the parts, empty or at the point where the last run stopped. */
static int open_parts(pack_run *run, shard *s) {
    char *rec = part_of(s->rec), *idx = part_of(s->idx);
    uint64_t rec_bytes = 0, idx_bytes = 0;
    pack_index index = {0};
    bool there = false;
    int status = check_part(run, s, &there);
    if (status == PACK_DONE && there && access(idx, F_OK) == 0) {
        status = pack_index_load(idx, &index);
        if (status == PACK_DONE) status = find_end(run, s, rec, &index, &rec_bytes);
        idx_bytes = lines_bytes(&index);
        run->n_resumed += index.n;
    }
    if (s->so_far.n_records != index.n) {
        s->so_far = (tally){.n_records = index.n};
        run->lost_a_tally = true;
    }
    s->so_far.n_skipped = s->next - s->first - index.n; /* those after the last record come again */
    if (status == PACK_DONE && (!there || run->skip)) status = write_mark(run, s);
    pack_index_free(&index);
    s->synced = rec_bytes;
    if (status != PACK_DONE) {
        free(rec);
        free(idx);
        return status;
    }
    status = pack_writer_open(&s->data, rec, rec_bytes);
    if (status != PACK_DONE) {
        free(idx);
        return status;
    }
    return pack_writer_open(&s->index, idx, idx_bytes);
}

/* ---- writing --------------------------------------------------------------------------------- */

static time_t seconds_now(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec;
}

/* Syncs the records first, then the lines with their offsets, then the tally. Of an upload, only
 * makes room for more lines. */
static int checkpoint(const pack_run *run, shard *s) {
    int status = run->to_url ? PACK_DONE : pack_writer_sync(&s->data);
    if (status == PACK_DONE) status = pack_writer_text(&s->index, s->lines, s->n_lines);
    if (status == PACK_DONE && !run->to_url) status = pack_writer_sync(&s->index);
    if (status == PACK_DONE && !run->to_url) status = write_mark(run, s);
    s->n_lines = 0;
    s->synced = s->data.offset;
    s->synced_at = seconds_now();
    return status;
}

static int add_record(const pack_run *run, shard *s, uint64_t item, const pack_file *file) {
    const pack_list *list = run->list;
    const float *labels = list->labels + item * list->n_labels;
    const bool one = list->n_labels == 1;
    const iter__record_header header = {one ? 0 : list->n_labels, one ? labels[0] : 0,
                                        pack_list_id(list, item), 0};
    const uint64_t offset = s->data.offset;
    const int status = pack_writer_add(&s->data, &header, labels, file->bytes, file->n);
    if (status != PACK_DONE) return status;
    if (s->capacity - s->n_lines < 64) {
        s->capacity = 2 * s->capacity + 4096;
        s->lines = pack_memory(s->lines, s->capacity, 1);
    }
    s->n_lines += (size_t)snprintf(s->lines + s->n_lines, 64, "%" PRIu64 "\t%" PRIu64 "\n",
                                   header.id, offset);
    s->so_far.n_records++;
    return PACK_DONE;
}

static bool is_due(const pack_run *run, const shard *s) {
    return s->data.offset - s->synced >= SYNC_BYTES ||
           seconds_now() - s->synced_at >= run->sync_seconds;
}

/* Files that are packed as they are may be anything. Those that are not images are counted, and
 * reported at the end. */
static void note_content(const pack_run *run, tally *t, uint64_t item, const pack_file *file) {
    const pack_content content = pack_content_of(file->bytes, file->n);
    if (pack_image_is_made(&run->image) || (content != PACK_EMPTY && content != PACK_OTHER)) return;
    if (t->n_empty + t->n_other == 0) t->first_odd = item;
    if (content == PACK_EMPTY) t->n_empty++;
    if (content == PACK_OTHER) t->n_other++;
}

static int write_items(pack_run *run, shard *s) {
    pack_files *files =
        pack_files_start(run->list, s->next, s->last, run->root, run->threads, run->images);
    int status = PACK_DONE;
    s->synced_at = seconds_now();
    for (; s->next < s->last && status == PACK_DONE && !is_interrupted(NULL); s->next++) {
        pack_file file;
        pack_files_take(files, &file);
        if (!file.reason) {
            status = add_record(run, s, s->next, &file);
            if (status != PACK_DONE) continue;
            run->n_written++;
            s->so_far.n_warned += file.warned;
            note_content(run, &s->so_far, s->next, &file);
            if (is_due(run, s)) status = checkpoint(run, s);
            continue;
        }
        status = pack_fail("%s: item %" PRIu64 ": %s: %s", run->list_path, s->next + 1,
                           pack_list_path(run->list, s->next), file.reason);
        if (!run->skip) {
            pack_fail(run->to_url ? "nothing is uploaded; --skip leaves out files like this one"
                                  : "packed files are kept: the same command continues after them, "
                                    "and with --skip leaves out files like this one");
            continue;
        }
        s->so_far.n_skipped++;
        status = PACK_DONE;
    }
    pack_files_stop(files);
    const int last = checkpoint(run, s); /* after an error, too: the next run continues from here */
    if (status != PACK_DONE || last != PACK_DONE) return PACK_FAILED;
    return is_interrupted(NULL) ? PACK_INTERRUPTED : PACK_DONE;
}

/* Renames the parts to their final names. */
static int publish(const pack_run *run, const shard *s) {
    if (rename(s->index.path, s->idx) < 0) return pack_fail_os("%s", s->idx);
    if (rename(s->data.path, s->rec) < 0) return pack_fail_os("%s", s->rec);
    if (pack_sync_folder(s->rec) != PACK_DONE) return PACK_FAILED;
    /* until all shards are complete, it tells whose shard this is */
    if (run->shards > 1) return PACK_DONE;
    return unlink(s->of) < 0 ? pack_fail_os("%s", s->of) : PACK_DONE;
}

/* Whether an earlier run has finished it. */
static bool is_complete(const shard *s) {
    char *part = part_of(s->rec);
    const bool complete = access(s->rec, F_OK) == 0 && access(part, F_OK) != 0;
    free(part);
    return complete;
}

/* Handles a .rec that exists: it belongs to this work, or a run was interrupted after it, or it is
 * in the way. */
static int take_complete(const pack_run *run, shard *s) {
    bool same = false;
    if (run->shards > 1) {
        const int status = check_part(run, s, &same);
        if (status != PACK_DONE) return status;
    } else {
        mark m;
        (void)read_mark(run, s, s->of, &m);
        same = m.same;
        s->so_far = m.so_far;
        (void)unlink(s->of);
    }
    return same ? PACK_DONE : pack_fail("%s: exists already", s->rec);
}

/* The shard's range of the list's items, and its names. */
static shard shard_of(const pack_run *run, const char *out, int64_t k) {
    const uint64_t n = run->list->n, all = (uint64_t)run->shards, i = (uint64_t)k;
    shard s = {.first = n / all * i + n % all * i / all, .data.fd = -1, .index.fd = -1};
    s.last = n / all * (i + 1) + n % all * (i + 1) / all;
    s.next = s.first;
    s.rec = shard_name(out, k, run->shards);
    s.idx = pack_idx_path(s.rec);
    s.of = pack_text("%s.part.of", s.rec);
    return s;
}

static void shard_close(shard *s) {
    pack_writer_close(&s->data);
    pack_writer_close(&s->index);
    free(s->lines);
    free(s->rec);
    free(s->idx);
    free(s->of);
}

static void add_tally(tally *all, const tally *t) {
    if (all->n_empty + all->n_other == 0) all->first_odd = t->first_odd;
    all->n_records += t->n_records;
    all->n_skipped += t->n_skipped;
    all->n_warned += t->n_warned;
    all->n_empty += t->n_empty;
    all->n_other += t->n_other;
}

/* Whether there is anything to publish. */
static int check_any(const pack_run *run, const shard *s) {
    if (run->all.n_skipped + s->so_far.n_skipped < run->list->n) return PACK_DONE;
    return pack_fail("%s: none of the %" PRIu64 " files can be packed; names are relative to %s "
                     "(--root)",
                     s->rec, run->list->n, run->whole_root);
}

/* Uploads a shard. What is there already stays until the end, and without --restart, after it. */
static int upload_shard(pack_run *run, shard *s) {
    const iter__upload_options options = {.part_bytes = (size_t)run->part_mib << 20,
                                          .is_over = is_interrupted};
    iter_error err = {.status = ITER_OK};
    bool missing;
    if (!run->restart && iter__path_is_missing(s->rec, &missing, &err) < 0)
        return pack_fail("%s; with --restart it need not be known whether it exists", err.message);
    if (!run->restart && !missing)
        return pack_fail("%s: exists already; --restart replaces it", s->rec);
    int status = pack_writer_open_url(&s->data, pack_text("%s", s->rec), &options);
    if (status == PACK_DONE)
        status = pack_writer_open_url(&s->index, pack_text("%s", s->idx), &options);
    if (status == PACK_DONE) status = write_items(run, s);
    if (status == PACK_DONE) status = check_any(run, s);
    if (status == PACK_DONE) status = pack_writer_finish(&s->data);
    status = pack_writer_publish(&s->index, status);
    status = pack_writer_publish(&s->data, status);
    return status != PACK_DONE && is_interrupted(NULL) ? PACK_INTERRUPTED : status;
}

static int pack_shard(pack_run *run, const char *out, int64_t k) {
    shard s = shard_of(run, out, k);
    int status;
    if (run->to_url) {
        status = upload_shard(run, &s);
    } else if (is_complete(&s)) {
        status = take_complete(run, &s);
    } else {
        status = open_parts(run, &s);
        if (status == PACK_DONE) status = write_items(run, &s);
        if (status == PACK_DONE) status = check_any(run, &s);
        if (status == PACK_DONE) status = publish(run, &s);
    }
    add_tally(&run->all, &s.so_far);
    shard_close(&s);
    return status;
}

/* ---- command --------------------------------------------------------------------------------- */

/* All shards are complete, so their marks are removed. The first one's mark goes last, under the
 * name *.part.all: a run that finds it knows why the others are missing. */
static int forget_marks(const pack_run *run, const char *out) {
    shard s = shard_of(run, out, 0);
    char *all = pack_text("%s.part.all", s.rec);
    int status = PACK_DONE;
    if (rename(s.of, all) < 0 && errno != ENOENT) status = pack_fail_os("%s", all);
    for (int64_t k = 1; k < run->shards && status == PACK_DONE; k++) {
        char *rec = shard_name(out, k, run->shards), *of = pack_text("%s.part.of", rec);
        if (unlink(of) < 0 && errno != ENOENT) status = pack_fail_os("%s", of);
        free(rec);
        free(of);
    }
    if (status == PACK_DONE && unlink(all) < 0 && errno != ENOENT) status = pack_fail_os("%s", all);
    free(all);
    shard_close(&s);
    return status;
}

/* Whether this work was interrupted when only its marks were left to remove. Shards may have been
 * moved away since. */
static bool is_all_done(const pack_run *run, const char *out) {
    if (run->shards == 1 || run->restart || run->to_url) return false;
    shard s = shard_of(run, out, 0);
    char *all = pack_text("%s.part.all", s.rec);
    mark m;
    (void)read_mark(run, &s, all, &m);
    bool same = m.same;
    free(all);
    shard_close(&s);
    for (int64_t k = 0; same && k < run->shards; k++) {
        s = shard_of(run, out, k);
        same = is_complete(&s);
        shard_close(&s);
    }
    return same;
}

/* Counters are of all runs that made the output; n_written is of this run. */
static void print_result(const pack_run *run) {
    const tally *t = &run->all;
    char text[320];
    int n = snprintf(text, sizeof(text), "%" PRIu64 " records written", run->n_written);
    if (run->n_resumed)
        n += snprintf(text + n, sizeof(text) - (size_t)n, ", %" PRIu64 " were there",
                      run->n_resumed);
    if (t->n_skipped)
        n += snprintf(text + n, sizeof(text) - (size_t)n, ", %" PRIu64 " files skipped",
                      t->n_skipped);
    if (t->n_warned)
        n += snprintf(text + n, sizeof(text) - (size_t)n,
                      ", %" PRIu64 " images packed although their decoder warned", t->n_warned);
    pack_line("%s", text);
    if (t->n_empty + t->n_other)
        pack_line("warning: packed as they are: %" PRIu64 " empty files, %" PRIu64
                  " that by their first bytes are no JPEG, PNG or WebP; the first is item %" PRIu64
                  ": %s",
                  t->n_empty, t->n_other, t->first_odd + 1,
                  pack_list_path(run->list, t->first_odd));
    if (run->lost_a_tally) pack_line("warnings of an interrupted run are not counted here");
}

static int run_all(pack_run *run, const char *out) {
    int status = PACK_DONE;
    const bool done = is_all_done(run, out);
    for (int64_t k = 0; k < run->shards && status == PACK_DONE && !done; k++)
        status = pack_shard(run, out, k);
    if (status == PACK_DONE && run->shards > 1 && !run->to_url) status = forget_marks(run, out);
    if (status == PACK_INTERRUPTED)
        pack_warn(run->to_url ? "interrupted; what was not complete is not there"
                              : "interrupted; the same command continues from here");
    if (status == PACK_DONE) print_result(run);
    return status;
}

/* Whether the output has a name that can be written. */
static int check_output(const char *out) {
    iter_error err;
    if (iter__url_is(out) && iter__upload_check(out, &err) < 0) return pack_fail("%s", err.message);
    const size_t length = strlen(out);
    if (length <= 4 || strcmp(out + length - 4, ".rec") != 0)
        return pack_usage("pack: '%s' should end with .rec", out);
    return PACK_DONE;
}

/* Packs under the output's lock. */
static int pack_list_files(pack_run *run, const char *out) {
    pack_lock lock = {.fd = -1};
    const int status = run->to_url ? PACK_DONE : pack_lock_take(&lock, out);
    if (status != PACK_DONE) return status;
    pack_warn_twice(run->list_path, run->list->list.ids, run->list->n);
    const int packed = run_all(run, out);
    pack_lock_give(&lock);
    return packed;
}

int pack_cmd_pack(int n_args, char **args) {
    const char *words[2] = {NULL, NULL};
    pack_list list = {0};
    pack_run run = {.list = &list, .shards = 1, .sync_seconds = SYNC_SECONDS};
    bool anonymous = false; /* pack_remote_open() has read it */
    int n_words = 0;
    const pack_option rows[] = {
        {"root", PACK_TEXT, &run.root, 0, 0},
        {"threads", PACK_NUMBER, &run.threads, 1, 64},
        {"shards", PACK_NUMBER, &run.shards, 1, 99999},
        {"skip", PACK_FLAG, &run.skip, 0, 0},
        {"restart", PACK_FLAG, &run.restart, 0, 0},
        {"sync", PACK_NUMBER, &run.sync_seconds, 0, 86400},
        {"part-size", PACK_NUMBER, &run.part_mib, ITER_PART_LEAST >> 20, ITER_PART_BYTES_MAX >> 20},
        PACK_ANONYMOUS_ROW(&anonymous),
        PACK_IMAGE_ROWS(&run.image),
        {NULL, PACK_FLAG, NULL, 0, 0}};
    int status = pack_options(n_args, args, rows, words, 2, &n_words);
    if (status != PACK_DONE) return status;
    if (n_words < 2) return pack_usage("pack: a list and a name for the .rec are needed");
    status = check_output(words[1]);
    if (status != PACK_DONE) return status;
    run.to_url = iter__url_is(words[1]);
    status = pack_images_open(&run.image, &run.images);
    if (status != PACK_DONE) return status;
    struct sigaction action = {.sa_handler = on_signal};
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    run.list_path = words[0];
    char *folder = pack_folder_of(words[0]);
    if (!run.root) run.root = folder;
    if (run.threads == 0) run.threads = pack_files_threads(run.root, run.images != NULL);
    run.whole_root = iter__url_is(run.root) ? NULL : realpath(run.root, NULL);
    /* reading the files will report the error */
    if (!run.whole_root) run.whole_root = pack_text("%s", run.root);
    status = pack_list_load(words[0], &list);
    if (status == PACK_DONE) status = pack_list_files(&run, words[1]);
    pack_list_free(&list);
    pack_images_close(run.images);
    free(run.whole_root);
    free(folder);
    return status;
}

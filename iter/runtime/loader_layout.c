/*
 * loader_layout.c - see loader_layout.h.
 *
 * It decides in this order: slots and chunks; the path of rows' bytes; the memory that all of this
 * takes; and last the arena, which gets the rest. If the rest is too small, chunks become smaller;
 * after that, fewer batches are made ahead, unless prefetch was given.
 *
 * Under a given memory limit, a picture may take a share of it, or max_sample_bytes. Without a
 * given limit, memory that depends on the samples (pictures, the index) does not count: its bound
 * would fill any limit.
 */
#include "iter/runtime/loader_layout.h"

#include <stdio.h>
#include <string.h>

#include "iter/core/arith.h"
#include "iter/core/error.h"
#include "iter/runtime/loader_state.h"

#define CHUNK_BYTES     ((size_t)1 << 20) /* read and written by one claim */
#define CHUNK_ROWS      64
#define READ_BYTES      ((uint64_t)24 << 10) /* a run of rows that stays in the L1 cache */
#define ARENA_PREFERRED ((size_t)64 << 20)
/* For each batch made ahead; ARENA_PREFERRED at least. Space is freed in sample order, so one slow
 * read blocks what comes after it; the arena therefore grows with prefetch. */
#define ARENA_BATCH  ((size_t)8 << 20)
#define BLOCK        ((uint64_t)4096)
#define SOURCE_LEAST ((uint64_t)256 << 10) /* for blocks that bypass the page cache */
#define SOURCE_MOST  ((uint64_t)8 << 20)
#define SOURCE_SHARE 8 /* the source gets this part of what is left, up to SOURCE_MOST */
#define FETCH_LEAST  ((uint64_t)4 << 20) /* the same for blocks on their way into a disk cache */
#define FETCH_MOST   ((uint64_t)64 << 20)

#define PICTURE_SHARE  16                  /* one picture gets this part of a given limit */
#define DECODER_BYTES  ((uint64_t)2 << 20) /* of an image decoder, in addition to one picture */
#define PICTURE_MOST   ((uint64_t)1 << 50) /* no sum of these overflows */
#define DEFAULT_SAMPLE ((uint64_t)256 << 20)
#define SAMPLE_WORTH   ((uint64_t)1 << 20) /* no smaller max_sample_bytes is suggested */

#define PIECE      ((uint64_t)256 << 10) /* size of a window */
#define FRAMES_MAX ((uint64_t)1024)
#define FRAMED_MAX ((uint64_t)32 << 10) /* larger samples are large reads already */
#define SPARE      4 /* frames per group for pieces that are cut, as at a file's end */

/* At URLs a read is a request, so windows are larger and more of them are in flight: 64 MiB are
 * 6 Gbit/s at 80 ms. */
#define REMOTE_PIECE ((uint64_t)4 << 20)
#define REMOTE_LEAST ((uint64_t)1 << 20) /* requests of so many bytes gain little by more */
#define REMOTE_MOST  ((uint64_t)8 << 20) /* the largest window */
#define REMOTE_AHEAD ((uint64_t)64 << 20)

static uint64_t n_threads(const iter__layout_in *in) {
    return in->opt->workers > 0 ? (uint64_t)in->opt->workers : 1;
}

/* ---- Slots and chunks ------------------------------------------------------------------------ */

static void set_chunk_rows(const iter__layout_in *in, iter__layout *out, uint64_t rows) {
    const uint32_t batch_size = in->opt->batch_size;
    out->chunk_rows = (uint32_t)iter__min_u64(iter__max_u64(rows, 1), batch_size);
    out->rows_a_chunk = in->is_stream ? batch_size : out->chunk_rows;
    out->max_chunks = (batch_size + out->chunk_rows - 1) / out->chunk_rows;
}

static void cut_chunks(const iter__layout_in *in, iter__layout *out) {
    uint64_t sample = in->plan->slot_bytes / in->opt->batch_size;
    for (int32_t e = 0; e < in->desc->n_extents; e++)
        sample += in->desc->max_extent_bytes[e];
    set_chunk_rows(in, out, iter__min_u64(CHUNK_BYTES / iter__max_u64(sample, 1), CHUNK_ROWS));
}

/* Batches made ahead that keep every worker busy; the unit of work is a chunk. Batches leave in
 * order, so a worker that finishes early needs another chunk while the others finish theirs.
 * Measured with 16 workers that sleep as long as the work takes: with one chunk each 11 are busy,
 * with two 16. */
static uint32_t wanted_prefetch(const iter__layout_in *in, const iter__layout *layout) {
    if (in->opt->prefetch) return in->opt->prefetch;
    const uint64_t chunks = in->is_stream ? 1 : layout->max_chunks;
    const bool shared = !in->is_stream && !in->one_at_a_time;
    const uint64_t batches = shared ? (2 * n_threads(in) + chunks - 1) / chunks : 1;
    return (uint32_t)iter__max_u64(batches, 2);
}

static void set_slots(const iter__layout_in *in, iter__layout *out, uint32_t prefetch) {
    out->prefetch = prefetch;
    out->n_slots = in->opt->max_held + prefetch + 1;
    out->queue_capacity = 2 * out->n_slots + 2;
}

static uint32_t most_busy(const iter__layout_in *in, const iter__layout *layout) {
    if (in->is_stream || in->one_at_a_time) return 1;
    return (uint32_t)iter__min_u64(n_threads(in),
                                   (layout->prefetch + 1) * (uint64_t)layout->max_chunks);
}

/* ---- The path of rows' bytes ----------------------------------------------------------------- */

static uint64_t largest_extent(const iter__layout_in *in) {
    uint64_t bytes = 1;
    for (int32_t e = 0; e < in->desc->n_extents; e++)
        bytes = iter__max_u64(bytes, in->desc->max_extent_bytes[e]);
    return bytes;
}

static uint64_t file_bytes(const iter__layout_in *in) {
    uint64_t bytes = 0;
    for (uint64_t i = 0; i < in->desc->n_files; i++)
        bytes += in->desc->files[i].bytes;
    return bytes;
}

/* Whether windows of REMOTE_PIECE are worth their memory: samples are small, and files are not. */
static bool has_large_windows(const iter__layout_in *in, const iter__layout *layout,
                              uint64_t sample, uint64_t mean) {
    return in->is_remote && mean < REMOTE_LEAST && sample + 2 * BLOCK <= REMOTE_MOST &&
           sample <= layout->sample_max &&
           file_bytes(in) / iter__max_u64(in->desc->n_files, 1) >= REMOTE_LEAST;
}

/* Cuts blocks of `block_rows` into pieces, and sets the size of a frame. The most that a piece of
 * average samples may have is a quarter more than their average, and one sample; frames.c cuts
 * pieces that have more. */
static uint64_t cut_pieces(iter__frames_layout *frames, uint64_t sample, uint64_t mean,
                           uint64_t piece, uint64_t most) {
    uint64_t pieces = iter__max_u64((frames->block_rows * mean + piece / 2) / piece, 1);
    frames->piece_rows = (frames->block_rows + pieces - 1) / pieces;
    pieces = (frames->block_rows + frames->piece_rows - 1) / frames->piece_rows;
    uint64_t bytes = frames->piece_rows * sample;
    if (mean < sample) bytes = iter__min_u64(bytes, frames->piece_rows * mean / 4 * 5 + sample);
    bytes = iter__align_up_u64(bytes, BLOCK) + BLOCK;
    frames->bytes = iter__max_u64(iter__min_u64(bytes, most), sample + 2 * BLOCK) & ~(BLOCK - 1);
    return pieces;
}

/* Frames for the group of blocks in use and for what is read ahead: from a disk the next group,
 * from a server REMOTE_AHEAD. A set at URLs that is read in order has blocks of one window, each a
 * group. Ranks would read one another's rows, so they must be alone. */
static void cut_frames(const iter__layout_in *in, iter__layout *out) {
    iter__frames_layout *frames = &out->frames;
    const uint64_t n_extents = (uint64_t)in->desc->n_extents, sample = largest_extent(in);
    const uint64_t mean = iter__max_u64(
        iter__min_u64(sample, file_bytes(in) / iter__max_u64(in->desc->n_samples, 1)), 1);
    const bool large = has_large_windows(in, out, sample, mean);
    const bool in_order = in->is_ordered && in->opt->ranks <= 1;
    *frames = (iter__frames_layout){.in_use = 1, .ahead = 1};
    if (in->opt->sampler.subset || in->n_rows == 0 || (in->is_remote && !out->window_bytes)) return;
    uint64_t blocks = in->block_buffer;
    if (in->block_rows && (large || sample <= FRAMED_MAX)) {
        frames->block_rows = in->block_rows;
    } else if (in_order && large) {
        frames->block_rows = iter__max_u64(out->window_bytes / mean, 1);
        frames->in_use = (uint64_t)in->opt->batch_size * out->n_slots / frames->block_rows + 2;
        blocks = 1;
    } else {
        return;
    }
    const uint64_t pieces = large ? cut_pieces(frames, sample, mean, out->window_bytes, REMOTE_MOST)
                                  : cut_pieces(frames, sample, sample, PIECE, ITER_UNKNOWN);
    frames->group_rows = frames->block_rows * blocks;
    frames->a_group = blocks * pieces * n_extents + (blocks > 1 ? SPARE : 0);
    if (large) frames->ahead = iter__max_u64(REMOTE_AHEAD / (frames->group_rows * mean), 1);
    frames->n =
        (uint32_t)iter__min_u64(iter__max_u64((frames->in_use + frames->ahead) * frames->a_group,
                                              out->chunk_rows * n_extents),
                                FRAMES_MAX);
}

/* Checks whether rows can be read straight into the slot, see placed.c. */
static void place(const iter__layout_in *in, iter__layout *out) {
    if (in->desc->n_extents != 1 || in->plan->has_ways) return;
    iter__placed_find(in->plan, in->desc, &out->placed_field, &out->placed_head,
                      &out->placed_stride);
    if (out->placed_head) out->hot_bytes = out->placed_stride * out->chunk_rows;
}

/* Whether rows are tried before they are read by frames: those of a set in order whose blocks are
 * kept on a disk. */
static bool tries_first(const iter__layout_in *in) {
    return in->is_cached && !in->block_rows && in->can_try;
}

/* Bytes are worked on while they are in the L1 cache. So small samples are made a run at a time in
 * a buffer of the worker, and large ones that come in random order have small chunks. */
static void choose_paths(const iter__layout_in *in, iter__layout *out) {
    uint64_t sample = 1;
    for (int32_t e = 0; e < in->desc->n_extents; e++)
        sample += in->desc->max_extent_bytes[e];
    cut_frames(in, out);
    const bool past_cache = in->opt->reading.o_direct || (out->frames.n > 0 && !tries_first(in));
    out->whole_blocks = in->opt->reading.o_direct != 0;
    if (!past_cache && sample <= READ_BYTES) {
        out->hot_bytes = in->can_try ? READ_BYTES : 0;
        return;
    }
    const uint64_t fit = iter__max_u64(READ_BYTES / sample, 4);
    if (!in->is_ordered && out->chunk_rows > fit) set_chunk_rows(in, out, fit);
    cut_frames(in, out); /* again: their number depends on chunk_rows */
    if (!past_cache && in->can_try) place(in, out);
}

/* ---- Memory ---------------------------------------------------------------------------------- */

static void bound_samples(const iter__layout_in *in, iter__layout *out) {
    const iter_loader_options *opt = in->opt;
    out->sample_max =
        opt->reading.max_sample_bytes ? opt->reading.max_sample_bytes : DEFAULT_SAMPLE;
    out->picture_max = out->sample_max;
    out->picture_share = !opt->reading.max_sample_bytes && opt->memory.limit &&
                         opt->memory.limit / PICTURE_SHARE < out->picture_max;
    if (out->picture_share) out->picture_max = opt->memory.limit / PICTURE_SHARE;
    out->picture_max = iter__min_u64(out->picture_max, PICTURE_MOST);
    out->decoder_max = out->picture_max + DECODER_BYTES;
}

/* Image decoders per worker. */
static uint64_t n_image_decoders(const iter__layout_in *in) {
    uint64_t n = 0;
    for (int32_t f = 0; f < in->plan->n_fields; f++) {
        const iter__field_plan *field = &in->plan->fields[f];
        n += field->lengths_of < 0 && field->any_size && field->from == ITER_ROW_DECODE;
    }
    return n;
}

/* Bytes of the arena that a chunk of so many rows may need. */
static uint64_t chunk_bytes(const iter__layout_in *in, const iter__layout *layout, uint64_t rows) {
    uint64_t sample = 0;
    for (int32_t e = 0; e < in->desc->n_extents; e++) {
        sample += iter__min_u64(in->desc->max_extent_bytes[e], layout->sample_max);
        if (layout->whole_blocks) sample += 2 * BLOCK;
    }
    return sample * rows + BLOCK;
}

/* Of one worker: its fixed memory and, under a given limit, the most that it may add. */
static uint64_t worker_bytes(const iter__layout_in *in, const iter__layout *layout) {
    uint64_t bytes = iter__worker_bytes(in->plan, layout);
    if (!in->opt->memory.limit) return bytes;
    bytes += (uint64_t)in->plan->n_growing * layout->picture_max +
             n_image_decoders(in) * layout->decoder_max;
    /* A replacement is read into memory of its own. */
    if (in->opt->faults.on_error == ITER_ON_ERROR_REPLACE && in->bytes == BYTES_READ)
        bytes += chunk_bytes(in, layout, 1);
    return bytes;
}

/* The least that the source needs for buffers of its own. The blocks of a whole window must be
 * fetched at once. */
static uint64_t source_least(const iter__layout_in *in, const iter__layout *layout) {
    if (in->bytes != BYTES_READ) return 0;
    if (in->is_cached) return FETCH_LEAST + (layout->frames.n ? layout->frames.bytes : 0);
    return in->opt->reading.o_direct || layout->frames.n > 0 ? SOURCE_LEAST : 0;
}

static void count(const iter__layout_in *in, iter__layout *out) {
    const uint64_t limit = in->opt->memory.limit;
    out->source_bytes = source_least(in, out);
    out->index_bytes =
        limit ? in->desc->index_bytes + in->opt->sampler.n_subset * sizeof(*in->opt->sampler.subset)
              : 0;
    out->order_bytes = limit ? in->order_bytes : 0;
    out->books_bytes =
        iter__books_bytes(in->plan, in->desc, in->opt->batch_size, out) * out->n_slots;
    out->books_bytes += iter__frames_books_bytes(out->frames.n);
    out->worker_bytes = worker_bytes(in, out);
    out->fixed_bytes = (uint64_t)in->plan->slot_bytes * out->n_slots +
                       out->worker_bytes * n_threads(in) + out->index_bytes + out->order_bytes +
                       out->books_bytes + out->source_bytes;
}

/* ---- A limit that is too small --------------------------------------------------------------- */

/* How many times a given limit must hold picture_max, for pictures and their decoders. */
static uint64_t n_pictures(const iter__layout_in *in) {
    if (!in->opt->memory.limit) return 0;
    return n_threads(in) * ((uint64_t)in->plan->n_growing + n_image_decoders(in));
}

/* The smallest limit x for n pictures and `rest` bytes. If a picture is a share of the limit, it
 * grows with it: x = rest + n x / PICTURE_SHARE, up to DEFAULT_SAMPLE each. */
static uint64_t least_limit(const iter__layout *layout, uint64_t n, uint64_t rest) {
    if (!layout->picture_share) return rest + n * layout->picture_max;
    const uint64_t most = rest + n * DEFAULT_SAMPLE;
    if (n >= PICTURE_SHARE || rest > PICTURE_MOST) return most;
    const uint64_t least = rest * PICTURE_SHARE / (PICTURE_SHARE - n) + 1;
    return least / PICTURE_SHARE <= DEFAULT_SAMPLE ? least : most;
}

static iter_status refuse(const iter__layout_in *in, const iter__layout *layout, const char *what,
                          uint64_t bytes, iter_error *err) {
    const uint64_t n = n_pictures(in);
    const uint64_t rest = layout->fixed_bytes - n * layout->picture_max + bytes;
    const uint64_t room = n && rest < in->limit ? (in->limit - rest) / n : 0;
    char pictures[96] = "", order[64] = "", source[64] = "";
    if (bytes == ITER_UNKNOWN)
        return iter__fail(err, ITER_ENOMEM, "source memory: the size of some %s is not known",
                          what);
    if (room >= SAMPLE_WORTH) {
        snprintf(pictures, sizeof(pictures), ", or this one with max_sample_bytes of %llu",
                 (unsigned long long)room);
    }
    if (layout->order_bytes)
        snprintf(order, sizeof(order), "an order of %llu bytes (the sampler's), ",
                 (unsigned long long)layout->order_bytes);
    if (layout->source_bytes)
        snprintf(source, sizeof(source), "%zu bytes for blocks of the source, ",
                 layout->source_bytes);
    return iter__fail(
        err, ITER_ENOMEM,
        "%s of %llu bytes is too small, %llu would do%s: it holds %u slots of %zu bytes "
        "(less by batch_size, prefetch or max_held), %llu x %llu bytes of scratch (less by "
        "workers%s), an "
        "index of %llu bytes, %sbooks of %llu bytes, %sand %s of %llu bytes",
        in->opt->memory.limit ? "memory.limit" : "half of the free memory",
        (unsigned long long)in->limit, (unsigned long long)least_limit(layout, n, rest), pictures,
        layout->n_slots, in->plan->slot_bytes, (unsigned long long)n_threads(in),
        (unsigned long long)layout->worker_bytes, n ? " or max_sample_bytes" : "",
        (unsigned long long)layout->index_bytes, order, (unsigned long long)layout->books_bytes,
        source, what, (unsigned long long)bytes);
}

/* ---- The arena ------------------------------------------------------------------------------- */

/* Divides the arena into frames. A chunk may need one per row and extent. From a server no window
 * may be read twice, so the groups in use must fit. */
static void fit_frames(const iter__layout_in *in, iter__layout *out) {
    iter__frames_layout *frames = &out->frames;
    const uint64_t fit = iter__min_u64(out->arena_bytes / frames->bytes, FRAMES_MAX);
    const uint64_t groups = fit / frames->a_group;
    const bool fits = fit >= out->chunk_rows * (uint64_t)in->desc->n_extents &&
                      (groups >= frames->in_use || !in->is_remote);
    frames->n = fits ? (uint32_t)fit : 0;
    if (groups < frames->in_use) return;
    const uint64_t ahead = iter__min_u64(frames->ahead, groups - frames->in_use);
    frames->ahead_rows = iter__max_u64(ahead, 1) * frames->group_rows;
}

/* As much as all opened batches may need, within the limit; at least two chunks. */
static iter_status fit_arena(const iter__layout_in *in, iter__layout *out, iter_error *err) {
    uint64_t least = 2 * chunk_bytes(in, out, out->chunk_rows);
    while (out->fixed_bytes + least > in->limit && out->chunk_rows > 1) {
        set_chunk_rows(in, out, out->chunk_rows / 2);
        if (out->placed_head) out->hot_bytes = out->placed_stride * out->chunk_rows;
        count(in, out);
        least = 2 * chunk_bytes(in, out, out->chunk_rows);
    }
    if (out->fixed_bytes + least > in->limit) return refuse(in, out, "an arena", least, err);
    if (out->source_bytes) { /* more, as far as there is room */
        const uint64_t room = (in->limit - out->fixed_bytes - least) / SOURCE_SHARE;
        const uint64_t most = in->is_cached ? FETCH_MOST : SOURCE_MOST;
        const uint64_t more = iter__min_u64(room, most - iter__min_u64(most, out->source_bytes));
        out->source_bytes += more;
        out->fixed_bytes += more;
    }
    const uint64_t frames = (uint64_t)out->frames.bytes * out->frames.n;
    uint64_t most = iter__max_u64((uint64_t)out->prefetch * ARENA_BATCH, ARENA_PREFERRED);
    most = iter__max_u64(most, least);
    uint64_t bytes = iter__min_u64(chunk_bytes(in, out, in->opt->batch_size) * out->n_slots, most);
    if (frames) bytes = frames;
    bytes = iter__max_u64(iter__min_u64(bytes, in->limit - out->fixed_bytes), least);
    out->arena_bytes = (size_t)(bytes & ~(BLOCK - 1));
    out->n_regions = out->max_chunks * out->n_slots + 1;
    if (frames) fit_frames(in, out);
    return ITER_OK;
}

/* ---- All of it ------------------------------------------------------------------------------- */

static iter_status make_with(const iter__layout_in *in, uint32_t prefetch, uint64_t window_bytes,
                             iter__layout *out, iter_error *err) {
    *out = (iter__layout){.bytes = in->bytes, .window_bytes = window_bytes};
    bound_samples(in, out);
    cut_chunks(in, out);
    set_slots(in, out, prefetch ? prefetch : wanted_prefetch(in, out));
    if (in->bytes == BYTES_READ) choose_paths(in, out);
    count(in, out);
    if (in->bytes == BYTES_READ) ITER_TRY(fit_arena(in, out, err));
    out->most_busy = most_busy(in, out);
    if (in->loaded_bytes > in->limit || out->fixed_bytes > in->limit - in->loaded_bytes)
        return refuse(in, out, in->loaded_bytes ? "files" : "an arena", in->loaded_bytes, err);
    return ITER_OK;
}

/* If frames for files at URLs do not fit, tries smaller ones, and then none. */
static iter_status make(const iter__layout_in *in, uint32_t prefetch, iter__layout *out,
                        iter_error *err) {
    if (!in->is_remote) return make_with(in, prefetch, 0, out, err);
    for (uint64_t window = REMOTE_PIECE; window >= REMOTE_LEAST; window /= 2) {
        const iter_status status = make_with(in, prefetch, window, out, err);
        if (status == ITER_OK && (out->frames.n || !out->frames.a_group)) return status;
    }
    return make_with(in, prefetch, 0, out, err);
}

iter_status iter__layout_create(const iter__layout_in *in, iter__layout *out, iter_error *err) {
    iter_status status = make(in, 0, out, err);
    while (status == ITER_ENOMEM && !in->opt->prefetch && out->prefetch > 2)
        status = make(in, (uint32_t)iter__max_u64(out->prefetch / 2, 2), out, err);
    return status;
}

/* ---- As text --------------------------------------------------------------------------------- */

static const char *path_text(const iter__layout *layout) {
    if (layout->bytes == BYTES_NONE) return "none to read";
    if (layout->bytes == BYTES_LOADED) return "in memory";
    if (layout->frames.n && layout->hot_bytes)
        return "row by row while cached, else windows of files";
    if (layout->frames.n) return "windows of files";
    if (layout->placed_head) return "straight to their rows, else by the arena";
    return layout->hot_bytes ? "row by row while cached, else by the arena" : "by the arena";
}

void iter__layout_text(const iter__layout_in *in, const iter__layout *layout, char *out,
                       size_t capacity) {
    const unsigned long long threads = n_threads(in);
    char busy[64] = "batches are made in the caller's thread";
    char pictures[160] = "", shared[64] = "", order[48] = "", limit[64] = "no limit was given";
    if (in->order_bytes)
        snprintf(order, sizeof(order), "order %llu, ", (unsigned long long)in->order_bytes);
    if (in->plan->n_growing)
        snprintf(pictures, sizeof(pictures), ", pictures up to %llu x (%d x %zu + decoder %llu)",
                 threads, in->plan->n_growing, layout->picture_max,
                 (unsigned long long)(n_image_decoders(in) * layout->decoder_max));
    if (in->opt->memory.limit)
        snprintf(limit, sizeof(limit), "at most %llu", (unsigned long long)in->opt->memory.limit);
    if (in->one_copy_for > 1)
        snprintf(shared, sizeof(shared), " (its part of one copy for %u ranks)", in->one_copy_for);
    if (in->opt->workers > 0)
        snprintf(busy, sizeof(busy), "%u of %d workers can be busy at once", layout->most_busy,
                 in->opt->workers);
    snprintf(
        out, capacity,
        "work   prefetch %u, chunks of %u rows, bytes %s; %s%s\nmemory slots %u x %zu, arena %zu, "
        "files %llu%s, scratch %llu x %zu%s, books %llu, "
        "source %zu, %sindex %llu bytes; %s\n",
        layout->prefetch, layout->rows_a_chunk, path_text(layout), busy,
        in->one_at_a_time ? " (get() serves one at a time: set iter_dataset_ops.parallel if it may "
                            "run in several)"
                          : "",
        layout->n_slots, in->plan->slot_bytes, layout->arena_bytes,
        (unsigned long long)in->loaded_bytes, shared, threads, iter__worker_bytes(in->plan, layout),
        pictures, (unsigned long long)layout->books_bytes, layout->source_bytes, order,
        (unsigned long long)in->desc->index_bytes, limit);
}

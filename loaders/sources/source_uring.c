/*
 * source_uring.c - reads through one plain io_uring.
 *
 * Plain: no SQPOLL, whose thread takes a core; no SINGLE_ISSUER or DEFER_TASKRUN, which deliver
 * nothing while the thread that owns the ring decodes; no COOP_TASKRUN, which made no difference.
 * Any thread submits and reaps, under the caller's lock. One thread waits, outside of the lock, by
 * a single io_uring_enter() that touches no submission state. (If another thread took the
 * completion, io_uring_wait_cqe() would continue to sleep.)
 *
 * A read is a row of steps (source_step.h), one of them in flight at a time. If there are few
 * files, they are registered with the ring, and a step is one request. If there are many, each read
 * opens its file, and a step is a chain of three requests that posts one completion: openat -> read
 * -> close on a registered slot. The first two are silent if they succeed. If one fails, the rest
 * of its chain is canceled silently, so the one completion that comes is the answer for the whole
 * chain (IOSQE_CQE_SKIP_SUCCESS, io_uring_enter(2)). Compared with open, read and close in one
 * thread, 50,000 cold files of 1.3 KB took a third of the time at depth 128; opening synchronously
 * in submit(), or leaving the close to the next open of the slot, were no faster.
 *
 * A request belongs to the thread that submitted it. If that thread exits, a read that waits for
 * the disk ends with -ECANCELED or -EFAULT; reap() submits it again from its own thread.
 *
 * Every submission entry has its place: a read has at most one step in the submission queue, and a
 * wake or a cancel is not posted again until its completion was seen. So io_uring_get_sqe() never
 * fails, and the queue is full when the reads are.
 */
#include <iter/ops.h> /* also without io_uring: a file must declare something */

#ifdef ITER_HAVE_URING

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <liburing.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#ifdef __SANITIZE_THREAD__
#include <sanitizer/tsan_interface.h>
#endif

#include "iter/core/alloc.h"
#include "iter/core/arith.h"
#include "iter/core/error.h"
#include "loaders/sources/source_files.h"

#define ITER_RING_DEPTH_MIN 8u
#define ITER_RING_DEPTH_MAX 4096u
/* Submission entries of one step if each read opens its file. */
#define ITER_RING_CHAIN     3u
#define ITER_RING_LOST_MAX  8  /* times to submit a read again when its thread is gone */
#define ITER_RING_AGAIN_MAX 64 /* times to repeat it after EINTR or EAGAIN */
/* If the kernel accepts nothing for this long, the ring is given up. */
#define ITER_RING_PATIENCE_NS ((int64_t)2000000000)
/* The longest wait: a wake that could not be sent delays a thread no longer than this. */
#define ITER_RING_WAIT_NS ((int64_t)50000000)
/* Kernel threads that look up paths: a fifth more cold files per second than with 8. */
#define ITER_RING_LOOKUPS      64u
#define ITER_RING_BOUNCE_BYTES ((size_t)8 << 20) /* of all reads together; the default */
/* The kernel registers at most 1 GiB in one piece; smaller ones than this are not worth it. */
#define ITER_RING_PIECE_SHIFT 30
#define ITER_RING_PIECES      64u
#define ITER_RING_ARENA_MIN   ((size_t)1 << 20)

/* The request that a completion answers: the lowest byte of its user_data, below the number of the
 * read and its generation. */
typedef enum ring_tag {
    ITER_TAG_READ,
    ITER_TAG_OPEN,   /* posted only if it failed */
    ITER_TAG_CLOSE,  /* the read before it was complete */
    ITER_TAG_PRESET, /* no request was made: op->preset is the answer */
    ITER_TAG_WAKE,
    ITER_TAG_CANCEL
} ring_tag;

/* One read in flight. If each read opens its file, its number is also the file's slot. */
typedef struct ring_op {
    iter_read *read; /* NULL = free */
    iter__source_step step;
    uint32_t generation; /* of the step: a completion with another one is stale */
    int32_t preset;      /* bytes or -errno */
    int32_t open_flags;
    uint8_t n_lost, n_again;
    bool canceled; /* cancel() was called while it was in flight */
    bool failed;   /* it could not be sent; reap() ends it */
    /* number of the submission entry that reads the step, from 0 */
    uint64_t read_entry;
} ring_op;

typedef struct ring_state {
    iter__source_files files;
    struct io_uring ring;
    bool files_registered;
    uint8_t *arena; /* the registered part begins here and has arena_bytes */
    size_t arena_bytes;
    uint8_t *bounce; /* [depth][files.blocks.bounce_bytes] */
    size_t bounce_bytes, bounce_most;
    uint32_t depth;
    ring_op *ops;       /* [depth] */
    uint32_t *free_ops; /* [depth], the first n_free are free */
    uint32_t n_free;
    bool waking, canceling; /* posted, completion not yet seen */
    bool unsent;            /* entries that are not submitted yet */
    uint64_t n_taken;       /* entries of the submission queue so far */
    int64_t refused_ns;     /* time since which the kernel accepts nothing; 0 = it does */
    /* errno of the error after which the ring was given up; 0 = it works */
    int gone;
} ring_state;

/* ---- Asking ---------------------------------------------------------------------------------- */

static struct io_uring_sqe *take_sqe(ring_state *s) {
    struct io_uring_sqe *sqe = io_uring_get_sqe(&s->ring);
    assert(sqe != NULL && "the ring is sized for every read");
    s->n_taken++;
    return sqe;
}

/* True if the kernel has taken the entry that reads, and so may write to memory. */
static bool is_sent(const ring_state *s, const ring_op *op) {
    return op->read_entry < s->n_taken - io_uring_sq_ready(&s->ring);
}

static int64_t now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

/* Whether an io_uring_enter() that failed may succeed a moment later. */
static bool is_passing(int error) {
    return error == EAGAIN || error == EBUSY || error == ENOMEM || error == ENOBUFS;
}

/* Gives up the ring, because the kernel accepts nothing any more. Reads that were never sent end
 * with that error, and the loader repeats them with pread; those in flight complete. */
static void give_up(ring_state *s, int error) {
    s->gone = error;
    for (uint32_t i = 0; i < s->depth; i++)
        s->ops[i].failed = s->ops[i].read != NULL && !is_sent(s, &s->ops[i]);
}

/* Submits the queue to the kernel. OK, or AGAIN if some of it stays queued. */
static iter_status flush(ring_state *s) {
    while (!s->gone && io_uring_sq_ready(&s->ring) > 0) {
        const int n = io_uring_submit(&s->ring);
        if (n > 0) {
            s->refused_ns = 0;
            continue;
        }
        if (n == -EINTR) continue;
        const int64_t now = now_ns();
        if (!s->refused_ns) s->refused_ns = now;
        const bool passes = n == 0 || is_passing(-n);
        if (passes && now - s->refused_ns < ITER_RING_PATIENCE_NS) return ITER_AGAIN;
        give_up(s, n < 0 ? -n : EAGAIN);
    }
    s->unsent = false;
    return ITER_OK;
}

static uint64_t tag_of(const ring_state *s, const ring_op *op, ring_tag tag) {
    return (uint64_t)op->generation << 32 | (uint64_t)(op - s->ops) << 8 | (uint64_t)tag;
}

static uint8_t *bounce_of(const ring_state *s, const ring_op *op) {
    if (s->bounce == NULL) return NULL;
    return s->bounce + (size_t)(op - s->ops) * s->files.blocks.bounce_bytes;
}

/* Whether [base, base + length) lies in one registered piece; *out_piece is its number. */
static bool in_arena(const ring_state *s, const void *base, size_t length, int *out_piece) {
    const uintptr_t at = (uintptr_t)base - (uintptr_t)s->arena;
    if (at >= s->arena_bytes || length > s->arena_bytes - at) return false;
    *out_piece = (int)(at >> ITER_RING_PIECE_SHIFT);
    return (at + length - 1) >> ITER_RING_PIECE_SHIFT == at >> ITER_RING_PIECE_SHIFT;
}

static struct io_uring_sqe *prepare_read(ring_state *s, const ring_op *op, int fd) {
    struct io_uring_sqe *sqe = take_sqe(s);
    const iter__source_step *step = &op->step;
    int piece;
    if (step->kind == ITER_STEP_MANY) {
        io_uring_prep_readv(sqe, fd, (const struct iovec *)(const void *)step->parts,
                            (unsigned)step->n_parts, step->offset);
    } else if (step->kind == ITER_STEP_BOUNCE) {
        io_uring_prep_read(sqe, fd, bounce_of(s, op), (unsigned)step->length, step->offset);
    } else if (in_arena(s, step->base, step->length, &piece)) {
        io_uring_prep_read_fixed(sqe, fd, step->base, (unsigned)step->length, step->offset, piece);
    } else {
        io_uring_prep_read(sqe, fd, step->base, (unsigned)step->length, step->offset);
    }
    /* After EAGAIN the request goes to a kernel thread, which may wait. */
    if (op->n_again > 1) io_uring_sqe_set_flags(sqe, IOSQE_ASYNC);
    sqe->user_data = tag_of(s, op, ITER_TAG_READ);
    return sqe;
}

static void prepare_chain(ring_state *s, const ring_op *op) {
    const unsigned slot = (unsigned)(op - s->ops);
    const char *path = s->files.files[op->read->object].path;
    struct io_uring_sqe *sqe = take_sqe(s);
    io_uring_prep_openat_direct(sqe, AT_FDCWD, path, op->open_flags, 0, slot);
    io_uring_sqe_set_flags(sqe, IOSQE_IO_LINK | IOSQE_CQE_SKIP_SUCCESS);
    sqe->user_data = tag_of(s, op, ITER_TAG_OPEN);

    sqe = prepare_read(s, op, (int)slot);
    sqe->flags |= IOSQE_FIXED_FILE | IOSQE_IO_LINK | IOSQE_CQE_SKIP_SUCCESS;

    sqe = take_sqe(s);
    io_uring_prep_close_direct(sqe, slot);
    sqe->user_data = tag_of(s, op, ITER_TAG_CLOSE);
}

/* An answer that needs no request goes through the ring all the same, so that wait() sees it. */
static void prepare_preset(ring_state *s, ring_op *op, int32_t answer) {
    op->preset = answer;
    struct io_uring_sqe *sqe = take_sqe(s);
    io_uring_prep_nop(sqe);
    sqe->user_data = tag_of(s, op, ITER_TAG_PRESET);
}

/* Queues the next step of a read. */
static void queue_step(ring_state *s, ring_op *op) {
    const iter_read *read = op->read;
    op->generation++;
    op->read_entry = s->n_taken + (s->files.fds == NULL ? 1 : 0); /* after its openat */
    if (s->gone) {
        op->failed = true;
        return;
    }
    iter__step_plan(read, &s->files.blocks, &op->step);
    if (op->step.kind == ITER_STEP_NONE) {
        prepare_preset(s, op, 0);
    } else if (s->files.fds == NULL) {
        prepare_chain(s, op);
    } else if (s->files.fds[read->object] < 0) {
        prepare_preset(s, op, s->files.fds[read->object]);
    } else if (s->files_registered) {
        prepare_read(s, op, (int)read->object)->flags |= IOSQE_FIXED_FILE;
    } else {
        prepare_read(s, op, s->files.fds[read->object]);
    }
}

/* ---- Answers --------------------------------------------------------------------------------- */

static void end_canceled(iter_read *read, int32_t os_error) {
    read->status = ITER_ECANCELED;
    read->os_error = os_error;
}

/* Books a completion of the read; true if the read has ended. */
static bool settle(ring_state *s, ring_op *op, ring_tag tag, int32_t answer) {
    iter_read *read = op->read;
    if (tag == ITER_TAG_PRESET) {
        iter__step_end(read, -op->preset);
        return true;
    }
    if (tag == ITER_TAG_OPEN && answer == -EINVAL && (op->open_flags & O_DIRECT) != 0) {
        op->open_flags &= ~O_DIRECT; /* this file is on another file system */
        return false;
    }
    int64_t got = answer;
    if (tag == ITER_TAG_CLOSE) got = answer < 0 ? -ECANCELED : (int64_t)op->step.length;
    switch (iter__step_book(read, &op->step, bounce_of(s, op), got)) {
    case ITER_AFTER_DONE: return true;
    case ITER_AFTER_NEXT:
        if (!op->canceled) return false;
        end_canceled(read, ECANCELED);
        return true;
    case ITER_AFTER_AGAIN:
        if (op->canceled) {
            end_canceled(read, ECANCELED);
            return true;
        }
        if (op->n_again++ < ITER_RING_AGAIN_MAX) return false;
        iter__step_end(read, (int32_t)-got);
        return true;
    case ITER_AFTER_LOST:
        if (!op->canceled && op->n_lost++ < ITER_RING_LOST_MAX) return false;
        end_canceled(read, (int32_t)-got);
        return true;
    }
    return true;
}

/* ---- Opening --------------------------------------------------------------------------------- */

static void add_note(char *fallback, size_t capacity, const char *text) {
    const size_t used = capacity > 0 ? strlen(fallback) : 0;
    if (used >= capacity) return;
    (void)snprintf(fallback + used, capacity - used, "%s%s", used > 0 ? "; " : "", text);
}

static uint32_t ring_entries(const ring_state *s) {
    return s->depth * (s->files.fds == NULL ? ITER_RING_CHAIN : 1) + 4;
}

/* Creates the ring, with fewer reads at once when memory is short. 0, or -errno. */
/* ThreadSanitizer does not see the system calls by which liburing maps and unmaps rings. If a ring
 * gets the addresses of an earlier one, it would report their accesses as a race; these calls order
 * the two. */
#ifdef __SANITIZE_THREAD__
static char unmapped_rings;
#define AFTER_UNMAPPED_RINGS() __tsan_acquire(&unmapped_rings)
#define RING_IS_UNMAPPED()     __tsan_release(&unmapped_rings)
#else
#define AFTER_UNMAPPED_RINGS() ((void)0)
#define RING_IS_UNMAPPED()     ((void)0)
#endif

static void exit_ring(ring_state *s) {
    RING_IS_UNMAPPED(); /* first: after the unmapping another thread's ring may get the addresses */
    io_uring_queue_exit(&s->ring);
}

static int create_ring(ring_state *s) {
    unsigned flags = IORING_SETUP_CLAMP;
#ifdef IORING_SETUP_SUBMIT_ALL
    flags |= IORING_SETUP_SUBMIT_ALL; /* since Linux 5.18 */
#endif
    for (;;) {
        struct io_uring_params params;
        memset(&params, 0, sizeof params);
        params.flags = flags;
        const int status = io_uring_queue_init_params(ring_entries(s), &s->ring, &params);
        if (status == 0) {
            AFTER_UNMAPPED_RINGS();
            return 0;
        }
        if (status == -EINVAL && flags != IORING_SETUP_CLAMP) {
            flags = IORING_SETUP_CLAMP;
        } else if (status == -ENOMEM && s->depth > ITER_RING_DEPTH_MIN) {
            s->depth = iter__max_u32(s->depth / 2, ITER_RING_DEPTH_MIN);
        } else {
            return status;
        }
    }
}

/* Makes one real read, because a ring that was created may still refuse to read. 0, or -errno. */
static int probe_ring(ring_state *s) {
    const int fd = open("/dev/zero", O_RDONLY | O_CLOEXEC);
    char byte = 1;
    struct io_uring_sqe *sqe = take_sqe(s);
    if (fd >= 0) {
        io_uring_prep_read(sqe, fd, &byte, 1, 0);
    } else { /* a root without devices */
        io_uring_prep_nop(sqe);
    }
    struct io_uring_cqe *cqe = NULL;
    int status;
    for (int tries = 0;; tries++) {
        status = io_uring_submit_and_wait(&s->ring, 1);
        if (status != -EINTR && !(status < 0 && is_passing(-status) && tries < 3)) break;
        const struct timespec pause = {.tv_nsec = 1000000};
        nanosleep(&pause, NULL);
    }
    if (status >= 0) status = io_uring_peek_cqe(&s->ring, &cqe);
    if (status >= 0) {
        status = cqe->res;
        io_uring_cqe_seen(&s->ring, cqe);
        if (fd >= 0 && status >= 0) status = status == 1 && byte == 0 ? 0 : -EIO;
    }
    if (fd >= 0) close(fd);
    return status < 0 ? status : 0;
}

/* Registers few files all at once; if one cannot be opened, only its reads fail. For many files,
 * registers one slot for each read. 0, or -errno. */
static int register_files(ring_state *s, char *fallback, size_t capacity) {
    if (s->files.fds == NULL) {
        /* Kernel threads look up paths that are not cached; the default is 4 for each core. */
        unsigned workers[2] = {ITER_RING_LOOKUPS, 0};
        (void)io_uring_register_iowq_max_workers(&s->ring, workers);
        return io_uring_register_files_sparse(&s->ring, s->depth);
    }
    const uint64_t n = s->files.n_files;
    if (n == 0) return 0;
    int fds[ITER_SOURCE_OPEN_MAX];
    for (uint64_t i = 0; i < n; i++)
        fds[i] = s->files.fds[i] >= 0 ? s->files.fds[i] : -1;
    const int status = io_uring_register_files(&s->ring, fds, (unsigned)n);
    s->files_registered = status >= 0;
    if (status < 0) add_note(fallback, capacity, "io_uring does not register files here");
    return 0;
}

/* Registers as much of the arena as may be locked in memory; reads into the rest are ordinary ones.
 * Under O_DIRECT that saves pinning its pages for every read. Copies from the page cache gain
 * nothing by it: 3 KB took 1.3 us of CPU with and without, 64 KiB 13 instead of 11, because the
 * kernel then copies page by page. */
static void register_arena(ring_state *s, const iter_source_config *config, char *fallback,
                           size_t capacity) {
    if (config->arena == NULL || config->arena_bytes == 0 || s->files.blocks.offset_align == 0)
        return;
    const size_t piece = (size_t)1 << ITER_RING_PIECE_SHIFT;
    size_t bytes = config->arena_bytes;
    if (bytes / piece >= ITER_RING_PIECES) bytes = ITER_RING_PIECES * piece;
    int status = 0;
    for (; bytes >= ITER_RING_ARENA_MIN || bytes == config->arena_bytes; bytes = bytes / 2) {
        struct iovec pieces[ITER_RING_PIECES];
        unsigned n = 0;
        for (size_t at = 0; at < bytes; at += piece, n++) {
            pieces[n].iov_base = (uint8_t *)config->arena + at;
            pieces[n].iov_len = iter__min_size(bytes - at, piece);
        }
        status = io_uring_register_buffers(&s->ring, pieces, n);
        if (status != -ENOMEM) break;
    }
    if (status >= 0) {
        s->arena = config->arena;
        s->arena_bytes = bytes;
    }
    if (status >= 0 && bytes == config->arena_bytes) return;
    char text[160];
    char reason[64];
    (void)snprintf(
        text, sizeof text, "%zu of %zu KiB of read memory are registered with io_uring (%s)",
        s->arena_bytes >> 10, config->arena_bytes >> 10,
        status < 0 ? iter__os_error(-status, reason, sizeof reason) : "limit: ulimit -l");
    add_note(fallback, capacity, text);
}

/* Allows fewer reads at once when there is little memory for whole blocks; each needs two. */
static void fit_bounce(ring_state *s, size_t most) {
    s->bounce_most = most ? most : ITER_RING_BOUNCE_BYTES;
    while (s->files.blocks.offset_align && s->depth / 2 >= ITER_RING_DEPTH_MIN &&
           s->bounce_most / s->depth < 2 * (size_t)s->files.blocks.offset_align)
        s->depth /= 2;
}

static iter_status allocate(ring_state *s, iter_error *err) {
    s->ops = iter__alloc(s->depth, sizeof *s->ops);
    s->free_ops = iter__alloc(s->depth, sizeof *s->free_ops);
    if (s->ops == NULL || s->free_ops == NULL) {
        return iter__fail(err, ITER_ENOMEM, "out of memory for %u reads in flight", s->depth);
    }
    for (uint32_t i = 0; i < s->depth; i++)
        s->free_ops[s->n_free++] = s->depth - 1 - i;

    iter__blocks *blocks = &s->files.blocks;
    if (blocks->offset_align == 0) return ITER_OK;
    assert(s->depth >= ITER_RING_DEPTH_MIN);
    const size_t share = s->bounce_most / s->depth;
    while (blocks->bounce_bytes > share && blocks->bounce_bytes >= 4 * blocks->offset_align &&
           blocks->bounce_bytes >= 2 * blocks->memory_align)
        blocks->bounce_bytes /= 2;
    s->bounce_bytes = (size_t)s->depth * blocks->bounce_bytes;
    s->bounce = iter__map(s->bounce_bytes);
    if (s->bounce == NULL) {
        return iter__fail(err, ITER_ENOMEM, "out of memory for %zu KiB of O_DIRECT blocks",
                          s->bounce_bytes >> 10);
    }
    return ITER_OK;
}

static void release(ring_state *s) {
    iter__source_files_close(&s->files);
    if (s->bounce != NULL) iter__unmap(s->bounce, s->bounce_bytes);
    iter__free(s->free_ops);
    iter__free(s->ops);
}

static iter_status refuse(ring_state *s, bool created, const char *what, int status,
                          iter_error *err) {
    char reason[64];
    if (created) exit_ring(s);
    release(s);
    return iter__fail(err, ITER_EUNSUPPORTED, "io_uring is unavailable here: %s: %s", what,
                      iter__os_error(-status, reason, sizeof reason));
}

/* ---- The table's functions ------------------------------------------------------------------- */

static iter_status uring_open(void *state, const iter_source_config *config, char *fallback,
                              size_t capacity, iter_error *err) {
    ring_state *s = state;
    ITER_TRY(iter__source_files_open(&s->files, config, fallback, capacity, err));
    s->depth = config->depth < ITER_RING_DEPTH_MIN ? ITER_RING_DEPTH_MIN : config->depth;
    if (s->depth > ITER_RING_DEPTH_MAX) s->depth = ITER_RING_DEPTH_MAX;
    fit_bounce(s, config->buffer_bytes);
    int status = create_ring(s);
    if (status < 0) return refuse(s, false, "io_uring_setup", status, err);
    unsigned needed = IORING_FEAT_NODROP | IORING_FEAT_SUBMIT_STABLE | IORING_FEAT_EXT_ARG;
    if (s->files.fds == NULL) needed |= IORING_FEAT_CQE_SKIP;
    if ((s->ring.features & needed) != needed)
        return refuse(s, true, "this kernel's version", -ENOSYS, err);
    status = probe_ring(s);
    if (status < 0) return refuse(s, true, "reading", status, err);
    status = register_files(s, fallback, capacity);
    if (status < 0) return refuse(s, true, "registering files", status, err);
    register_arena(s, config, fallback, capacity);
    const iter_status answer = allocate(s, err);
    if (answer < 0) {
        exit_ring(s);
        release(s);
    }
    return answer;
}

static void uring_close(void *state) {
    ring_state *s = state;
    assert(s->n_free == s->depth && "no read is in flight");
    exit_ring(s);
    release(s);
}

static iter_status uring_read(void *state, iter_read *read) {
    const ring_state *s = state;
    return iter__source_files_read(&s->files, read);
}

static iter_status uring_try_read(void *state, iter_read *read) {
    const ring_state *s = state;
    return iter__source_files_try_read(&s->files, read);
}

static iter_status uring_submit(void *state, iter_read *read) {
    ring_state *s = state;
    if (s->n_free == 0) return ITER_AGAIN;
    ring_op *op = &s->ops[s->free_ops[--s->n_free]];
    op->read = read;
    op->open_flags = s->files.open_flags & ~O_CLOEXEC; /* a slot is no descriptor */
    op->n_lost = 0;
    op->n_again = 0;
    op->canceled = op->failed = false;
    queue_step(s, op);
    return ITER_PENDING;
}

static iter_status uring_commit(void *state) {
    return flush(state);
}

/* The read has ended. */
static iter_read *end_op(ring_state *s, ring_op *op) {
    iter_read *read = op->read;
    read->path = ITER_PATH_RING;
    op->read = NULL;
    op->failed = false;
    s->free_ops[s->n_free++] = (uint32_t)(op - s->ops);
    return read;
}

/* Ends reads that could not be sent. Bytes that earlier steps read do not count. */
static int32_t reap_failed(ring_state *s, iter_read **out, int32_t max) {
    int32_t n = 0;
    for (uint32_t i = 0; i < s->depth && n < max; i++) {
        if (!s->ops[i].failed) continue;
        if (s->ops[i].canceled)
            end_canceled(s->ops[i].read, ECANCELED);
        else
            iter__step_end(s->ops[i].read, s->gone);
        out[n++] = end_op(s, &s->ops[i]);
    }
    return n;
}

static int32_t uring_reap(void *state, iter_read **out, int32_t max) {
    ring_state *s = state;
    int32_t n = 0;
    struct io_uring_cqe *cqe;
    while (n < max && io_uring_peek_cqe(&s->ring, &cqe) == 0) {
        const uint64_t data = cqe->user_data;
        const int32_t answer = cqe->res;
        io_uring_cqe_seen(&s->ring, cqe);
        const ring_tag tag = (ring_tag)(data & 0xff);
        if (tag == ITER_TAG_WAKE) s->waking = false;
        if (tag == ITER_TAG_CANCEL) s->canceling = false;
        if (tag == ITER_TAG_WAKE || tag == ITER_TAG_CANCEL) continue;
        ring_op *op = &s->ops[data >> 8 & 0xffffff];
        if (op->read == NULL || op->generation != data >> 32) continue;
        if (!settle(s, op, tag, answer)) {
            queue_step(s, op);
            s->unsent = true;
            continue;
        }
        out[n++] = end_op(s, op);
    }
    if (s->unsent) (void)flush(s); /* the rest goes with the next commit, reap or wake */
    return s->gone ? n + reap_failed(s, out + n, max - n) : n;
}

static iter_status uring_wait(void *state, int64_t timeout_ns) {
    const ring_state *s = state;
    if (timeout_ns < 0 || timeout_ns > ITER_RING_WAIT_NS) timeout_ns = ITER_RING_WAIT_NS;
    struct __kernel_timespec time = {.tv_sec = timeout_ns / 1000000000,
                                     .tv_nsec = timeout_ns % 1000000000};
    struct io_uring_getevents_arg how;
    memset(&how, 0, sizeof how);
    how.sigmask_sz = _NSIG / 8;
    how.ts = (uint64_t)(uintptr_t)&time;
    const long n = syscall(SYS_io_uring_enter, s->ring.ring_fd, 0, 1,
                           IORING_ENTER_GETEVENTS | IORING_ENTER_EXT_ARG, &how, sizeof how);
    return n >= 0 || errno == ETIME || errno == EINTR ? ITER_OK : ITER_EIO;
}

static void uring_wake(void *state) {
    ring_state *s = state;
    if (s->gone) return; /* then wait() is short */
    if (!s->waking) {    /* else a wake is under way, and wait() returns at once */
        struct io_uring_sqe *sqe = take_sqe(s);
        io_uring_prep_nop(sqe);
        sqe->user_data = ITER_TAG_WAKE;
        s->waking = true;
    }
    (void)flush(s);
}

static void uring_cancel(void *state) {
    ring_state *s = state;
    for (uint32_t i = 0; i < s->depth; i++)
        if (s->ops[i].read != NULL) s->ops[i].canceled = true;
    if (!s->canceling && !s->gone) {
        struct io_uring_sqe *sqe = take_sqe(s);
        io_uring_prep_cancel64(sqe, 0, IORING_ASYNC_CANCEL_ANY | IORING_ASYNC_CANCEL_ALL);
        sqe->user_data = ITER_TAG_CANCEL;
        s->canceling = true;
    }
    (void)flush(s);
}

const iter_source_ops iter__source_uring = {
    .base = {.struct_size = sizeof(iter_source_ops),
             .name = "ring",
             .help = "one io_uring per loader",
             .state_size = sizeof(ring_state)},
    .open = uring_open,
    .close = uring_close,
    .read = uring_read,
    .try_read = uring_try_read,
    .submit = uring_submit,
    .commit = uring_commit,
    .reap = uring_reap,
    .wait = uring_wait,
    .wake = uring_wake,
    .cancel = uring_cancel,
};

#endif

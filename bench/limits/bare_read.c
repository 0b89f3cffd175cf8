/*
 * bare_read.c - see bare_read.h.
 *
 * All three functions run the same loop: a generator names the next piece to read, into one of
 * `depth` buffers, until none is left. Without a ring, each turn of the loop is a pread. With a
 * ring, the loop keeps the ring full and takes reads as they complete. The loop of bare_read_many()
 * also opens and closes the files, in the ring as one chain of three operations.
 */
#include "bench/limits/bare_read.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#include "bench/common/bench_util.h"

#ifdef ITER_HAVE_URING
#include <liburing.h>
#endif

#define DEFAULT_DEPTH 32u
#define DEFAULT_BLOCK ((size_t)1 << 20)
#define BLOCK_ALIGN   4096u

typedef struct piece {
    int fd;           /* to read from, or -1: open `path` for it */
    const char *path; /* also for messages */
    uint64_t offset;
    size_t bytes;    /* to ask for */
    size_t expected; /* bytes that must be there; more or fewer are an error */
    bool any_size;   /* accept any number of bytes instead */
    size_t number;
} piece;

typedef struct loop {
    const bare_read_options *options;
    uint32_t depth;
    size_t buffer_bytes;
    uint8_t *buffers; /* [depth][buffer_bytes] */
    const char *const *paths;
    size_t n_paths;
    int *fds;              /* NULL = opened one by one */
    uint64_t *file_bytes;  /* bare_read_files() */
    const uint64_t *sizes; /* bare_read_many() */
    const bare_record *records;
    size_t n_records;
    size_t next; /* counter of the generators */
    uint64_t next_offset;
    bool (*generate)(struct loop *, piece *out);
    bare_read_result *result;
    iter_error *err;
} loop;

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static iter_status fail(const loop *l, iter_status status, const char *what, int os_error) {
    if (l->err != NULL) {
        l->err->status = status;
        snprintf(l->err->message, sizeof l->err->message, "%s: %s", what,
                 os_error != 0 ? strerror(os_error) : "its size has changed");
    }
    return status;
}

/* ---- Generators ------------------------------------------------------------------------------ */

static bool next_block(loop *l, piece *out) {
    while (l->next < l->n_paths && l->next_offset >= l->file_bytes[l->next]) {
        l->next++;
        l->next_offset = 0;
    }
    if (l->next == l->n_paths) return false;
    const uint64_t left = l->file_bytes[l->next] - l->next_offset;
    *out = (piece){.fd = l->fds[l->next],
                   .path = l->paths[l->next],
                   .offset = l->next_offset,
                   .number = l->next};
    out->expected = left < l->buffer_bytes ? (size_t)left : l->buffer_bytes;
    out->bytes = (out->expected + BLOCK_ALIGN - 1) / BLOCK_ALIGN * BLOCK_ALIGN;
    l->next_offset += out->expected;
    return true;
}

static bool next_record(loop *l, piece *out) {
    if (l->next == l->n_records) return false;
    const bare_record *r = &l->records[l->next];
    *out = (piece){.fd = l->fds[r->file],
                   .path = l->paths[r->file],
                   .offset = r->offset,
                   .bytes = r->bytes,
                   .expected = r->bytes,
                   .number = l->next++};
    return true;
}

static bool next_file(loop *l, piece *out) {
    if (l->next == l->n_paths) return false;
    *out = (piece){.fd = -1, .path = l->paths[l->next], .any_size = l->sizes == NULL};
    out->bytes = out->any_size ? l->buffer_bytes : (size_t)l->sizes[l->next];
    out->expected = out->bytes;
    out->number = l->next++;
    return true;
}

/* ---- The loop, plain ------------------------------------------------------------------------- */

static iter_status take(loop *l, const piece *p, const uint8_t *bytes, int64_t got) {
    if (got < 0) return fail(l, ITER_EIO, p->path, (int)-got);
    if (!p->any_size && (size_t)got != p->expected) return fail(l, ITER_EIO, p->path, 0);
    l->result->bytes += (uint64_t)got;
    l->result->reads++;
    if (l->options->each != NULL) l->options->each(l->options->user, p->number, bytes, (size_t)got);
    return ITER_OK;
}

static iter_status run_plain(loop *l) {
    piece p;
    for (uint32_t i = 0; l->generate(l, &p); i = (i + 1) % l->depth) {
        uint8_t *buffer = l->buffers + (size_t)i * l->buffer_bytes;
        const int fd = p.fd >= 0 ? p.fd : open(p.path, O_RDONLY | O_CLOEXEC);
        if (fd < 0) return fail(l, ITER_EIO, p.path, errno);
        const struct iovec part = {buffer, p.bytes};
        const ssize_t got = preadv2(fd, &part, 1, (off_t)p.offset, 0);
        const int why = errno;
        if (p.fd < 0) close(fd);
        const iter_status status = take(l, &p, buffer, got < 0 ? -why : got);
        if (status < 0) return status;
    }
    return ITER_OK;
}

/* ---- The loop, through a ring ---------------------------------------------------------------- */

#ifdef ITER_HAVE_URING

#define TAG_OPEN  1u
#define TAG_CLOSE 2u

bool bare_read_has_ring(void) {
    struct io_uring ring;
    if (io_uring_queue_init(2, &ring, 0) != 0) return false;
    io_uring_queue_exit(&ring);
    return true;
}

static void queue_piece(struct io_uring *ring, const piece *p, uint32_t slot, uint8_t *buffer) {
    struct io_uring_sqe *sqe;
    if (p->fd < 0) {
        sqe = io_uring_get_sqe(ring);
        io_uring_prep_openat_direct(sqe, AT_FDCWD, p->path, O_RDONLY, 0, slot);
        io_uring_sqe_set_flags(sqe, IOSQE_IO_LINK | IOSQE_CQE_SKIP_SUCCESS);
        sqe->user_data = (uint64_t)slot << 8 | TAG_OPEN;
    }
    sqe = io_uring_get_sqe(ring);
    io_uring_prep_read(sqe, (int)slot, buffer, (unsigned)p->bytes, p->offset);
    sqe->user_data = (uint64_t)slot << 8;
    if (p->fd >= 0) {
        sqe->fd = p->fd;
        return;
    }
    /* If the read may be shorter than asked for, the close must run in any case. Else a good read
     * reports nothing, and the close reports for both. */
    io_uring_sqe_set_flags(sqe, p->any_size
                                    ? IOSQE_FIXED_FILE | IOSQE_IO_HARDLINK
                                    : IOSQE_FIXED_FILE | IOSQE_IO_LINK | IOSQE_CQE_SKIP_SUCCESS);
    sqe = io_uring_get_sqe(ring);
    io_uring_prep_close_direct(sqe, slot);
    sqe->user_data = (uint64_t)slot << 8 | TAG_CLOSE;
}

/* Takes all completions, and refills each slot that becomes free. */
static iter_status drain(loop *l, struct io_uring *ring, piece *pieces, uint32_t *in_flight) {
    struct io_uring_cqe *cqe;
    while (io_uring_peek_cqe(ring, &cqe) == 0) {
        const uint32_t slot = (uint32_t)(cqe->user_data >> 8);
        const uint32_t tag = (uint32_t)(cqe->user_data & 0xff);
        const int32_t got = cqe->res;
        io_uring_cqe_seen(ring, cqe);
        uint8_t *buffer = l->buffers + (size_t)slot * l->buffer_bytes;
        const piece *p = &pieces[slot];
        if (tag == TAG_OPEN) return fail(l, ITER_EIO, p->path, -got);
        if (tag != TAG_CLOSE || !p->any_size) {
            const iter_status status =
                take(l, p, buffer, tag == TAG_CLOSE && got >= 0 ? (int64_t)p->expected : got);
            if (status < 0) return status;
        }
        if (p->any_size && tag != TAG_CLOSE) continue; /* its close is still to come */
        if (l->generate(l, &pieces[slot])) {
            queue_piece(ring, &pieces[slot], slot, buffer);
        } else {
            (*in_flight)--;
        }
    }
    return ITER_OK;
}

static iter_status run_ring(loop *l) {
    struct io_uring ring;
    int status = io_uring_queue_init(3 * l->depth, &ring, 0);
    if (status < 0) return fail(l, ITER_EUNSUPPORTED, "io_uring", -status);
    if (l->fds == NULL) status = io_uring_register_files_sparse(&ring, l->depth);
    piece *pieces = calloc(l->depth, sizeof *pieces);
    iter_status answer = ITER_OK;
    if (status < 0) answer = fail(l, ITER_EUNSUPPORTED, "io_uring files", -status);
    if (pieces == NULL) answer = fail(l, ITER_ENOMEM, "pieces", ENOMEM);
    uint32_t in_flight = 0;
    while (answer == ITER_OK && in_flight < l->depth && l->generate(l, &pieces[in_flight])) {
        queue_piece(&ring, &pieces[in_flight], in_flight,
                    l->buffers + (size_t)in_flight * l->buffer_bytes);
        in_flight++;
    }
    while (answer == ITER_OK && in_flight > 0) {
        status = io_uring_submit_and_wait(&ring, 1);
        if (status < 0 && status != -EINTR) answer = fail(l, ITER_EIO, "io_uring_enter", -status);
        if (answer == ITER_OK) answer = drain(l, &ring, pieces, &in_flight);
    }
    io_uring_queue_exit(&ring);
    free(pieces);
    return answer;
}

#else

bool bare_read_has_ring(void) {
    return false;
}

static iter_status run_ring(loop *l) {
    return fail(l, ITER_EUNSUPPORTED, "io_uring", ENOSYS);
}

#endif

/* ---- Around the loop ------------------------------------------------------------------------- */

static iter_status open_files(loop *l) {
    const int flags = O_RDONLY | O_CLOEXEC | (l->options->direct ? O_DIRECT : 0);
    for (size_t i = 0; i < l->n_paths; i++) {
        l->fds[i] = open(l->paths[i], flags);
        struct stat info;
        if (l->fds[i] < 0 || fstat(l->fds[i], &info) != 0)
            return fail(l, ITER_EIO, l->paths[i], errno);
        l->file_bytes[i] = (uint64_t)info.st_size;
    }
    return ITER_OK;
}

static iter_status run(loop *l, bool open_all) {
    memset(l->result, 0, sizeof *l->result);
    l->depth = l->options->depth != 0 ? l->options->depth : DEFAULT_DEPTH;
    l->buffer_bytes = (l->buffer_bytes + BLOCK_ALIGN - 1) / BLOCK_ALIGN * BLOCK_ALIGN;
    l->buffers = bench_map(l->depth * l->buffer_bytes); /* huge pages, as the loader has */
    l->file_bytes = calloc(l->n_paths + 1, sizeof *l->file_bytes);
    l->fds = open_all ? malloc((l->n_paths + 1) * sizeof *l->fds) : NULL;
    iter_status status = ITER_OK;
    if (l->buffers == NULL || l->file_bytes == NULL || (open_all && l->fds == NULL)) {
        status = fail(l, ITER_ENOMEM, "buffers", ENOMEM);
    } else {
        memset(l->buffers, 1, l->depth * l->buffer_bytes);
        for (size_t i = 0; open_all && i < l->n_paths; i++)
            l->fds[i] = -1;
        const double start = now();
        if (open_all) status = open_files(l);
        if (status == ITER_OK) status = l->options->ring ? run_ring(l) : run_plain(l);
        for (size_t i = 0; open_all && i < l->n_paths; i++)
            if (l->fds[i] >= 0) close(l->fds[i]);
        l->result->seconds = now() - start;
    }
    free(l->fds);
    free(l->file_bytes);
    bench_unmap(l->buffers, l->depth * l->buffer_bytes);
    return status;
}

iter_status bare_read_files(const char *const *paths, size_t n_paths,
                            const bare_read_options *options, bare_read_result *out,
                            iter_error *err) {
    loop l = {.options = options,
              .paths = paths,
              .n_paths = n_paths,
              .buffer_bytes = options->block_bytes != 0 ? options->block_bytes : DEFAULT_BLOCK,
              .generate = next_block,
              .result = out,
              .err = err};
    return run(&l, true);
}

iter_status bare_read_records(const char *const *paths, size_t n_paths, const bare_record *records,
                              size_t n_records, const bare_read_options *options,
                              bare_read_result *out, iter_error *err) {
    size_t largest = 1;
    for (size_t i = 0; i < n_records; i++)
        if (records[i].bytes > largest) largest = records[i].bytes;
    loop l = {.options = options,
              .paths = paths,
              .n_paths = n_paths,
              .records = records,
              .n_records = n_records,
              .buffer_bytes = largest,
              .generate = next_record,
              .result = out,
              .err = err};
    return run(&l, true);
}

iter_status bare_read_many(const char *const *paths, size_t n_paths, const uint64_t *bytes,
                           size_t max_bytes, const bare_read_options *options,
                           bare_read_result *out, iter_error *err) {
    size_t largest = max_bytes > 0 && bytes == NULL ? max_bytes : 1;
    for (size_t i = 0; bytes != NULL && i < n_paths; i++)
        if (bytes[i] > largest) largest = (size_t)bytes[i];
    loop l = {.options = options,
              .paths = paths,
              .n_paths = n_paths,
              .sizes = bytes,
              .buffer_bytes = largest,
              .generate = next_file,
              .result = out,
              .err = err};
    return run(&l, false);
}

/*
 * profile_file.c - the trace: Chrome's trace event format in JSON, complete at any time.
 *
 * While a file is written it is incomplete: if the process is killed, the kernel may stop a write
 * at any page. So there are two files. The one that has the name is never written. The other,
 * "<name>.next", first gets the bytes that it lacks of the first one, then the new events and a
 * closing. Then the two exchange their names, which is atomic. If a file system cannot exchange
 * names, one file is written in place, from its closing on.
 *
 * Rings hold no arrows, because the arrows follow from the events' loader, batch and chunk: a
 * read's issue -> the chunk's making -> its batch -> next().
 *
 * Source: "Trace Event Format", Google.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "iter/core/alloc.h"
#include "iter/core/error.h"
#include "iter/core/hash.h"
#include "iter/core/thread.h"
#include "iter/core/time.h"
#include "iter/profile/profiler.h"

#define BUFFER_BYTES ((size_t)256 << 10)
/* More than the lines of one event take, with the arrows of 8 chunks. */
#define EVENT_BYTES  ((size_t)4096)
#define ARROWS_LINE  8
#define TAIL_BYTES   256
#define MICRO_DIGITS 1000
#define ID_BITS      52 /* exact in a double, as programs that read the trace have it */

struct iter__profile_file {
    /* [0] has the name, [1] is written; the same file if names cannot be exchanged. */
    int fd[2];
    off_t end[2]; /* where the closing begins */
    char path[PATH_MAX], next[PATH_MAX + 8];
    int64_t start_ns;
    bool in_place;
    uint8_t *buffer;   /* [BUFFER_BYTES] */
    size_t n;          /* bytes in it */
    off_t at;          /* where they belong */
    uint64_t n_events; /* that have lines in it */
    int error;         /* errno of a write that failed; 0 = none */
    char pid[16];
};

/* ---- Text ------------------------------------------------------------------------------------ */

static void put_bytes(iter__profile_file *file, const void *bytes, size_t n) {
    memcpy(file->buffer + file->n, bytes, n);
    file->n += n;
}

#define PUT(literal) put_bytes(file, literal, sizeof(literal) - 1)

static void put_text(iter__profile_file *file, const char *text) {
    put_bytes(file, text, strlen(text));
}

static void put_u64(iter__profile_file *file, uint64_t value) {
    char digits[20];
    size_t n = sizeof(digits);
    do {
        digits[--n] = (char)('0' + value % 10);
        value /= 10;
    } while (value);
    put_bytes(file, digits + n, sizeof(digits) - n);
}

static void put_i64(iter__profile_file *file, int64_t value) {
    if (value < 0) PUT("-");
    put_u64(file, value < 0 ? 0 - (uint64_t)value : (uint64_t)value);
}

/* Nanoseconds as microseconds with a fraction. */
static void put_us(iter__profile_file *file, int64_t ns) {
    const uint64_t magnitude = ns < 0 ? 0 - (uint64_t)ns : (uint64_t)ns;
    const unsigned rest = (unsigned)(magnitude % MICRO_DIGITS);
    if (ns < 0) PUT("-");
    put_u64(file, magnitude / MICRO_DIGITS);
    const char fraction[4] = {'.', (char)('0' + rest / 100), (char)('0' + rest / 10 % 10),
                              (char)('0' + rest % 10)};
    put_bytes(file, fraction, sizeof(fraction));
}

/* Text between quotes, escaped. */
static void put_quoted(iter__profile_file *file, const char *text) {
    static const char hex[] = "0123456789abcdef";
    for (const unsigned char *p = (const unsigned char *)text; *p; p++) {
        if (*p < 0x20 || *p == 0x7f) {
            PUT("\\u00");
            put_bytes(file, &hex[*p >> 4], 1);
            put_bytes(file, &hex[*p & 15], 1);
        } else {
            if (*p == '"' || *p == '\\') PUT("\\");
            put_bytes(file, p, 1);
        }
    }
}

/* ---- Writing --------------------------------------------------------------------------------- */

static bool write_at(iter__profile_file *file, int fd, const uint8_t *bytes, size_t n, off_t at) {
    while (n > 0) {
        const ssize_t done = pwrite(fd, bytes, n, at);
        if (done < 0 && errno == EINTR) continue;
        if (done <= 0) {
            file->error = done < 0 ? errno : EIO;
            return false;
        }
        bytes += done;
        n -= (size_t)done;
        at += done;
    }
    return true;
}

static size_t closing(const iter__profile_session *session, char out[TAIL_BYTES]) {
    const uint64_t dropped =
        session->overwritten + atomic_load_explicit(&session->lost, memory_order_relaxed);
    return (size_t)snprintf(
        out, TAIL_BYTES,
        "\n],\"displayTimeUnit\":\"ms\",\"otherData\":{\"dropped_events\":%llu}}"
        "\n",
        (unsigned long long)dropped);
}

/* Writes the buffer, and a closing after it. */
static bool write_buffer(iter__profile_file *file, iter__profile_session *session) {
    const size_t n = file->n;
    file->n += closing(session, (char *)file->buffer + n);
    const bool ok = !file->error && write_at(file, file->fd[1], file->buffer, file->n, file->at);
    if (ok) file->at += (off_t)n;
    if (!ok) session->overwritten += file->n_events;
    file->n = file->n_events = 0;
    return ok;
}

/* Copies to the second file what it lacks of the first one. */
static bool catch_up(iter__profile_file *file) {
    while (file->end[1] < file->end[0]) {
        const off_t lacks = file->end[0] - file->end[1];
        const size_t n = lacks < (off_t)BUFFER_BYTES ? (size_t)lacks : BUFFER_BYTES;
        const ssize_t got = pread(file->fd[0], file->buffer, n, file->end[1]);
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0) {
            file->error = got < 0 ? errno : EIO;
            return false;
        }
        if (!write_at(file, file->fd[1], file->buffer, (size_t)got, file->end[1])) return false;
        file->end[1] += got;
    }
    return true;
}

/* Gives the name to the file just written, which ends with a closing of file->n bytes. */
static bool exchange(iter__profile_file *file) {
    const bool cut = ftruncate(file->fd[1], file->at + (off_t)file->n) == 0;
    if (!cut || (!file->in_place &&
                 renameat2(AT_FDCWD, file->next, AT_FDCWD, file->path, RENAME_EXCHANGE) < 0)) {
        file->error = errno;
        return false;
    }
    if (file->in_place) {
        file->end[0] = file->at;
        return true;
    }
    const int fd = file->fd[0];
    const off_t end = file->end[0];
    file->fd[0] = file->fd[1];
    file->end[0] = file->end[1];
    file->fd[1] = fd;
    file->end[1] = end;
    return true;
}

/* ---- Events ---------------------------------------------------------------------------------- */

static void put_head(iter__profile_file *file, const char *phase, int32_t track) {
    PUT(",\n{\"ph\":\"");
    put_text(file, phase);
    PUT("\",\"pid\":");
    put_text(file, file->pid);
    PUT(",\"tid\":");
    put_u64(file, (uint64_t)track);
}

static void put_time(iter__profile_file *file, int64_t ns) {
    PUT(",\"ts\":");
    put_us(file, ns - file->start_ns);
}

static void put_name(iter__profile_file *file, uint32_t name) {
    PUT(",\"cat\":\"");
    put_text(file, iter__profile_category_text(iter__profile_name_category(name)));
    PUT("\",\"name\":\"");
    put_quoted(file, iter__profile_name_text(name));
    PUT("\"");
}

/* A number for a chunk of a batch, or for the batch (chunk UINT32_MAX). */
static void put_id(iter__profile_file *file, const iter__profile_record *r, uint32_t chunk) {
    const uint64_t key[3] = {r->loader, r->serial, chunk};
    PUT(",\"id\":");
    put_u64(file, iter__fnv1a(ITER_FNV_START, key, sizeof(key)) >> (64 - ID_BITS));
}

static void put_args(iter__profile_file *file, const iter__profile_record *r) {
    const iter__profile_category category = iter__profile_name_category(r->name);
    PUT(",\"args\":{\"loader\":");
    put_u64(file, r->loader);
    if (category != CATEGORY_WAIT) {
        PUT(",\"epoch\":");
        put_u64(file, r->epoch);
        PUT(",\"batch\":");
        put_u64(file, r->batch);
        if (category == CATEGORY_STAGE || category == CATEGORY_READ) {
            PUT(",\"chunk\":");
            put_u64(file, r->chunk);
        }
        if (category == CATEGORY_READ) {
            PUT(",\"bytes\":");
        } else {
            PUT(",\"rows\":");
        }
        put_i64(file, r->value);
    }
    PUT("}");
}

static void put_arrow(iter__profile_file *file, const iter__profile_record *r, int32_t track,
                      const char *phase, uint32_t chunk, int64_t ns) {
    put_head(file, phase, track);
    put_time(file, ns);
    put_id(file, r, chunk);
    if (phase[0] == 'f') PUT(",\"bp\":\"e\"");
    if (chunk == UINT32_MAX) {
        PUT(",\"cat\":\"flow\",\"name\":\"batch\"}");
    } else {
        PUT(",\"cat\":\"flow\",\"name\":\"chunk\"}");
    }
}

/* The arrows that leave this span, or come in. */
static void put_arrows(iter__profile_file *file, iter__profile_session *session,
                       const iter__profile_record *r, int32_t track) {
    const bool read = r->flows & FLOW_FROM_READ, on = r->flows & FLOW_TO_BATCH;
    if (r->name == PROFILE_ISSUE) put_arrow(file, r, track, "s", r->chunk, r->start_ns);
    if (iter__profile_name_category(r->name) == CATEGORY_STAGE && (read || on)) {
        const char *phase = !read ? "s" : on ? "t" : "f";
        put_arrow(file, r, track, phase, r->chunk, r->start_ns);
    }
    if (r->name == PROFILE_BATCH) {
        for (uint32_t c = 0; on && c < r->chunk; c++) {
            if (c % ARROWS_LINE == 0 && file->n + EVENT_BYTES > BUFFER_BYTES - TAIL_BYTES)
                write_buffer(file, session);
            put_arrow(file, r, track, "f", c, r->start_ns);
        }
        put_arrow(file, r, track, "s", UINT32_MAX, r->start_ns);
    }
    if (r->name == PROFILE_NEXT) /* inside next(), and after the end of the batch */
        put_arrow(file, r, track, "f", UINT32_MAX, r->start_ns + r->duration_ns - 1);
}

/* A span that belongs to no thread, such as a read in flight. */
static void put_async(iter__profile_file *file, const iter__profile_record *r, int32_t track) {
    for (int end = 0; end < 2; end++) {
        put_head(file, end ? "e" : "b", track);
        put_time(file, r->start_ns + (end ? r->duration_ns : 0));
        put_name(file, r->name);
        put_id(file, r, r->chunk);
        if (!end) put_args(file, r);
        PUT("}");
    }
}

static void put_counter(iter__profile_file *file, const iter__profile_record *r, int32_t track) {
    put_head(file, "C", track);
    put_time(file, r->start_ns);
    put_name(file, r->name);
    if (iter__profile_name_category(r->name) == CATEGORY_MEMORY) {
        PUT(",\"args\":{\"bytes\":");
        put_i64(file, r->value);
        PUT(",\"peak\":");
        put_i64(file, r->duration_ns);
    } else {
        PUT(",\"args\":{\"value\":");
        put_i64(file, r->value);
    }
    PUT("}}");
}

static void put_event(iter__profile_file *file, iter__profile_session *session,
                      const iter__profile_record *r, int32_t track) {
    if (r->type == ITER_PROFILE_ASYNC) {
        put_async(file, r, track);
        return;
    }
    if (r->type == ITER_PROFILE_COUNTER) {
        put_counter(file, r, track);
        return;
    }
    put_head(file, r->type == ITER_PROFILE_SPAN ? "X" : "i", track);
    put_time(file, r->start_ns);
    if (r->type == ITER_PROFILE_SPAN) {
        PUT(",\"dur\":");
        put_us(file, r->duration_ns);
    } else {
        PUT(",\"s\":\"t\"");
    }
    put_name(file, r->name);
    if (r->loader) put_args(file, r);
    PUT("}");
    if (r->loader && r->type == ITER_PROFILE_SPAN) put_arrows(file, session, r, track);
}

/* The track's name: once, and again if its thread turns out to be a consumer. */
static void put_track(iter__profile_file *file, iter__profile_ring *ring) {
    const bool consumes = atomic_load_explicit(&ring->consumes, memory_order_relaxed);
    if (ring->named && ring->said_consumes == consumes) return;
    put_head(file, "M", ring->track);
    PUT(",\"name\":\"thread_name\",\"args\":{\"name\":\"");
    put_quoted(file, ring->name);
    if (consumes) PUT(", consumer");
    PUT("\"}}");
    put_head(file, "M", ring->track);
    PUT(",\"name\":\"thread_sort_index\",\"args\":{\"sort_index\":");
    put_u64(file, consumes ? 0 : (uint64_t)ring->track);
    PUT("}}");
    ring->named = true;
    ring->said_consumes = consumes;
}

/* The ring's new events; false if there were none. */
static bool put_ring(iter__profile_file *file, iter__profile_session *session,
                     iter__profile_ring *ring) {
    const uint64_t head = atomic_load_explicit(&ring->head, memory_order_acquire);
    if (ring->written == head) return false;
    put_track(file, ring);
    if (head - ring->written >= ring->n_events) {
        const uint64_t from = head - ring->n_events + 1;
        session->overwritten += from - ring->written;
        ring->written = from;
    }
    for (; ring->written < head; ring->written++) {
        iter__profile_record record;
        if (file->n + EVENT_BYTES > BUFFER_BYTES - TAIL_BYTES) write_buffer(file, session);
        if (iter__profile_ring_get(ring, ring->written, &record)) {
            put_event(file, session, &record, ring->track);
            file->n_events++;
        } else {
            session->overwritten++;
        }
    }
    return true;
}

/* ---- Opening --------------------------------------------------------------------------------- */

static iter_status fail_errno(iter_error *err, const char *path, int error) {
    char reason[96];
    return iter__fail(err, error == ENOMEM ? ITER_ENOMEM : ITER_EIO, "profile: %.300s: %s", path,
                      iter__os_error(error, reason, sizeof(reason)));
}

/* Makes the path absolute, so that it stays valid if the program changes its directory. */
static iter_status find_path(iter__profile_file *file, const char *path, iter_error *err) {
    struct stat there;
    if (realpath(path, file->path)) {
        if (stat(file->path, &there) == 0 && !S_ISREG(there.st_mode))
            return iter__fail(err, ITER_EINVAL, "profile: %.300s is not a regular file", path);
    } else if (path[0] == '/') {
        if (snprintf(file->path, sizeof(file->path), "%s", path) >= (int)sizeof(file->path))
            return fail_errno(err, path, ENAMETOOLONG);
    } else {
        char here[PATH_MAX];
        if (!getcwd(here, sizeof(here))) return fail_errno(err, path, errno);
        if (snprintf(file->path, sizeof(file->path), "%s/%s", here, path) >=
            (int)sizeof(file->path))
            return fail_errno(err, path, ENAMETOOLONG);
    }
    snprintf(file->next, sizeof(file->next), "%s.next", file->path);
    return ITER_OK;
}

/* Writes the buffer and a closing, and gives that file the name. */
static bool bring_out(iter__profile_file *file, iter__profile_session *session) {
    const bool written = write_buffer(file, session);
    char tail[TAIL_BYTES];
    file->end[1] = file->at; /* after it: the closing, or part of a failed write */
    if (!written) return false;
    file->n = closing(session, tail);
    const bool ok = exchange(file);
    file->n = 0;
    return ok;
}

/* Whether another process writes the file. Each process holds a lock on the files that it
 * writes. */
static bool is_taken(const char *path) {
    const int fd = open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0) return false;
    const bool taken = flock(fd, LOCK_SH | LOCK_NB) != 0 && errno == EWOULDBLOCK;
    close(fd);
    return taken;
}

/* Makes the other file, empty, with its lock. */
static iter_status make_next(iter__profile_file *file, iter_error *err) {
    file->fd[1] = open(file->next, O_RDWR | O_CREAT | O_CLOEXEC, 0644);
    if (file->fd[1] < 0) return fail_errno(err, file->next, errno);
    const int locked = flock(file->fd[1], LOCK_EX | LOCK_NB);
    if (locked == 0 || errno != EWOULDBLOCK) /* any other error: a file system without locks */
        return ftruncate(file->fd[1], 0) == 0 ? ITER_OK : fail_errno(err, file->next, errno);
    close(file->fd[1]);
    file->fd[1] = -1;
    return iter__fail(err, ITER_EIO, "profile: %.300s: another process writes it", file->path);
}

/* Makes both files, each complete. This also shows whether names can be exchanged here. */
static iter_status make_files(iter__profile_file *file, iter__profile_session *session,
                              iter_error *err) {
    char name[ITER_PROFILE_TRACK];
    ITER_TRY(make_next(file, err));
    PUT("{\"traceEvents\":[\n{\"ph\":\"M\",\"name\":\"process_name\",\"pid\":");
    put_text(file, file->pid);
    PUT(",\"args\":{\"name\":\"");
    iter__profile_clean(program_invocation_short_name, name, sizeof(name));
    put_quoted(file, name);
    PUT("\"}}");
    if (!write_buffer(file, session) || rename(file->next, file->path) < 0)
        return fail_errno(err, file->path, file->error ? file->error : errno);
    file->fd[0] = file->fd[1];
    file->end[0] = file->at;
    ITER_TRY(make_next(file, err));
    if (!catch_up(file)) return fail_errno(err, file->next, file->error);
    file->at = file->end[1];
    if (bring_out(file, session)) return ITER_OK;
    if (file->error != EINVAL && file->error != ENOSYS)
        return fail_errno(err, file->next, file->error);
    file->in_place = true;
    close(file->fd[1]);
    unlink(file->next);
    file->fd[1] = file->fd[0];
    file->end[1] = file->end[0];
    return ITER_OK;
}

/* Locks the folder, so that processes open files in it one after another and each sees the others'
 * locks. Another program may hold this lock for long, so after a second it goes on without. Returns
 * the folder's descriptor, or -1. */
static int lock_folder(const iter__profile_file *file) {
    const struct timespec pause = {.tv_nsec = 5 * 1000000};
    char folder[PATH_MAX];
    snprintf(folder, sizeof(folder), "%s", file->path);
    char *slash = strrchr(folder, '/');
    if (slash) slash[slash == folder] = '\0';
    const int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    for (int i = 0; fd >= 0 && i < 200; i++) {
        if (flock(fd, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK) return fd;
        nanosleep(&pause, NULL);
    }
    return fd;
}

/* Chooses a name that no other process writes. If the wanted one is taken, adds the process's
 * number. */
static iter_status choose_name(iter__profile_file *file, bool may_rename,
                               iter__profile_session *session, iter_error *err) {
    char other[PATH_MAX];
    if (!is_taken(file->path) && !is_taken(file->next)) return ITER_OK;
    if (!may_rename || !iter__profile_path_insert(file->path, file->pid, other, sizeof(other)))
        return iter__fail(err, ITER_EIO,
                          "profile: %.300s: another process writes it; %%p in the name gives each "
                          "its own",
                          file->path);
    snprintf(file->path, sizeof(file->path), "%s", other);
    snprintf(file->next, sizeof(file->next), "%s.next", file->path);
    const size_t n = strlen(other), room = sizeof(session->renamed) - 1;
    snprintf(session->renamed, sizeof(session->renamed), "%s", other + (n > room ? n - room : 0));
    return ITER_OK;
}

iter_status iter__profile_file_open(const char *path, bool may_rename,
                                    iter__profile_session *session, iter_error *err) {
    iter__profile_file *file = iter__alloc(1, sizeof(*file));
    if (!file) return iter__fail(err, ITER_ENOMEM, "profile: out of memory");
    file->fd[0] = file->fd[1] = -1;
    file->start_ns = session->start_ns;
    snprintf(file->pid, sizeof(file->pid), "%d", (int)getpid());
    file->buffer = iter__alloc(1, BUFFER_BYTES);
    iter_status status = file->buffer ? find_path(file, path, err)
                                      : iter__fail(err, ITER_ENOMEM, "profile: out of memory");
    if (status == ITER_OK) {
        const int folder = lock_folder(file);
        status = choose_name(file, may_rename, session, err);
        if (status == ITER_OK) status = make_files(file, session, err);
        if (folder >= 0) close(folder);
    }
    if (status < 0) {
        iter__profile_file_close(file, file->fd[1] >= 0);
        return status;
    }
    session->file = file;
    return ITER_OK;
}

iter_status iter__profile_file_append(iter__profile_file *file, iter__profile_session *session,
                                      iter_error *err) {
    bool any = false;
    file->error = 0;
    if (!catch_up(file)) return fail_errno(err, file->next, file->error);
    file->at = file->end[1];
    for (iter__profile_ring *ring = session->rings; ring; ring = ring->next)
        any |= put_ring(file, session, ring);
    if (!any && file->end[1] == file->end[0]) return ITER_OK;
    return bring_out(file, session) ? ITER_OK : fail_errno(err, file->path, file->error);
}

void iter__profile_file_close(iter__profile_file *file, bool ours) {
    if (file->fd[1] >= 0 && file->fd[1] != file->fd[0]) {
        close(file->fd[1]);
        if (ours) unlink(file->next);
    }
    if (file->fd[0] >= 0) close(file->fd[0]);
    iter__free(file->buffer);
    iter__free(file);
}

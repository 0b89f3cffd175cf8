/*
 * remote_source.c - the source for files elsewhere: libcurl's multi interface, driven by whichever
 * thread is idle.
 *
 * A thread that takes `driver` may touch libcurl: it starts queued reads, lets curl move bytes,
 * and settles what has ended. wait() holds it while it polls; submit() and commit() from other
 * threads only leave a read in the queue and wake the poll. reap() and commit() drive themselves if
 * no thread waits. `lock` guards the queues between them, and is held for moments.
 *
 * A read is one request. If a server refuses it (429, 503), it goes back before those that were not
 * sent yet, oldest first, and is sent again as soon as the pace allows (pace.h). If it fails in
 * another way that passes, it waits, and asks for what is missing. After the client's deadline, or
 * at once if the reason does not pass, it ends with EIO. The loader then reads each of its rows by
 * read(). What failed is remembered, so read() does not spend the deadline again: it tries once,
 * and says how often all in all.
 *
 * drop() marks a read. The next thread that drives closes its connection, because the rest of an
 * answer may be long; what has no answer yet costs the server little.
 */
#include "iter/remote/request.h"

#ifdef ITER_HAVE_REMOTE

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "iter/core/alloc.h"
#include "iter/core/arith.h"
#include "iter/core/error.h"
#include "iter/core/time.h"
#include "iter/remote/gate.h"
#include "iter/remote/pace.h"
#include "iter/remote/url.h"

#define DEPTH_MAX   1024u
#define NOTES       64u /* failures that are remembered */
#define WAIT_MS_MAX 50
#define NS_PER_MS   1000000

/* What a read keeps in `reserved`; guarded by `lock`. */
#define DROPPED 0

typedef struct transfer transfer;
struct transfer {
    iter__request request; /* first: curl hands it back */
    iter_read *read;
    transfer *next;  /* of the free ones, or of those that wait */
    uint64_t number; /* of the reads that were begun: the oldest has the smallest */
    unsigned n_tries;
    int64_t sent_ns, until_ns;
    int64_t not_before_ns; /* while it waits */
    bool ends;             /* before it is over */
};

/* A read that failed. */
typedef struct note {
    uint64_t object, offset, size;
    unsigned n_tries;
    bool is_wrong; /* its bytes have another checksum: a part of it must not be trusted either */
} note;

typedef struct ring {
    iter_read **reads; /* [depth] */
    uint32_t first, n;
} ring;

typedef struct remote_source {
    const iter_file *files;
    iter__remote *own; /* for URLs without a place */
    uint32_t depth;

    pthread_mutex_t lock; /* guards these */
    ring queued, done;
    uint32_t n_taken;   /* reads that were submitted and not reaped */
    uint32_t n_dropped; /* reads that were marked, and may not have ended */
    bool canceled, woken;
    note notes[NOTES];
    uint32_t n_notes;

    pthread_mutex_t driver; /* guards these; taken before `lock` */
    CURLM *multi;
    transfer *transfers;      /* [depth] */
    transfer *free, *waiting; /* waiting: oldest first */
    uint32_t n_active;
    uint64_t n_begun;
    iter__pace pace;
} remote_source;

/* ---- Queues: with `lock` held ---------------------------------------------------------------- */

static void push(const remote_source *s, ring *r, iter_read *read) {
    r->reads[(r->first + r->n) % s->depth] = read;
    r->n++;
}

static iter_read *pop(const remote_source *s, ring *r) {
    if (r->n == 0) return NULL;
    iter_read *read = r->reads[r->first];
    r->first = (r->first + 1) % s->depth;
    r->n--;
    return read;
}

/* ---- Bytes of an answer ---------------------------------------------------------------------- */

/* Copies bytes of the answer to the parts of the read. */
static bool take_bytes(void *user, uint64_t at, const void *bytes, size_t n) {
    const iter_read *read = ((transfer *)user)->read;
    const uint8_t *from = bytes;
    size_t inside = read->done + (size_t)at;
    if (n > read->size - inside) return false;
    for (int32_t i = 0; n > 0; i++) {
        const iter_iovec *part = &read->parts[i];
        if (inside >= part->size) {
            inside -= part->size;
            continue;
        }
        const size_t some = iter__min_size(n, part->size - inside);
        memcpy((uint8_t *)part->data + inside, from, some);
        from += some;
        n -= some;
        inside = 0;
    }
    return true;
}

static iter__remote *client_of(const remote_source *s, uint64_t object) {
    iter__remote *place = s->files[object].place;
    return place ? place : s->own;
}

static void ask_for_rest(const remote_source *s, transfer *t) {
    const iter_read *read = t->read;
    const iter_file *file = &s->files[read->object];
    t->request.kind = ITER_REQUEST_RANGE;
    t->request.url = file->path;
    t->request.query = NULL;
    t->request.offset = read->offset + read->done;
    t->request.size = read->size - read->done;
    t->request.is_whole = t->request.offset == 0 && t->request.size == file->bytes;
    t->request.sink = take_bytes;
    t->request.user = t;
}

/* ---- Driving: with `driver` held ------------------------------------------------------------- */

static void hand_over(remote_source *s, transfer *t) {
    iter_read *read = t->read;
    t->read = NULL;
    t->next = s->free;
    s->free = t;
    pthread_mutex_lock(&s->lock);
    push(s, &s->done, read);
    pthread_mutex_unlock(&s->lock);
}

static void end_read(iter_read *read, iter_status status, int32_t os_error) {
    read->status = status;
    read->os_error = os_error;
    read->path = ITER_PATH_REMOTE;
}

static int32_t errno_of(const iter__request *r) {
    return r->status == 404 ? ENOENT : r->status == 403 || r->status == 401 ? EACCES : EIO;
}

static void fail_read(remote_source *s, transfer *t, int32_t os_error) {
    const iter_read *read = t->read;
    pthread_mutex_lock(&s->lock);
    s->notes[s->n_notes++ % NOTES] =
        (note){read->object, read->offset, read->size, t->n_tries, t->request.n_wrong > 0};
    pthread_mutex_unlock(&s->lock);
    end_read(t->read, ITER_EIO, os_error);
    hand_over(s, t);
}

static void perform(remote_source *s) {
    int running;
    iter__gate_enter();
    (void)curl_multi_perform(s->multi, &running);
    iter__gate_leave();
}

static void take_out(remote_source *s, CURL *easy) {
    iter__gate_enter();
    (void)curl_multi_remove_handle(s->multi, easy);
    iter__gate_leave();
}

/* What waits is kept in the order of its age. */
static void wait_until(remote_source *s, transfer *t, int64_t ns) {
    transfer **at = &s->waiting;
    while (*at && (*at)->number < t->number)
        at = &(*at)->next;
    t->not_before_ns = ns;
    t->next = *at;
    *at = t;
}

/* Sends a read's request. If that cannot be done the read fails; without credentials it waits. */
static void start(remote_source *s, transfer *t, int64_t now) {
    iter_error why = {.status = ITER_OK};
    iter__remote *client = client_of(s, t->read->object);
    ask_for_rest(s, t);
    t->n_tries++;
    t->sent_ns = now;
    t->request.easy = iter__remote_easy(client);
    iter_status status =
        t->request.easy ? iter__request_begin(client, &t->request, &why) : ITER_ENOMEM;
    if (status == ITER_OK && curl_multi_add_handle(s->multi, t->request.easy) != CURLM_OK) {
        (void)iter__request_judge(client, &t->request, CURLE_OUT_OF_MEMORY);
        status = ITER_ENOMEM;
    }
    if (status == ITER_OK) {
        s->n_active++;
        return;
    }
    iter__remote_easy_back(client, t->request.easy);
    t->request.easy = NULL;
    const int64_t again = now + iter__remote_pause_ns(t->n_tries - 1);
    if (status == ITER_ETIMEDOUT && again <= t->until_ns)
        wait_until(s, t, again);
    else
        fail_read(s, t, status == ITER_ENOMEM ? ENOMEM : EIO);
}

/* The pace slows all reads down after refusals, so a refused one needs no pause of its own, except
 * as long as the pace has none. */
static void retry_or_fail(remote_source *s, transfer *t, iter__request_end end) {
    const int64_t now = iter__now_ns();
    const bool refused = t->request.throttled;
    int64_t again = now + iter__remote_pause_ns(refused ? 0 : t->n_tries - 1);
    if (refused && s->pace.rate > 0) again = now;
    if (end == ITER_REQUEST_FAILED || again > t->until_ns)
        fail_read(s, t, errno_of(&t->request));
    else
        wait_until(s, t, again);
}

/* Takes back what start() took. */
static iter__request_end stop(remote_source *s, transfer *t, CURLcode code) {
    iter__remote *client = client_of(s, t->read->object);
    const iter__request_end end = iter__request_judge(client, &t->request, code);
    take_out(s, t->request.easy);
    iter__remote_easy_back(client, t->request.easy);
    t->request.easy = NULL;
    s->n_active--;
    return end;
}

static void settle(remote_source *s, transfer *t, CURLcode code) {
    const iter__request_end end = stop(s, t, code);
    t->read->done += (size_t)t->request.got;
    iter__pace_answer(&s->pace, iter__now_ns(), t->sent_ns, t->request.got, t->request.throttled,
                      t->request.wait_ns);
    if (end != ITER_REQUEST_DONE) {
        retry_or_fail(s, t, end);
        return;
    }
    end_read(t->read, ITER_OK, 0);
    hand_over(s, t);
}

/* Sends again what waits, oldest first, and fails what has waited until its deadline. Returns when
 * to look again. */
static int64_t start_waiting(remote_source *s, int64_t now) {
    int64_t next_ns = INT64_MAX, pace_ns;
    bool may_send = true;
    for (transfer **at = &s->waiting; *at;) {
        transfer *t = *at;
        const bool late = now > t->until_ns;
        const bool ready = t->not_before_ns <= now;
        if (!late && (!ready || !may_send)) {
            next_ns = iter__min_i64(next_ns, ready ? t->until_ns : t->not_before_ns);
            at = &t->next;
            continue;
        }
        if (!late && !iter__pace_send(&s->pace, now, s->n_active, &pace_ns)) {
            may_send = false;
            next_ns = iter__min_i64(next_ns, pace_ns);
            continue;
        }
        *at = t->next;
        if (late)
            fail_read(s, t, errno_of(&t->request));
        else
            start(s, t, now);
    }
    return next_ns;
}

/* Starts what may start: first reads that wait, then queued ones. Returns when to look again;
 * INT64_MAX = after an answer. */
static int64_t start_more(remote_source *s) {
    const int64_t now = iter__now_ns();
    int64_t next_ns = start_waiting(s, now), pace_ns = INT64_MAX;
    while (s->free) {
        pthread_mutex_lock(&s->lock);
        const bool any = s->queued.n > 0;
        iter_read *read = any && iter__pace_send(&s->pace, now, s->n_active, &pace_ns)
                              ? pop(s, &s->queued)
                              : NULL;
        pthread_mutex_unlock(&s->lock);
        if (!read) break;
        transfer *t = s->free;
        s->free = t->next;
        *t = (transfer){.read = read, .number = s->n_begun++};
        t->until_ns = now + iter__remote_deadline_ns(client_of(s, read->object));
        if (read->done < read->size) {
            start(s, t, now);
        } else {
            end_read(read, ITER_OK, 0);
            hand_over(s, t);
        }
    }
    return iter__min_i64(next_ns, pace_ns);
}

/* Marks the transfers that must end, and ends what is queued: what was dropped, or all. */
static void mark_ends(remote_source *s, bool all) {
    pthread_mutex_lock(&s->lock);
    s->n_dropped = 0;
    for (uint32_t n = s->queued.n; n > 0; n--) {
        iter_read *read = pop(s, &s->queued);
        const bool ends = all || read->reserved[DROPPED];
        if (ends) end_read(read, ITER_ECANCELED, ECANCELED);
        push(s, ends ? &s->done : &s->queued, read);
    }
    for (uint32_t i = 0; i < s->depth; i++) {
        transfer *t = &s->transfers[i];
        t->ends = t->read && (all || t->read->reserved[DROPPED]);
    }
    pthread_mutex_unlock(&s->lock);
}

/* Ends what was dropped, or all. */
static void end_some(remote_source *s, bool all) {
    mark_ends(s, all);
    for (transfer **at = &s->waiting; *at;) {
        if ((*at)->ends)
            *at = (*at)->next;
        else
            at = &(*at)->next;
    }
    for (uint32_t i = 0; i < s->depth; i++) {
        transfer *t = &s->transfers[i];
        if (!t->ends) continue;
        t->ends = false;
        if (t->request.easy) (void)stop(s, t, CURLE_ABORTED_BY_CALLBACK);
        end_read(t->read, ITER_ECANCELED, ECANCELED);
        hand_over(s, t);
    }
}

/* Moves everything on as far as it goes without waiting. Returns when to look again. */
static int64_t drive(remote_source *s) {
    pthread_mutex_lock(&s->lock);
    const bool canceled = s->canceled, dropped = s->n_dropped > 0;
    pthread_mutex_unlock(&s->lock);
    if (canceled || dropped) end_some(s, canceled);
    if (canceled) return INT64_MAX;
    int64_t next_ns = start_more(s);
    int left = 0;
    perform(s);
    bool ended = false;
    for (const CURLMsg *message; (message = curl_multi_info_read(s->multi, &left));) {
        if (message->msg != CURLMSG_DONE) continue;
        char *of = NULL;
        const CURLcode code = message->data.result;
        (void)curl_easy_getinfo(message->easy_handle, CURLINFO_PRIVATE, &of);
        settle(s, (transfer *)(void *)of, code);
        ended = true;
    }
    if (ended) {
        next_ns = start_more(s);
        perform(s); /* sends them */
    }
    return next_ns;
}

/* ---- The table ------------------------------------------------------------------------------- */

static void remote_close(void *state) {
    remote_source *s = state;
    if (s->multi) {
        if (s->transfers) end_some(s, true);
        iter__gate_enter();
        curl_multi_cleanup(s->multi);
        iter__gate_leave();
    }
    iter__free(s->transfers);
    iter__free(s->queued.reads);
    iter__free(s->done.reads);
    iter__remote_unref(s->own);
    pthread_mutex_destroy(&s->lock);
    pthread_mutex_destroy(&s->driver);
}

static iter_status remote_open(void *state, const iter_source_config *config, char *fallback,
                               size_t capacity, iter_error *err) {
    remote_source *s = state;
    uint32_t most = 0;
    if (capacity > 0) fallback[0] = '\0';
    s->files = config->files;
    s->depth = iter__max_u32(1, iter__min_u32(config->depth, DEPTH_MAX));
    pthread_mutex_init(&s->lock, NULL);
    pthread_mutex_init(&s->driver, NULL);
    for (uint64_t i = 0; i < config->n_files; i++) {
        iter__remote *place = config->files[i].place;
        if (place) most = iter__max_u32(most, iter__remote_connections(place));
        if (place || s->own || !iter__url_is(config->files[i].path)) continue;
        const iter_status status = iter__remote_create(NULL, &s->own, err);
        if (status < 0) {
            remote_close(s);
            return status;
        }
        most = iter__max_u32(most, iter__remote_connections(s->own));
    }
    iter__pace_start(&s->pace, most);
    s->multi = curl_multi_init();
    s->transfers = iter__alloc(s->depth, sizeof(*s->transfers));
    s->queued.reads = iter__alloc(s->depth, sizeof(iter_read *));
    s->done.reads = iter__alloc(s->depth, sizeof(iter_read *));
    if (!s->multi || !s->transfers || !s->queued.reads || !s->done.reads) {
        remote_close(s);
        return iter__fail(err, ITER_ENOMEM, "no memory for requests");
    }
    for (uint32_t i = s->depth; i-- > 0;) {
        s->transfers[i].next = s->free;
        s->free = &s->transfers[i];
    }
    curl_multi_setopt(s->multi, CURLMOPT_PIPELINING, (long)CURLPIPE_NOTHING);
    curl_multi_setopt(s->multi, CURLMOPT_MAXCONNECTS, (long)most);
    return ITER_OK;
}

/* A file of this machine in a set whose other files lie elsewhere. */
static iter_status read_local(const iter_file *file, iter_read *read) {
    read->path = ITER_PATH_PREAD;
    const int fd = open(file->path, O_RDONLY | O_CLOEXEC);
    int error = fd < 0 ? errno : 0;
    size_t before = 0;
    for (int32_t i = 0; i < read->n_parts && !error; before += read->parts[i++].size) {
        const iter_iovec *part = &read->parts[i];
        while (!error && read->done < before + part->size) {
            const size_t inside = read->done - before;
            const ssize_t got = pread(fd, (uint8_t *)part->data + inside, part->size - inside,
                                      (off_t)(read->offset + read->done));
            if (got < 0 && errno != EINTR) error = errno;
            if (got == 0) goto out;
            if (got > 0) read->done += (size_t)got;
        }
    }
out:
    if (fd >= 0) close(fd);
    read->status = error ? ITER_EIO : ITER_OK;
    read->os_error = error;
    return read->status;
}

/* What is known of a read that failed and covers this one; n_tries 0 = nothing. */
static note note_of(remote_source *s, const iter_read *read) {
    note found = {.n_tries = 0};
    pthread_mutex_lock(&s->lock);
    for (uint32_t i = 0; i < iter__min_u32(s->n_notes, NOTES); i++) {
        const note *one = &s->notes[i];
        if (one->object == read->object && one->offset <= read->offset &&
            read->offset + read->size <= one->offset + one->size)
            found = *one;
    }
    pthread_mutex_unlock(&s->lock);
    return found;
}

static void rewind_transfer(iter__request *r) {
    transfer *t = r->user;
    t->read->done += (size_t)r->got;
    r->offset += r->got;
    r->size -= r->got;
    r->is_whole = r->is_whole && r->got == 0;
}

/* A message about a sample names the file already. */
static void drop_name(iter_error *why, const char *name) {
    const size_t n = strlen(name);
    if (strncmp(why->message, name, n) != 0 || strncmp(why->message + n, ": ", 2) != 0) return;
    memmove(why->message, why->message + n + 2, strlen(why->message + n + 2) + 1);
}

static iter_status remote_read(void *state, iter_read *read) {
    remote_source *s = state;
    const iter_file *file = &s->files[read->object];
    if (!iter__url_is(file->path)) return read_local(file, read);
    iter_error own = {.status = ITER_OK};
    transfer *t = iter__alloc(1, sizeof(*t));
    if (!t) {
        end_read(read, ITER_ENOMEM, ENOMEM);
        return read->status;
    }
    *t = (transfer){.read = read};
    const note before = note_of(s, read);
    iter_error *why = read->why ? read->why : &own;
    if (read->done == read->size) {
        end_read(read, ITER_OK, 0);
    } else if (before.is_wrong) {
        end_read(read, iter__fail(why, ITER_EIO, "%s (%u tries)", ITER_WRONG_SUM, before.n_tries),
                 EIO);
    } else {
        ask_for_rest(s, t);
        const iter_status status = iter__remote_perform(client_of(s, read->object), &t->request,
                                                        rewind_transfer, before.n_tries, why);
        if (status < 0) drop_name(why, file->path);
        read->done += (size_t)t->request.got;
        end_read(read, status, status < 0 ? errno_of(&t->request) : 0);
    }
    iter__free(t);
    return read->status;
}

static iter_status remote_submit(void *state, iter_read *read) {
    remote_source *s = state;
    const iter_file *file = &s->files[read->object];
    const bool local = !iter__url_is(file->path);
    pthread_mutex_lock(&s->lock);
    const bool full = s->n_taken == s->depth;
    if (!full) {
        s->n_taken++;
        if (!local) push(s, &s->queued, read);
    }
    pthread_mutex_unlock(&s->lock);
    if (full) return ITER_AGAIN;
    if (local) {
        (void)read_local(file, read);
        pthread_mutex_lock(&s->lock);
        push(s, &s->done, read);
        pthread_mutex_unlock(&s->lock);
    }
    return ITER_PENDING;
}

static iter_status remote_commit(void *state) {
    remote_source *s = state;
    if (pthread_mutex_trylock(&s->driver) == 0) {
        (void)drive(s);
        pthread_mutex_unlock(&s->driver);
    } else {
        (void)curl_multi_wakeup(s->multi);
    }
    return ITER_OK;
}

static int32_t remote_reap(void *state, iter_read **out, int32_t max) {
    remote_source *s = state;
    if (pthread_mutex_trylock(&s->driver) == 0) {
        (void)drive(s);
        pthread_mutex_unlock(&s->driver);
    }
    int32_t n = 0;
    pthread_mutex_lock(&s->lock);
    while (n < max && s->done.n > 0)
        out[n++] = pop(s, &s->done);
    s->n_taken -= (uint32_t)n;
    pthread_mutex_unlock(&s->lock);
    return n;
}

/* Whether a wait may return now. */
static bool is_over(remote_source *s) {
    pthread_mutex_lock(&s->lock);
    const bool over = s->woken || s->done.n > 0;
    s->woken = false;
    pthread_mutex_unlock(&s->lock);
    return over;
}

static iter_status remote_wait(void *state, int64_t timeout_ns) {
    remote_source *s = state;
    const int64_t begin = iter__now_ns();
    const int64_t most = (int64_t)WAIT_MS_MAX * NS_PER_MS;
    if (timeout_ns < 0 || timeout_ns > most) timeout_ns = most;
    pthread_mutex_lock(&s->driver);
    for (;;) {
        const int64_t next_ns = drive(s), now = iter__now_ns();
        if (is_over(s) || now - begin >= timeout_ns) break;
        int64_t left = iter__min_i64(begin + timeout_ns, next_ns) - now;
        left = left < 0 ? 0 : (left + NS_PER_MS - 1) / NS_PER_MS;
        if (curl_multi_poll(s->multi, NULL, 0, (int)left, NULL) != CURLM_OK) break;
    }
    pthread_mutex_unlock(&s->driver);
    return ITER_OK;
}

static void remote_wake(void *state) {
    remote_source *s = state;
    pthread_mutex_lock(&s->lock);
    s->woken = true;
    pthread_mutex_unlock(&s->lock);
    (void)curl_multi_wakeup(s->multi);
}

static void remote_cancel(void *state) {
    remote_source *s = state;
    pthread_mutex_lock(&s->lock);
    s->canceled = true;
    pthread_mutex_unlock(&s->lock);
    (void)curl_multi_wakeup(s->multi);
}

/* A read that is done already is not looked at again. */
static void remote_drop(void *state, iter_read *read) {
    remote_source *s = state;
    pthread_mutex_lock(&s->lock);
    read->reserved[DROPPED] = 1;
    s->n_dropped++;
    pthread_mutex_unlock(&s->lock);
    (void)curl_multi_wakeup(s->multi);
}

const iter_source_ops iter__source_remote = {
    .base = {.struct_size = sizeof(iter_source_ops),
             .name = "remote",
             .help = "requests to servers, many in flight",
             .state_size = sizeof(remote_source)},
    .open = remote_open,
    .close = remote_close,
    .read = remote_read,
    .submit = remote_submit,
    .commit = remote_commit,
    .reap = remote_reap,
    .wait = remote_wait,
    .wake = remote_wake,
    .cancel = remote_cancel,
    .drop = remote_drop,
};

#endif

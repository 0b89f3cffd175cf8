/*
 * upload.c - see upload.h.
 *
 * An object that is smaller than a part is one PUT. Any other is sent in parts:
 * CreateMultipartUpload answers with an id, each UploadPart with an ETag, and
 * CompleteMultipartUpload, which names all parts with their ETags, makes the object from them at
 * once. AbortMultipartUpload drops the parts.
 *
 * The writer fills a part while IN_FLIGHT threads send those before it, each with its own request;
 * so memory is bounded by PLACES parts. S3 takes 10,000 parts and 5 TiB: parts grow by GROWTH_BYTES
 * after each GROWTH_PARTS, from 8 MiB to 1 GiB, so that small objects take little memory and large
 * ones fit.
 *
 * Each request has the SHA-256 of what it sends as x-amz-content-sha256, inside the signature. A
 * service compares it with what arrives, so a changed byte is refused (XAmzContentSHA256Mismatch)
 * and sent again. Content-MD5 would be a second hash of the same bytes, and a weaker one.
 *
 * Create may be repeated after its answer was lost; the first upload stays, without parts, until
 * the bucket's lifecycle rule removes it. Complete may be repeated, too. A service that no longer
 * knows the id may have completed it at the first try: the object's ETag tells, if it is the MD5 of
 * the parts' MD5s.
 *
 * Source: Amazon S3 API Reference, the operations named above; User Guide, "Multipart upload
 * limits".
 */
#include "iter/remote/upload.h"

#include "iter/remote/client_state.h"

#ifdef ITER_HAVE_REMOTE

#include <stdio.h>
#include <string.h>

#include "iter/core/alloc.h"
#include "iter/core/arith.h"
#include "iter/core/error.h"
#include "iter/core/thread.h"
#include "iter/core/time.h"
#include "iter/remote/digest.h"
#include "iter/remote/s3_xml.h"
#include "iter/remote/url.h"

#define PARTS_MAX    10000u
#define GROWTH_PARTS 100u
#define GROWTH_BYTES ((size_t)11 << 20)
#define IN_FLIGHT    4
#define PLACES       (IN_FLIGHT + 1) /* one is filled */
#define REPLY_BYTES  65536
#define ABORT_TRIES  5

typedef enum place_state { PLACE_FREE, PLACE_FILLING, PLACE_READY, PLACE_SENDING } place_state;

/* Memory for a part. */
typedef struct place {
    uint8_t *bytes; /* [capacity], iter__free_large */
    size_t n, capacity;
    uint32_t number; /* of the part, from 1 */
    place_state state;
} place;

struct iter__upload {
    iter__remote *remote;
    char *url;
    iter__upload_options options;
    /* Of the thread that writes: */
    place *filling;
    uint32_t n_parts;
    bool finished;
    char *id; /* percent-encoded; NULL = no upload was begun. Set before a thread starts */
    pthread_t threads[IN_FLIGHT];
    int n_threads;

    atomic_bool dropped; /* requests in flight end */
    /* Guards all below, except for the bytes of a place that is FILLING or SENDING. */
    pthread_mutex_t lock;
    pthread_cond_t changed;
    place places[PLACES];
    char **etags; /* [etag_capacity], by number - 1; iter__free */
    uint32_t etag_capacity;
    bool ended;         /* threads end when no part is READY */
    iter_status status; /* the first failure of a part */
    iter_error why;
};

/* ---- Requests -------------------------------------------------------------------------------- */

typedef struct reply {
    char text[REPLY_BYTES];
    size_t n;
} reply;

/* Blanks before an answer only keep the connection alive. */
static bool take_reply(void *user, uint64_t at, const void *bytes, size_t n) {
    reply *a = user;
    (void)at;
    const char *p = bytes;
    for (; a->n == 0 && n > 0 && (*p == ' ' || *p == '\n' || *p == '\r' || *p == '\t'); n--)
        p++;
    if (n > sizeof(a->text) - a->n) return false;
    memcpy(a->text + a->n, p, n);
    a->n += n;
    return true;
}

static void rewind_reply(iter__request *r) {
    ((reply *)r->user)->n = 0;
}

static bool no_reply(void *user, uint64_t at, const void *bytes, size_t n) {
    (void)user, (void)at, (void)bytes, (void)n;
    return true;
}

static bool is_over(void *user) {
    const iter__upload *u = user;
    /* Relaxed: nothing else is read because of it. */
    return atomic_load_explicit(&u->dropped, memory_order_relaxed) ||
           (u->options.is_over && u->options.is_over(u->options.over));
}

/* Sends a request with bytes[n]; `r` has the ETag of the answer afterwards. */
static iter_status send_bytes(iter__upload *u, iter__request *r, const void *bytes, size_t n,
                              iter_error *err) {
    char hash[ITER_SHA256_TEXT];
    iter__sha256_text(bytes ? bytes : "", n, hash);
    r->url = u->url;
    r->payload = bytes;
    r->n_payload = n;
    r->payload_hash = hash;
    r->is_over = is_over;
    r->over = u;
    if (!r->sink) r->sink = no_reply;
    const iter_status status =
        iter__remote_perform(u->remote, r, r->user ? rewind_reply : NULL, 0, err);
    r->payload = NULL;
    r->payload_hash = NULL;
    return status;
}

static iter_status no_memory(const iter__upload *u, iter_error *err) {
    return iter__fail(err, ITER_ENOMEM, "%s: no memory to write it", u->url);
}

/* CreateMultipartUpload. */
static iter_status begin(iter__upload *u, iter_error *err) {
    reply *a = iter__alloc(1, sizeof(*a));
    if (!a) return no_memory(u, err);
    iter__request r = {
        .kind = ITER_REQUEST_POST, .query = "uploads=", .sink = take_reply, .user = a};
    char *id = NULL;
    iter_status status = send_bytes(u, &r, NULL, 0, err);
    if (status == ITER_OK) {
        status = iter__s3_upload_parse(a->text, a->n, &id, err);
        if (status < 0) status = iter__fail_in(err, status, "%s", u->url);
    }
    if (status == ITER_OK) {
        const size_t room = 3 * strlen(id) + 1;
        u->id = iter__alloc(room, 1);
        if (u->id) iter__url_encode(id, strlen(id), false, u->id, room);
        if (!u->id) status = no_memory(u, err);
    }
    iter__free(id);
    iter__free(a);
    return status;
}

/* UploadPart. *out_etag is iter__free. */
static iter_status send_part(iter__upload *u, const place *p, char **out_etag, iter_error *err) {
    *out_etag = NULL;
    char *query = iter__strf("partNumber=%u&uploadId=%s", p->number, u->id);
    if (!query) return no_memory(u, err);
    iter__request r = {.kind = ITER_REQUEST_PUT, .query = query};
    iter_status status = send_bytes(u, &r, p->bytes, p->n, err);
    iter__free(query);
    if (status < 0)
        return status == ITER_ECANCELED ? status : iter__fail_in(err, status, "part %u", p->number);
    if (!r.etag[0])
        return iter__fail(err, ITER_EIO, "%s: part %u: the server gave no ETag", u->url, p->number);
    *out_etag = iter__strdup(r.etag);
    return *out_etag ? ITER_OK : no_memory(u, err);
}

/* AbortMultipartUpload; whatever was told to end, this is sent. *out_none: there is no such upload
 * any more. */
static bool abort_upload(iter__upload *u, bool *out_none) {
    char *query = iter__strf("uploadId=%s", u->id);
    if (!query) return false;
    bool gone = false;
    *out_none = false;
    for (unsigned n = 1; n <= ABORT_TRIES && !gone; n++) {
        iter__request r = {
            .kind = ITER_REQUEST_DELETE, .url = u->url, .query = query, .sink = no_reply};
        if (n > 1) {
            struct timespec until;
            iter__deadline(iter__remote_pause_ns(n), &until);
            (void)clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL);
        }
        gone = iter__remote_perform(u->remote, &r, NULL, 1, NULL) == ITER_OK || r.status == 404;
        *out_none = r.status == 404;
    }
    iter__free(query);
    return gone;
}

/* ---- Completion ------------------------------------------------------------------------------ */

/* The longest line of a part: an ETag whose characters are all escaped. */
#define LINE_BYTES (6 * ITER_ETAG_BYTES + 96)

static size_t put_escaped(const char *text, char *out) {
    size_t n = 0;
    for (; *text; text++) {
        const char *word = *text == '&'   ? "&amp;"
                           : *text == '<' ? "&lt;"
                           : *text == '>' ? "&gt;"
                                          : NULL;
        if (word) {
            memcpy(out + n, word, strlen(word));
            n += strlen(word);
        } else {
            out[n++] = *text;
        }
    }
    return n;
}

/* What Complete sends (iter__free). NULL without memory. */
static char *list_parts(const iter__upload *u, size_t *out_n) {
    size_t n = 0, capacity = 256;
    for (uint32_t i = 0; i < u->n_parts; i++)
        capacity += 6 * strlen(u->etags[i]) + 96;
    char *text = iter__alloc(capacity, 1);
    if (!text) return NULL;
    n += (size_t)snprintf(text, capacity, "<CompleteMultipartUpload xmlns=\"%s\">",
                          "http://s3.amazonaws.com/doc/2006-03-01/");
    for (uint32_t i = 0; i < u->n_parts; i++) {
        n += (size_t)snprintf(text + n, capacity - n, "<Part><PartNumber>%u</PartNumber><ETag>",
                              i + 1);
        n += put_escaped(u->etags[i], text + n);
        n += (size_t)snprintf(text + n, capacity - n, "</ETag></Part>");
    }
    n += (size_t)snprintf(text + n, capacity - n, "</CompleteMultipartUpload>");
    *out_n = n;
    return text;
}

static bool read_md5(const char *etag, uint8_t out[ITER_MD5_BYTES]) {
    unsigned byte;
    if (strlen(etag) != 34) return false;
    for (int i = 0; i < ITER_MD5_BYTES; i++) {
        if (sscanf(etag + 1 + 2 * i, "%2x", &byte) != 1) return false;
        out[i] = (uint8_t)byte;
    }
    return true;
}

/* The ETag of the object that the parts make, if theirs are MD5s. */
static bool whole_etag(const iter__upload *u, char out[ITER_ETAG_BYTES]) {
    uint8_t md5[ITER_MD5_BYTES], whole[ITER_SHA256_BYTES];
    char text[2 * ITER_MD5_BYTES + 1];
    iter__digest hash;
    iter__digest_begin(&hash, ITER_DIGEST_MD5);
    for (uint32_t i = 0; i < u->n_parts; i++) {
        if (!read_md5(u->etags[i], md5)) return false;
        iter__digest_add(&hash, md5, sizeof(md5));
    }
    iter__digest_end(&hash, whole);
    iter__digest_text(whole, ITER_MD5_BYTES, text);
    (void)snprintf(out, ITER_ETAG_BYTES, "\"%s-%u\"", text, u->n_parts);
    return true;
}

/* Whether the object is there although its upload is not. */
static bool is_complete(iter__upload *u) {
    char wanted[ITER_ETAG_BYTES];
    iter__request r = {.kind = ITER_REQUEST_HEAD, .url = u->url, .sink = no_reply};
    return whole_etag(u, wanted) && iter__remote_perform(u->remote, &r, NULL, 0, NULL) == ITER_OK &&
           strcmp(r.etag, wanted) == 0;
}

/* Asks once, apart from faults that pass. */
static iter_status complete_once(iter__upload *u, const char *query, const char *text, size_t n,
                                 reply *a, bool *out_passes, iter_error *err) {
    iter__request r = {.kind = ITER_REQUEST_POST, .query = query, .sink = take_reply, .user = a};
    *out_passes = false;
    a->n = 0;
    iter_status status = send_bytes(u, &r, text, n, err);
    if (status < 0) return r.status == 404 && is_complete(u) ? ITER_OK : status;
    status = iter__s3_complete_parse(a->text, a->n, out_passes, err);
    return status < 0 ? iter__fail_in(err, status, "%s", u->url) : ITER_OK;
}

/* CompleteMultipartUpload, again after an <Error> that passes, until the deadline. */
static iter_status complete(iter__upload *u, iter_error *err) {
    const int64_t until = iter__now_ns() + iter__remote_deadline_ns(u->remote);
    size_t n = 0;
    char *text = list_parts(u, &n), *query = iter__strf("uploadId=%s", u->id);
    reply *a = iter__alloc(1, sizeof(*a));
    iter_status status = text && query && a ? ITER_OK : no_memory(u, err);
    for (unsigned tries = 1; status == ITER_OK; tries++) {
        bool passes = false;
        iter_error why = {.status = ITER_OK};
        status = complete_once(u, query, text, n, a, &passes, &why);
        if (status == ITER_OK) break;
        const int64_t pause = iter__remote_pause_ns(tries);
        if (!passes || is_over(u) || iter__now_ns() + pause > until) {
            status = iter__fail(err, status, "%s", why.message);
            break;
        }
        struct timespec then;
        iter__deadline(pause, &then);
        (void)clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &then, NULL);
        status = ITER_OK;
    }
    iter__free(text);
    iter__free(query);
    iter__free(a);
    return status;
}

/* ---- Threads --------------------------------------------------------------------------------- */

/* The first part that waits, or NULL. With the lock. */
static place *next_ready(iter__upload *u) {
    place *first = NULL;
    for (int i = 0; i < PLACES; i++) {
        place *p = &u->places[i];
        if (p->state == PLACE_READY && (!first || p->number < first->number)) first = p;
    }
    return first;
}

/* Keeps the part's ETag, or the reason of its failure, which ends the others. With the lock. */
static void note_part(iter__upload *u, place *p, char *etag, iter_status status,
                      const iter_error *err) {
    p->state = PLACE_FREE;
    if (etag) u->etags[p->number - 1] = etag;
    if (status < 0 && u->status == ITER_OK) {
        u->status = status;
        u->why = *err;
        atomic_store_explicit(&u->dropped, true, memory_order_relaxed);
    }
    pthread_cond_broadcast(&u->changed);
}

static void *send_parts(void *user) {
    iter__upload *u = user;
    pthread_mutex_lock(&u->lock);
    for (;;) {
        place *p = next_ready(u);
        if (!p && u->ended) break;
        if (!p) {
            pthread_cond_wait(&u->changed, &u->lock);
            continue;
        }
        p->state = PLACE_SENDING;
        const bool failed = u->status < 0;
        pthread_mutex_unlock(&u->lock);
        iter_error err = {.status = ITER_OK};
        char *etag = NULL;
        const iter_status status = failed ? ITER_ECANCELED : send_part(u, p, &etag, &err);
        pthread_mutex_lock(&u->lock);
        note_part(u, p, etag, status, &err);
    }
    pthread_mutex_unlock(&u->lock);
    return NULL;
}

/* One thread more, up to IN_FLIGHT and the client's connections. */
static iter_status start_thread(iter__upload *u, iter_error *err) {
    if (u->n_threads == IN_FLIGHT ||
        u->n_threads == (int)iter__min_u32(iter__remote_connections(u->remote), IN_FLIGHT))
        return ITER_OK;
    const int os_error =
        iter__thread_start(&u->threads[u->n_threads], "iter-upload", send_parts, u);
    if (os_error == 0) {
        u->n_threads++;
    } else if (u->n_threads == 0) {
        char text[128];
        return iter__fail(err, ITER_EIO, "%s: no thread to send it: %s", u->url,
                          iter__os_error(os_error, text, sizeof(text)));
    }
    return ITER_OK;
}

static void stop_threads(iter__upload *u) {
    pthread_mutex_lock(&u->lock);
    u->ended = true;
    pthread_cond_broadcast(&u->changed);
    pthread_mutex_unlock(&u->lock);
    for (int i = 0; i < u->n_threads; i++)
        (void)pthread_join(u->threads[i], NULL);
    u->n_threads = 0;
}

/* ---- Parts ----------------------------------------------------------------------------------- */

/* A failure of a part, as the writer's. With the lock. */
static iter_status failed(const iter__upload *u, iter_error *err) {
    return u->status < 0 ? iter__fail(err, u->status, "%s", u->why.message) : ITER_OK;
}

/* Room for one ETag more. With the lock. */
static bool room_for_etag(iter__upload *u) {
    if (u->n_parts < u->etag_capacity) return true;
    const uint32_t capacity = u->etag_capacity ? 2 * u->etag_capacity : 16;
    char **etags = iter__realloc(u->etags, capacity * sizeof(*etags));
    if (!etags) return false;
    memset(etags + u->etag_capacity, 0, (capacity - u->etag_capacity) * sizeof(*etags));
    u->etags = etags;
    u->etag_capacity = capacity;
    return true;
}

/* Waits for a free place, and begins the next part in it. */
static iter_status begin_part(iter__upload *u, iter_error *err) {
    place *p = NULL;
    if (u->n_parts == PARTS_MAX)
        return iter__fail(err, ITER_EIO, "%s: has more than %u parts", u->url, PARTS_MAX);
    pthread_mutex_lock(&u->lock);
    while (!p && u->status == ITER_OK) {
        for (int i = 0; i < PLACES && !p; i++)
            p = u->places[i].state == PLACE_FREE ? &u->places[i] : NULL;
        if (!p) pthread_cond_wait(&u->changed, &u->lock);
    }
    iter_status status = failed(u, err);
    if (status == ITER_OK && !room_for_etag(u)) status = no_memory(u, err);
    if (status == ITER_OK) p->state = PLACE_FILLING;
    pthread_mutex_unlock(&u->lock);
    ITER_TRY(status);
    p->number = ++u->n_parts;
    p->n = 0;
    const size_t bytes = iter__upload_part_bytes(u->options.part_bytes, p->number);
    if (p->capacity != bytes) {
        iter__free_large(p->bytes, p->capacity);
        p->bytes = iter__alloc_large(bytes);
        p->capacity = p->bytes ? bytes : 0;
        if (!p->bytes) return no_memory(u, err);
    }
    u->filling = p;
    return ITER_OK;
}

/* Hands the part to the threads. The first one begins the upload. */
static iter_status end_part(iter__upload *u, iter_error *err) {
    if (!u->id) ITER_TRY(begin(u, err));
    ITER_TRY(start_thread(u, err));
    pthread_mutex_lock(&u->lock);
    u->filling->state = PLACE_READY;
    pthread_cond_broadcast(&u->changed);
    pthread_mutex_unlock(&u->lock);
    u->filling = NULL;
    return ITER_OK;
}

/* ---- Functions of upload.h ------------------------------------------------------------------- */

size_t iter__upload_part_bytes(size_t first_bytes, uint32_t number) {
    return first_bytes + (number - 1) / GROWTH_PARTS * GROWTH_BYTES;
}

iter_status iter__upload_check(const char *url, iter_error *err) {
    size_t n_bucket = 0;
    if (!iter__url_is_s3(url))
        return iter__fail(err, ITER_EUNSUPPORTED, "%s: cannot be written: of URLs only s3:// can",
                          url);
    const char *key = iter__url_s3_key(url, &n_bucket);
    if (n_bucket == 0 || !*key || key[strlen(key) - 1] == '/')
        return iter__fail(err, ITER_EINVAL, "%s: names no object, as s3://bucket/name does", url);
    return ITER_OK;
}

iter_status iter__upload_open(iter__remote *remote, const char *url,
                              const iter__upload_options *options, iter__upload **out,
                              iter_error *err) {
    *out = NULL;
    ITER_TRY(iter__upload_check(url, err));
    if (remote->anonymous)
        return iter__fail(err, ITER_EUNSUPPORTED, "%s: cannot be written without a signature", url);
    const size_t bytes = options && options->part_bytes ? options->part_bytes : ITER_PART_BYTES;
    if (bytes < ITER_PART_LEAST || bytes > ITER_PART_BYTES_MAX)
        return iter__fail(err, ITER_EINVAL, "%s: parts of %zu bytes: expected %zu to %zu", url,
                          bytes, ITER_PART_LEAST, ITER_PART_BYTES_MAX);
    iter__upload *u = iter__alloc(1, sizeof(*u));
    if (!u) return iter__fail(err, ITER_ENOMEM, "%s: no memory to write it", url);
    if (options) u->options = *options;
    u->options.part_bytes = bytes;
    u->url = iter__strdup(url);
    if (!u->url) {
        iter__free(u);
        return iter__fail(err, ITER_ENOMEM, "%s: no memory to write it", url);
    }
    u->remote = iter__remote_ref(remote);
    atomic_init(&u->dropped, false);
    pthread_mutex_init(&u->lock, NULL);
    pthread_cond_init(&u->changed, NULL);
    *out = u;
    return ITER_OK;
}

iter_status iter__upload_write(iter__upload *u, const void *bytes, size_t n, iter_error *err) {
    const uint8_t *from = bytes;
    while (n > 0) {
        if (!u->filling) ITER_TRY(begin_part(u, err));
        place *p = u->filling;
        const size_t step = iter__min_size(n, p->capacity - p->n);
        memcpy(p->bytes + p->n, from, step);
        p->n += step;
        from += step;
        n -= step;
        if (p->n == p->capacity) ITER_TRY(end_part(u, err));
    }
    return ITER_OK;
}

iter_status iter__upload_finish(iter__upload *u, iter_error *err) {
    if (u->finished || !u->id) return ITER_OK;
    if (u->filling) ITER_TRY(end_part(u, err));
    u->finished = true;
    pthread_mutex_lock(&u->lock);
    for (int i = 0; i < PLACES;) {
        if (u->places[i].state == PLACE_FREE) {
            i++;
        } else {
            pthread_cond_wait(&u->changed, &u->lock);
        }
    }
    const iter_status status = failed(u, err);
    pthread_mutex_unlock(&u->lock);
    return status;
}

static void free_upload(iter__upload *u) {
    for (int i = 0; i < PLACES; i++)
        iter__free_large(u->places[i].bytes, u->places[i].capacity);
    for (uint32_t i = 0; i < u->etag_capacity; i++)
        iter__free(u->etags[i]);
    iter__free(u->etags);
    iter__free(u->id);
    iter__free(u->url);
    iter__remote_unref(u->remote);
    pthread_cond_destroy(&u->changed);
    pthread_mutex_destroy(&u->lock);
    iter__free(u);
}

iter_status iter__upload_close(iter__upload *u, iter_status status, iter_error *err) {
    if (!u) return status;
    if (status == ITER_OK) status = iter__upload_finish(u, err);
    const bool completes = status == ITER_OK && u->id;
    if (status < 0) atomic_store_explicit(&u->dropped, true, memory_order_relaxed);
    stop_threads(u);
    if (completes) {
        status = complete(u, err);
    } else if (status == ITER_OK) {
        iter__request r = {.kind = ITER_REQUEST_PUT};
        status = send_bytes(u, &r, u->filling ? u->filling->bytes : NULL,
                            u->filling ? u->filling->n : 0, err);
    }
    bool none = false;
    if (status < 0 && u->id && !abort_upload(u, &none))
        status = iter__fail_in(err, status,
                               "the upload could not be aborted, so its parts stay "
                               "until the bucket's lifecycle rule removes them");
    /* The answer to the completion may have been lost. */
    if (status < 0 && completes && none && is_complete(u)) {
        iter__error_clear(err);
        status = ITER_OK;
    }
    free_upload(u);
    return status;
}

#endif

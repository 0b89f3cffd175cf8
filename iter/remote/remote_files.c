/*
 * remote_files.c - the calls of client.h that ask: look, list, read. remote_file.c has open files.
 *
 * https has no lists. There a name is a folder if it ends with '/', or if the server sends it on to
 * one that does, as servers of files do. In S3 it is a folder if an object's name goes on after it
 * with '/'.
 */
#include "iter/remote/client_state.h"

#ifdef ITER_HAVE_REMOTE

#include <stdlib.h>
#include <string.h>

#include "iter/core/alloc.h"
#include "iter/core/arith.h"
#include "iter/core/error.h"
#include "iter/core/hash.h"
#include "iter/core/time.h"
#include "iter/remote/s3_xml.h"
#include "iter/remote/url.h"

#define LIST_BYTES_MAX ((size_t)64 << 20)  /* of a page, which has 1000 names */
#define PAGE_BYTES     ((size_t)512 << 10) /* that most need */
#define NANO           1000000000
#define LOOK_NS        (NANO / 10) /* how often a pause is ended that shall end */

static void sleep_ns(int64_t ns) {
    const struct timespec pause = {.tv_sec = (time_t)(ns / NANO), .tv_nsec = (long)(ns % NANO)};
    nanosleep(&pause, NULL);
}

static bool is_over(const iter__request *r) {
    return r->is_over && r->is_over(r->over);
}

/* Pauses before the next try. */
static void wait_for(const iter__request *r, int64_t ns) {
    const int64_t until = iter__now_ns() + ns;
    for (int64_t left = ns; left > 0 && !is_over(r); left = until - iter__now_ns())
        sleep_ns(r->is_over ? iter__min_i64(left, LOOK_NS) : left);
}

static iter_status fail_request(const iter__request *r, unsigned n_tries, iter_error *err) {
    const char *many = n_tries == 1 ? "try" : "tries";
    if (r->kind != ITER_REQUEST_RANGE)
        return iter__fail(err, ITER_EIO, "%s: %s (%u %s)", r->url, r->reason, n_tries, many);
    return iter__fail(err, ITER_EIO, "%s: bytes %llu to %llu: %s (%u %s)", r->url,
                      (unsigned long long)r->offset, (unsigned long long)(r->offset + r->size - 1),
                      r->reason, n_tries, many);
}

iter_status iter__remote_perform(iter__remote *remote, iter__request *r,
                                 iter__request_rewind *rewind, unsigned n_before, iter_error *err) {
    const int64_t limit = n_before ? 0 : iter__remote_deadline_ns(remote);
    int64_t until = iter__now_ns() + limit;
    r->easy = iter__remote_easy(remote);
    if (!r->easy) return iter__fail(err, ITER_ENOMEM, "%s: no memory for a request", r->url);
    iter_status status = ITER_OK;
    for (unsigned n = 1;; n++) {
        iter_error why = {.status = ITER_OK};
        if (n > 1) curl_easy_reset(r->easy);
        status = iter__request_begin(remote, r, &why);
        const int64_t later = iter__now_ns() + iter__remote_pause_ns(n - 1);
        if (status == ITER_ETIMEDOUT && later <= until && !is_over(r)) {
            wait_for(r, later - iter__now_ns());
            continue;
        }
        if (status < 0) {
            status = iter__fail(err, status, "%s: %s", r->url, why.message);
            break;
        }
        const iter__request_end end =
            iter__request_judge(remote, r, iter__remote_run(remote, r->easy));
        if (end == ITER_REQUEST_DONE) break;
        if (n == 1 && r->n_payload) until = iter__now_ns() + limit;
        const int64_t pause = iter__max_i64(iter__remote_pause_ns(n - 1), r->wait_ns);
        const bool last = end == ITER_REQUEST_FAILED || iter__now_ns() + pause > until;
        if (!last) wait_for(r, pause);
        if (last || is_over(r)) {
            status = is_over(r) ? iter__fail(err, ITER_ECANCELED, "%s: canceled", r->url)
                                : fail_request(r, n_before + n, err);
            break;
        }
        if (rewind) rewind(r);
    }
    iter__remote_easy_back(remote, r->easy);
    r->easy = NULL;
    return status;
}

static iter_status perform(iter__remote *remote, iter__request *r, iter__request_rewind *rewind,
                           iter_error *err) {
    return iter__remote_perform(remote, r, rewind, 0, err);
}

/* ---- Lists ----------------------------------------------------------------------------------- */

typedef struct page {
    char *text;
    size_t n, capacity;
} page;

/* A mapping of its own goes back to the system: each thread that lists would keep as much else. */
static bool grow_page(page *p, size_t least) {
    const size_t capacity = iter__max_size(iter__max_size(2 * p->capacity, PAGE_BYTES), least);
    char *text = iter__alloc_large(capacity);
    if (!text) return false;
    if (p->n) memcpy(text, p->text, p->n);
    iter__free_large(p->text, p->capacity);
    p->text = text;
    p->capacity = capacity;
    return true;
}

static bool take_page(void *user, uint64_t at, const void *bytes, size_t n) {
    page *p = user;
    (void)at;
    if (n > LIST_BYTES_MAX - p->n) return false;
    if (p->capacity - p->n < n && !grow_page(p, p->n + n)) return false;
    memcpy(p->text + p->n, bytes, n);
    p->n += n;
    return true;
}

static void rewind_page(iter__request *r) {
    ((page *)r->user)->n = 0;
}

/* The query of a page; NULL without memory. Names are in the order that a signature needs. */
static char *list_query(const char *prefix, const char *next, unsigned most) {
    const size_t n_prefix = strlen(prefix), n_next = next ? strlen(next) : 0;
    char *e_prefix = iter__alloc(3 * n_prefix + 1, 1), *e_next = iter__alloc(3 * n_next + 1, 1);
    char *query = NULL;
    if (e_prefix && e_next) {
        iter__url_encode(prefix, n_prefix, false, e_prefix, 3 * n_prefix + 1);
        iter__url_encode(next ? next : "", n_next, false, e_next, 3 * n_next + 1);
        query =
            iter__strf("%s%s%sdelimiter=%%2F&encoding-type=url&list-type=2&max-keys=%u&prefix=%s",
                       next ? "continuation-token=" : "", e_next, next ? "&" : "", most, e_prefix);
    }
    iter__free(e_prefix);
    iter__free(e_next);
    return query;
}

typedef struct listing {
    iter__remote *remote;
    const char *url;    /* of the folder */
    const char *prefix; /* of each key: the folder's */
    size_t n_prefix;
    size_t n_bucket; /* bytes of url up to the bucket's end */
    iter__remote_visit *visit;
    void *user;
    uint64_t n;
} listing;

static iter_status visit_entry(void *user, const iter__s3_entry *entry, iter_error *err) {
    listing *l = user;
    const size_t n_key = strlen(entry->key);
    if (strncmp(entry->key, l->prefix, l->n_prefix) != 0)
        return iter__fail(err, ITER_EFORMAT, "the name '%.200s' is not in the folder", entry->key);
    if (n_key <= l->n_prefix) return ITER_OK; /* the folder itself, as an object of no bytes */
    l->n++;
    if (!l->visit) return ITER_OK;
    if (!entry->is_folder) {
        if (entry->key[n_key - 1] == '/') return ITER_OK; /* stands for a folder */
        char *url = iter__strf("%.*s/%s", (int)l->n_bucket, l->url, entry->key);
        if (!url) return iter__fail(err, ITER_ENOMEM, "%s: no memory for its names", l->url);
        iter__remote_version_set(l->remote, url, entry->etag);
        iter__free(url);
        return l->visit(l->user, entry->key + l->n_prefix, false, entry->bytes, err);
    }
    if (n_key == l->n_prefix + 1) return ITER_OK; /* "//": no path names what is in there */
    char *name = iter__strf("%.*s", (int)(n_key - l->n_prefix - 1), entry->key + l->n_prefix);
    if (!name) return iter__fail(err, ITER_ENOMEM, "%s: no memory for its names", l->url);
    const iter_status status = l->visit(l->user, name, true, 0, err);
    iter__free(name);
    return status;
}

/* Lists a folder, or only asks if it has anything (visit NULL); *out_n counts the names. */
static iter_status list(iter__remote *remote, const char *url, iter__remote_visit *visit,
                        void *user, uint64_t *out_n, iter_error *err) {
    size_t n_bucket;
    const char *key = iter__url_s3_key(url, &n_bucket);
    const size_t n_key = strlen(key);
    const bool slash = n_key == 0 || key[n_key - 1] == '/';
    char *prefix = iter__strf("%s%s", key, slash ? "" : "/");
    if (!prefix) return iter__fail(err, ITER_ENOMEM, "%s: no memory to list it", url);
    listing l = {.remote = remote,
                 .url = url,
                 .prefix = prefix,
                 .n_prefix = strlen(prefix),
                 .n_bucket = strlen("s3://") + n_bucket,
                 .visit = visit,
                 .user = user};
    char *next = NULL;
    page p = {.text = NULL};
    iter_status status = ITER_OK;
    do {
        char *query = list_query(prefix, next, visit ? 1000 : 2), *after = NULL;
        if (!query) {
            status = iter__fail(err, ITER_ENOMEM, "%s: no memory to list it", url);
            break;
        }
        iter__request r = {
            .kind = ITER_REQUEST_LIST, .url = url, .query = query, .sink = take_page, .user = &p};
        p.n = 0;
        status = perform(remote, &r, rewind_page, err);
        iter__free(query);
        if (status == ITER_OK) {
            iter_error why = {.status = ITER_OK};
            status = iter__s3_list_parse(p.text, p.n, visit_entry, &l, &after, &why);
            if (status == ITER_OK && after && next && strcmp(after, next) == 0)
                status = iter__fail(&why, ITER_EFORMAT, "it goes on where it went on before");
            if (status < 0)
                status = why.message[0]
                             ? iter__fail(err, status, "%s: the list: %s", url, why.message)
                             : status;
        }
        iter__free(next);
        next = after;
    } while (status == ITER_OK && next && visit);
    iter__free(next);
    iter__free_large(p.text, p.capacity);
    iter__free(prefix);
    *out_n = l.n;
    return status;
}

iter_status iter__remote_list(iter__remote *remote, const char *url, iter__remote_visit *visit,
                              void *user, iter_error *err) {
    uint64_t n;
    iter__listing ahead;
    if (iter__ahead_take(&remote->ahead, url, &ahead)) {
        const iter_status status = iter__listing_visit(&ahead, visit, user, err);
        iter__listing_free(&ahead);
        return status;
    }
    if (!iter__url_is_s3(url))
        return iter__fail(err, ITER_EUNSUPPORTED,
                          "%s: https has no lists of files; name them, as in "
                          "https://host/part-{000..127}.tar",
                          url);
    ITER_TRY(list(remote, url, visit, user, &n, err));
    return n > 0 ? ITER_OK : iter__fail(err, ITER_EIO, "%s: no object's name begins so", url);
}

/* ---- Looking --------------------------------------------------------------------------------- */

static bool no_bytes(void *user, uint64_t at, const void *bytes, size_t n) {
    (void)user, (void)at, (void)bytes, (void)n;
    return true;
}

static iter_status look_head(iter__remote *remote, const char *url, iter__remote_info *out,
                             bool *out_missing, iter_error *err) {
    iter__request r = {.kind = ITER_REQUEST_HEAD, .url = url, .sink = no_bytes};
    iter_status status = perform(remote, &r, NULL, err);
    if (status < 0 && (r.status == 403 || r.status == 405 || r.status == 501) &&
        !iter__url_is_s3(url)) {
        /* A URL that was signed for GET has no HEAD. */
        iter__request one = {.kind = ITER_REQUEST_RANGE, .url = url, .size = 1, .sink = no_bytes};
        if (perform(remote, &one, NULL, NULL) == ITER_OK) {
            r = one;
            status = ITER_OK;
            iter__error_clear(err);
        }
    }
    *out_missing = r.status == 404;
    out->is_folder = r.is_folder;
    if (status < 0) return status;
    if (r.total == ITER_UNKNOWN && !r.is_folder)
        return iter__fail(err, ITER_EIO, "%s: the server does not say how long it is", url);
    out->bytes = r.total == ITER_UNKNOWN ? 0 : r.total;
    out->version = iter__fnv1a_text(ITER_FNV_START, r.etag[0] ? r.etag : r.modified);
    if (!r.is_folder) iter__remote_version_set(remote, url, r.etag);
    return ITER_OK;
}

static iter_status look(iter__remote *remote, const char *url, iter__remote_info *out,
                        iter_error *err) {
    size_t n_bucket;
    bool missing = false;
    const size_t n = strlen(url);
    const bool s3 = iter__url_is_s3(url);
    if (s3 && (!*iter__url_s3_key(url, &n_bucket) || url[n - 1] == '/')) {
        out->is_folder = true;
        return n_bucket > 0 ? ITER_OK : iter__fail(err, ITER_EINVAL, "%s: names no bucket", url);
    }
    const iter_status status = look_head(remote, url, out, &missing, err);
    if (status == ITER_OK || (out->is_folder && !s3)) {
        /* A folder's own page may be forbidden. */
        return ITER_OK;
    }
    uint64_t names = 0;
    if (s3 && missing && list(remote, url, NULL, NULL, &names, NULL) == ITER_OK && names > 0) {
        out->is_folder = true;
        return ITER_OK;
    }
    out->is_missing = missing;
    return status;
}

iter_status iter__remote_look(iter__remote *remote, const char *url, iter__remote_info *out,
                              iter_error *err) {
    iter_status status;
    iter_error own = {.status = ITER_OK};
    *out = (iter__remote_info){0};
    if (!err) err = &own;
    if (iter__ahead_look(&remote->ahead, url, out, &status, err)) return status;
    status = look(remote, url, out, err);
    iter__ahead_keep_look(&remote->ahead, url, out, status, err);
    return status;
}

/* ---- Reading --------------------------------------------------------------------------------- */

static bool take_bytes(void *user, uint64_t at, const void *bytes, size_t n) {
    uint8_t *const *out = user;
    memcpy(*out + at, bytes, n);
    return true;
}

/* A further try asks for what is missing alone. */
static void rewind_range(iter__request *r) {
    uint8_t **out = r->user;
    *out += r->got;
    r->offset += r->got;
    r->size -= r->got;
    r->is_whole = r->is_whole && r->got == 0;
}

iter_status iter__remote_read(iter__remote *remote, const char *url, uint64_t offset, void *out,
                              size_t n, size_t *out_done, iter_error *err) {
    uint8_t *at = out;
    *out_done = 0;
    if (n == 0) return ITER_OK;
    iter__request r = {.kind = ITER_REQUEST_RANGE,
                       .url = url,
                       .offset = offset,
                       .size = n,
                       .sink = take_bytes,
                       .user = &at};
    const iter_status status = perform(remote, &r, rewind_range, err);
    *out_done = (size_t)(r.offset - offset + r.got);
    return status;
}

#endif

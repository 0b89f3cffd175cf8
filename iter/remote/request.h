/* request.h - one HTTP request of a client: what it asks, and how its answer is judged. */
#ifndef ITER_REMOTE_REQUEST_H
#define ITER_REMOTE_REQUEST_H

#include "iter/remote/checksum.h"
#include "iter/remote/client.h"
#include "iter/remote/versions.h"

#ifdef ITER_HAVE_REMOTE

#include "iter/remote/curl_library.h"

#define ITER_REASON_BYTES 384
#define ITER_REGION_BYTES 64
#define ITER_WRONG_SUM    "the bytes do not have the checksum that the server gave"

/* Takes bytes of the body, which come in order: the first is the request's byte number `at`. False
 * = no more are wanted. A request that is repeated begins anew. */
typedef bool iter__request_sink(void *user, uint64_t at, const void *bytes, size_t n);

typedef enum iter__request_kind {
    ITER_REQUEST_RANGE, /* GET of `size` bytes at `offset` */
    ITER_REQUEST_HEAD,
    ITER_REQUEST_LIST, /* GET of a bucket with `query` */
    ITER_REQUEST_PUT,  /* these three: s3 alone, with `query` and `payload` */
    ITER_REQUEST_POST,
    ITER_REQUEST_DELETE
} iter__request_kind;

typedef enum iter__request_end {
    ITER_REQUEST_DONE,
    ITER_REQUEST_AGAIN, /* it may succeed if it is tried again */
    ITER_REQUEST_FAILED
} iter__request_end;

typedef struct iter__request {
    /* Set by the caller: */
    iter__request_kind kind;
    const char *url;   /* as the dataset names it; borrowed */
    const char *query; /* encoded, sorted by name; NULL = none */
    uint64_t offset, size;
    bool is_whole; /* RANGE: this was all of the object when it was looked at */
    iter__request_sink *sink;
    void *user;
    const void *payload; /* [n_payload], what is sent; borrowed */
    size_t n_payload;
    const char *payload_hash; /* SHA-256 in hexadecimal; NULL = nothing is sent */
    /* Asked now and then by the thread that performs: true ends it with ECANCELED. NULL = never. */
    bool (*is_over)(void *over);
    void *over;
    bool renewed; /* false at first: set if HEAD is tried again with new credentials */

    /* Set while it runs: */
    CURL *easy;
    struct curl_slist *headers;
    char wanted_etag[ITER_ETAG_BYTES]; /* the version that was seen before; "" = none */
    long status;                       /* of HTTP; 0 = no answer */
    uint64_t total;                    /* bytes of the object; ITER_UNKNOWN = the answer has none */
    uint64_t got;                      /* bytes given to the sink; 0 if they turned out wrong */
    uint64_t range_offset; /* where the answer's range begins; ITER_UNKNOWN = it does not say */
    size_t n_head, n_said; /* bytes of the answer's heads; of a body that says no */
    bool accepts;          /* the body is what was asked for */
    bool refused;          /* the sink or a check ended the body */
    bool is_folder;        /* the name was sent on to one that ends with '/' */
    char etag[ITER_ETAG_BYTES];
    char modified[64];
    char asked_region[ITER_REGION_BYTES]; /* where the bucket was thought to be */
    char region[ITER_REGION_BYTES];       /* where it is, if the answer says so */
    char body[2048];                      /* the first bytes of an answer that says no */
    size_t n_body;
    char curl_error[CURL_ERROR_SIZE];
    char reason[ITER_REASON_BYTES]; /* in words, after the end */
    bool throttled;                 /* 429 or 503 */
    int64_t wait_ns; /* that the server asked for then (Retry-After); 0 = it did not */
    iter__checksum sum;
    unsigned n_wrong; /* answers with a wrong checksum so far */
} iter__request;

/* Prepares `request->easy` (from iter__remote_easy()) to be performed. Errors: EINVAL (no
 * credentials), ETIMEDOUT (the old ones have expired, and their service gives no new ones now),
 * ENOMEM. */
iter_status iter__request_begin(iter__remote *remote, iter__request *request, iter_error *err);

/* Takes a line of an answer's head; it has n bytes and no NUL. */
void iter__request_header(iter__request *request, const char *line, size_t n);

/* Judges the answer, and frees what begin() took except for the handle. An answer whose checksum is
 * wrong has brought no bytes. */
iter__request_end iter__request_judge(iter__remote *remote, iter__request *request, CURLcode code);

/* Called before a request is repeated: it takes up where it stands. */
typedef void iter__request_rewind(iter__request *request);

/* Begins, performs and judges a request, again and again until it has its answer or the client's
 * deadline has passed; only once if it was tried `n_before` > 0 times already. With a payload the
 * deadline counts from the end of the first try, since sending may take long. Blocks. Errors: EIO
 * (URL, range, reason, number of tries), ECANCELED (is_over()), those of begin(). */
iter_status iter__remote_perform(iter__remote *remote, iter__request *request,
                                 iter__request_rewind *rewind, unsigned n_before, iter_error *err);

/* A handle. NULL without memory. */
CURL *iter__remote_easy(iter__remote *remote);
void iter__remote_easy_back(iter__remote *remote, CURL *easy);

/* Performs a handle's request with one of the client's connections. Blocks. */
CURLcode iter__remote_run(iter__remote *remote, CURL *easy);

/* Nanoseconds to wait before try number `n_tries` + 1. */
int64_t iter__remote_pause_ns(unsigned n_tries);

int64_t iter__remote_deadline_ns(const iter__remote *remote);
uint32_t iter__remote_connections(const iter__remote *remote);

#endif
#endif

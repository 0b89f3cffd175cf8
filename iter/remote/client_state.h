/* client_state.h - a client's inside, for client.c and request.c. */
#ifndef ITER_REMOTE_CLIENT_STATE_H
#define ITER_REMOTE_CLIENT_STATE_H

#include <pthread.h>
#include <stdatomic.h>

#include "iter/remote/ahead.h"
#include "iter/remote/cache.h"
#include "iter/remote/credentials.h"
#include "iter/remote/request.h"
#include "iter/remote/secrets.h"
#include "iter/remote/sigv4.h"
#include "iter/remote/versions.h"

#ifdef ITER_HAVE_REMOTE

#define ITER_IDLE_MAX 16

struct iter__remote {
    atomic_uint refs;
    char *endpoint; /* without a '/' at its end; NULL = Amazon's */
    char *profile;  /* NULL = none was named */
    bool path_style, anonymous;
    uint32_t connections;
    int64_t deadline_ns;
    const char *ca_file;                                          /* of the environment, or NULL */
    iter__cache *cache;                                           /* NULL = none */
    atomic_ullong answers, throttled, again, bytes, first_ns, ns; /* iter__remote_counts */

    atomic_bool was_used; /* iter__remote_was_used() */
    atomic_uint n_files;  /* open: iter__remote_file */
    iter__ahead ahead;

    pthread_mutex_t asking; /* held while credentials are asked for; taken before `lock` */

    pthread_mutex_t lock; /* inside the gate (gate.h); guards all below */
    unsigned n_forks;     /* iter__gate_forks() of the process that `lines` belong to */
    char region[ITER_REGION_BYTES];
    iter__credentials credentials;
    bool has_credentials, had_credentials;
    bool ask_failed;                    /* the last time */
    int64_t ask_after_s;                /* since 1970: not again before, if they did or still do */
    char key_of[8 + ITER_REGION_BYTES]; /* date and region that `key` is of */
    uint8_t key[ITER_SHA256_BYTES];
    iter__versions versions;
    iter__secrets secrets;
    CURL *idle[ITER_IDLE_MAX]; /* handles that are kept for further calls, without connections */
    /* [line_capacity], n_lines in use: connections that are kept for iter__remote_run() */
    CURLM **lines;
    uint32_t n_idle, n_lines, line_capacity;
};

/* Remembers an object's ETag, or writes the one that is known ("" = none). */
void iter__remote_version_set(iter__remote *remote, const char *url, const char *etag);
void iter__remote_version_get(iter__remote *remote, const char *url, char out[ITER_ETAG_BYTES]);

/* The cache of a file's client, and the file's name in it. NULL = it is not cached: there is no
 * cache, or the server gave no ETag. `remote` may be NULL. */
iter__cache *iter__remote_cache(iter__remote *remote, const char *url, iter__cache_key *out);

/* The URL that iter__remote_hide() was given (iter__free). NULL = no memory. */
char *iter__remote_reveal(iter__remote *remote, const char *url);

/* What a signature needs at this time ("20150830T123600Z"); for an anonymous client only the
 * region. Errors: as of iter__request_begin(). */
typedef struct iter__signer {
    char access_key[sizeof(((iter__credentials *)0)->access_key)];
    char token[sizeof(((iter__credentials *)0)->token)];
    char region[ITER_REGION_BYTES];
    uint8_t key[ITER_SHA256_BYTES];
} iter__signer;

iter_status iter__remote_signer(iter__remote *remote, const char *time_text, iter__signer *out,
                                iter_error *err);

/* The next signer asks the chain again. False = the credentials had no token, so they do not
 * expire. */
bool iter__remote_forget_credentials(iter__remote *remote);

/* The bucket lies in another region than was thought. */
void iter__remote_move(iter__remote *remote, const char *region);

#endif
#endif

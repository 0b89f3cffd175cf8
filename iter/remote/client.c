/*
 * client.c - see client.h: the state that requests share.
 *
 * No lock is held while a request runs. Asking for credentials is the one exception: the thread
 * that asks holds `asking`, and requests of the same client wait for it, because none can be signed
 * without.
 *
 * A child of fork() has the parent's connections, too. It may neither use nor close them: a TLS
 * connection that is closed says so to the server, on the parent's socket. It leaks them, and makes
 * its own.
 */
#include "iter/remote/client_state.h"

#ifdef ITER_HAVE_REMOTE

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <openssl/crypto.h>

#include "iter/core/alloc.h"
#include "iter/core/arith.h"
#include "iter/core/error.h"
#include "iter/core/hash.h"
#include "iter/core/time.h"
#include "iter/remote/gate.h"
#include "iter/remote/url.h"

#define POLL_MS            1000
#define REFRESH_S          300 /* before credentials expire */
#define ASK_PAUSE_S        10  /* while the credentials that are there still do */
#define ASK_AGAIN_S        3   /* after they have expired */
#define PAUSE_FIRST_NS     50000000
#define PAUSE_MOST_NS      ((int64_t)10 * 1000000000)
#define CREDENTIALS_WAIT_S 2L

static const iter_option rows[] = {
    {"endpoint", "s3: the service's URL", ITER_OPTION_STRING,
     offsetof(iter__remote_options, endpoint), .choices = NULL},
    {"region", "s3: where the bucket is", ITER_OPTION_STRING,
     offsetof(iter__remote_options, region), .choices = NULL},
    {"profile", "s3: of the shared files", ITER_OPTION_STRING,
     offsetof(iter__remote_options, profile), .choices = NULL},
    {"path-style", "s3: HOST/bucket instead of bucket.HOST; auto = with an endpoint",
     ITER_OPTION_CHOICE, offsetof(iter__remote_options, path_style), .choices = "auto|yes|no"},
    {"anonymous", "s3: without a signature", ITER_OPTION_BOOL,
     offsetof(iter__remote_options, anonymous), .choices = NULL},
    {"connections", "the most requests in flight", ITER_OPTION_INT,
     offsetof(iter__remote_options, connections), 1, 1024, NULL, 0},
    {"deadline", "seconds in which a request is tried again", ITER_OPTION_DOUBLE,
     offsetof(iter__remote_options, deadline), 0, 86400, NULL, 0},
    {"cache", "a folder that keeps what was read", ITER_OPTION_STRING,
     offsetof(iter__remote_options, cache), .choices = NULL},
    {"cache-size", "bytes that the folder may have", ITER_OPTION_INT,
     offsetof(iter__remote_options, cache_size), 0, 1e15, NULL, 0},
    {.name = NULL},
};

static const iter__remote_options defaults = {.connections = 256, .deadline = 60};

static const iter_ops table = {
    .struct_size = sizeof(iter_ops),
    .name = "remote",
    .help = "files elsewhere",
    .options = rows,
    .defaults = &defaults,
    .options_size = sizeof(iter__remote_options),
};

const iter_ops *iter__remote_table(void) {
    return &table;
}

static const char *env(const char *name) {
    const char *value = getenv(name); /* NOLINT(concurrency-mt-unsafe): nothing here sets it */
    return value && *value ? value : NULL;
}

/* ---- Making and freeing ---------------------------------------------------------------------- */

/* Takes the lock. In a child of fork(), for the first time, also leaves the parent's connections
 * alone and makes the locks that the gate does not keep free. */
static void lock(iter__remote *remote) {
    iter__gate_enter();
    pthread_mutex_lock(&remote->lock);
    if (remote->n_forks == iter__gate_forks()) return;
    remote->n_forks = iter__gate_forks();
    remote->n_lines = 0;
    pthread_mutex_init(&remote->asking, NULL);
    iter__cache_adopt(remote->cache);
}

static void unlock(iter__remote *remote) {
    pthread_mutex_unlock(&remote->lock);
    iter__gate_leave();
}

static void choose_region(iter__remote *remote, const char *given) {
    char of_profile[ITER_REGION_BYTES] = "";
    const char *region = given ? given : env("AWS_REGION");
    if (!region) region = env("AWS_DEFAULT_REGION");
    if (!region) {
        iter__credentials_setting(remote->profile ? remote->profile : "", "region", of_profile,
                                  sizeof(of_profile));
        region = of_profile[0] ? of_profile : "us-east-1";
    }
    (void)snprintf(remote->region, sizeof(remote->region), "%s", region);
}

iter_status iter__remote_create(const iter__remote_options *options, iter__remote **out,
                                iter_error *err) {
    const iter__remote_options *o = options ? options : &defaults;
    *out = NULL;
    ITER_TRY(iter__curl_start(err));
    iter__remote *remote = iter__alloc(1, sizeof(*remote));
    if (!remote) return iter__fail(err, ITER_ENOMEM, "no memory to read URLs");
    atomic_init(&remote->refs, 1);
    pthread_mutex_init(&remote->lock, NULL);
    iter__ahead_init(&remote->ahead);
    pthread_mutex_init(&remote->asking, NULL);
    remote->n_forks = iter__gate_forks();
    const char *endpoint = o->endpoint;
    if (!endpoint) endpoint = env("AWS_ENDPOINT_URL_S3");
    if (!endpoint) endpoint = env("AWS_ENDPOINT_URL");
    if (endpoint && (!iter__url_is(endpoint) || iter__url_is_s3(endpoint))) {
        iter__remote_unref(remote);
        return iter__fail(err, ITER_EINVAL,
                          "endpoint: '%s' does not begin with http:// or https://", endpoint);
    }
    remote->endpoint = endpoint ? iter__strdup(endpoint) : NULL;
    remote->profile = o->profile ? iter__strdup(o->profile) : NULL;
    if ((endpoint && !remote->endpoint) || (o->profile && !remote->profile)) {
        iter__remote_unref(remote);
        return iter__fail(err, ITER_ENOMEM, "no memory to read URLs");
    }
    for (size_t n = endpoint ? strlen(endpoint) : 0; n > 0 && remote->endpoint[n - 1] == '/'; n--)
        remote->endpoint[n - 1] = '\0';
    remote->path_style = o->path_style == 0 ? endpoint != NULL : o->path_style == 1;
    remote->anonymous = o->anonymous;
    remote->connections = (uint32_t)o->connections;
    remote->deadline_ns = (int64_t)(o->deadline * 1e9);
    remote->ca_file = env("AWS_CA_BUNDLE");
    if (!remote->ca_file) remote->ca_file = env("CURL_CA_BUNDLE");
    if (!remote->ca_file) remote->ca_file = env("SSL_CERT_FILE");
    choose_region(remote, o->region);
    const iter_status status =
        o->cache ? iter__cache_open(o->cache, (uint64_t)o->cache_size, &remote->cache, err)
                 : ITER_OK;
    if (status < 0) {
        iter__remote_unref(remote);
        return status;
    }
    *out = remote;
    return ITER_OK;
}

iter__remote *iter__remote_ref(iter__remote *remote) {
    if (remote) atomic_fetch_add_explicit(&remote->refs, 1, memory_order_relaxed);
    return remote;
}

void iter__remote_unref(iter__remote *remote) {
    if (!remote || atomic_fetch_sub_explicit(&remote->refs, 1, memory_order_acq_rel) != 1) return;
    lock(remote);
    for (uint32_t i = 0; i < remote->n_idle; i++)
        curl_easy_cleanup(remote->idle[i]);
    for (uint32_t i = 0; i < remote->n_lines; i++)
        curl_multi_cleanup(remote->lines[i]);
    unlock(remote);
    iter__free(remote->lines);
    iter__versions_free(&remote->versions);
    iter__ahead_free(&remote->ahead);
    iter__secrets_free(&remote->secrets);
    iter__cache_close(remote->cache);
    iter__free(remote->endpoint);
    iter__free(remote->profile);
    pthread_mutex_destroy(&remote->lock);
    pthread_mutex_destroy(&remote->asking);
    iter__free(remote);
}

bool iter__remote_has_cache(const iter__remote *remote) {
    return remote && remote->cache;
}

iter__cache *iter__remote_cache(iter__remote *remote, const char *url, iter__cache_key *out) {
    char etag[ITER_ETAG_BYTES];
    if (!iter__remote_has_cache(remote)) return NULL;
    iter__remote_version_get(remote, url, etag);
    if (!etag[0]) return NULL;
    *out = iter__cache_key_of(url, etag);
    return remote->cache;
}

bool iter__remote_identity(iter__remote *remote, const char *url, uint64_t out[2]) {
    char etag[ITER_ETAG_BYTES] = "";
    if (remote) iter__remote_version_get(remote, url, etag);
    const iter__cache_key key = iter__cache_key_of(url, etag);
    memcpy(out, key.hash, 2 * sizeof(*out));
    return etag[0] != '\0';
}

static _Thread_local iter__remote **current;

iter__remote **iter__remote_enter(iter__remote **place) {
    iter__remote **before = current;
    current = place;
    return before;
}

iter__remote *iter__remote_of(const char *path) {
    if (!current || !iter__url_is(path)) return NULL;
    if (!*current && iter__remote_create(NULL, current, NULL) < 0) return NULL;
    atomic_store_explicit(&(*current)->was_used, true, memory_order_relaxed);
    return *current;
}

bool iter__remote_was_used(const iter__remote *remote) {
    return remote && atomic_load_explicit(&remote->was_used, memory_order_relaxed);
}

char *iter__remote_hide(iter__remote *remote, const char *url) {
    if (!remote) return iter__strdup(url);
    lock(remote);
    char *hidden = iter__secrets_hide(&remote->secrets, url);
    unlock(remote);
    return hidden;
}

char *iter__remote_reveal(iter__remote *remote, const char *url) {
    lock(remote);
    char *whole = iter__secrets_reveal(&remote->secrets, url);
    unlock(remote);
    return whole;
}

void iter__remote_counts_read(iter__remote *remote, iter__remote_counts *out) {
    *out = (iter__remote_counts){0};
    if (!remote) return;
    out->answers = atomic_load_explicit(&remote->answers, memory_order_relaxed);
    out->throttled = atomic_load_explicit(&remote->throttled, memory_order_relaxed);
    out->again = atomic_load_explicit(&remote->again, memory_order_relaxed);
    out->bytes = atomic_load_explicit(&remote->bytes, memory_order_relaxed);
    out->first_ns = atomic_load_explicit(&remote->first_ns, memory_order_relaxed);
    out->ns = atomic_load_explicit(&remote->ns, memory_order_relaxed);
    out->connections = remote->connections;
}

iter_status iter__remote_take(iter__remote *place, iter__remote **out, iter_error *err) {
    if (!place) return iter__remote_create(NULL, out, err);
    *out = iter__remote_ref(place);
    return ITER_OK;
}

int64_t iter__remote_deadline_ns(const iter__remote *remote) {
    return remote->deadline_ns;
}

uint32_t iter__remote_connections(const iter__remote *remote) {
    return remote->connections;
}

/* Between half of a pause that doubles and all of it: many readers that were refused at once do not
 * come back at once. */
int64_t iter__remote_pause_ns(unsigned n_tries) {
    int64_t most = PAUSE_FIRST_NS;
    for (unsigned i = 0; i < n_tries && most < PAUSE_MOST_NS; i++)
        most *= 2;
    if (most > PAUSE_MOST_NS) most = PAUSE_MOST_NS;
    const uint64_t draw = iter__fnv1a_u64(ITER_FNV_START, (uint64_t)iter__now_ns());
    return most / 2 + (int64_t)(draw % (uint64_t)(most / 2));
}

/* ---- Handles --------------------------------------------------------------------------------- */

CURL *iter__remote_easy(iter__remote *remote) {
    CURL *easy = NULL;
    lock(remote);
    if (remote->n_idle > 0) easy = remote->idle[--remote->n_idle];
    unlock(remote);
    if (easy) return easy;
    iter__gate_enter(); /* libcurl takes a lock of its own */
    easy = curl_easy_init();
    iter__gate_leave();
    return easy;
}

void iter__remote_easy_back(iter__remote *remote, CURL *easy) {
    if (!easy) return;
    curl_easy_reset(easy);
    lock(remote);
    if (remote->n_idle < ITER_IDLE_MAX)
        remote->idle[remote->n_idle++] = easy;
    else
        curl_easy_cleanup(easy);
    unlock(remote);
}

static CURLM *take_line(iter__remote *remote) {
    CURLM *line = NULL;
    lock(remote);
    if (remote->n_lines > 0) line = remote->lines[--remote->n_lines];
    unlock(remote);
    if (line) return line;
    iter__gate_enter();
    line = curl_multi_init();
    iter__gate_leave();
    return line;
}

static void give_line_back(iter__remote *remote, CURLM *line) {
    lock(remote);
    if (!remote->lines) {
        const uint32_t most = iter__max_u32(ITER_IDLE_MAX, remote->connections);
        remote->lines = iter__alloc(most, sizeof(*remote->lines));
        remote->line_capacity = remote->lines ? most : 0;
    }
    if (remote->n_lines < remote->line_capacity)
        remote->lines[remote->n_lines++] = line;
    else
        (void)curl_multi_cleanup(line);
    unlock(remote);
}

/* Performs what was added to a line. Only the steps that do not block are inside the gate. */
static CURLcode perform_added(CURLM *line) {
    CURLMcode code = CURLM_OK;
    int running = 1, left;
    for (;;) {
        iter__gate_enter();
        code = curl_multi_perform(line, &running);
        iter__gate_leave();
        if (code != CURLM_OK || !running) break;
        code = curl_multi_poll(line, NULL, 0, POLL_MS, NULL);
        if (code != CURLM_OK) break;
    }
    const CURLMsg *message = curl_multi_info_read(line, &left);
    if (code == CURLM_OK && message && message->msg == CURLMSG_DONE) return message->data.result;
    return CURLE_OUT_OF_MEMORY;
}

CURLcode iter__remote_run(iter__remote *remote, CURL *easy) {
    CURLM *line = take_line(remote);
    if (!line) return CURLE_OUT_OF_MEMORY;
    CURLcode result = CURLE_OUT_OF_MEMORY;
    if (curl_multi_add_handle(line, easy) == CURLM_OK) {
        result = perform_added(line);
        iter__gate_enter();
        (void)curl_multi_remove_handle(line, easy);
        iter__gate_leave();
    }
    give_line_back(remote, line);
    return result;
}

void iter__remote_opened(iter__remote *remote) {
    if (!remote) return;
    iter__ahead_end(&remote->ahead);
    lock(remote);
    remote->line_capacity = iter__min_u32(remote->line_capacity, ITER_IDLE_MAX);
    while (remote->n_lines > remote->line_capacity)
        (void)curl_multi_cleanup(remote->lines[--remote->n_lines]);
    unlock(remote);
}

/* ---- Versions -------------------------------------------------------------------------------- */

void iter__remote_version_set(iter__remote *remote, const char *url, const char *etag) {
    lock(remote);
    iter__versions_set(&remote->versions, url, etag);
    unlock(remote);
}

void iter__remote_version_get(iter__remote *remote, const char *url, char out[ITER_ETAG_BYTES]) {
    lock(remote);
    iter__versions_get(&remote->versions, url, out);
    unlock(remote);
}

/* ---- Credentials ----------------------------------------------------------------------------- */

typedef struct answer {
    char *out;
    size_t n, capacity;
} answer;

static size_t take_answer(char *bytes, size_t size, size_t n, void *user) {
    answer *a = user;
    if (size * n >= a->capacity - a->n) return 0;
    memcpy(a->out + a->n, bytes, size * n);
    a->n += size * n;
    a->out[a->n] = '\0';
    return size * n;
}

static bool ask(void *user, const char *url, bool put, const char *header, char *out,
                size_t capacity) {
    answer a = {.out = out, .capacity = capacity};
    long status = 0;
    CURL *easy = iter__remote_easy(user);
    struct curl_slist *headers = header ? curl_slist_append(NULL, header) : NULL;
    out[0] = '\0';
    if (!easy || (header && !headers)) {
        curl_slist_free_all(headers);
        iter__remote_easy_back(user, easy);
        return false;
    }
    curl_easy_setopt(easy, CURLOPT_URL, url);
    curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(easy, CURLOPT_NOPROXY, "*"); /* these services are of this machine */
    curl_easy_setopt(easy, CURLOPT_TIMEOUT, CREDENTIALS_WAIT_S);
    if (put) curl_easy_setopt(easy, CURLOPT_CUSTOMREQUEST, "PUT");
    curl_easy_setopt(easy, CURLOPT_HTTPHEADER, headers);
    curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, take_answer);
    curl_easy_setopt(easy, CURLOPT_WRITEDATA, &a);
    const CURLcode code = iter__remote_run(user, easy);
    curl_easy_getinfo(easy, CURLINFO_RESPONSE_CODE, &status);
    curl_slist_free_all(headers);
    iter__remote_easy_back(user, easy);
    return code == CURLE_OK && status == 200;
}

/* Whether no new credentials are needed now. If a service gives none, or such that expire soon, it
 * is not asked by each request: the ones that are there do until they really expire. */
static bool will_do(iter__remote *remote, bool pressing) {
    const int64_t now = (int64_t)time(NULL);
    lock(remote);
    const int64_t expires_s = remote->credentials.expires_s;
    const int64_t early_s = pressing || now < remote->ask_after_s ? 0 : REFRESH_S;
    const bool enough = remote->has_credentials && (!expires_s || now < expires_s - early_s);
    unlock(remote);
    return enough;
}

/* Asks the chain. Old credentials may still do until they really expire. */
static iter_status ask_chain(iter__remote *remote, iter_error *err) {
    iter__credentials *found = iter__alloc(1, sizeof(*found));
    if (!found) return iter__fail(err, ITER_ENOMEM, "no memory for credentials");
    iter_status status =
        iter__credentials_find(remote->profile ? remote->profile : "", ask, remote, found, err);
    lock(remote);
    remote->ask_after_s = (int64_t)time(NULL) + ASK_PAUSE_S;
    remote->ask_failed = status < 0;
    if (status == ITER_OK) {
        remote->credentials = *found;
        remote->has_credentials = remote->had_credentials = true;
        remote->key_of[0] = '\0';
    }
    unlock(remote);
    if (status < 0 && will_do(remote, true)) status = ITER_OK;
    if (status == ITER_EINVAL && remote->had_credentials) {
        lock(remote);
        remote->ask_after_s = (int64_t)time(NULL) + ASK_AGAIN_S;
        unlock(remote);
        err->status = status = ITER_ETIMEDOUT;
    }
    OPENSSL_cleanse(found, sizeof(*found));
    iter__free(found);
    return status;
}

/* Each question may take seconds, in which no bytes arrive: so they have a pause between them. */
static bool asked_just_now(iter__remote *remote) {
    lock(remote);
    const bool just_now =
        remote->ask_failed && remote->had_credentials && (int64_t)time(NULL) < remote->ask_after_s;
    unlock(remote);
    return just_now;
}

static iter_status need_credentials(iter__remote *remote, iter_error *err) {
    if (will_do(remote, false)) return ITER_OK;
    pthread_mutex_lock(&remote->asking);
    /* Another thread may have asked meanwhile. */
    iter_status status = ITER_OK;
    if (!will_do(remote, false))
        status = asked_just_now(remote)
                     ? iter__fail(err, ITER_ETIMEDOUT,
                                  "the credentials have expired, and no new ones were given")
                     : ask_chain(remote, err);
    pthread_mutex_unlock(&remote->asking);
    return status;
}

iter_status iter__remote_signer(iter__remote *remote, const char *time_text, iter__signer *out,
                                iter_error *err) {
    char date[9];
    (void)snprintf(date, sizeof(date), "%.8s", time_text);
    char key_of[sizeof(remote->key_of)];
    if (!remote->anonymous) ITER_TRY(need_credentials(remote, err));
    iter_status status = ITER_OK;
    lock(remote);
    strcpy(out->region, remote->region);
    if (remote->anonymous) {
        unlock(remote);
        return ITER_OK;
    }
    (void)snprintf(key_of, sizeof(key_of), "%s%.*s", date, ITER_REGION_BYTES - 1, remote->region);
    if (status == ITER_OK && strcmp(key_of, remote->key_of) != 0) {
        status = iter__sigv4_key(remote->credentials.secret, date, remote->region, "s3",
                                 remote->key, err);
        if (status == ITER_OK) strcpy(remote->key_of, key_of);
    }
    if (status == ITER_OK) {
        strcpy(out->access_key, remote->credentials.access_key);
        strcpy(out->token, remote->credentials.token);
        memcpy(out->key, remote->key, sizeof(out->key));
    }
    unlock(remote);
    return status;
}

bool iter__remote_forget_credentials(iter__remote *remote) {
    lock(remote);
    const bool may_expire = remote->credentials.token[0] != '\0';
    remote->has_credentials = false;
    remote->key_of[0] = '\0';
    unlock(remote);
    return may_expire;
}

void iter__remote_move(iter__remote *remote, const char *region) {
    lock(remote);
    (void)snprintf(remote->region, sizeof(remote->region), "%s", region);
    unlock(remote);
}

#endif

/* sigv4.c - see sigv4.h. */
#include "iter/remote/sigv4.h"

#ifdef ITER_HAVE_REMOTE

#include <openssl/crypto.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "iter/core/alloc.h"
#include "iter/core/error.h"

#define STACK_BYTES 2048 /* a request that needs more takes memory */

iter_status iter__sigv4_key(const char *secret, const char *date, const char *region,
                            const char *service, uint8_t out[ITER_SHA256_BYTES], iter_error *err) {
    char *first = iter__strf("AWS4%s", secret);
    if (!first) return iter__fail(err, ITER_ENOMEM, "no memory for a key");
    iter__hmac_sha256(first, strlen(first), date, strlen(date), out);
    OPENSSL_cleanse(first, strlen(first));
    iter__free(first);
    const char *const rest[] = {region, service, "aws4_request"};
    for (int i = 0; i < 3; i++) {
        uint8_t next[ITER_SHA256_BYTES];
        iter__hmac_sha256(out, ITER_SHA256_BYTES, rest[i], strlen(rest[i]), next);
        memcpy(out, next, sizeof(next));
    }
    return ITER_OK;
}

/* A text that grows up to its capacity; `n` counts on behind it. */
typedef struct text {
    char *at;
    size_t n, capacity;
} text;

static void put(text *t, const char *piece) {
    const size_t n = strlen(piece);
    if (t->n + n < t->capacity) memcpy(t->at + t->n, piece, n + 1);
    t->n += n;
}

static void put_names(text *t, const iter__sigv4_request *r) {
    for (int i = 0; i < r->n_headers; i++) {
        if (i > 0) put(t, ";");
        put(t, r->headers[i].name);
    }
}

static void put_request(text *t, const iter__sigv4_request *r) {
    put(t, r->method);
    put(t, "\n");
    put(t, r->path);
    put(t, "\n");
    put(t, r->query);
    put(t, "\n");
    for (int i = 0; i < r->n_headers; i++) {
        put(t, r->headers[i].name);
        put(t, ":");
        put(t, r->headers[i].value);
        put(t, "\n");
    }
    put(t, "\n");
    put_names(t, r);
    put(t, "\n");
    put(t, r->payload_hash);
}

static iter_status hash_request(const iter__sigv4_request *r, uint8_t out[ITER_SHA256_BYTES],
                                iter_error *err) {
    char stack[STACK_BYTES];
    text t = {.at = stack, .capacity = sizeof(stack)};
    put_request(&t, r);
    if (t.n < t.capacity) {
        iter__sha256(t.at, t.n, out);
        return ITER_OK;
    }
    text large = {.at = iter__alloc(t.n + 1, 1), .capacity = t.n + 1};
    if (!large.at) return iter__fail(err, ITER_ENOMEM, "no memory to sign a request");
    put_request(&large, r);
    iter__sha256(large.at, large.n, out);
    iter__free(large.at);
    return ITER_OK;
}

iter_status iter__sigv4_sign(const iter__sigv4_request *r, char *out, size_t capacity,
                             iter_error *err) {
    uint8_t mac[ITER_SHA256_BYTES];
    char hash[ITER_SHA256_TEXT], signature[ITER_SHA256_TEXT], scope[160], stack[320];
    ITER_TRY(hash_request(r, mac, err));
    iter__digest_text(mac, sizeof(mac), hash);
    const int n =
        snprintf(scope, sizeof(scope), "%.8s/%s/%s/aws4_request", r->time, r->region, r->service);
    if (n < 0 || (size_t)n >= sizeof(scope))
        return iter__fail(err, ITER_EINVAL, "the region '%s' is too long", r->region);
    text t = {.at = stack, .capacity = sizeof(stack)};
    put(&t, "AWS4-HMAC-SHA256\n");
    put(&t, r->time);
    put(&t, "\n");
    put(&t, scope);
    put(&t, "\n");
    put(&t, hash);
    if (t.n >= t.capacity) return iter__fail(err, ITER_EINVAL, "a request's time is too long");
    iter__hmac_sha256(r->key, ITER_SHA256_BYTES, t.at, t.n, mac);
    iter__digest_text(mac, sizeof(mac), signature);

    text header = {.at = out, .capacity = capacity};
    put(&header, "AWS4-HMAC-SHA256 Credential=");
    put(&header, r->access_key);
    put(&header, "/");
    put(&header, scope);
    put(&header, ", SignedHeaders=");
    put_names(&header, r);
    put(&header, ", Signature=");
    put(&header, signature);
    if (header.n >= header.capacity)
        return iter__fail(err, ITER_EINVAL, "a signature of %zu bytes is too long", header.n);
    return ITER_OK;
}

#endif

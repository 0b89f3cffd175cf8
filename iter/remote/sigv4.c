/* sigv4.c - see sigv4.h. HMAC and SHA-256 are OpenSSL's. */
#include "iter/remote/sigv4.h"

#ifdef ITER_HAVE_REMOTE

#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "iter/core/alloc.h"
#include "iter/core/error.h"

#define STACK_BYTES 2048 /* a request that needs more takes memory */

static iter_status refused(iter_error *err) {
    return iter__fail(err, ITER_EUNSUPPORTED, "OpenSSL refuses HMAC with SHA-256");
}

static void to_hex(const uint8_t hash[ITER_SHA256_BYTES], char out[ITER_SHA256_TEXT]) {
    static const char digits[] = "0123456789abcdef";
    for (int i = 0; i < ITER_SHA256_BYTES; i++) {
        out[2 * i] = digits[hash[i] >> 4];
        out[2 * i + 1] = digits[hash[i] & 15];
    }
    out[2 * ITER_SHA256_BYTES] = '\0';
}

iter_status iter__sha256_text(const void *bytes, size_t n, char out[ITER_SHA256_TEXT],
                              iter_error *err) {
    uint8_t hash[ITER_SHA256_BYTES];
    unsigned int length = 0;
    if (EVP_Digest(bytes, n, hash, &length, EVP_sha256(), NULL) != 1) return refused(err);
    to_hex(hash, out);
    return ITER_OK;
}

static iter_status hmac(const void *key, size_t key_bytes, const char *text, size_t n,
                        uint8_t out[ITER_SHA256_BYTES], iter_error *err) {
    unsigned int length = 0;
    if (!HMAC(EVP_sha256(), key, (int)key_bytes, (const unsigned char *)text, n, out, &length))
        return refused(err);
    return ITER_OK;
}

iter_status iter__sigv4_key(const char *secret, const char *date, const char *region,
                            const char *service, uint8_t out[ITER_SHA256_BYTES], iter_error *err) {
    char *first = iter__strf("AWS4%s", secret);
    if (!first) return iter__fail(err, ITER_ENOMEM, "no memory for a key");
    iter_status status = hmac(first, strlen(first), date, strlen(date), out, err);
    OPENSSL_cleanse(first, strlen(first));
    iter__free(first);
    const char *const rest[] = {region, service, "aws4_request"};
    for (int i = 0; i < 3 && status == ITER_OK; i++) {
        uint8_t next[ITER_SHA256_BYTES];
        status = hmac(out, ITER_SHA256_BYTES, rest[i], strlen(rest[i]), next, err);
        memcpy(out, next, sizeof(next));
    }
    return status;
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

static iter_status hash_request(const iter__sigv4_request *r, char out[ITER_SHA256_TEXT],
                                iter_error *err) {
    char stack[STACK_BYTES];
    text t = {.at = stack, .capacity = sizeof(stack)};
    put_request(&t, r);
    if (t.n < t.capacity) return iter__sha256_text(t.at, t.n, out, err);
    text large = {.at = iter__alloc(t.n + 1, 1), .capacity = t.n + 1};
    if (!large.at) return iter__fail(err, ITER_ENOMEM, "no memory to sign a request");
    put_request(&large, r);
    const iter_status status = iter__sha256_text(large.at, large.n, out, err);
    iter__free(large.at);
    return status;
}

iter_status iter__sigv4_sign(const iter__sigv4_request *r, char *out, size_t capacity,
                             iter_error *err) {
    char hash[ITER_SHA256_TEXT], signature[ITER_SHA256_TEXT], scope[160], stack[320];
    ITER_TRY(hash_request(r, hash, err));
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
    uint8_t mac[ITER_SHA256_BYTES];
    ITER_TRY(hmac(r->key, ITER_SHA256_BYTES, t.at, t.n, mac, err));
    to_hex(mac, signature);

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

/*
 * checksum.c - see checksum.h.
 *
 * Amazon's checksum of an object that was uploaded in parts is one of the parts' checksums. It then
 * ends with "-" and their number, but not if the request has a range. So if the ETag is of parts,
 * Amazon's counts only if the server says that it is of the full object.
 *
 * Google unpacks objects that are stored with gzip; its hash is of what is stored.
 *
 * Source: Amazon S3 API reference, GetObject; Cloud Storage, "x-goog-hash"; RFC 1864, RFC 3230, RFC
 * 9530.
 */
#include "iter/remote/checksum.h"

#ifdef ITER_HAVE_REMOTE

#include <openssl/evp.h>
#include <string.h>
#include <strings.h>
#include <zlib.h>

#include "iter/core/crc32c.h"

#define CODED_MAX 64 /* characters of a checksum */

static const size_t bytes_of[ITER_CHECKSUM_COUNT] = {0, 4, 4, 20, 32, 16};

/* ---- The head -------------------------------------------------------------------------------- */

/* Reads base64 of exactly the kind's bytes. A cheaper kind that is known already stays. */
static void take(iter__checksum_given *given, iter__checksum_kind kind, const char *text,
                 size_t n) {
    const size_t n_bytes = bytes_of[kind], n_coded = (n_bytes + 2) / 3 * 4;
    unsigned char coded[CODED_MAX + 1], out[CODED_MAX];
    if ((given->kind != ITER_CHECKSUM_NONE && given->kind < kind) || n != n_coded) return;
    const size_t n_pad = n_coded / 4 * 3 - n_bytes;
    for (size_t i = 0; i < n; i++) /* '=' is at the end alone */
        if ((text[i] == '=') != (i >= n - n_pad)) return;
    memcpy(coded, text, n);
    coded[n] = '\0';
    if (EVP_DecodeBlock(out, coded, (int)n) != (int)(n_coded / 4 * 3)) return;
    given->kind = kind;
    memcpy(given->bytes, out, n_bytes);
}

typedef struct kind_name {
    const char *name;
    iter__checksum_kind kind;
} kind_name;

static const kind_name amazon[] = {{"crc32c", ITER_CHECKSUM_CRC32C},
                                   {"crc32", ITER_CHECKSUM_CRC32},
                                   {"sha1", ITER_CHECKSUM_SHA1},
                                   {"sha256", ITER_CHECKSUM_SHA256},
                                   {NULL, ITER_CHECKSUM_NONE}};
static const kind_name google[] = {
    {"crc32c", ITER_CHECKSUM_CRC32C}, {"md5", ITER_CHECKSUM_MD5}, {NULL, ITER_CHECKSUM_NONE}};
static const kind_name digests[] = {
    {"sha-256", ITER_CHECKSUM_SHA256}, {"md5", ITER_CHECKSUM_MD5}, {NULL, ITER_CHECKSUM_NONE}};

static iter__checksum_kind kind_of(const kind_name *names, const char *text, size_t n) {
    for (; names->name; names++)
        if (strlen(names->name) == n && strncasecmp(names->name, text, n) == 0) return names->kind;
    return ITER_CHECKSUM_NONE;
}

static bool is_blank(char c) {
    return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

/* Takes "name=value, name=:value:" apart. */
static void take_list(iter__checksum_given *given, const kind_name *names, const char *text,
                      size_t n) {
    const char *end = text + n;
    while (text < end) {
        const char *comma = memchr(text, ',', (size_t)(end - text));
        const char *stop = comma ? comma : end, *next = comma ? comma + 1 : end;
        while (text < stop && is_blank(*text))
            text++;
        while (stop > text && is_blank(stop[-1]))
            stop--;
        const char *equals = memchr(text, '=', (size_t)(stop - text));
        if (equals) {
            const iter__checksum_kind kind = kind_of(names, text, (size_t)(equals - text));
            const char *value = equals + 1;
            if (stop - value >= 2 && *value == ':' && stop[-1] == ':') {
                value++;
                stop--;
            }
            if (kind != ITER_CHECKSUM_NONE) take(given, kind, value, (size_t)(stop - value));
        }
        text = next;
    }
}

static bool is_text(const char *text, size_t n, const char *other) {
    return n == strlen(other) && strncasecmp(text, other, n) == 0;
}

/* The rest of Amazon's names after "x-amz-checksum-". */
static void take_amazon(iter__checksum *sum, const char *name, size_t n_name, const char *value,
                        size_t n) {
    if (is_text(name, n_name, "type")) {
        sum->is_full = is_text(value, n, "FULL_OBJECT");
        sum->of_parts = sum->of_parts || is_text(value, n, "COMPOSITE");
        return;
    }
    const iter__checksum_kind kind = kind_of(amazon, name, n_name);
    if (kind == ITER_CHECKSUM_NONE) return;
    if (memchr(value, '-', n)) sum->of_parts = true;
    take(&sum->amazon, kind, value, n);
}

void iter__checksum_header(iter__checksum *sum, const char *line, size_t n) {
    static const char prefix[] = "x-amz-checksum-";
    const size_t n_prefix = sizeof(prefix) - 1;
    const char *colon = memchr(line, ':', n);
    if (!colon) return;
    const size_t n_name = (size_t)(colon - line);
    const char *value = colon + 1, *end = line + n;
    while (value < end && is_blank(*value))
        value++;
    while (end > value && is_blank(end[-1]))
        end--;
    const size_t n_value = (size_t)(end - value);
    if (n_name > n_prefix && strncasecmp(line, prefix, n_prefix) == 0)
        take_amazon(sum, line + n_prefix, n_name - n_prefix, value, n_value);
    else if (is_text(line, n_name, "x-goog-hash"))
        take_list(&sum->of_object, google, value, n_value);
    else if (is_text(line, n_name, "content-md5"))
        take(&sum->of_object, ITER_CHECKSUM_MD5, value, n_value);
    else if (is_text(line, n_name, "repr-digest") || is_text(line, n_name, "digest"))
        take_list(&sum->of_object, digests, value, n_value);
    else if (is_text(line, n_name, "content-digest"))
        take_list(&sum->of_bytes, digests, value, n_value);
    else if (is_text(line, n_name, "x-goog-stored-content-encoding"))
        sum->is_unpacked = !is_text(value, n_value, "identity");
}

/* ---- The body -------------------------------------------------------------------------------- */

/* An MD5 and "-12", in quotes. Other servers' ETags may look alike, but for the MD5. */
static bool has_parts(const char *etag) {
    if (etag[0] != '"' || strspn(etag + 1, "0123456789abcdefABCDEF") != 32) return false;
    const char *dash = etag + 33;
    return dash[0] == '-' && dash[1] && dash[1 + strspn(dash + 1, "0123456789")] == '"';
}

static const iter__checksum_given *choose(const iter__checksum *sum, bool is_whole,
                                          const char *etag) {
    if (sum->of_bytes.kind != ITER_CHECKSUM_NONE) return &sum->of_bytes;
    if (!is_whole) return NULL;
    const bool amazon_counts = !sum->of_parts && (sum->is_full || !has_parts(etag));
    if (sum->amazon.kind != ITER_CHECKSUM_NONE && amazon_counts) return &sum->amazon;
    return sum->is_unpacked ? NULL : &sum->of_object;
}

static bool has_digest(const iter__checksum *sum) {
    return sum->wanted.kind >= ITER_CHECKSUM_SHA1;
}

static iter__digest_kind digest_of(iter__checksum_kind kind) {
    switch (kind) {
    case ITER_CHECKSUM_SHA1: return ITER_DIGEST_SHA1;
    case ITER_CHECKSUM_SHA256: return ITER_DIGEST_SHA256;
    default: return ITER_DIGEST_MD5;
    }
}

void iter__checksum_begin(iter__checksum *sum, bool is_whole, const char *etag) {
    const iter__checksum_given *given = choose(sum, is_whole, etag);
    sum->crc = 0;
    sum->wanted.kind = ITER_CHECKSUM_NONE;
    if (given) sum->wanted = *given;
    if (has_digest(sum)) iter__digest_begin(&sum->digest, digest_of(sum->wanted.kind));
}

void iter__checksum_add(iter__checksum *sum, const void *bytes, size_t n) {
    switch (sum->wanted.kind) {
    case ITER_CHECKSUM_NONE: return;
    case ITER_CHECKSUM_CRC32C: sum->crc = iter__crc32c_more(sum->crc, bytes, n); return;
    case ITER_CHECKSUM_CRC32: sum->crc = (uint32_t)crc32_z(sum->crc, bytes, n); return;
    default: iter__digest_add(&sum->digest, bytes, n);
    }
}

bool iter__checksum_is_wrong(iter__checksum *sum) {
    uint8_t is[ITER_CHECKSUM_BYTES] = {(uint8_t)(sum->crc >> 24), (uint8_t)(sum->crc >> 16),
                                       (uint8_t)(sum->crc >> 8), (uint8_t)sum->crc};
    const iter__checksum_kind kind = sum->wanted.kind;
    if (kind == ITER_CHECKSUM_NONE) return false;
    if (has_digest(sum)) iter__digest_end(&sum->digest, is);
    return memcmp(is, sum->wanted.bytes, bytes_of[kind]) != 0;
}

#endif

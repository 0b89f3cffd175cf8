/* url.c - see url.h. Source: RFC 3986; Amazon S3, "Authenticating Requests: UriEncode". */
#include "iter/remote/url.h"

#include <string.h>
#include <strings.h>

bool iter__url_is_s3(const char *path) {
    return strncasecmp(path, "s3://", 5) == 0;
}

bool iter__url_is(const char *path) {
    return iter__url_is_s3(path) || strncasecmp(path, "http://", 7) == 0 ||
           strncasecmp(path, "https://", 8) == 0;
}

const char *iter__url_s3_key(const char *url, size_t *out_bucket_bytes) {
    const char *bucket = url + strlen("s3://");
    *out_bucket_bytes = strcspn(bucket, "/");
    const char *end = bucket + *out_bucket_bytes;
    return *end ? end + 1 : end;
}

static bool is_plain(unsigned char c, bool slashes) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
           c == '.' || c == '_' || c == '~' || (slashes && c == '/');
}

size_t iter__url_encode(const char *text, size_t n, bool slashes, char *out, size_t capacity) {
    static const char digits[] = "0123456789ABCDEF";
    size_t length = 0;
    for (size_t i = 0; i < n; i++)
        length += is_plain((unsigned char)text[i], slashes) ? 1 : 3;
    if (length >= capacity) return length;
    for (size_t i = 0; i < n; i++) {
        const unsigned char c = (unsigned char)text[i];
        if (is_plain(c, slashes)) {
            *out++ = (char)c;
        } else {
            *out++ = '%';
            *out++ = digits[c >> 4];
            *out++ = digits[c & 15];
        }
    }
    *out = '\0';
    return length;
}

static int digit_of(char c) {
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    if (c >= 'A' && c <= 'F') return c - 'A' + 10;
    return -1;
}

void iter__url_decode(char *text) {
    char *out = text;
    for (const char *p = text; *p; out++) {
        const int high = *p == '%' ? digit_of(p[1]) : -1;
        const int low = high >= 0 ? digit_of(p[2]) : -1;
        *out = low >= 0 ? (char)(high * 16 + low) : *p == '+' ? ' ' : *p;
        p += low >= 0 ? 3 : 1;
    }
    *out = '\0';
}

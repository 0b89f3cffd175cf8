/* url.h - names of files that lie elsewhere: http://, https:// and s3://. */
#ifndef ITER_REMOTE_URL_H
#define ITER_REMOTE_URL_H

#include <stdbool.h>
#include <stddef.h>

/* Whether `path` names a file elsewhere. */
bool iter__url_is(const char *path);

/* Whether it begins with s3://. */
bool iter__url_is_s3(const char *path);

/* "s3://bucket/key": where the key begins (the end if there is none), and the bucket's length. */
const char *iter__url_s3_key(const char *url, size_t *out_bucket_bytes);

/* Percent-encodes `n` bytes as RFC 3986 and S3 have it: letters, digits and "-._~" stay, and '/' if
 * `slashes`. Returns the bytes that the result has without its NUL, at most 3 n; writes it if it
 * fits into `capacity`. */
size_t iter__url_encode(const char *text, size_t n, bool slashes, char *out, size_t capacity);

/* Decodes "%41", and "+" as a blank, in place. */
void iter__url_decode(char *text);

#endif

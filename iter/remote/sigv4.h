/*
 * sigv4.h - signs requests as AWS Signature Version 4 has it.
 *
 * Source: AWS, "Signature Version 4 signing process". The path is signed as it is sent, not
 * normalised: that is S3's rule.
 */
#ifndef ITER_REMOTE_SIGV4_H
#define ITER_REMOTE_SIGV4_H

#include <stddef.h>
#include <stdint.h>

#include <iter/status.h>

#include "iter/remote/digest.h"

/* The payload hash of a request without a body. */
#define ITER_SHA256_EMPTY "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"

/* A header that is signed. */
typedef struct iter__sigv4_header {
    const char *name;  /* lower case */
    const char *value; /* without blanks around it */
} iter__sigv4_header;

typedef struct iter__sigv4_request {
    const char *method;
    const char *path;                  /* percent-encoded, begins with '/' */
    const char *query;                 /* percent-encoded, sorted by name; "" = none */
    const iter__sigv4_header *headers; /* sorted by name */
    int n_headers;
    const char *payload_hash; /* SHA-256 in hexadecimal, or "UNSIGNED-PAYLOAD" */
    const char *time;         /* "20150830T123600Z" */
    const char *region, *service;
    const char *access_key;
    const uint8_t *key; /* [ITER_SHA256_BYTES], from iter__sigv4_key() */
} iter__sigv4_request;

/* The key of a day: the same for all requests of a date (8 digits), region and service. Errors:
 * ENOMEM. */
iter_status iter__sigv4_key(const char *secret, const char *date, const char *region,
                            const char *service, uint8_t out[ITER_SHA256_BYTES], iter_error *err);

/* Writes the value of the header "Authorization". Errors: ENOMEM, EINVAL (it does not fit). */
iter_status iter__sigv4_sign(const iter__sigv4_request *request, char *out, size_t capacity,
                             iter_error *err);

#endif

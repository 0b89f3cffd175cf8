/*
 * credentials.h - the keys that sign requests, from the places where programs of AWS keep them.
 *
 * Environment (AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_SESSION_TOKEN); then the shared files
 * (AWS_SHARED_CREDENTIALS_FILE or ~/.aws/credentials, AWS_CONFIG_FILE or ~/.aws/config) with the
 * profile that is given, or AWS_PROFILE, or "default"; then a container's service
 * (AWS_CONTAINER_CREDENTIALS_RELATIVE_URI or _FULL_URI); then the machine's (169.254.169.254),
 * unless AWS_EC2_METADATA_DISABLED is true. A profile that is named comes before the environment.
 *
 * Roles, web identities, single sign-on and credential_process are not supported. If the
 * environment or the profile asks for one, find() fails: what comes later in the chain has the
 * keys of another identity.
 */
#ifndef ITER_REMOTE_CREDENTIALS_H
#define ITER_REMOTE_CREDENTIALS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <iter/status.h>

typedef struct iter__credentials {
    char access_key[160];
    char secret[256];
    char token[8192];   /* "" = none */
    int64_t expires_s;  /* since 1970; 0 = never */
    const char *origin; /* in words */
} iter__credentials;

/* One request for credentials: GET, or PUT if `put`, with up to two headers ("Name: value", NULL =
 * none). Writes the body, with a NUL; false if there is no answer of status 200. */
typedef bool iter__credentials_ask(void *user, const char *url, bool put, const char *header,
                                   char *out, size_t capacity);

/* Walks the chain. `profile` "" = none is named. Errors: EINVAL (nothing has any, with what was
 * looked at; a profile that does not exist; a key without its secret; what is not supported). */
iter_status iter__credentials_find(const char *profile, iter__credentials_ask *ask, void *user,
                                   iter__credentials *out, iter_error *err);

/* The profile's setting `name` in the shared files, e.g. "region"; "" = not set. */
void iter__credentials_setting(const char *profile, const char *name, char *out, size_t capacity);

/* Reads {"AccessKeyId": ..., "SecretAccessKey": ..., "Token": ..., "Expiration": ...}. False if a
 * part is missing or does not fit. */
bool iter__credentials_parse(const char *json, iter__credentials *out);

#endif

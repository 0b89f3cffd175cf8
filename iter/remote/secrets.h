/*
 * secrets.h - parts of a URL that may be secret: "user:password@", and all from '?' on (a
 * signature, a token). A set has its files' names without them, so no message, list or cache has
 * them either.
 *
 *     me:word@host/a.tar?sig=1  becomes  ***@host/a.tar?***-0123456789abcdef
 *
 * What is added to such a name goes to the path: an index beside it is asked for as
 * a.tar.idx?sig=1. The digits are a hash of what they stand for, so two names differ if their URLs
 * do. s3:// URLs have no such parts.
 */
#ifndef ITER_REMOTE_SECRETS_H
#define ITER_REMOTE_SECRETS_H

#include <stdbool.h>
#include <stdint.h>

typedef struct iter__secret {
    uint64_t name; /* 0 = free */
    char *text;    /* iter__free */
} iter__secret;

/* A zeroed one is empty. Not for several threads at once. */
typedef struct iter__secrets {
    iter__secret *slots; /* [capacity], a power of 2 */
    uint64_t n, capacity;
} iter__secrets;

/* iter_text_mask() into memory of its own (iter__free). NULL = no memory. */
char *iter__secrets_mask(const char *text);

void iter__secrets_free(iter__secrets *secrets);

/* The URL without its secrets, which are kept (iter__free). NULL = no memory. What has none, or was
 * hidden before, is copied. */
char *iter__secrets_hide(iter__secrets *secrets, const char *url);

/* Whether a name may hide something: a look at its text. */
bool iter__secrets_are_hidden(const char *name);

/* The URL with its secrets (iter__free). NULL = no memory. */
char *iter__secrets_reveal(const iter__secrets *secrets, const char *url);

#endif

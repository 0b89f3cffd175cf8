/* secrets.c - see secrets.h. */
#include "iter/remote/secrets.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include <iter/status.h>

#include "iter/core/alloc.h"
#include "iter/core/arith.h"
#include "iter/core/hash.h"
#include "iter/remote/url.h"

#define HIDDEN "***"

/* The parts of "scheme://user@host/path?query"; a part that is missing has no bytes. */
typedef struct parts {
    const char *user, *host, *path, *query; /* `host` after '@', `query` with its '?' */
    int n_scheme, n_user, n_host, n_path;
} parts;

static parts split(const char *url) {
    const char *scheme_end = strstr(url, "://");
    parts p = {.user = scheme_end ? scheme_end + 3 : url};
    p.n_scheme = (int)(p.user - url);
    const char *end = p.user + strcspn(p.user, "/?");
    p.host = p.user;
    for (const char *at = p.user; at < end; at++)
        if (*at == '@') p.host = at + 1;
    p.n_user = p.host > p.user ? (int)(p.host - 1 - p.user) : 0;
    p.n_host = (int)(end - p.host);
    p.path = end;
    p.n_path = (int)strcspn(end, "?");
    p.query = end + p.n_path;
    return p;
}

static bool is_hidden(const char *text, int n) {
    return n >= 3 && strncmp(text, HIDDEN, 3) == 0;
}

/* Whether the user is hidden with digits, by which *out_name is found. */
static bool is_numbered(const parts *p, uint64_t *out_name) {
    int n = 0;
    return sscanf(p->user, HIDDEN "-%16" SCNx64 "%n", out_name, &n) == 1 && n == p->n_user;
}

static uint64_t name_of(char kind, const char *text, size_t n) {
    const uint64_t name = iter__fnv1a(iter__fnv1a(ITER_FNV_START, &kind, 1), text, n);
    return name ? name : 1;
}

static iter__secret *slot_of(const iter__secrets *secrets, uint64_t name) {
    uint64_t at = name & (secrets->capacity - 1);
    while (secrets->slots[at].name && secrets->slots[at].name != name)
        at = (at + 1) & (secrets->capacity - 1);
    return &secrets->slots[at];
}

static bool make_room(iter__secrets *secrets) {
    if (secrets->n < secrets->capacity / 4 * 3) return true;
    iter__secrets more = {.n = secrets->n,
                          .capacity = secrets->capacity ? 2 * secrets->capacity : 4};
    more.slots = iter__alloc((size_t)more.capacity, sizeof(*more.slots));
    if (!more.slots) return false;
    for (uint64_t i = 0; i < secrets->capacity; i++)
        if (secrets->slots[i].name) *slot_of(&more, secrets->slots[i].name) = secrets->slots[i];
    iter__free(secrets->slots);
    *secrets = more;
    return true;
}

static bool keep(iter__secrets *secrets, uint64_t name, const char *text, int n) {
    char *copy = make_room(secrets) ? iter__strf("%.*s", n, text) : NULL;
    if (!copy) return false;
    iter__secret *slot = slot_of(secrets, name);
    secrets->n += slot->name == 0;
    iter__free(slot->text);
    *slot = (iter__secret){.name = name, .text = copy};
    return true;
}

static const char *find(const iter__secrets *secrets, uint64_t name) {
    return secrets->capacity ? slot_of(secrets, name)->text : NULL;
}

static bool is_text(const char *text, const char *other, int n) {
    return strlen(text) == (size_t)n && memcmp(text, other, (size_t)n) == 0;
}

typedef struct masked {
    char *out;
    size_t n, capacity;
} masked;

static void put(masked *m, const char *text, size_t n) {
    if (m->capacity == 0) return;
    n = iter__min_size(n, m->capacity - 1 - m->n);
    memcpy(m->out + m->n, text, n);
    m->n += n;
    m->out[m->n] = '\0';
}

/* A quote begins a path; elsewhere it is an apostrophe. */
static bool may_open(const char *text, const char *at) {
    return at == text || strchr(" \t\n:;,={(", at[-1]) != NULL;
}

/* Whether the URL whose "://" is at `at` is one of the paths in braces. */
static bool is_listed(const char *text, const char *at) {
    while (at > text && isalnum((unsigned char)at[-1]))
        at--;
    return at > text && (at[-1] == '{' || at[-1] == ',');
}

/* Bytes of a URL up to a query that belongs to it: a '?' in quotes or braces. */
static size_t before_query(const char *url, const char *ends, bool quoted, bool listed) {
    int depth = 0;
    size_t n = 0;
    for (; url[n] && !strchr(ends, url[n]); n++) {
        if (url[n] == '?' && (quoted || listed || depth > 0)) break;
        if (depth == 0 && url[n] == '}') break;
        depth += (url[n] == '{') - (url[n] == '}');
    }
    return n;
}

char *iter_text_mask(const char *text, char *out, size_t capacity) {
    char quote = '\0';
    masked m = {.out = out, .capacity = capacity};
    put(&m, "", 0);
    for (const char *at = text; *at;) {
        if (*at == quote)
            quote = '\0';
        else if (!quote && (*at == '"' || *at == '\'') && may_open(text, at))
            quote = *at;
        put(&m, at++, 1);
        if (at - text < 3 || strncmp(at - 3, "://", 3) != 0) continue;
        const bool listed = !quote && is_listed(text, at - 3);
        const char own[] = {quote, '\0'};
        const char *const ends = quote ? own : listed ? "\" ;," : "\" ;";
        const parts p = split(at - 3);
        /* A comma may be one of a user's or of braces in it. */
        if (p.n_user > 0 && (size_t)p.n_user < strcspn(at, listed ? "\" ;" : ends)) {
            put(&m, HIDDEN, 3);
            at += p.n_user;
        }
        const size_t n = before_query(at, ends, quote != '\0', listed);
        put(&m, at, n);
        at += n;
        if (*at != '?') continue;
        put(&m, "?" HIDDEN, 4);
        at += strcspn(at, quote ? own : listed ? ";,}" : ";}");
    }
    return out;
}

char *iter__secrets_mask(const char *text) {
    const size_t room = 4 * strlen(text) + 1; /* a byte becomes "?***" at most */
    char *out = iter__alloc(room, 1);
    return out ? iter_text_mask(text, out, room) : NULL;
}

void iter__secrets_free(iter__secrets *secrets) {
    for (uint64_t i = 0; i < secrets->capacity; i++)
        iter__free(secrets->slots[i].text);
    iter__free(secrets->slots);
    *secrets = (iter__secrets){0};
}

char *iter__secrets_hide(iter__secrets *secrets, const char *url) {
    const parts p = split(url);
    const bool user = p.n_user > 0 && !is_hidden(p.user, p.n_user);
    const bool query = p.query[0] && !is_hidden(p.query + 1, (int)strlen(p.query + 1));
    if (iter__url_is_s3(url) || !iter__url_is(url) || (!user && !query)) return iter__strdup(url);
    char digits[32] = "", who[32] = "";
    const uint64_t query_name = name_of('?', p.query, strlen(p.query));
    if (p.n_user > 0) strcpy(who, HIDDEN "@");
    uint64_t name;
    if (user) {
        /* The second user of a host has a name with digits, so that it is another one. */
        name = name_of('@', p.host, (size_t)p.n_host);
        const char *first = find(secrets, name);
        if (first && !is_text(first, p.user, p.n_user)) {
            name = name_of('@', p.user, (size_t)(p.n_user + 1 + p.n_host));
            (void)snprintf(who, sizeof(who), HIDDEN "-%016" PRIx64 "@", name);
        }
        if (!keep(secrets, name, p.user, p.n_user)) return NULL;
    } else if (is_numbered(&p, &name)) {
        (void)snprintf(who, sizeof(who), HIDDEN "-%016" PRIx64 "@", name);
    }
    if (query && !keep(secrets, query_name, p.query, (int)strlen(p.query))) return NULL;
    if (query) (void)snprintf(digits, sizeof(digits), "?" HIDDEN "-%016" PRIx64, query_name);
    return iter__strf("%.*s%s%.*s%.*s%s", p.n_scheme, url, who, p.n_host, p.host, p.n_path, p.path,
                      query ? digits : p.query);
}

bool iter__secrets_are_hidden(const char *name) {
    return strstr(name, HIDDEN) != NULL;
}

char *iter__secrets_reveal(const iter__secrets *secrets, const char *url) {
    const parts p = split(url);
    const char *user = NULL, *query = NULL;
    const char *more = ""; /* a format's own ending, as in "a.rec?***-0123456789abcdef.idx" */
    uint64_t name;
    int n = 0;
    if (is_hidden(p.user, p.n_user)) {
        if (!is_numbered(&p, &name)) name = name_of('@', p.host, (size_t)p.n_host);
        user = find(secrets, name);
    }
    if (sscanf(p.query, "?" HIDDEN "-%16" SCNx64 "%n", &name, &n) == 1) {
        query = find(secrets, name);
        if (query) more = p.query + n;
    }
    if (!user && !query) return iter__strdup(url);
    return iter__strf("%.*s%s%.*s%.*s%s%s", user ? p.n_scheme : (int)(p.host - url), url,
                      user ? user : "", user ? p.n_host + 1 : p.n_host, user ? p.host - 1 : p.host,
                      p.n_path, p.path, more, query ? query : p.query);
}

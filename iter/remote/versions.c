/*
 * versions.c - see versions.h.
 *
 * An object is found by a hash of 64 bits of its URL. Among a million objects the chance that two
 * have the same is 3 in 10^8; then a read of one of them fails, because its ETag is another.
 */
#include "iter/remote/versions.h"

#ifdef ITER_HAVE_REMOTE

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "iter/core/alloc.h"
#include "iter/core/hash.h"

#define BLOCK_ENTRIES 4096u
#define IS_TEXT       UINT32_MAX /* as `parts` */

/* 4 bytes are its alignment, so that nothing is left unused. */
struct iter__version {
    uint32_t name[2];  /* hash of its URL */
    uint8_t value[16]; /* an MD5; or a pointer to the text (iter__free) */
    uint32_t parts;    /* of an upload in parts; 0 = in one; IS_TEXT */
};

_Static_assert(sizeof(iter__version) == 28, "what versions.h promises");

static uint64_t name_of(const char *url) {
    return iter__fnv1a_text(ITER_FNV_START, url);
}

static iter__version *entry_at(const iter__versions *v, uint64_t i) {
    return &v->blocks[i / BLOCK_ENTRIES][i % BLOCK_ENTRIES];
}

static uint64_t name_at(const iter__versions *v, uint64_t i) {
    const iter__version *e = entry_at(v, i);
    return (uint64_t)e->name[1] << 32 | e->name[0];
}

static char *text_of(const iter__version *e) {
    char *text;
    memcpy(&text, e->value, sizeof(text));
    return text;
}

static void drop_text(const iter__version *e) {
    if (e->parts == IS_TEXT) iter__free(text_of(e));
}

/* The index's slot of a name, or a free one. */
static uint32_t *slot_of(const iter__versions *v, uint64_t name) {
    uint64_t at = name & (v->capacity - 1);
    while (v->index[at] && name_at(v, v->index[at] - 1) != name)
        at = (at + 1) & (v->capacity - 1);
    return &v->index[at];
}

static bool grow_index(iter__versions *v) {
    if (v->n < v->capacity / 8 * 7) return true;
    const uint64_t capacity = v->capacity ? 2 * v->capacity : 16;
    uint32_t *index = iter__alloc((size_t)capacity, sizeof(*index));
    if (!index) return false;
    iter__free(v->index);
    v->index = index;
    v->capacity = capacity;
    for (uint64_t i = 0; i < v->n; i++)
        *slot_of(v, name_at(v, i)) = (uint32_t)i + 1;
    return true;
}

/* Room for one more entry. */
static bool make_room(iter__versions *v) {
    if (v->n >= UINT32_MAX - 1 || !grow_index(v)) return false;
    if (v->n < v->n_blocks * BLOCK_ENTRIES) return true;
    if ((v->n_blocks & (v->n_blocks - 1)) == 0) { /* doubled when it is a power of 2 */
        const uint64_t capacity = v->n_blocks ? 2 * v->n_blocks : 1;
        iter__version **blocks = iter__realloc(v->blocks, (size_t)capacity * sizeof(*blocks));
        if (!blocks) return false;
        v->blocks = blocks;
    }
    v->blocks[v->n_blocks] = iter__alloc(BLOCK_ENTRIES, sizeof(iter__version));
    if (!v->blocks[v->n_blocks]) return false;
    v->n_blocks++;
    return true;
}

/* Reads "0123456789abcdef0123456789abcdef-12" with its quotes. */
static bool parse_md5(const char *etag, iter__version *out) {
    if (strlen(etag) < 34 || etag[0] != '"') return false;
    for (int i = 0; i < 32; i++) {
        const char c = etag[1 + i];
        const int digit = c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
        if (digit < 0) return false;
        out->value[i / 2] = (uint8_t)(i % 2 ? out->value[i / 2] | digit : digit << 4);
    }
    const char *rest = etag + 33;
    out->parts = 0;
    if (*rest == '-') {
        for (rest++; *rest >= '0' && *rest <= '9' && out->parts < 100000; rest++)
            out->parts = 10 * out->parts + (uint32_t)(*rest - '0');
        if (out->parts == 0) return false;
    }
    return strcmp(rest, "\"") == 0;
}

void iter__versions_set(iter__versions *v, const char *url, const char *etag) {
    const uint64_t name = name_of(url);
    iter__version made = {.name = {(uint32_t)name, (uint32_t)(name >> 32)}};
    if (!etag[0] || strlen(etag) >= ITER_ETAG_BYTES || !make_room(v)) return;
    if (!parse_md5(etag, &made)) {
        char *text = iter__strdup(etag);
        if (!text) return;
        memcpy(made.value, &text, sizeof(text));
        made.parts = IS_TEXT;
    }
    uint32_t *slot = slot_of(v, name);
    if (!*slot)
        *slot = (uint32_t)++v->n;
    else
        drop_text(entry_at(v, *slot - 1));
    *entry_at(v, *slot - 1) = made;
}

void iter__versions_get(const iter__versions *v, const char *url, char out[ITER_ETAG_BYTES]) {
    static const char digits[] = "0123456789abcdef";
    out[0] = '\0';
    const uint32_t slot = v->capacity ? *slot_of(v, name_of(url)) : 0;
    if (!slot) return;
    const iter__version *e = entry_at(v, slot - 1);
    if (e->parts == IS_TEXT) {
        strcpy(out, text_of(e));
        return;
    }
    char text[33] = "";
    for (int i = 0; i < 16; i++) {
        text[2 * i] = digits[e->value[i] >> 4];
        text[2 * i + 1] = digits[e->value[i] & 15];
    }
    if (e->parts)
        (void)snprintf(out, ITER_ETAG_BYTES, "\"%s-%u\"", text, e->parts);
    else
        (void)snprintf(out, ITER_ETAG_BYTES, "\"%s\"", text);
}

void iter__versions_free(iter__versions *v) {
    for (uint64_t i = 0; i < v->n; i++)
        drop_text(entry_at(v, i));
    for (uint64_t b = 0; b < v->n_blocks; b++)
        iter__free(v->blocks[b]);
    iter__free(v->blocks);
    iter__free(v->index);
    memset(v, 0, sizeof(*v));
}

#endif

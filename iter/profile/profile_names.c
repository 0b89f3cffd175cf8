/*
 * profile_names.c - the names of events: a number for each text, for the life of the process.
 *
 * The table is fixed: looking up a known name takes no lock and allocates nothing, and a name's
 * text never moves. An entry is written under the profiler's lock, then published by its number in
 * the index. After that only a counter's value changes. The table is process state, as the profiler
 * is; see profile.c.
 */
#include <string.h>

#include "iter/core/hash.h"
#include "iter/profile/profiler.h"

#define INDEX_SIZE (2 * ITER_PROFILE_NAMES)

typedef struct name_entry {
    char text[ITER_PROFILE_NAME_MAX + 1];
    iter__profile_category category;
    atomic_llong value;
} name_entry;

static name_entry entries[ITER_PROFILE_NAMES] = {
    [PROFILE_OTHER] = {.text = "(other)", .category = CATEGORY_USER},
    [PROFILE_OPEN] = {.text = "open", .category = CATEGORY_LOADER},
    [PROFILE_BATCH] = {.text = "batch", .category = CATEGORY_LOADER},
    [PROFILE_NEXT] = {.text = "next", .category = CATEGORY_LOADER},
    [PROFILE_HELD] = {.text = "held", .category = CATEGORY_LOADER},
    [PROFILE_ISSUE] = {.text = "issue", .category = CATEGORY_READ},
    [PROFILE_READ] = {.text = "read", .category = CATEGORY_READ},
    [PROFILE_WAIT_BYTES] = {.text = "wait-bytes", .category = CATEGORY_WAIT},
    [PROFILE_WAIT_SLOT] = {.text = "wait-slot", .category = CATEGORY_WAIT},
    [PROFILE_WAIT_DEVICE] = {.text = "wait-device", .category = CATEGORY_WAIT},
    [PROFILE_HOST] = {.text = "host", .category = CATEGORY_MEMORY},
    [PROFILE_PINNED] = {.text = "pinned", .category = CATEGORY_MEMORY},
    [PROFILE_DEVICE] = {.text = "device", .category = CATEGORY_MEMORY},
};

/* Numbers of the names that are not fixed, found by hash; 0 = a free place. */
static atomic_uint index_of[INDEX_SIZE];
static uint32_t n_entries = PROFILE_FIXED; /* guarded by the profiler's lock */

/* Bytes of the UTF-8 character at `p`; 0 if none begins there. */
static size_t utf8_bytes(const unsigned char *p) {
    const size_t n = p[0] < 0x80                   ? 1
                     : p[0] >= 0xc2 && p[0] < 0xe0 ? 2
                     : p[0] >= 0xe0 && p[0] < 0xf0 ? 3
                     : p[0] >= 0xf0 && p[0] < 0xf5 ? 4
                                                   : 0;
    for (size_t i = 1; i < n; i++) {
        if ((p[i] & 0xc0) != 0x80) return 0;
    }
    if ((p[0] == 0xe0 && p[1] < 0xa0) || (p[0] == 0xed && p[1] >= 0xa0)) return 0;
    if ((p[0] == 0xf0 && p[1] < 0x90) || (p[0] == 0xf4 && p[1] >= 0x90)) return 0;
    return n;
}

void iter__profile_clean(const char *text, char *out, size_t capacity) {
    const unsigned char *p = (const unsigned char *)text;
    size_t at = 0;
    while (*p && at + 1 < capacity) {
        const size_t n = utf8_bytes(p);
        if (at + n + 1 > capacity) break;
        if (n) {
            memcpy(out + at, p, n);
        } else {
            out[at] = '?';
        }
        at += n ? n : 1;
        p += n ? n : 1;
    }
    out[at] = 0;
}

/* The name's number, or 0; then *out_place is its free place in the index. */
static uint32_t find(iter__profile_category category, const char *text, uint32_t *out_place) {
    uint32_t place = (uint32_t)(iter__fnv1a_text(ITER_FNV_START + category, text) % INDEX_SIZE);
    for (;; place = (place + 1) % INDEX_SIZE) {
        /* acquire: the entry of this number is complete. */
        const uint32_t name = atomic_load_explicit(&index_of[place], memory_order_acquire);
        *out_place = place;
        if (!name) return 0;
        if (entries[name].category == category && strcmp(entries[name].text, text) == 0)
            return name;
    }
}

uint32_t iter__profile_name(iter__profile_category category, const char *text) {
    char cleaned[ITER_PROFILE_NAME_MAX + 1];
    uint32_t place;
    iter__profile_clean(text, cleaned, sizeof(cleaned));
    uint32_t name = find(category, cleaned, &place);
    if (name) return name;
    iter__profile_lock();
    name = find(category, cleaned, &place);
    if (!name && n_entries < ITER_PROFILE_NAMES) {
        name = n_entries++;
        memcpy(entries[name].text, cleaned, sizeof(cleaned));
        entries[name].category = category;
        atomic_store_explicit(&index_of[place], name, memory_order_release);
    }
    iter__profile_unlock();
    return name;
}

const char *iter__profile_name_text(uint32_t name) {
    return entries[name].text;
}

iter__profile_category iter__profile_name_category(uint32_t name) {
    return entries[name].category;
}

atomic_llong *iter__profile_name_value(uint32_t name) {
    return &entries[name].value;
}

const char *iter__profile_category_text(iter__profile_category category) {
    static const char *const texts[] = {
        [CATEGORY_LOADER] = "loader",  [CATEGORY_STAGE] = "stage",   [CATEGORY_READ] = "read",
        [CATEGORY_WAIT] = "wait",      [CATEGORY_MEMORY] = "memory", [CATEGORY_USER] = "user",
        [CATEGORY_COUNTER] = "counter"};
    return texts[category];
}

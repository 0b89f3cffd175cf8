/*
 * tar.c - see tar.h.
 *
 * A member's name comes from a pax record, else from a GNU long name, else from its header. Headers
 * have a checksum, which tells damage from data.
 */
#include "loaders/files/tar.h"

#include <string.h>

#include "iter/core/arith.h"
#include "iter/core/error.h"

#define BLOCK      ((uint64_t)ITER_TAR_BLOCK)
#define EXTRA_MAX  8192u /* bytes to look at at once; the most for a long name */
#define SIZE_LIMIT ((uint64_t)1 << 60)

/* The values of a pax header for the next member. */
typedef struct extra {
    char name[ITER_TAR_NAME_MAX]; /* "" = nothing */
    bool has_size;
    uint64_t size;
} extra;

static iter_status damaged(uint64_t offset, const char *reason, iter_error *err) {
    return iter__fail(err, ITER_EFORMAT, "the tar archive is damaged at %llu: %s",
                      (unsigned long long)offset, reason);
}

/* Octal digits between blanks and NULs, or GNU's base 256. False if it is neither. */
static bool read_number(const uint8_t *p, size_t n, uint64_t *out) {
    uint64_t value = 0;
    if (p[0] & 0x80) {
        value = p[0] & 0x3f;
        for (size_t i = 1; i < n; i++) {
            if (value >> 55) return false;
            value = value << 8 | p[i];
        }
        *out = value;
        return !(p[0] & 0x40);
    }
    size_t i = 0;
    while (i < n && p[i] == ' ')
        i++;
    for (; i < n && p[i] >= '0' && p[i] <= '7'; i++) {
        if (value >> 60) return false;
        value = value << 3 | (uint64_t)(p[i] - '0');
    }
    *out = value;
    return i == n || p[i] == ' ' || p[i] == '\0';
}

static bool is_zero(const uint8_t *block) {
    for (size_t i = 0; i < BLOCK; i++) {
        if (block[i]) return false;
    }
    return true;
}

/* True if the checksum is right: the sum of all bytes, with blanks in its own place. Some old
 * programs added signed bytes. */
static bool sum_is_right(const uint8_t *block) {
    uint64_t stored = 0;
    int64_t plain = 0, with_sign = 0;
    if (!read_number(block + 148, 8, &stored)) return false;
    for (size_t i = 0; i < BLOCK; i++) {
        const uint8_t byte = i >= 148 && i < 156 ? ' ' : block[i];
        plain += byte;
        with_sign += (int8_t)byte;
    }
    return (int64_t)stored == plain || (int64_t)stored == with_sign;
}

/* prefix "/" name of a ustar header, or the name alone. */
static void read_name(const uint8_t *block, char out[ITER_TAR_NAME_MAX]) {
    size_t n = 0;
    if (memcmp(block + 257, "ustar\0", 6) == 0 && block[345]) {
        n = strnlen((const char *)block + 345, 155);
        memcpy(out, block + 345, n);
        out[n++] = '/';
    }
    const size_t length = strnlen((const char *)block, 100);
    memcpy(out + n, block, length);
    out[n + length] = '\0';
}

/* ---- headers about headers ------------------------------------------------------------------- */

/* Reads a long name, all of it. */
static iter_status read_long(iter__tar *tar, uint64_t header, uint64_t size, const uint8_t **out,
                             iter_error *err) {
    size_t n = 0;
    if (size > EXTRA_MAX) return damaged(header, "a name is too long", err);
    ITER_TRY(tar->bytes_at(tar->user, header + BLOCK, (size_t)size, out, &n, err));
    if (n < size) return damaged(header, "it ends within an extended header", err);
    return ITER_OK;
}

static iter_status take_name(extra *e, uint64_t header, const uint8_t *p, size_t n,
                             iter_error *err) {
    n = strnlen((const char *)p, n);
    if (n >= sizeof(e->name)) return damaged(header, "a name is too long", err);
    memcpy(e->name, p, n);
    e->name[n] = '\0';
    return ITER_OK;
}

/* One record of a pax header, "LENGTH key=value\n", of which the first n bytes are here. */
typedef struct pax_record {
    uint64_t length;
    const uint8_t *key, *value;
    size_t n_key, n_value;
    bool whole; /* the value is complete */
} pax_record;

static iter_status cut_pax(pax_record *r, uint64_t header, const uint8_t *p, size_t n,
                           uint64_t left, iter_error *err) {
    size_t digits = 0;
    r->length = 0;
    for (; digits < n && digits < 18 && p[digits] >= '0' && p[digits] <= '9'; digits++)
        r->length = 10 * r->length + (uint64_t)(p[digits] - '0');
    if (digits == 0 || digits >= n || p[digits] != ' ' || r->length < digits + 3 ||
        r->length > left)
        return damaged(header, "a record of the pax header has a wrong length", err);
    r->whole = r->length <= n;
    if (r->whole && p[r->length - 1] != '\n')
        return damaged(header, "a record of the pax header has a wrong length", err);
    r->key = p + digits + 1;
    const uint8_t *end = r->whole ? p + r->length - 1 : p + n;
    const uint8_t *equals = memchr(r->key, '=', (size_t)(end - r->key));
    if (!equals) return damaged(header, "a record of the pax header has no '='", err);
    r->n_key = (size_t)(equals - r->key);
    r->value = equals + 1;
    r->n_value = (size_t)(end - r->value);
    return ITER_OK;
}

static bool has_key(const pax_record *r, const char *key) {
    return r->n_key == strlen(key) && memcmp(r->key, key, r->n_key) == 0;
}

/* Takes the values that matter from a record; most do not (times, owners, attributes, comments). */
static iter_status take_pax(extra *e, uint64_t header, const pax_record *r, iter_error *err) {
    if (has_key(r, "path")) {
        if (!r->whole) return damaged(header, "a name is too long", err);
        return take_name(e, header, r->value, r->n_value, err);
    }
    if (has_key(r, "size")) {
        e->size = 0;
        for (size_t i = 0; i < r->n_value && i < 18; i++) {
            if (r->value[i] < '0' || r->value[i] > '9')
                return damaged(header, "the pax header's size is not a number", err);
            e->size = 10 * e->size + (uint64_t)(r->value[i] - '0');
        }
        e->has_size = true;
    }
    if (r->n_key > 10 && memcmp(r->key, "GNU.sparse", 10) == 0)
        return iter__fail(err, ITER_EUNSUPPORTED,
                          "the tar archive has a sparse file at %llu; pack it without --sparse",
                          (unsigned long long)header);
    return ITER_OK;
}

/* Reads the data of a pax header, record by record: attributes and comments may be of any size. */
static iter_status read_pax(iter__tar *tar, extra *e, uint64_t header, uint64_t size,
                            iter_error *err) {
    uint64_t at = header + BLOCK;
    for (uint64_t left = size; left > 0;) {
        const uint8_t *p = NULL;
        size_t n = 0;
        pax_record record = {.length = 0};
        ITER_TRY(tar->bytes_at(tar->user, at, (size_t)iter__min_u64(left, EXTRA_MAX), &p, &n, err));
        if (n == 0) return damaged(header, "it ends within an extended header", err);
        if (*p == '\0') return ITER_OK; /* padded with zeros */
        ITER_TRY(cut_pax(&record, header, p, n, left, err));
        ITER_TRY(take_pax(e, header, &record, err));
        at += record.length;
        left -= record.length;
        if (record.whole) continue;
        ITER_TRY(tar->bytes_at(tar->user, at - 1, 1, &p, &n, err));
        if (n == 0 || *p != '\n')
            return damaged(header, "a record of the pax header has a wrong length", err);
    }
    return ITER_OK;
}

/* ---- members --------------------------------------------------------------------------------- */

/* Reads one header at tar->next. *out_extra: it describes the next one. */
static iter_status read_header(iter__tar *tar, extra *e, bool *out_extra, iter_error *err) {
    const uint64_t at = tar->next;
    const uint8_t *block = NULL, *data = NULL;
    size_t n = 0;
    *out_extra = false;
    if (at == tar->total) return ITER_END;
    ITER_TRY(tar->bytes_at(tar->user, at, BLOCK, &block, &n, err));
    if (n < BLOCK) return damaged(at, "it ends within a header", err);
    if (is_zero(block)) return ITER_END;
    if (!sum_is_right(block)) return damaged(at, "no header, or its checksum is wrong", err);
    if (!read_number(block + 124, 12, &tar->size) || tar->size > SIZE_LIMIT)
        return damaged(at, "the size in the header is not a number", err);
    const char type = (char)block[156];
    const bool about_next = type == 'x' || type == 'g' || type == 'L' || type == 'K';
    if (!about_next && e->has_size) tar->size = e->size;
    if (type == 'S') {
        return iter__fail(err, ITER_EUNSUPPORTED,
                          "the tar archive has a sparse file at %llu; pack it without --sparse",
                          (unsigned long long)at);
    }
    tar->regular = type == '0' || type == '\0' || type == '7';
    tar->link = type == '1' || type == '2' ? type : '\0';
    memcpy(tar->target, block + 157, sizeof(tar->target) - 1);
    if (type >= '1' && type <= '6') tar->size = 0; /* links, devices, folders have no data */
    if (tar->size > tar->total - at - BLOCK)
        return damaged(at, "it ends within the data of a member", err);
    tar->offset = at + BLOCK;
    tar->next = tar->offset + iter__align_up_u64(tar->size, BLOCK);
    if (tar->next > tar->total) tar->next = tar->total; /* the last member may lack its zeros */
    *out_extra = about_next;
    if (!about_next) {
        read_name(block, tar->name);
        return ITER_OK;
    }
    if (type == 'K') return ITER_OK; /* a link's long target */
    if (type == 'L') {
        ITER_TRY(read_long(tar, at, tar->size, &data, err));
        return take_name(e, at, data, (size_t)tar->size, err);
    }
    extra all = {.name = ""}; /* a global header names no member */
    return read_pax(tar, type == 'g' ? &all : e, at, tar->size, err);
}

iter_status iter__tar_next(iter__tar *tar, iter_error *err) {
    extra e;
    e.name[0] = '\0';
    e.has_size = false;
    e.size = 0;
    tar->name[0] = '\0';
    tar->start = tar->next;
    for (bool about_next = true; about_next;) {
        const iter_status status = read_header(tar, &e, &about_next, err);
        if (status == ITER_END && tar->start != tar->next)
            return damaged(tar->start, "an extended header without a member after it", err);
        if (status != ITER_OK) return status;
    }
    if (e.name[0]) memcpy(tar->name, e.name, strlen(e.name) + 1);
    return ITER_OK;
}

void iter__tar_open(iter__tar *tar, iter__tar_bytes *bytes_at, void *user, uint64_t total) {
    tar->bytes_at = bytes_at;
    tar->user = user;
    tar->total = total;
    tar->next = tar->start = tar->offset = tar->size = 0;
    tar->regular = false;
    tar->link = '\0';
    tar->name[0] = '\0';
    memset(tar->target, 0, sizeof(tar->target));
}

static iter_status memory_at(void *user, uint64_t offset, size_t n, const uint8_t **out,
                             size_t *out_n, iter_error *err) {
    const iter__tar *tar = user;
    const uint64_t left = offset < tar->total ? tar->total - offset : 0;
    (void)err;
    *out = tar->memory + offset;
    *out_n = (size_t)iter__min_u64(n, left);
    return ITER_OK;
}

void iter__tar_open_memory(iter__tar *tar, const uint8_t *memory, size_t size) {
    iter__tar_open(tar, memory_at, tar, size);
    tar->memory = memory;
}

/* WebDataset's skip_meta, "__[^/]*__($|/)". */
static bool is_meta(const char *name) {
    const size_t n = strcspn(name, "/");
    return n >= 4 && strncmp(name, "__", 2) == 0 && strncmp(name + n - 2, "__", 2) == 0;
}

const char *iter__tar_field(const char *name, size_t *out_key) {
    if (is_meta(name)) return NULL;
    const char *slash = strrchr(name, '/');
    const char *base = slash ? slash + 1 : name;
    const char *dot = strchr(base, '.');
    if (!dot || dot == base || !dot[1]) return NULL;
    *out_key = (size_t)(dot - name);
    return dot + 1;
}

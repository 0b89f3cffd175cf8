/* json_valid.c - a recursive descent over RFC 8259, and small verbs on texts. */
#include "tests/support/json_valid.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DEPTH_MAX 64

typedef struct cursor {
    const unsigned char *p, *end;
    int depth;
} cursor;

static bool value(cursor *c);

static void blanks(cursor *c) {
    while (c->p < c->end && (*c->p == ' ' || *c->p == '\n' || *c->p == '\t' || *c->p == '\r'))
        c->p++;
}

static bool take(cursor *c, char wanted) {
    if (c->p >= c->end || *c->p != (unsigned char)wanted) return false;
    c->p++;
    return true;
}

static bool word(cursor *c, const char *text) {
    const size_t n = strlen(text);
    if ((size_t)(c->end - c->p) < n || memcmp(c->p, text, n) != 0) return false;
    c->p += n;
    return true;
}

static bool digits(cursor *c) {
    const unsigned char *from = c->p;
    while (c->p < c->end && *c->p >= '0' && *c->p <= '9')
        c->p++;
    return c->p > from;
}

static bool number(cursor *c) {
    take(c, '-');
    const bool zero = take(c, '0');
    if (!zero && !digits(c)) return false;
    if (take(c, '.') && !digits(c)) return false;
    if (take(c, 'e') || take(c, 'E')) {
        if (!take(c, '+')) take(c, '-');
        return digits(c);
    }
    return true;
}

static bool is_hex(unsigned char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
}

static bool escape(cursor *c) {
    if (c->p >= c->end) return false;
    const unsigned char kind = *c->p++;
    if (kind != 'u') return strchr("\"\\/bfnrt", kind) != NULL;
    for (int i = 0; i < 4; i++) {
        if (c->p >= c->end || !is_hex(*c->p++)) return false;
    }
    return true;
}

/* The rest of a character beyond ASCII, whose first byte was read already. */
static bool rest_of_utf8(cursor *c, unsigned char first) {
    unsigned long code;
    int n;
    if (first >= 0xc2 && first < 0xe0) {
        n = 1;
        code = first & 0x1f;
    } else if (first >= 0xe0 && first < 0xf0) {
        n = 2;
        code = first & 0x0f;
    } else if (first >= 0xf0 && first < 0xf5) {
        n = 3;
        code = first & 0x07;
    } else {
        return false;
    }
    for (int i = 0; i < n; i++) {
        if (c->p >= c->end || (*c->p & 0xc0) != 0x80) return false;
        code = code << 6 | (*c->p++ & 0x3f);
    }
    static const unsigned long least[] = {0, 0x80, 0x800, 0x10000};
    return code >= least[n] && code < 0x110000 && (code < 0xd800 || code > 0xdfff);
}

static bool string(cursor *c) {
    if (!take(c, '"')) return false;
    while (c->p < c->end) {
        const unsigned char now = *c->p++;
        if (now == '"') return true;
        if (now < 0x20) return false;
        if (now == '\\' && !escape(c)) return false;
        if (now >= 0x80 && !rest_of_utf8(c, now)) return false;
    }
    return false;
}

static bool member(cursor *c) {
    blanks(c);
    if (!string(c)) return false;
    blanks(c);
    return take(c, ':') && value(c);
}

static bool list(cursor *c, char closing, bool (*element)(cursor *c)) {
    blanks(c);
    if (take(c, closing)) return true;
    do {
        if (!element(c)) return false;
        blanks(c);
    } while (take(c, ','));
    return take(c, closing);
}

static bool value(cursor *c) {
    blanks(c);
    if (c->p >= c->end || c->depth == DEPTH_MAX) return false;
    bool ok;
    c->depth++;
    switch (*c->p) {
    case '{':
        c->p++;
        ok = list(c, '}', member);
        break;
    case '[':
        c->p++;
        ok = list(c, ']', value);
        break;
    case '"': ok = string(c); break;
    case 't': ok = word(c, "true"); break;
    case 'f': ok = word(c, "false"); break;
    case 'n': ok = word(c, "null"); break;
    default: ok = number(c); break;
    }
    c->depth--;
    return ok;
}

bool json_valid(const char *text, size_t n) {
    cursor c = {(const unsigned char *)text, (const unsigned char *)text + n, 0};
    if (!value(&c)) return false;
    blanks(&c);
    return c.p == c.end;
}

char *json_read(const char *path, size_t *out_n) {
    FILE *file = fopen(path, "rbe");
    if (!file) return NULL;
    size_t n = 0, capacity = 1 << 16;
    char *text = malloc(capacity + 1);
    for (size_t got = 1; text && got > 0; n += got) {
        if (n == capacity) {
            capacity *= 2;
            char *grown = realloc(text, capacity + 1);
            if (!grown) free(text);
            text = grown;
            if (!text) break;
        }
        got = fread(text + n, 1, capacity - n, file);
        if (got == 0) break;
    }
    fclose(file);
    if (text) text[n] = 0;
    *out_n = n;
    return text;
}

bool json_file_valid(const char *path, char **out) {
    size_t n = 0;
    char *text = json_read(path, &n);
    const bool ok = text && json_valid(text, n);
    if (out) {
        *out = text;
    } else {
        free(text);
    }
    return ok;
}

int json_count(const char *text, const char *part) {
    int n = 0;
    const size_t length = strlen(part);
    /* No strstr(): under AddressSanitizer each call scans the whole text. */
    for (const char *at = text; *at; at++)
        n += *at == *part && strncmp(at, part, length) == 0;
    return n;
}

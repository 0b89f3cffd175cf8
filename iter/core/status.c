/* status.c - texts of statuses, made from the same list as the enum; escapes texts for printing. */
#include <stdio.h>
#include <string.h>

#include <iter/status.h>

const char *iter_status_text(iter_status status) {
    switch (status) {
#define ITER_X(name, value, text) \
    case ITER_##name: return text;
        ITER_STATUS_MAP(ITER_X)
#undef ITER_X
    }
    return "unknown status";
}

/* Bytes of the UTF-8 sequence at p, and its code point; 0 if it is none. Source: RFC 3629. */
static size_t read_utf8(const unsigned char *p, unsigned *out) {
    if (p[0] < 0x80) {
        *out = p[0];
        return 1;
    }
    const size_t n = p[0] >= 0xc2 && p[0] < 0xe0   ? 2
                     : p[0] >= 0xe0 && p[0] < 0xf0 ? 3
                     : p[0] >= 0xf0 && p[0] < 0xf5 ? 4
                                                   : 0;
    if (n == 0) return 0;
    unsigned value = p[0] & (0x7fu >> n);
    for (size_t i = 1; i < n; i++) { /* the final NUL is not such a byte */
        if ((p[i] & 0xc0) != 0x80) return 0;
        value = value << 6 | (p[i] & 0x3fu);
    }
    if (n == 3 && (value < 0x800 || (value >= 0xd800 && value < 0xe000))) return 0;
    if (n == 4 && (value < 0x10000 || value > 0x10ffff)) return 0;
    *out = value;
    return n;
}

/* C0, DEL, C1; line and paragraph separators; embeddings, overrides and isolates of direction. */
static int is_printable(unsigned c) {
    return c >= 0x20 && !(c >= 0x7f && c < 0xa0) && !(c >= 0x2028 && c <= 0x202e) &&
           !(c >= 0x2066 && c <= 0x2069);
}

/* Writes the character at *p as it is shown, at most 16 bytes, and moves *p after it. */
static size_t show_one(const unsigned char **p, char out[17]) {
    unsigned code = 0;
    const size_t n = read_utf8(*p, &code), n_raw = n ? n : 1;
    size_t n_out = 0;
    if (n && is_printable(code)) {
        memcpy(out, *p, n);
        n_out = n;
    } else if (code == '\n' || code == '\r' || code == '\t') {
        n_out = (size_t)snprintf(out, 17, "\\%c", code == '\n' ? 'n' : code == '\r' ? 'r' : 't');
    } else {
        for (size_t i = 0; i < n_raw; i++)
            n_out += (size_t)snprintf(out + n_out, 17 - n_out, "\\x%02x", (*p)[i]);
    }
    *p += n_raw;
    return n_out;
}

char *iter_text_escape(const char *text, char *out, size_t capacity) {
    const unsigned char *p = (const unsigned char *)text;
    size_t n = 0, cut = 0; /* cut: the text up to there still fits with dots after it */
    if (capacity == 0) return out;
    while (*p) {
        char shown[17];
        const size_t more = show_one(&p, shown);
        if (n + more >= capacity) {
            const size_t dots = capacity > 3 ? 3 : capacity - 1;
            memcpy(out + cut, "...", dots);
            n = cut + dots;
            break;
        }
        memcpy(out + n, shown, more);
        n += more;
        if (n + 3 < capacity) cut = n;
    }
    out[n] = '\0';
    return out;
}

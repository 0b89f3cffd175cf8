/*
 * json_writer.c - writes JSON (RFC 8259).
 *
 * Numbers are written by printf; json_number() writes the decimal point of the C locale in every
 * locale. Control characters, quotes and backslashes in texts are escaped. A JSON text must be
 * UTF-8, so bytes that are not (file names may hold them) become U+FFFD.
 */
#include "diagnose/json_writer.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

/* Bytes of the UTF-8 character at `s`; 0 if the bytes are not UTF-8. */
static int character_bytes(const unsigned char *s) {
    int n = s[0] < 0x80                   ? 1
            : s[0] >= 0xc2 && s[0] < 0xe0 ? 2
            : s[0] >= 0xe0 && s[0] < 0xf0 ? 3
            : s[0] >= 0xf0 && s[0] < 0xf5 ? 4
                                          : 0;
    for (int i = 1; i < n; i++)
        if ((s[i] & 0xc0) != 0x80) return 0;
    bool overlong = (s[0] == 0xe0 && s[1] < 0xa0) || (s[0] == 0xf0 && s[1] < 0x90);
    bool beyond = (s[0] == 0xed && s[1] >= 0xa0) || (s[0] == 0xf4 && s[1] >= 0x90);
    return overlong || beyond ? 0 : n;
}

static void write_quoted(FILE *out, const char *text) {
    fputc('"', out);
    for (const unsigned char *s = (const unsigned char *)text; *s != '\0';) {
        int n = character_bytes(s);
        if (n == 0)
            fputs("\\ufffd", out);
        else if (*s == '"' || *s == '\\')
            fprintf(out, "\\%c", *s);
        else if (*s < 0x20)
            fprintf(out, "\\u%04x", *s);
        else
            fwrite(s, 1, (size_t)n, out);
        s += n > 0 ? n : 1;
    }
    fputc('"', out);
}

static void before_value(json_writer *w, const char *key) {
    if (w->depth > 0) {
        if (w->any[w->depth - 1]) fputc(',', w->out);
        w->any[w->depth - 1] = true;
        fprintf(w->out, "\n%*s", 2 * w->depth, "");
    }
    if (key != NULL) {
        write_quoted(w->out, key);
        fputs(": ", w->out);
    }
}

void json_begin(json_writer *w, const char *key, char bracket) {
    before_value(w, key);
    fputc(bracket, w->out);
    w->close[w->depth] = bracket == '{' ? '}' : ']';
    w->any[w->depth++] = false;
}

void json_end(json_writer *w) {
    w->depth--;
    if (w->any[w->depth]) fprintf(w->out, "\n%*s", 2 * w->depth, "");
    fputc(w->close[w->depth], w->out);
    if (w->depth == 0) fputc('\n', w->out);
}

void json_text(json_writer *w, const char *key, const char *text) {
    before_value(w, key);
    if (text != NULL)
        write_quoted(w->out, text);
    else
        fputs("null", w->out);
}

void json_number(json_writer *w, const char *key, double number) {
    before_value(w, key);
    char text[32] = "null";
    if (isfinite(number)) snprintf(text, sizeof(text), "%.9g", number);
    char *comma = strchr(text, ',');
    if (comma != NULL) *comma = '.';
    fputs(text, w->out);
}

void json_count(json_writer *w, const char *key, uint64_t number) {
    before_value(w, key);
    fprintf(w->out, "%" PRIu64, number);
}

void json_integer(json_writer *w, const char *key, int64_t number) {
    before_value(w, key);
    fprintf(w->out, "%" PRId64, number);
}

void json_bool(json_writer *w, const char *key, bool value) {
    before_value(w, key);
    fputs(value ? "true" : "false", w->out);
}

void json_null(json_writer *w, const char *key) {
    before_value(w, key);
    fputs("null", w->out);
}

void json_interval(json_writer *w, const char *key, double median, double low, double high) {
    json_begin(w, key, '{');
    json_number(w, "median", median);
    json_number(w, "low", low);
    json_number(w, "high", high);
    json_end(w);
}

/* page.c - see page.h. */
#include "bench/common/page.h"

#include <ctype.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <iter/status.h>

#define COLUMNS_LEAST 40
#define TEXT_MAX      4096
#define UNIT_MAX      5 /* bytes of a unit after a number, with punctuation: "%]," */

/* ---- The terminal ---------------------------------------------------------------------------- */

static bool wants_style(FILE *out) {
    const char *off = getenv("NO_COLOR"), *term = getenv("TERM");
    if (off != NULL && off[0] != '\0') return false;
    if (term == NULL || strcmp(term, "dumb") == 0) return false;
    return isatty(fileno(out)) == 1;
}

page page_of(FILE *out) {
    struct winsize size;
    page p = {out, PAGE_COLUMNS, false};
    if (fileno(out) < 0) return p; /* a stream in memory */
    p.styled = wants_style(out);
    if (isatty(fileno(out)) == 1 && ioctl(fileno(out), TIOCGWINSZ, &size) == 0 && size.ws_col > 0 &&
        size.ws_col < PAGE_COLUMNS)
        p.columns = size.ws_col > COLUMNS_LEAST ? size.ws_col : COLUMNS_LEAST;
    return p;
}

static const char *begins(const page *p, page_style style) {
    static const char *const codes[] = {"", "\033[1m", "\033[32m", "\033[33m", "\033[31m"};
    return p->styled ? codes[style] : "";
}

static const char *ends(const page *p, page_style style) {
    return p->styled && style != PAGE_PLAIN ? "\033[0m" : "";
}

/* ---- Wrapping -------------------------------------------------------------------------------- */

static int columns_of(const char *text, size_t bytes) {
    int n = 0;
    for (size_t i = 0; i < bytes; i++)
        n += ((unsigned char)text[i] & 0xc0) != 0x80;
    return n;
}

int page_width_of(const char *text) {
    return columns_of(text, strlen(text));
}

/* Bytes of the next word. A number keeps its unit: "44 %" and "1.83 M" are one word. */
static size_t word_of(const char *text) {
    size_t n = strcspn(text, " ");
    if (n == 0 || !isdigit((unsigned char)text[n - 1]) || text[n] == '\0') return n;
    const size_t unit = strcspn(text + n + 1, " ");
    return unit > 0 && unit <= UNIT_MAX ? n + 1 + unit : n;
}

/* Writes the words of `raw`, starting at column `column` of a line that has begun; later lines are
 * indented. The text may hold names of files, so it is escaped here, once for all rows. */
static void wrap(const page *p, int indent, int column, page_style style, const char *raw) {
    char shown[TEXT_MAX];
    const char *text = iter_text_escape(raw, shown, sizeof(shown));
    bool begun = false; /* this line has a word */
    fputs(begins(p, style), p->out);
    for (text += strspn(text, " "); *text != '\0'; text += strspn(text, " ")) {
        const size_t word = word_of(text);
        const int width = columns_of(text, word);
        if (begun && column + 1 + width > p->columns) {
            fprintf(p->out, "%s\n%*s%s", ends(p, style), indent, "", begins(p, style));
            column = indent;
            begun = false;
        }
        fprintf(p->out, "%s%.*s", begun ? " " : "", (int)word, text);
        column += width + begun;
        begun = true;
        text += word;
    }
    fprintf(p->out, "%s\n", ends(p, style));
}

void page_text(const page *p, int indent, page_style style, const char *text) {
    fprintf(p->out, "%*s", indent, "");
    wrap(p, indent, indent, style, text);
}

void page_row(const page *p, int width, const char *label, page_style style, const char *format,
              ...) {
    char text[TEXT_MAX];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    char name[PAGE_COLUMNS];
    iter_text_escape(label, name, sizeof(name));
    const int label_width = page_width_of(name);
    fprintf(p->out, "%s%s%s", begins(p, PAGE_STRONG), name, ends(p, PAGE_STRONG));
    if (label_width >= width)
        fprintf(p->out, "\n%*s", width, "");
    else
        fprintf(p->out, "%*s", width - label_width, "");
    wrap(p, width, width, style, text);
}

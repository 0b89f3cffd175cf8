/*
 * page.h - text for a terminal: labelled rows and paragraphs, wrapped, with emphasis on a terminal.
 *
 * A line has at most PAGE_COLUMNS columns, or as many as the terminal has if those are fewer. Only a
 * single word that is longer stands out. Nothing is emphasised if the output is no terminal, if
 * NO_COLOR is set and not empty, or if TERM is "dumb".
 * Control bytes are escaped by iter_text_escape(), so a file's name cannot command the terminal.
 */
#ifndef PAGE_H
#define PAGE_H

#include <stdbool.h>
#include <stdio.h>

#define PAGE_COLUMNS 100

typedef enum page_style {
    PAGE_PLAIN,
    PAGE_STRONG, /* bold */
    PAGE_GOOD,   /* green */
    PAGE_WARN,   /* yellow */
    PAGE_BAD     /* red */
} page_style;

typedef struct page {
    FILE *out;
    int columns;
    bool styled;
} page;

/** How to write to `out`: looks at the terminal behind it, if there is one. */
page page_of(FILE *out);

/** One paragraph; every line begins with `indent` blanks. */
void page_text(const page *p, int indent, page_style style, const char *text);

/** "label   text": the text begins `width` columns in, on every line of it. A label that is too long
 * has a line of its own. */
void page_row(const page *p, int width, const char *label, page_style style, const char *format,
              ...) __attribute__((format(printf, 5, 6)));

/** Columns that a UTF-8 text takes: its characters, each one column. */
int page_width_of(const char *text);

#endif

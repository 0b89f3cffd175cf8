/*
 * page.h - text for a terminal: labelled rows and paragraphs, wrapped and emphasised.
 *
 * A line has at most PAGE_COLUMNS columns, or as many as the terminal has if those are fewer; only
 * a single long word may exceed that. Nothing is emphasised if the output is not a terminal, if
 * NO_COLOR is set and not empty, or if TERM is "dumb". Control bytes are escaped by
 * iter_text_escape(), so a file's name cannot command the terminal.
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

/** How to write to `out`; asks the terminal, if `out` is one. */
page page_of(FILE *out);

/** One paragraph; every line begins with `indent` blanks. */
void page_text(const page *p, int indent, page_style style, const char *text);

/** "label   text": each line of the text begins at column `width`. A label that is too long gets a
 * line of its own. */
void page_row(const page *p, int width, const char *label, page_style style, const char *format,
              ...) __attribute__((format(printf, 5, 6)));

/** Columns that a UTF-8 text takes: its characters, each one column. */
int page_width_of(const char *text);

#endif

/*
 * json_valid.h - whether a text is JSON by RFC 8259, to the last byte: a checker of its own, so that what the library writes is not judged
 * by what the library reads.
 */
#ifndef TESTS_SUPPORT_JSON_VALID_H
#define TESTS_SUPPORT_JSON_VALID_H

#include <stdbool.h>
#include <stddef.h>

/* One value, blanks around it, nothing else; strings are UTF-8 without control characters. */
bool json_valid(const char *text, size_t n);

/* The whole file, ended by NUL; the caller frees it. NULL = there is none. */
char *json_read(const char *path, size_t *out_n);

/* The file is valid; its text goes to *out if asked for. */
bool json_file_valid(const char *path, char **out);

/* How often `part` stands in `text`. */
int json_count(const char *text, const char *part);

#endif

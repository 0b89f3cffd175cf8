/*
 * json_valid.h - whether a text is JSON by RFC 8259, to the last byte. This is a checker of its
 * own, so that the library's parser does not judge the library's output.
 */
#ifndef TESTS_SUPPORT_JSON_VALID_H
#define TESTS_SUPPORT_JSON_VALID_H

#include <stdbool.h>
#include <stddef.h>

/* One value with blanks around it and nothing else; strings are UTF-8 without control
 * characters. */
bool json_valid(const char *text, size_t n);

/* Reads the whole file and appends a NUL; the caller must free it. NULL = there is no such file. */
char *json_read(const char *path, size_t *out_n);

/* Whether the file is valid. If `out` is not NULL, *out gets its text. */
bool json_file_valid(const char *path, char **out);

/* How often `part` occurs in `text`. */
int json_count(const char *text, const char *part);

#endif

/*
 * report_html.h - a result as one HTML file that draws itself and needs no network.
 */
#ifndef REPORT_HTML_H
#define REPORT_HTML_H

#include <stddef.h>
#include <stdio.h>

#include <iter/status.h>

/** diagnose/report.html, compiled in. */
extern const unsigned char report_template[];
extern const size_t report_template_bytes;

/**
 * Writes the report of a result.
 *
 *   path  file to write; an existing file is replaced
 *   json  [json_bytes] one JSON object as in docs/json.md, UTF-8. Parts may be missing or null:
 *         the report names the parts that it leaves out
 *
 * Errors  EIO with path and reason. The file is then incomplete.
 */
iter_status report_html_write(const char *path, const char *json_text, size_t json_bytes,
                              iter_error *err);

/** The same for the JSON that `write` writes. Errors: ENOMEM, too. */
iter_status report_html_by(const char *path, void (*write)(const void *user, FILE *out),
                           const void *user, iter_error *err);

#endif

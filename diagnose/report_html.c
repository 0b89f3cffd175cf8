/*
 * report_html.c - puts a result into the template of the report.
 *
 * The result goes into a <script type="application/json"> element, whose text ends at the first
 * "</script" and changes its meaning at "<!--" (HTML, 13.2.6.4: script data). In JSON, a '<' occurs
 * only inside texts, where \u003c means the same. Since every '<' is written so, no path, message
 * or chain can end the element or begin anything in it.
 */
#include "diagnose/report_html.h"

#include <assert.h>
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "diagnose/diagnose_util.h"

static const char marker[] = "@RESULT@";

static void write_escaped(FILE *out, const char *text, size_t bytes) {
    const char *end = text + bytes;
    while (text < end) {
        const char *stop = memchr(text, '<', (size_t)(end - text));
        if (stop == NULL) stop = end;
        fwrite(text, 1, (size_t)(stop - text), out);
        if (stop < end) fputs("\\u003c", out);
        text = stop + (stop < end);
    }
}

iter_status report_html_write(const char *path, const char *json_text, size_t json_bytes,
                              iter_error *err) {
    const char *head = (const char *)report_template, *end = head + report_template_bytes;
    const char *at = memmem(head, report_template_bytes, marker, sizeof(marker) - 1);
    assert(at != NULL);
    FILE *out = fopen(path, "w");
    if (out == NULL) return diagnose_fail(err, ITER_EIO, "%s: %s", path, strerror(errno));
    const char *tail = at + sizeof(marker) - 1;
    fwrite(head, 1, (size_t)(at - head), out);
    write_escaped(out, json_text, json_bytes);
    fwrite(tail, 1, (size_t)(end - tail), out);
    const bool broken = ferror(out) != 0 || fflush(out) != 0;
    if (fclose(out) != 0 || broken)
        return diagnose_fail(err, ITER_EIO, "%s: cannot be written", path);
    return ITER_OK;
}

iter_status report_html_by(const char *path, void (*write)(const void *user, FILE *out),
                           const void *user, iter_error *err) {
    char *text = NULL;
    size_t bytes = 0;
    FILE *out = open_memstream(&text, &bytes);
    if (out == NULL) return diagnose_fail(err, ITER_ENOMEM, "%s: no memory for a report", path);
    write(user, out);
    const bool whole = ferror(out) == 0 && fflush(out) == 0;
    iter_status s = fclose(out) == 0 && whole
                        ? report_html_write(path, text, bytes, err)
                        : diagnose_fail(err, ITER_ENOMEM, "%s: no memory for a report", path);
    free(text);
    return s;
}

/* s3_xml.h - what an S3 service answers in XML: lists of objects, uploads, and errors. */
#ifndef ITER_REMOTE_S3_XML_H
#define ITER_REMOTE_S3_XML_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <iter/status.h>

/* One entry of a list. `key` is decoded; it is borrowed for the call. */
typedef struct iter__s3_entry {
    const char *key;
    const char *etag; /* as in the header, with quotes; "" for a folder */
    uint64_t bytes;
    bool is_folder; /* a common prefix; the key ends with '/' */
} iter__s3_entry;

typedef iter_status iter__s3_visit(void *user, const iter__s3_entry *entry, iter_error *err);

/* Parses a page of ListObjectsV2 that was asked for with encoding-type=url, and calls `visit` for
 * each entry. *out_next (iter__free) continues the list; NULL = it was the last page. Errors:
 * EFORMAT (no such list; larger than the limits below), ENOMEM, those of visit(). */
iter_status iter__s3_list_parse(const char *xml, size_t n, iter__s3_visit *visit, void *user,
                                char **out_next, iter_error *err);

/* The id of an upload that was begun (CreateMultipartUpload), in *out (iter__free). Errors: EFORMAT
 * (the answer has none), ENOMEM. */
iter_status iter__s3_upload_parse(const char *xml, size_t n, char **out, iter_error *err);

/* Whether an upload is complete: a service may answer 200, and an <Error> in the body. Errors: EIO
 * (an <Error>, with its words; *out_passes if a further try may have none), EFORMAT (neither),
 * ENOMEM. */
iter_status iter__s3_complete_parse(const char *xml, size_t n, bool *out_passes, iter_error *err);

/* Writes "Code: Message" of an <Error>, or "" if `xml` is none. */
void iter__s3_error_parse(const char *xml, size_t n, char *out, size_t capacity);

#endif

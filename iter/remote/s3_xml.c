/*
 * s3_xml.c - see s3_xml.h. The parser is expat.
 *
 * An answer is a text from outside: elements are at most DEPTH_MAX deep, and a value has at most
 * VALUE_BYTES; a document type declaration, which could define entities, ends the parse.
 */
#include "iter/remote/s3_xml.h"

#ifdef ITER_HAVE_REMOTE

#include <expat.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "iter/core/alloc.h"
#include "iter/core/error.h"
#include "iter/remote/url.h"

#define DEPTH_MAX   8
#define VALUE_BYTES 8192 /* a key has at most 1024 bytes, percent-encoded 3072 */
#define NAME_BYTES  32

typedef struct reader {
    XML_Parser parser;
    iter__s3_visit *visit;
    void *user;
    iter_error *err;
    iter_status status;
    int depth;
    char names[DEPTH_MAX + 1][NAME_BYTES]; /* of the elements that are open */
    char value[VALUE_BYTES];               /* text of the innermost one */
    size_t n_value;
    bool is_list, is_encoded, is_complete, truncated;
    char key[VALUE_BYTES], etag[256], next[VALUE_BYTES];
    char upload[VALUE_BYTES];
    uint64_t bytes;
    /* an error's */
    char code[128], message[512];
} reader;

static void stop(reader *r, iter_status status) {
    r->status = status;
    XML_StopParser(r->parser, XML_FALSE);
}

static void *take(size_t bytes) {
    return iter__alloc(bytes ? bytes : 1, 1);
}

static void *grow(void *block, size_t bytes) {
    return iter__realloc(block, bytes ? bytes : 1);
}

static const XML_Memory_Handling_Suite memory = {
    .malloc_fcn = take, .realloc_fcn = grow, .free_fcn = iter__free};

static void on_start(void *user, const XML_Char *name, const XML_Char **attributes) {
    reader *r = user;
    (void)attributes;
    if (++r->depth > DEPTH_MAX || strlen(name) >= NAME_BYTES) {
        stop(r, iter__fail(r->err, ITER_EFORMAT, "an element <%.40s> that no answer has", name));
        return;
    }
    strcpy(r->names[r->depth], name);
    if (r->depth == 1) r->is_list = strcmp(name, "ListBucketResult") == 0;
    if (r->depth == 1) r->is_complete = strcmp(name, "CompleteMultipartUploadResult") == 0;
    if (strcmp(name, "Contents") == 0) {
        r->key[0] = r->etag[0] = '\0';
        r->bytes = 0;
    }
    r->n_value = 0;
    r->value[0] = '\0';
}

static void on_text(void *user, const XML_Char *text, int n) {
    reader *r = user;
    if ((size_t)n >= VALUE_BYTES - r->n_value) {
        stop(r, iter__fail(r->err, ITER_EFORMAT, "a value longer than %d bytes", VALUE_BYTES));
        return;
    }
    memcpy(r->value + r->n_value, text, (size_t)n);
    r->n_value += (size_t)n;
    r->value[r->n_value] = '\0';
}

static bool is_at(const reader *r, int depth, const char *outer, const char *name) {
    return r->depth == depth && strcmp(r->names[depth - 1], outer) == 0 &&
           strcmp(r->names[depth], name) == 0;
}

static void visit(reader *r, const char *key, bool is_folder) {
    const iter__s3_entry entry = {
        .key = key, .etag = is_folder ? "" : r->etag, .bytes = r->bytes, .is_folder = is_folder};
    const iter_status status = r->visit ? r->visit(r->user, &entry, r->err) : ITER_OK;
    if (status < 0) stop(r, status);
}

static void keep(char *out, size_t capacity, const reader *r) {
    const size_t n = r->n_value < capacity - 1 ? r->n_value : capacity - 1;
    memcpy(out, r->value, n);
    out[n] = '\0';
}

static void on_end(void *user, const XML_Char *name) {
    reader *r = user;
    (void)name;
    if (r->status < 0) return;
    const char *const root = "ListBucketResult";
    if (is_at(r, 3, "Contents", "Key")) {
        keep(r->key, sizeof(r->key), r);
        if (r->is_encoded) iter__url_decode(r->key);
    } else if (is_at(r, 3, "Contents", "ETag")) {
        keep(r->etag, sizeof(r->etag), r);
    } else if (is_at(r, 3, "Contents", "Size")) {
        char *end;
        r->bytes = strtoull(r->value, &end, 10);
        if (*end || end == r->value || r->value[0] == '-' || r->bytes > INT64_MAX)
            stop(r, iter__fail(r->err, ITER_EFORMAT, "a size of '%.40s'", r->value));
    } else if (is_at(r, 2, root, "Contents")) {
        if (r->key[0]) visit(r, r->key, false);
    } else if (is_at(r, 3, "CommonPrefixes", "Prefix")) {
        keep(r->key, sizeof(r->key), r);
        if (r->is_encoded) iter__url_decode(r->key);
        r->bytes = 0;
        if (r->key[0]) visit(r, r->key, true);
    } else if (is_at(r, 2, root, "IsTruncated")) {
        r->truncated = strcmp(r->value, "true") == 0;
    } else if (is_at(r, 2, root, "NextContinuationToken")) {
        keep(r->next, sizeof(r->next), r);
    } else if (is_at(r, 2, "InitiateMultipartUploadResult", "UploadId")) {
        keep(r->upload, sizeof(r->upload), r);
    } else if (is_at(r, 2, "Error", "Code")) {
        keep(r->code, sizeof(r->code), r);
    } else if (is_at(r, 2, "Error", "Message")) {
        keep(r->message, sizeof(r->message), r);
    }
    r->depth--;
    r->n_value = 0;
    r->value[0] = '\0';
}

static void on_doctype(void *user, const XML_Char *name, const XML_Char *system,
                       const XML_Char *public_id, int internal) {
    (void)name, (void)system, (void)public_id, (void)internal;
    reader *r = user;
    stop(r, iter__fail(r->err, ITER_EFORMAT, "a document type declaration"));
}

static iter_status parse(reader *r, const char *xml, size_t n) {
    r->parser = XML_ParserCreate_MM(NULL, &memory, NULL);
    if (!r->parser) return iter__fail(r->err, ITER_ENOMEM, "no memory to read an answer");
    XML_SetUserData(r->parser, r);
    XML_SetElementHandler(r->parser, on_start, on_end);
    XML_SetCharacterDataHandler(r->parser, on_text);
    XML_SetStartDoctypeDeclHandler(r->parser, on_doctype);
    const enum XML_Status parsed =
        n > INT_MAX ? XML_STATUS_ERROR : XML_Parse(r->parser, xml, (int)n, XML_TRUE);
    const enum XML_Error why = XML_GetErrorCode(r->parser);
    if (parsed != XML_STATUS_OK && r->status == ITER_OK) {
        r->status = why == XML_ERROR_NO_MEMORY
                        ? iter__fail(r->err, ITER_ENOMEM, "no memory to read an answer")
                        : iter__fail(r->err, ITER_EFORMAT, "line %lu: %s",
                                     (unsigned long)XML_GetCurrentLineNumber(r->parser),
                                     XML_ErrorString(why));
    }
    XML_ParserFree(r->parser);
    return r->status;
}

iter_status iter__s3_list_parse(const char *xml, size_t n, iter__s3_visit *visit_one, void *user,
                                char **out_next, iter_error *err) {
    *out_next = NULL;
    reader *r = iter__alloc(1, sizeof(*r));
    if (!r) return iter__fail(err, ITER_ENOMEM, "no memory to read a list");
    r->visit = visit_one;
    r->user = user;
    r->err = err;
    /* Looked for beforehand: some services name it after the keys. No key has a '<'. */
    const char *const encoded = "<EncodingType>url</EncodingType>";
    r->is_encoded = memmem(xml, n, encoded, strlen(encoded)) != NULL;
    iter_status status = parse(r, xml, n);
    if (status == ITER_OK && !r->is_list)
        status = iter__fail(err, ITER_EFORMAT, "the answer is no list of objects");
    if (status == ITER_OK && r->truncated && !r->next[0])
        status = iter__fail(err, ITER_EFORMAT, "the list goes on, but does not say where");
    if (status == ITER_OK && r->truncated) {
        *out_next = iter__strdup(r->next);
        if (!*out_next) status = iter__fail(err, ITER_ENOMEM, "no memory to read a list");
    }
    iter__free(r);
    return status;
}

iter_status iter__s3_upload_parse(const char *xml, size_t n, char **out, iter_error *err) {
    *out = NULL;
    reader *r = iter__alloc(1, sizeof(*r));
    if (!r) return iter__fail(err, ITER_ENOMEM, "no memory to read an answer");
    r->err = err;
    iter_status status = parse(r, xml, n);
    if (status == ITER_OK && !r->upload[0])
        status = iter__fail(err, ITER_EFORMAT, "the answer has no id of an upload");
    if (status == ITER_OK) {
        *out = iter__strdup(r->upload);
        if (!*out) status = iter__fail(err, ITER_ENOMEM, "no memory to read an answer");
    }
    iter__free(r);
    return status;
}

/* Errors of the service itself, rather than of what it was asked. */
static bool passes(const char *code) {
    static const char *const codes[] = {"InternalError", "ServiceUnavailable", "SlowDown",
                                        "OperationAborted", "RequestTimeout"};
    for (size_t i = 0; i < sizeof(codes) / sizeof(codes[0]); i++) {
        if (strcmp(code, codes[i]) == 0) return true;
    }
    return false;
}

iter_status iter__s3_complete_parse(const char *xml, size_t n, bool *out_passes, iter_error *err) {
    *out_passes = false;
    reader *r = iter__alloc(1, sizeof(*r));
    if (!r) return iter__fail(err, ITER_ENOMEM, "no memory to read an answer");
    r->err = err;
    iter_status status = parse(r, xml, n);
    if (status == ITER_OK && r->code[0]) {
        *out_passes = passes(r->code);
        status = iter__fail(err, ITER_EIO, "%s: %s", r->code, r->message);
    } else if (status == ITER_OK && !r->is_complete) {
        status = iter__fail(err, ITER_EFORMAT, "the answer does not say that it is complete");
    }
    iter__free(r);
    return status;
}

void iter__s3_error_parse(const char *xml, size_t n, char *out, size_t capacity) {
    out[0] = '\0';
    reader *r = iter__alloc(1, sizeof(*r));
    if (!r) return;
    (void)parse(r, xml, n);
    if (r->code[0] || r->message[0])
        (void)snprintf(out, capacity, "%s%s%s", r->code, r->code[0] && r->message[0] ? ": " : "",
                       r->message);
    iter__free(r);
}

#endif

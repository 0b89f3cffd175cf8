/*
 * fuzz_remote_xml.c - any bytes as what a store or a service of keys answers.
 *
 * Input: the answer. Property: a list parses, or fails with EFORMAT and a reason; each entry has a
 * name, and a folder's ends with '/'. An error's words fit their place. An upload has an id that is
 * not empty, and it is complete, or not with a reason; no answer is both. Keys that are read are
 * not empty.
 */
#include <string.h>

#include "iter/core/alloc.h"
#include "iter/remote/credentials.h"
#include "iter/remote/s3_xml.h"
#include "tests/support/fuzz_format.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static iter_status see(void *user, const iter__s3_entry *entry, iter_error *err) {
    uint64_t *n = user;
    const size_t length = strlen(entry->key);
    (void)err;
    FUZZ_REQUIRE(length > 0 && entry->bytes <= INT64_MAX);
    FUZZ_REQUIRE(!entry->is_folder || (entry->etag[0] == '\0' && entry->bytes == 0));
    (*n)++;
    return ITER_OK;
}

static void see_upload(const char *xml, size_t size) {
    iter_error err = {.status = ITER_OK};
    char *id = NULL;
    bool passes = false;
    const iter_status begun = iter__s3_upload_parse(xml, size, &id, &err);
    FUZZ_REQUIRE(begun == ITER_OK ? id && id[0] : begun == ITER_EFORMAT && !id && err.message[0]);
    iter__free(id);
    err = (iter_error){.status = ITER_OK};
    const iter_status ended = iter__s3_complete_parse(xml, size, &passes, &err);
    FUZZ_REQUIRE(ended == ITER_OK ||
                 ((ended == ITER_EFORMAT || ended == ITER_EIO) && err.message[0]));
    FUZZ_REQUIRE(!passes || ended == ITER_EIO);
    FUZZ_REQUIRE(begun < 0 || ended < 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    uint64_t n = 0;
    see_upload((const char *)data, size);
    char *next = NULL, words[64];
    iter_error err = {.status = ITER_OK};
    const iter_status status = iter__s3_list_parse((const char *)data, size, see, &n, &next, &err);
    FUZZ_REQUIRE(status == ITER_OK || (status == ITER_EFORMAT && err.message[0]));
    FUZZ_REQUIRE(status == ITER_OK || !next);
    iter__free(next);
    iter__s3_error_parse((const char *)data, size, words, sizeof(words));
    FUZZ_REQUIRE(strlen(words) < sizeof(words));

    char *text = iter__alloc(size + 1, 1);
    iter__credentials keys;
    if (!text) return 0;
    if (size > 0) memcpy(text, data, size);
    if (iter__credentials_parse(text, &keys)) FUZZ_REQUIRE(keys.access_key[0] && keys.secret[0]);
    iter__free(text);
    return 0;
}

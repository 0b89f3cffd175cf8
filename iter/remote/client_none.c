/* client_none.c - the calls of client.h and upload.h in a build without libcurl: each says so. */
#include "iter/remote/client.h"
#include "iter/remote/upload.h"

#ifndef ITER_HAVE_REMOTE

#include "iter/core/alloc.h"
#include "iter/core/error.h"

static iter_status absent(const char *url, iter_error *err) {
    return iter__fail(err, ITER_EUNSUPPORTED,
                      "%s: this build reads no URLs: it was made without libcurl, expat or OpenSSL",
                      url);
}

const iter_ops *iter__remote_table(void) {
    return NULL;
}

iter_status iter__remote_create(const iter__remote_options *options, iter__remote **out,
                                iter_error *err) {
    (void)options;
    *out = NULL;
    return absent("remote", err);
}

iter__remote *iter__remote_ref(iter__remote *remote) {
    return remote;
}

void iter__remote_unref(iter__remote *remote) {
    (void)remote;
}

bool iter__remote_identity(iter__remote *remote, const char *url, uint64_t out[2]) {
    (void)remote, (void)url;
    out[0] = out[1] = 0;
    return false;
}

bool iter__remote_was_used(const iter__remote *remote) {
    (void)remote;
    return false;
}

bool iter__remote_has_cache(const iter__remote *remote) {
    (void)remote;
    return false;
}

iter__remote **iter__remote_enter(iter__remote **place) {
    (void)place;
    return NULL;
}

char *iter__remote_hide(iter__remote *remote, const char *url) {
    (void)remote;
    return iter__strdup(url);
}

iter__remote *iter__remote_of(const char *path) {
    (void)path;
    return NULL;
}

void iter__remote_counts_read(iter__remote *remote, iter__remote_counts *out) {
    (void)remote;
    *out = (iter__remote_counts){0};
}

iter_status iter__remote_take(iter__remote *place, iter__remote **out, iter_error *err) {
    (void)place;
    return iter__remote_create(NULL, out, err);
}

iter_status iter__remote_each(iter__remote *remote, uint64_t n, uint32_t most,
                              iter__remote_task *task, void *user, iter_error *err) {
    (void)remote, (void)n, (void)most, (void)task, (void)user;
    return absent("remote", err);
}

void iter__remote_opened(iter__remote *remote) {
    (void)remote;
}

void iter__remote_look_ahead(iter__remote *remote, const char *const *urls, uint64_t n) {
    (void)remote, (void)urls, (void)n;
}

void iter__remote_saw(iter__remote *remote, const char *url, uint64_t bytes) {
    (void)remote, (void)url, (void)bytes;
}

void iter__remote_list_ahead(iter__remote *remote, const char *const *urls, uint64_t n) {
    (void)remote, (void)urls, (void)n;
}

iter_status iter__remote_look(iter__remote *remote, const char *url, iter__remote_info *out,
                              iter_error *err) {
    (void)remote;
    *out = (iter__remote_info){0};
    return absent(url, err);
}

iter_status iter__remote_list(iter__remote *remote, const char *url, iter__remote_visit *visit,
                              void *user, iter_error *err) {
    (void)remote, (void)visit, (void)user;
    return absent(url, err);
}

iter_status iter__remote_read(iter__remote *remote, const char *url, uint64_t offset, void *out,
                              size_t n, size_t *out_done, iter_error *err) {
    (void)remote, (void)offset, (void)out, (void)n;
    *out_done = 0;
    return absent(url, err);
}

iter_status iter__remote_file_open(iter__remote *remote, const char *url, iter__remote_file **out,
                                   iter__remote_info *out_info, iter_error *err) {
    (void)remote, (void)out_info;
    *out = NULL;
    return absent(url, err);
}

iter_status iter__remote_file_read(iter__remote_file *file, uint64_t offset, void *out, size_t n,
                                   size_t *out_done, iter_error *err) {
    (void)file, (void)offset, (void)out, (void)n;
    *out_done = 0;
    return absent("remote", err);
}

void iter__remote_file_close(iter__remote_file *file) {
    (void)file;
}

int iter__remote_kept_open(iter__remote *remote, const char *url, uint64_t what,
                           uint64_t *out_bytes) {
    (void)remote, (void)url, (void)what;
    *out_bytes = 0;
    return -1;
}

iter__remote_keeping *iter__remote_keep_begin(iter__remote *remote, const char *url, uint64_t what,
                                              uint64_t bytes, int *out_fd) {
    (void)remote, (void)url, (void)what, (void)bytes;
    *out_fd = -1;
    return NULL;
}

void iter__remote_keep_end(iter__remote_keeping *keeping, bool is_complete) {
    (void)keeping, (void)is_complete;
}

iter_status iter__upload_check(const char *url, iter_error *err) {
    return absent(url, err);
}

iter_status iter__upload_open(iter__remote *remote, const char *url,
                              const iter__upload_options *options, iter__upload **out,
                              iter_error *err) {
    (void)remote, (void)options;
    *out = NULL;
    return absent(url, err);
}

iter_status iter__upload_write(iter__upload *upload, const void *bytes, size_t n, iter_error *err) {
    (void)upload, (void)bytes, (void)n;
    return absent("remote", err);
}

iter_status iter__upload_finish(iter__upload *upload, iter_error *err) {
    (void)upload;
    return absent("remote", err);
}

iter_status iter__upload_close(iter__upload *upload, iter_status status, iter_error *err) {
    (void)upload, (void)err;
    return status;
}

#endif

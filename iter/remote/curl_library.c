/*
 * curl_library.c - see curl_library.h.
 *
 * libcurl's ABI has been the same since 7.16 (2006), and the library's name is libcurl.so.4. On
 * Debian there may be a second one, over GnuTLS, or that one alone. The library is never closed,
 * because TLS libraries have exit handlers, and unloading them crashes.
 */
#define CURL_DISABLE_DEPRECATION /* options of old versions, for machines that have one */
#include "iter/remote/curl_library.h"

#ifdef ITER_HAVE_REMOTE

#include <dlfcn.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "iter/core/error.h"
#include "iter/remote/gate.h"

#ifdef ITER_CURL_AT_RUN_TIME

#define INSTALL                                                                        \
    "please install libcurl 7.68 or newer (libcurl4 of Debian and Ubuntu, libcurl of " \
    "Fedora and RHEL)"

typedef struct entry {
    const char *symbol;
    size_t offset;
} entry;

static const entry entries[] = {
#define ITER_X(name) {"curl_" #name, offsetof(iter__curl_calls, name)},
    ITER_CURL_CALLS(ITER_X)
#undef ITER_X
};

iter__curl_calls iter__curl;

/* Checks the version first, before functions that an old library does not have. */
static iter_status check_version(void *library, const char *name, iter_error *err) {
    __typeof__(((iter__curl_calls *)0)->version_info) version_info;
    void *symbol = dlsym(library, "curl_version_info");
    if (symbol == NULL)
        return iter__fail(err, ITER_EUNSUPPORTED,
                          "URLs cannot be read: %s is not libcurl: it has no curl_version_info",
                          name);
    memcpy(&version_info, &symbol, sizeof(symbol));
    const curl_version_info_data *info = version_info(CURLVERSION_FIRST);
    if (info->version_num >= ITER_CURL_MIN_VERSION) return ITER_OK;
    return iter__fail(err, ITER_EUNSUPPORTED,
                      "URLs cannot be read: %s is too old, version %s; " INSTALL, name,
                      info->version);
}

static iter_status fill(void *library, const char *name, iter__curl_calls *out, iter_error *err) {
    for (size_t i = 0; i < sizeof(entries) / sizeof(entries[0]); i++) {
        void *symbol = dlsym(library, entries[i].symbol);
        if (symbol == NULL)
            return iter__fail(err, ITER_EUNSUPPORTED, "URLs cannot be read: %s has no %s", name,
                              entries[i].symbol);
        memcpy((char *)out + entries[i].offset, &symbol, sizeof(symbol));
    }
    return ITER_OK;
}

iter_status iter__curl_open(const char *const *names, iter__curl_calls *out, iter_error *err) {
    char why[200] = "";
    for (const char *const *name = names; *name; name++) {
        void *library = dlopen(*name, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
        if (library) {
            ITER_TRY(check_version(library, *name, err));
            return fill(library, *name, out, err);
        }
        const char *reason = dlerror(); /* NOLINT(concurrency-mt-unsafe): glibc's is per thread */
        if (!why[0]) (void)snprintf(why, sizeof(why), "%s", reason ? reason : *name);
    }
    return iter__fail(err, ITER_EUNSUPPORTED,
                      "URLs cannot be read, because there is no libcurl (%s); " INSTALL, why);
}

static iter_status open_library(iter_error *err) {
    static const char *const names[] = {"libcurl.so.4", "libcurl-gnutls.so.4", NULL};
    return iter__curl_open(names, &iter__curl, err);
}

#else

static iter_status open_library(iter_error *err) {
    (void)err;
    return ITER_OK; /* it is linked */
}

#endif

static pthread_once_t once = PTHREAD_ONCE_INIT;
static iter_error failure = {.status = ITER_OK};

static void start(void) {
    if (open_library(&failure) < 0) return;
    iter__gate_hook();
    iter__gate_enter();
    const CURLcode code = curl_global_init(CURL_GLOBAL_DEFAULT);
    iter__gate_leave();
    if (code != CURLE_OK)
        (void)iter__fail(&failure, ITER_EUNSUPPORTED,
                         "URLs cannot be read: libcurl does not start: %s",
                         curl_easy_strerror(code));
}

iter_status iter__curl_start(iter_error *err) {
    (void)pthread_once(&once, start);
    if (failure.status == ITER_OK) return ITER_OK;
    return iter__fail(err, failure.status, "%s", failure.message);
}

/* Options by name came with 7.85. The machine's library may be older than the header. */
void iter__curl_allow(CURL *easy, bool redirects, bool https_only) {
#if LIBCURL_VERSION_NUM >= 0x075500
    const CURLoption by_name = redirects ? CURLOPT_REDIR_PROTOCOLS_STR : CURLOPT_PROTOCOLS_STR;
    const char *names = https_only ? "https" : "http,https";
    if (curl_easy_setopt(easy, by_name, names) != CURLE_UNKNOWN_OPTION) return;
#endif
    const long bits = https_only ? CURLPROTO_HTTPS : CURLPROTO_HTTP | CURLPROTO_HTTPS;
    curl_easy_setopt(easy, redirects ? CURLOPT_REDIR_PROTOCOLS : CURLOPT_PROTOCOLS, bits);
}

#endif

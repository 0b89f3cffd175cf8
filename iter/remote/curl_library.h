/*
 * curl_library.h - libcurl, linked or opened at run time.
 *
 * A Python wheel cannot link libcurl: a static one needs libraries that exist only as shared ones,
 * and it would not know where the machine keeps its certificates. If ITER_CURL_AT_RUN_TIME is
 * defined, the machine's own libcurl is opened by iter__curl_start(), and the names of libcurl's
 * functions below are pointers in a table. Otherwise they are plain calls.
 *
 * This header takes the place of <curl/curl.h>.
 */
#ifndef ITER_REMOTE_CURL_LIBRARY_H
#define ITER_REMOTE_CURL_LIBRARY_H

#include <iter/status.h>

#ifdef ITER_HAVE_REMOTE

#include <curl/curl.h>
#include <stdbool.h>

/* Opens libcurl if it is not linked, and initialises it. It stays open. Any thread, any number of
 * times: the first call does the work, and all others return what it returned. Errors: EUNSUPPORTED
 * (there is no libcurl, or it is too old, or it does not start; the message says which). */
iter_status iter__curl_start(iter_error *err);

/* Allows http and https, or https alone, for what a handle asks; or for where a server may send it
 * on to, if `redirects`. */
void iter__curl_allow(CURL *easy, bool redirects, bool https_only);

#ifdef ITER_CURL_AT_RUN_TIME

#define ITER_CURL_MIN_VERSION 0x074400 /* 7.68.0, the first with curl_multi_wakeup() */

/* All functions that we call: X(name without "curl_"). */
#define ITER_CURL_CALLS(X) \
    X(easy_cleanup)        \
    X(easy_getinfo)        \
    X(easy_init)           \
    X(easy_perform)        \
    X(easy_reset)          \
    X(easy_setopt)         \
    X(easy_strerror)       \
    X(getdate)             \
    X(global_init)         \
    X(multi_add_handle)    \
    X(multi_cleanup)       \
    X(multi_info_read)     \
    X(multi_init)          \
    X(multi_perform)       \
    X(multi_poll)          \
    X(multi_remove_handle) \
    X(multi_setopt)        \
    X(multi_wakeup)        \
    X(slist_append)        \
    X(slist_free_all)      \
    X(version_info)

/* Their types are those of libcurl's header. */
typedef struct iter__curl_calls {
#define ITER_X(name) __typeof__(curl_##name) *name;
    ITER_CURL_CALLS(ITER_X)
#undef ITER_X
} iter__curl_calls;

/* Filled by iter__curl_start(), and not changed afterwards. */
extern iter__curl_calls iter__curl;

/* Opens the first of `names` that the machine has, checks its version and fills *out. `names` ends
 * with NULL and has one name at least. Errors: EUNSUPPORTED. */
iter_status iter__curl_open(const char *const *names, iter__curl_calls *out, iter_error *err);

/* libcurl's header has macros of these names, which check arguments. They check in other builds. */
#undef curl_easy_getinfo
#undef curl_easy_setopt
#undef curl_multi_setopt

#define curl_easy_cleanup        iter__curl.easy_cleanup
#define curl_easy_getinfo        iter__curl.easy_getinfo
#define curl_easy_init           iter__curl.easy_init
#define curl_easy_perform        iter__curl.easy_perform
#define curl_easy_reset          iter__curl.easy_reset
#define curl_easy_setopt         iter__curl.easy_setopt
#define curl_easy_strerror       iter__curl.easy_strerror
#define curl_getdate             iter__curl.getdate
#define curl_global_init         iter__curl.global_init
#define curl_multi_add_handle    iter__curl.multi_add_handle
#define curl_multi_cleanup       iter__curl.multi_cleanup
#define curl_multi_info_read     iter__curl.multi_info_read
#define curl_multi_init          iter__curl.multi_init
#define curl_multi_perform       iter__curl.multi_perform
#define curl_multi_poll          iter__curl.multi_poll
#define curl_multi_remove_handle iter__curl.multi_remove_handle
#define curl_multi_setopt        iter__curl.multi_setopt
#define curl_multi_wakeup        iter__curl.multi_wakeup
#define curl_slist_append        iter__curl.slist_append
#define curl_slist_free_all      iter__curl.slist_free_all
#define curl_version_info        iter__curl.version_info

#endif
#endif
#endif

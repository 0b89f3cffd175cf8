/* test_curl_library.c - opening libcurl at run time: the machine's own, and ones that will not do
 * (tests/fake/fake_curl_*.c). */
#include <criterion/criterion.h>
#include <stdarg.h>
#include <string.h>

#include "iter/remote/curl_library.h"

TestSuite(curl_library);

/* Opens what is named; the error's text, or NULL. */
static const char *refusal(const char *first, const char *second) {
    static iter_error err;
    iter__curl_calls calls;
    const char *const names[] = {first, second, NULL};
    err = (iter_error){.status = ITER_OK};
    const iter_status status = iter__curl_open(names, &calls, &err);
    cr_assert_eq(status, err.status);
    cr_assert(status == ITER_OK || status == ITER_EUNSUPPORTED);
    return status == ITER_OK ? NULL : err.message;
}

static void expect_words(const char *text, const char *const *words) {
    cr_assert_not_null(text);
    for (; *words; words++)
        cr_expect_not_null(strstr(text, *words), "'%s' lacks '%s'", text, *words);
}

Test(curl_library, absent) {
    expect_words(refusal("libcurl-absent.so.4", "libcurl-absent-too.so.4"),
                 (const char *const[]){"there is no libcurl", "libcurl-absent.so.4",
                                       "please install", "libcurl4", "Debian", "Fedora", NULL});
}

Test(curl_library, too_old) {
    expect_words(refusal("libcurl-old.so.4", NULL),
                 (const char *const[]){"libcurl-old.so.4", "too old", "7.61.1", "7.68", NULL});
}

Test(curl_library, lacks_a_function) {
    expect_words(refusal("libcurl-bare.so.4", NULL),
                 (const char *const[]){"libcurl-bare.so.4 has no curl_", NULL});
}

Test(curl_library, another_library) {
    expect_words(refusal("libm.so.6", NULL),
                 (const char *const[]){"libm.so.6 is not libcurl", NULL});
}

Test(curl_library, the_second_name) {
    iter__curl_calls calls;
    const char *const names[] = {"libcurl-absent.so.4", "libcurl.so.4", "libcurl-old.so.4", NULL};
    if (iter__curl_open(names, &calls, NULL) < 0) cr_skip_test("there is no libcurl.so.4");
    cr_expect_str_eq(calls.easy_strerror(CURLE_OK), "No error");
}

Test(curl_library, started_by_many_calls) {
    iter_error err = {.status = ITER_OK};
    cr_assert_eq(iter__curl_start(&err), ITER_OK, "%s", err.message);
    cr_assert_eq(iter__curl_start(NULL), ITER_OK);
    CURL *easy = curl_easy_init();
    cr_assert_not_null(easy);
    curl_easy_cleanup(easy);
}

/* ---- Options that came with 7.85 ------------------------------------------------------------- */

#define PROTOCOLS           181 /* CURLOPT_PROTOCOLS of libcurl's ABI, and so on */
#define REDIR_PROTOCOLS     182
#define PROTOCOLS_STR       10318
#define REDIR_PROTOCOLS_STR 10319

static long option, bits;
static char names[32];

static CURLcode setopt_of_781(CURL *easy, CURLoption given, ...) {
    va_list rest;
    (void)easy;
    if (given != PROTOCOLS && given != REDIR_PROTOCOLS) return CURLE_UNKNOWN_OPTION;
    option = given;
    va_start(rest, given);
    bits = va_arg(rest, long);
    va_end(rest);
    return CURLE_OK;
}

static CURLcode setopt_of_785(CURL *easy, CURLoption given, ...) {
    va_list rest;
    (void)easy;
    if (given != PROTOCOLS_STR && given != REDIR_PROTOCOLS_STR) return CURLE_UNKNOWN_OPTION;
    option = given;
    va_start(rest, given);
    strcpy(names, va_arg(rest, const char *));
    va_end(rest);
    return CURLE_OK;
}

Test(curl_library, protocols_of_old_versions) {
    iter__curl.easy_setopt = setopt_of_781;
    iter__curl_allow(NULL, false, false);
    cr_expect(option == PROTOCOLS && bits == 3); /* http is 1, https is 2 */
    iter__curl_allow(NULL, true, true);
    cr_expect(option == REDIR_PROTOCOLS && bits == 2);
}

Test(curl_library, protocols_of_new_versions) {
    if (LIBCURL_VERSION_NUM < 0x075500) cr_skip_test("the header is older than 7.85");
    iter__curl.easy_setopt = setopt_of_785;
    iter__curl_allow(NULL, false, false);
    cr_expect(option == PROTOCOLS_STR && strcmp(names, "http,https") == 0);
    iter__curl_allow(NULL, true, true);
    cr_expect(option == REDIR_PROTOCOLS_STR && strcmp(names, "https") == 0);
}

/* test_status.c - texts of unknown origin made safe to print, and messages that contain no
 * others. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <iter/iter.h>

#include "iter/core/error.h"
#include "tests/support/drive.h"
#include "tests/support/make_data.h"

TestSuite(status, .timeout = 30);

Test(status, what_is_escaped) {
    static const char *const cases[][2] = {
        {"", ""},
        {"plain/name-1.jpg", "plain/name-1.jpg"},
        {"back\\slash \"quoted\"", "back\\slash \"quoted\""},
        {"\x1b[31mred\x1b[0m", "\\x1b[31mred\\x1b[0m"},
        {"a\nb\rc\td", "a\\nb\\rc\\td"},
        {"\x01\x7f\x1f", "\\x01\\x7f\\x1f"},
        {"\xc2\x9b"
         "31m",
         "\\xc2\\x9b31m"}, /* CSI as one character */
        {"\xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80", "\xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80"},
        {"caf\xe9", "caf\\xe9"}, /* Latin-1 */
        {"\x9b", "\\x9b"},
        {"\xc0\x9b \xe0\x80\x9b", "\\xc0\\x9b \\xe0\\x80\\x9b"}, /* overlong */
        {"\xed\xa0\x80", "\\xed\\xa0\\x80"},                     /* a surrogate */
        {"\xf4\x90\x80\x80", "\\xf4\\x90\\x80\\x80"},            /* beyond Unicode */
        {"\xe2\x82", "\\xe2\\x82"},                              /* cut */
        {"gpj.\xe2\x80\xae.exe", "gpj.\\xe2\\x80\\xae.exe"},     /* reverses the text after it */
        {"a\xe2\x80\xa8"
         "b",
         "a\\xe2\\x80\\xa8b"}, /* a line separator */
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char out[128], twice[128];
        cr_assert_eq(iter_text_escape(cases[i][0], out, sizeof(out)), out);
        cr_expect_str_eq(out, cases[i][1]);
        cr_expect_str_eq(iter_text_escape(out, twice, sizeof(twice)), out);
    }
}

Test(status, what_does_not_fit_is_cut_between_characters) {
    static const struct {
        const char *text;
        size_t capacity;
        const char *want;
    } cases[] = {
        {"abcdef", 7, "abcdef"},
        {"abcdef", 6, "ab..."},
        {"abcdef", 4, "..."},
        {"abcdef", 3, ".."},
        {"abcdef", 1, ""},
        {"\x1b\x1b", 9, "\\x1b\\x1b"},
        {"\x1b\x1b", 8, "\\x1b..."},
        {"\x1b\x1b", 7, "..."},
        {"\xc3\xa9\xc3\xa9", 5, "\xc3\xa9\xc3\xa9"},
        {"\xc3\xa9\xc3\xa9\xc3\xa9", 6, "\xc3\xa9..."},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        /* of the exact size, so that a sanitizer sees a byte too far */
        char *out = malloc(cases[i].capacity);
        cr_expect_str_eq(iter_text_escape(cases[i].text, out, cases[i].capacity), cases[i].want,
                         "%s in %zu", cases[i].text, cases[i].capacity);
        free(out);
    }
    char untouched = 'x';
    iter_text_escape("abc", &untouched, 0);
    cr_expect_eq(untouched, 'x');
}

/* For any bytes: the output has nothing that a terminal obeys, and escaping it again changes
 * nothing. */
Test(status, any_bytes) {
    uint64_t seed = 1;
    for (int round = 0; round < 20000; round++) {
        char text[40], out[200], twice[200];
        seed = seed * 6364136223846793005u + 1442695040888963407u;
        const size_t n = (size_t)(seed >> 33) % (sizeof(text) - 1), capacity = (seed >> 40) % 200;
        for (size_t i = 0; i < n; i++) {
            seed = seed * 6364136223846793005u + 1442695040888963407u;
            text[i] = (char)(seed >> 56 ? seed >> 56 : 1);
        }
        text[n] = '\0';
        iter_text_escape(text, out, capacity);
        if (capacity == 0) continue;
        cr_assert_lt(strlen(out), capacity);
        for (const unsigned char *p = (const unsigned char *)out; *p; p++)
            cr_assert(*p >= 0x20 && *p != 0x7f);
        cr_assert_str_eq(iter_text_escape(out, twice, capacity), out);
    }
}

Test(status, messages_hold_no_control_characters) {
    iter_error err = {0};
    iter__fail(&err, ITER_EIO, "%s: is missing", "a\x1b]0;owned\x07.jpg");
    cr_expect_str_eq(err.message, "a\\x1b]0;owned\\x07.jpg: is missing");
    iter__fail_in(&err, ITER_EIO, "%s", "b\n.lst");
    cr_expect_str_eq(err.message, "b\\n.lst: a\\x1b]0;owned\\x07.jpg: is missing");
    snprintf(err.message, sizeof(err.message), "a plugin's own \x1b[2J");
    iter__error_settle(&err, ITER_EIO, "plugin");
    cr_expect_str_eq(err.message, "a plugin's own \\x1b[2J");
    char longest[600];
    memset(longest, '\x1b', sizeof(longest) - 1);
    longest[sizeof(longest) - 1] = '\0';
    iter__fail(&err, ITER_EIO, "%s", longest);
    cr_expect_lt(strlen(err.message), sizeof(err.message));
    cr_expect_str_eq(err.message + strlen(err.message) - 7, "\\x1b...");
}

/* A file name that attacks the terminal: in the error, the failed sample, the warning, the
 * stall. */
Test(status, names_of_files_come_escaped) {
    char folder[MAKE_PATH_MAX], spec[MAKE_PATH_MAX + 64];
    iter_error err = {0};
    iter_dataset *dataset;
    iter_batch *batch;
    iter_failure failure;
    make_folder(folder);
    make_subfolder(folder, "a");
    make_file(folder, "a/\x1b[31m\n.jpg", "x", 1);
    snprintf(spec, sizeof(spec), "folder:%s", folder);
    cr_assert_eq(iter_dataset_open(spec, NULL, &dataset, &err), ITER_OK, "%s", err.message);
    iter_sample *sample;
    cr_assert_eq(iter_dataset_read(dataset, 0, NULL, &sample, &err), ITER_EFORMAT);
    cr_expect(strstr(err.message, "a/\\x1b[31m\\n.jpg:0): not a JPEG"), "%s", err.message);
    iter_chain *chain = drive_chain("resize:2");
    iter_loader_options opt = ITER_LOADER_OPTIONS_INIT;
    opt.faults.on_error = ITER_ON_ERROR_BLANK;
    opt.batch_size = 1;
    iter_loader *loader = drive_loader(dataset, chain, &opt);
    cr_assert_eq(iter_loader_next(loader, &batch, &err), ITER_OK, "%s", err.message);
    cr_assert_eq(iter_loader_failures(loader, &failure, 1), 1);
    cr_expect(strstr(failure.message, "a/\\x1b[31m\\n.jpg:0): not a JPEG"), "%s", failure.message);
    iter_batch_unref(batch);
    iter_loader_unref(loader);
    iter_chain_unref(chain);
    iter_dataset_unref(dataset);
    make_file(folder, "x.lst", "0\t1\x1b[2J\ta.jpg\n", 15);
    snprintf(spec, sizeof(spec), "folder:%s/x.lst?label-width=1&label-names=no", folder);
    cr_assert_lt(iter_dataset_open(spec, NULL, &dataset, &err), 0);
    cr_expect_null(strchr(err.message, '\x1b'), "%s", err.message);
    make_folder_gone(folder);
}

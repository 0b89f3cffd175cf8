/*
 * test_bench_failures.c - bench/report/bench_failures.c: which messages count as one reason, and
 * the texts in the list.
 */
#include <criterion/criterion.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bench/report/bench_failures.h"

TestSuite(bench_failures, .timeout = 60);

static iter_failure failure(uint64_t index, const char *message) {
    iter_failure f = {.epoch = 1, .position = 10 * index, .index = index, .status = ITER_EFORMAT};
    snprintf(f.message, sizeof(f.message), "%s", message);
    return f;
}

Test(bench_failures, reasons_leave_out_sample_file_and_numbers) {
    const iter_failure list[] = {
        failure(1, "image: sample 1 (a/12.jpg:0): the file is empty"),
        failure(2, "image: sample 2 (a/b): c/3.jpg:0): the data end early, after 700 bytes"),
        failure(3, "image: sample 3 (x.rec:4711): the data end early, after 12 bytes"),
        failure(4, "image: sample 4 (y.jpg:0): the data end early, after 3 bytes"),
        failure(5, "get: sample 5: no luck: 0x1f2e is odd"),
        failure(6, "something else altogether"),
    };
    bench_reason reasons[BENCH_REASONS_MAX];
    cr_assert_eq(bench_failure_reasons(list, 6, reasons), 5);
    cr_assert_str_eq(reasons[0].text, "image: the data end early, after # bytes");
    cr_assert_eq(reasons[0].count, 2);
    /* If a name contains "): ", it is cut too early: its rest counts as a reason of its own. */
    cr_assert_str_eq(reasons[1].text, "get: no luck: # is odd");
    cr_assert_str_eq(reasons[2].text, "image: c/#.jpg:#): the data end early, after # bytes");
    cr_assert_str_eq(reasons[3].text, "image: the file is empty");
    cr_assert_str_eq(reasons[4].text, "something else altogether");
    cr_assert_eq(bench_failure_reasons(list, 0, reasons), 0);
}

Test(bench_failures, each_sample_counts_once) {
    iter_failure list[] = {failure(3, "a"), failure(1, "b"), failure(3, "c"), failure(2, "d"),
                           failure(1, "e")};
    cr_assert_eq(bench_failures_once(list, 5), 3);
    cr_assert_str_eq(list[0].message, "a");
    cr_assert_str_eq(list[1].message, "b");
    cr_assert_str_eq(list[2].message, "d");
    cr_assert_eq(bench_failures_once(list, 0), 0);
}

Test(bench_failures, more_reasons_than_places_are_other) {
    static iter_failure list[400];
    bench_reason reasons[BENCH_REASONS_MAX];
    size_t sum = 0;
    for (int i = 0; i < 400; i++) {
        char message[200];
        memset(message, 'a', sizeof(message)); /* longer than a reason may be */
        message[0] = (char)('a' + i % 20);
        message[sizeof(message) - 1] = '\0';
        list[i] = failure((uint64_t)i, message);
    }
    const size_t n = bench_failure_reasons(list, 400, reasons);
    cr_assert_eq(n, BENCH_REASONS_MAX);
    for (size_t i = 0; i < n; i++)
        sum += reasons[i].count;
    cr_assert_eq(sum, 400);
    cr_assert_str_eq(reasons[n - 1].text, "other");
    cr_assert_eq(reasons[n - 1].count, 100);
    cr_assert_eq(strlen(reasons[0].text), BENCH_REASON_MAX - 1);
}

Test(bench_failures, list_has_each_sample_once_in_order) {
    const iter_failure list[] = {failure(7, "one\tof\nthem"), failure(3, "b"), failure(7, "again"),
                                 failure(5, "c"), failure(3, "again")};
    char path[] = "/tmp/iter-failures-XXXXXX", text[512];
    const int fd = mkstemp(path);
    iter_error err;
    cr_assert(fd >= 0);
    cr_assert_eq(bench_failures_write(path, list, 5, &err), ITER_OK);
    const ssize_t n = read(fd, text, sizeof(text) - 1);
    text[n > 0 ? n : 0] = '\0';
    close(fd);
    unlink(path);
    cr_assert_str_eq(text, "epoch\tposition\tsample\tstatus\tmessage\n"
                           "1\t70\t7\tmalformed or truncated data\tone\\tof\\nthem\n"
                           "1\t30\t3\tmalformed or truncated data\tb\n"
                           "1\t50\t5\tmalformed or truncated data\tc\n");
    cr_assert_eq(bench_failures_write("/nowhere/at/all", list, 5, &err), ITER_EIO);
    cr_assert(strstr(err.message, "/nowhere/at/all") != NULL);
}

/* test_bench_words.c - diagnose/words.c: numbers with units that fit, and what an interval
 * allows to state. */
#include <criterion/criterion.h>

#include <math.h>

#include "diagnose/words.h"

TestSuite(bench_words, .timeout = 60);

Test(bench_words, numbers_have_three_digits_and_a_unit) {
    char a[WORDS_NUMBER];
    static const struct {
        double number;
        const char *count, *time, *bytes, *byte_rate;
    } cases[] = {
        {0, "0", "0 ns", "0 B", "0 B/s"},
        {7, "7", "7 ns", "7 B", "7 B/s"},
        {812, "812", "812 ns", "812 B", "812 B/s"},
        {999.6, "1.00 k", "1.00 us", "1000 B", "1.00 KB/s"},
        {1024, "1.02 k", "1.02 us", "1.00 KiB", "1.02 KB/s"},
        {46712, "46.7 k", "46.7 us", "45.6 KiB", "46.7 KB/s"},
        {1833333, "1.83 M", "1.83 ms", "1.75 MiB", "1.83 MB/s"},
        {46.7e6, "46.7 M", "46.7 ms", "44.5 MiB", "46.7 MB/s"},
        {3.214e9, "3.21 G", "3.21 s", "2.99 GiB", "3.21 GB/s"},
        {5e13, "50.0 T", "50000 s", "45.5 TiB", "50.0 TB/s"},
        {NAN, "-", "-", "-", "-"},
        {INFINITY, "-", "-", "-", "-"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        cr_expect_str_eq(words_count(cases[i].number, a), cases[i].count, "%s", a);
        cr_expect_str_eq(words_time(cases[i].number, a), cases[i].time, "%s", a);
        cr_expect_str_eq(words_bytes(cases[i].number, a), cases[i].bytes, "%s", a);
        cr_expect_str_eq(words_byte_rate(cases[i].number, a), cases[i].byte_rate, "%s", a);
    }
}

Test(bench_words, percents_and_factors) {
    char a[WORDS_NUMBER];
    cr_expect_str_eq(words_percent(0, a), "0 %");
    cr_expect_str_eq(words_percent(0.0004, a), "under 0.1 %");
    cr_expect_str_eq(words_percent(0.034, a), "3.4 %");
    cr_expect_str_eq(words_percent(-0.034, a), "-3.4 %");
    cr_expect_str_eq(words_percent(0.0994, a), "9.9 %");
    cr_expect_str_eq(words_percent(0.0996, a), "10 %");
    cr_expect_str_eq(words_percent(0.444, a), "44 %");
    cr_expect_str_eq(words_percent(1.319, a), "132 %");
    cr_expect_str_eq(words_percent(NAN, a), "-");
    cr_expect_str_eq(words_factor(1.8333, a), "1.83");
    cr_expect_str_eq(words_factor(20, a), "20.0");
    cr_expect_str_eq(words_factor(0.412, a), "0.412");
    cr_expect_str_eq(words_factor(0.9997, a), "1.00");
    cr_expect_str_eq(words_plural(1, "worker", a), "1 worker");
    cr_expect_str_eq(words_plural(12, "worker", a), "12 workers");
}

Test(bench_words, an_interval_says_on_which_side) {
    const double reference = 1;
    static const struct {
        measure_interval value;
        words_side side;
    } cases[] = {{{1.2, 1.1, 1.3, 9}, WORDS_ABOVE},      {{0.9, 0.8, 0.95, 9}, WORDS_BELOW},
                 {{1.02, 0.98, 1.06, 9}, WORDS_UNCLEAR}, {{1.2, 1, 1.3, 9}, WORDS_UNCLEAR},
                 {{0.8, 0.7, 1, 9}, WORDS_UNCLEAR},      {{2, NAN, NAN, 3}, WORDS_UNKNOWN},
                 {{NAN, NAN, NAN, 0}, WORDS_UNKNOWN}};
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        cr_expect_eq(words_side_of(&cases[i].value, reference), cases[i].side, "case %zu", i);
}

Test(bench_words, what_it_costs) {
    char out[WORDS_PHRASE];
    static const struct {
        measure_interval share;
        const char *text;
    } cases[] = {
        {{0.44, 0.4, 0.48, 9}, "costs 44 % of the time [40 %, 48 %]"},
        {{0.049, -0.46, 0.194, 9}, "costs nothing that can be measured (at most 19 % of the time)"},
        {{-0.02, -0.03, -0.01, 9}, "costs nothing"},
        {{0.44, NAN, NAN, 3}, "costs about 44 % of the time"},
        {{0.0002, NAN, NAN, 3}, "costs under 0.1 % of the time"},
        {{-0.02, NAN, NAN, 3}, "costs nothing that can be measured"},
        {{NAN, NAN, NAN, 0}, "has a cost that was not measured"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        cr_expect_str_eq(words_cost(&cases[i].share, out), cases[i].text, "%s", out);
}

Test(bench_words, what_a_change_gains) {
    char out[WORDS_PHRASE];
    static const struct {
        measure_interval ratio;
        const char *text;
    } cases[] = {
        {{1.2, 1.1, 1.3, 9}, "+20 % [+10 %, +30 %]"},
        {{0.9, 0.85, 0.95, 9}, "-10 % [-15 %, -5.0 %]"},
        {{1.03, 0.98, 1.07, 9}, "no difference that can be told [-2.0 %, +7.0 %]"},
        {{1.2, 1, 1.3, 9}, "no difference that can be told [+0 %, +30 %]"},
        {{1.2, NAN, NAN, 3}, "about +20 %"},
        {{3.68, 3.5, 3.9, 9}, "+268 % [+250 %, +290 %]"},
        {{NAN, NAN, NAN, 0}, "not measured"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        cr_expect_str_eq(words_gain(&cases[i].ratio, out), cases[i].text, "%s", out);
}

Test(bench_words, which_is_faster) {
    char out[WORDS_PHRASE];
    static const struct {
        measure_interval ratio;
        const char *text;
    } cases[] = {
        {{1.83, 1.79, 1.88, 15}, "b is 1.83 times as fast as a [1.79, 1.88]"},
        {{0.55, 0.5, 0.6, 15}, "b is 0.550 times as fast as a [0.500, 0.600]"},
        {{1.003, 0.96, 1.05, 15}, "a and b cannot be told apart: b / a is 0.960 to 1.05"},
        {{1.2, NAN, NAN, 3}, "b is about 1.20 times as fast as a"},
        {{NAN, NAN, NAN, 0}, "a and b were not compared"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        cr_expect_str_eq(words_ratio("a", "b", &cases[i].ratio, out), cases[i].text, "%s", out);
}

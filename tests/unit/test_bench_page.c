/* test_bench_page.c - bench/common/page.c: wrapping at a width, in columns and not in bytes. */
#include <criterion/criterion.h>

#include <stdlib.h>
#include <string.h>

#include "bench/common/page.h"

TestSuite(bench_page, .timeout = 60);

static char *written;
static size_t n_written;

static page begin(int columns, bool styled) {
    page p = page_of(open_memstream(&written, &n_written));
    cr_assert(!p.styled && p.columns == PAGE_COLUMNS, "a stream in memory is no terminal");
    p.columns = columns;
    p.styled = styled;
    return p;
}

static void end(const page *p, const char *want) {
    fclose(p->out);
    cr_assert_str_eq(written, want, "%s", written);
    free(written);
}

Test(bench_page, a_paragraph_is_wrapped_and_indented) {
    page p = begin(20, false);
    page_text(&p, 2, PAGE_PLAIN, "  one two three four  five six seven");
    end(&p, "  one two three four\n"
            "  five six seven\n");
}

Test(bench_page, a_row_hangs_below_its_text) {
    page p = begin(20, false);
    page_row(&p, 6, "rate", PAGE_PLAIN, "%d samples a second, more or less", 12);
    page_row(&p, 6, "a long label", PAGE_PLAIN, "text");
    page_row(&p, 6, "x", PAGE_PLAIN, "%s", "");
    end(&p, "rate  12 samples a\n"
            "      second, more\n"
            "      or less\n"
            "a long label\n"
            "      text\n"
            "x     \n");
}

Test(bench_page, a_number_keeps_its_unit) {
    page p = begin(20, false);
    page_text(&p, 0, PAGE_PLAIN, "it costs about 44 % of the time, or 1.83 M/s, after 9 rounds");
    end(&p, "it costs about 44 %\nof the time, or\n1.83 M/s, after 9\nrounds\n");
}

Test(bench_page, a_word_that_is_too_long_stands_alone) {
    page p = begin(10, false);
    page_text(&p, 0, PAGE_PLAIN, "see /a/very/long/path/to/a/file now");
    end(&p, "see\n/a/very/long/path/to/a/file\nnow\n");
}

Test(bench_page, columns_are_characters) {
    cr_assert_eq(page_width_of("µs"), 2);
    page p = begin(6, false);
    page_text(&p, 0, PAGE_PLAIN, "µµ µµµ µ");
    end(&p, "µµ µµµ\nµ\n");
}

Test(bench_page, emphasis_takes_no_columns_and_ends_with_each_line) {
    page p = begin(10, true);
    page_row(&p, 5, "ab", PAGE_GOOD, "cdefg hi");
    end(&p, "\033[1mab\033[0m   \033[32mcdefg\033[0m\n     \033[32mhi\033[0m\n");
}

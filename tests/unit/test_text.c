/* test_text.c - texts to ids against Python's, the numbers in the rule, good and broken word lists,
 * and UTF-8. */
#include <criterion/criterion.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "iter/core/alloc.h"
#include "loaders/text/text_tokens.h"
#include "loaders/text/text_utf8.h"
#include "tests/golden/text.h"

TestSuite(text, .timeout = 60);

#define N_TEXTS (sizeof(golden_texts) / sizeof(golden_texts[0]))

static const iter__text_rule everything = {0, 3, -1, 2, 0, 0, 0, 0};

static void load(iter__text *text, iter__text_rule rule, const char *json) {
    iter_error err;
    text->rule = rule;
    cr_assert_eq(iter__text_load_index(text, json, strlen(json), "index", &err), ITER_OK, "%s",
                 err.message);
}

/* Ids of a text to out[64]; returns how many. */
static int64_t ids_of(const iter__text *text, const char *bytes, int32_t *out) {
    uint8_t scratch[256];
    const iter__text_reader reader = {text, scratch, ITER_TEXT_FAST};
    int64_t n;
    iter_error err;
    cr_assert_leq(iter__text_scratch_bytes(text), sizeof(scratch));
    cr_assert_eq(iter__text_ids(&reader, (const uint8_t *)bytes, strlen(bytes), out, 64, &n, &err),
                 ITER_OK, "%s", err.message);
    return n;
}

Test(text, every_golden_text_both_ways) {
    iter__text text;
    load(&text, everything, golden_index);
    uint8_t *scratch = malloc(iter__text_scratch_bytes(&text));
    for (size_t i = 0; i < N_TEXTS; i++) {
        const struct golden_text *g = &golden_texts[i];
        for (int way = 0; way < 2; way++) {
            const iter__text_reader reader = {&text, scratch, (iter__text_way)way};
            int32_t ids[1024];
            int64_t n;
            iter_error err;
            cr_assert_eq(
                iter__text_ids(&reader, (const uint8_t *)g->text, g->size, ids, 1024, &n, &err),
                ITER_OK, "text %zu: %s", i, err.message);
            cr_assert_eq(n, g->n, "text %zu has %" PRId64 " words, not %" PRId64, i, g->n, n);
            for (int64_t k = 0; k < n; k++)
                cr_assert_eq(ids[k], g->ids[k], "text %zu, word %" PRId64, i, k);
        }
    }
    free(scratch);
    iter__vocab_free(&text.vocab);
    cr_assert_eq(iter__alloc_live(), 0);
}

/* Python's result of ids = [start] + words, then the slice and the padding. */
Test(text, numbers_of_the_rule) {
    static const char json[] = "{\"a\": 1, \"b\": 2, \"c\": 3, \"d\": 10}";
    static const struct {
        iter__text_rule rule;
        const char *text;
        int64_t n;
        int32_t ids[8];
    } cases[] = {
        {{0, 3, 1, 2, 6, 0, 0, 0}, "a B x", 6, {1, 4, 5, 2, 0, 0}},
        {{0, 3, 1, 2, 6, 0, 0, 1}, "a B x", 6, {0, 0, 1, 4, 5, 2}},
        {{0, 3, 1, 2, 3, 0, 0, 0}, "a b c", 3, {4, 5, 6}},
        {{0, 3, 1, 2, 4, 0, 0, 0}, "a b c", 4, {1, 4, 5, 6}},
        {{0, 3, 1, 2, 3, 0, 1, 0}, "a b c", 3, {1, 4, 5}},
        {{0, 3, -1, 2, 2, 0, 1, 0}, "a b c", 2, {4, 5}},
        {{0, 3, -1, 2, 2, 0, 0, 0}, "a b c", 2, {5, 6}},
        {{13, 3, -1, 7, 3, 0, 0, 0}, "a d x", 3, {4, 7, 7}},
        {{14, 3, -1, 7, 3, 0, 0, 0}, "a d x", 3, {4, 13, 7}},
        {{0, 0, -1, -1, 0, 0, 0, 0}, "x a y d z", 2, {1, 10}},
        {{0, 0, 5, 0, 0, 0, 0, 0}, "", 1, {5}},
        {{0, 0, -1, 0, 0, 0, 0, 0}, "...", 0, {0}},
        {{0, 3, 1, -1, 3, -9, 0, 1}, "x y c z", 3, {-9, 1, 6}},
        {{0, 3, 1, 2, 1, 0, 1, 0}, "a b", 1, {1}},
    };
    for (size_t c = 0; c < sizeof(cases) / sizeof(cases[0]); c++) {
        iter__text text;
        int32_t ids[64];
        load(&text, cases[c].rule, json);
        cr_assert_eq(ids_of(&text, cases[c].text, ids), cases[c].n, "case %zu", c);
        for (int64_t i = 0; i < cases[c].n; i++)
            cr_assert_eq(ids[i], cases[c].ids[i], "case %zu, id %" PRId64, c, i);
        iter__vocab_free(&text.vocab);
    }
}

Test(text, escapes_and_the_last_of_equal_keys) {
    iter__text text;
    int32_t ids[64];
    load(&text, (iter__text_rule){10, 0, -1, 0, 0, 0, 0, 0},
         " {\"\\u00e9\\u0061\" :1,\n\"\\ud83d\\ude00\":2 , \"a\":3,\"a\":4, \"b\":5, \"b\": 99,"
         "\"tab\\t\":6, \"\":7, \"q\\\"\\\\\\/\\b\\f\\n\\r\":8, \"\\u0000z\": 0}\r\n");
    const int64_t n = ids_of(&text,
                             "\xc3\x89"
                             "A \xf0\x9f\x98\x80 a b tab",
                             ids);
    const int32_t want[] = {1, 2, 4, 0, 0};
    cr_assert_eq(n, 5);
    for (int i = 0; i < 5; i++)
        cr_assert_eq(ids[i], want[i], "word %d", i);
    cr_assert_eq(iter__vocab_find(&text.vocab, (const uint8_t *)"\0z", 2), 0);
    cr_assert_eq(iter__vocab_find(&text.vocab, (const uint8_t *)"z", 1), -1);
    iter__vocab_free(&text.vocab);
}

Test(text, broken_indexes_name_the_byte) {
    static const struct {
        const char *json, *reason;
    } cases[] = {
        {"", "byte 0: the text ends here"},
        {"[1]", "byte 0: a JSON object"},
        {"{\"a\": 1", "byte 7: the text ends here"},
        {"{\"a\": 1;", "byte 7: ',' or '}' is expected"},
        {"{\"a\": 1,", "byte 8: the text ends here"},
        {"{\"a\": 1,}", "byte 8: a word in quotes"},
        {"{a: 1}", "byte 1: a word in quotes"},
        {"{\"a\" 1}", "byte 5: ':' is expected"},
        {"{\"a\": }", "byte 6: a rank must be a whole number"},
        {"{\"a\": -1}", "byte 6: a rank must be a whole number"},
        {"{\"a\": 1.5}", "byte 6: a rank must be a whole number"},
        {"{\"a\": 1e3}", "byte 6: a rank must be a whole number"},
        {"{\"a\": 01}", "byte 6: a number that begins with 0"},
        {"{\"a\": \"b\"}", "byte 6: a rank must be a whole number"},
        {"{\"a\": 99999999999999999999}", "byte 6: a rank above"},
        {"{\"a\": 1} x", "byte 9: something follows"},
        {"{\"a", "byte 1: a string that does not end"},
        {"{\"a\\", "byte 3: an escape"},
        {"{\"a\\x\": 1}", "byte 3: an escape"},
        {"{\"\\u12\": 1}", "byte 2: \\u without four hex digits"},
        {"{\"\\ud800\": 1}", "byte 2: a high surrogate without"},
        {"{\"\\ud800\\u0061\": 1}", "byte 2: a high surrogate without"},
        {"{\"\\udc00\": 1}", "byte 2: a low surrogate without"},
        {"{\"a\n\": 1}", "byte 3: a control character"},
        {"{\"a\xff\": 1}", "byte 3: invalid UTF-8"},
        {"{}", "no word that could get an id"},
        {"{\"a\": 50}", "no word that could get an id"},
        {"{\"a\": 1, \"a\": {}}", "byte 14: a rank must be"},
    };
    for (size_t c = 0; c < sizeof(cases) / sizeof(cases[0]); c++) {
        iter__text text = {.rule = {50, 3, 1, 2, 150, 0, 0, 0}};
        iter_error err = {0};
        cr_assert_eq(
            iter__text_load_index(&text, cases[c].json, strlen(cases[c].json), "w.json", &err),
            ITER_EFORMAT, "%s", cases[c].json);
        cr_assert(strstr(err.message, "w.json: "), "%s", err.message);
        cr_assert(strstr(err.message, cases[c].reason), "no \"%s\" in \"%s\"", cases[c].reason,
                  err.message);
        cr_assert_eq(iter__alloc_live(), 0, "%s", cases[c].json);
    }
}

Test(text, rank_that_no_id_can_hold) {
    iter__text text = {.rule = {0, 3, 1, 2, 150, 0, 0, 0}};
    iter_error err = {0};
    const char json[] = "{\"a\": 2147483647}";
    cr_assert_eq(iter__text_load_index(&text, json, strlen(json), "w.json", &err), ITER_EFORMAT);
    cr_assert(strstr(err.message, "rank 2147483647 makes an id above"), "%s", err.message);
}

Test(text, a_word_a_line) {
    iter__text text = {.rule = everything};
    iter_error err;
    int32_t ids[64];
    const char lines[] = "the\nand\r\n\nlast";
    cr_assert_eq(iter__text_load_list(&text, lines, strlen(lines), "list", &err), ITER_OK, "%s",
                 err.message);
    cr_assert_eq(ids_of(&text, "The and last other", ids), 4);
    const int32_t want[] = {4, 5, 7, 2};
    for (int i = 0; i < 4; i++)
        cr_assert_eq(ids[i], want[i]);
    iter__vocab_free(&text.vocab);
    cr_assert_eq(iter__text_load_list(&text, "\n\n", 2, "list", &err), ITER_EFORMAT);
    cr_assert_eq(iter__text_load_list(&text, "a\xc3", 2, "list", &err), ITER_EFORMAT);
    cr_assert(strstr(err.message, "list: byte 1: invalid UTF-8"), "%s", err.message);
}

/* Offsets equal Python's UnicodeDecodeError.start. */
Test(text, invalid_utf8_names_the_byte) {
    static const struct {
        const char *bytes;
        size_t at;
    } cases[] = {
        {"\x80", 0},
        {"ab\xc3", 2},
        {"\xc3(", 0},
        {"a\xc0\xaf", 1},
        {"\xe0\x80\x80", 0},
        {"\xed\xa0\x80", 0},
        {"\xe2\x82", 0},
        {"x\xe2\x82x", 1},
        {"\xf0\x80\x80\x80", 0},
        {"\xf4\x90\x80\x80", 0},
        {"\xf5\x80\x80\x80", 0},
        {"12345678\xff", 8},
        {"\xc3\xa9 then \xff", 8},
        {"\xf0\x9f\x98", 0},
    };
    iter__text text;
    load(&text, (iter__text_rule){0, 3, 1, 2, 2, 0, 0, 0}, "{\"a\": 1}");
    for (size_t c = 0; c < sizeof(cases) / sizeof(cases[0]); c++) {
        /* at the end, and far before the words that are kept */
        for (int front = 0; front < 2; front++) {
            char bytes[512], part[64];
            uint8_t scratch[64];
            const iter__text_reader reader = {&text, scratch, ITER_TEXT_FAST};
            int32_t ids[2];
            int64_t n;
            iter_error err = {0};
            snprintf(bytes, sizeof(bytes), "%s%*s", cases[c].bytes, front ? 400 : 0,
                     front ? " a a a" : "");
            snprintf(part, sizeof(part), "invalid UTF-8 at byte %zu (0x%02x)", cases[c].at,
                     (unsigned char)cases[c].bytes[cases[c].at]);
            for (int first = 0; first < 2; first++) {
                text.rule.keep_first = first;
                cr_assert_eq(iter__text_ids(&reader, (const uint8_t *)bytes, strlen(bytes), ids, 2,
                                            &n, &err),
                             ITER_EFORMAT, "case %zu", c);
                cr_assert_str_eq(err.message, part);
            }
        }
    }
    iter__vocab_free(&text.vocab);
}

Test(text, a_row_that_is_too_short) {
    iter__text text;
    uint8_t scratch[64];
    const iter__text_reader reader = {&text, scratch, ITER_TEXT_FAST};
    int32_t ids[4];
    int64_t n;
    iter_error err = {0};
    load(&text, everything, "{\"a\": 1}");
    cr_assert_eq(iter__text_ids(&reader, (const uint8_t *)"a a a a a", 9, ids, 4, &n, &err),
                 ITER_EFORMAT);
    cr_assert(strstr(err.message, "may have more than 4 words"), "%s", err.message);
    iter__vocab_free(&text.vocab);
}

Test(text, vocabulary_grows_and_keeps_long_words) {
    iter__vocab vocab;
    char word[64];
    iter_error err;
    cr_assert_eq(iter__vocab_init(&vocab, 1, &err), ITER_OK);
    for (int i = 0; i < 5000; i++) { /* a third of them differs only after the first 16 bytes */
        const int n = snprintf(word, sizeof(word), i % 3 ? "%d" : "sixteen bytes are%d", i);
        cr_assert_eq(iter__vocab_put(&vocab, (const uint8_t *)word, (size_t)n, i, &err), ITER_OK);
    }
    cr_assert_eq(vocab.n_words, 5000);
    for (int i = 0; i < 5000; i++) {
        const int n = snprintf(word, sizeof(word), i % 3 ? "%d" : "sixteen bytes are%d", i);
        cr_assert_eq(iter__vocab_find(&vocab, (const uint8_t *)word, (size_t)n), i);
    }
    cr_assert_eq(iter__vocab_find(&vocab, (const uint8_t *)"5000", 4), -1);
    const uint64_t identity = iter__vocab_identity(&vocab);
    cr_assert_eq(iter__vocab_put(&vocab, (const uint8_t *)"17", 2, 18, &err), ITER_OK);
    cr_assert_neq(iter__vocab_identity(&vocab), identity);
    iter__vocab_free(&vocab);
    cr_assert_eq(iter__alloc_live(), 0);
}

Test(text, every_allocation_may_fail) {
    long n = 0;
    for (bool failed = true; failed; n++) {
        iter__text text = {.rule = everything};
        iter_error err = {0};
        iter__alloc_fail_after = n;
        const iter_status status =
            iter__text_load_index(&text, golden_index, strlen(golden_index), "w.json", &err);
        failed = iter__alloc_fail_after < 0;
        iter__alloc_fail_after = -1;
        cr_assert_eq(status, failed ? ITER_ENOMEM : ITER_OK);
        if (failed)
            cr_assert(strstr(err.message, "w.json: ") && strstr(err.message, "no memory"), "%s",
                      err.message);
        if (status == ITER_OK) iter__vocab_free(&text.vocab);
        cr_assert_eq(iter__alloc_live(), 0);
    }
    cr_assert_gt(n, 2);
}

Test(text, code_points_written_and_read) {
    for (uint32_t code = 1; code < 0x110000; code++) {
        uint8_t bytes[4];
        size_t n_read;
        if (code >= 0xd800 && code < 0xe000) continue;
        const size_t n = iter__utf8_put(bytes, code);
        cr_assert_eq(n, code < 0x80 ? 1 : code < 0x800 ? 2 : code < 0x10000 ? 3 : 4);
        cr_assert_eq(iter__utf8_check(bytes, n), n);
        cr_assert_eq(text_code_at(bytes, &n_read), code);
        cr_assert_eq(n_read, n);
    }
}

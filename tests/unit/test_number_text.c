/* test_number_text.c - numbers in text against strtof(), strtod() and strtoll() of the C library.
 * */
#include <criterion/criterion.h>
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <iter/rng.h>

#include "loaders/tables/number_text.h"

TestSuite(number_text, .timeout = 280);

static locale_t c_locale(void) {
    static locale_t c;
    if (!c) c = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    return c;
}

/* Reads `text`, from memory of the exact size, and a line feed; NONE if a byte is left over. */
static iter__number read(const char *text, iter_dtype dtype, void *out) {
    const size_t n = strlen(text);
    const uint8_t *after = NULL;
    uint8_t *exact = malloc(n + 1);
    memcpy(exact, text, n);
    exact[n] = '\n';
    iter__number answer = iter__number_read(exact, exact + n + 1, c_locale(), dtype, out, &after);
    if (answer == ITER_NUMBER_OK && after != exact + n) answer = ITER_NUMBER_NONE;
    free(exact);
    return answer;
}

static void expect_floats(const char *text) {
    float f = 0, want_f = strtof(text, NULL);
    double d = 0, want_d = strtod(text, NULL);
    const iter__number answer_f = read(text, ITER_F32, &f), answer_d = read(text, ITER_F64, &d);
    cr_assert_eq(answer_f, isinf(want_f) ? ITER_NUMBER_RANGE : ITER_NUMBER_OK, "%s", text);
    cr_assert_eq(answer_d, isinf(want_d) ? ITER_NUMBER_RANGE : ITER_NUMBER_OK, "%s", text);
    if (!isinf(want_f))
        cr_assert(memcmp(&f, &want_f, sizeof(f)) == 0, "%s: %a, %a", text, f, want_f);
    if (!isinf(want_d))
        cr_assert(memcmp(&d, &want_d, sizeof(d)) == 0, "%s: %a, %a", text, d, want_d);
}

Test(number_text, cases_that_are_easy_to_get_wrong) {
    static const char *const texts[] = {"0",
                                        "-0",
                                        "-0.0",
                                        "+1",
                                        ".5",
                                        "5.",
                                        "1e0",
                                        "1E+5",
                                        "12345678",
                                        "123456789",
                                        "1234567.8",
                                        "12345678.12345678",
                                        "0.1",
                                        "0.3",
                                        "1e23",
                                        "8.5e22",
                                        "9007199254740993",
                                        "9007199254740992.5",
                                        "9007199254740993.0000000000000000000000000001",
                                        "16777217",
                                        "16777217.0000001",
                                        "16777219",
                                        "1.00000005960464477539062500000000001",
                                        "1.000000059604644775390625",
                                        "1.00000017881393432617187499",
                                        "2.2250738585072011e-308",
                                        "2.2250738585072014e-308",
                                        "4.9406564584124654e-324",
                                        "2.4703282292062327e-324",
                                        "2.4703282292062328e-324",
                                        "1e-400",
                                        "1e400",
                                        "-1e400",
                                        "1.7976931348623157e308",
                                        "1.7976931348623159e308",
                                        "3.4028235e38",
                                        "3.4028236e38",
                                        "1.17549435e-38",
                                        "1.4e-45",
                                        "7e-46",
                                        "0e99999999999",
                                        "1e-99999999999",
                                        "1e99999999999",
                                        "00000000000000000000000000001.5",
                                        "0.000000000000000000000000000000015",
                                        "179769313486231580793728971405301e276",
                                        "6.0221407e+23",
                                        "7.3177701707893310e+15",
                                        "5708990770823839207320493820740630171355185152001e-3"};
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
        expect_floats(texts[i]);
}

/* Digits of any number, with a point and an exponent at any place. */
Test(number_text, random_digits) {
    iter_rng rng = iter_rng_at(iter_rng_key(7, "number_text", 0), 0, 0);
    for (int i = 0; i < 2000000; i++) {
        char text[80];
        int n = 0, digits = 1 + (int)(iter_rng_u32(&rng) % (i % 8 ? 20 : 40));
        const int point = (int)(iter_rng_u32(&rng) % (uint32_t)(digits + 2));
        if (iter_rng_u32(&rng) & 1) text[n++] = '-';
        for (int k = 0; k < digits; k++) {
            if (k == point) text[n++] = '.';
            text[n++] = (char)('0' + iter_rng_u32(&rng) % 10);
        }
        text[n] = 0;
        if (iter_rng_u32(&rng) % 4 == 0)
            snprintf(text + n, sizeof(text) - (size_t)n, "e%d",
                     (int)(iter_rng_u32(&rng) % (i % 3 ? 60 : 700)) - (i % 3 ? 30 : 350));
        expect_floats(text);
    }
}

/* The shortest text of any bits, as programs print them; and texts halfway between two floats. */
Test(number_text, random_bits) {
    iter_rng rng = iter_rng_at(iter_rng_key(8, "number_text", 0), 0, 0);
    for (int i = 0; i < 500000; i++) {
        char text[80];
        const uint64_t bits = (uint64_t)iter_rng_u32(&rng) << 32 | iter_rng_u32(&rng);
        const uint32_t low = iter_rng_u32(&rng);
        double d;
        float f, next;
        memcpy(&d, &bits, sizeof(d));
        memcpy(&f, &low, sizeof(f));
        if (isfinite(d)) {
            snprintf(text, sizeof(text), "%.17g", d);
            expect_floats(text);
        }
        if (!isfinite(f)) continue;
        snprintf(text, sizeof(text), "%.9g", (double)f);
        expect_floats(text);
        next = nextafterf(f, INFINITY);
        if (!isfinite(next)) continue;
        snprintf(text, sizeof(text), "%.*e", i % 2 ? 17 : 25, ((double)f + (double)next) / 2);
        expect_floats(text);
    }
}

Test(number_text, what_is_no_number) {
    static const char *const texts[] = {
        "",     "-",   "+",    ".",   "-.",  "e5",    "1e",       "1e+",      "1e-",
        "0x10", "1_0", "1,5",  "--1", "+-1", "1 ",    " 1",       "1.2.3",    "inf",
        "nan",  "1f",  "\x80", "/",   ":",   "1\x80", "1234567:", "12345678/"};
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        float f;
        int64_t whole;
        cr_assert_eq(read(texts[i], ITER_F32, &f), ITER_NUMBER_NONE, "'%s'", texts[i]);
        cr_assert_eq(read(texts[i], ITER_I64, &whole), ITER_NUMBER_NONE, "'%s'", texts[i]);
    }
}

/* The limits of each type, and one beyond. */
Test(number_text, integers) {
    static const struct {
        iter_dtype dtype;
        const char *least, *most, *below, *above;
    } types[] = {
        {ITER_U8, "0", "255", "-1", "256"},
        {ITER_I8, "-128", "127", "-129", "128"},
        {ITER_U16, "0", "65535", "-1", "65536"},
        {ITER_I16, "-32768", "32767", "-32769", "32768"},
        {ITER_U32, "0", "4294967295", "-1", "4294967296"},
        {ITER_I32, "-2147483648", "2147483647", "-2147483649", "2147483648"},
        {ITER_U64, "0", "18446744073709551615", "-1", "18446744073709551616"},
        {ITER_I64, "-9223372036854775808", "9223372036854775807", "-9223372036854775809",
         "9223372036854775808"},
    };
    for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
        char text[40];
        uint64_t bits = 0;
        const iter_dtype t = types[i].dtype;
        const size_t bytes = iter_dtype_bytes(t);
        cr_assert_eq(read(types[i].least, t, &bits), ITER_NUMBER_OK);
        const uint64_t least = (uint64_t)strtoll(types[i].least, NULL, 10);
        cr_assert(memcmp(&bits, &least, bytes) == 0);
        cr_assert_eq(read(types[i].most, t, &bits), ITER_NUMBER_OK);
        const uint64_t most = strtoull(types[i].most, NULL, 10);
        cr_assert(memcmp(&bits, &most, bytes) == 0);
        cr_assert_eq(read(types[i].below, t, &bits), ITER_NUMBER_RANGE);
        cr_assert_eq(read(types[i].above, t, &bits), ITER_NUMBER_RANGE);
        snprintf(text, sizeof(text), "%s.000", types[i].most);
        cr_assert_eq(read(text, t, &bits), ITER_NUMBER_OK, "%s", text);
        cr_assert(memcmp(&bits, &most, bytes) == 0);
        snprintf(text, sizeof(text), "%s.5", types[i].most);
        cr_assert_neq(read(text, t, &bits), ITER_NUMBER_OK);
    }
    int64_t whole;
    cr_assert(read("2e3", ITER_I64, &whole) == ITER_NUMBER_OK && whole == 2000);
    cr_assert(read("-1.50e1", ITER_I64, &whole) == ITER_NUMBER_OK && whole == -15);
    cr_assert(read("1e19", ITER_I64, &whole) == ITER_NUMBER_RANGE);
    cr_assert(read("0e99999", ITER_I64, &whole) == ITER_NUMBER_OK && whole == 0);
    cr_assert(read("0000000000000000000000007", ITER_I64, &whole) == ITER_NUMBER_OK && whole == 7);
    cr_assert(read("1.5", ITER_I64, &whole) == ITER_NUMBER_NONE);
}

Test(number_text, values_into_types) {
    uint8_t byte = 9;
    int64_t whole = 0;
    float f = 0;
    cr_assert(iter__number_put(255, ITER_U8, &byte) && byte == 255);
    cr_assert(!iter__number_put(256, ITER_U8, &byte));
    cr_assert(!iter__number_put(-1, ITER_U8, &byte));
    cr_assert(!iter__number_put(0.5, ITER_U8, &byte));
    cr_assert(!iter__number_put((double)NAN, ITER_I64, &whole));
    cr_assert(iter__number_put(-1, ITER_I64, &whole) && whole == -1);
    cr_assert(iter__number_put((double)NAN, ITER_F32, &f) && isnan(f));
    cr_assert(!iter__number_put(1e39, ITER_F32, &f));
}

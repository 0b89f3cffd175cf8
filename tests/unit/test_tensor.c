/* test_tensor.c - element types, sizes, texts, strides, statuses and error messages. */
#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>

#include "iter/core/error.h"
#include <iter/tensor.h>

TestSuite(tensor, .timeout = 10);

#define N_OF(list) (sizeof(list) / sizeof(list[0]))

/* numpy's names and itemsizes; codes as in saved positions. */
static const struct {
    iter_dtype dtype;
    int code;
    size_t bytes;
    const char *text, *numpy;
} dtypes[] = {
    {ITER_U8, 1, 1, "u8", "uint8"},      {ITER_I8, 2, 1, "i8", "int8"},
    {ITER_U16, 3, 2, "u16", "uint16"},   {ITER_I16, 4, 2, "i16", "int16"},
    {ITER_U32, 5, 4, "u32", "uint32"},   {ITER_I32, 6, 4, "i32", "int32"},
    {ITER_U64, 7, 8, "u64", "uint64"},   {ITER_I64, 8, 8, "i64", "int64"},
    {ITER_F16, 9, 2, "f16", "float16"},  {ITER_BF16, 10, 2, "bf16", "bfloat16"},
    {ITER_F32, 11, 4, "f32", "float32"}, {ITER_F64, 12, 8, "f64", "float64"},
    {ITER_BOOL, 13, 1, "bool", "bool"},
};

Test(tensor, dtypes) {
    for (size_t i = 0; i < N_OF(dtypes); i++) {
        cr_expect_eq((int)dtypes[i].dtype, dtypes[i].code);
        cr_expect_eq(iter_dtype_bytes(dtypes[i].dtype), dtypes[i].bytes);
        cr_expect_str_eq(iter_dtype_text(dtypes[i].dtype), dtypes[i].text);
        cr_expect_eq(iter_dtype_parse(dtypes[i].text), dtypes[i].dtype);
        cr_expect_eq(iter_dtype_parse(dtypes[i].numpy), dtypes[i].dtype);
    }
    const char *const unknown[] = {"", "f31", "F32", "float", "u8 ", "none", NULL};
    for (size_t i = 0; i < N_OF(unknown); i++)
        cr_expect_eq(iter_dtype_parse(unknown[i]), ITER_DTYPE_NONE);
    cr_expect_eq(iter_dtype_bytes(ITER_DTYPE_NONE), 0);
    cr_expect_eq(iter_dtype_bytes((iter_dtype)99), 0);
    cr_expect_str_eq(iter_dtype_text((iter_dtype)99), "none");
}

Test(tensor, sizes_and_texts) {
    const iter_desc image = {.dtype = ITER_U8, .n_dims = 3, .dims = {3, 32, 30}, .layout = "CHW"};
    const iter_desc tokens = {
        .dtype = ITER_I32, .n_dims = 1, .dims = {ITER_VARIABLE}, .capacity = 150, .layout = "T"};
    const iter_desc scalar = {.dtype = ITER_F64};
    const iter_desc empty = {.dtype = ITER_F32, .n_dims = 2, .dims = {0, INT64_MAX}};
    char text[64];
    cr_expect_eq(iter_desc_elements(&image), 2880);
    cr_expect_eq(iter_desc_bytes(&image), 2880);
    cr_expect_str_eq(iter_desc_text(&image, text, sizeof(text)), "u8 [3, 32, 30] \"CHW\"");
    cr_expect_eq(iter_desc_elements(&tokens), 150);
    cr_expect_eq(iter_desc_bytes(&tokens), 600);
    cr_expect_str_eq(iter_desc_text(&tokens, text, sizeof(text)), "i32 [<=150] \"T\"");
    cr_expect_eq(iter_desc_elements(&scalar), 1);
    cr_expect_eq(iter_desc_bytes(&scalar), 8);
    cr_expect_str_eq(iter_desc_text(&scalar, text, sizeof(text)), "f64 []");
    cr_expect_eq(iter_desc_elements(&empty), 0);
    cr_expect_eq(iter_desc_bytes(&empty), 0);
}

Test(tensor, texts_are_cut_where_they_do_not_fit) {
    const iter_desc image = {.dtype = ITER_U8, .n_dims = 3, .dims = {3, 32, 30}, .layout = "CHW"};
    const char whole[] = "u8 [3, 32, 30] \"CHW\"";
    for (size_t capacity = 0; capacity <= sizeof(whole); capacity++) {
        char text[32];
        memset(text, '~', sizeof(text));
        iter_desc_text(&image, text, capacity);
        if (capacity > 0) {
            cr_expect_eq(strlen(text), capacity - 1);
            cr_expect(strncmp(text, whole, capacity - 1) == 0);
        }
        cr_expect_eq(text[capacity], '~');
    }
}

Test(tensor, sizes_that_do_not_fit_saturate) {
    const iter_desc many = {.dtype = ITER_U8, .n_dims = 2, .dims = {INT64_C(1) << 40, 1 << 24}};
    const iter_desc wide = {.dtype = ITER_F64, .n_dims = 1, .dims = {INT64_C(1) << 62}};
    cr_expect_eq(iter_desc_elements(&many), INT64_MAX);
    cr_expect_eq(iter_desc_bytes(&many), SIZE_MAX);
    cr_expect_eq(iter_desc_bytes(&wide), SIZE_MAX);
}

Test(tensor, dense_strides) {
    double data;
    const iter_desc desc = {.dtype = ITER_F64, .n_dims = 3, .dims = {5, 4, 3}};
    const iter_tensor tensor = iter_tensor_dense(&desc, &data);
    cr_expect_eq(tensor.strides[0], 12);
    cr_expect_eq(tensor.strides[1], 3);
    cr_expect_eq(tensor.strides[2], 1);
    cr_expect_eq(tensor.data, &data);
    const iter_desc variable = {
        .dtype = ITER_I32, .n_dims = 2, .dims = {7, ITER_VARIABLE}, .capacity = 9};
    cr_expect_eq(iter_tensor_dense(&variable, &data).strides[0], 9);
}

Test(tensor, statuses_have_texts) {
    cr_expect_str_eq(iter_status_text(ITER_OK), "success");
    cr_expect_str_eq(iter_status_text(ITER_ETIMEDOUT), "timed out");
    cr_expect_str_eq(iter_status_text((iter_status)-99), "unknown status");
    for (int s = ITER_ETIMEDOUT; s <= ITER_PENDING; s++)
        cr_expect_str_neq(iter_status_text((iter_status)s), "unknown status");
}

Test(tensor, errors_are_filled_and_nested) {
    iter_error err = {0};
    cr_expect_eq(iter__fail(&err, ITER_EIO, "%s: short by %d", "a.bin", 3), ITER_EIO);
    cr_expect_eq(err.status, ITER_EIO);
    cr_expect_str_eq(err.message, "a.bin: short by 3");
    cr_expect_eq(iter__fail_in(&err, ITER_EINVAL, "sample %d", 7), ITER_EIO,
                 "the cause's status stays");
    cr_expect_str_eq(err.message, "sample 7: a.bin: short by 3");
    /* the error as an argument of itself */
    iter__fail(&err, ITER_EFORMAT, "again: %s", err.message);
    cr_expect_str_eq(err.message, "again: sample 7: a.bin: short by 3");
    cr_expect_eq(iter__fail(NULL, ITER_ENOMEM, "x"), ITER_ENOMEM);
    cr_expect_eq(iter__fail_in(NULL, ITER_EDEVICE, "x"), ITER_EDEVICE);
    iter_error silent = {0}; /* a callee that failed without a message */
    cr_expect_eq(iter__fail_in(&silent, ITER_EDEVICE, "start"), ITER_EDEVICE);
    cr_expect_str_eq(silent.message, "start: device runtime error");
}

/* If a message is cut it ends with dots, and never inside a character. */
Test(tensor, long_errors_are_cut) {
    char text[700];
    for (int shift = 0; shift < 3; shift++) {
        memset(text, 'x', sizeof(text));
        for (size_t i = (size_t)shift; i + 3 < sizeof(text); i += 3)
            memcpy(text + i, "\xe2\x82\xac", 3); /* the euro sign */
        text[sizeof(text) - 1] = '\0';
        iter_error err = {0};
        iter__fail(&err, ITER_EIO, "%s", text);
        const size_t length = strlen(err.message);
        cr_expect(length >= sizeof(err.message) - 4 && length < sizeof(err.message));
        cr_expect_str_eq(err.message + length - 3, "...");
        cr_expect_eq((length - 3 - (size_t)shift) % 3, 0, "cut inside a character");
        iter__fail_in(&err, ITER_EIO, "prefix");
        cr_expect(strncmp(err.message, "prefix: ", 8) == 0);
        cr_expect_str_eq(err.message + strlen(err.message) - 3, "...");
        iter__fail_in(&err, ITER_EIO, "%s", text);
        cr_expect_str_eq(err.message + strlen(err.message) - 3, "...");
    }
}

Test(tensor, os_errors_have_texts) {
    char text[64], small[5];
    cr_expect_str_eq(iter__os_error(ENOENT, text, sizeof(text)), "No such file or directory");
    cr_expect_str_eq(iter__os_error(ENOENT, small, sizeof(small)), "No s");
    cr_expect(strlen(iter__os_error(99999, text, sizeof(text))) > 0);
}

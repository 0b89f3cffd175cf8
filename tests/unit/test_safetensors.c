/* test_safetensors.c - files of the format's own library (tests/golden/safetensors.py), libiter's
 * own files byte by byte, every broken header, every failed write. */
#include <criterion/criterion.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine/engine_memory.h"
#include "engine/safetensors.h"
#include "tests/support/make_data.h"

TestSuite(safetensors, .timeout = 60);

#define GOLDEN ITER_SOURCE_DIR "/tests/golden/safetensors/"

static char folder[MAKE_PATH_MAX];

static void make(void) {
    make_folder(folder);
}

static void drop(void) {
    make_folder_gone(folder);
    /* abort(): a failed assertion here would not fail the test */
    if (iter__engine_live() != 0) abort();
}

static size_t slurp(const char *path, uint8_t *out, size_t capacity) {
    FILE *file = fopen(path, "rb");
    if (file == NULL) return SIZE_MAX;
    const size_t n = fread(out, 1, capacity, file);
    (void)fclose(file);
    return n;
}

/* ---- Reading --------------------------------------------------------------------------------- */

/* Element i of dense values. */
static double element(const void *values, int64_t i, iter_dtype dtype) {
    switch (dtype) {
    case ITER_U8:
    case ITER_BOOL: return ((const uint8_t *)values)[i];
    case ITER_I8: return ((const int8_t *)values)[i];
    case ITER_U16: return ((const uint16_t *)values)[i];
    case ITER_I16: return ((const int16_t *)values)[i];
    case ITER_U32: return ((const uint32_t *)values)[i];
    case ITER_I32: return ((const int32_t *)values)[i];
    case ITER_U64: return (double)((const uint64_t *)values)[i];
    case ITER_I64: return (double)((const int64_t *)values)[i];
    case ITER_F32: return (double)((const float *)values)[i];
    case ITER_F64: return ((const double *)values)[i];
    default: return -1;
    }
}

Test(safetensors, reads_what_the_formats_own_library_wrote) {
    static const struct {
        const char *name;
        iter_dtype dtype;
        int32_t n_dims;
        int64_t dims[2];
    } due[] = {
        {"u1", ITER_U8, 2, {2, 3}},     {"i1", ITER_I8, 2, {2, 3}},
        {"u2", ITER_U16, 2, {2, 3}},    {"i2", ITER_I16, 2, {2, 3}},
        {"u4", ITER_U32, 2, {2, 3}},    {"i4", ITER_I32, 2, {2, 3}},
        {"u8", ITER_U64, 2, {2, 3}},    {"i8", ITER_I64, 2, {2, 3}},
        {"f4", ITER_F32, 2, {2, 3}},    {"f8", ITER_F64, 2, {2, 3}},
        {"b1", ITER_BOOL, 1, {5, 0}},   {"scalar", ITER_F32, 0, {0, 0}},
        {"empty", ITER_F32, 2, {0, 4}},
    };
    engine_tensor_file *file;
    iter_error err = {0};
    cr_assert_eq(iter__safetensors_open(GOLDEN "types.safetensors", &file, &err), ITER_OK, "%s",
                 err.message);
    cr_assert_eq(iter__safetensors_count(file), 14);
    for (size_t k = 0; k < sizeof(due) / sizeof(due[0]); k++) {
        const int32_t at = iter__safetensors_find(file, due[k].name);
        cr_assert(at >= 0, "%s", due[k].name);
        const engine_tensor *t = iter__safetensors_tensor(file, at);
        cr_assert_eq(t->dtype, due[k].dtype, "%s", due[k].name);
        cr_assert_eq(t->n_dims, due[k].n_dims, "%s", due[k].name);
        cr_assert_eq(memcmp(t->dims, due[k].dims, sizeof(int64_t) * (size_t)t->n_dims), 0);
        _Alignas(8) uint8_t values[64];
        cr_assert_eq(iter__safetensors_read(file, at, values, &err), ITER_OK, "%s", err.message);
        const int64_t n = (int64_t)(t->bytes / iter_dtype_bytes(t->dtype));
        for (int64_t i = 0; i < n; i++)
            cr_assert_eq(element(values, i, t->dtype),
                         t->dtype == ITER_BOOL ? 1 : (double)(2 * i + 3), "%s %d", due[k].name,
                         (int)i);
    }
    /* 3 .. 13 as f16 */
    static const uint16_t halves[] = {0x4200, 0x4500, 0x4700, 0x4880, 0x4980, 0x4a80};
    uint16_t read[6];
    cr_assert_eq(iter__safetensors_read(file, iter__safetensors_find(file, "f2"), read, &err), 0);
    cr_assert_arr_eq(read, halves, sizeof(halves));
    cr_assert_eq(iter__safetensors_n_texts(file), 3);
    cr_assert_str_eq(iter__safetensors_text(file, "writer"), "the format's own library");
    cr_assert_str_eq(iter__safetensors_text(file, "empty"), "");
    cr_assert_str_eq(iter__safetensors_text(file, "umlaut"), "\xc3\xa4");
    cr_assert_null(iter__safetensors_text(file, "nothing"));
    iter__safetensors_close(file);

    cr_assert_eq(iter__safetensors_open(GOLDEN "none.safetensors", &file, &err), ITER_OK, "%s",
                 err.message);
    cr_assert_eq(iter__safetensors_count(file), 0);
    cr_assert_eq(iter__safetensors_find(file, "a"), -1);
    iter__safetensors_close(file);
    cr_assert_eq(iter__engine_live(), 0);
}

/* ---- Broken files ---------------------------------------------------------------------------- */

/* Makes a file of this header and `n_data` bytes after it; header_bytes < 0 = the header's real
 * size. */
static void make_broken(const char *header, int64_t header_bytes, size_t n_data) {
    uint8_t bytes[4096] = {0};
    const size_t n = strlen(header);
    const uint64_t says = header_bytes < 0 ? n : (uint64_t)header_bytes;
    cr_assert(8 + n + n_data <= sizeof(bytes));
    for (int i = 0; i < 8; i++)
        bytes[i] = (uint8_t)(says >> 8 * i);
    memcpy(bytes + 8, header, n);
    make_file(folder, "broken.safetensors", bytes, 8 + n + n_data);
}

static void expect_broken(const char *reason) {
    char path[MAKE_PATH_MAX];
    engine_tensor_file *file = NULL;
    iter_error err = {0};
    const iter_status s =
        iter__safetensors_open(make_path(path, folder, "broken.safetensors"), &file, &err);
    cr_expect_eq(s, ITER_EFORMAT, "%s: got %d \"%s\"", reason, s, err.message);
    cr_expect_null(file);
    cr_expect_eq(err.status, ITER_EFORMAT);
    cr_expect(strstr(err.message, "broken.safetensors"), "no file in \"%s\"", err.message);
    cr_expect(strstr(err.message, reason), "no \"%s\" in \"%s\"", reason, err.message);
    cr_expect_eq(iter__engine_live(), 0);
    iter__safetensors_close(file);
}

#define T(dtype, shape, offsets) \
    "{\"dtype\":\"" dtype "\",\"shape\":" shape ",\"data_offsets\":" offsets "}"

Test(safetensors, broken_headers_are_refused_with_the_reason, .init = make, .fini = drop) {
    static const struct {
        const char *header, *reason;
        size_t n_data;
    } cases[] = {
        {"", "no JSON object", 0},
        {"[]", "no JSON object", 0},
        {" {}", "no JSON object", 0},
        {"{", "header is broken", 0},
        {"{} x", "header is broken", 0},
        {"{\"a\":" T("U8", "[1]", "[0,1]") ",\"a\":" T("U8", "[1]", "[0,1]") "}", "duplicate", 1},
        {"{\"a\":1}", "dtype, shape and data_offsets", 0},
        {"{\"a\":{}}", "dtype, shape and data_offsets", 0},
        {"{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1],\"x\":1}}",
         "dtype, shape and data_offsets", 1},
        {"{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"offsets\":[0,1]}}", "data_offsets", 1},
        {"{\"a\":{\"dtype\":8,\"shape\":[1],\"data_offsets\":[0,1]}}", "unknown dtype", 1},
        {"{\"a\":" T("F9", "[1]", "[0,1]") "}", "unknown dtype 'F9'", 1},
        {"{\"a\":" T("u8", "[1]", "[0,1]") "}", "unknown dtype 'u8'", 1},
        {"{\"a\":" T("U8", "1", "[0,1]") "}", "shape is not a list", 1},
        {"{\"a\":" T("U8", "[1.0]", "[0,1]") "}", "integers from 0 on", 1},
        {"{\"a\":" T("U8", "[-1]", "[0,1]") "}", "integers from 0 on", 1},
        {"{\"a\":" T("U8", "[1]", "[0]") "}", "data_offsets is not a list", 1},
        {"{\"a\":" T("U8", "[1]", "[0,1,2]") "}", "data_offsets is not a list", 1},
        {"{\"a\":" T("U8", "[1]", "[-1,0]") "}", "integers from 0 on", 1},
        {"{\"a\":" T("U8", "[1]", "[0,99999999999999999999]") "}", "too big", 1},
        {"{\"a\":" T("U8", "[1,1,1,1,1,1,1,1,1]", "[0,1]") "}", "9 dimensions, at most 8", 1},
        {"{\"a\":" T("U8", "[1]", "[1,0]") "}", "outside", 1},
        {"{\"a\":" T("U8", "[2]", "[0,2]") "}", "outside the file's 1 bytes", 1},
        {"{\"a\":" T("U8", "[1]", "[1,2]") "}", "outside", 1},
        {"{\"a\":" T("F32", "[1]", "[0,3]") "}", "3 bytes of data", 3},
        {"{\"a\":" T("F32", "[2]", "[0,4]") "}", "4 bytes of data", 4},
        {"{\"a\":" T("U8", "[4294967296,4294967296]", "[0,0]") "}", "0 bytes of data", 0},
        {"{\"a\":" T("F64", "[1152921504606846976]", "[0,0]") "}", "0 bytes of data", 0},
        {"{\"a\":" T("U8", "[2]", "[0,2]") ",\"b\":" T("U8", "[2]", "[1,3]") "}", "'b' overlaps",
         3},
        {"{\"a\":" T("U8", "[2]", "[0,2]") ",\"b\":" T("U8", "[2]", "[0,2]") "}", "'b' overlaps",
         2},
        {"{\"a\":" T("U8", "[1]", "[0,1]") ",\"b\":" T("U8", "[1]", "[2,3]") "}",
         "'b' comes after bytes", 3},
        {"{\"a\":" T("U8", "[1]", "[1,2]") "}", "'a' comes after bytes", 2},
        {"{\"a\":" T("U8", "[1]", "[0,1]") "}", "1 bytes at its end", 2},
        {"{}", "1 bytes at its end", 1},
        {"{\"__metadata__\":[]}", "metadata is not an object", 0},
        {"{\"__metadata__\":{\"k\":1}}", "'k' is not text", 0},
        {"{\"__metadata__\":{\"k\":\"1\",\"k\":\"2\"}}", "duplicate", 0},
        {"{\"a\\u0000b\":" T("U8", "[1]", "[0,1]") "}", "header is broken", 1},
        {"{\"\xff\":" T("U8", "[1]", "[0,1]") "}", "header is broken", 1},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        make_broken(cases[i].header, -1, cases[i].n_data);
        expect_broken(cases[i].reason);
    }
}

Test(safetensors, lengths_that_cannot_be_are_refused, .init = make, .fini = drop) {
    make_broken("{}", 3, 0);
    expect_broken("truncated");
    make_broken("{}", 100000001, 0);
    expect_broken("at most 100000000");
    make_broken("{}", INT64_MAX, 0);
    expect_broken("at most 100000000");
    for (size_t n = 0; n < 8; n++) {
        make_file(folder, "broken.safetensors", "\2\0\0\0\0\0\0", n);
        expect_broken("truncated, it ends within its first 8 bytes");
    }
    /* Nesting without end: refused without a stack overflow. */
    static char deep[100001 + 8];
    memset(deep, '[', sizeof(deep));
    memcpy(deep, "\241\206\1\0\0\0\0\0{\"a\":", 13); /* 100001 */
    make_file(folder, "broken.safetensors", deep, sizeof(deep));
    expect_broken("header is broken");
}

/* Every prefix of a file is refused, the whole file is not. */
Test(safetensors, every_truncation_is_refused, .init = make, .fini = drop) {
    static uint8_t bytes[8192];
    const size_t n = slurp(GOLDEN "types.safetensors", bytes, sizeof(bytes));
    cr_assert(n > 500 && n < sizeof(bytes));
    for (size_t k = 0; k < n; k++) {
        make_file(folder, "broken.safetensors", bytes, k);
        expect_broken("");
    }
}

Test(safetensors, what_cannot_be_opened_is_an_io_error, .init = make, .fini = drop) {
    char path[MAKE_PATH_MAX];
    engine_tensor_file *file;
    iter_error err = {0};
    cr_assert_eq(iter__safetensors_open(make_path(path, folder, "absent"), &file, &err), ITER_EIO);
    cr_assert(strstr(err.message, "absent") && strstr(err.message, "No such file"), "%s",
              err.message);
    cr_assert_eq(iter__safetensors_open(folder, &file, &err), ITER_EIO);
    cr_assert(strstr(err.message, "not a regular file"), "%s", err.message);
    cr_assert_eq(mkfifo(make_path(path, folder, "pipe"), 0600), 0);
    cr_assert_eq(iter__safetensors_open(path, &file, &err), ITER_EIO); /* and does not block */
}

Test(safetensors, a_file_that_shrinks_while_open_is_no_crash, .init = make, .fini = drop) {
    char path[MAKE_PATH_MAX];
    uint8_t bytes[8];
    engine_tensor_file *file;
    iter_error err = {0};
    make_broken("{\"a\":" T("U8", "[8]", "[0,8]") "}", -1, 8);
    make_path(path, folder, "broken.safetensors");
    cr_assert_eq(iter__safetensors_open(path, &file, &err), ITER_OK, "%s", err.message);
    cr_assert_eq(truncate(path, 20), 0);
    cr_assert_eq(iter__safetensors_read(file, 0, bytes, &err), ITER_EFORMAT);
    cr_assert(strstr(err.message, "truncated"), "%s", err.message);
    iter__safetensors_close(file);
}

/* ---- Writing --------------------------------------------------------------------------------- */

static const engine_tensor two[] = {
    {.name = "weight", .dtype = ITER_F32, .n_dims = 2, .dims = {2, 3}},
    {.name = "bytes", .dtype = ITER_U8, .n_dims = 1, .dims = {5}},
};
static const engine_text texts[] = {{"key", "va\"lue"}, {"\xc3\xa4", ""}};

/* Tensor i is all bytes i + 1; fails on request. */
static iter_status values(void *user, int32_t i, void *out, iter_error *err) {
    const int *fails_at = user;
    if (fails_at != NULL && *fails_at == i) {
        if (err != NULL) *err = (iter_error){ITER_EDEVICE, "this one fails"};
        return ITER_EDEVICE;
    }
    memset(out, i + 1, i == 0 ? 24 : 5);
    return ITER_OK;
}

static iter_status write_two(const char *path, void *user, iter_error *err) {
    return iter__safetensors_write(path, two, 2, texts, 2, values, user, err);
}

/* The header by the specification, written by hand; padded with blanks to 64. */
Test(safetensors, writes_these_bytes, .init = make, .fini = drop) {
    static const char header[] =
        "{\"__metadata__\":{\"key\":\"va\\\"lue\",\"\\u00E4\":\"\"},"
        "\"weight\":{\"dtype\":\"F32\",\"shape\":[2,3],\"data_offsets\":[0,24]},"
        "\"bytes\":{\"dtype\":\"U8\",\"shape\":[5],\"data_offsets\":[24,29]}}";
    char path[MAKE_PATH_MAX];
    uint8_t bytes[1024];
    iter_error err = {0};
    cr_assert_eq(write_two(make_path(path, folder, "two"), NULL, &err), ITER_OK, "%s", err.message);
    const size_t n = slurp(path, bytes, sizeof(bytes)), n_header = sizeof(header) - 1;
    const size_t begin = (8 + n_header + 63) / 64 * 64;
    cr_assert_eq(n, begin + 29);
    cr_assert_eq(bytes[0] + 256u * bytes[1], begin - 8);
    cr_assert_eq(memcmp(bytes + 2, "\0\0\0\0\0\0", 6), 0);
    cr_assert_eq(memcmp(bytes + 8, header, n_header), 0, "%.*s", (int)n_header, bytes + 8);
    for (size_t i = 8 + n_header; i < begin; i++)
        cr_assert_eq(bytes[i], ' ');
    for (size_t i = 0; i < 29; i++)
        cr_assert_eq(bytes[begin + i], i < 24 ? 1 : 2);
    char part[MAKE_PATH_MAX];
    cr_assert_eq(access(make_path(part, folder, "two.part"), F_OK), -1);
}

/* The old file is unchanged, and there is no other file. */
static void expect_untouched(const char *path) {
    uint8_t bytes[16];
    char part[MAKE_PATH_MAX + 8];
    cr_expect_eq(slurp(path, bytes, sizeof(bytes)), 3);
    cr_expect_eq(memcmp(bytes, "old", 3), 0);
    snprintf(part, sizeof(part), "%s.part", path);
    cr_expect_eq(access(part, F_OK), -1, "%s is there", part);
    cr_expect_eq(iter__engine_live(), 0);
}

Test(safetensors, a_failed_write_leaves_the_old_file, .init = make, .fini = drop) {
    char path[MAKE_PATH_MAX];
    iter_error err = {0};
    make_file(folder, "file", "old", 3);
    make_path(path, folder, "file");
    for (int at = 0; at < 2; at++) {
        cr_expect_eq(write_two(path, &at, &err), ITER_EDEVICE);
        cr_expect_str_eq(err.message, "this one fails");
        expect_untouched(path);
    }
    for (long i = 0;; i++) {
        iter__engine_fail_after = i;
        const iter_status s = write_two(path, NULL, &err);
        iter__engine_fail_after = -1;
        if (s == ITER_OK) {
            cr_expect(i >= 4, "only %ld allocations were failed", i);
            break;
        }
        /* The last failure comes after the rename: the file is new, only its folder is not
         * synced. */
        cr_expect_eq(s, ITER_ENOMEM, "%ld: %d", i, s);
        cr_expect(strstr(err.message, path), "%s", err.message);
        cr_expect_eq(iter__engine_live(), 0);
    }
}

Test(safetensors, what_cannot_be_written_says_why, .init = make, .fini = drop) {
    char path[MAKE_PATH_MAX], part[MAKE_PATH_MAX];
    iter_error err = {0};
    cr_expect_eq(write_two(make_path(path, folder, "absent/file"), NULL, &err), ITER_EIO);
    cr_expect(strstr(err.message, "absent/file") && strstr(err.message, "No such file"), "%s",
              err.message);
    make_subfolder(folder, "folder");
    cr_expect_eq(write_two(make_path(path, folder, "folder"), NULL, &err), ITER_EIO);
    cr_expect_eq(access(make_path(part, folder, "folder.part"), F_OK), -1);

    make_file(folder, "file", "old", 3);
    make_path(path, folder, "file");
    make_file(folder, "file.part", "", 0);
    const int other = open(make_path(part, folder, "file.part"), O_WRONLY | O_CLOEXEC);
    cr_assert(other >= 0 && flock(other, LOCK_EX) == 0);
    cr_expect_eq(write_two(path, NULL, &err), ITER_EIO);
    cr_expect(strstr(err.message, "another process"), "%s", err.message);
    close(other);
    cr_expect_eq(write_two(path, NULL, &err), ITER_OK, "an old temporary file must not matter");

    const engine_tensor twice[] = {two[1], two[1]};
    cr_expect_eq(iter__safetensors_write(path, twice, 2, NULL, 0, values, NULL, &err), ITER_EINVAL);
    const engine_tensor odd[] = {{.name = "x", .dtype = ITER_F32, .n_dims = 1, .dims = {-1}}};
    cr_expect_eq(iter__safetensors_write(path, odd, 1, NULL, 0, values, NULL, &err), ITER_EINVAL);
    const engine_text bytes[] = {{"key", "\xff"}};
    cr_expect_eq(iter__safetensors_write(path, NULL, 0, bytes, 1, values, NULL, &err), ITER_EINVAL);
    cr_expect_eq(iter__engine_live(), 0);
}

Test(safetensors, every_allocation_of_open_may_fail) {
    engine_tensor_file *file;
    for (long i = 0;; i++) {
        iter_error err = {0};
        iter__engine_fail_after = i;
        const iter_status s = iter__safetensors_open(GOLDEN "types.safetensors", &file, &err);
        iter__engine_fail_after = -1;
        if (s == ITER_OK) {
            cr_expect(i >= 3);
            break;
        }
        cr_expect_eq(s, ITER_ENOMEM);
        cr_expect(strstr(err.message, "types.safetensors"), "%s", err.message);
        cr_expect_eq(iter__engine_live(), 0);
    }
    iter__safetensors_close(file);
    cr_expect_eq(iter__engine_live(), 0);
}

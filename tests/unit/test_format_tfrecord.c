/* test_format_tfrecord.c - TFRecords that another program wrote
 * (tests/golden/make_tfrecords.py), and every broken one. */
#include <criterion/criterion.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "iter/core/crc32c.h"
#include "loaders/decoders/tf_example.h"
#include "loaders/files/byte_order.h"
#include "tests/support/builtin_tables.h"
#include "tests/support/format_decode.h"
#include "tests/support/make_data.h"

#define FORMAT iter__format_tfrecord
#include "tests/support/format_expect.h"

TestSuite(format_tfrecord, .timeout = 60);

#define GOLDEN ITER_SOURCE_DIR "/tests/golden/tfrecord/"
#define FEW    GOLDEN "few.tfrecord"
#define ODD    GOLDEN "odd.tfrecord"
#define FIELDS \
    "fields=data:image/encoded,label:image/class/label,boxes:boxes:f32*9,size:size,name:name"

static decoded row; /* large */

static void expect_decodes(const opened *f, uint64_t sample, int field) {
    iter_error err = {0};
    cr_assert_eq(format_decode(f, sample, field, &row, &err), ITER_OK, "%s", err.message);
}

static void expect_refused(const opened *f, uint64_t sample, int field, const char *reason) {
    iter_error err = {0};
    cr_assert_lt(format_decode(f, sample, field, &row, &err), 0, "%s", reason);
    cr_assert(strstr(err.message, reason), "no \"%s\" in \"%s\"", reason, err.message);
}

/* ---- sums ------------------------------------------------------------------------------------ */

/* RFC 3720, B.4; and Castagnoli's check value of "123456789". */
Test(format_tfrecord, published_sums) {
    uint8_t bytes[48];
    static const uint8_t command[48] = {0x01, 0xc0, 0, 0,    0,    0, 0, 0,    0,    0, 0,    0,
                                        0,    0,    0, 0,    0x14, 0, 0, 0,    0,    0, 0x04, 0,
                                        0,    0,    0, 0x14, 0,    0, 0, 0x18, 0x28, 0, 0,    0,
                                        0,    0,    0, 0,    0x02, 0, 0, 0,    0,    0, 0,    0};
    uint32_t (*const ways[])(const void *, size_t) = {iter__crc32c, iter__crc32c_plain};
    for (int way = 0; way < 2; way++) {
        cr_assert_eq(ways[way]("123456789", 9), 0xe3069283u);
        cr_assert_eq(ways[way]("", 0), 0u);
        memset(bytes, 0, 32);
        cr_assert_eq(ways[way](bytes, 32), 0x8a9136aau);
        memset(bytes, 0xff, 32);
        cr_assert_eq(ways[way](bytes, 32), 0x62a8ab43u);
        for (int i = 0; i < 32; i++)
            bytes[i] = (uint8_t)i;
        cr_assert_eq(ways[way](bytes, 32), 0x46dd794eu);
        for (int i = 0; i < 32; i++)
            bytes[i] = (uint8_t)(31 - i);
        cr_assert_eq(ways[way](bytes, 32), 0x113fdb5cu);
        cr_assert_eq(ways[way](command, 48), 0xd9963a56u);
    }
    for (size_t n = 0; n <= 48; n++)
        cr_assert_eq(iter__crc32c(command + n, 48 - n), iter__crc32c_plain(command + n, 48 - n));
}

/* ---- what another program wrote -------------------------------------------------------------- */

static void expect_numbers(const opened *f, uint64_t i) {
    int64_t integers[3];
    float floats[9];
    char name[32];
#ifdef ITER_HAVE_PNG
    expect_decodes(f, i, 0);
    cr_assert_eq(row.desc.dims[0], 45);
    cr_assert_eq(row.desc.dims[1], 53);
#else
    expect_refused(f, i, 0, "this build is without libpng");
#endif
    expect_decodes(f, i, 1);
    memcpy(integers, row.bytes, sizeof(*integers));
    cr_assert_eq(integers[0], (int64_t)i * 1000 - 2000);
    expect_decodes(f, i, 2);
    cr_assert_eq(row.desc.dims[0], (int64_t)i);
    memcpy(floats, row.bytes, sizeof(floats));
    for (uint64_t k = 0; k < i; k++)
        cr_assert_eq(floats[k], 0.5f * (float)k);
    expect_decodes(f, i, 3);
    memcpy(integers, row.bytes, sizeof(integers));
    cr_assert(integers[0] == 10 + (int64_t)i && integers[1] == 20 + (int64_t)i);
    cr_assert_eq(integers[2], -((int64_t)1 << 62));
    expect_decodes(f, i, 4);
    snprintf(name, sizeof(name), "sample %d \303\244", (int)i);
    cr_assert_eq(row.desc.dims[0], (int64_t)strlen(name));
    cr_assert_arr_eq(row.bytes, name, strlen(name));
}

Test(format_tfrecord, features_of_another_writer) {
    static const char *const texts[] = {"u8 [any, any, 3] \"HWC\"", "i64 []", "f32 [<=9]",
                                        "i64 [3]", "u8 [<="};
    char text[64];
    opened f;
    expect_open(FEW, FIELDS, &f);
    cr_assert_eq(f.desc.n_samples, 5);
    cr_assert_eq(f.desc.n_fields, 5);
    for (int i = 0; i < 5; i++) {
        iter_desc_text(&f.desc.fields[i].desc, text, sizeof(text));
        cr_assert_eq(strncmp(text, texts[i], strlen(texts[i])), 0, "%s", text);
        cr_assert_eq(f.desc.fields[i].role, i == 0 || i == 4 ? ITER_DATA : ITER_LABEL);
    }
    for (uint64_t i = 0; i < 5; i++)
        expect_numbers(&f, i);
    format_close(&f);
}

/* Without fields= a sample is the record's bytes. */
Test(format_tfrecord, records_as_they_are) {
    opened f;
    expect_open(ODD, NULL, &f);
    cr_assert_eq(f.desc.n_fields, 1);
    cr_assert_eq(f.desc.n_samples, 3);
    expect_decodes(&f, 0, 0);
    cr_assert_arr_eq(row.bytes, "\x12\x07unknown", 9);
    expect_decodes(&f, 2, 0);
    cr_assert_eq(row.desc.dims[0], 0);
    format_close(&f);
}

/* What protocol buffers allow and no writer of examples makes. */
Test(format_tfrecord, unusual_messages) {
    static const int64_t integers[] = {5, -1, 300, 6};
    static const float floats[] = {1.5f, -2, 0.25f};
    opened f;
    expect_open(ODD, "fields=i:i:i64*,f:f:f32*9,s:s:bytes", &f);
    expect_decodes(&f, 0, 0);
    cr_assert_eq(row.desc.dims[0], 4);
    cr_assert_arr_eq(row.bytes, (const uint8_t *)integers, sizeof(integers));
    expect_decodes(&f, 0, 1);
    cr_assert_eq(row.desc.dims[0], 3);
    cr_assert_arr_eq(row.bytes, (const uint8_t *)floats, sizeof(floats));
    expect_decodes(&f, 0, 2);
    cr_assert_eq(row.desc.dims[0], 5);
    cr_assert_arr_eq(row.bytes, "first", 5);
    expect_decodes(&f, 1, 0);
    cr_assert_eq(row.desc.dims[0], 0);
    expect_decodes(&f, 1, 1); /* absent, and as many as there are */
    cr_assert_eq(row.desc.dims[0], 0);
    expect_decodes(&f, 1, 2);
    cr_assert_eq(row.desc.dims[0], 0);
    expect_decodes(&f, 2, 0);
    expect_refused(&f, 2, 2, "no feature 's' among its features: none");
    format_close(&f);
}

Test(format_tfrecord, several_files_and_a_kept_index) {
    char folder[MAKE_PATH_MAX], spec[MAKE_PATH_MAX];
    opened f;
    expect_open(GOLDEN "{odd,few}.tfrecord", "fields=label:size:i64*", &f);
    cr_assert_eq(f.desc.n_samples, 8);
    expect_decodes(&f, 3, 0);
    cr_assert_eq(row.desc.dims[0], 3);
    const uint64_t identity = f.desc.identity;
    format_close(&f);
    expect_open(GOLDEN, "fields=label:size:i64*", &f);
    cr_assert_eq(f.desc.n_samples, 8);
    cr_assert_neq(f.desc.identity, identity, "the order of the files counts");
    format_close(&f);

    make_folder(folder);
    static uint8_t bytes[4096];
    FILE *file = fopen(FEW, "rb");
    const size_t n = fread(bytes, 1, sizeof(bytes), file);
    fclose(file);
    make_file(folder, "a.tfrecord", bytes, n);
    make_path(spec, folder, "a.tfrecord");
    const struct timespec old[2] = {{.tv_sec = 1000000}, {.tv_sec = 1000000}};
    cr_assert_eq(utimensat(AT_FDCWD, spec, old, 0), 0);
    for (int times = 0; times < 2; times++) { /* made, then used */
        expect_open(spec, "index-cache=yes&" FIELDS, &f);
        for (uint64_t i = 0; i < 5; i++)
            expect_numbers(&f, i);
        format_close(&f);
        char index[MAKE_PATH_MAX];
        FILE *kept = fopen(make_path(index, folder, "a.tfrecord.iteridx"), "rb");
        cr_assert_not_null(kept);
        fclose(kept);
    }
    make_folder_gone(folder);
}

/* ---- files made here ------------------------------------------------------------------------- */

static uint8_t records[1 << 14];
static size_t n_records;

static uint32_t masked(const void *bytes, size_t n) {
    const uint32_t crc = iter__crc32c_plain(bytes, n);
    return (crc >> 15 | crc << 17) + 0xa282ead8u;
}

/* Returns the record's first byte. */
static uint8_t *add(const void *data, size_t n) {
    uint8_t *p = records + n_records;
    iter__put_le64(p, n);
    iter__put_le32(p + 8, masked(p, 8));
    memcpy(p + 12, data, n);
    iter__put_le32(p + 12 + n, masked(data, n));
    n_records += 16 + n;
    return p;
}

/* Fewer than 128 bytes behind a field's number. */
static size_t put(uint8_t *out, int number, const void *bytes, size_t n) {
    memmove(out + 2, bytes, n); /* they may be at `out` itself */
    out[0] = (uint8_t)(number << 3 | 2);
    out[1] = (uint8_t)n;
    return n + 2;
}

/* An example with one feature "x" whose list (field `kind`) is this message. */
static uint8_t *add_feature(int kind, const void *list, size_t n) {
    uint8_t feature[128], entry[128];
    const size_t n_feature = put(feature, kind, list, n);
    size_t n_entry = put(entry, 1, "x", 1);
    n_entry += put(entry + n_entry, 2, feature, n_feature);
    n_entry = put(entry, 1, entry, n_entry);
    n_entry = put(entry, 1, entry, n_entry);
    return add(entry, n_entry);
}

static const char *finish(const char *folder) {
    static char path[MAKE_PATH_MAX];
    make_file(folder, "x.tfrecord", records, n_records);
    n_records = 0;
    return make_path(path, folder, "x.tfrecord");
}

Test(format_tfrecord, damaged_files_say_file_offset_and_reason) {
    char folder[MAKE_PATH_MAX];
    make_folder(folder);
    const char *path = finish(folder);
    expect_fails(path, NULL, ITER_EFORMAT, path, "holds no records");
    add("abc", 3);
    add("de", 2)[0] ^= 1;
    finish(folder);
    expect_fails(path, NULL, ITER_EFORMAT, path, "at 19 is no record: the checksum of its length");
    add("abc", 3)[9] ^= 1;
    finish(folder);
    expect_fails(path, NULL, ITER_EFORMAT, path, "(no TFRecord file, or a compressed one?)");
    for (size_t cut = 1; cut < 18; cut++) { /* within the second one */
        add("abc", 3);
        add("de", 2);
        n_records = 19 + cut;
        finish(folder);
        expect_fails(path, NULL, ITER_EFORMAT, path,
                     cut < 12 ? "ends in the head of a record, at 19"
                              : "the record at 19 has 2 bytes of data, the file ends");
    }
    uint8_t *head = add("abc", 3);
    iter__put_le64(head, UINT64_MAX - 8);
    iter__put_le32(head + 8, masked(head, 8));
    finish(folder);
    expect_fails(path, NULL, ITER_EFORMAT, path, "has 18446744073709551607 bytes of data");
    make_gzip(folder, "x.tfrecord", "abc", 3);
    expect_fails(path, NULL, ITER_EUNSUPPORTED, path, "is gzipped");
    make_folder_gone(folder);
    cr_assert_eq(iter__alloc_live(), 0);
}

Test(format_tfrecord, damaged_data_fail_their_sample) {
    char folder[MAKE_PATH_MAX];
    opened f;
    make_folder(folder);
    add("abc", 3);
    add("de", 2)[13] ^= 1;
    add("f", 1)[14] ^= 0x80; /* in the sum itself */
    expect_open(finish(folder), NULL, &f);
    expect_decodes(&f, 0, 0);
    expect_refused(&f, 1, 0, "the checksum of its data is 0x");
    expect_refused(&f, 2, 0, "the checksum of its data is 0x");
    format_close(&f);
    make_folder_gone(folder);
}

/* The first record may be damaged, but not all. */
Test(format_tfrecord, kinds_by_the_first_sound_record) {
    char folder[MAKE_PATH_MAX], text[64];
    opened f;
    make_folder(folder);
    add_feature(3, "\x08\x05", 2)[20] ^= 1;
    add_feature(3, "\x0a\x02\x05\x06", 4);
    expect_open(finish(folder), "fields=label:x", &f);
    cr_assert_str_eq(iter_desc_text(&f.desc.fields[0].desc, text, sizeof(text)), "i64 [2]");
    expect_refused(&f, 0, 0, "the checksum of its data");
    format_close(&f);
    add_feature(3, "\x08\x05", 2)[20] ^= 1;
    const char *path = finish(folder);
    expect_fails(path, "fields=label:x", ITER_EFORMAT, path,
                 "the record at 0: the checksum of its data");
    add_feature(3, "", 0);
    finish(folder);
    expect_fails(path, "fields=label:x", ITER_EINVAL, path, "the feature 'x' is empty");
    expect_fails(path, "fields=label:y", ITER_EFORMAT, path,
                 "no feature 'y' among its features: x");
    make_folder_gone(folder);
}

Test(format_tfrecord, bad_values_fail_their_sample) {
    static const struct {
        int kind;
        const char *list;
        size_t n;
        const char *fields, *reason;
    } bad[] = {
        {1, "\x0a\x01q", 3, "fields=v:x:i64", "has bytes, expected integers"},
        {3, "\x08\x05", 2, "fields=v:x:f32", "has integers, expected floats"},
        {2, "\x0d\0\0\0\0", 5, "fields=v:x:bytes", "has floats, expected bytes"},
        {3, "\x08\x05", 2, "fields=v:x:image", "has integers, expected bytes"},
        {3, "\x08\x05\x08\x06", 4, "fields=v:x:i64", "has 2 values, expected 1"},
        {3, "", 0, "fields=v:x:i64", "has 0 values, expected 1"},
        {3, "\x08\x05\x08\x06", 4, "fields=v:x:i64x3", "has 2 values, expected 3"},
        {3, "\x08\x05\x08\x06", 4, "fields=v:x:i64*1", "has 2 values, expected at most 1"},
        {1, "\x0a\x01q\x0a\x01r", 6, "fields=v:x:bytes", "has 2 strings, expected one"},
        {1, "", 0, "fields=v:x:bytes", "has 0 strings, expected one"},
        {2,
         "\x0a\x03"
         "abc",
         5, "fields=v:x:f32", "a value is of another type than its list"},
        {2, "\x08\x05", 2, "fields=v:x:f32", "a value is of another type than its list"},
        {3, "\x0a\x02\x05\x86", 4, "fields=v:x:i64*", "a packed number does not end"},
        {3, "\x08", 1, "fields=v:x:i64", "a number does not end"},
        {3, "\x0a\x09\x05", 3, "fields=v:x:i64", "a field is longer than what holds it"},
        {3, "\x0b\x05", 2, "fields=v:x:i64", "is a group, or no field"},
        {3, "\x02\x05", 2, "fields=v:x:i64", "is no field of a message"},
        {1, "\x0a\x01q", 3, "fields=v:x:image", "not a JPEG, PNG or WebP"},
    };
    char folder[MAKE_PATH_MAX];
    make_folder(folder);
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        opened f;
        add_feature(bad[i].kind, bad[i].list, bad[i].n);
        expect_open(finish(folder), bad[i].fields, &f);
        expect_refused(&f, 0, 0, bad[i].reason);
        format_close(&f);
    }
    add("x", 1);
    const char *path = finish(folder);
    static const char *const options[] = {
        "fields=",          "fields=a",          "fields=:x",
        "fields=a:",        "fields=a:x,",       "fields=a:x:i32",
        "fields=a:x:i64x",  "fields=a:x:i64x0",  "fields=a:x:i64*0",
        "fields=a:x:f32+3", "fields=a:x,a:y",    "fields=a:x:i64x99999999999",
        "fields=a:x:",      "fields=a:x:image2", "fields=a:x,b:x,c:x,d:x,e:x,f:x,g:x,h:x,i:x"};
    for (size_t i = 0; i < sizeof(options) / sizeof(options[0]); i++)
        expect_fails(path, options[i], ITER_EINVAL, path, "fields=");
    make_folder_gone(folder);
}

/* A message that is cut anywhere is refused or is a shorter list, and is not read past its end. */
Test(format_tfrecord, messages_cut_at_each_byte) {
    char folder[MAKE_PATH_MAX];
    make_folder(folder);
    uint8_t whole[64];
    const uint8_t *record = add_feature(3, "\x0a\x04\x05\x86\x01\x07", 6);
    const size_t n = n_records - 16;
    memcpy(whole, record + 12, n);
    n_records = 0;
    for (size_t cut = 0; cut < n; cut++)
        add(whole, cut);
    opened f;
    expect_open(finish(folder), "fields=v:x:i64*", &f);
    for (size_t cut = 0; cut < n; cut++) {
        iter_error err = {0};
        const iter_status status = format_decode(&f, cut, 0, &row, &err);
        cr_assert_eq(status, cut == 0 ? ITER_OK : ITER_EFORMAT, "cut at %zu", cut);
    }
    format_close(&f);
    make_folder_gone(folder);
}

Test(format_tfrecord, no_memory) {
    int failures = 0;
    for (long after = 0;; after++) {
        opened f;
        iter_error err = {0};
        iter__alloc_fail_after = after;
        const iter_status status = format_open(&FORMAT, FEW, FIELDS, &f, &err);
        iter__alloc_fail_after = -1;
        if (status == ITER_OK) {
            format_close(&f);
            break;
        }
        cr_assert_eq(status, ITER_ENOMEM, "%s", err.message);
        cr_assert_eq(iter__alloc_live(), 0);
        failures++;
    }
    cr_assert_gt(failures, 4);
    cr_assert_eq(iter__alloc_live(), 0);
}

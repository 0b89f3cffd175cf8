/*
 * test_index_cache.c - indexes that are kept beside archives and record files: used only if they
 * are right, and never written unless requested. The test builds the layout independently.
 */
#include <criterion/criterion.h>
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <zlib.h>

#include "iter/core/alloc.h"
#include "iter/core/hash.h"
#include "tests/support/builtin_tables.h"
#include "tests/support/format_decode.h"
#include "tests/support/make_data.h"

#define FORMAT iter__format_tar
#include "tests/support/format_expect.h"

TestSuite(index_cache, .timeout = 120);

#define HEADER       128u /* the offsets follow it */
#define OPTIONS      "index-cache=yes"
#define TXT          "fields=cls,txt&index-cache=yes"
#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static char folder[MAKE_PATH_MAX], data[MAKE_PATH_MAX], cache[MAKE_PATH_MAX];
static decoded row, other_row; /* large */

/* ---- files ----------------------------------------------------------------------------------- */

typedef struct bytes {
    uint8_t *p;
    size_t n;
} bytes;

static bytes load(const char *path) {
    bytes b = {malloc(1 << 20), 0};
    FILE *file = fopen(path, "rb");
    if (file) {
        b.n = fread(b.p, 1, 1 << 20, file);
        (void)fclose(file);
    }
    return b;
}

static void store(const char *path, const void *p, size_t n) {
    FILE *file = fopen(path, "wb");
    cr_assert(file && (n == 0 || fwrite(p, 1, n, file) == n) && fclose(file) == 0);
}

static bool exists(const char *path) {
    return access(path, F_OK) == 0;
}

static void set_time(const char *path, int64_t seconds, long ns) {
    const struct timespec times[2] = {{seconds, ns}, {seconds, ns}};
    cr_assert_eq(utimensat(AT_FDCWD, path, times, 0), 0);
}

/* Files in the folder, hidden ones too. */
static int count_files(void) {
    int n = 0;
    DIR *dir = opendir(folder);
    cr_assert_not_null(dir);
    for (const struct dirent *entry; (entry = readdir(dir));)
        n += entry->d_type == DT_REG;
    closedir(dir);
    return n;
}

/* ---- archives and records -------------------------------------------------------------------- */

static uint8_t archive[1 << 16];
static size_t n_archive;

static void add(const char *name, const char *text) {
    uint8_t *header = archive + n_archive;
    unsigned sum = 0;
    memset(header, 0, 1024);
    strcpy((char *)header, name);
    snprintf((char *)header + 124, 12, "%011o", (unsigned)strlen(text));
    header[156] = '0';
    memcpy(header + 257, "ustar\00000", 8);
    memset(header + 148, ' ', 8);
    for (int i = 0; i < 512; i++)
        sum += header[i];
    snprintf((char *)header + 148, 8, "%06o", sum & 0777777u);
    memcpy(header + 512, text, strlen(text));
    n_archive += 1024;
}

/* Makes `n` samples of a class and a text; number i is at 2048 * i. */
static void make_tar(const char *name, int n) {
    n_archive = 0;
    for (int i = 0; i < n; i++) {
        char member[32], text[32];
        snprintf(member, sizeof(member), "s%03d.cls", i);
        snprintf(text, sizeof(text), "%d", 7 * i);
        add(member, text);
        snprintf(member, sizeof(member), "s%03d.txt", i);
        snprintf(text, sizeof(text), "%.*s", 1 + i % 20, "abcdefghijklmnopqrstuvwxyz");
        add(member, text);
    }
    memset(archive + n_archive, 0, 1024);
    make_file(folder, name, archive, n_archive + 1024);
    char path[MAKE_PATH_MAX];
    set_time(make_path(path, folder, name), 1600000000, 123456789);
}

/* Makes `n` records of 4 bytes; number i is at 12 * i. */
static void make_rec(const char *name, int n) {
    for (int i = 0; i < n; i++) {
        const uint32_t words[3] = {0xced7230a, 4, (uint32_t)i};
        memcpy(archive + 12 * (size_t)i, words, 12);
    }
    make_file(folder, name, archive, 12 * (size_t)n);
    char path[MAKE_PATH_MAX];
    set_time(make_path(path, folder, name), 1600000000, 123456789);
}

static void start(const char *name) {
    make_folder(folder);
    make_path(data, folder, name);
    snprintf(cache, sizeof(cache), "%.*s.iteridx", (int)sizeof(cache) - 16, data);
}

/* ---- the layout, built independently --------------------------------------------------------- */

static void put(uint8_t *p, uint64_t value, int n) {
    for (int i = 0; i < n; i++)
        p[i] = (uint8_t)(value >> 8 * i);
}

static void put_crc(uint8_t *file, size_t n) {
    put(file + 12, crc32(0, file + 16, (unsigned)(n - 16)), 4);
}

/* Writes the cache of archive[0, size) to `out`; returns its bytes. */
static size_t expected(uint32_t kind, uint64_t options, uint64_t size, const uint64_t *notes,
                       const uint64_t *offsets, uint64_t n, uint8_t *out) {
    uLong places = crc32(0, NULL, 0);
    for (uint64_t i = 0; i < 8; i++)
        places = crc32(places, archive + (size < 512 ? 0 : (size - 512) * i / 7),
                       size < 512 ? (unsigned)size : 512);
    memcpy(out, "ITERIDX\032\001\0\0\0", 12);
    put(out + 16, kind, 4);
    put(out + 20, places, 4);
    put(out + 24, options, 8);
    put(out + 32, size, 8);
    put(out + 40, 1600000000123456789u, 8);
    put(out + 48, n, 8);
    for (size_t i = 0; i < 9; i++)
        put(out + 56 + 8 * i, notes[i], 8);
    for (size_t i = 0; i <= n; i++)
        put(out + HEADER + 8 * i, offsets[i], 8);
    put_crc(out, HEADER + 8 * (n + 1));
    return HEADER + 8 * (n + 1);
}

/* ---- expectations ---------------------------------------------------------------------------- */

static void open_with(const iter_format_ops *ops, const char *path, const char *options,
                      opened *f) {
    iter_error err = {0};
    cr_assert_eq(format_open(ops, path, options, f, &err), ITER_OK, "%s", err.message);
    cr_assert_null(format_fault(f, 1000), "%s", format_fault(f, 1000));
}

static void expect_same(const opened *a, const opened *b) {
    cr_assert_eq(a->desc.n_samples, b->desc.n_samples);
    cr_assert_eq(a->desc.identity, b->desc.identity);
    cr_assert_eq(a->desc.index_bytes, b->desc.index_bytes);
    cr_assert_eq(a->desc.max_extent_bytes[0], b->desc.max_extent_bytes[0]);
    cr_assert_eq(a->desc.n_fields, b->desc.n_fields);
    for (int i = 0; i < a->desc.n_fields; i++) {
        const iter_field *x = &a->desc.fields[i], *y = &b->desc.fields[i];
        cr_assert_str_eq(x->name, y->name);
        cr_assert_eq(x->decoder, y->decoder);
        cr_assert_eq(x->desc.capacity, y->desc.capacity);
    }
    for (uint64_t i = 0; i < a->desc.n_samples; i++) {
        iter_extent x, y;
        iter_error err = {0};
        a->ops->locate(a->state, i, &x);
        b->ops->locate(b->state, i, &y);
        cr_assert(x.object == y.object && x.offset == y.offset && x.size == y.size);
        for (int k = 0; k < a->desc.n_fields; k++) {
            cr_assert_eq(format_decode(a, i, k, &row, &err), ITER_OK, "%s", err.message);
            cr_assert_eq(format_decode(b, i, k, &other_row, &err), ITER_OK, "%s", err.message);
            cr_assert_arr_eq(row.bytes, other_row.bytes, iter_desc_bytes(&row.desc));
        }
    }
}

/* Opening with the option must give what opening without it gives. */
static void expect_right(const iter_format_ops *ops, const char *path, const char *options) {
    char plain[128];
    opened f, g;
    snprintf(plain, sizeof(plain), "%s", options);
    *strstr(plain, "index-cache=yes") = '\0';
    if (*plain) plain[strlen(plain) - 1] = '\0'; /* the '&' */
    open_with(ops, path, *plain ? plain : NULL, &f);
    open_with(ops, path, options, &g);
    expect_same(&f, &g);
    format_close(&f);
    format_close(&g);
    cr_assert_eq(iter__alloc_live(), 0);
}

/* Options of a tar's cache: its fields' endings. */
static uint64_t hash_of(const char *a, const char *b) {
    uint64_t hash = iter__fnv1a_text(ITER_FNV_START, "fields");
    if (a) hash = iter__fnv1a_text(hash, a);
    return b ? iter__fnv1a_text(hash, b) : hash;
}

static void expect_cache(const bytes *want) {
    const bytes got = load(cache);
    cr_assert_eq(got.n, want->n);
    cr_assert_arr_eq(got.p, want->p, want->n);
    free(got.p);
}

/* The bytes must be ignored and replaced. */
static void expect_replaced(const void *p, size_t n, const char *options, const bytes *want) {
    store(cache, p, n);
    expect_right(&iter__format_tar, data, options);
    expect_cache(want);
}

/* ---- written and read ------------------------------------------------------------------------ */

Test(index_cache, never_unasked) {
    opened f;
    start("x.tar");
    make_tar("x.tar", 5);
    make_rec("x.rec", 5);
    open_with(&iter__format_tar, data, NULL, &f);
    format_close(&f);
    open_with(&iter__format_tar, data, "index-cache=no", &f);
    format_close(&f);
    char rec[MAKE_PATH_MAX];
    open_with(&iter__format_recordio, make_path(rec, folder, "x.rec"), "header=no", &f);
    format_close(&f);
    cr_assert_eq(count_files(), 2);
    make_folder_gone(folder);
}

Test(index_cache, bytes_on_disk) {
    static const uint64_t offsets[] = {0, 2048, 4096, 6144}, records[] = {0, 12, 24, 36};
    static const uint64_t plain[9] = {2}, with_text[9] = {2, 3}, none[9] = {0};
    uint8_t want[512];
    opened f;
    start("x.tar");
    make_tar("x.tar", 3);
    open_with(&iter__format_tar, data, OPTIONS, &f);
    format_close(&f);
    size_t n = expected(1, hash_of(NULL, NULL), 7168, plain, offsets, 3, want);
    expect_cache(&(bytes){want, n});
    open_with(&iter__format_tar, data, TXT, &f);
    format_close(&f);
    n = expected(1, hash_of("cls", "txt"), 7168, with_text, offsets, 3, want);
    expect_cache(&(bytes){want, n});
    make_folder_gone(folder);

    start("x.rec");
    make_rec("x.rec", 3);
    open_with(&iter__format_recordio, data, "header=no&index-cache=yes", &f);
    format_close(&f);
    n = expected(2, 0, 36, none, records, 3, want);
    expect_cache(&(bytes){want, n});
    make_folder_gone(folder);
}

/* If a cache is valid, it alone counts: samples that it lacks are not looked for. */
Test(index_cache, is_what_is_read) {
    static const uint64_t some[] = {2048, 4096, 6144}, notes[9] = {2, 3};
    uint8_t file[512];
    opened f;
    start("x.tar");
    make_tar("x.tar", 3);
    const uint64_t options = hash_of("cls", "txt");
    const size_t n = expected(1, options, 7168, notes, some, 2, file);
    store(cache, file, n);
    open_with(&iter__format_tar, data, TXT, &f);
    cr_assert_eq(f.desc.n_samples, 2);
    cr_assert_eq(f.desc.fields[1].desc.capacity, 3);
    format_close(&f);
    expect_cache(&(bytes){file, n});
    make_folder_gone(folder);
}

/* Many shards, one of them without samples and first, twice: written, then read. */
Test(index_cache, the_same_with_and_without) {
    static const char *const options[] = {OPTIONS, TXT, "fields=txt,cls&index-cache=yes"};
    char pattern[MAKE_PATH_MAX];
    start("a.tar");
    make_tar("a.tar", 0);
    make_tar("b.tar", 13);
    make_tar("c.tar", 1);
    make_tar("d.tar", 25);
    for (size_t i = 0; i < COUNT(options); i++) {
        for (int turn = 0; turn < 2; turn++) {
            expect_right(&iter__format_tar, folder, options[i]);
            expect_right(&iter__format_tar, make_path(pattern, folder, "?.tar*"), options[i]);
            expect_right(&iter__format_tar, make_path(pattern, folder, "{d,b}.tar"), options[i]);
            cr_assert_eq(count_files(), 8);
        }
    }
    opened f;
    open_with(&iter__format_tar, folder, OPTIONS, &f);
    cr_assert_eq(f.desc.n_samples, 39);
    cr_assert_str_eq(f.desc.fields[0].name, "label");
    format_close(&f);
    make_folder_gone(folder);
}

/* Eight bytes a sample, whether walked or not, whatever a shard has. */
Test(index_cache, bytes_per_sample) {
    static const char *const options[] = {NULL, OPTIONS, OPTIONS};
    opened f;
    start("x.tar");
    make_tar("x.tar", 1);
    open_with(&iter__format_tar, data, NULL, &f);
    const uint64_t one = f.desc.index_bytes;
    format_close(&f);
    make_tar("x.tar", 31);
    for (size_t i = 0; i < COUNT(options); i++) {
        open_with(&iter__format_tar, data, options[i], &f);
        cr_assert_eq(f.desc.index_bytes, one + 8 * 30);
        format_close(&f);
    }
    make_folder_gone(folder);
}

/* When a cache is read, nothing is in memory twice. */
Test(index_cache, takes_no_memory_beside_the_index) {
    opened f;
    start("x.rec");
    make_rec("x.rec", 5000);
    const pid_t pid = fork(); /* a child, so that this process never scans the file */
    cr_assert_geq(pid, 0);
    if (pid == 0) {
        open_with(&iter__format_recordio, data, "header=no&index-cache=yes", &f);
        _exit(0);
    }
    cr_assert_eq(waitpid(pid, NULL, 0), pid);
    cr_assert(exists(cache));
    open_with(&iter__format_recordio, data, "header=no&index-cache=yes", &f);
    const uint64_t peak = (uint64_t)iter__alloc_held(ITER_ALLOC_HOST).peak;
    cr_assert_geq(f.desc.index_bytes, 8 * 5001);
    cr_assert_leq(peak, f.desc.index_bytes + 8192);
    format_close(&f);
    make_folder_gone(folder);
}

Test(index_cache, of_records) {
    char idx[MAKE_PATH_MAX];
    opened f;
    start("x.rec");
    make_rec("x.rec", 40);
    for (int turn = 0; turn < 2; turn++)
        expect_right(&iter__format_recordio, data, "header=no&index-cache=yes");
    const bytes want = load(cache);
    cr_assert_eq(want.n, HEADER + 8 * 41);
    store(cache, want.p, want.n - 1);
    expect_right(&iter__format_recordio, data, "header=no&index-cache=yes");
    expect_cache(&want);
    /* an .idx takes precedence; if it is requested, it is also written */
    open_with(&iter__format_recordio, data, "header=no&index-cache=yes&save-idx=yes", &f);
    format_close(&f);
    cr_assert(exists(make_path(idx, folder, "x.idx")));
    unlink(cache);
    expect_right(&iter__format_recordio, data, "header=no&index-cache=yes");
    cr_assert_not(exists(cache));
    free(want.p);
    make_folder_gone(folder);
}

/* ---- ignored --------------------------------------------------------------------------------- */

Test(index_cache, stale) {
    start("x.tar");
    make_tar("x.tar", 4);
    expect_right(&iter__format_tar, data, TXT);
    const bytes first = load(cache);

    set_time(data, 1600000000, 123456790); /* a nanosecond later */
    expect_right(&iter__format_tar, data, TXT);
    bytes now = load(cache);
    cr_assert_eq(now.n, first.n);
    cr_assert_neq(memcmp(now.p, first.p, now.n), 0);
    free(now.p);

    make_tar("x.tar", 5); /* the same time, another size */
    store(cache, first.p, first.n);
    expect_right(&iter__format_tar, data, TXT);
    now = load(cache);
    cr_assert_eq(now.n, first.n + 8);
    free(now.p);

    make_tar("x.tar", 4); /* the old data, with an index of other options */
    opened f;
    open_with(&iter__format_tar, data, "fields=cls&index-cache=yes", &f);
    format_close(&f);
    const bytes other = load(cache);
    cr_assert_eq(other.n, first.n);
    expect_replaced(other.p, other.n, TXT, &first);
    free(other.p);
    free(first.p);
    make_folder_gone(folder);
}

Test(index_cache, another_file_of_the_same_size_and_time) {
    opened f;
    start("x.tar");
    make_tar("x.tar", 4);
    open_with(&iter__format_tar, data, OPTIONS, &f);
    format_close(&f);
    const bytes before = load(cache);
    const size_t n = n_archive;
    n_archive = 0;
    add("t000.cls", "0"); /* a key of its own, which splits the first sample in two */
    make_file(folder, "x.tar", archive, n + 1024);
    set_time(data, 1600000000, 123456789);
    open_with(&iter__format_tar, data, OPTIONS, &f);
    cr_assert_eq(f.desc.n_samples, 5);
    format_close(&f);
    const bytes after = load(cache);
    cr_assert_eq(after.n, before.n + 8);
    free(before.p);
    free(after.p);
    make_folder_gone(folder);
}

Test(index_cache, cut_damaged_and_foreign) {
    start("x.tar");
    make_tar("x.tar", 3);
    expect_right(&iter__format_tar, data, TXT);
    const bytes right = load(cache);
    cr_assert_eq(right.n, HEADER + 8 * 4);
    uint8_t *wrong = malloc(right.n + 1);
    for (size_t n = 0; n < right.n; n++)
        expect_replaced(right.p, n, TXT, &right);
    for (size_t bit = 0; bit < 8 * right.n; bit++) {
        memcpy(wrong, right.p, right.n);
        wrong[bit / 8] ^= (uint8_t)(1 << bit % 8);
        expect_replaced(wrong, right.n, TXT, &right);
    }
    memcpy(wrong, right.p, right.n);
    wrong[right.n] = 0;
    expect_replaced(wrong, right.n + 1, TXT, &right);
    expect_replaced("0\t0\n1\t2048\n", 11, TXT, &right);
    expect_replaced(archive, n_archive, TXT, &right);
    free(wrong);
    free(right.p);
    make_folder_gone(folder);
}

/* Valid checksums over impossible contents. */
Test(index_cache, made_to_deceive) {
    static const struct {
        size_t at;
        uint64_t value;
        int n;
    } lies[] = {
        {8, 2, 4},                     /* of a later version */
        {8, 0, 4},                     /* of an earlier one */
        {16, 2, 4},                    /* of records */
        {20, 0, 4},                    /* of a file with other bytes */
        {24, 1, 8},                    /* other options */
        {32, 7167, 8},                 /* another size */
        {40, 1600000000123456788u, 8}, /* another time */
        {48, 2, 8},                    /* fewer samples */
        {48, 4, 8},                    /* more than the file has */
        {48, UINT64_MAX, 8},           /* n + 1 is 0 */
        {48, UINT64_MAX / 8, 8},       /* 8 * n wraps */
        {48, (uint64_t)1 << 61, 8},    /* 8 * n is 0 */
        {56, 7169, 8},                 /* a note above the file's size */
        {64, UINT64_MAX, 8},           /* the same for the largest text */
        {HEADER, 1, 8},                /* not the place of a header */
        {HEADER, UINT64_MAX - 511, 8}, /* above the next one */
        {HEADER + 8, 0, 8},            /* twice the same */
        {HEADER + 8, 4096, 8},         /* twice the same */
        {HEADER + 16, 1024, 8},        /* descending */
        {HEADER + 24, 4096, 8},        /* the last one ends at its beginning */
        {HEADER + 24, 4607, 8},        /* and within its header */
        {HEADER + 24, 7169, 8},        /* and after the file's end */
        {HEADER + 24, UINT64_MAX, 8},  /* far after it */
        {HEADER + 24, 0, 8},
    };
    uint8_t wrong[512];
    start("x.tar");
    make_tar("x.tar", 3);
    expect_right(&iter__format_tar, data, TXT);
    const bytes right = load(cache);
    for (size_t i = 0; i < COUNT(lies); i++) {
        memcpy(wrong, right.p, right.n);
        put(wrong + lies[i].at, lies[i].value, lies[i].n);
        put_crc(wrong, right.n);
        expect_replaced(wrong, right.n, TXT, &right);
    }
    free(right.p);
    make_folder_gone(folder);
}

/* If a cache is larger than the data file's samples could fill, it is refused before memory is
 * allocated. */
Test(index_cache, a_count_that_takes_memory) {
    uint8_t wrong[HEADER];
    start("x.tar");
    make_tar("x.tar", 3);
    expect_right(&iter__format_tar, data, TXT);
    const bytes right = load(cache);
    memcpy(wrong, right.p, HEADER);
    put(wrong + 48, 1 << 24, 8);
    store(cache, wrong, HEADER);
    cr_assert_eq(truncate(cache, HEADER + 8 * ((1 << 24) + 1)), 0);
    expect_right(&iter__format_tar, data, TXT);
    expect_cache(&right);
    cr_assert_lt(iter__alloc_held(ITER_ALLOC_HOST).peak, 1 << 20);
    free(right.p);
    make_folder_gone(folder);
}

/* If a file was just written, another write may not change its time: no cache yet. */
Test(index_cache, a_file_that_is_new_gets_none_yet) {
    start("x.tar");
    make_tar("x.tar", 3);
    set_time(data, (int64_t)time(NULL) + 1, 0);
    expect_right(&iter__format_tar, data, OPTIONS);
    cr_assert_eq(count_files(), 1);
    set_time(data, (int64_t)time(NULL) + 1000, 0); /* by another machine's clock */
    expect_right(&iter__format_tar, data, OPTIONS);
    cr_assert_eq(count_files(), 2);
    make_folder_gone(folder);
}

/* A file system may keep times that do not fit 64 bits of nanoseconds. */
Test(index_cache, times_that_are_far_away) {
    static const int64_t seconds[] = {-2000000000, 0, 9000000000, INT64_C(10413792000)};
    start("x.tar");
    for (size_t i = 0; i < sizeof(seconds) / sizeof(*seconds); i++) {
        make_tar("x.tar", 3);
        set_time(data, seconds[i], 1);
        unlink(cache);
        expect_right(&iter__format_tar, data, "index-cache=yes");
        cr_assert(exists(cache), "%lld s", (long long)seconds[i]);
        expect_right(&iter__format_tar, data, "index-cache=yes");
    }
    make_folder_gone(folder);
}

/* ---- if it cannot be kept -------------------------------------------------------------------- */

Test(index_cache, folder_that_cannot_be_written_to) {
    const bool is_root = geteuid() == 0;
    start("x.tar");
    make_tar("x.tar", 3);
    cr_assert_eq(chmod(folder, 0555), 0);
    if (is_root) cr_assert_eq(seteuid(65534), 0);
    expect_fails(data, OPTIONS, ITER_EIO, cache, "cannot be written: Permission denied");
    cr_assert_eq(count_files(), 1);
    if (is_root) cr_assert_eq(seteuid(0), 0);
    cr_assert_eq(chmod(folder, 0755), 0);
    expect_right(&iter__format_tar, data, OPTIONS);
    cr_assert_eq(chmod(folder, 0555), 0);
    if (is_root) cr_assert_eq(seteuid(65534), 0);
    expect_right(&iter__format_tar, data, OPTIONS); /* the cache exists: nothing is written */
    if (is_root) cr_assert_eq(seteuid(0), 0);
    cr_assert_eq(chmod(folder, 0755), 0);
    make_folder_gone(folder);
}

/* A folder in its place; a folder without write access. No file may be left. */
Test(index_cache, no_room_for_it) {
    start("x.tar");
    make_tar("x.tar", 3);
    make_subfolder(folder, "x.tar.iteridx");
    expect_fails(data, OPTIONS, ITER_EIO, cache, "Is a directory");
    cr_assert_eq(count_files(), 1);

    char path[64];
    const int fd = memfd_create("x", 0);
    cr_assert(fd >= 0 && write(fd, archive, n_archive) == (ssize_t)n_archive);
    const struct timespec old[2] = {{1, 1}, {1, 1}};
    cr_assert_eq(futimens(fd, old), 0);
    snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    expect_fails(path, OPTIONS, ITER_EIO, path, "index-cache: ");
    close(fd);
    make_folder_gone(folder);
}

/* Temporary files of a process that was killed. */
Test(index_cache, names_that_are_taken) {
    char name[64];
    start("x.tar");
    make_tar("x.tar", 3);
    for (int i = 0; i < 3; i++) {
        snprintf(name, sizeof(name), ".x.tar.iteridx.%ld-%d.tmp", (long)getpid(), i);
        make_file(folder, name, "half", 4);
    }
    expect_right(&iter__format_tar, data, OPTIONS);
    cr_assert_eq(count_files(), 5);
    make_folder_gone(folder);
}

Test(index_cache, several_processes_at_once) {
    start("x.tar");
    make_tar("x.tar", 20);
    expect_right(&iter__format_tar, data, OPTIONS);
    const bytes want = load(cache);
    for (int child = 0; child < 4; child++) {
        const pid_t pid = fork();
        cr_assert_geq(pid, 0);
        if (pid > 0) continue;
        int bad = 0;
        for (int i = 0; i < 100; i++) {
            opened f;
            if (i % 3 == child % 3) unlink(cache);
            if (i % 7 == child) {
                const int fd = open(cache, O_WRONLY);
                if (fd >= 0 && pwrite(fd, "damage", 6, 130) != 6) bad++;
                if (fd >= 0) close(fd);
            }
            bad += format_open(&iter__format_tar, data, OPTIONS, &f, NULL) != ITER_OK;
            if (!bad) bad += f.desc.n_samples != 20 || format_fault(&f, 100) != NULL;
            format_close(&f);
        }
        _exit(bad ? 1 : 0);
    }
    for (int child = 0; child < 4; child++) {
        int status = -1;
        cr_assert_geq(wait(&status), 0);
        cr_assert_eq(status, 0);
    }
    expect_right(&iter__format_tar, data, OPTIONS);
    expect_cache(&want);
    cr_assert_eq(count_files(), 2);
    free(want.p);
    make_folder_gone(folder);
}

/* 0: no cache; 1: a valid one; 2: one to be ignored. */
Test(index_cache, every_allocation_failure_is_clean) {
    start("x.tar");
    make_tar("x.tar", 20);
    make_rec("x.rec", 20);
    char rec[MAKE_PATH_MAX], rec_cache[MAKE_PATH_MAX];
    make_path(rec, folder, "x.rec");
    make_path(rec_cache, folder, "x.rec.iteridx");
    for (int way = 0; way < 6; way++) {
        const bool tar = way < 3;
        const char *path = tar ? data : rec, *kept = tar ? cache : rec_cache;
        for (long n = 0;; n++) {
            opened f;
            iter_error err = {0};
            if (way % 3 == 0) unlink(kept);
            if (way % 3 == 2) store(kept, "", 1);
            iter__alloc_fail_after = n;
            const iter_status s =
                format_open(tar ? &iter__format_tar : &iter__format_recordio, path,
                            tar ? TXT : "header=no&index-cache=yes", &f, &err);
            const bool failed = iter__alloc_fail_after < 0;
            iter__alloc_fail_after = -1;
            if (s == ITER_OK) cr_assert_eq(f.desc.n_samples, 20);
            format_close(&f);
            cr_assert_eq(iter__alloc_live(), 0, "leak when allocation %ld fails", n);
            cr_assert_eq(count_files(), 2 + exists(cache) + exists(rec_cache));
            if (s == ITER_OK && !failed) break;
            if (s < 0) cr_assert(s == ITER_ENOMEM && err.message[0], "%s", err.message);
        }
    }
    make_folder_gone(folder);
}

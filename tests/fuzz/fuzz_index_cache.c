/*
 * fuzz_index_cache.c - any bytes as the index that is kept beside an archive or a record file.
 *
 * Input: a byte of flags, then the cache file. 1: its first 48 bytes are replaced by those that the
 * data file needs, except the checksum; 2: the count is made to fit the size; 4: the checksum is
 * made right; 8: of records. Property: if the bytes do not match the data file or the checksum is
 * wrong, they are replaced, and open gives what it gives without a cache. If a cache is used,
 * extents follow one another within the file, and each sample decodes or fails with a reason.
 */
#include <fcntl.h>
#include <sys/stat.h>
#include <zlib.h>

#include "tests/support/builtin_tables.h"
#include "tests/support/format_decode.h"
#include "tests/support/fuzz_format.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define HEADER   128u
#define FILE_MAX 4096u

typedef struct kept {
    const iter_format_ops *ops;
    char path[MAKE_PATH_MAX], cache[MAKE_PATH_MAX + 16];
    const char *without, *with;
    uint8_t right[FILE_MAX]; /* the cache as it should be */
    size_t n_right;
    uint64_t n_samples, identity;
} kept;

static char folder[MAKE_PATH_MAX];
static kept of_tar = {.ops = &iter__format_tar,
                      .without = "fields=cls,txt",
                      .with = "fields=cls,txt&index-cache=yes"};
static kept of_records = {
    .ops = &iter__format_recordio, .without = "header=no", .with = "header=no&index-cache=yes"};
static decoded row;

static size_t read_all(const char *path, uint8_t out[FILE_MAX]) {
    const int fd = open(path, O_RDONLY);
    FUZZ_REQUIRE(fd >= 0);
    const ssize_t n = read(fd, out, FILE_MAX);
    FUZZ_REQUIRE(n >= 0 && (size_t)n < FILE_MAX);
    close(fd);
    return (size_t)n;
}

static void write_all(const char *path, const uint8_t *p, size_t n) {
    const int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    FUZZ_REQUIRE(fd >= 0 && write(fd, p, n) == (ssize_t)n);
    close(fd);
}

/* ---- the two data files ---------------------------------------------------------------------- */

static void gone(void) {
    make_folder_gone(folder);
}

static void put_member(uint8_t *header, int sample, const char *ending, const char *text) {
    unsigned sum = 0;
    snprintf((char *)header, 100, "s%d.%s", sample, ending);
    snprintf((char *)header + 124, 12, "%011o", (unsigned)strlen(text));
    header[156] = '0';
    memcpy(header + 257, "ustar\00000", 8);
    memset(header + 148, ' ', 8);
    for (int i = 0; i < 512; i++)
        sum += header[i];
    snprintf((char *)header + 148, 8, "%06o", sum & 0777777u);
    memcpy(header + 512, text, strlen(text));
}

static void make_right(kept *k, const char *name, const uint8_t *bytes, size_t n) {
    static const struct timespec old[2] = {{1600000000, 123456789}, {1600000000, 123456789}};
    opened f;
    make_file(folder, name, bytes, n);
    make_path(k->path, folder, name);
    snprintf(k->cache, sizeof(k->cache), "%s.iteridx", k->path);
    FUZZ_REQUIRE(utimensat(AT_FDCWD, k->path, old, 0) == 0);
    FUZZ_REQUIRE(format_open(k->ops, k->path, k->without, &f, NULL) == ITER_OK);
    k->n_samples = f.desc.n_samples;
    k->identity = f.desc.identity;
    format_close(&f);
    FUZZ_REQUIRE(format_open(k->ops, k->path, k->with, &f, NULL) == ITER_OK);
    format_close(&f);
    k->n_right = read_all(k->cache, k->right);
}

static void prepare(void) {
    static uint8_t tar[4 * 2048 + 1024], rec[16 * 12];
    if (access("/dev/shm", W_OK) == 0) setenv("TMPDIR", "/dev/shm", 1); /* synced at no cost */
    make_folder(folder);
    atexit(gone);
    for (int i = 0; i < 4; i++) {
        put_member(tar + 2048 * i, i, "cls", "7");
        put_member(tar + 2048 * i + 1024, i, "txt", "some text");
    }
    for (uint32_t i = 0; i < 16; i++) {
        const uint32_t words[3] = {0xced7230a, 4, i};
        memcpy(rec + 12 * (size_t)i, words, 12);
    }
    make_right(&of_tar, "x.tar", tar, sizeof(tar));
    make_right(&of_records, "x.rec", rec, sizeof(rec));
}

/* ---- the cache ------------------------------------------------------------------------------- */

static void put(uint8_t *p, uint64_t value, int n) {
    for (int i = 0; i < n; i++)
        p[i] = (uint8_t)(value >> 8 * i);
}

/* Mends the file by the flags; returns whether it is now one that may be used. */
static int finish(const kept *k, uint8_t flags, uint8_t *file, size_t n) {
    if (n < HEADER) return 0;
    if (flags & 1) {
        memcpy(file, k->right, 12);
        memcpy(file + 16, k->right + 16, 32);
    }
    if ((flags & 2) && n >= HEADER + 8) put(file + 48, (n - HEADER) / 8 - 1, 8);
    uint8_t sum[4];
    put(sum, crc32(0, file + 16, (unsigned)n - 16), 4);
    if (flags & 4) memcpy(file + 12, sum, 4);
    return memcmp(file, k->right, 12) == 0 && memcmp(file + 16, k->right + 16, 32) == 0 &&
           memcmp(file + 12, sum, 4) == 0;
}

static void check_samples(const opened *f) {
    for (uint64_t i = 0; i < f->desc.n_samples; i++) {
        for (int field = 0; field < f->desc.n_fields; field++) {
            iter_error err = {0};
            const iter_status s = format_decode(f, i, field, &row, &err);
            FUZZ_REQUIRE(s == ITER_OK || (s == ITER_EFORMAT && err.message[0]));
        }
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static uint8_t file[FILE_MAX], after[FILE_MAX];
    if (!folder[0]) prepare();
    if (size < 1 || size > 1024) return 0;
    const kept *k = data[0] & 8 ? &of_records : &of_tar;
    const size_t n = size - 1;
    opened f;
    memcpy(file, data + 1, n);
    const int maybe = finish(k, data[0], file, n);
    write_all(k->cache, file, n);
    const int open = fuzz_open(k->ops, k->path, k->with, folder, &f);
    const size_t n_after = read_all(k->cache, after);
    const int replaced = n_after == k->n_right && memcmp(after, k->right, n_after) == 0;
    FUZZ_REQUIRE(replaced || (n_after == n && memcmp(after, file, n) == 0));
    FUZZ_REQUIRE(maybe || (open && replaced));
    if (open) {
        FUZZ_REQUIRE(!replaced ||
                     (f.desc.n_samples == k->n_samples && f.desc.identity == k->identity));
        check_samples(&f);
        fuzz_close(&f);
    }
    return 0;
}

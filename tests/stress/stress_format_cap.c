/*
 * stress_format_cap.c - every built-in format obeys a memory limit. Over a set of four times the
 * limit, the process must stay within the limit and SPARE; or opening must refuse with numbers,
 * within the same memory.
 *
 * The table must have a case for each format that iter_builtin_format() lists; if a new one has
 * none, the test fails.
 *
 * Each case runs in a process of its own: this program, with the case, its files and the limit as
 * arguments. The memory that it had before the first call does not count.
 */
#include <zlib.h>

#include "iter/core/crc32c.h"
#include "tests/support/drive.h"
#include "tests/support/expect.h"
#include "tests/support/make_data.h"
#include "tests/support/resident.h"

#define MIB       ((size_t)1 << 20)
#define SPARE     (16 * MIB)
#define SET_BYTES (64 * MIB) /* a quarter of it plus SPARE is well below all of it */

/* ---- Sets ------------------------------------------------------------------------------------ */

static FILE *create(const char *folder, const char *name) {
    char path[MAKE_PATH_MAX];
    FILE *file = fopen(make_path(path, folder, name), "wb");
    if (!file) perror(path), exit(1);
    return file;
}

/* Writes n bytes that differ from MiB to MiB. */
static void put_bytes(FILE *file, size_t n) {
    static uint8_t block[1 << 16];
    for (size_t done = 0; done < n; done += sizeof(block)) {
        memset(block, (int)(done >> 20 & 0x3f), sizeof(block));
        fwrite(block, 1, n - done < sizeof(block) ? n - done : sizeof(block), file);
    }
}

static uint64_t make_cifar10(const char *folder) {
    const uint32_t n = SET_BYTES / 3073;
    make_cifar(folder, "set", 0, n, 1);
    return n * 3073ull;
}

static uint64_t make_cifar100(const char *folder) {
    const uint32_t n = SET_BYTES / 3074;
    make_cifar(folder, "set", 0, n, 2);
    return n * 3074ull;
}

enum { IDX_SIDE = 64 };

static uint64_t make_idx(const char *folder, unsigned code, size_t width) {
    uint8_t header[64];
    const uint32_t n = (uint32_t)(SET_BYTES / (IDX_SIDE * IDX_SIDE * width));
    const size_t head = make_idx_header(header, code, 3, (const uint32_t[]){n, IDX_SIDE, IDX_SIDE});
    FILE *file = create(folder, "set");
    fwrite(header, 1, head, file);
    put_bytes(file, n * IDX_SIDE * IDX_SIDE * width);
    fclose(file);
    return n * IDX_SIDE * IDX_SIDE * width;
}

static uint64_t make_idx_bytes(const char *folder) {
    return make_idx(folder, 0x08, 1);
}

static uint64_t make_idx_floats(const char *folder) {
    return make_idx(folder, 0x0d, 4);
}

static uint64_t make_idx_gzip(const char *folder) {
    char path[MAKE_PATH_MAX], block[1 << 16];
    const uint64_t bytes = make_idx(folder, 0x08, 1);
    FILE *plain = fopen(make_path(path, folder, "set"), "rb");
    gzFile zipped = gzopen(make_path(path, folder, "set.gz"), "wb1");
    for (size_t n; (n = fread(block, 1, sizeof(block), plain)) > 0;)
        gzwrite(zipped, block, (unsigned)n);
    gzclose(zipped);
    fclose(plain);
    return bytes;
}

enum { REVIEWS = 800, REVIEW_WORDS = (int)(SET_BYTES / REVIEWS / 9) };

static void make_reviews(const char *folder, int n, int n_words) {
    char path[MAKE_PATH_MAX], name[32];
    make_subfolder(folder, "train");
    make_subfolder(make_path(path, folder, "train"), "neg");
    make_subfolder(path, "pos");
    for (int i = 0; i < n; i++) {
        snprintf(name, sizeof(name), "train/%s/%d.txt", i % 2 ? "neg" : "pos", i);
        FILE *file = create(folder, name);
        for (int k = 0; k < n_words; k++)
            fprintf(file, "w%07d ", (i * 7 + k) % 5000);
        fclose(file);
    }
}

/* Writes {"w0000000":0, ...}; returns its bytes. */
static uint64_t make_words(const char *folder, int n) {
    FILE *file = create(folder, "imdb_word_index.json");
    for (int i = 0; i < n; i++)
        fprintf(file, "%c\"w%07d\":%d", i ? ',' : '{', i, i);
    fputc('}', file);
    const long bytes = ftell(file);
    fclose(file);
    return (uint64_t)bytes;
}

static uint64_t make_imdb(const char *folder) {
    make_words(folder, 5000);
    make_reviews(folder, REVIEWS, REVIEW_WORDS);
    return REVIEWS * REVIEW_WORDS * 9ull;
}

static uint64_t make_imdb_words(const char *folder) {
    make_reviews(folder, 4, 10);
    return make_words(folder, 1500000);
}

static uint64_t make_npy(const char *folder, const char *type, size_t width, const char *fortran) {
    uint8_t header[256];
    char text[128];
    const uint64_t n = SET_BYTES / (4096 * width);
    snprintf(text, sizeof(text), "{'descr': '%s', 'fortran_order': %s, 'shape': (%d, 4096), }",
             type, fortran, (int)n);
    FILE *file = create(folder, "set.npy");
    fwrite(header, 1, make_npy_header(header, text), file);
    put_bytes(file, n * 4096 * width);
    fclose(file);
    return n * 4096 * width;
}

static uint64_t make_npy_plain(const char *folder) {
    return make_npy(folder, "<f4", 4, "False");
}

static uint64_t make_npy_swapped(const char *folder) {
    return make_npy(folder, ">f4", 4, "False");
}

static uint64_t make_npy_fortran(const char *folder) {
    return make_npy(folder, "|u1", 1, "True");
}

enum { PICTURE_SIDE = 300, PICTURES = (int)(SET_BYTES / (PICTURE_SIDE * PICTURE_SIDE * 3)) };

static void put_chunk(uint8_t **at, const char *type, const uint8_t *data, size_t n) {
    uint8_t *p = *at;
    const uint32_t length = (uint32_t)n;
    for (int i = 0; i < 4; i++)
        p[i] = (uint8_t)(length >> (24 - 8 * i));
    memcpy(p + 4, type, 4);
    memcpy(p + 8, data, n);
    const uint32_t sum = (uint32_t)crc32(0, p + 4, (uInt)n + 4);
    for (int i = 0; i < 4; i++)
        p[8 + n + (size_t)i] = (uint8_t)(sum >> (24 - 8 * i));
    *at += n + 12;
}

/* Makes a PNG of PICTURE_SIDE squared whose pixels are not compressed. The caller must free()
 * it. */
static uint8_t *make_picture(size_t *out_size) {
    static const uint8_t head[13] = {0, 0, PICTURE_SIDE >> 8, PICTURE_SIDE & 255,
                                     0, 0, PICTURE_SIDE >> 8, PICTURE_SIDE & 255,
                                     8, 2};
    const size_t n = (size_t)PICTURE_SIDE * (3 * PICTURE_SIDE + 1);
    uint8_t *rows = calloc(1, n), *packed = malloc(2 * n), *png = malloc(2 * n), *at = png + 8;
    uLongf n_packed = 2 * n;
    compress2(packed, &n_packed, rows, n, 0);
    memcpy(png, "\x89PNG\r\n\x1a\n", 8);
    put_chunk(&at, "IHDR", head, 13);
    put_chunk(&at, "IDAT", packed, n_packed);
    put_chunk(&at, "IEND", head, 0);
    free(rows);
    free(packed);
    *out_size = (size_t)(at - png);
    return png;
}

static uint64_t make_folder_of_pictures(const char *folder) {
    char name[32];
    size_t size;
    uint8_t *picture = make_picture(&size);
    make_subfolder(folder, "set");
    for (int c = 0; c < 2; c++) {
        snprintf(name, sizeof(name), "set/class%d", c);
        make_subfolder(folder, name);
    }
    for (int i = 0; i < PICTURES; i++) {
        snprintf(name, sizeof(name), "set/class%d/%d.png", i % 2, i);
        make_file(folder, name, picture, size);
    }
    free(picture);
    return PICTURES * (uint64_t)size;
}

static void put_u32(FILE *file, uint32_t value) {
    for (int i = 0; i < 4; i++)
        fputc((int)(value >> (8 * i) & 255), file);
}

static uint64_t make_records(const char *folder) {
    static const uint8_t header[24];
    size_t size;
    uint8_t *picture = make_picture(&size);
    FILE *file = create(folder, "set.rec");
    for (int i = 0; i < PICTURES; i++) {
        put_u32(file, 0xced7230a);
        put_u32(file, (uint32_t)(sizeof(header) + size));
        fwrite(header, 1, sizeof(header), file);
        fwrite(picture, 1, size, file);
        fwrite(header, 1, -size % 4, file);
    }
    fclose(file);
    free(picture);
    return PICTURES * (uint64_t)size;
}

/* Writes a member of a tar archive (POSIX.1-1988 ustar), padded to blocks of 512 bytes. */
static void put_member(FILE *file, const char *name, const void *bytes, size_t n) {
    char block[512] = {0};
    unsigned sum = 0;
    snprintf(block, 100, "%s", name);
    snprintf(block + 100, 8, "%07o", 0644u);
    snprintf(block + 124, 12, "%011zo", n);
    snprintf(block + 136, 12, "%011o", 0u);
    memset(block + 148, ' ', 8);
    block[156] = '0';
    memcpy(block + 257,
           "ustar\0"
           "00",
           8);
    for (int i = 0; i < 512; i++)
        sum += (unsigned char)block[i];
    snprintf(block + 148, 8, "%06o", sum);
    fwrite(block, 1, 512, file);
    fwrite(bytes, 1, n, file);
    memset(block, 0, 512);
    fwrite(block, 1, -n % 512, file);
}

static uint64_t make_tar(const char *folder) {
    char name[32];
    size_t size;
    uint8_t *picture = make_picture(&size);
    FILE *file = create(folder, "set.tar");
    for (int i = 0; i < PICTURES; i++) {
        snprintf(name, sizeof(name), "%d.png", i);
        put_member(file, name, picture, size);
        snprintf(name, sizeof(name), "%d.cls", i);
        put_member(file, name, "1", 1);
    }
    put_bytes(file, 1024);
    fclose(file);
    free(picture);
    return PICTURES * (uint64_t)size;
}

/* The head of a field of n bytes: its number, and the length in four bytes. */
static size_t put_head(uint8_t *out, int number, size_t n) {
    out[0] = (uint8_t)(number << 3 | 2);
    for (int i = 0; i < 4; i++)
        out[1 + i] = (uint8_t)((n >> 7 * i & 127) | (i < 3 ? 128 : 0));
    return 5;
}

static void put_sum(FILE *file, const uint8_t *bytes, size_t n) {
    const uint32_t crc = iter__crc32c(bytes, n);
    put_u32(file, (crc >> 15 | crc << 17) + 0xa282ead8u);
}

/* tf.Examples with the one feature "image". */
static uint64_t make_tfrecords(const char *folder) {
    size_t size, at = 0;
    uint8_t *picture = make_picture(&size);
    uint8_t *example = malloc(size + 64);
    at += put_head(example + at, 1, size + 27); /* features */
    at += put_head(example + at, 1, size + 22); /* an entry: its key and its value */
    memcpy(example + at, "\x0a\x05image", 7);
    at += 7;
    at += put_head(example + at, 2, size + 10); /* a feature */
    at += put_head(example + at, 1, size + 5);  /* a list of strings */
    at += put_head(example + at, 1, size);
    memcpy(example + at, picture, size);
    at += size;
    FILE *file = create(folder, "set.tfrecord");
    const uint8_t length[8] = {(uint8_t)at, (uint8_t)(at >> 8), (uint8_t)(at >> 16)};
    for (int i = 0; i < PICTURES; i++) {
        fwrite(length, 1, 8, file);
        put_sum(file, length, 8);
        fwrite(example, 1, at, file);
        put_sum(file, example, at);
    }
    fclose(file);
    free(picture);
    free(example);
    return PICTURES * (uint64_t)size;
}

static void put_u64(FILE *file, uint64_t value) {
    put_u32(file, (uint32_t)value);
    put_u32(file, (uint32_t)(value >> 32));
}

static uint64_t make_tokens(const char *folder) {
    FILE *file = create(folder, "set.bin");
    put_bytes(file, SET_BYTES);
    fclose(file);
    return SET_BYTES;
}

/* A set as Megatron writes it: documents of n tokens of one byte each. */
static uint64_t make_indexed(const char *folder, uint32_t n) {
    const uint32_t n_documents = (uint32_t)(SET_BYTES / n);
    FILE *file = create(folder, "set.idx");
    make_tokens(folder);
    fwrite("MMIDIDX\0", 1, 9, file);
    put_u64(file, 1);
    fputc(1, file);
    put_u64(file, n_documents);
    put_u64(file, n_documents + 1);
    for (uint32_t i = 0; i < n_documents; i++)
        put_u32(file, n);
    for (uint32_t i = 0; i < n_documents; i++)
        put_u64(file, (uint64_t)i * n);
    for (uint32_t i = 0; i <= n_documents; i++)
        put_u64(file, i);
    fclose(file);
    return SET_BYTES;
}

static uint64_t make_documents(const char *folder) {
    return make_indexed(folder, 4096);
}

/* 5 bytes of index for 2 bytes of tokens. */
static uint64_t make_small_documents(const char *folder) {
    return make_indexed(folder, 2);
}

/* Rows of 4 KiB: 1,024 columns. */
static uint64_t make_table(const char *folder) {
    FILE *file = create(folder, "set.csv");
    const uint64_t n_rows = SET_BYTES / 4096;
    for (uint64_t row = 0; row < n_rows; row++)
        for (int column = 0; column < 1024; column++)
            fprintf(file, "%03d%c", (int)((row + (uint64_t)column) % 1000),
                    column < 1023 ? ',' : '\n');
    fclose(file);
    return n_rows * 4096;
}

/* Lines of 4 KiB, all of them `line`, filled up with blanks. */
static uint64_t make_lines(const char *folder, const char *name, const char *line) {
    FILE *file = create(folder, name);
    for (size_t row = 0; row < SET_BYTES / 4096; row++)
        fprintf(file, "%-4095s\n", line);
    fclose(file);
    return SET_BYTES;
}

static uint64_t make_libsvm(const char *folder) {
    return make_lines(folder, "set.libsvm", "1 1:2 7:0.5 1000:3");
}

static uint64_t make_jsonl(const char *folder) {
    return make_lines(folder, "set.jsonl", "{\"text\": \"some words\", \"label\": 1}");
}

static uint64_t make_text(const char *folder) {
    return make_lines(folder, "set.txt", "some words");
}

/* 8 bytes of index for 2 bytes of a row. */
static uint64_t make_narrow_table(const char *folder) {
    FILE *file = create(folder, "set.csv");
    for (size_t row = 0; row < SET_BYTES / 2; row++)
        fwrite("1\n", 1, 2, file);
    fclose(file);
    return SET_BYTES;
}

#define SYNTHETIC "?n=4100&shape=4096&dtype=f32&classes=0"

static uint64_t make_nothing(const char *folder) {
    (void)folder;
    return 4100 * 4096 * 4;
}

/* ---- Cases ----------------------------------------------------------------------------------- */

#define CROP "center-crop:64 | to:f32,nchw"

static const struct {
    const char *format, *title;
    uint64_t (*make)(const char *folder); /* returns the bytes of the set */
    /* of the spec, after the folder; NULL = without it; in braces: all of it, @ is the folder */
    const char *rest;
    const char *chain;
    bool refused; /* opening must fail: the format cannot serve it in pieces */
} cases[] = {
    {"cifar10", "cifar10", make_cifar10, "/set", NULL, false},
    {"cifar100", "cifar100", make_cifar100, "/set", NULL, false},
    {"mnist", "IDX of bytes", make_idx_bytes, "/set", NULL, false},
    {"mnist", "IDX of floats", make_idx_floats, "/set", NULL, false},
    {"mnist", "IDX, gzipped", make_idx_gzip, "/set.gz", NULL, true},
    {"imdb", "imdb", make_imdb, "", NULL, false},
    {"imdb", "imdb, a large vocabulary", make_imdb_words, "\"?num-words=0", NULL, true},
    {"npy", "npy", make_npy_plain, "/set.npy", NULL, false},
    {"npy", "npy of the other byte order", make_npy_swapped, "/set.npy", NULL, false},
    {"npy", "npy in Fortran order", make_npy_fortran, "/set.npy", NULL, true},
    {"folder", "folder", make_folder_of_pictures, "/set", CROP, false},
    {"recordio", "recordio", make_records, "/set.rec", CROP, false},
    {"tar", "tar", make_tar, "/set.tar", CROP, false},
    {"tfrecord", "tfrecord", make_tfrecords, "/set.tfrecord\"?fields=data:image", CROP, false},
    {"tokens", "tokens", make_tokens, "/set.bin", NULL, false},
    {"tokens", "tokens, documents", make_documents, "/set.idx\"?documents=keep", NULL, false},
    {"tokens", "tokens, small documents", make_small_documents,
     "/set.idx\"?documents=keep&length=1", NULL, true},
    {"mix", "mix", make_tokens, "{2 tokens:@/set.bin; 1 tokens:@/set.bin}", NULL, false},
    {"pack", "pack", make_documents, "{tokens:@/set.idx?documents=whole}?length=512", NULL, false},
    {"csv", "csv", make_table, "/set.csv", NULL, false},
    {"csv", "csv, narrow rows", make_narrow_table, "/set.csv", NULL, true},
    {"libsvm", "libsvm", make_libsvm, "/set.libsvm\"?features=1000", NULL, false},
    {"jsonl", "jsonl", make_jsonl, "/set.jsonl\"?label=label&maxlen=64", NULL, false},
    {"text", "text", make_text, "/set.txt", "pad-batch:4096", false},
    {"synthetic", "synthetic", make_nothing, NULL, NULL, false},
};

enum { CASES = sizeof(cases) / sizeof(cases[0]) };

static void run_loader(iter_dataset *data, const char *chain_text, uint64_t limit) {
    iter_loader_options opt = ITER_LOADER_OPTIONS_INIT;
    iter_error err;
    iter_loader *loader;
    iter_chain *chain = chain_text ? drive_chain(chain_text) : NULL;
    opt.batch_size = 16;
    opt.workers = 2;
    opt.shuffle = ITER_SHUFFLE_FULL;
    opt.memory.limit = limit;
#ifndef ITER_HAVE_PNG
    opt.faults.on_error = ITER_ON_ERROR_BLANK;
#endif
    if (EXPECT_OK(iter_dataloader_create(data, chain, &opt, &loader, &err), &err)) {
        drive_run(loader, 1);
        iter_loader_unref(loader);
    }
    iter_chain_unref(chain);
}

static int run_case(int i, const char *folder, uint64_t limit) {
    const size_t before = resident("VmRSS:");
    char spec[2 * MAKE_PATH_MAX + 128], due[128];
    iter_dataset_options options = ITER_DATASET_OPTIONS_INIT;
    iter_error err;
    iter_dataset *data;
    const char *rest = cases[i].rest;
    if (rest && rest[0] == '{') {
        char *to = spec + sprintf(spec, "%s:", cases[i].format);
        for (; *rest; rest++)
            to += *rest == '@' ? sprintf(to, "%s", folder) : (*to = *rest, 1);
        *to = 0;
    } else if (!rest) {
        snprintf(spec, sizeof(spec), "%s:" SYNTHETIC, cases[i].format);
    } else {
        const char *end = strchr(rest, '"') ? "" : "\"";
        snprintf(spec, sizeof(spec), "%s:\"%s%s%s", cases[i].format, folder, rest, end);
    }
    options.memory_limit = limit;
    const iter_status status = iter_dataset_open_with(spec, &options, &data, &err);
    if (cases[i].refused) {
        snprintf(due, sizeof(due), "%s: memory_limit of %llu bytes is too small, ", cases[i].format,
                 (unsigned long long)limit);
        EXPECT_ERROR(status, ITER_ENOMEM, &err, due);
        EXPECT(strstr(err.message, " or more would do: "));
        EXPECT(strstr(err.message, folder));
    } else if (EXPECT_OK(status, &err)) {
        run_loader(data, cases[i].chain, limit);
        iter_dataset_unref(data);
    }
    const size_t most = resident("VmHWM:") - before;
    printf("%-28s %5.1f MiB at most, the limit is %.1f%s\n", cases[i].title, (double)most / MIB,
           (double)limit / MIB, cases[i].refused ? "; refused" : "");
    EXPECT(before > 0);
    EXPECT(most <= limit + SPARE);
    return EXPECT_DONE();
}

/* ---- main ------------------------------------------------------------------------------------ */

static void expect_a_case_for_each_format(void) {
    const iter_format_ops *format;
    for (int f = 0; (format = iter_builtin_format(f)); f++) {
        int n = 0;
        for (int i = 0; i < CASES; i++)
            n += strcmp(cases[i].format, format->base.name) == 0;
        if (n == 0) fprintf(stderr, "format %s has no case\n", format->base.name);
        EXPECT(n > 0);
    }
}

int main(int argc, char **argv) {
    if (!RESIDENT_IS_KNOWN) SKIP("what is resident means nothing under a sanitizer");
    if (argc == 4) return run_case(atoi(argv[1]), argv[2], strtoull(argv[3], NULL, 10));
    expect_a_case_for_each_format();
    for (int i = 0; i < CASES; i++) {
        char folder[MAKE_PATH_MAX], number[16], limit[32];
        make_folder(folder);
        snprintf(limit, sizeof(limit), "%llu", (unsigned long long)cases[i].make(folder) / 4);
        snprintf(number, sizeof(number), "%d", i);
        EXPECT(run_alone(number, folder, limit) == 0);
        make_folder_gone(folder);
    }
    return EXPECT_DONE();
}

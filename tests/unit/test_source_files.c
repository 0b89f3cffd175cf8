/*
 * test_source_files.c - every source that reads files must give the bytes that a plain pread gives,
 * whatever happens to the files.
 *
 * Each case runs for each way of reading: the ring and pread, kept files and files opened as they
 * are read, the page cache and O_DIRECT. If this machine lacks a way, it is skipped with a message.
 */
#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "iter/core/alloc.h"
#include "loaders/sources/source_files.h"
#include "tests/support/make_data.h"
#include "tests/support/source_drive.h"

TestSuite(source_files, .timeout = 280);

typedef struct way {
    char source[8];
    int32_t o_direct;
    int32_t many; /* more files than are kept open */
    int32_t arena;
} way;

static way ways[] = {
    {"pread", 0, 0, 0}, {"pread", 0, 1, 0}, {"pread", 1, 0, 0}, {"pread", 1, 1, 0},
    {"ring", 0, 0, 0},  {"ring", 0, 1, 0},  {"ring", 1, 0, 0},  {"ring", 1, 1, 0},
    {"ring", 0, 0, 1},  {"ring", 0, 1, 1},  {"ring", 1, 0, 1},
};

#define EVERY_WAY(name)                                                      \
    ParameterizedTestParameters(source_files, name) {                        \
        return cr_make_param_array(way, ways, sizeof ways / sizeof ways[0]); \
    }                                                                        \
    ParameterizedTest(way *w, source_files, name)

#define N_REAL      40u /* files with content */
#define N_MANY      300u
#define ARENA_BYTES ((size_t)1 << 20)

typedef struct fixture {
    char folder[MAKE_PATH_MAX];
    uint64_t n_files;
    iter_file *files;
    char (*paths)[MAKE_PATH_MAX];
    uint8_t *arena;
    source_drive drive;
} fixture;

static uint64_t random_state;

static uint32_t random_below(uint32_t n) {
    random_state = random_state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)((random_state >> 33) % n);
}

static size_t size_of(uint64_t file) {
    static const size_t sizes[] = {0, 1, 511, 4096, 4097, 300000, 8192, 100, 65536, 70001};
    return sizes[file % 10];
}

/* Content differs in every file and place. Skips the test if the build lacks the source. */
static void make_files(fixture *f, const way *w) {
    if (source_named(w->source) == NULL) cr_skip_test("this build has no source \"%s\"", w->source);
    make_folder(f->folder);
    f->n_files = w->many ? N_MANY : N_REAL;
    f->files = calloc(f->n_files, sizeof *f->files);
    f->paths = calloc(f->n_files, sizeof *f->paths);
    uint8_t *bytes = malloc(300000);
    for (uint64_t i = 0; i < f->n_files; i++) {
        char name[32];
        snprintf(name, sizeof name, "%03u", (unsigned)i);
        for (size_t j = 0; j < size_of(i); j++)
            bytes[j] = (uint8_t)(i * 31 + j * 7 + j / 256);
        make_file(f->folder, name, bytes, size_of(i));
        f->files[i].path = make_path(f->paths[i], f->folder, name);
        f->files[i].bytes = size_of(i);
    }
    free(bytes);
}

static void open_source(fixture *f, const way *w, uint32_t depth) {
    if (w->arena && f->arena == NULL) f->arena = iter__map(ARENA_BYTES);
    const iter_source_config config = {.files = f->files,
                                       .n_files = f->n_files,
                                       .depth = depth,
                                       .o_direct = w->o_direct,
                                       .arena = f->arena,
                                       .arena_bytes = f->arena ? ARENA_BYTES : 0};
    const iter_status status = source_drive_open(&f->drive, source_named(w->source), &config);
    if (status == ITER_EUNSUPPORTED) cr_skip_test("%s", f->drive.err.message);
    cr_assert_eq(status, ITER_OK, "%s", f->drive.err.message);
}

static void begin(fixture *f, const way *w, uint32_t depth) {
    memset(f, 0, sizeof *f);
    random_state = 42;
    make_files(f, w);
    open_source(f, w, depth);
}

static void finish(fixture *f) {
    source_drive_close(&f->drive);
    if (f->arena) iter__unmap(f->arena, ARENA_BYTES);
    make_folder_gone(f->folder);
    free(f->files);
    free(f->paths);
    cr_assert_eq(iter__alloc_live(), 0);
}

/* Makes random parts in `memory` for a read of about `size` bytes, sometimes at page boundaries.
 * Returns where they end. */
static size_t make_parts(iter_read *read, iter_iovec *parts, uint8_t *memory, size_t size) {
    size_t at = random_below(2) ? 0 : random_below(64);
    read->parts = parts;
    read->n_parts = (int32_t)(random_below(3) ? 1 : 1 + random_below(5));
    read->size = 0;
    for (int32_t i = 0; i < read->n_parts; i++) {
        parts[i].data = memory + at;
        parts[i].size = size / (size_t)read->n_parts;
        read->size += parts[i].size;
        at += parts[i].size + random_below(32);
        if (random_below(3) == 0) at = (at + 4095) & ~(size_t)4095;
    }
    return at;
}

/* Compares a completed read with pread. */
static void expect_bytes(const fixture *f, const iter_read *read, size_t first_done) {
    cr_assert_eq(read->status, ITER_OK, "file %u: os error %d", (unsigned)read->object,
                 read->os_error);
    uint8_t *want = malloc(read->size + 1);
    const int fd = open(f->paths[read->object], O_RDONLY);
    const ssize_t got = pread(fd, want, read->size, (off_t)read->offset);
    close(fd);
    cr_assert_geq(got, 0);
    const size_t n = (size_t)got > first_done ? (size_t)got : first_done;
    cr_assert_eq(read->done, n, "file %u offset %u size %u: %u bytes, not %u",
                 (unsigned)read->object, (unsigned)read->offset, (unsigned)read->size,
                 (unsigned)read->done, (unsigned)n);
    size_t at = 0;
    for (int32_t i = 0; i < read->n_parts; i++) {
        const uint8_t *data = read->parts[i].data;
        for (size_t j = 0; j < read->parts[i].size && at < n; j++, at++)
            if (at >= first_done && data[j] != want[at])
                cr_assert_fail("file %u byte %u of the read at %u differs", (unsigned)read->object,
                               (unsigned)at, (unsigned)read->offset);
    }
    free(want);
}

EVERY_WAY(random_reads_equal_pread) {
    enum { N = 200 };
    fixture f;
    begin(&f, w, 16);
    iter_read *reads = calloc(N, sizeof *reads);
    iter_iovec(*parts)[8] = calloc(N, sizeof *parts);
    size_t *first = calloc(N, sizeof *first);
    uint8_t **memory = calloc(N, sizeof *memory);
    for (int round = 0; round < 3; round++) {
        memset(reads, 0, N * sizeof *reads);
        for (int i = 0; i < N; i++) {
            reads[i].object = random_below((uint32_t)f.n_files);
            const uint32_t size = (uint32_t)size_of(reads[i].object);
            reads[i].offset = random_below(3) ? random_below(size + 10) : 0;
            size_t want = random_below(4) ? random_below(size + 20) : size;
            if (random_below(4) == 0) want = (want + 4095) & ~(size_t)4095;
            memory[i] = aligned_alloc(4096, 400000 / 4096 * 4096 + 4096 * 8);
            uint8_t *place = memory[i];
            if (f.arena && want < 40000 && i < 16) place = f.arena + (size_t)i * 65536;
            make_parts(&reads[i], parts[i], place, want);
            first[i] = reads[i].size > 0 && random_below(5) == 0 && reads[i].offset < size
                           ? random_below((uint32_t)reads[i].size)
                           : 0;
            if (first[i] > size - reads[i].offset) first[i] = 0;
            reads[i].done = first[i];
        }
        const uint32_t most = source_drive_run(&f.drive, reads, N);
        cr_assert_eq(most, f.drive.ops->submit ? 16 : 1);
        for (int i = 0; i < N; i++) {
            expect_bytes(&f, &reads[i], first[i]);
            cr_assert_eq(reads[i].path, f.drive.ops->submit ? ITER_PATH_RING : ITER_PATH_PREAD);
            free(memory[i]);
        }
    }
    free(reads);
    free(parts);
    free(first);
    free(memory);
    finish(&f);
}

EVERY_WAY(blocking_reads_and_tries_equal_pread) {
    fixture f;
    begin(&f, w, 8);
    uint8_t *memory = aligned_alloc(4096, (size_t)4096 * 200);
    iter_iovec parts[8];
    unsigned hits = 0;
    for (int i = 0; i < 300; i++) {
        iter_read read = {.object = random_below((uint32_t)f.n_files)};
        const uint32_t size = (uint32_t)size_of(read.object);
        read.offset = random_below(size + 10);
        make_parts(&read, parts, memory, random_below(size + 20));
        const iter_status status = f.drive.ops->try_read(f.drive.state, &read);
        if (status == ITER_OK) {
            expect_bytes(&f, &read, 0);
            hits++;
        } else {
            cr_assert_eq(status, ITER_AGAIN);
            cr_assert_neq(read.os_error, 0);
            if (w->o_direct && f.drive.fallback[0] == '\0') cr_assert_eq(read.os_error, EOPNOTSUPP);
        }
        const size_t tried = read.done;
        cr_assert_eq(f.drive.ops->read(f.drive.state, &read), ITER_OK);
        expect_bytes(&f, &read, tried > 0 && status == ITER_AGAIN ? 0 : tried);
        cr_assert_eq(read.path, ITER_PATH_PREAD);
    }
    if (!w->o_direct && source_is_hot(f.paths[5], 0) == 1) cr_assert_gt(hits, 0);
    free(memory);
    finish(&f);
}

EVERY_WAY(files_that_vanish_or_shrink) {
    fixture f;
    begin(&f, w, 8);
    source_drive_close(&f.drive);
    /* Before open: one is deleted, one is a folder. After: one shrinks, one grows, one is
     * deleted. */
    cr_assert_eq(unlink(f.paths[3]), 0);
    cr_assert_eq(unlink(f.paths[4]), 0);
    cr_assert_eq(mkdir(f.paths[4], 0700), 0);
    open_source(&f, w, 8);
    cr_assert_eq(truncate(f.paths[5], 5000), 0);
    cr_assert_eq(truncate(f.paths[6], 10000), 0);
    cr_assert_eq(unlink(f.paths[8]), 0);

    uint8_t *memory = aligned_alloc(4096, (size_t)4096 * 80 * 5);
    iter_iovec parts[5];
    iter_read reads[5];
    static const uint64_t objects[5] = {3, 4, 5, 6, 8};
    static const size_t sizes[5] = {4096, 4097, 300000, 10000, 65536};
    for (int how = 0; how < 2; how++) {
        memset(reads, 0, sizeof reads);
        for (int i = 0; i < 5; i++) {
            parts[i] = (iter_iovec){memory + (size_t)i * 80 * 4096, sizes[i]};
            reads[i] = (iter_read){
                .object = objects[i], .parts = &parts[i], .n_parts = 1, .size = sizes[i]};
        }
        if (how == 0) {
            source_drive_run(&f.drive, reads, 5);
        } else {
            for (int i = 0; i < 5; i++)
                (void)f.drive.ops->read(f.drive.state, &reads[i]);
        }
        cr_assert_eq(reads[0].status, ITER_EIO);
        cr_assert_eq(reads[0].os_error, ENOENT, "os error %d", reads[0].os_error);
        cr_assert_eq(reads[1].status, ITER_EIO);
        cr_assert(reads[1].os_error == EISDIR || reads[1].os_error == EINVAL, "os error %d",
                  reads[1].os_error);
        cr_assert_eq(reads[2].done, 5000);
        expect_bytes(&f, &reads[2], 0);
        cr_assert_eq(reads[3].done, 10000);
        expect_bytes(&f, &reads[3], 0);
        if (f.n_files > ITER_SOURCE_OPEN_MAX) {
            cr_assert_eq(reads[4].status, ITER_EIO);
            cr_assert_eq(reads[4].os_error, ENOENT);
        } else { /* it was already open */
            cr_assert_eq(reads[4].status, ITER_OK);
            cr_assert_eq(reads[4].done, 65536);
        }
    }
    free(memory);
    finish(&f);
}

EVERY_WAY(fewer_descriptors_than_files) {
    fixture f;
    memset(&f, 0, sizeof f);
    random_state = 7;
    make_files(&f, w);
    struct rlimit old, few;
    cr_assert_eq(getrlimit(RLIMIT_NOFILE, &old), 0);
    few = old;
    few.rlim_cur = 24; /* fewer than N_REAL */
    cr_assert_eq(setrlimit(RLIMIT_NOFILE, &few), 0);
    open_source(&f, w, 8);
    for (uint64_t i = 0; i < f.n_files; i++) {
        uint8_t *memory = aligned_alloc(4096, (size_t)4096 * 80);
        iter_iovec part = {memory, size_of(i)};
        iter_read read = {.object = i, .parts = &part, .n_parts = 1, .size = size_of(i)};
        source_drive_run(&f.drive, &read, 1);
        expect_bytes(&f, &read, 0);
        free(memory);
    }
    cr_assert_eq(setrlimit(RLIMIT_NOFILE, &old), 0);
    finish(&f);
}

EVERY_WAY(every_allocation_failure_is_clean) {
    fixture f;
    memset(&f, 0, sizeof f);
    make_files(&f, w);
    open_source(&f, w, 8); /* skips if it is unavailable */
    source_drive_close(&f.drive);
    const iter_source_config config = {
        .files = f.files, .n_files = f.n_files, .depth = 8, .o_direct = w->o_direct};
    iter_status status = ITER_ENOMEM;
    const long live = iter__alloc_live();
    for (long n = 0; status != ITER_OK; n++) {
        cr_assert_lt(n, 100);
        iter__alloc_fail_after = n;
        status = source_drive_open(&f.drive, f.drive.ops, &config);
        iter__alloc_fail_after = -1;
        if (status != ITER_OK) {
            cr_assert_eq(status, ITER_ENOMEM);
            cr_assert_eq(iter__alloc_live(), live, "leak when allocation %ld fails", n);
        }
    }
    /* If a read's block cannot be allocated, that read fails alone. */
    uint8_t byte;
    iter_iovec part = {&byte, 1};
    iter_read read = {.object = 5, .offset = 5, .parts = &part, .n_parts = 1, .size = 1};
    iter__alloc_fail_after = 0;
    status = f.drive.ops->read(f.drive.state, &read);
    iter__alloc_fail_after = -1;
    cr_assert(status == ITER_OK || (status == ITER_EIO && read.os_error == ENOMEM));
    finish(&f);
}

Test(source_files, direct_is_not_silent_where_it_is_missing) {
    /* procfs has no O_DIRECT. */
    const iter_file file = {.path = "/proc/self/maps", .bytes = ITER_UNKNOWN};
    const iter_source_config config = {.files = &file, .n_files = 1, .depth = 8, .o_direct = 1};
    if (access(file.path, R_OK) != 0) cr_skip_test("no /proc");
    source_drive d;
    cr_assert_eq(source_drive_open(&d, source_named("pread"), &config), ITER_OK);
    cr_assert(strstr(d.fallback, "O_DIRECT"), "\"%s\"", d.fallback);
    cr_assert(strstr(d.fallback, file.path));
    char byte = 0;
    iter_iovec part = {&byte, 1};
    iter_read read = {.parts = &part, .n_parts = 1, .size = 1};
    cr_assert_eq(d.ops->read(d.state, &read), ITER_OK);
    cr_assert_eq(read.done, 1);
    source_drive_close(&d);
}

Test(source_files, null_gives_zeros_to_the_files_end) {
    const iter_file files[2] = {{.path = "a", .bytes = 1000}, {.path = "b", .bytes = ITER_UNKNOWN}};
    const iter_source_config config = {.files = files, .n_files = 2, .depth = 8};
    source_drive d;
    cr_assert_eq(source_drive_open(&d, source_named("null"), &config), ITER_OK);
    uint8_t memory[600];
    for (uint64_t object = 0; object < 2; object++) {
        memset(memory, 7, sizeof memory);
        iter_iovec parts[2] = {{memory, 200}, {memory + 300, 300}};
        iter_read read = {
            .object = object, .offset = 700, .parts = parts, .n_parts = 2, .size = 500};
        cr_assert_eq(d.ops->try_read(d.state, &read), ITER_OK);
        const size_t want = object == 0 ? 300 : 500;
        cr_assert_eq(read.done, want);
        for (size_t i = 0; i < 600; i++) {
            const size_t at = i < 200 ? i : i < 300 ? 1000 : i - 100;
            cr_assert_eq(memory[i], at < want ? 0 : 7, "byte %u", (unsigned)i);
        }
    }
    source_drive_close(&d);
}

/*
 * fuzz_tokens.c - any bytes as a file of tokens, or as Megatron's index of one.
 *
 * Input: a byte of options, length - 1, stride (0 = length), two bytes that are the size of the
 * .bin of an index; the rest is the file. Property: open returns OK or a documented error that
 * names the file. If OK, every row lies in its file and has 2 to length + 1 tokens. If the file is
 * an index, or is read without a head, the rows are those that a loop over the streams gives.
 */
#include <sys/stat.h>

#include "tests/support/builtin_tables.h"
#include "tests/support/fuzz_format.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { ROWS_MAX = 5000, STREAMS_MAX = 4000 };

typedef struct cut {
    uint64_t length, stride;
    int last; /* 0 = drop, 1 = overlap, 2 = short */
} cut;

typedef struct row {
    uint64_t first, n;
} row;

/* The rows of a stream of n tokens that begins at `begin`, by the definition; returns how many
 * there are then. */
static size_t add_rows(const cut *c, uint64_t begin, uint64_t n, row *out, size_t n_rows) {
    uint64_t start = 0, used = 0;
    size_t own = 0;
    for (; start + c->length + 1 <= n && n_rows < ROWS_MAX; start += c->stride, own++) {
        out[n_rows++] = (row){begin + start, c->length + 1};
        used = start + c->length + 1;
    }
    if (n_rows == ROWS_MAX || used >= n) return n_rows;
    if (c->last == 1 && own) out[n_rows++] = (row){begin + n - c->length - 1, c->length + 1};
    if (c->last == 2 && start + 2 <= n) out[n_rows++] = (row){begin + start, n - start};
    return n_rows;
}

static void check_rows(const opened *f, const cut *c, const uint64_t *streams, size_t n,
                       uint64_t offset) {
    static row want[ROWS_MAX + 1];
    const uint64_t width = iter_dtype_bytes(f->desc.fields[0].desc.dtype);
    size_t n_rows = 0;
    uint64_t begin = 0;
    for (size_t s = 0; s < n && n_rows < ROWS_MAX; s++) {
        n_rows = add_rows(c, begin, streams[s], want, n_rows);
        begin += streams[s];
    }
    if (n_rows < ROWS_MAX) FUZZ_REQUIRE(f->desc.n_samples == n_rows);
    for (uint64_t i = 0; i < n_rows && i < f->desc.n_samples; i++) {
        iter_extent x;
        f->ops->locate(f->state, i, &x);
        FUZZ_REQUIRE(x.offset == offset + want[i].first * width);
        FUZZ_REQUIRE(x.size == want[i].n * width);
    }
}

static uint64_t get(const uint8_t *p, int n) {
    uint64_t value = 0;
    for (int i = n; i-- > 0;)
        value = value << 8 | p[i];
    return value;
}

/* The documents of an index that was accepted, or all of its tokens as one stream; returns how
 * many. */
static size_t streams_of_index(const uint8_t *p, bool keep, uint64_t *out) {
    const uint64_t n = get(p + 18, 8), n_borders = get(p + 26, 8);
    const uint8_t *borders = p + 34 + 12 * n;
    size_t n_streams = 0;
    if (!keep) {
        out[0] = 0;
        for (uint64_t i = 0; i < n; i++)
            out[0] += get(p + 34 + 4 * i, 4);
        return 1;
    }
    for (uint64_t d = 0; d + 1 < n_borders && n_streams < STREAMS_MAX; d++) {
        out[n_streams] = 0;
        for (uint64_t i = get(borders + 8 * d, 8); i < get(borders + 8 * d + 8, 8); i++)
            out[n_streams] += get(p + 34 + 4 * i, 4);
        n_streams++;
    }
    return n_streams;
}

static char folder_name[MAKE_PATH_MAX];

static void remove_folder(void) {
    make_folder_gone(folder_name);
}

static const char *folder(void) {
    if (!folder_name[0]) {
        make_folder(folder_name);
        atexit(remove_folder);
    }
    return folder_name;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const char *const lasts[] = {"drop", "overlap", "short", "drop"};
    static uint64_t streams[STREAMS_MAX];
    if (size < 5 || size > 60000) return 0;
    const unsigned bits = data[0];
    const bool index = bits & 4, keep = bits & 8, label = bits & 16, header = bits & 32;
    const cut c = {data[1] + 1u, data[2] ? data[2] : data[1] + 1u, (bits & 3) % 3};
    const uint8_t *file = data + 5;
    const size_t n = size - 5;
    char path[MAKE_PATH_MAX], options[160];
    make_file(folder(), index ? "set.idx" : "set.one", file, n);
    if (index) {
        make_file(folder(), "set.bin", "", 0);
        FUZZ_REQUIRE(truncate(make_path(path, folder(), "set.bin"), (off_t)get(data + 3, 2)) == 0);
    }
    snprintf(options, sizeof(options),
             "length=%d&stride=%d&last=%s&documents=%s&label=%s&header=%s", (int)c.length,
             (int)c.stride, lasts[c.last], keep ? "keep" : "cross", label ? "yes" : "no",
             header ? "yes" : "no");

    opened f;
    make_path(path, folder(), index ? "set.idx" : "set.one");
    if (fuzz_open(&iter__format_tokens, path, options, "set.", &f)) {
        for (uint64_t i = 0; i < f.desc.n_samples && i < 1000; i++) {
            iter_extent x;
            f.ops->locate(f.state, i, &x);
            const uint64_t tokens = x.size / iter_dtype_bytes(f.desc.fields[0].desc.dtype);
            FUZZ_REQUIRE(tokens >= 2 && tokens <= c.length + 1);
            FUZZ_REQUIRE(f.ops->length(f.state, i) == (int64_t)tokens - label);
        }
        if (index && header) {
            const size_t n_streams = streams_of_index(file, keep, streams);
            if (n_streams < STREAMS_MAX) check_rows(&f, &c, streams, n_streams, 0);
        } else if (!header) {
            streams[0] = n / 2;
            check_rows(&f, &c, streams, 1, 0);
        }
        fuzz_close(&f);
    }
    return 0;
}

/* token_shard.c - see token_shard.h. */
#include "loaders/formats/token_shard.h"

#include <inttypes.h>
#include <string.h>

#include "iter/core/alloc.h"
#include "iter/core/error.h"
#include "loaders/files/byte_order.h"
#include "loaders/files/file.h"
#include "loaders/formats/megatron_index.h"
#include "loaders/formats/npy_header.h"

#define LLMC_HEAD_BYTES 1024u
#define LLMC_QUESTIONS  20240522u /* llm.c's files of questions with four answers */

static const bool is_big = __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__;

/* The versions of llm.c's heads. 20240801 has 7 in llm.c, and 1 in programs that took its list
 * over earlier. */
static const struct {
    uint32_t magic, version;
    iter_dtype dtype;
} llmc_heads[] = {{20240520, 1, ITER_U16}, {20240801, 7, ITER_U32}, {20240801, 1, ITER_U32}};

/* ---- Names ----------------------------------------------------------------------------------- */

static bool ends_with(const char *path, const char *ending) {
    const size_t n = strlen(path), m = strlen(ending);
    return n > m && strcmp(path + n - m, ending) == 0;
}

/* "set.bin" for "set.idx", or the reverse; `path` ends with three letters after a point. */
static char *sibling(const char *path, const char *ending) {
    return iter__strf("%.*s%s", (int)(strlen(path) - 4), path, ending);
}

/* ---- Heads ----------------------------------------------------------------------------------- */

/* Up to n bytes from the file's beginning. */
static iter_status first_bytes(const char *path, uint8_t *out, size_t n, size_t *out_n,
                               uint64_t *out_bytes, iter_error *err) {
    iter__data_file file;
    ITER_TRY(iter__file_open(path, &file, err));
    const iter_status status = iter__file_read_at(&file, 0, out, n, out_n, err);
    iter__file_close(&file);
    *out_bytes = file.bytes;
    return status;
}

static bool is_index(const char *path) {
    uint8_t head[ITER_MEGATRON_MAGIC_BYTES];
    size_t n = 0;
    uint64_t bytes;
    return first_bytes(path, head, sizeof(head), &n, &bytes, NULL) == ITER_OK &&
           n == sizeof(head) && memcmp(head, ITER_MEGATRON_MAGIC, sizeof(head)) == 0;
}

static bool is_llmc_magic(uint32_t magic) {
    for (size_t i = 0; i < sizeof(llmc_heads) / sizeof(llmc_heads[0]); i++)
        if (llmc_heads[i].magic == magic) return true;
    return magic == LLMC_QUESTIONS;
}

static iter_status read_llmc(iter__token_shard *s, const uint8_t *head, size_t n, iter_error *err) {
    const uint32_t magic = iter__get_le32(head);
    if (n < LLMC_HEAD_BYTES)
        return iter__fail(err, ITER_EFORMAT, "%s: ends after %zu of the %u bytes of llm.c's head",
                          s->path, n, LLMC_HEAD_BYTES);
    const uint32_t version = iter__get_le32(head + 4), n_tokens = iter__get_le32(head + 8);
    if (magic == LLMC_QUESTIONS)
        return iter__fail(err, ITER_EUNSUPPORTED,
                          "%s: holds questions of llm.c's evaluations, no stream of tokens",
                          s->path);
    for (size_t i = 0; i < sizeof(llmc_heads) / sizeof(llmc_heads[0]); i++)
        if (llmc_heads[i].magic == magic && llmc_heads[i].version == version)
            s->dtype = llmc_heads[i].dtype;
    if (s->dtype == ITER_DTYPE_NONE)
        return iter__fail(err, ITER_EUNSUPPORTED,
                          "%s: at 4: version %" PRIu32 " of llm.c's files with magic %" PRIu32
                          " is not known",
                          s->path, version, magic);
    s->offset = LLMC_HEAD_BYTES;
    s->n_tokens = n_tokens;
    s->swapped = is_big;
    const uint64_t due = s->offset + s->n_tokens * iter_dtype_bytes(s->dtype);
    if (s->file_bytes == due) return ITER_OK;
    return iter__fail(err, ITER_EFORMAT,
                      "%s: at 8: its head says %" PRIu32 " tokens of %s, so %" PRIu64
                      " bytes; the file has %" PRIu64,
                      s->path, n_tokens, iter_dtype_text(s->dtype), due, s->file_bytes);
}

static bool is_integer(iter_dtype dtype) {
    return dtype >= ITER_U8 && dtype <= ITER_I64;
}

static iter_status read_npy(iter__token_shard *s, iter_error *err) {
    iter__npy_header head;
    ITER_TRY(iter__npy_header_read(s->path, &head, err));
    if (head.n_dims != 1)
        return iter__fail(err, ITER_EUNSUPPORTED,
                          "%s: has %d dimensions, a stream of tokens has one; npy: reads its rows",
                          s->path, head.n_dims);
    if (!is_integer(head.dtype))
        return iter__fail(err, ITER_EUNSUPPORTED, "%s: has elements of %s, tokens are integers",
                          s->path, iter_dtype_text(head.dtype));
    s->dtype = head.dtype;
    s->swapped = head.swapped;
    s->offset = head.header_bytes;
    s->n_tokens = head.dims[0];
    return ITER_OK;
}

static iter_status read_plain(iter__token_shard *s, iter_dtype dtype, iter_error *err) {
    s->dtype = dtype ? dtype : ITER_U16;
    const size_t width = iter_dtype_bytes(s->dtype);
    if (!is_integer(s->dtype))
        return iter__fail(err, ITER_EINVAL, "%s: dtype is %s, tokens are integers", s->path,
                          iter_dtype_text(s->dtype));
    if (s->file_bytes == 0) return iter__fail(err, ITER_EFORMAT, "%s: is empty", s->path);
    if (s->file_bytes % width != 0)
        return iter__fail(err, ITER_EFORMAT,
                          "%s: has %" PRIu64 " bytes, tokens of %s have %zu each", s->path,
                          s->file_bytes, iter_dtype_text(s->dtype), width);
    s->n_tokens = s->file_bytes / width;
    s->swapped = is_big && width > 1;
    return ITER_OK;
}

/* ---- The file -------------------------------------------------------------------------------- */

iter_status iter__token_shard_expect(const iter__token_shard *shard, iter_dtype dtype,
                                     iter_error *err) {
    if (dtype == ITER_DTYPE_NONE || dtype == shard->dtype) return ITER_OK;
    return iter__fail(err, ITER_EINVAL, "%s: its head says %s, dtype is %s", shard->path,
                      iter_dtype_text(shard->dtype), iter_dtype_text(dtype));
}

/* Sets the names: `path` is a .idx, a name without its ending, or tokens. */
static iter_status find_files(iter__token_shard *s, const char *path, bool raw, iter_error *err) {
    if (!raw && ends_with(path, ".idx")) {
        s->idx = iter__strdup(path);
        s->path = sibling(path, ".bin");
        if (s->idx && s->path) return ITER_OK;
        return iter__fail(err, ITER_ENOMEM, "%s: no memory for its name", path);
    }
    s->path = iter__strdup(path);
    if (!raw && ends_with(path, ".bin")) {
        s->idx = sibling(path, ".idx");
    } else if (!raw && !iter__path_exists(path)) {
        s->idx = iter__strf("%s.idx", path);
    } else {
        return s->path ? ITER_OK : iter__fail(err, ITER_ENOMEM, "%s: no memory for its name", path);
    }
    if (!s->path || !s->idx)
        return iter__fail(err, ITER_ENOMEM, "%s: no memory for its name", path);
    if (!is_index(s->idx)) {
        iter__free(s->idx);
        s->idx = NULL;
    } else if (!ends_with(path, ".bin")) {
        iter__free(s->path);
        s->path = iter__strf("%s.bin", path);
        if (!s->path) return iter__fail(err, ITER_ENOMEM, "%s: no memory for its name", path);
    }
    return ITER_OK;
}

static iter_status open_shard(iter__token_shard *s, const char *path, iter_dtype dtype, bool raw,
                              iter_error *err) {
    uint8_t head[LLMC_HEAD_BYTES];
    size_t n = 0;
    ITER_TRY(find_files(s, path, raw, err));
    ITER_TRY(first_bytes(s->path, head, sizeof(head), &n, &s->file_bytes, err));
    if (s->idx) return ITER_OK;
    if (!raw && n >= ITER_NPY_MAGIC_BYTES &&
        memcmp(head, ITER_NPY_MAGIC, ITER_NPY_MAGIC_BYTES) == 0)
        ITER_TRY(read_npy(s, err));
    else if (!raw && n >= 4 && is_llmc_magic(iter__get_le32(head)))
        ITER_TRY(read_llmc(s, head, n, err));
    else
        ITER_TRY(read_plain(s, dtype, err));
    return iter__token_shard_expect(s, dtype, err);
}

iter_status iter__token_shard_open(const char *path, iter_dtype dtype, bool raw,
                                   iter__token_shard *out, iter_error *err) {
    *out = (iter__token_shard){0};
    const iter_status status = open_shard(out, path, dtype, raw, err);
    if (status < 0) iter__token_shard_free(out);
    return status;
}

void iter__token_shard_free(iter__token_shard *shard) {
    iter__free(shard->path);
    iter__free(shard->idx);
    memset(shard, 0, sizeof(*shard));
}

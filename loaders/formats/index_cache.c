/*
 * index_cache.c - see index_cache.h.
 *
 * Offsets are read into the index itself, so a cache needs no other memory. The data file's size
 * bounds their number before any is allocated. The CRC detects damage; the checks after it are for
 * bytes that were made to deceive.
 *
 * If times are whole seconds, or all the same (archives that are made reproducibly), size and mtime
 * do not tell two files apart. So 8 blocks of 512 bytes, evenly spread, are compared, too. If a
 * file changes twice within one tick of the clock, its mtime stays the same; git calls such a file
 * racy. So a file is not cached until it has been left alone for a moment.
 *
 * A file that lies elsewhere has its ETag instead of a time, and no place of it is compared: that
 * would be eight requests. An ETag changes with the bytes.
 *
 * Source: git, Documentation/technical/racy-git.txt.
 */
#include "loaders/formats/index_cache.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <zlib.h>

#include "iter/core/alloc.h"
#include "iter/core/error.h"
#include "iter/core/hash.h"
#include "iter/remote/client.h"
#include "iter/remote/url.h"
#include "loaders/files/byte_order.h"
#include "loaders/files/file.h"

#define VERSION      1u
#define HEADER_BYTES (56u + 8u * ITER_INDEX_NOTES)
#define CRC_FROM     16u /* the first byte that the CRC covers */
#define BUFFER_BYTES ((size_t)1 << 16)
#define PLACES       8u
#define PLACE_BYTES  512u
#define SECOND_NS    1000000000
/* The time without a change after which a file is settled. A tick of the kernel's clock is 10 ms at
 * most. If a time has no fraction, it may be in whole seconds, or in steps of two (FAT). */
#define SETTLED_NS       20000000
#define SETTLED_WHOLE_NS (2 * (int64_t)SECOND_NS)

static const uint8_t magic[8] = {'I', 'T', 'E', 'R', 'I', 'D', 'X', 26};

static uint32_t crc_of(uint32_t crc, const void *bytes, size_t n) {
    return (uint32_t)crc32_z(crc, bytes, n);
}

/* ---- the data file --------------------------------------------------------------------------- */

static iter_status crc_of_places(const iter__data_file *file, uint32_t *out, iter_error *err) {
    const uint64_t bytes = file->bytes;
    uint8_t block[PLACE_BYTES];
    const uint64_t room = bytes < PLACE_BYTES ? 0 : bytes - PLACE_BYTES;
    uint32_t crc = 0;
    for (uint64_t i = 0; i < PLACES; i++) {
        size_t n = 0;
        const uint64_t at = room / (PLACES - 1) * i + room % (PLACES - 1) * i / (PLACES - 1);
        ITER_TRY(iter__file_read_at(file, at, block, sizeof(block), &n, err));
        crc = crc_of(crc, block, n);
    }
    *out = crc;
    return ITER_OK;
}

static bool is_settled(int64_t mtime_ns) {
    struct timespec now;
    if (clock_gettime(CLOCK_REALTIME, &now) < 0) return false;
    const int64_t now_ns = (int64_t)now.tv_sec * SECOND_NS + now.tv_nsec;
    const int64_t least = mtime_ns % SECOND_NS ? SETTLED_NS : SETTLED_WHOLE_NS;
    /* No subtraction of the two: it could overflow. A time later than now is another machine's
     * clock. */
    return mtime_ns <= now_ns - least || mtime_ns >= now_ns + least;
}

static iter_status take_stamp(const char *path, iter__index_stamp *out, iter_error *err) {
    iter__data_file file;
    ITER_TRY(iter__file_open(path, &file, err));
    iter_status status = ITER_OK;
    out->places = 0;
    if (!file.remote) status = crc_of_places(&file, &out->places, err);
    out->bytes = file.bytes;
    out->mtime_ns = file.mtime_ns;
    out->settled = file.remote || is_settled(out->mtime_ns);
    iter__file_close(&file);
    return status;
}

/* Before a scan, which may take long: checks that its result can be kept. */
static iter_status check_folder(const char *path, iter_error *err) {
    char text[128];
    const size_t n = (size_t)(iter__path_base(path) - path);
    char *folder = iter__strf("%.*s.", (int)n, path);
    if (!folder) return iter__fail(err, ITER_ENOMEM, "%s: no memory for a file name", path);
    const int answer = faccessat(AT_FDCWD, folder, W_OK | X_OK, AT_EACCESS);
    const int reason = errno;
    iter__free(folder);
    if (answer == 0) return ITER_OK;
    return iter__fail(err, ITER_EIO, "index-cache: %s cannot be written: %s", path,
                      iter__os_error(reason, text, sizeof(text)));
}

/* ---- reading --------------------------------------------------------------------------------- */

static void put_header(const iter__index_cache *cache, uint64_t n, uint8_t *out) {
    memcpy(out, magic, sizeof(magic));
    iter__put_le32(out + 8, VERSION);
    iter__put_le32(out + 12, 0); /* the CRC */
    iter__put_le32(out + 16, cache->kind);
    iter__put_le32(out + 20, cache->stamp.places);
    iter__put_le64(out + 24, cache->options);
    iter__put_le64(out + 32, cache->stamp.bytes);
    iter__put_le64(out + 40, (uint64_t)cache->stamp.mtime_ns);
    iter__put_le64(out + 48, n);
    for (uint32_t i = 0; i < ITER_INDEX_NOTES; i++)
        iter__put_le64(out + 56 + 8 * (size_t)i, cache->notes[i]);
}

/* True if this is the header of a cache of `bytes` bytes for this data file; sets the number of
 * samples. */
static bool read_header(const iter__index_cache *cache, const uint8_t *header, uint64_t bytes,
                        uint64_t *out_n) {
    uint8_t wanted[HEADER_BYTES];
    put_header(cache, 0, wanted);
    const uint64_t n = iter__get_le64(header + 48);
    *out_n = n;
    return memcmp(header, wanted, 12) == 0 &&
           memcmp(header + CRC_FROM, wanted + CRC_FROM, 48 - CRC_FROM) == 0 &&
           n <= cache->stamp.bytes / cache->min_bytes && n < SIZE_MAX / 16 &&
           bytes == HEADER_BYTES + 8 * (n + 1);
}

static bool check_offsets(const iter__index_cache *cache, const uint64_t *offsets, uint64_t n) {
    uint64_t bad = 0;
    for (uint64_t i = 0; i < n; i++) {
        bad |= offsets[i] % cache->align;
        bad |= offsets[i + 1] < cache->min_bytes || offsets[i + 1] - cache->min_bytes < offsets[i];
    }
    return bad == 0 && offsets[n] <= cache->stamp.bytes;
}

/* Reads the open cache. One that cannot be read counts as absent. */
static iter_status read_cache(iter__index_cache *cache, iter__span_set *set,
                              const iter__data_file *file, bool *out_found, iter_error *err) {
    uint8_t header[HEADER_BYTES];
    uint64_t n = 0;
    size_t got = 0;
    if (iter__file_read_at(file, 0, header, sizeof(header), &got, NULL) < 0 ||
        got < sizeof(header) || !read_header(cache, header, file->bytes, &n))
        return ITER_OK;

    ITER_TRY(iter__span_set_reserve(set, n + 1, err));
    uint64_t *offsets = set->offsets + set->n;
    const size_t size = (size_t)(n + 1) * sizeof(*offsets);
    if (iter__file_read_at(file, HEADER_BYTES, offsets, size, &got, NULL) < 0 || got < size)
        return ITER_OK;
    const uint32_t crc =
        crc_of(crc_of(0, header + CRC_FROM, HEADER_BYTES - CRC_FROM), offsets, size);
    if (crc != iter__get_le32(header + 12)) return ITER_OK;
    for (uint64_t i = 0; i <= n; i++)
        offsets[i] = iter__get_le64((const uint8_t *)(offsets + i));
    if (!check_offsets(cache, offsets, n)) return ITER_OK;

    uint64_t notes[ITER_INDEX_NOTES];
    for (uint32_t i = 0; i < ITER_INDEX_NOTES; i++) {
        notes[i] = iter__get_le64(header + 56 + 8 * (size_t)i);
        if (notes[i] > cache->stamp.bytes) return ITER_OK;
    }
    memcpy(cache->notes, notes, sizeof(notes));
    *out_found = true;
    set->n += n;
    return iter__span_set_end(set, set->offsets[set->n], err);
}

/* ---- writing --------------------------------------------------------------------------------- */

/* Puts up to a buffer of the offsets from number `from` on; returns how many. */
static uint64_t put_offsets(const uint64_t *offsets, uint64_t from, uint64_t n, uint8_t *buffer) {
    uint64_t i = 0;
    for (; i < BUFFER_BYTES / 8 && from + i < n; i++)
        iter__put_le64(buffer + 8 * i, offsets[from + i]);
    return i;
}

/* Writes offsets[n], the last of which is an end. */
static iter_status write_cache(const iter__index_cache *cache, const uint64_t *offsets, uint64_t n,
                               const iter__new_file *file, uint8_t *buffer, iter_error *err) {
    uint8_t header[HEADER_BYTES];
    put_header(cache, n - 1, header);
    uint32_t crc = crc_of(0, header + CRC_FROM, HEADER_BYTES - CRC_FROM);
    for (uint64_t i = 0, step; i < n; i += step) {
        step = put_offsets(offsets, i, n, buffer);
        crc = crc_of(crc, buffer, (size_t)step * 8);
    }
    iter__put_le32(header + 12, crc);
    ITER_TRY(iter__new_file_write(file, header, sizeof(header), err));
    for (uint64_t i = 0, step; i < n; i += step) {
        step = put_offsets(offsets, i, n, buffer);
        ITER_TRY(iter__new_file_write(file, buffer, (size_t)step * 8, err));
    }
    return ITER_OK;
}

/* ---- functions of index_cache.h -------------------------------------------------------------- */

/* What tells the indexes of one object apart. */
static uint64_t what_of(const iter__index_cache *cache) {
    return iter__fnv1a_u64(iter__fnv1a_u64(ITER_FNV_START, cache->kind), cache->options) >> 1;
}

static iter_status load_remote(iter__index_cache *cache, iter__span_set *set, bool *out_found,
                               iter_error *err) {
    const iter_file *data = &set->files[set->n_done];
    iter__data_file file = {.path = data->path};
    if (!iter__remote_has_cache(data->place))
        return iter__fail(err, ITER_EINVAL,
                          "%s: index-cache=yes of a URL wants a folder, which cache= names",
                          data->path);
    ITER_TRY(take_stamp(data->path, &cache->stamp, err));
    file.fd = iter__remote_kept_open(data->place, data->path, what_of(cache), &file.bytes);
    if (file.fd < 0) return ITER_OK;
    iter_status status = ITER_OK;
    if (cache->stamp.bytes == data->bytes) status = read_cache(cache, set, &file, out_found, err);
    iter__file_close(&file);
    return status;
}

/* What cannot be written is not kept, as it is with blocks. */
static void save_remote(const iter__index_cache *cache, const iter_file *data,
                        const uint64_t *offsets, uint64_t n, uint8_t *buffer) {
    iter__new_file file = {.path = data->path, .fd = -1};
    iter__remote_keeping *keeping = iter__remote_keep_begin(data->place, data->path, what_of(cache),
                                                            HEADER_BYTES + 8 * n, &file.fd);
    if (!keeping) return;
    const iter_status status = write_cache(cache, offsets, n, &file, buffer, NULL);
    iter__remote_keep_end(keeping, status == ITER_OK);
}

bool iter__index_cache_wanted(int32_t choice, const iter_file *file) {
    enum { AUTO, YES, NO, ALSO_YES, ALSO_NO };
    if (choice == AUTO) return iter__remote_has_cache(file->place);
    return choice == YES || choice == ALSO_YES;
}

iter_status iter__index_cache_load(iter__index_cache *cache, iter__span_set *set, bool *out_found,
                                   iter_error *err) {
    const iter_file *data = &set->files[set->n_done];
    iter__data_file file;
    *out_found = false;
    if (iter__url_is(data->path)) return load_remote(cache, set, out_found, err);
    cache->path = iter__strf("%s" ITER_INDEX_ENDING, data->path);
    if (!cache->path)
        return iter__fail(err, ITER_ENOMEM, "%s: no memory for a file name", data->path);
    ITER_TRY(take_stamp(data->path, &cache->stamp, err));
    if (cache->stamp.bytes == data->bytes && iter__file_open(cache->path, &file, NULL) == ITER_OK) {
        const iter_status status = read_cache(cache, set, &file, out_found, err);
        iter__file_close(&file);
        ITER_TRY(status);
    }
    return *out_found ? ITER_OK : check_folder(cache->path, err);
}

iter_status iter__index_cache_save(const iter__index_cache *cache, const iter__span_set *set,
                                   iter_error *err) {
    const uint64_t f = set->n_done - 1, n = set->first[f + 1] - set->first[f] + 1;
    const uint64_t *offsets = set->offsets + set->first[f] + f;
    iter__new_file file;
    if (!cache->stamp.settled || cache->stamp.bytes != set->files[f].bytes) return ITER_OK;
    uint8_t *buffer = iter__alloc(BUFFER_BYTES, 1);
    if (!buffer)
        return iter__fail(err, ITER_ENOMEM, "%s: no memory to write its index", set->files[f].path);
    if (!cache->path) {
        save_remote(cache, &set->files[f], offsets, n, buffer);
        iter__free(buffer);
        return ITER_OK;
    }
    iter_status status = iter__new_file_open(&file, cache->path, NULL, err);
    if (status == ITER_OK) {
        status = write_cache(cache, offsets, n, &file, buffer, err);
        status = iter__new_file_close(&file, status, err);
    }
    iter__free(buffer);
    return status < 0 ? iter__fail_in(err, status, "index-cache") : ITER_OK;
}

void iter__index_cache_free(iter__index_cache *cache) {
    iter__free(cache->path);
    cache->path = NULL;
}

/*
 * pack_record.c - RecordIO files, written and read as MXNet does.
 *
 * The payload is cut wherever the magic stands at a multiple of 4 from its beginning, and those four
 * bytes are left out: so a reader that looks for the magic finds heads alone.
 *
 * Source: dmlc-core, recordio.cc (RecordIOWriter::WriteRecord); MXNet, python/mxnet/recordio.py.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "iterpack.h"

#define MAGIC        0xced7230au
#define HEAD         8u
#define LENGTH_MAX   ((1u << 29) - 1)
#define BUFFER_BYTES ((size_t)1 << 20)

static void put_u32(uint8_t *p, uint32_t v) {
    for (int i = 0; i < 4; i++)
        p[i] = (uint8_t)(v >> 8 * i);
}

static void put_u64(uint8_t *p, uint64_t v) {
    put_u32(p, (uint32_t)v);
    put_u32(p + 4, (uint32_t)(v >> 32));
}

static uint32_t get_u32(const uint8_t *p) {
    return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

static uint32_t float_bits(float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof(bits));
    return bits;
}

char *pack_idx_path(const char *rec) {
    const size_t n = strlen(rec);
    const size_t stem = n > 4 && strcmp(rec + n - 4, ".rec") == 0 ? n - 4 : n;
    return pack_text("%.*s.idx", (int)stem, rec);
}

/* ---- writing --------------------------------------------------------------------------------- */

int pack_writer_open(pack_writer *writer, char *path, uint64_t offset) {
    *writer = (pack_writer){.path = path, .offset = offset};
    writer->fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0666);
    if (writer->fd < 0 || ftruncate(writer->fd, (off_t)offset) < 0 ||
        lseek(writer->fd, (off_t)offset, SEEK_SET) < 0)
        return pack_fail_os("%s", path);
    writer->buffer = pack_memory(NULL, BUFFER_BYTES, 1);
    return PACK_DONE;
}

static int write_all(pack_writer *writer, const uint8_t *p, size_t n) {
    while (n > 0) {
        const ssize_t done = write(writer->fd, p, n);
        if (done < 0 && errno == EINTR) continue;
        if (done < 0) {
            writer->failed = true; /* what was in the buffer is lost */
            return pack_fail_os("%s", writer->path);
        }
        p += done;
        n -= (size_t)done;
    }
    return PACK_DONE;
}

static int flush(pack_writer *writer) {
    const size_t n = writer->used;
    writer->used = 0;
    return write_all(writer, writer->buffer, n);
}

static int put(pack_writer *writer, const void *bytes, size_t n) {
    writer->offset += n;
    if (n > BUFFER_BYTES - writer->used && flush(writer) != PACK_DONE) return PACK_FAILED;
    if (n > BUFFER_BYTES) return write_all(writer, bytes, n);
    if (n) memcpy(writer->buffer + writer->used, bytes, n);
    writer->used += n;
    return PACK_DONE;
}

static int put_piece(pack_writer *writer, uint32_t flag, const uint8_t *bytes, size_t n) {
    static const uint8_t zeros[4] = {0};
    uint8_t head[HEAD];
    put_u32(head, MAGIC);
    put_u32(head + 4, flag << 29 | (uint32_t)n);
    if (put(writer, head, sizeof(head)) != PACK_DONE || put(writer, bytes, n) != PACK_DONE)
        return PACK_FAILED;
    return put(writer, zeros, (4 - n % 4) % 4);
}

int pack_writer_text(pack_writer *writer, const char *text, size_t n) {
    return put(writer, text, n);
}

int pack_writer_add(pack_writer *writer, const pack_header *header, const float *labels,
                    const void *content, size_t n_content) {
    const size_t n = PACK_HEADER_BYTES + 4 * (size_t)header->flag + n_content;
    if (n > LENGTH_MAX) {
        return pack_fail("%s: record %" PRIu64 " has %zu bytes; a record has at most %u",
                         writer->path, header->id, n, LENGTH_MAX);
    }
    uint8_t *payload = pack_memory(NULL, n, 1);
    put_u32(payload, header->flag);
    put_u32(payload + 4, float_bits(header->label));
    put_u64(payload + 8, header->id);
    put_u64(payload + 16, header->id2);
    uint8_t *to = payload + PACK_HEADER_BYTES;
    for (uint32_t i = 0; i < header->flag; i++, to += 4)
        put_u32(to, float_bits(labels[i]));
    if (n_content) memcpy(to, content, n_content);

    size_t from = 0;
    int status = PACK_DONE;
    for (size_t at = 0; at + 4 <= n && status == PACK_DONE; at += 4) {
        if (get_u32(payload + at) != MAGIC) continue;
        status = put_piece(writer, from == 0 ? 1 : 2, payload + from, at - from);
        from = at + 4;
    }
    if (status == PACK_DONE)
        status = put_piece(writer, from == 0 ? 0 : 3, payload + from, n - from);
    free(payload);
    return status;
}

int pack_writer_sync(pack_writer *writer) {
    if (writer->failed || flush(writer) != PACK_DONE) return PACK_FAILED;
    return fdatasync(writer->fd) < 0 ? pack_fail_os("%s", writer->path) : PACK_DONE;
}

void pack_writer_close(pack_writer *writer) {
    if (writer->fd >= 0 && writer->path) close(writer->fd);
    free(writer->buffer);
    free(writer->path);
    *writer = (pack_writer){.fd = -1};
}

/* ---- reading --------------------------------------------------------------------------------- */

int pack_reader_open(pack_reader *reader, const char *path) {
    struct stat st;
    *reader = (pack_reader){.path = path};
    reader->fd = open(path, O_RDONLY | O_CLOEXEC);
    if (reader->fd < 0 || fstat(reader->fd, &st) < 0) return pack_fail_os("%s", path);
    if (!S_ISREG(st.st_mode)) return pack_fail("%s: is not a regular file", path);
    reader->bytes = (uint64_t)st.st_size;
    reader->buffer = pack_memory(NULL, BUFFER_BYTES, 1);
    return PACK_DONE;
}

void pack_reader_close(pack_reader *reader) {
    if (reader->path && reader->fd >= 0) close(reader->fd);
    free(reader->payload);
    free(reader->buffer);
    *reader = (pack_reader){.fd = -1};
}

static ssize_t read_at(const pack_reader *reader, uint64_t offset, void *out, size_t n) {
    size_t done = 0;
    while (done < n) {
        const ssize_t got =
            pread(reader->fd, (uint8_t *)out + done, n - done, (off_t)(offset + done));
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) return -1;
        if (got == 0) break;
        done += (size_t)got;
    }
    return (ssize_t)done;
}

/* n bytes at `offset`, through the buffer where they are few. */
static bool fetch(pack_reader *reader, uint64_t offset, void *out, size_t n) {
    if (n > BUFFER_BYTES / 2) return read_at(reader, offset, out, n) == (ssize_t)n;
    if (offset < reader->buffer_at || offset + n > reader->buffer_at + reader->buffer_n) {
        const ssize_t got = read_at(reader, offset, reader->buffer, BUFFER_BYTES);
        reader->buffer_at = offset;
        reader->buffer_n = got < 0 ? 0 : (size_t)got;
        if (reader->buffer_n < n) return false;
    }
    memcpy(out, reader->buffer + (offset - reader->buffer_at), n);
    return true;
}

static void grow(pack_reader *reader, size_t n) {
    if (n <= reader->capacity) return;
    reader->capacity = 2 * n;
    reader->payload = pack_memory(reader->payload, reader->capacity, 1);
}

/* Appends the piece at reader->next to the payload. False with the reason where there is none. */
static bool read_piece(pack_reader *reader, uint32_t *out_flag, char *reason, size_t capacity) {
    uint8_t head[HEAD];
    const uint64_t at = reader->next;
    if (reader->bytes - at < HEAD || !fetch(reader, at, head, HEAD)) {
        snprintf(reason, capacity, "at %" PRIu64 ": the file ends in the head of a record", at);
        return false;
    }
    const uint32_t word = get_u32(head + 4), length = word & LENGTH_MAX;
    if (get_u32(head) != MAGIC) {
        snprintf(reason, capacity, "at %" PRIu64 ": 0x%08x is not a record's magic", at,
                 get_u32(head));
        return false;
    }
    *out_flag = word >> 29;
    const bool begins = *out_flag == 0 || *out_flag == 1;
    if (*out_flag > 3 || begins != (reader->n_pieces == 0)) {
        snprintf(reason, capacity, "at %" PRIu64 ": a piece has flag %u, which cannot be here", at,
                 *out_flag);
        return false;
    }
    grow(reader, reader->n + length + 4);
    if (reader->n_pieces++ > 0) {
        put_u32(reader->payload + reader->n, MAGIC);
        reader->n += 4;
    }
    if (length > reader->bytes - at - HEAD ||
        !fetch(reader, at + HEAD, reader->payload + reader->n, length)) {
        snprintf(reason, capacity, "at %" PRIu64 ": %u bytes should follow, the file ends before",
                 at, length);
        return false;
    }
    reader->n += length;
    reader->next = at + HEAD + ((length + 3) & ~3u);
    if (reader->next > reader->bytes) reader->next = reader->bytes;
    return true;
}

int pack_reader_next(pack_reader *reader, bool *out_more, char *reason, size_t capacity) {
    *out_more = reader->next < reader->bytes;
    if (!*out_more) return PACK_DONE;
    reader->offset = reader->next;
    reader->n = 0;
    reader->n_pieces = 0;
    uint32_t flag = 1;
    while (flag == 1 || flag == 2)
        if (!read_piece(reader, &flag, reason, capacity)) return PACK_FAILED;
    return PACK_DONE;
}

size_t pack_header_read(const uint8_t *payload, size_t n, pack_header *out) {
    if (n < PACK_HEADER_BYTES) return 0;
    const uint32_t bits = get_u32(payload + 4);
    out->flag = get_u32(payload);
    memcpy(&out->label, &bits, sizeof(bits));
    out->id = get_u32(payload + 8) | (uint64_t)get_u32(payload + 12) << 32;
    out->id2 = get_u32(payload + 16) | (uint64_t)get_u32(payload + 20) << 32;
    if (out->flag > (n - PACK_HEADER_BYTES) / 4) return 0;
    return PACK_HEADER_BYTES + 4 * (size_t)out->flag;
}

pack_content pack_content_of(const uint8_t *bytes, size_t n) {
    if (n == 0) return PACK_EMPTY;
    if (n >= 3 && memcmp(bytes, "\xff\xd8\xff", 3) == 0) return PACK_JPEG;
    if (n >= 8 && memcmp(bytes, "\x89PNG\r\n\x1a\n", 8) == 0) return PACK_PNG;
    return PACK_OTHER;
}

/* ---- index files ----------------------------------------------------------------------------- */

static bool read_number(const char **p, uint64_t *out) {
    const char *digits = *p;
    for (*out = 0; **p >= '0' && **p <= '9'; ++*p)
        *out = 10 * *out + (uint64_t)(**p - '0');
    return *p > digits && *p - digits <= 20;
}

static int read_lines(const char *path, const char *p, const char *end, pack_index *out) {
    uint64_t capacity = 0;
    while (p < end) {
        if (!memchr(p, '\n', (size_t)(end - p))) {
            out->torn = true;
            break;
        }
        if (out->n == capacity) {
            capacity = capacity ? 2 * capacity : 1024;
            out->keys = pack_memory(out->keys, capacity, sizeof(*out->keys));
            out->offsets = pack_memory(out->offsets, capacity, sizeof(*out->offsets));
        }
        if (!read_number(&p, &out->keys[out->n]) || *p++ != '\t' ||
            !read_number(&p, &out->offsets[out->n]) || *p++ != '\n') {
            return pack_fail("%s: line %" PRIu64 " is not KEY TAB OFFSET", path, out->n + 1);
        }
        out->n++;
    }
    return PACK_DONE;
}

int pack_index_load(const char *path, pack_index *out) {
    *out = (pack_index){0};
    pack_reader reader;
    int status = pack_reader_open(&reader, path);
    if (status == PACK_DONE) {
        char *text = pack_memory(NULL, reader.bytes + 1, 1);
        const ssize_t got = read_at(&reader, 0, text, reader.bytes);
        if (got < 0) {
            status = pack_fail_os("%s", path);
        } else {
            text[got] = '\0';
            status = read_lines(path, text, text + got, out);
        }
        free(text);
    }
    pack_reader_close(&reader);
    return status;
}

void pack_index_free(pack_index *index) {
    free(index->keys);
    free(index->offsets);
    *index = (pack_index){0};
}

/*
 * pack_record.c - RecordIO files: written as MXNet does, read by the library's own readers.
 *
 * If the magic occurs in the payload at a multiple of 4 from its start, the payload is split there
 * and those four bytes are left out. So a reader that searches for the magic finds only heads.
 *
 * Source: dmlc-core, recordio.cc (RecordIOWriter::WriteRecord); MXNet, python/mxnet/recordio.py.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "iter/core/alloc.h"
#include "loaders/files/file.h"
#include "loaders/formats/record_index.h"
#include "tools/iterpack/iterpack.h"
#include "tools/iterpack/pack_remote.h"

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

static uint32_t float_bits(float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof(bits));
    return bits;
}

char *pack_idx_path(const char *rec) {
    const size_t n = pack_path_bytes(rec);
    const size_t stem = n > 4 && strncmp(rec + n - 4, ".rec", 4) == 0 ? n - 4 : n;
    return pack_text("%.*s.idx%s", (int)stem, rec, rec + n);
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

/* The message of an error; none if the program was interrupted. */
static int fail_object(pack_writer *writer, const iter_error *err) {
    writer->failed = true;
    return err->status == ITER_ECANCELED ? PACK_INTERRUPTED : pack_fail("%s", err->message);
}

static int write_all(pack_writer *writer, const uint8_t *p, size_t n) {
    iter_error err = {.status = ITER_OK};
    if (writer->object.upload)
        return iter__new_file_write(&writer->object, p, n, &err) < 0 ? fail_object(writer, &err)
                                                                     : PACK_DONE;
    while (n > 0) {
        const ssize_t done = write(writer->fd, p, n);
        if (done < 0 && errno == EINTR) continue;
        if (done < 0) {
            writer->failed = true; /* the buffer's content is lost */
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
    const int status = n > BUFFER_BYTES - writer->used ? flush(writer) : PACK_DONE;
    if (status != PACK_DONE) return status;
    if (n > BUFFER_BYTES) return write_all(writer, bytes, n);
    if (n) memcpy(writer->buffer + writer->used, bytes, n);
    writer->used += n;
    return PACK_DONE;
}

static int put_piece(pack_writer *writer, uint32_t flag, const uint8_t *bytes, size_t n) {
    static const uint8_t zeros[4] = {0};
    uint8_t head[ITER_RECORD_HEAD];
    put_u32(head, ITER_RECORD_MAGIC);
    put_u32(head + 4, flag << 29 | (uint32_t)n);
    int status = put(writer, head, sizeof(head));
    if (status == PACK_DONE) status = put(writer, bytes, n);
    return status == PACK_DONE ? put(writer, zeros, (4 - n % 4) % 4) : status;
}

int pack_writer_text(pack_writer *writer, const char *text, size_t n) {
    return put(writer, text, n);
}

int pack_writer_add(pack_writer *writer, const iter__record_header *header, const float *labels,
                    const void *content, size_t n_content) {
    const size_t n = ITER_RECORD_HEADER + 4 * (size_t)header->flag + n_content;
    if (n > LENGTH_MAX) {
        return pack_fail("%s: record %" PRIu64 " has %zu bytes; a record has at most %u",
                         writer->path, header->id, n, LENGTH_MAX);
    }
    uint8_t *payload = pack_memory(NULL, n, 1);
    put_u32(payload, header->flag);
    put_u32(payload + 4, float_bits(header->label));
    put_u64(payload + 8, header->id);
    put_u64(payload + 16, header->id2);
    uint8_t *to = payload + ITER_RECORD_HEADER;
    for (uint32_t i = 0; i < header->flag; i++, to += 4)
        put_u32(to, float_bits(labels[i]));
    if (n_content) memcpy(to, content, n_content);

    size_t from = 0;
    int status = PACK_DONE;
    for (size_t at = 0; at + 4 <= n && status == PACK_DONE; at += 4) {
        if (iter__get_le32(payload + at) != ITER_RECORD_MAGIC) continue;
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

int pack_writer_open_url(pack_writer *writer, char *url, const iter__upload_options *options) {
    iter_error err = {.status = ITER_OK};
    *writer = (pack_writer){.path = url, .fd = -1};
    if (iter__new_file_open(&writer->object, url, options, &err) < 0)
        return fail_object(writer, &err);
    writer->buffer = pack_memory(NULL, BUFFER_BYTES, 1);
    return PACK_DONE;
}

int pack_writer_finish(pack_writer *writer) {
    iter_error err = {.status = ITER_OK};
    const int status = writer->failed ? PACK_FAILED : flush(writer);
    if (status != PACK_DONE) return status;
    return iter__new_file_finish(&writer->object, &err) < 0 ? fail_object(writer, &err) : PACK_DONE;
}

int pack_writer_publish(pack_writer *writer, int status) {
    iter_error err = {.status = ITER_OK};
    if (!writer->object.upload) return status;
    if (status == PACK_DONE) status = pack_writer_finish(writer);
    const iter_status ended =
        iter__new_file_close(&writer->object, status == PACK_DONE ? ITER_OK : ITER_ECANCELED, &err);
    if (status == PACK_DONE && ended < 0) return fail_object(writer, &err);
    if (err.message[0]) pack_warn("%s", err.message); /* the upload could not be aborted */
    return status;
}

void pack_writer_close(pack_writer *writer) {
    if (writer->fd >= 0 && writer->path) close(writer->fd);
    free(writer->buffer);
    free(writer->path);
    *writer = (pack_writer){.fd = -1};
}

/* ---- reading --------------------------------------------------------------------------------- */

static void *room(struct pack_room *r, size_t bytes) {
    if (bytes > r->bytes) {
        r->bytes = bytes + bytes / 4;
        r->data = pack_memory(r->data, r->bytes, 1);
    }
    return r->data;
}

int pack_reader_open(pack_reader *reader, const char *path) {
    iter_error err;
    *reader = (pack_reader){.window.buffer = NULL};
    if (iter__window_open(&reader->window, path, &err) < 0) {
        *reader = (pack_reader){.window.buffer = NULL};
        return pack_fail("%s", err.message);
    }
    room(&reader->joined, 1);
    return PACK_DONE;
}

void pack_reader_close(pack_reader *reader) {
    iter__window_close(&reader->window);
    free(reader->bytes.data);
    free(reader->joined.data);
    free(reader->label_room.data);
    *reader = (pack_reader){.window.buffer = NULL};
}

/* Counts the record's pieces and checks their padding. */
static void look_at_pieces(pack_reader *reader, const uint8_t *bytes, size_t n) {
    reader->n_pieces = 0;
    reader->filled = true;
    for (size_t at = 0; n - at >= ITER_RECORD_HEAD; reader->n_pieces++) {
        const size_t length = iter__record_length(iter__get_le32(bytes + at + 4));
        size_t end = at + ITER_RECORD_HEAD + length;
        for (; end % 4 != 0 && end < n; end++)
            reader->filled &= bytes[end] == 0;
        at = end < n ? end : n;
    }
}

/* Splits the record in bytes[n] into header, labels and content. */
static iter_status take_apart(pack_reader *reader, const uint8_t *bytes, size_t n,
                              iter_error *err) {
    iter__record record, behind;
    const iter_status status = iter__record_open(&record, bytes, n, err);
    if (status < 0) return status;
    behind = record;
    reader->header = (iter__record_header){0};
    reader->has_header = iter__record_read_header(&behind, &reader->header, NULL) == ITER_OK;
    if (!reader->has_header) reader->header = (iter__record_header){0};
    const uint32_t flag = reader->header.flag;
    reader->n_labels = flag ? flag : 1;
    reader->labels = room(&reader->label_room, 4 * (size_t)reader->n_labels);
    reader->labels[0] = reader->header.label;
    for (uint32_t i = 0; i < flag; i++)
        reader->labels[i] = iter__record_read_label(&behind);
    if (reader->has_header) record = behind;
    reader->n_content = record.left;
    reader->content = iter__record_rest(&record);
    if (reader->content) return ITER_OK;
    reader->content = room(&reader->joined, record.left + 1);
    iter__record_read(&record, reader->joined.data, record.left);
    return ITER_OK;
}

int pack_reader_next(pack_reader *reader, bool *out_more, iter_error *err) {
    iter_status status = iter__record_walk(&reader->window, &reader->next, &reader->offset, err);
    *out_more = status != ITER_END;
    if (status == ITER_END) return PACK_DONE;
    if (status == ITER_OK) {
        const size_t n = (size_t)(reader->next - reader->offset);
        uint8_t *bytes = room(&reader->bytes, n);
        status = iter__window_read(&reader->window, reader->offset, bytes, n, err);
        if (status == ITER_OK) {
            look_at_pieces(reader, bytes, n);
            status = take_apart(reader, bytes, n, err);
        }
    }
    return status == ITER_OK ? PACK_DONE : PACK_FAILED;
}

pack_content pack_content_of(const uint8_t *bytes, size_t n) {
    if (n == 0) return PACK_EMPTY;
    if (n >= 3 && memcmp(bytes, "\xff\xd8\xff", 3) == 0) return PACK_JPEG;
    if (n >= 8 && memcmp(bytes, "\x89PNG\r\n\x1a\n", 8) == 0) return PACK_PNG;
    if (n >= 12 && memcmp(bytes, "RIFF", 4) == 0 && memcmp(bytes + 8, "WEBP", 4) == 0)
        return PACK_WEBP;
    return PACK_OTHER;
}

/* ---- index files ----------------------------------------------------------------------------- */

static bool read_key(const iter__idx_line *line, uint64_t *out) {
    *out = 0;
    for (size_t i = 0; i < line->n_key; i++) {
        if (line->key[i] < '0' || line->key[i] > '9' || __builtin_mul_overflow(*out, 10, out) ||
            __builtin_add_overflow(*out, (uint64_t)(line->key[i] - '0'), out))
            return false;
    }
    return line->n_key > 0;
}

static iter_status read_lines(iter__idx_text *text, pack_index *out, iter_error *err) {
    uint64_t capacity = 0;
    for (;;) {
        iter__idx_line line;
        const iter_status status = iter__idx_next(text, &line, err);
        if (status == ITER_END) return ITER_OK;
        out->torn =
            status < 0 ? !memchr(text->p, '\n', (size_t)(text->end - text->p)) : !line.ended;
        if (out->torn) return ITER_OK;
        if (status < 0) return status;
        if (out->n == capacity) {
            capacity = capacity ? 2 * capacity : 1024;
            out->keys = pack_memory(out->keys, capacity, sizeof(*out->keys));
            out->offsets = pack_memory(out->offsets, capacity, sizeof(*out->offsets));
        }
        if (!read_key(&line, &out->keys[out->n])) {
            snprintf(err->message, sizeof(err->message),
                     "%s: line %" PRIu64 ": the key is not a number", text->path, text->line);
            return ITER_EFORMAT;
        }
        out->offsets[out->n++] = line.offset;
    }
}

int pack_index_load(const char *path, pack_index *out) {
    iter_error err;
    iter__idx_text text;
    char *bytes = NULL;
    size_t n = 0;
    *out = (pack_index){0};
    iter_status status = iter__file_load(path, UINT64_MAX, &bytes, &n, &err);
    if (status == ITER_OK) {
        iter__idx_open(&text, path, bytes, n);
        status = read_lines(&text, out, &err);
    }
    iter__free(bytes);
    return status < 0 ? pack_fail("%s", err.message) : PACK_DONE;
}

void pack_index_free(pack_index *index) {
    free(index->keys);
    free(index->offsets);
    *index = (pack_index){0};
}

/*
 * file.c - see file.h.
 *
 * Files are opened with O_NONBLOCK: a named pipe in place of a file is refused, and open() does not
 * wait for its writer. On regular files the flag has no effect. gzip is recognised by its first two
 * bytes, not by the file's name. zlib's memory comes from our own allocator, so that the tests can
 * fail it.
 *
 * Source: RFC 1952 (members may follow one another); zlib.h. Deflate makes at most 1032 bytes of
 * one (zlib, "Maximum Compression Factor").
 */
#include "loaders/files/file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include "iter/core/alloc.h"
#include "iter/core/arith.h"
#include "iter/core/error.h"
#include "iter/remote/client.h"
#include "iter/remote/upload.h"
#include "iter/remote/url.h"

#define BUFFER_BYTES   ((size_t)1 << 16)
#define SECOND_NS      1000000000u
#define STEP_BYTES     ((size_t)1 << 30) /* the most for one call of the kernel or of zlib */
#define DEFLATE_FACTOR 1032u
/* Names to try: a killed process that had our number may have left some. */
#define NAMES_MAX 1000

struct iter__input {
    iter__data_file file;
    bool gzip;
    bool member_ended; /* gzip: between two members, or at the end */
    bool inflating;    /* inflateInit2() was called */
    uint64_t offset;   /* of the next byte to read from the file */
    unsigned char *buffer;
    z_stream z;
};

static iter_status fail_os(iter_error *err, const char *path, int os_error) {
    char text[128];
    return iter__fail(err, ITER_EIO, "%s: %s", path, iter__os_error(os_error, text, sizeof(text)));
}

/* Opens a URL with this thread's client, or with one of its own. */
static iter_status open_remote(const char *url, iter__data_file *out, iter_error *err) {
    iter__remote *remote;
    iter__remote_info info;
    ITER_TRY(iter__remote_take(iter__remote_of(url), &remote, err));
    const iter_status status = iter__remote_file_open(remote, url, &out->remote, &info, err);
    iter__remote_unref(remote);
    if (status < 0) return status;
    out->bytes = info.bytes;
    out->mtime_ns = (int64_t)(info.version >> 1);
    return ITER_OK;
}

iter_status iter__file_open(const char *path, iter__data_file *out, iter_error *err) {
    int fd;
    *out = (iter__data_file){.path = path, .fd = -1};
    if (iter__url_is(path)) return open_remote(path, out, err);
    do {
        fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    } while (fd < 0 && errno == EINTR);
    if (fd < 0) return fail_os(err, path, errno);

    struct stat st;
    iter_status status = ITER_OK;
    if (fstat(fd, &st) < 0) {
        status = fail_os(err, path, errno);
    } else if (S_ISDIR(st.st_mode)) {
        status = iter__fail(err, ITER_EIO, "%s: is a directory, expected a file", path);
    } else if (!S_ISREG(st.st_mode)) {
        status = iter__fail(err, ITER_EIO, "%s: is not a regular file", path);
    }
    if (status < 0) {
        close(fd);
        return status;
    }
    out->fd = fd;
    out->bytes = (uint64_t)st.st_size;
    out->mtime_ns =
        (int64_t)((uint64_t)st.st_mtim.tv_sec * SECOND_NS + (uint64_t)st.st_mtim.tv_nsec);
    return ITER_OK;
}

void iter__file_close(const iter__data_file *file) {
    if (file->fd >= 0) close(file->fd);
    iter__remote_file_close(file->remote);
}

void iter__file_jumps(const iter__data_file *file) {
    if (file->fd >= 0) (void)posix_fadvise(file->fd, 0, 0, POSIX_FADV_RANDOM);
}

iter_status iter__file_read_at(const iter__data_file *file, uint64_t offset, void *out, size_t n,
                               size_t *out_done, iter_error *err) {
    size_t done = 0;
    if (file->remote) return iter__remote_file_read(file->remote, offset, out, n, out_done, err);
    while (done < n) {
        const size_t step = iter__min_size(n - done, STEP_BYTES);
        const ssize_t got = pread(file->fd, (char *)out + done, step, (off_t)(offset + done));
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) return fail_os(err, file->path, errno);
        if (got == 0) break;
        done += (size_t)got;
    }
    *out_done = done;
    return ITER_OK;
}

/* ---- gzip ------------------------------------------------------------------------------------ */

static voidpf z_alloc(voidpf opaque, uInt n, uInt size) {
    (void)opaque;
    return iter__alloc(n, size);
}

static void z_free(voidpf opaque, voidpf block) {
    (void)opaque;
    iter__free(block);
}

static iter_status inflate_start(iter__input *input, iter_error *err) {
    input->z.zalloc = z_alloc;
    input->z.zfree = z_free;
    input->buffer = iter__alloc(BUFFER_BYTES, 1);
    /* 15 + 16: the largest window, with a gzip header */
    if (!input->buffer || inflateInit2(&input->z, 15 + 16) != Z_OK)
        return iter__fail(err, ITER_ENOMEM, "%s: no memory to inflate it", input->file.path);
    input->inflating = true;
    return ITER_OK;
}

static iter_status refill(iter__input *input, iter_error *err) {
    size_t got = 0;
    ITER_TRY(
        iter__file_read_at(&input->file, input->offset, input->buffer, BUFFER_BYTES, &got, err));
    input->offset += got;
    input->z.next_in = input->buffer;
    input->z.avail_in = (uInt)got;
    return ITER_OK;
}

/* One step of inflate into z.next_out[z.avail_out]; *out_end is set at the end of the data. */
static iter_status inflate_step(iter__input *input, bool *out_end, iter_error *err) {
    *out_end = false;
    if (input->z.avail_in == 0) ITER_TRY(refill(input, err));
    if (input->member_ended) {
        if (input->z.avail_in == 0) {
            *out_end = true;
            return ITER_OK;
        }
        if (inflateReset(&input->z) != Z_OK)
            return iter__fail(err, ITER_EFORMAT, "%s: cannot be inflated", input->file.path);
        input->member_ended = false;
    } else if (input->z.avail_in == 0) {
        return iter__fail(err, ITER_EFORMAT, "%s: gzip data ends early, after %" PRIu64 " bytes",
                          input->file.path, input->offset);
    }
    const int answer = inflate(&input->z, Z_NO_FLUSH);
    if (answer == Z_MEM_ERROR)
        return iter__fail(err, ITER_ENOMEM, "%s: no memory to inflate it", input->file.path);
    if (answer == Z_STREAM_END) {
        input->member_ended = true;
    } else if (answer != Z_OK && answer != Z_BUF_ERROR) {
        return iter__fail(err, ITER_EFORMAT, "%s: gzip data is corrupt: %s", input->file.path,
                          input->z.msg ? input->z.msg : "unknown reason");
    }
    return ITER_OK;
}

static iter_status read_gzip(iter__input *input, void *out, size_t n, size_t *out_done,
                             iter_error *err) {
    size_t done = 0;
    while (done < n) {
        const size_t step = iter__min_size(n - done, STEP_BYTES);
        bool end = false;
        input->z.next_out = (unsigned char *)out + done;
        input->z.avail_out = (uInt)step;
        ITER_TRY(inflate_step(input, &end, err));
        if (end) break;
        done += step - input->z.avail_out;
    }
    *out_done = done;
    return ITER_OK;
}

/* ---- functions of file.h --------------------------------------------------------------------- */

const char *iter__path_base(const char *path) {
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

char *iter__path_join(const char *folder, const char *name) {
    if (name[0] == '/' || folder[0] == '\0' || iter__url_is(name)) return iter__strdup(name);
    const bool slash = folder[strlen(folder) - 1] == '/';
    return iter__strf("%s%s%s", folder, slash ? "" : "/", name);
}

static iter_status look_remote(const char *url, iter__remote_info *out, iter_error *err) {
    iter__remote *remote;
    *out = (iter__remote_info){0};
    ITER_TRY(iter__remote_take(iter__remote_of(url), &remote, err));
    const iter_status status = iter__remote_look(remote, url, out, err);
    iter__remote_unref(remote);
    return status;
}

bool iter__path_exists(const char *path) {
    struct stat st;
    iter__remote_info info;
    if (iter__url_is(path)) return look_remote(path, &info, NULL) == ITER_OK;
    return stat(path, &st) == 0;
}

iter_status iter__path_is_missing(const char *path, bool *out, iter_error *err) {
    iter__remote_info info;
    if (!iter__url_is(path)) {
        *out = !iter__path_exists(path);
        return ITER_OK;
    }
    const iter_status status = look_remote(path, &info, err);
    *out = info.is_missing;
    return info.is_missing ? ITER_OK : status;
}

bool iter__path_is_folder(const char *path) {
    struct stat st;
    iter__remote_info info;
    if (iter__url_is(path)) return look_remote(path, &info, NULL) == ITER_OK && info.is_folder;
    return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

iter_file iter__file_entry(const char *path, uint64_t bytes) {
    return (iter_file){.path = path, .bytes = bytes, .place = iter__remote_of(path)};
}

/* ---- Folders --------------------------------------------------------------------------------- */

/* AT_STATX_DONT_SYNC: a network file system may answer from its cache. */
static void look_in(int fd, const char *name, iter__entry *out) {
    struct statx info;
    *out = (iter__entry){.name = name, .kind = ITER_ENTRY_OTHER};
    if (statx(fd, name, AT_STATX_DONT_SYNC | AT_NO_AUTOMOUNT, STATX_TYPE | STATX_SIZE, &info) < 0) {
        out->reason = errno;
    } else if (S_ISDIR(info.stx_mode)) {
        out->kind = ITER_ENTRY_FOLDER;
    } else if (S_ISREG(info.stx_mode)) {
        out->kind = ITER_ENTRY_FILE;
        out->bytes = info.stx_size;
    }
}

void iter__path_look(const char *path, iter__entry *out) {
    iter__remote_info info;
    if (!iter__url_is(path)) {
        look_in(AT_FDCWD, path, out);
        return;
    }
    *out = (iter__entry){.name = path, .kind = ITER_ENTRY_OTHER};
    if (look_remote(path, &info, NULL) < 0) {
        out->reason = ENOENT;
    } else if (info.is_folder) {
        out->kind = ITER_ENTRY_FOLDER;
    } else {
        out->kind = ITER_ENTRY_FILE;
        out->bytes = info.bytes;
    }
}

iter_status iter__files_each(const char *path, uint64_t n, uint32_t most, iter__files_task *task,
                             void *user, iter_error *err) {
    iter__remote *remote = iter__remote_of(path);
    if (remote) return iter__remote_each(remote, n, most, task, user, err);
    for (uint64_t i = 0; i < n; i++)
        ITER_TRY(task(user, i, err));
    return ITER_OK;
}

static iter_status list_local(const char *folder, iter__folder_visit *visit, void *user,
                              iter_error *err) {
    DIR *dir = opendir(folder);
    if (!dir) return fail_os(err, folder, errno);
    iter_status status = ITER_OK;
    while (status == ITER_OK) {
        errno = 0;
        const struct dirent *one = readdir(dir); /* NOLINT(concurrency-mt-unsafe): own DIR */
        if (!one) {
            if (errno) status = fail_os(err, folder, errno);
            break;
        }
        if (one->d_name[0] == '.') continue;
        iter__entry entry = {.name = one->d_name, .kind = ITER_ENTRY_FOLDER};
        if (one->d_type != DT_DIR) look_in(dirfd(dir), one->d_name, &entry);
        status = visit(user, &entry, err);
    }
    closedir(dir);
    return status;
}

typedef struct visitor {
    iter__folder_visit *visit;
    void *user;
} visitor;

static iter_status visit_remote(void *user, const char *name, bool is_folder, uint64_t bytes,
                                iter_error *err) {
    const visitor *v = user;
    const iter__entry entry = {
        .name = name, .kind = is_folder ? ITER_ENTRY_FOLDER : ITER_ENTRY_FILE, .bytes = bytes};
    return name[0] == '.' ? ITER_OK : v->visit(v->user, &entry, err);
}

iter_status iter__folder_list(const char *folder, iter__folder_visit *visit, void *user,
                              iter_error *err) {
    if (!iter__url_is(folder)) return list_local(folder, visit, user, err);
    visitor v = {visit, user};
    iter__remote *remote;
    ITER_TRY(iter__remote_take(iter__remote_of(folder), &remote, err));
    const iter_status status = iter__remote_list(remote, folder, visit_remote, &v, err);
    iter__remote_unref(remote);
    return status;
}

iter_status iter__file_check(const char *path, uint64_t *out_bytes, iter_error *err) {
    iter__data_file file;
    *out_bytes = 0;
    ITER_TRY(iter__file_open(path, &file, err));
    iter__file_close(&file);
    *out_bytes = file.bytes;
    return ITER_OK;
}

iter_status iter__file_load(const char *path, uint64_t limit_bytes, char **out, size_t *out_bytes,
                            iter_error *err) {
    iter__data_file file;
    *out = NULL;
    *out_bytes = 0;
    ITER_TRY(iter__file_open(path, &file, err));

    const uint64_t bytes = file.bytes;
    iter_status status = ITER_OK;
    size_t done = 0;
    char *text = NULL;
    if (bytes > limit_bytes || bytes > SIZE_MAX - 1) {
        status =
            iter__fail(err, ITER_EFORMAT, "%s: has %" PRIu64 " bytes, expected at most %" PRIu64,
                       path, bytes, limit_bytes);
        goto fail;
    }
    text = iter__alloc((size_t)bytes + 1, 1);
    if (!text) {
        status =
            iter__fail(err, ITER_ENOMEM, "%s: no memory for its %" PRIu64 " bytes", path, bytes);
        goto fail;
    }
    status = iter__file_read_at(&file, 0, text, (size_t)bytes, &done, err);
    if (status < 0) goto fail;
    if (done != bytes) {
        status = iter__fail(err, ITER_EIO,
                            "%s: ended after %zu of %" PRIu64 " bytes, it shrank while it was read",
                            path, done, bytes);
        goto fail;
    }
    iter__file_close(&file);
    *out = text;
    *out_bytes = done;
    return ITER_OK;

fail:
    iter__free(text);
    iter__file_close(&file);
    return status;
}

iter_status iter__input_open(const char *path, iter__input **out, iter_error *err) {
    iter__data_file file;
    *out = NULL;
    ITER_TRY(iter__file_open(path, &file, err));

    iter__input *input = iter__alloc(1, sizeof(*input));
    if (!input) {
        iter__file_close(&file);
        return iter__fail(err, ITER_ENOMEM, "%s: no memory to read it", path);
    }
    input->file = file;

    unsigned char magic[2] = {0, 0};
    size_t got = 0;
    iter_status status = iter__file_read_at(&file, 0, magic, sizeof(magic), &got, err);
    input->gzip = got == 2 && magic[0] == 0x1f && magic[1] == 0x8b;
    if (status == ITER_OK && input->gzip) status = inflate_start(input, err);
    if (status < 0) {
        iter__input_close(input);
        return status;
    }
    *out = input;
    return ITER_OK;
}

iter_status iter__input_read(iter__input *input, void *out, size_t n, size_t *out_done,
                             iter_error *err) {
    *out_done = 0;
    if (input->gzip) return read_gzip(input, out, n, out_done, err);
    ITER_TRY(iter__file_read_at(&input->file, input->offset, out, n, out_done, err));
    input->offset += *out_done;
    return ITER_OK;
}

bool iter__input_is_gzip(const iter__input *input) {
    return input->gzip;
}

uint64_t iter__input_most_bytes(const iter__input *input) {
    const uint64_t bytes = input->file.bytes;
    if (!input->gzip) return bytes;
    return bytes > UINT64_MAX / DEFLATE_FACTOR ? UINT64_MAX : bytes * DEFLATE_FACTOR;
}

void iter__input_close(iter__input *input) {
    if (!input) return;
    if (input->inflating) inflateEnd(&input->z);
    iter__free(input->buffer);
    iter__file_close(&input->file);
    iter__free(input);
}

static iter_status open_upload(iter__new_file *file, const iter__upload_options *options,
                               iter_error *err) {
    iter__remote *remote;
    if (!options)
        return iter__fail(err, ITER_EUNSUPPORTED, "%s: this file is not written to URLs",
                          file->path);
    ITER_TRY(iter__remote_take(iter__remote_of(file->path), &remote, err));
    const iter_status status = iter__upload_open(remote, file->path, options, &file->upload, err);
    iter__remote_unref(remote);
    return status;
}

iter_status iter__new_file_open(iter__new_file *file, const char *path,
                                const iter__upload_options *upload, iter_error *err) {
    const char *base = iter__path_base(path);
    *file = (iter__new_file){.path = path, .fd = -1};
    if (iter__url_is(path)) return open_upload(file, upload, err);
    for (int n = 0; file->fd < 0; n++) {
        file->other =
            iter__strf("%.*s.%s.%ld-%d.tmp", (int)(base - path), path, base, (long)getpid(), n);
        if (!file->other) return iter__fail(err, ITER_ENOMEM, "%s: no memory to write it", path);
        do {
            file->fd = open(file->other, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        } while (file->fd < 0 && errno == EINTR);
        if (file->fd >= 0) break;
        const int reason = errno;
        iter__free(file->other);
        file->other = NULL;
        if (reason != EEXIST || n == NAMES_MAX) return fail_os(err, path, reason);
    }
    return ITER_OK;
}

iter_status iter__new_file_write(const iter__new_file *file, const void *bytes, size_t n,
                                 iter_error *err) {
    const char *p = bytes;
    if (file->upload) return iter__upload_write(file->upload, bytes, n, err);
    while (n > 0) {
        const ssize_t done = write(file->fd, p, iter__min_size(n, STEP_BYTES));
        if (done < 0 && errno == EINTR) continue;
        if (done < 0) return fail_os(err, file->path, errno);
        p += done;
        n -= (size_t)done;
    }
    return ITER_OK;
}

iter_status iter__new_file_finish(const iter__new_file *file, iter_error *err) {
    if (file->upload) return iter__upload_finish(file->upload, err);
    return fsync(file->fd) < 0 ? fail_os(err, file->path, errno) : ITER_OK;
}

iter_status iter__new_file_close(iter__new_file *file, iter_status status, iter_error *err) {
    if (file->upload) {
        status = iter__upload_close(file->upload, status, err);
        *file = (iter__new_file){.fd = -1};
        return status;
    }
    if (status == ITER_OK && fsync(file->fd) < 0) status = fail_os(err, file->path, errno);
    if (close(file->fd) < 0 && status == ITER_OK) status = fail_os(err, file->path, errno);
    if (status == ITER_OK && rename(file->other, file->path) < 0)
        status = fail_os(err, file->path, errno);
    if (status < 0) (void)unlink(file->other);
    iter__free(file->other);
    *file = (iter__new_file){.fd = -1};
    return status;
}

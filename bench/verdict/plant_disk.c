/*
 * plant_disk.c - pread from a disk whose bandwidth all readers share.
 *
 * Every read books its time on one line and sleeps until that time is over. So latency grows with
 * the queue, and more readers do not help, as with a real device at its limit.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bench/common/bench_util.h"
#include "bench/verdict/plant.h"

#define OPEN_MAX_FILES 256 /* a larger set opens each file for its read: descriptors are few */

static double rate = 100e6; /* bytes a second */

typedef struct disk_state {
    const iter_file *paths; /* owned by the loader, until close */
    int *files;             /* [n_files]; -1 = opened for each read */
    uint64_t n_files;
    double ns_per_byte;
    atomic_ullong free_at; /* the time when the device has finished all booked reads */
} disk_state;

void plant_disk_rate(double bytes_per_s) {
    rate = bytes_per_s;
}

static void disk_close(void *state) {
    disk_state *disk = state;
    for (uint64_t i = 0; disk->files != NULL && i < disk->n_files; i++)
        if (disk->files[i] >= 0) close(disk->files[i]);
    free(disk->files);
    disk->files = NULL;
}

static iter_status disk_open(void *state, const iter_source_config *config, char *fallback,
                             size_t capacity, iter_error *err) {
    disk_state *disk = state;
    if (capacity > 0) fallback[0] = '\0';
    disk->ns_per_byte = 1e9 / rate;
    disk->n_files = config->n_files;
    disk->files = malloc((config->n_files + 1) * sizeof(int));
    if (disk->files == NULL) return bench_fail(err, ITER_ENOMEM, "no memory for files");
    memset(disk->files, -1, config->n_files * sizeof(int));
    disk->paths = config->files;
    for (uint64_t i = 0; config->n_files <= OPEN_MAX_FILES && i < config->n_files; i++) {
        disk->files[i] = open(config->files[i].path, O_RDONLY | O_CLOEXEC);
        if (disk->files[i] >= 0) continue;
        bench_fail(err, ITER_EIO, "%s: %s", config->files[i].path, strerror(errno));
        disk_close(disk);
        return ITER_EIO;
    }
    return ITER_OK;
}

static void wait_turn(disk_state *disk, size_t bytes) {
    const unsigned long long takes = (unsigned long long)((double)bytes * disk->ns_per_byte);
    unsigned long long from = atomic_load(&disk->free_at), until, now;
    do {
        now = bench_now_ns();
        until = (from > now ? from : now) + takes;
    } while (!atomic_compare_exchange_weak(&disk->free_at, &from, until));
    if (until > now) bench_sleep((double)(until - now) * 1e-9);
}

static iter_status read_from(int file, iter_read *read) {
    size_t before = 0;
    for (int32_t i = 0; i < read->n_parts; i++) {
        const iter_iovec *part = &read->parts[i];
        while (read->done < before + part->size) {
            const size_t at = read->done - before;
            ssize_t n = pread(file, (char *)part->data + at, part->size - at,
                              (off_t)(read->offset + read->done));
            if (n < 0 && errno == EINTR) continue;
            if (n < 0) {
                read->os_error = errno;
                return read->status = ITER_EIO;
            }
            if (n == 0) return ITER_OK; /* end of the file */
            read->done += (size_t)n;
        }
        before += part->size;
    }
    return ITER_OK;
}

static iter_status disk_read(void *state, iter_read *read) {
    disk_state *disk = state;
    const int kept = disk->files[read->object];
    const int file = kept >= 0 ? kept : open(disk->paths[read->object].path, O_RDONLY | O_CLOEXEC);
    read->path = ITER_PATH_PREAD;
    read->status = ITER_OK;
    if (file < 0) {
        read->os_error = errno;
        return read->status = ITER_EIO;
    }
    read_from(file, read);
    if (kept < 0) close(file);
    if (read->status == ITER_OK) wait_turn(disk, read->done);
    return read->status;
}

const iter_source_ops plant_disk = {
    .base = {.struct_size = sizeof(iter_source_ops),
             .name = "slow-disk",
             .help = "pread from a disk with a planted bandwidth",
             .state_size = sizeof(disk_state)},
    .open = disk_open,
    .close = disk_close,
    .read = disk_read,
};

/* source_drive.c - see source_drive.h. */
#include <iter/registry.h>

#include "tests/support/source_drive.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#include "iter/core/alloc.h"

const iter_source_ops *source_named(const char *name) {
    for (int i = 0; iter_builtin_source(i) != NULL; i++)
        if (strcmp(iter_builtin_source(i)->base.name, name) == 0) return iter_builtin_source(i);
    return NULL;
}

iter_status source_drive_open(source_drive *d, const iter_source_ops *ops,
                              const iter_source_config *config) {
    memset(d, 0, sizeof *d);
    d->ops = ops;
    d->depth = config->depth;
    void *state = iter__alloc(1, ops->base.state_size);
    if (state == NULL) return ITER_ENOMEM;
    const iter_status status = ops->open(state, config, d->fallback, sizeof d->fallback, &d->err);
    if (status == ITER_OK) {
        d->state = state;
    } else {
        iter__free(state);
    }
    return status;
}

void source_drive_close(source_drive *d) {
    if (d->state != NULL) d->ops->close(d->state);
    iter__free(d->state);
    d->state = NULL;
}

uint32_t source_drive_run(source_drive *d, iter_read *reads, size_t n) {
    if (d->ops->submit == NULL) {
        for (size_t i = 0; i < n; i++)
            (void)d->ops->read(d->state, &reads[i]);
        return 1;
    }
    size_t submitted = 0;
    size_t completed = 0;
    uint32_t most = 0;
    while (completed < n) {
        while (submitted < n && d->ops->submit(d->state, &reads[submitted]) == ITER_PENDING)
            submitted++;
        if (submitted - completed > most) most = (uint32_t)(submitted - completed);
        (void)d->ops->commit(d->state);
        iter_read *done[16];
        int32_t got;
        while ((got = d->ops->reap(d->state, done, 16)) > 0)
            completed += (size_t)got;
        if (submitted > completed) (void)d->ops->wait(d->state, 10000000000);
    }
    return most;
}

void source_make_durable(const char *path) {
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return;
    (void)fsync(fd);
    close(fd);
}

void source_make_cold(const char *path) {
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return;
    (void)posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
    close(fd);
}

int source_is_hot(const char *path, uint64_t offset) {
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return -1;
    char bytes[4096];
    const struct iovec part = {bytes, sizeof bytes};
    const ssize_t got = preadv2(fd, &part, 1, (off_t)offset, RWF_NOWAIT);
    const int why = errno;
    close(fd);
    if (got >= 0) return 1;
    return why == EAGAIN ? 0 : -1;
}

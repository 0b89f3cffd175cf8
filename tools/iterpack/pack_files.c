/*
 * pack_files.c - see pack_files.h.
 *
 * A ring of places, one for each file. A thread claims the next item whose place is free, reads the
 * file and converts its image without the lock, and marks the place full. The writer empties places
 * in order. So files are read in any order and written in one.
 */
#include "tools/iterpack/pack_files.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "iter/core/alloc.h"
#include "iter/remote/url.h"
#include "tools/iterpack/pack_remote.h"

#define PLACES     64
#define THREAD_MAX 64
#define AT_URLS    32 /* threads; each asks for a file's size, then for its bytes */

typedef struct place {
    uint8_t *bytes;
    size_t n, capacity;
    char reason[PACK_REASON_BYTES]; /* "" = it was read */
    bool full, warned;
} place;

struct pack_files {
    const pack_list *list;
    const char *root;
    const pack_images *images;
    uint64_t first, last;
    pthread_mutex_t lock;   /* guards the fields below */
    pthread_cond_t changed; /* a place is full, or free, or everything is over */
    uint64_t claimed, taken;
    bool over;
    place places[PLACES];
    pthread_t threads[THREAD_MAX];
    int n_threads;
};

static void room(place *p, size_t n) {
    if (n <= p->capacity) return;
    p->capacity = n + n / 4;
    p->bytes = pack_memory(p->bytes, p->capacity, 1);
}

/* Reads a whole regular file into the place, whose memory grows; 0 or errno. */
static int read_fd(int fd, place *p) {
    struct stat st;
    if (fstat(fd, &st) < 0) return errno;
    if (!S_ISREG(st.st_mode)) return S_ISDIR(st.st_mode) ? EISDIR : EINVAL;
    for (p->n = 0;;) {
        const size_t need = p->n + 1 > (size_t)st.st_size + 1 ? p->n + 1 : (size_t)st.st_size + 1;
        room(p, need);
        const ssize_t got = read(fd, p->bytes + p->n, p->capacity - p->n);
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) return errno;
        if (got == 0) return 0;
        p->n += (size_t)got;
    }
}

static void read_local(const char *path, place *p) {
    const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    const int os_error = fd < 0 ? errno : read_fd(fd, p);
    if (fd >= 0) close(fd);
    if (os_error) snprintf(p->reason, sizeof(p->reason), "%s", strerror(os_error));
}

static void read_url(const char *url, place *p) {
    iter_error err = {.status = ITER_OK};
    char *bytes = NULL;
    size_t n = 0;
    if (iter__file_load(url, UINT64_MAX, &bytes, &n, &err) < 0) {
        snprintf(p->reason, sizeof(p->reason), "%s", err.message);
        return;
    }
    room(p, n);
    memcpy(p->bytes, bytes, n);
    p->n = n;
    iter__free(bytes);
}

/* Fills the place, or its reason. */
static void read_file(const char *root, const char *name, place *p) {
    char *path = iter__path_join(root, name);
    p->reason[0] = '\0';
    if (!path) {
        snprintf(p->reason, sizeof(p->reason), "no memory for its name");
    } else if (iter__url_is(path)) {
        read_url(path, p);
    } else {
        read_local(path, p);
    }
    iter__free(path);
}

/* Fills the place. `image` belongs to the thread; if it could not be made, `why` is the reason. */
static void fill(pack_files *f, const char *name, pack_image *image, const char *why, place *p) {
    const uint8_t *bytes = NULL;
    size_t n = 0;
    read_file(f->root, name, p);
    p->warned = false;
    if (p->reason[0] || !f->images) return;
    if (!image) {
        snprintf(p->reason, sizeof(p->reason), "%s", why);
        return;
    }
    if (!pack_image_make(image, p->bytes, p->n, &bytes, &n, &p->warned, p->reason,
                         sizeof(p->reason)))
        return;
    room(p, n);
    memcpy(p->bytes, bytes, n);
    p->n = n;
}

static void *work(void *user) {
    pack_files *f = user;
    char reason[PACK_REASON_BYTES] = "";
    iter__remote *remote;
    pack_remote_enter(&remote);
    pack_image *image = f->images ? pack_image_start(f->images, reason, sizeof(reason)) : NULL;
    pthread_mutex_lock(&f->lock);
    while (!f->over && f->claimed < f->last) {
        if (f->claimed - f->taken >= PLACES - 1) { /* the place taken last is in use */
            pthread_cond_wait(&f->changed, &f->lock);
            continue;
        }
        const uint64_t item = f->claimed++;
        place *p = &f->places[item % PLACES];
        pthread_mutex_unlock(&f->lock);
        fill(f, pack_list_path(f->list, item), image, reason, p);
        pthread_mutex_lock(&f->lock);
        p->full = true;
        pthread_cond_broadcast(&f->changed);
    }
    pthread_mutex_unlock(&f->lock);
    pack_image_stop(image);
    iter__remote_unref(remote);
    return NULL;
}

int64_t pack_files_threads(const char *root, bool makes) {
    const long cores = sysconf(_SC_NPROCESSORS_ONLN);
    if (iter__url_is(root)) return AT_URLS;
    if (!makes) return 4;
    return cores < 1 ? 1 : cores > THREAD_MAX ? THREAD_MAX : cores;
}

pack_files *pack_files_start(const pack_list *list, uint64_t first, uint64_t last, const char *root,
                             int64_t n_threads, const pack_images *images) {
    pack_files *f = pack_memory(NULL, 1, sizeof(*f));
    memset(f, 0, sizeof(*f));
    *f = (pack_files){.list = list, .root = root, .images = images, .first = first, .last = last};
    f->claimed = f->taken = first;
    pthread_mutex_init(&f->lock, NULL);
    pthread_cond_init(&f->changed, NULL);
    for (int i = 0; i < n_threads && i < THREAD_MAX; i++) {
        if (pthread_create(&f->threads[f->n_threads], NULL, work, f) != 0) break;
        f->n_threads++;
    }
    if (f->n_threads == 0) {
        fputs("iterpack: no thread can be started\n", stderr);
        exit(PACK_FAILED);
    }
    return f;
}

void pack_files_take(pack_files *f, pack_file *out) {
    pthread_mutex_lock(&f->lock);
    if (f->taken > f->first) f->places[(f->taken - 1) % PLACES].full = false;
    place *p = &f->places[f->taken % PLACES];
    while (!p->full)
        pthread_cond_wait(&f->changed, &f->lock);
    *out = (pack_file){p->bytes, p->n, p->reason[0] ? p->reason : NULL, p->warned};
    f->taken++;
    pthread_cond_broadcast(&f->changed);
    pthread_mutex_unlock(&f->lock);
}

void pack_files_stop(pack_files *f) {
    pthread_mutex_lock(&f->lock);
    f->over = true;
    pthread_cond_broadcast(&f->changed);
    pthread_mutex_unlock(&f->lock);
    for (int i = 0; i < f->n_threads; i++)
        pthread_join(f->threads[i], NULL);
    for (int i = 0; i < PLACES; i++)
        free(f->places[i].bytes);
    pthread_cond_destroy(&f->changed);
    pthread_mutex_destroy(&f->lock);
    free(f);
}

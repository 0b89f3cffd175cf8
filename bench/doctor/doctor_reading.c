/*
 * doctor_reading.c - how bytes can be read here: io_uring and its features, how much memory may be
 * locked, and what a loader uses.
 *
 * The last item comes from a loader: it reads a batch of the dataset, or of a small file that is
 * written for it, once through the page cache and once past it. Its statistics name its fallbacks.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/utsname.h>
#include <unistd.h>

#ifdef ITER_HAVE_URING
#include <liburing.h>
#endif

#include <iter/loader.h>

#include "bench/common/bench_util.h"
#include "bench/doctor/doctor.h"
#include "bench/limits/photo_yard.h"

#define LOCK_MOST   ((size_t)64 << 20)
#define LOCK_LEAST  ((size_t)64 << 10)
#define FILE_ROWS   256
#define FILE_ROW    4096
#define BATCH       16
#define LOADER_MOST ((uint64_t)64 << 20)
#define ONE_SIZE    "resize:64" /* for photos: a batch needs rows of one size */

/* ---- io_uring -------------------------------------------------------------------------------- */

/* Explains why a ring cannot be created, and how to change that. */
static void explain_refusal(doctor_item *item, int error) {
    char disabled[16] = "0";
    unsigned long long seccomp = 0;
    (void)doctor_line("/proc/sys/kernel/io_uring_disabled", disabled, sizeof(disabled));
    (void)doctor_number("/proc/self/status", "Seccomp", &seccomp);
    doctor_costs(item,
                 "reads go through threads that call pread: more CPU time for small reads, and "
                 "fewer of them in flight");
    if (error == ENOSYS)
        doctor_mend(item, seccomp != 0
                              ? "a seccomp filter without io_uring, or an old kernel: allow "
                                "io_uring_setup, _enter and _register, or Linux 5.11"
                              : "Linux 5.11 or newer");
    else if (disabled[0] != '0')
        doctor_mend(item, "sysctl kernel.io_uring_disabled=0 (it is %s)", disabled);
    else if (seccomp != 0)
        doctor_mend(item, "the container's seccomp filter forbids it: allow io_uring_setup, _enter "
                          "and _register");
    else if (error == ENOMEM)
        doctor_mend(item, "ulimit -l unlimited: this kernel counts rings as locked memory");
}

#ifdef ITER_HAVE_URING

/* Bytes that can be registered as one buffer, in powers of two up to LOCK_MOST; 0 = none. */
static size_t registers(struct io_uring *ring) {
    void *memory = bench_map(LOCK_MOST);
    size_t bytes = memory != NULL ? LOCK_MOST : 0;
    for (; bytes >= LOCK_LEAST; bytes /= 2) {
        const struct iovec part = {memory, bytes};
        if (io_uring_register_buffers(ring, &part, 1) >= 0) {
            (void)io_uring_unregister_buffers(ring);
            break;
        }
    }
    bench_unmap(memory, LOCK_MOST);
    return bytes >= LOCK_LEAST ? bytes : 0;
}

static void list_features(const struct io_uring *ring, char *out, size_t capacity) {
    static const struct {
        unsigned bit;
        const char *name;
    } features[] = {
        {IORING_FEAT_NODROP, "NODROP"},
        {IORING_FEAT_SUBMIT_STABLE, "SUBMIT_STABLE"},
        {IORING_FEAT_EXT_ARG, "EXT_ARG"},
        {IORING_FEAT_CQE_SKIP, "CQE_SKIP"},
        {IORING_FEAT_NATIVE_WORKERS, "NATIVE_WORKERS"},
        {IORING_FEAT_SQPOLL_NONFIXED, "SQPOLL_NONFIXED"},
    };
    static const struct {
        int code;
        const char *name;
    } calls[] = {{IORING_OP_READ, "READ"},
                 {IORING_OP_READ_FIXED, "READ_FIXED"},
                 {IORING_OP_READV, "READV"},
                 {IORING_OP_OPENAT, "OPENAT"},
                 {IORING_OP_CLOSE, "CLOSE"}};
    size_t used = 0;
    struct io_uring_probe *probe = io_uring_get_probe_ring((struct io_uring *)(uintptr_t)ring);
    out[0] = '\0';
    for (size_t i = 0; probe != NULL && i < sizeof(calls) / sizeof(calls[0]); i++)
        if (io_uring_opcode_supported(probe, calls[i].code) && used < capacity)
            used += (size_t)snprintf(out + used, capacity - used, "%s ", calls[i].name);
    for (size_t i = 0; i < sizeof(features) / sizeof(features[0]); i++)
        if ((ring->features & features[i].bit) != 0 && used < capacity)
            used += (size_t)snprintf(out + used, capacity - used, "%s ", features[i].name);
    io_uring_free_probe(probe);
}

static void add_ring(doctor *d, size_t *out_registers) {
    struct io_uring ring, polled;
    struct utsname name;
    char features[160];
    *out_registers = 0;
    const int status = io_uring_queue_init(8, &ring, 0);
    if (status < 0) {
        doctor_item *item =
            doctor_add(d, "io_uring", DOCTOR_COSTS, "refused: %s", strerror(-status));
        explain_refusal(item, -status);
        return;
    }
    *out_registers = registers(&ring);
    list_features(&ring, features, sizeof(features));
    const int polls = io_uring_queue_init(8, &polled, IORING_SETUP_SQPOLL);
    if (polls >= 0) io_uring_queue_exit(&polled);
    const unsigned needed = IORING_FEAT_NODROP | IORING_FEAT_SUBMIT_STABLE | IORING_FEAT_EXT_ARG;
    const bool works = (ring.features & needed) == needed;
    doctor_item *item = doctor_add(
        d, "io_uring", works ? DOCTOR_OK : DOCTOR_COSTS,
        "%s: %sregistered buffers %s, SQPOLL %s (not used)", uname(&name) == 0 ? name.release : "",
        features, *out_registers > 0 ? "work" : "refused", polls >= 0 ? "allowed" : "refused");
    if (!works) explain_refusal(item, ENOSYS);
    io_uring_queue_exit(&ring);
}

#else

static void add_ring(doctor *d, size_t *out_registers) {
    *out_registers = 0;
    doctor_item *item = doctor_add(d, "io_uring", DOCTOR_COSTS, "not in this build");
    explain_refusal(item, 0);
    doctor_mend(item, "build with liburing (Debian: liburing-dev)");
}

#endif

static void add_locked(doctor *d, size_t bytes) {
    struct rlimit limit = {RLIM_INFINITY, RLIM_INFINITY};
    char text[64] = "no limit";
    (void)getrlimit(RLIMIT_MEMLOCK, &limit);
    if (limit.rlim_cur != RLIM_INFINITY)
        snprintf(text, sizeof(text), "limit %llu KiB", (unsigned long long)limit.rlim_cur >> 10);
    const bool short_ = bytes < LOCK_MOST && limit.rlim_cur != RLIM_INFINITY;
    doctor_item *item = doctor_add(d, "memlock", short_ ? DOCTOR_NOTE : DOCTOR_OK,
                                   "%s; io_uring registers %zu of the %zu KiB that were tried",
                                   text, bytes >> 10, LOCK_MOST >> 10);
    if (!short_) return;
    doctor_costs(item, "with O_DIRECT, memory beyond that is pinned again for each read; reads "
                       "through the page cache lose nothing");
    doctor_mend(item, "ulimit -l unlimited; systemd: LimitMEMLOCK=infinity; docker: --ulimit "
                      "memlock=-1");
}

/* ---- A loader -------------------------------------------------------------------------------- */

/* A small set in a folder of its own. */
typedef struct small_set {
    char folder[512], path[560], spec[600];
} small_set;

static bool write_small(small_set *set) {
    const char *where = getenv("TMPDIR");
    snprintf(set->folder, sizeof(set->folder), "%s/iterbench-XXXXXX",
             where != NULL && where[0] != '\0' ? where : "/tmp");
    set->path[0] = '\0';
    if (mkdtemp(set->folder) == NULL) return false;
    snprintf(set->path, sizeof(set->path), "%s/data.npy", set->folder);
    snprintf(set->spec, sizeof(set->spec), "npy:%s", set->path);
    FILE *file = fopen(set->path, "wb");
    if (file == NULL) return false;
    char header[128];
    static const uint8_t row[FILE_ROW];
    memset(header, ' ', sizeof(header));
    /* the length of the rest of the header, 118 bytes */
    memcpy(header, "\x93NUMPY\x01\x00\x76\x00", 10);
    const int n = snprintf(header + 10, sizeof(header) - 10,
                           "{'descr': '|u1', 'fortran_order': False, 'shape': (%d, %d), }",
                           FILE_ROWS, FILE_ROW);
    header[10 + n] = ' ';
    header[sizeof(header) - 1] = '\n';
    bool good = fwrite(header, sizeof(header), 1, file) == 1;
    for (int i = 0; good && i < FILE_ROWS; i++)
        good = fwrite(row, sizeof(row), 1, file) == 1;
    return (fclose(file) == 0) && good;
}

static void remove_small(const small_set *set) {
    if (set->path[0] != '\0') {
        unlink(set->path);
        rmdir(set->folder);
    }
}

/* Reads one batch by the ring without decoding it, so that any set will do, and returns the
 * loader's statistics. */
static iter_status read_batch(const char *spec, const iter_registry *registry, bool direct,
                              iter_loader_stats *out, iter_error *err) {
    iter_dataset *data;
    iter_loader *loader = NULL;
    iter_batch *batch = NULL;
    iter_chain *chain = NULL;
    const bench_options asked = {.batch = BATCH,
                                 .ranks = 1,
                                 .source = ITER_SOURCE_RING,
                                 .o_direct = direct,
                                 .memory = LOADER_MOST,
                                 .only_reads = true,
                                 .ragged = true,
                                 .on_error = ITER_ON_ERROR_REPLACE}; /* one file may be broken */
    const iter_loader_options opt = bench_loader_options(&asked, 0);
    *out = (iter_loader_stats){.struct_size = sizeof(*out)};
    iter_status s = iter_dataset_open(spec, registry, &data, err);
    if (s < 0) return s;
    if (photo_yard_fits(iter_dataset_describe(data)))
        s = iter_chain_parse(ONE_SIZE, NULL, &chain, err);
    if (s == ITER_OK) s = iter_dataloader_create(data, chain, &opt, &loader, err);
    if (s == ITER_OK) s = iter_loader_next(loader, &batch, err);
    if (s >= 0) s = iter_loader_stats_read(loader, out, err);
    iter_batch_unref(batch);
    iter_loader_unref(loader);
    iter_chain_unref(chain);
    iter_dataset_unref(data);
    return s;
}

/* `what` was read; for messages. */
static void add_loader(doctor *d, const char *item_name, const char *spec, const char *what,
                       bool direct) {
    iter_loader_stats stats;
    iter_error err;
    if (read_batch(spec, d->options->registry, direct, &stats, &err) < 0) {
        doctor_item *item = doctor_add(d, item_name, DOCTOR_COSTS, "fails: %.280s", err.message);
        doctor_costs(item, "such a loader cannot be used here");
        return;
    }
    const bool ring = stats.source == ITER_SOURCE_RING && stats.path_bytes[ITER_PATH_PREAD] == 0;
    const bool falls = stats.n_fallbacks > 0;
    doctor_item *item = doctor_add(
        d, item_name, !falls ? DOCTOR_OK : DOCTOR_COSTS,
        "%s: a loader asked for a ring reads by %s%s", what, bench_source_text(stats.source),
        !falls && !ring && !direct ? ", what lies in the page cache by pread" : "");
    char text[sizeof(item->costs)] = "";
    size_t used = 0;
    for (int32_t i = 0; i < stats.n_fallbacks && used < sizeof(text); i++)
        used += (size_t)snprintf(text + used, sizeof(text) - used, "%s%s", i > 0 ? "; " : "",
                                 stats.fallbacks[i]);
    if (falls) doctor_costs(item, "it fell back: %s", text);
    if (falls)
        doctor_mend(item, "see io_uring and memlock; O_DIRECT wants a file system on a disk");
}

/* ---- Public ---------------------------------------------------------------------------------- */

void doctor_reading(doctor *d) {
    size_t lockable;
    small_set set = {.path = ""};
    add_ring(d, &lockable);
    add_locked(d, lockable);
    const bool own = d->n_files == 0;
    if (own && !write_small(&set)) {
        doctor_add(d, "reading", DOCTOR_NOTE, "not tried: cannot write a file to %s: %s",
                   set.folder, strerror(errno));
    } else {
        const char *spec = own ? set.spec : d->options->data;
        char where[sizeof(set.path) + 32];
        snprintf(where, sizeof(where), "a file of 1 MiB, %s", set.path);
        add_loader(d, "reading", spec, own ? where : spec, false);
        add_loader(d, "reading past the cache", spec, own ? where : spec, true);
    }
    remove_small(&set);
}

/*
 * doctor_disk.c - the rates of the disk with the dataset, or with the largest file of the current
 * folder, in about five seconds: past the page cache in order and at random, and from the page
 * cache.
 *
 * Straight loops (bare_read.c) run in two parts: a short one finds how much can be read in the
 * remaining time, the second one is the measurement. A guest cannot know what the host caches, so
 * these rates may include the host's cache.
 */
#include <dirent.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/vfs.h>

#include "bench/common/bench_util.h"
#include "bench/doctor/doctor.h"
#include "bench/limits/bare_read.h"

#define MOST_BYTES   ((uint64_t)256 << 20)
#define FIRST_BYTES  ((uint64_t)16 << 20)
#define CACHED_BYTES ((uint64_t)64 << 20)
#define MOST_S       2.0
#define FILES_MAX    256
#define OWN_FILE     ((uint64_t)64 << 20) /* without a dataset: least size of the file */
#define PIECE        ((uint32_t)1 << 20)
#define RANDOM_PIECE ((uint32_t)128 << 10)
#define RANDOM_DEPTH 32
#define RECORDS_MAX  (MOST_BYTES / RANDOM_PIECE)

/* ---- File systems ---------------------------------------------------------------------------- */

static const struct {
    uint32_t id;
    const char *name;
    bool far; /* memory, or another machine */
} systems[] = {
    {0xef53, "ext4", false},         {0x58465342, "xfs", false},     {0x9123683e, "btrfs", false},
    {0xf2f52010, "f2fs", false},     {0x2fc12fc1, "zfs", false},     {0x01021994, "tmpfs", true},
    {0x858458f6, "ramfs", true},     {0x794c7630, "overlay", false}, {0x6969, "nfs", true},
    {0xff534d42, "cifs", true},      {0xfe534d42, "smb2", true},     {0x01021997, "9p", true},
    {0x65735546, "fuse", true},      {0x00c36400, "ceph", true},     {0x0bd00bd0, "lustre", true},
    {0x73717368, "squashfs", false}, {0x4d44, "vfat", false},        {0x2011bab0, "exfat", false},
};

static void add_system(doctor *d, const char *path) {
    struct statfs fs;
    if (statfs(path, &fs) != 0) {
        doctor_add(d, "file system", DOCTOR_NOTE, "unknown for %.200s", path);
        return;
    }
    size_t i = 0;
    const size_t n = sizeof(systems) / sizeof(systems[0]);
    while (i < n && systems[i].id != (uint32_t)fs.f_type)
        i++;
    char name[32];
    snprintf(name, sizeof(name), "0x%x", (unsigned)fs.f_type);
    const bool far = i < n && systems[i].far;
    doctor_item *item = doctor_add(d, "file system", far ? DOCTOR_NOTE : DOCTOR_OK, "%s (%.200s)",
                                   i < n ? systems[i].name : name, path);
    if (!far) return;
    doctor_costs(
        item,
        "not a disk of this machine: O_DIRECT and cold reads mean something else here, or nothing");
    doctor_mend(item, "a local disk, for sets that are read on demand");
}

/* ---- Pieces ---------------------------------------------------------------------------------- */

typedef struct places {
    const char *paths[FILES_MAX];
    uint64_t bytes[FILES_MAX];
    size_t n;
    bare_record *records; /* [RECORDS_MAX] */
    size_t n_records;
} places;

/* Pieces in order, from the first file on. */
static void fill_ordered(places *p, uint64_t most) {
    p->n_records = 0;
    uint64_t total = 0;
    for (size_t f = 0; f < p->n; f++)
        for (uint64_t at = 0; at + PIECE <= p->bytes[f]; at += PIECE, total += PIECE) {
            if (total + PIECE > most || p->n_records == RECORDS_MAX) return;
            p->records[p->n_records++] = (bare_record){(uint32_t)f, PIECE, at};
        }
}

/* Pieces anywhere in the files, all equally likely. */
static void fill_random(places *p) {
    uint64_t total = 0, x;
    p->n_records = 0;
    for (size_t f = 0; f < p->n; f++)
        total += p->bytes[f] / RANDOM_PIECE;
    if (total == 0) return;
    if (getrandom(&x, sizeof(x), 0) != (ssize_t)sizeof(x)) x = 88172645463325252u;
    x |= 1;
    while (p->n_records < RECORDS_MAX) {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        uint64_t at = x % total;
        size_t f = 0;
        while (at >= p->bytes[f] / RANDOM_PIECE)
            at -= p->bytes[f++] / RANDOM_PIECE;
        p->records[p->n_records++] = (bare_record){(uint32_t)f, RANDOM_PIECE, at * RANDOM_PIECE};
    }
}

/* Bytes a second over the records, within the time; NaN, with the reason, if it cannot be
 * measured. */
static double read_rate(const places *p, const bare_read_options *options, uint64_t most,
                        iter_error *err) {
    bare_read_result first, second;
    if (p->n_records == 0) {
        bench_fail(err, ITER_EUNSUPPORTED, "the files are smaller than one read");
        return NAN;
    }
    const size_t piece = p->records[0].bytes;
    size_t n = (size_t)(FIRST_BYTES / piece);
    if (n > p->n_records) n = p->n_records;
    if (bare_read_records(p->paths, p->n, p->records, n, options, &first, err) < 0) return NAN;
    const double rate = (double)first.bytes / first.seconds;
    double wanted = fmin(rate * (MOST_S - first.seconds), (double)most - (double)first.bytes);
    size_t more = wanted > 0 ? (size_t)(wanted / (double)piece) : 0;
    if (more > p->n_records - n) more = p->n_records - n;
    if (more < n) return rate;
    if (bare_read_records(p->paths, p->n, p->records + n, more, options, &second, err) < 0)
        return NAN;
    return (double)second.bytes / second.seconds;
}

/* ---- Items ----------------------------------------------------------------------------------- */

static void add_disk(doctor *d, places *p) {
    iter_error why = {ITER_OK, ""}, why_random = {ITER_OK, ""};
    bare_read_options options = {.ring = bare_read_has_ring(), .direct = true, .depth = 8};
    fill_ordered(p, MOST_BYTES);
    d->rates.disk_sequential = read_rate(p, &options, MOST_BYTES, &why);
    options.depth = RANDOM_DEPTH;
    fill_random(p);
    d->rates.disk_random = read_rate(p, &options, MOST_BYTES, &why_random);
    const double ordered = d->rates.disk_sequential, random_ = d->rates.disk_random;
    if (isnan(ordered) && isnan(random_)) {
        doctor_item *item = doctor_add(d, "disk", DOCTOR_NOTE, "not measured: %.280s", why.message);
        doctor_costs(item, "without O_DIRECT the cost of a cold read cannot be measured");
        return;
    }
    char a[64] = "not measured", b[64] = "not measured";
    if (!isnan(ordered)) snprintf(a, sizeof(a), "%.0f MB/s", ordered * 1e-6);
    if (!isnan(random_)) snprintf(b, sizeof(b), "%.0f MB/s", random_ * 1e-6);
    const bool scattered = random_ < 0.5 * ordered;
    doctor_item *item =
        doctor_add(d, "disk", scattered ? DOCTOR_NOTE : DOCTOR_OK,
                   "past the page cache %s in order (1 MiB), %s at random (128 KiB, %s)", a, b,
                   options.ring ? "32 in flight" : "one at a time: no io_uring");
    if (!scattered) return;
    doctor_costs(item,
                 "a full shuffle of a set beyond memory reads at the smaller rate, or less: its "
                 "samples are smaller");
    doctor_mend(item, "--shuffle block: large reads in order, mixed in memory");
}

static void add_page_cache(doctor *d, places *p) {
    iter_error why;
    const bare_read_options options = {.ring = false, .depth = 1};
    bare_read_result result;
    fill_ordered(p, CACHED_BYTES);
    d->rates.page_cache = NAN;
    for (int i = 0; i < 2 && p->n_records > 0; i++) { /* the first turn fills the page cache */
        if (bare_read_records(p->paths, p->n, p->records, p->n_records, &options, &result, &why) <
            0)
            return;
        d->rates.page_cache = (double)result.bytes / result.seconds;
    }
    if (isnan(d->rates.page_cache)) return;
    doctor_add(d, "page cache", DOCTOR_OK, "%.2f GB/s by pread, one thread, 1 MiB a read",
               d->rates.page_cache * 1e-9);
}

/* ---- Which files ----------------------------------------------------------------------------- */

/* The largest file of the current folder, if it is large enough. */
static bool own_file(char *out, size_t capacity, uint64_t *out_bytes) {
    DIR *folder = opendir(".");
    const struct dirent *entry;
    *out_bytes = 0;
    while (folder != NULL && (entry = readdir(folder)) != NULL) {
        struct stat info;
        if (stat(entry->d_name, &info) != 0 || !S_ISREG(info.st_mode) ||
            (uint64_t)info.st_size < OWN_FILE || (uint64_t)info.st_size <= *out_bytes)
            continue;
        *out_bytes = (uint64_t)info.st_size;
        snprintf(out, capacity, "%s", entry->d_name);
    }
    if (folder != NULL) closedir(folder);
    return *out_bytes > 0;
}

void doctor_disk(doctor *d) {
    char name[512];
    places p = {.n = 0};
    for (uint64_t i = 0; i < d->n_files && p.n < FILES_MAX; i++) {
        if (d->files[i].bytes == ITER_UNKNOWN || d->files[i].bytes < RANDOM_PIECE) continue;
        p.paths[p.n] = d->files[i].path;
        p.bytes[p.n++] = d->files[i].bytes;
    }
    if (d->n_files == 0 && own_file(name, sizeof(name), &p.bytes[0])) {
        p.paths[0] = name;
        p.n = 1;
    }
    add_system(d, d->n_files > 0 ? d->files[0].path : ".");
    if (p.n == 0) {
        doctor_add(d, "disk", DOCTOR_NOTE, "not measured: %s",
                   d->n_files > 0 ? "its files are smaller than 128 KiB"
                                  : "no --data with files, and no file of 64 MiB or more in this "
                                    "folder");
        return;
    }
    p.records = malloc(RECORDS_MAX * sizeof(*p.records));
    if (p.records == NULL) {
        doctor_add(d, "disk", DOCTOR_NOTE, "not measured: no memory");
        return;
    }
    add_disk(d, &p);
    add_page_cache(d, &p);
    free(p.records);
}

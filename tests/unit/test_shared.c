/*
 * test_shared.c - one copy of a set for all processes of a machine: which process fills it, what
 * the others see, what is left after a kill. The kernel tells what a process holds (smaps_rollup of
 * proc(5)).
 */
#include <criterion/criterion.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "iter/reading/shared.h"
#include "tests/support/drive.h"
#include "tests/support/make_data.h"

#define BYTES 100000

static char folder[MAKE_PATH_MAX];
static const uint64_t one[2] = {1, 2}, other[2] = {1, 3};

static void set_up(void) {
    make_folder(folder);
}

static void tear_down(void) {
    make_folder_gone(folder);
}

TestSuite(shared, .init = set_up, .fini = tear_down);

static int files(void) {
    int n = 0;
    DIR *dir = opendir(folder);
    cr_assert(dir);
    for (const struct dirent *e; (e = readdir(dir));)
        n += strncmp(e->d_name, "libiter-", 8) == 0;
    closedir(dir);
    return n;
}

static void take(iter__shared *s, const uint64_t id[2], bool must_fill) {
    iter_error err = {0};
    cr_assert_eq(iter__shared_open(s, folder, id, BYTES, 5000, &err), ITER_OK, "%s", err.message);
    cr_assert_eq(s->must_fill, must_fill);
}

static void fill(iter__shared *s, int byte) {
    iter_error err = {0};
    memset(s->memory, byte, BYTES);
    cr_assert_eq(iter__shared_publish(s, &err), ITER_OK, "%s", err.message);
}

static void refuse(const char *in, const uint64_t id[2], size_t bytes, const char *reason) {
    iter_error err = {0};
    iter__shared s;
    cr_assert_eq(iter__shared_open(&s, in, id, bytes, 100, &err), ITER_EUNSUPPORTED);
    cr_assert(strstr(err.message, reason), "%s", err.message);
    cr_assert_null(s.memory);
}

Test(shared, the_second_has_what_the_first_filled) {
    iter__shared a, b, c;
    take(&a, one, true);
    fill(&a, 7);
    take(&b, one, false);
    cr_assert(b.memory[0] == 7 && b.memory[BYTES - 1] == 7);
    b.memory[5] = 1; /* its own */
    take(&c, one, false);
    cr_assert(a.memory[5] == 7 && c.memory[5] == 7);
    cr_assert_eq(files(), 1);
    iter__shared_close(&a);
    iter__shared_close(&c);
    cr_assert_eq(files(), 1);
    cr_assert_eq(b.memory[6], 7);
    iter__shared_close(&b);
    iter__shared_close(&b); /* does nothing */
    cr_assert_eq(files(), 0);
}

Test(shared, other_content_is_another_file) {
    iter__shared a, b;
    take(&a, one, true);
    fill(&a, 1);
    take(&b, other, true);
    cr_assert_eq(files(), 2);
    iter__shared_close(&b); /* never published */
    iter__shared_close(&a);
    cr_assert_eq(files(), 0);
}

Test(shared, withdrawn_memory_is_for_nobody_else) {
    iter__shared a, b;
    take(&a, one, true);
    iter__shared_withdraw(&a);
    take(&b, one, true);
    a.memory[0] = 1;
    cr_assert_eq(b.memory[0], 0);
    iter__shared_close(&a);
    cr_assert_eq(files(), 1);
    iter__shared_close(&b);
    cr_assert_eq(files(), 0);
}

/* A child that keeps it in some state until it is killed. */
static pid_t holder(bool publish) {
    int said[2];
    char byte;
    cr_assert_eq(pipe(said), 0);
    const pid_t child = fork();
    cr_assert(child >= 0);
    if (child == 0) {
        iter__shared s;
        iter_error err;
        if (iter__shared_open(&s, folder, one, BYTES, 5000, &err) < 0) _exit(1);
        memset(s.memory, 9, BYTES / 2);
        if (publish && iter__shared_publish(&s, &err) < 0) _exit(1);
        if (write(said[1], "x", 1) != 1) _exit(1);
        for (;;)
            pause();
    }
    close(said[1]);
    cr_assert_eq(read(said[0], &byte, 1), 1);
    close(said[0]);
    return child;
}

static void end(pid_t child) {
    kill(child, SIGKILL);
    cr_assert_eq(waitpid(child, NULL, 0), child);
}

Test(shared, killed_while_it_filled) {
    iter__shared s;
    end(holder(false));
    cr_assert_eq(files(), 1);
    take(&s, one, true);
    cr_assert_eq(s.memory[0], 0, "what it left is gone");
    fill(&s, 3);
    iter__shared_close(&s);
    cr_assert_eq(files(), 0);
}

Test(shared, killed_after_that_leaves_a_set_to_use) {
    iter__shared s;
    end(holder(true));
    take(&s, one, false);
    cr_assert_eq(s.memory[0], 9);
    iter__shared_close(&s);
    cr_assert_eq(files(), 0);
}

Test(shared, a_file_that_is_left_is_removed_by_the_next) {
    iter__shared s;
    end(holder(true));
    take(&s, other, true);
    cr_assert_eq(files(), 1);
    iter__shared_close(&s);
    cr_assert_eq(files(), 0);
}

Test(shared, one_that_hangs_while_it_fills_is_not_waited_for) {
    const pid_t child = holder(false);
    refuse(folder, one, BYTES, "made no progress");
    end(child);
}

Test(shared, no_folder_no_room_no_own_file) {
    char path[MAKE_PATH_MAX + 64];
    iter__shared s;
    snprintf(path, sizeof(path), "%s/missing", folder);
    refuse(path, one, BYTES, "No such file");
    refuse(folder, one, (size_t)1 << 60, "no room for");
    cr_assert_eq(files(), 0);
    take(&s, one, true);
    snprintf(path, sizeof(path), "%s", s.path);
    iter__shared_close(&s);
    cr_assert_eq(close(open(path, O_CREAT | O_WRONLY, 0600)), 0);
    cr_assert_eq(chmod(path, 0644), 0);
    refuse(folder, one, BYTES, "not this user's own");
    unlink(path);
    cr_assert_eq(symlink("/etc/passwd", path), 0);
    refuse(folder, one, BYTES, path);
}

Test(shared, a_child_leaves_its_parents_lock_alone) {
    iter__shared a, b;
    take(&a, one, true);
    fill(&a, 4);
    const pid_t child = fork();
    cr_assert(child >= 0);
    if (child == 0) {
        const bool sees = a.memory[0] == 4;
        iter__shared_close(&a);
        _exit(sees ? 0 : 1);
    }
    int status;
    cr_assert_eq(waitpid(child, &status, 0), child);
    cr_assert_eq(status, 0);
    take(&b, one, false);
    iter__shared_close(&b);
    iter__shared_close(&a);
    cr_assert_eq(files(), 0);
}

/* Several processes at once: one fills, all see the same. */
Test(shared, a_race_has_one_that_fills) {
    int said[2], filled = 0;
    cr_assert_eq(pipe(said), 0);
    for (int i = 0; i < 8; i++) {
        const pid_t child = fork();
        cr_assert(child >= 0);
        if (child > 0) continue;
        iter__shared s;
        iter_error err;
        if (iter__shared_open(&s, folder, one, BYTES, 20000, &err) < 0) _exit(1);
        const char first = s.must_fill;
        if (first) {
            memset(s.memory, 5, BYTES);
            usleep(20000);
            if (iter__shared_publish(&s, &err) < 0) _exit(2);
        }
        if (s.memory[0] != 5 || s.memory[BYTES - 1] != 5) _exit(3);
        if (write(said[1], &first, 1) != 1) _exit(4);
        usleep(300000); /* until all have started */
        iter__shared_close(&s);
        _exit(0);
    }
    for (int status; waitpid(-1, &status, 0) > 0;)
        cr_expect_eq(status, 0, "%d", WEXITSTATUS(status));
    char first[8];
    cr_assert_eq(read(said[0], first, sizeof(first)), 8);
    for (int i = 0; i < 8; i++)
        filled += first[i];
    cr_expect(filled >= 1, "%d", filled); /* if one starts after all others ended, it fills again */
    cr_assert_eq(files(), 0);
}

/* ---- Loaders --------------------------------------------------------------------------------- */

#define RANKS 4

static long long pss_of(const char *what) {
    FILE *file = fopen("/proc/self/smaps_rollup", "r");
    char line[256];
    long long kib = -1;
    while (file && fgets(line, sizeof(line), file))
        if (strncmp(line, what, strlen(what)) == 0) kib = atoll(line + strlen(what));
    if (file) fclose(file);
    return kib * 1024;
}

/* The report of rank `rank`: its hash, its fallbacks, and the memory that it holds while all four
 * hold theirs. */
typedef struct told {
    uint64_t hash;
    int n_fallbacks;
    bool shares; /* according to its plan */
    long long shmem, all;
} told;

static void be_rank(const char *spec, const iter_loader_options *like, uint32_t rank, int go,
                    int say) {
    iter_loader_options opt = *like;
    iter_loader_stats stats = {.struct_size = sizeof(stats)};
    char byte;
    told out = {0};
    opt.rank = rank;
    iter_dataset *data;
    if (iter_dataset_open(spec, NULL, &data, NULL) < 0) _exit(1);
    iter_loader *loader = drive_loader(data, NULL, &opt);
    if (iter_loader_stats_read(loader, &stats, NULL) < 0) _exit(1);
    out.n_fallbacks = stats.n_fallbacks;
    out.shares = strstr(iter_loader_plan_text(loader), "one copy for 4 ranks") != NULL;
    out.hash = drive_run(loader, 1);
    if (write(say, "r", 1) != 1 || read(go, &byte, 1) != 1) _exit(1); /* all have run */
    out.shmem = pss_of("Pss_Shmem:");
    out.all = pss_of("Pss:");
    if (write(say, &out, sizeof(out)) != sizeof(out) || read(go, &byte, 1) != 1) _exit(1);
    iter_loader_unref(loader);
    iter_dataset_unref(data);
    _exit(0);
}

static void run_ranks(const char *spec, const iter_loader_options *opt, told out[RANKS]) {
    int go[RANKS][2], say[RANKS][2];
    char byte;
    for (uint32_t r = 0; r < RANKS; r++) {
        cr_assert(pipe(go[r]) == 0 && pipe(say[r]) == 0);
        const pid_t child = fork();
        cr_assert(child >= 0);
        if (child == 0) be_rank(spec, opt, r, go[r][0], say[r][1]);
    }
    for (uint32_t r = 0; r < RANKS; r++)
        cr_assert_eq(read(say[r][0], &byte, 1), 1);
    for (uint32_t r = 0; r < RANKS; r++)
        cr_assert_eq(write(go[r][1], "g", 1), 1);
    for (uint32_t r = 0; r < RANKS; r++)
        cr_assert_eq(read(say[r][0], &out[r], sizeof(out[r])), sizeof(out[r]));
    for (uint32_t r = 0; r < RANKS; r++)
        cr_assert_eq(write(go[r][1], "g", 1), 1);
    for (int status; waitpid(-1, &status, 0) > 0;)
        cr_expect_eq(status, 0);
}

/* Compares ranks over a set of so many bytes. */
static void compare_ranks(const char *spec, long long bytes) {
    told shared[RANKS], own[RANKS];
    long long shmem = 0, all = 0, all_own = 0;
    iter_loader_options opt = ITER_LOADER_OPTIONS_INIT;
    opt.batch_size = 50;
    opt.ranks = RANKS;
    opt.shuffle = ITER_SHUFFLE_FULL;
    run_ranks(spec, &opt, shared);
    opt.memory.share = ITER_SHARE_NO;
    run_ranks(spec, &opt, own);
    for (int r = 0; r < RANKS; r++) {
        cr_expect(shared[r].shares && !own[r].shares, "rank %d", r);
        cr_expect_eq(shared[r].hash, own[r].hash);
        cr_expect_eq(shared[r].n_fallbacks, own[r].n_fallbacks);
        shmem += shared[r].shmem;
        all += shared[r].all;
        all_own += own[r].all;
    }
    if (own[0].shmem < 0) cr_skip("no Pss_Shmem in smaps_rollup");
    printf("%s: %d ranks hold %lld bytes, %lld with a copy each; the set has %lld\n", spec, RANKS,
           all, all_own, bytes);
    cr_expect(shmem > bytes * 9 / 10 && shmem < bytes * 12 / 10, "%lld of %lld", shmem, bytes);
    cr_expect_lt(all, all_own - 2 * bytes);
}

Test(shared, four_ranks_have_one_copy) {
    char set[512], spec[1024];
    drive_cifar(set, 6000);
    snprintf(spec, sizeof(spec), "cifar10:%s", set);
    compare_ranks(spec, 6000 * 3073LL);
    make_folder_gone(set);
}

Test(shared, four_ranks_have_one_copy_of_cifar) {
    char spec[1024];
    if (!getenv("ITER_DATA")) cr_skip("no ITER_DATA");
    snprintf(spec, sizeof(spec), "cifar10:%s/cifar-10-batches-bin", getenv("ITER_DATA"));
    compare_ranks(spec, 50000 * 3073LL);
}

Test(shared, a_set_that_was_rewritten_is_another) {
    char set[512], path[512 + 32];
    drive_cifar(set, 100);
    iter_loader_options opt = ITER_LOADER_OPTIONS_INIT;
    opt.batch_size = 10;
    opt.ranks = 2;
    iter_dataset *before = drive_open(set);
    iter_loader *first = drive_loader(before, NULL, &opt);
    snprintf(path, sizeof(path), "%s/data_batch_1.bin", set);
    const int fd = open(path, O_WRONLY);
    cr_assert_eq(pwrite(fd, "\3", 1, 0), 1); /* the label of sample 0 */
    close(fd);
    iter_dataset *after = drive_open(set);
    iter_loader *second = drive_loader(after, NULL, &opt);
    iter_batch *a, *b;
    cr_assert_eq(iter_loader_next(first, &a, NULL), ITER_OK);
    cr_assert_eq(iter_loader_next(second, &b, NULL), ITER_OK);
    cr_expect_neq(((const uint8_t *)iter_batch_tensor(a, 1)->data)[0], 3);
    cr_expect_eq(((const uint8_t *)iter_batch_tensor(b, 1)->data)[0], 3);
    iter_batch_unref(a);
    iter_batch_unref(b);
    iter_loader_unref(first);
    iter_loader_unref(second);
    iter_dataset_unref(before);
    iter_dataset_unref(after);
    make_folder_gone(set);
}

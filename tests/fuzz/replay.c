/*
 * replay.c - runs a fuzz target over stored inputs, without libFuzzer.
 *
 * Each argument is a file or a folder (its plain files, in name order). If a folder is missing, it
 * has no inputs. The empty input is always run, so a target never passes without being called.
 */
#include <dirent.h>
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int run_file(const char *path) {
    FILE *file = fopen(path, "rb");
    if (!file) {
        fprintf(stderr, "%s: %s\n", path, strerror(errno));
        return 1;
    }
    struct stat info;
    uint8_t *data = NULL;
    int failed = 1;
    if (fstat(fileno(file), &info) == 0) {
        const size_t size = (size_t)info.st_size;
        /* Of the exact size, so that a sanitizer sees one byte too many. */
        data = malloc(size ? size : 1);
        if (data && fread(data, 1, size, file) == size) {
            LLVMFuzzerTestOneInput(data, size);
            failed = 0;
        }
    }
    if (failed) fprintf(stderr, "%s: cannot be read\n", path);
    free(data);
    (void)fclose(file);
    return failed;
}

static int plain_file(const struct dirent *entry) {
    return entry->d_name[0] != '.';
}

static int run_folder(const char *path, int *count) {
    struct dirent **entries = NULL;
    const int n = scandir(path, &entries, plain_file, alphasort);
    int failed = 0;
    for (int i = 0; i < n; i++) {
        char name[4096];
        if (snprintf(name, sizeof(name), "%s/%s", path, entries[i]->d_name) < (int)sizeof(name)) {
            failed += run_file(name);
            *count += 1;
        }
        free(entries[i]);
    }
    free(entries);
    return failed;
}

int main(int argc, char **argv) {
    int failed = 0;
    int count = 0;
    uint8_t *nothing = calloc(1, 1);
    if (!nothing) return 1;
    LLVMFuzzerTestOneInput(nothing, 0);
    free(nothing);
    for (int i = 1; i < argc; i++) {
        struct stat info;
        if (stat(argv[i], &info) != 0) {
            if (errno != ENOENT) failed++;
        } else if (S_ISDIR(info.st_mode)) {
            failed += run_folder(argv[i], &count);
        } else {
            failed += run_file(argv[i]);
            count++;
        }
    }
    printf("%d inputs and the empty one\n", count);
    return failed ? 1 : 0;
}

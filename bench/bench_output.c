/* bench_output.c - the output of iterbench: one line of error on stderr, JSON to a file or to
 * stdout alone. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "bench/common/bench_util.h"
#include "bench/iterbench.h"

int bench_say(int status, const iter_error *err) {
    char line[sizeof(err->message)];
    fprintf(stderr, "iterbench: %s%s\n", iter_text_escape(err->message, line, sizeof(line)),
            status == BENCH_USAGE ? " (see --help)" : "");
    return status;
}

iter_status bench_path_check(const char *path, iter_error *err) {
    if (path == NULL || strcmp(path, "-") == 0) return ITER_OK;
    const bool was_there = access(path, F_OK) == 0;
    FILE *file = fopen(path, "ae");
    if (file == NULL) return bench_fail(err, ITER_EIO, "%s: %s", path, strerror(errno));
    fclose(file);
    if (!was_there) unlink(path);
    return ITER_OK;
}

iter_status bench_json_open(const char *path, FILE **out, iter_error *err) {
    *out = strcmp(path, "-") == 0 ? stdout : fopen(path, "w");
    return *out != NULL ? ITER_OK : bench_fail(err, ITER_EIO, "%s: %s", path, strerror(errno));
}

iter_status bench_json_close(const char *path, FILE *file, iter_error *err) {
    bool broken = ferror(file) != 0 || fflush(file) != 0;
    if (file != stdout && fclose(file) != 0) broken = true;
    return broken ? bench_fail(err, ITER_EIO, "%s: cannot be written", path) : ITER_OK;
}

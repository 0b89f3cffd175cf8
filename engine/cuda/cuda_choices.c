/*
 * cuda_choices.c - see cuda_choices.h.
 */
#include "engine/cuda/cuda_choices.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/engine_error.h"
#include "engine/engine_memory.h"

#define HEADER    "iter algorithms 1\n"
#define MATH_MOST 3 /* cudnnMathType_t */
#define PATH_MOST 4096

/* ---- Reading --------------------------------------------------------------------------------- */

/* "KEY<tab>ALGORITHM MATH BYTES ALGORITHM MATH BYTES ALGORITHM MATH BYTES\n" */
static bool parse(const char *line, cuda_choice *out) {
    const char *tab = strchr(line, '\t');
    unsigned long long n[3 * DNN_PASSES];
    if (!tab || tab == line || (size_t)(tab - line) >= sizeof(out->key)) return false;
    *out = (cuda_choice){.key = ""};
    memcpy(out->key, line, (size_t)(tab - line));
    const char *at = tab + 1;
    for (int i = 0; i < 3 * DNN_PASSES; i++) {
        char *end;
        if (*at < '0' || *at > '9') return false;
        n[i] = strtoull(at, &end, 10);
        if (*end != (i + 1 < 3 * DNN_PASSES ? ' ' : '\n')) return false;
        at = end + 1;
    }
    for (int i = 0; i < DNN_PASSES; i++) {
        if (n[3 * i] >= DNN_ALGORITHMS || n[3 * i + 1] > MATH_MOST ||
            n[3 * i + 2] > DNN_WORKSPACE_MOST)
            return false;
        out->of[i] = (dnn_choice){(unsigned)n[3 * i], (unsigned)n[3 * i + 1], (size_t)n[3 * i + 2]};
    }
    return *at == '\0';
}

static iter_status read_lines(cuda_choices *choices, FILE *file, const char *path,
                              iter_error *err) {
    char line[2 * CUDA_KEY_MAX];
    for (int number = 1; fgets(line, sizeof(line), file); number++) {
        const bool fits =
            number == 1 ? strcmp(line, HEADER) == 0
                        : choices->n < CUDA_MAX_CHOICES && parse(line, &choices->list[choices->n]);
        if (!fits)
            return iter__engine_fail(err, ITER_EFORMAT,
                                     "%s, line %d: not what a trainer writes there; without the "
                                     "file algorithms are measured anew",
                                     path, number);
        choices->n += number > 1;
    }
    if (ferror(file)) return iter__engine_fail(err, ITER_EIO, "%s: %s", path, strerror(errno));
    choices->n_read = choices->n;
    return ITER_OK;
}

iter_status iter__cuda_choices_read(cuda_choices *choices, const char *path, iter_error *err) {
    *choices = (cuda_choices){.n = 0};
    choices->list = iter__engine_alloc(CUDA_MAX_CHOICES, sizeof(*choices->list));
    if (!choices->list) return iter__engine_fail(err, ITER_ENOMEM, "out of memory");
    if (!path) return ITER_OK;
    FILE *file = fopen(path, "re");
    if (!file && errno == ENOENT) return ITER_OK;
    if (!file) return iter__engine_fail(err, ITER_EIO, "%s: %s", path, strerror(errno));
    const iter_status status = read_lines(choices, file, path, err);
    fclose(file);
    return status;
}

void iter__cuda_choices_drop(cuda_choices *choices) {
    iter__engine_free(choices->list);
    *choices = (cuda_choices){.n = 0};
}

/* ---- Writing --------------------------------------------------------------------------------- */

static bool put(const cuda_choices *choices, FILE *file) {
    bool fine = fprintf(file, "%s", HEADER) > 0;
    for (int32_t i = 0; i < choices->n; i++) {
        const cuda_choice *c = &choices->list[i];
        fine = fine && fprintf(file, "%s", c->key) > 0;
        for (int p = 0; p < DNN_PASSES; p++)
            fine = fine && fprintf(file, "%c%u %u %zu", p ? ' ' : '\t', c->of[p].algorithm,
                                   c->of[p].math, c->of[p].workspace) > 0;
        fine = fine && fputc('\n', file) >= 0;
    }
    return fine;
}

iter_status iter__cuda_choices_write(const cuda_choices *choices, const char *path,
                                     iter_error *err) {
    char beside[PATH_MOST];
    if (!path || choices->n == choices->n_read) return ITER_OK;
    const int length = snprintf(beside, sizeof(beside), "%s.XXXXXX", path);
    if (length < 0 || (size_t)length >= sizeof(beside))
        return iter__engine_fail(err, ITER_EIO, "%.200s...: the name is too long", path);
    const int handle = mkstemp(beside);
    FILE *file = handle >= 0 ? fdopen(handle, "w") : NULL;
    if (!file) {
        const int why = errno;
        if (handle >= 0) {
            close(handle);
            unlink(beside);
        }
        return iter__engine_fail(err, ITER_EIO, "%s: %s", path, strerror(why));
    }
    const bool fine = put(choices, file);
    if ((fclose(file) == 0) & fine && rename(beside, path) == 0) return ITER_OK;
    const int why = errno;
    unlink(beside);
    return iter__engine_fail(err, ITER_EIO, "%s: %s", path, strerror(why));
}

/* ---- One ------------------------------------------------------------------------------------- */

const cuda_choice *iter__cuda_choices_find(const cuda_choices *choices, const char *key) {
    for (int32_t i = 0; i < choices->n; i++)
        if (strcmp(choices->list[i].key, key) == 0) return &choices->list[i];
    return NULL;
}

void iter__cuda_choices_add(cuda_choices *choices, const char *key,
                            const dnn_choice of[DNN_PASSES]) {
    if (choices->n == CUDA_MAX_CHOICES) return;
    cuda_choice *choice = &choices->list[choices->n++];
    snprintf(choice->key, sizeof(choice->key), "%s", key);
    memcpy(choice->of, of, sizeof(choice->of));
}

/*
 * cuda_choices.h - algorithms that were chosen by measuring, for reuse: by equal layers of this
 * trainer and, with a file, by trainers in other processes.
 *
 * The file is text, one line per choice: GPU, cuDNN's version, arithmetic and shapes; a tab; for
 * each pass algorithm, arithmetic and workspace. Choices of other GPUs and other versions of cuDNN
 * are kept in the same file.
 */
#ifndef ENGINE_CUDA_CUDA_CHOICES_H
#define ENGINE_CUDA_CUDA_CHOICES_H

#include "engine/cuda/cudnn.h"

#define CUDA_KEY_MAX     192
#define CUDA_MAX_CHOICES 256 /* choices beyond these are measured but not kept */

typedef struct cuda_choice {
    char key[CUDA_KEY_MAX];
    dnn_choice of[DNN_PASSES];
} cuda_choice;

typedef struct cuda_choices {
    cuda_choice *list; /* [CUDA_MAX_CHOICES] */
    int32_t n, n_read;
} cuda_choices;

/* Reads the choices of the file. If path is NULL or the file does not exist, there are none.
 * Errors: EFORMAT (names file and line), EIO, ENOMEM. */
iter_status iter__cuda_choices_read(cuda_choices *choices, const char *path, iter_error *err);
/* If there are new choices, replaces the file by a new one that holds all of them. Errors: EIO. */
iter_status iter__cuda_choices_write(const cuda_choices *choices, const char *path,
                                     iter_error *err);
void iter__cuda_choices_drop(cuda_choices *choices);

/* NULL = not chosen yet. */
const cuda_choice *iter__cuda_choices_find(const cuda_choices *choices, const char *key);
void iter__cuda_choices_add(cuda_choices *choices, const char *key,
                            const dnn_choice of[DNN_PASSES]);

#endif

/*
 * cuda_choices.h - algorithms that were chosen by measuring, for the layers to come: of this trainer, where two
 * are alike, and, by a file, of trainers in other processes.
 *
 * The file is text, a line a choice: GPU, cuDNN's version, arithmetic and shapes; a tab; of each pass its
 * algorithm, arithmetic and workspace. What another GPU or another cuDNN chose stands there beside it.
 */
#ifndef ENGINE_CUDA_CUDA_CHOICES_H
#define ENGINE_CUDA_CUDA_CHOICES_H

#include "engine/cuda/cudnn.h"

#define CUDA_KEY_MAX     192
#define CUDA_MAX_CHOICES 256 /* what comes after them is measured, and not kept */

typedef struct cuda_choice {
    char key[CUDA_KEY_MAX];
    dnn_choice of[DNN_PASSES];
} cuda_choice;

typedef struct cuda_choices {
    cuda_choice *list; /* [CUDA_MAX_CHOICES] */
    int32_t n, n_read;
} cuda_choices;

/* Those of the file; path NULL or no such file: none yet. Errors: EFORMAT (names file and line), EIO,
 * ENOMEM. */
iter_status iter__cuda_choices_read(cuda_choices *choices, const char *path, iter_error *err);
/* All of them, where there are new ones: a whole new file in the place of the old one. Errors: EIO. */
iter_status iter__cuda_choices_write(const cuda_choices *choices, const char *path,
                                     iter_error *err);
void iter__cuda_choices_drop(cuda_choices *choices);

/* NULL = not chosen yet. */
const cuda_choice *iter__cuda_choices_find(const cuda_choices *choices, const char *key);
void iter__cuda_choices_add(cuda_choices *choices, const char *key,
                            const dnn_choice of[DNN_PASSES]);

#endif

/*
 * fuzz_safetensors.c - any bytes as a safetensors file.
 *
 * Property: open returns OK, or EFORMAT with a message that names the file. If OK, the tensors
 * follow one another and fill the file, each can be read, and if they are written again, the new
 * file reads the same.
 */
#include "engine/engine_memory.h"
#include "engine/safetensors.h"
#include "tests/support/fuzz_format.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static iter_status copy_values(void *user, int32_t i, void *out, iter_error *err) {
    return iter__safetensors_read(user, i, out, err);
}

/* Checks the tensors' places; returns the bytes of all. */
static uint64_t check_places(const engine_tensor_file *file, size_t size) {
    uint64_t at = 0;
    for (int32_t i = 0; i < iter__safetensors_count(file); i++) {
        const engine_tensor *t = iter__safetensors_tensor(file, i);
        FUZZ_REQUIRE(t->begin == at && t->bytes <= size - 8 - at);
        FUZZ_REQUIRE(t->n_dims >= 0 && t->n_dims <= ITER_MAX_DIMS);
        uint64_t bytes = iter_dtype_bytes(t->dtype);
        FUZZ_REQUIRE(bytes > 0);
        for (int32_t k = 0; k < t->n_dims; k++)
            bytes *= (uint64_t)t->dims[k];
        FUZZ_REQUIRE(bytes == t->bytes);
        const int32_t same = iter__safetensors_find(file, t->name);
        FUZZ_REQUIRE(same == i);
        at += t->bytes;
    }
    return at;
}

static void check_same(const engine_tensor_file *a, const engine_tensor_file *b) {
    FUZZ_REQUIRE(iter__safetensors_count(a) == iter__safetensors_count(b));
    FUZZ_REQUIRE(iter__safetensors_n_texts(a) == iter__safetensors_n_texts(b));
    for (int32_t i = 0; i < iter__safetensors_n_texts(a); i++) {
        const engine_text x = iter__safetensors_entry(a, i);
        const char *value = iter__safetensors_text(b, x.key);
        FUZZ_REQUIRE(value != NULL && strcmp(x.value, value) == 0);
    }
    for (int32_t i = 0; i < iter__safetensors_count(a); i++) {
        const engine_tensor *x = iter__safetensors_tensor(a, i);
        const engine_tensor *y = iter__safetensors_tensor(b, i);
        FUZZ_REQUIRE(strcmp(x->name, y->name) == 0 && x->dtype == y->dtype);
        FUZZ_REQUIRE(x->n_dims == y->n_dims && x->bytes == y->bytes && x->begin == y->begin);
        FUZZ_REQUIRE(memcmp(x->dims, y->dims, sizeof(int64_t) * (size_t)x->n_dims) == 0);
        char *p = malloc(x->bytes + 1), *q = malloc(x->bytes + 1);
        FUZZ_REQUIRE(p != NULL && q != NULL);
        FUZZ_REQUIRE(iter__safetensors_read(a, i, p, NULL) == ITER_OK);
        FUZZ_REQUIRE(iter__safetensors_read(b, i, q, NULL) == ITER_OK);
        FUZZ_REQUIRE(memcmp(p, q, x->bytes) == 0);
        free(p);
        free(q);
    }
}

/* Writes the tensors to a new file and reads that. */
static void check_again(engine_tensor_file *file) {
    const int32_t n = iter__safetensors_count(file), n_texts = iter__safetensors_n_texts(file);
    engine_tensor *tensors = calloc((size_t)n + 1, sizeof(*tensors));
    engine_text *texts = calloc((size_t)n_texts + 1, sizeof(*texts));
    char folder[] = "/dev/shm/fuzz_safetensors.XXXXXX", path[64];
    FUZZ_REQUIRE(tensors != NULL && texts != NULL);
    FUZZ_REQUIRE(mkdtemp(folder) != NULL);
    snprintf(path, sizeof(path), "%s/file", folder);
    for (int32_t i = 0; i < n; i++)
        tensors[i] = *iter__safetensors_tensor(file, i);
    for (int32_t i = 0; i < n_texts; i++)
        texts[i] = iter__safetensors_entry(file, i);
    iter_error err = {0};
    iter_status s =
        iter__safetensors_write(path, tensors, n, texts, n_texts, copy_values, file, &err);
    if (s < 0) fprintf(stderr, "%s\n", err.message);
    FUZZ_REQUIRE(s == ITER_OK);
    engine_tensor_file *again;
    FUZZ_REQUIRE(iter__safetensors_open(path, &again, &err) == ITER_OK);
    check_same(file, again);
    iter__safetensors_close(again);
    unlink(path);
    rmdir(folder);
    free(tensors);
    free(texts);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size > 100000) return 0;
    char path[64];
    const int fd = fuzz_file(data, size, path);
    engine_tensor_file *file;
    iter_error err = {0};
    const iter_status s = iter__safetensors_open(path, &file, &err);
    if (s < 0) {
        FUZZ_REQUIRE(s == ITER_EFORMAT && err.status == s);
        FUZZ_REQUIRE(strstr(err.message, path) != NULL);
    } else {
        FUZZ_REQUIRE(check_places(file, size) <= size);
        check_again(file);
        iter__safetensors_close(file);
    }
    FUZZ_REQUIRE(iter__engine_live() == 0);
    close(fd);
    return 0;
}

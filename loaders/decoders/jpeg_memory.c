/*
 * jpeg_memory.c - see jpeg_memory.h.
 *
 * Source: libjpeg.txt, "Memory management"; libjpeg-turbo's jmemmgr.c for how rows are aligned.
 */
#ifdef ITER_HAVE_JPEG

#include "loaders/decoders/jpeg_memory.h"

#include <assert.h>
#include <stdbool.h>
#include <string.h>

#include "iter/core/arith.h"

#define LINE 64 /* libjpeg's kernels write whole vectors past a row's end */

/* An array that is as large as the picture; libjpeg names the types and does not define them. */
typedef struct whole {
    uint8_t *memory;
    size_t row_bytes;
    JDIMENSION n_rows;
    JDIMENSION n_filled; /* rows from the first on that are zeroed so far */
    bool zeroed;
} whole;

struct jvirt_sarray_control {
    whole of;
    JSAMPARRAY rows;
    struct jvirt_sarray_control *next;
};

struct jvirt_barray_control {
    whole of;
    JBLOCKARRAY rows;
    struct jvirt_barray_control *next;
};

/* ---- static helpers -------------------------------------------------------------------------- */

static void *take(j_common_ptr jpeg, size_t bytes) {
    iter__jpeg_memory *m = jpeg->client_data;
    iter_error error;
    void *at;
    if (iter__codec_take(&m->codec, bytes, &at, &error) < 0) m->fail(jpeg, &error);
    return at;
}

/* libjpeg-turbo 3 and later may have samples of more than 8 bits. */
static size_t sample_row(j_common_ptr jpeg, JDIMENSION samples) {
    const int bits = ((j_decompress_ptr)jpeg)->data_precision;
    return iter__align_up_size((size_t)samples * (bits > 8 ? 2 : 1), LINE);
}

static whole whole_of(size_t row_bytes, JDIMENSION n_rows, boolean zeroed) {
    return (whole){.row_bytes = row_bytes, .n_rows = n_rows, .zeroed = zeroed};
}

/* The bytes of the rows and of the pointers to them. */
static size_t whole_bytes(const whole *w, size_t pointer_bytes) {
    return iter__align_up_size(w->n_rows * pointer_bytes, LINE) + w->n_rows * w->row_bytes;
}

static void fill(whole *w, JDIMENSION end) {
    assert(end <= w->n_rows);
    if (!w->zeroed || end <= w->n_filled) return;
    memset(w->memory + w->n_filled * w->row_bytes, 0, (end - w->n_filled) * w->row_bytes);
    w->n_filled = end;
}

/* Lays out rows at `at`: pointers first, then the rows. */
static JSAMPARRAY sample_rows(uint8_t *at, size_t row_bytes, JDIMENSION n) {
    JSAMPARRAY rows = (void *)at;
    at += iter__align_up_size(n * sizeof(*rows), LINE);
    for (JDIMENSION i = 0; i < n; i++)
        rows[i] = at + i * row_bytes;
    return rows;
}

static JBLOCKARRAY block_rows(uint8_t *at, size_t row_bytes, JDIMENSION n) {
    JBLOCKARRAY rows = (void *)at;
    at += iter__align_up_size(n * sizeof(*rows), LINE);
    for (JDIMENSION i = 0; i < n; i++)
        rows[i] = (void *)(at + i * row_bytes);
    return rows;
}

/* ---- What libjpeg calls ---------------------------------------------------------------------- */

static void *alloc_large(j_common_ptr jpeg, int pool, size_t bytes) {
    iter__jpeg_memory *m = jpeg->client_data;
    return pool == JPOOL_IMAGE ? take(jpeg, bytes) : m->own.alloc_large(jpeg, pool, bytes);
}

static void *alloc_small(j_common_ptr jpeg, int pool, size_t bytes) {
    iter__jpeg_memory *m = jpeg->client_data;
    return pool == JPOOL_IMAGE ? take(jpeg, bytes) : m->own.alloc_small(jpeg, pool, bytes);
}

static JSAMPARRAY alloc_samples(j_common_ptr jpeg, int pool, JDIMENSION samples, JDIMENSION n) {
    iter__jpeg_memory *m = jpeg->client_data;
    if (pool != JPOOL_IMAGE) return m->own.alloc_sarray(jpeg, pool, samples, n);
    const whole w = whole_of(sample_row(jpeg, samples), n, FALSE);
    return sample_rows(take(jpeg, whole_bytes(&w, sizeof(JSAMPROW)) + LINE), w.row_bytes, n);
}

static JBLOCKARRAY alloc_blocks(j_common_ptr jpeg, int pool, JDIMENSION blocks, JDIMENSION n) {
    iter__jpeg_memory *m = jpeg->client_data;
    if (pool != JPOOL_IMAGE) return m->own.alloc_barray(jpeg, pool, blocks, n);
    const whole w = whole_of(blocks * sizeof(JBLOCK), n, FALSE);
    return block_rows(take(jpeg, whole_bytes(&w, sizeof(JBLOCKROW)) + LINE), w.row_bytes, n);
}

static jvirt_sarray_ptr ask_samples(j_common_ptr jpeg, int pool, boolean zeroed, JDIMENSION samples,
                                    JDIMENSION n, JDIMENSION at_once) {
    iter__jpeg_memory *m = jpeg->client_data;
    jvirt_sarray_ptr array = take(jpeg, sizeof(*array));
    (void)at_once, (void)pool; /* the whole array is in memory; its pool is always JPOOL_IMAGE */
    *array = (struct jvirt_sarray_control){.of = whole_of(sample_row(jpeg, samples), n, zeroed),
                                           .next = m->samples};
    m->samples = array;
    return array;
}

static jvirt_barray_ptr ask_blocks(j_common_ptr jpeg, int pool, boolean zeroed, JDIMENSION blocks,
                                   JDIMENSION n, JDIMENSION at_once) {
    iter__jpeg_memory *m = jpeg->client_data;
    jvirt_barray_ptr array = take(jpeg, sizeof(*array));
    (void)at_once, (void)pool;
    *array = (struct jvirt_barray_control){.of = whole_of(blocks * sizeof(JBLOCK), n, zeroed),
                                           .next = m->blocks};
    m->blocks = array;
    return array;
}

/* Allocates all requested arrays at once: if they are too large, that is known before any is
 * written. */
static void realize(j_common_ptr jpeg) {
    iter__jpeg_memory *m = jpeg->client_data;
    size_t bytes = 0;
    for (jvirt_sarray_ptr a = m->samples; a; a = a->next)
        bytes += a->rows ? 0 : whole_bytes(&a->of, sizeof(*a->rows));
    for (jvirt_barray_ptr a = m->blocks; a; a = a->next)
        bytes += a->rows ? 0 : whole_bytes(&a->of, sizeof(*a->rows));
    if (bytes == 0) return;
    uint8_t *at = take(jpeg, bytes + LINE);
    for (jvirt_sarray_ptr a = m->samples; a; a = a->next) {
        if (a->rows) continue;
        a->rows = sample_rows(at, a->of.row_bytes, a->of.n_rows);
        at += whole_bytes(&a->of, sizeof(*a->rows));
        a->of.memory = at - a->of.n_rows * a->of.row_bytes;
    }
    for (jvirt_barray_ptr a = m->blocks; a; a = a->next) {
        if (a->rows) continue;
        a->rows = block_rows(at, a->of.row_bytes, a->of.n_rows);
        at += whole_bytes(&a->of, sizeof(*a->rows));
        a->of.memory = at - a->of.n_rows * a->of.row_bytes;
    }
}

static JSAMPARRAY use_samples(j_common_ptr jpeg, jvirt_sarray_ptr array, JDIMENSION first,
                              JDIMENSION n, boolean writes) {
    (void)jpeg, (void)writes;
    fill(&array->of, first + n);
    return array->rows + first;
}

static JBLOCKARRAY use_blocks(j_common_ptr jpeg, jvirt_barray_ptr array, JDIMENSION first,
                              JDIMENSION n, boolean writes) {
    (void)jpeg, (void)writes;
    fill(&array->of, first + n);
    return array->rows + first;
}

static void free_pool(j_common_ptr jpeg, int pool) {
    iter__jpeg_memory *m = jpeg->client_data;
    if (pool != JPOOL_IMAGE) {
        m->own.free_pool(jpeg, pool);
        return;
    }
    m->samples = NULL;
    m->blocks = NULL;
    iter__codec_give_back(&m->codec);
}

/* ---- public functions ------------------------------------------------------------------------ */

void iter__jpeg_memory_use(iter__jpeg_memory *memory, j_decompress_ptr jpeg) {
    struct jpeg_memory_mgr *methods = jpeg->mem;
    memory->own = *methods;
    methods->alloc_small = alloc_small;
    methods->alloc_large = alloc_large;
    methods->alloc_sarray = alloc_samples;
    methods->alloc_barray = alloc_blocks;
    methods->request_virt_sarray = ask_samples;
    methods->request_virt_barray = ask_blocks;
    methods->realize_virt_arrays = realize;
    methods->access_virt_sarray = use_samples;
    methods->access_virt_barray = use_blocks;
    methods->free_pool = free_pool; /* self_destruct stays libjpeg's and frees the rest */
}

#else

typedef int iter__jpeg_memory_is_empty; /* a translation unit must not be empty */

#endif

/*
 * test_dlpack.c - tensors and batches out, other libraries' tensors in.
 *
 * Codes, bits and struct layout are those published in dlpack.h 1.0. check_dlpack.py tests that
 * another library agrees.
 */
#include <criterion/criterion.h>
#include <string.h>

#include <iter/dlpack.h>

#include "iter/core/alloc.h"

TestSuite(dlpack, .timeout = 30);

static int n_released;

static void released(void *user) {
    n_released += *(int *)user;
}

static const iter_dlpack *inside(const struct DLManagedTensorVersioned *managed) {
    return (const iter_dlpack *)(const void *)managed;
}

static struct DLManagedTensorVersioned *outside(iter_dlpack *managed) {
    return (struct DLManagedTensorVersioned *)(void *)managed;
}

static iter_tensor tensor_of(iter_dtype dtype, int32_t n_dims, const int64_t *dims, void *data) {
    iter_desc desc = {.dtype = dtype, .n_dims = n_dims};
    for (int32_t i = 0; i < n_dims; i++)
        desc.dims[i] = dims[i];
    return iter_tensor_dense(&desc, data);
}

/* ---- Out ------------------------------------------------------------------------------------- */

Test(dlpack, a_tensor_goes_out_with_its_release) {
    float values[24];
    int one = 1;
    const int64_t dims[] = {2, 3, 4};
    iter_tensor tensor = tensor_of(ITER_F32, 3, dims, values);
    tensor.strides[0] = 1, tensor.strides[1] = 2, tensor.strides[2] = 6; /* Fortran order */
    struct DLManagedTensorVersioned *managed;
    cr_assert_eq(iter_tensor_to_dlpack(&tensor, released, &one, &managed, NULL), ITER_OK);
    memset(&tensor, 0, sizeof(tensor)); /* copied */
    const iter_dlpack *m = inside(managed);
    cr_expect_eq(m->major, 1);
    cr_expect_eq(m->flags, 0);
    cr_expect_eq(m->tensor.data, values);
    cr_expect_eq(m->tensor.byte_offset, 0);
    cr_expect_eq(m->tensor.device_type, 1);
    cr_expect_eq(m->tensor.device_id, 0);
    cr_assert_eq(m->tensor.n_dims, 3);
    static const int64_t strides[] = {1, 2, 6};
    cr_expect(memcmp(m->tensor.shape, dims, sizeof(dims)) == 0);
    cr_expect(memcmp(m->tensor.strides, strides, sizeof(strides)) == 0);
    cr_expect_eq(n_released, 0);
    m->deleter(managed);
    cr_expect_eq(n_released, 1);
    cr_expect_eq(iter__alloc_live(), 0);
}

/* The form before 1.0: {tensor, manager_ctx, deleter}. */
Test(dlpack, a_tensor_goes_out_in_the_old_form) {
    float values[6];
    int one = 1;
    const int64_t dims[] = {2, 3};
    const iter_tensor tensor = tensor_of(ITER_F32, 2, dims, values);
    struct DLManagedTensorVersioned *managed;
    struct DLManagedTensor *old;
    iter_error err;
    cr_assert_eq(iter_tensor_to_dlpack(&tensor, released, &one, &managed, NULL), ITER_OK);
    iter_dlpack *versioned = (iter_dlpack *)(void *)managed;
    versioned->flags = ITER_DLPACK_READ_ONLY;
    cr_expect_eq(iter_dlpack_to_legacy(managed, &old, &err), ITER_EUNSUPPORTED);
    cr_expect_null(old);
    versioned->flags = 0;
    cr_assert_eq(iter_dlpack_to_legacy(managed, &old, &err), ITER_OK);
    iter_dlpack_legacy *m = (iter_dlpack_legacy *)(void *)old;
    cr_expect_eq(m->tensor.data, values);
    cr_expect_eq(m->tensor.n_dims, 2);
    cr_expect(memcmp(m->tensor.shape, dims, sizeof(dims)) == 0);
    cr_expect_eq(n_released, 0);
    m->deleter(old);
    cr_expect_eq(n_released, 1);
    cr_expect_eq(iter_dlpack_to_legacy(NULL, &old, NULL), ITER_EINVAL);
    cr_expect_eq(iter__alloc_live(), 0);
}

static const struct {
    iter_dtype dtype;
    int code, bits;
} published[] = {{ITER_I8, 0, 8},   {ITER_I16, 0, 16}, {ITER_I32, 0, 32}, {ITER_I64, 0, 64},
                 {ITER_U8, 1, 8},   {ITER_U16, 1, 16}, {ITER_U32, 1, 32}, {ITER_U64, 1, 64},
                 {ITER_F16, 2, 16}, {ITER_F32, 2, 32}, {ITER_F64, 2, 64}, {ITER_BF16, 4, 16},
                 {ITER_BOOL, 6, 8}};

Test(dlpack, element_types_have_the_published_codes) {
    uint64_t value = 0;
    for (size_t i = 0; i < sizeof(published) / sizeof(published[0]); i++) {
        iter_tensor tensor = tensor_of(published[i].dtype, 0, NULL, &value), back;
        struct DLManagedTensorVersioned *managed;
        cr_assert_eq(iter_tensor_to_dlpack(&tensor, NULL, NULL, &managed, NULL), ITER_OK);
        cr_expect_eq(inside(managed)->tensor.dtype_code, published[i].code);
        cr_expect_eq(inside(managed)->tensor.dtype_bits, published[i].bits);
        cr_expect_eq(inside(managed)->tensor.dtype_lanes, 1);
        cr_assert_eq(iter_tensor_from_dlpack(managed, &back, NULL), ITER_OK);
        cr_expect_eq(back.desc.dtype, published[i].dtype);
        cr_expect_eq(back.data, &value);
        inside(managed)->deleter(managed);
    }
    cr_expect_eq(iter__alloc_live(), 0);
}

Test(dlpack, an_empty_tensor_has_no_data) {
    char nothing;
    const int64_t dims[] = {0, 3};
    iter_tensor tensor = tensor_of(ITER_U8, 2, dims, &nothing);
    struct DLManagedTensorVersioned *managed;
    cr_assert_eq(iter_tensor_to_dlpack(&tensor, NULL, NULL, &managed, NULL), ITER_OK);
    cr_expect_null(inside(managed)->tensor.data);
    cr_expect_eq(inside(managed)->tensor.shape[0], 0);
    inside(managed)->deleter(managed);
}

Test(dlpack, what_cannot_go_out) {
    int one = 1;
    const int64_t dims[] = {2, ITER_VARIABLE};
    char data[4];
    iter_tensor tensor = tensor_of(ITER_U8, 1, dims, NULL);
    struct DLManagedTensorVersioned *managed = outside((void *)data);
    iter_error err;
    cr_expect_eq(iter_tensor_to_dlpack(&tensor, released, &one, &managed, &err), ITER_EINVAL);
    cr_expect(strstr(err.message, "no data"), "%s", err.message);
    cr_expect_null(managed);
    tensor = tensor_of(ITER_DTYPE_NONE, 1, dims, data);
    cr_expect_eq(iter_tensor_to_dlpack(&tensor, released, &one, &managed, &err), ITER_EINVAL);
    tensor = tensor_of(ITER_U8, 1, dims, data);
    tensor.desc.dims[0] = ITER_VARIABLE;
    cr_expect_eq(iter_tensor_to_dlpack(&tensor, released, &one, &managed, &err), ITER_EINVAL);
    cr_expect_eq(iter_tensor_to_dlpack(NULL, released, &one, &managed, NULL), ITER_EINVAL);
    cr_expect_eq(iter_batch_to_dlpack(NULL, 0, &managed, NULL), ITER_EINVAL);
    tensor = tensor_of(ITER_U8, 1, dims, data);
    iter__alloc_fail_after = 0;
    cr_expect_eq(iter_tensor_to_dlpack(&tensor, released, &one, &managed, NULL), ITER_ENOMEM);
    iter__alloc_fail_after = -1;
    cr_expect_null(managed);
    cr_expect_eq(n_released, 0);
    cr_expect_eq(iter__alloc_live(), 0);
}

/* The memory and its values stay after the batch and the loader were dropped. */
Test(dlpack, a_batch_outlives_its_loader) {
    static const float rows[4][3] = {{0, 1, 2}, {3, 4, 5}, {6, 7, 8}, {9, 10, 11}};
    static const int32_t labels[4] = {5, 6, 7, 8};
    int one = 1;
    const iter_array arrays[] = {
        {NULL, ITER_DATA, {.dtype = ITER_F32, .n_dims = 2, .dims = {4, 3}}, rows, 0},
        {NULL, ITER_LABEL, {.dtype = ITER_I32, .n_dims = 1, .dims = {4}}, labels, 0}};
    iter_loader_options opt = ITER_LOADER_OPTIONS_INIT;
    opt.batch_size = 2, opt.arrays.release = released, opt.arrays.user = &one;
    iter_loader *loader;
    iter_batch *batch;
    iter_error err = {0};
    struct DLManagedTensorVersioned *data, *again, *label, *none;
    cr_assert_eq(iter_ndarray_create(arrays, 2, NULL, &opt, &loader, &err), ITER_OK, "%s",
                 err.message);
    cr_assert_eq(iter_loader_next(loader, &batch, &err), ITER_OK, "%s", err.message);
    cr_assert_eq(iter_batch_to_dlpack(batch, 0, &data, NULL), ITER_OK);
    cr_assert_eq(iter_batch_to_dlpack(batch, 0, &again, NULL), ITER_OK);
    cr_assert_eq(iter_batch_to_dlpack(batch, 1, &label, NULL), ITER_OK);
    cr_expect_eq(iter_batch_to_dlpack(batch, 2, &none, &err), ITER_EINVAL);
    cr_expect(strstr(err.message, "no field 2"), "%s", err.message);
    cr_expect_eq(iter_batch_to_dlpack(batch, -1, &none, NULL), ITER_EINVAL);
    cr_expect_eq(inside(data)->tensor.data, iter_batch_tensor(batch, 0)->data);
    iter_batch_unref(batch);
    iter_loader_unref(loader);

    iter_tensor tensor;
    inside(data)->deleter(data);
    cr_expect_eq(n_released, 0);
    cr_assert_eq(iter_tensor_from_dlpack(again, &tensor, NULL), ITER_OK);
    cr_assert_eq(tensor.desc.dims[0], 2);
    cr_expect(memcmp(tensor.data, rows, sizeof(rows[0]) * 2) == 0);
    cr_assert_eq(iter_tensor_from_dlpack(label, &tensor, NULL), ITER_OK);
    cr_expect(memcmp(tensor.data, labels, sizeof(labels[0]) * 2) == 0);
    inside(again)->deleter(again);
    cr_expect_eq(n_released, 0);
    inside(label)->deleter(label);
    cr_expect_eq(n_released, 1); /* the last reference */
    cr_expect_eq(iter__alloc_live(), 0);
}

/* ---- In -------------------------------------------------------------------------------------- */

typedef struct foreign {
    iter_dlpack managed;
    int64_t shape[9], strides[9];
    float values[24];
} foreign;

/* f32 [2, 3, 4], dense; 8 bytes after data. */
static void make_foreign(foreign *f) {
    static const int64_t shape[] = {2, 3, 4}, strides[] = {12, 4, 1};
    memset(f, 0, sizeof(*f));
    memcpy(f->shape, shape, sizeof(shape));
    memcpy(f->strides, strides, sizeof(strides));
    f->managed.major = 1, f->managed.minor = 3;
    f->managed.tensor = (iter_dlpack_tensor){f->values, 1, 0, 3, 2, 32, 1, f->shape, f->strides, 8};
}

Test(dlpack, a_tensor_comes_in) {
    foreign f;
    iter_tensor t;
    make_foreign(&f);
    cr_assert_eq(iter_tensor_from_dlpack(outside(&f.managed), &t, NULL), ITER_OK);
    cr_expect_eq(t.desc.dtype, ITER_F32);
    cr_expect_eq(t.desc.n_dims, 3);
    cr_expect(t.desc.dims[0] == 2 && t.desc.dims[1] == 3 && t.desc.dims[2] == 4);
    cr_expect(t.strides[0] == 12 && t.strides[1] == 4 && t.strides[2] == 1);
    cr_expect_eq(t.data, &f.values[2]);

    f.managed.tensor.strides = NULL; /* dense */
    f.managed.tensor.device_type = ITER_DLPACK_CUDA_HOST;
    cr_assert_eq(iter_tensor_from_dlpack(outside(&f.managed), &t, NULL), ITER_OK);
    cr_expect(t.strides[0] == 12 && t.strides[1] == 4 && t.strides[2] == 1);

    f.shape[1] = 0;
    f.managed.tensor.data = NULL;
    cr_assert_eq(iter_tensor_from_dlpack(outside(&f.managed), &t, NULL), ITER_OK);
    cr_expect_null(t.data);
}

Test(dlpack, what_cannot_come_in) {
    foreign f;
    iter_tensor t;
    iter_error err;
#define REFUSED(change, status, says)                                                       \
    do {                                                                                    \
        make_foreign(&f);                                                                   \
        change;                                                                             \
        cr_expect_eq(iter_tensor_from_dlpack(outside(&f.managed), &t, &err), status, says); \
        cr_expect(strstr(err.message, says), "'%s' does not say '%s'", err.message, says);  \
        cr_expect_eq(t.desc.dtype, ITER_DTYPE_NONE);                                        \
    } while (0)
    REFUSED(f.managed.major = 2, ITER_EUNSUPPORTED, "version 2.3");
    REFUSED(f.managed.tensor.device_type = 2, ITER_EUNSUPPORTED, "device type 2");
    REFUSED(f.managed.tensor.dtype_lanes = 4, ITER_EUNSUPPORTED, "4 lanes");
    REFUSED(f.managed.tensor.dtype_bits = 4, ITER_EUNSUPPORTED, "4 bits");
    REFUSED(f.managed.tensor.dtype_code = 5, ITER_EUNSUPPORTED, "type code 5");
    REFUSED(f.managed.tensor.n_dims = 9, ITER_EUNSUPPORTED, "9 dimensions");
    REFUSED(f.managed.tensor.n_dims = -1, ITER_EINVAL, "-1 dimensions");
    REFUSED(f.managed.tensor.shape = NULL, ITER_EINVAL, "without a shape");
    REFUSED(f.shape[1] = -1, ITER_EINVAL, "dimension 1 is -1");
    REFUSED(f.shape[0] = INT64_MAX / 4, ITER_EINVAL, "dimension 0");
    REFUSED(f.managed.tensor.data = NULL, ITER_EINVAL, "no data");
    cr_expect_eq(iter_tensor_from_dlpack(NULL, &t, NULL), ITER_EINVAL);
}

Test(dlpack, an_array_comes_in) {
    foreign f;
    iter_array a;
    make_foreign(&f);
    cr_assert_eq(iter_array_from_dlpack(outside(&f.managed), "x", ITER_LABEL, &a, NULL), ITER_OK);
    cr_expect_str_eq(a.name, "x");
    cr_expect_eq(a.role, ITER_LABEL);
    cr_expect_eq(a.desc.n_dims, 3);
    cr_expect_eq(a.data, &f.values[2]);
    cr_expect_eq(a.stride_bytes, 48);

    f.strides[0] = 4; /* rows that overlap: a sliding window */
    cr_assert_eq(iter_array_from_dlpack(outside(&f.managed), NULL, ITER_DATA, &a, NULL), ITER_OK);
    cr_expect_eq(a.stride_bytes, 16);

    f.shape[1] = 1, f.strides[1] = -77; /* one element: any stride */
    cr_assert_eq(iter_array_from_dlpack(outside(&f.managed), NULL, ITER_DATA, &a, NULL), ITER_OK);
    f.shape[0] = 1, f.strides[0] = 0;
    cr_assert_eq(iter_array_from_dlpack(outside(&f.managed), NULL, ITER_DATA, &a, NULL), ITER_OK);
    cr_expect_eq(a.stride_bytes, 0);
}

Test(dlpack, arrays_have_dense_rows) {
    foreign f;
    iter_array a;
    iter_error err;
    make_foreign(&f);
    f.strides[1] = 1, f.strides[2] = 3; /* columns first */
    cr_expect_eq(iter_array_from_dlpack(outside(&f.managed), NULL, ITER_DATA, &a, &err),
                 ITER_EUNSUPPORTED);
    cr_expect(strstr(err.message, "rows are not dense"), "%s", err.message);
    make_foreign(&f);
    f.strides[0] = -12;
    cr_expect_eq(iter_array_from_dlpack(outside(&f.managed), NULL, ITER_DATA, &a, &err),
                 ITER_EUNSUPPORTED);
    f.strides[0] = 0; /* broadcast */
    cr_expect_eq(iter_array_from_dlpack(outside(&f.managed), NULL, ITER_DATA, &a, &err),
                 ITER_EUNSUPPORTED);
    cr_expect(strstr(err.message, "growing addresses"), "%s", err.message);
    make_foreign(&f);
    f.managed.tensor.n_dims = 0;
    cr_expect_eq(iter_array_from_dlpack(outside(&f.managed), NULL, ITER_DATA, &a, NULL),
                 ITER_EINVAL);
    cr_expect_null(a.data);
}

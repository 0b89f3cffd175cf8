/*
 * dlpack.c - tensors to and from versioned DLPack.
 *
 * One block holds the managed tensor with its shape and strides, so that a deleter frees one block.
 * Layout and meaning are those of include/dlpack/dlpack.h of dmlc/dlpack, version 1.0; what 1.1 and
 * later add are codes for types that iter_dtype lacks. Strides are always given, because consumers
 * of 1.2 may rely on them.
 */
#include <stddef.h>
#include <string.h>

#include <iter/dlpack.h>

#include "iter/core/alloc.h"
#include "iter/core/error.h"
#include "iter/runtime/loader_state.h"

/* The published offsets; every ABI that we build for has 8-byte pointers. */
_Static_assert(offsetof(iter_dlpack, manager_ctx) == 8, "as in dlpack.h");
_Static_assert(offsetof(iter_dlpack, deleter) == 16, "as in dlpack.h");
_Static_assert(offsetof(iter_dlpack, flags) == 24, "as in dlpack.h");
_Static_assert(offsetof(iter_dlpack, tensor) == 32, "as in dlpack.h");
_Static_assert(offsetof(iter_dlpack_tensor, device_type) == 8, "as in dlpack.h");
_Static_assert(offsetof(iter_dlpack_tensor, n_dims) == 16, "as in dlpack.h");
_Static_assert(offsetof(iter_dlpack_tensor, dtype_code) == 20, "as in dlpack.h");
_Static_assert(offsetof(iter_dlpack_tensor, dtype_lanes) == 22, "as in dlpack.h");
_Static_assert(offsetof(iter_dlpack_tensor, shape) == 24, "as in dlpack.h");
_Static_assert(offsetof(iter_dlpack_tensor, strides) == 32, "as in dlpack.h");
_Static_assert(offsetof(iter_dlpack_tensor, byte_offset) == 40, "as in dlpack.h");
_Static_assert(sizeof(iter_dlpack) == 80, "as in dlpack.h");
_Static_assert(offsetof(iter_dlpack_legacy, manager_ctx) == 48, "as in dlpack.h");
_Static_assert(offsetof(iter_dlpack_legacy, deleter) == 56, "as in dlpack.h");
_Static_assert(sizeof(iter_dlpack_legacy) == 64, "as in dlpack.h");

typedef struct export {
    iter_dlpack managed; /* first: the deleter gets its address */
    int64_t shape[ITER_MAX_DIMS], strides[ITER_MAX_DIMS];
    void (*release)(void *user);
    void *user;
}
export;

static const struct {
    iter_dtype dtype;
    uint8_t code, bits;
} dtypes[] = {{ITER_U8, ITER_DLPACK_UINT, 8},    {ITER_I8, ITER_DLPACK_INT, 8},
              {ITER_U16, ITER_DLPACK_UINT, 16},  {ITER_I16, ITER_DLPACK_INT, 16},
              {ITER_U32, ITER_DLPACK_UINT, 32},  {ITER_I32, ITER_DLPACK_INT, 32},
              {ITER_U64, ITER_DLPACK_UINT, 64},  {ITER_I64, ITER_DLPACK_INT, 64},
              {ITER_F16, ITER_DLPACK_FLOAT, 16}, {ITER_BF16, ITER_DLPACK_BFLOAT, 16},
              {ITER_F32, ITER_DLPACK_FLOAT, 32}, {ITER_F64, ITER_DLPACK_FLOAT, 64},
              {ITER_BOOL, ITER_DLPACK_BOOL, 8}};

#define N_DTYPES ((int)(sizeof(dtypes) / sizeof(dtypes[0])))

/* ---- Out ------------------------------------------------------------------------------------- */

static void delete_export(struct DLManagedTensorVersioned *self) {
    if (!self) return;
    export *e = (export *)(void *)self;
    if (e->release) e->release(e->user);
    iter__free(e);
}

static void release_batch(void *user) {
    iter_batch_unref(user);
}

static iter_status fill_export(export *e, const iter_tensor *tensor, iter_error *err) {
    iter_dlpack_tensor *out = &e->managed.tensor;
    int64_t n_elements = 1;
    for (int32_t i = 0; i < tensor->desc.n_dims; i++) {
        if (tensor->desc.dims[i] < 0)
            return iter__fail(err, ITER_EINVAL, "dlpack: dimension %d is not fixed", (int)i);
        e->shape[i] = tensor->desc.dims[i];
        e->strides[i] = tensor->strides[i];
        n_elements = tensor->desc.dims[i] ? n_elements : 0;
    }
    if (n_elements && !tensor->data)
        return iter__fail(err, ITER_EINVAL, "dlpack: the tensor has no data");
    for (int i = 0; i < N_DTYPES; i++) {
        if (dtypes[i].dtype != tensor->desc.dtype) continue;
        out->dtype_code = dtypes[i].code;
        out->dtype_bits = dtypes[i].bits;
        out->dtype_lanes = 1;
    }
    if (!out->dtype_lanes) return iter__fail(err, ITER_EINVAL, "dlpack: unknown element type");
    out->data = n_elements ? tensor->data : NULL; /* as dlpack.h asks for empty tensors */
    out->device_type = ITER_DLPACK_CPU;
    out->n_dims = tensor->desc.n_dims;
    out->shape = e->shape;
    out->strides = e->strides;
    e->managed.major = ITER_DLPACK_MAJOR;
    e->managed.minor = ITER_DLPACK_MINOR;
    e->managed.deleter = delete_export;
    return ITER_OK;
}

iter_status iter_tensor_to_dlpack(const iter_tensor *tensor, void (*release)(void *user),
                                  void *user, struct DLManagedTensorVersioned **out,
                                  iter_error *err) {
    if (!out) return iter__fail(err, ITER_EINVAL, "dlpack: out is NULL");
    *out = NULL;
    if (!tensor || tensor->desc.n_dims < 0 || tensor->desc.n_dims > ITER_MAX_DIMS)
        return iter__fail(err, ITER_EINVAL, "dlpack: no tensor given");
    export *e = iter__alloc(1, sizeof(*e));
    if (!e) return iter__fail(err, ITER_ENOMEM, "dlpack: out of memory");
    const iter_status status = fill_export(e, tensor, err);
    if (status < 0) {
        iter__free(e);
        return status;
    }
    e->release = release;
    e->user = user;
    e->managed.manager_ctx = user;
    *out = (struct DLManagedTensorVersioned *)(void *)&e->managed;
    return ITER_OK;
}

iter_status iter_batch_to_dlpack(iter_batch *batch, int32_t field,
                                 struct DLManagedTensorVersioned **out, iter_error *err) {
    if (!out) return iter__fail(err, ITER_EINVAL, "dlpack: out is NULL");
    *out = NULL;
    const iter_tensor *tensor = batch && field >= 0 ? iter_batch_tensor(batch, field) : NULL;
    if (!tensor)
        return iter__fail(err, ITER_EINVAL, "dlpack: the batch has no field %d", (int)field);
    const iter_tensor *device = iter_batch_device_tensor(batch, field);
    ITER_TRY(iter_tensor_to_dlpack(device ? device : tensor, release_batch, batch, out, err));
    const iter_loader *loader = batch->loader;
    iter_dlpack_tensor *managed = &((iter_dlpack *)(void *)*out)->tensor;
    if (device) {
        managed->device_type = ITER_DLPACK_CUDA;
        managed->device_id = iter__device_ordinal(loader->device.handle);
    } else if (loader->opt.memory.kind == ITER_MEMORY_PINNED) {
        managed->device_type = ITER_DLPACK_CUDA_HOST;
    }
    if (batch->is_view) ((iter_dlpack *)(void *)*out)->flags |= ITER_DLPACK_READ_ONLY;
    iter_batch_ref(batch);
    return ITER_OK;
}

typedef struct legacy {
    iter_dlpack_legacy managed; /* first: the deleter gets its address */
    iter_dlpack *versioned;
} legacy;

static void delete_legacy(struct DLManagedTensor *self) {
    if (!self) return;
    legacy *l = (legacy *)(void *)self;
    if (l->versioned->deleter)
        l->versioned->deleter((struct DLManagedTensorVersioned *)(void *)l->versioned);
    iter__free(l);
}

iter_status iter_dlpack_to_legacy(struct DLManagedTensorVersioned *managed,
                                  struct DLManagedTensor **out, iter_error *err) {
    if (!out) return iter__fail(err, ITER_EINVAL, "dlpack: out is NULL");
    *out = NULL;
    if (!managed) return iter__fail(err, ITER_EINVAL, "dlpack: no tensor given");
    iter_dlpack *versioned = (iter_dlpack *)(void *)managed;
    if (versioned->flags & ITER_DLPACK_READ_ONLY) {
        return iter__fail(err, ITER_EUNSUPPORTED,
                          "dlpack: the tensor is read-only, which the form before 1.0 cannot say");
    }
    legacy *l = iter__alloc(1, sizeof(*l));
    if (!l) return iter__fail(err, ITER_ENOMEM, "dlpack: out of memory");
    l->managed.tensor = versioned->tensor; /* shape and strides stay in `versioned` */
    l->managed.manager_ctx = l;
    l->managed.deleter = delete_legacy;
    l->versioned = versioned;
    *out = (struct DLManagedTensor *)(void *)&l->managed;
    return ITER_OK;
}

/* ---- In -------------------------------------------------------------------------------------- */

static iter_status take_dtype(const iter_dlpack_tensor *in, iter_desc *out, iter_error *err) {
    if (in->dtype_lanes != 1)
        return iter__fail(err, ITER_EUNSUPPORTED, "dlpack: elements of %u lanes",
                          (unsigned)in->dtype_lanes);
    for (int i = 0; i < N_DTYPES; i++)
        if (dtypes[i].code == in->dtype_code && dtypes[i].bits == in->dtype_bits)
            out->dtype = dtypes[i].dtype;
    if (out->dtype == ITER_DTYPE_NONE)
        return iter__fail(err, ITER_EUNSUPPORTED, "dlpack: elements of type code %u with %u bits",
                          (unsigned)in->dtype_code, (unsigned)in->dtype_bits);
    return ITER_OK;
}

/* Shape and strides; *out_empty = a dimension is 0. */
static iter_status take_shape(const iter_dlpack_tensor *in, iter_tensor *out, bool *out_empty,
                              iter_error *err) {
    int64_t bytes = (int64_t)iter_dtype_bytes(out->desc.dtype);
    *out_empty = false;
    if (in->n_dims < 0 || (in->n_dims > 0 && !in->shape))
        return iter__fail(err, ITER_EINVAL, "dlpack: %d dimensions without a shape",
                          (int)in->n_dims);
    if (in->n_dims > ITER_MAX_DIMS)
        return iter__fail(err, ITER_EUNSUPPORTED, "dlpack: %d dimensions, at most %d are supported",
                          (int)in->n_dims, ITER_MAX_DIMS);
    out->desc.n_dims = in->n_dims;
    int64_t dense = 1;
    for (int32_t i = in->n_dims - 1; i >= 0; i--) {
        const int64_t n = in->shape[i];
        if (n < 0 || __builtin_mul_overflow(bytes, n ? n : 1, &bytes))
            return iter__fail(err, ITER_EINVAL, "dlpack: dimension %d is %lld", (int)i,
                              (long long)n);
        out->desc.dims[i] = n;
        out->strides[i] = in->strides ? in->strides[i] : dense;
        dense *= n ? n : 1;
        if (n == 0) *out_empty = true;
    }
    return ITER_OK;
}

iter_status iter_tensor_from_dlpack(const struct DLManagedTensorVersioned *managed,
                                    iter_tensor *out, iter_error *err) {
    const iter_dlpack *m = (const iter_dlpack *)(const void *)managed;
    bool empty;
    if (!out) return iter__fail(err, ITER_EINVAL, "dlpack: out is NULL");
    memset(out, 0, sizeof(*out));
    if (!m) return iter__fail(err, ITER_EINVAL, "dlpack: no tensor given");
    if (m->major != ITER_DLPACK_MAJOR)
        return iter__fail(err, ITER_EUNSUPPORTED, "dlpack: version %u.%u; expected %d.x",
                          (unsigned)m->major, (unsigned)m->minor, ITER_DLPACK_MAJOR);
    const iter_dlpack_tensor *in = &m->tensor;
    if (in->device_type != ITER_DLPACK_CPU && in->device_type != ITER_DLPACK_CUDA_HOST)
        return iter__fail(err, ITER_EUNSUPPORTED,
                          "dlpack: memory of device type %d, which the host cannot read",
                          (int)in->device_type);
    iter_tensor taken = {0};
    ITER_TRY(take_dtype(in, &taken.desc, err));
    ITER_TRY(take_shape(in, &taken, &empty, err));
    if (!empty && !in->data) return iter__fail(err, ITER_EINVAL, "dlpack: the tensor has no data");
    taken.data = empty ? NULL : (char *)in->data + in->byte_offset;
    *out = taken;
    return ITER_OK;
}

/* Rows one after another, each dense; a dimension of one element may have any stride. */
static iter_status check_rows(const iter_tensor *tensor, iter_error *err) {
    int64_t dense = 1;
    for (int32_t i = tensor->desc.n_dims - 1; i > 0; i--) {
        if (tensor->desc.dims[i] > 1 && tensor->strides[i] != dense)
            return iter__fail(err, ITER_EUNSUPPORTED,
                              "dlpack: rows are not dense (stride %lld in dimension %d, not %lld)",
                              (long long)tensor->strides[i], (int)i, (long long)dense);
        dense *= tensor->desc.dims[i];
    }
    if (tensor->desc.dims[0] > 1 && tensor->strides[0] <= 0)
        return iter__fail(err, ITER_EUNSUPPORTED,
                          "dlpack: rows do not lie at growing addresses (stride %lld)",
                          (long long)tensor->strides[0]);
    return ITER_OK;
}

iter_status iter_array_from_dlpack(const struct DLManagedTensorVersioned *managed, const char *name,
                                   iter_role role, iter_array *out, iter_error *err) {
    iter_tensor tensor;
    if (!out) return iter__fail(err, ITER_EINVAL, "dlpack: out is NULL");
    memset(out, 0, sizeof(*out));
    ITER_TRY(iter_tensor_from_dlpack(managed, &tensor, err));
    if (tensor.desc.n_dims == 0)
        return iter__fail(err, ITER_EINVAL, "dlpack: a scalar has no rows");
    const bool empty = !tensor.data;
    if (!empty) ITER_TRY(check_rows(&tensor, err));
    *out = (iter_array){name, role, tensor.desc, tensor.data, 0};
    if (!empty && tensor.desc.dims[0] > 1)
        out->stride_bytes = (size_t)tensor.strides[0] * iter_dtype_bytes(tensor.desc.dtype);
    return ITER_OK;
}

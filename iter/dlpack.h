/*
 * dlpack.h - tensors to and from other libraries without a copy, as versioned DLPack
 * (dmlc/dlpack 1.x).
 *
 *     struct DLManagedTensorVersioned *managed;
 *     iter_batch_to_dlpack(batch, 0, &managed, &err); // e.g. into a PyCapsule
 *     iter_batch_unref(batch); // the memory stays until managed->deleter(managed)
 *
 * The functions name DLPack's own struct by its tag, so this header can be included before or after
 * any <dlpack/dlpack.h>. A program without that header reads the same bytes as iter_dlpack.
 */
#ifndef ITER_DLPACK_H
#define ITER_DLPACK_H

#include <iter/loader.h>

ITER_BEGIN_DECLS

struct DLManagedTensorVersioned;
struct DLManagedTensor;

#define ITER_DLPACK_MAJOR 1
#define ITER_DLPACK_MINOR 0

/** In iter_dlpack.flags. */
#define ITER_DLPACK_READ_ONLY 1u
#define ITER_DLPACK_IS_COPIED 2u

/** DLDeviceType. Page-locked memory is CUDA_HOST if ITER_MEMORY_PINNED was asked for. If
 * ITER_MEMORY_AUTO chose it, it is CPU, as it would be without a GPU. */
#define ITER_DLPACK_CPU       1
#define ITER_DLPACK_CUDA      2
#define ITER_DLPACK_CUDA_HOST 3

/** DLDataTypeCode: the codes that have an iter_dtype. */
#define ITER_DLPACK_INT    0
#define ITER_DLPACK_UINT   1
#define ITER_DLPACK_FLOAT  2
#define ITER_DLPACK_BFLOAT 4
#define ITER_DLPACK_BOOL   6

/** DLTensor of dlpack.h 1.x, byte for byte. */
typedef struct iter_dlpack_tensor {
    void *data;
    int32_t device_type, device_id;
    int32_t n_dims;
    uint8_t dtype_code, dtype_bits;
    uint16_t dtype_lanes;
    int64_t *shape;
    int64_t *strides;     /* elements; NULL = dense in C order (before 1.2) */
    uint64_t byte_offset; /* from data to the first element */
} iter_dlpack_tensor;

/** DLManagedTensorVersioned of dlpack.h 1.x, byte for byte. */
typedef struct iter_dlpack {
    uint32_t major, minor;
    void *manager_ctx;
    void (*deleter)(struct DLManagedTensorVersioned *self); /* NULL = nothing to do */
    uint64_t flags;
    iter_dlpack_tensor tensor;
} iter_dlpack;

/** DLManagedTensor, byte for byte: the form before 1.0, which has no version and no flags. */
typedef struct iter_dlpack_legacy {
    iter_dlpack_tensor tensor;
    void *manager_ctx;
    void (*deleter)(struct DLManagedTensor *self); /* NULL = nothing to do */
} iter_dlpack_legacy;

/**
 * Exports field `field` of a batch, in device memory if the batch is on a device. A batch may be
 * exported any number of times; consumers may write into it.
 *
 * Streams: in DLPack the producer makes the consumer's stream wait. So call iter_batch_wait(batch,
 * stream) before the consumer gets the tensor, with the stream that __dlpack__(stream=...) names.
 * DLPack's 1, the legacy default stream, is NULL here; for -1 do not call it. The deleter does not
 * name a stream: before it runs, call iter_batch_release(batch, stream) after the consumer's last
 * work on the tensor, or let the consumer wait for that work itself.
 *
 * Ownership  *out has its own reference on the batch, which its deleter drops. The deleter may run
 *            in any thread, and after the loader is freed. Until then the batch counts as held.
 * Errors     EINVAL (no such field), ENOMEM.
 * Threads    any.
 */
ITER_API ITER_NODISCARD iter_status iter_batch_to_dlpack(iter_batch *batch, int32_t field,
                                                         struct DLManagedTensorVersioned **out,
                                                         iter_error *err);

/**
 * Exports any tensor in host memory.
 *
 *   release  runs once, with `user`, in the deleter; NULL = nothing to do
 *
 * Ownership  tensor->data is borrowed until then, the rest is copied. If this call fails, release()
 *            does not run.
 * Errors     EINVAL (no data, an unknown dtype, a variable dimension), ENOMEM.
 */
ITER_API ITER_NODISCARD iter_status iter_tensor_to_dlpack(const iter_tensor *tensor,
                                                          void (*release)(void *user), void *user,
                                                          struct DLManagedTensorVersioned **out,
                                                          iter_error *err);

/**
 * Wraps a versioned tensor in the form before 1.0, for libraries that know only that one.
 *
 * Ownership  takes `managed` over: the deleter of *out runs that of `managed`. If this call fails,
 *            `managed` stays the caller's.
 * Errors     EUNSUPPORTED (ITER_DLPACK_READ_ONLY is set, which the old form cannot say), EINVAL (no
 *            tensor), ENOMEM.
 * Threads    any.
 */
ITER_API ITER_NODISCARD iter_status iter_dlpack_to_legacy(struct DLManagedTensorVersioned *managed,
                                                          struct DLManagedTensor **out,
                                                          iter_error *err);

/**
 * Describes another library's tensor: type, shape, strides, first element. If the producer set
 * ITER_DLPACK_READ_ONLY, data must not be written to.
 *
 * Ownership  *out borrows from `managed`. The caller keeps `managed` and runs its deleter
 *            afterwards.
 * Errors     EUNSUPPORTED (another major version, memory of a device, lanes, types of less than a
 *            byte, complex, more than 8 dimensions), EINVAL (an invalid shape).
 */
ITER_API ITER_NODISCARD iter_status iter_tensor_from_dlpack(
    const struct DLManagedTensorVersioned *managed, iter_tensor *out, iter_error *err);

/**
 * The same as an array for iter_ndarray_create(): [n, ...] with dense rows. Rows may overlap or
 * have gaps between them.
 *
 *   name     as iter_array.name, borrowed
 *
 * Ownership  *out borrows from `managed`. Run its deleter in options->release of
 *            iter_ndarray_create(), or at once if a copy was asked for.
 * Errors     as iter_tensor_from_dlpack(); also EUNSUPPORTED if rows are not dense or their
 *            addresses do not grow, EINVAL for a scalar.
 */
ITER_API ITER_NODISCARD iter_status
iter_array_from_dlpack(const struct DLManagedTensorVersioned *managed, const char *name,
                       iter_role role, iter_array *out, iter_error *err);

ITER_END_DECLS

#endif

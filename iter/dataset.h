/*
 * dataset.h - where samples come from: files in known formats, arrays in memory, the user's own
 * code.
 */
#ifndef ITER_DATASET_H
#define ITER_DATASET_H

#include <iter/ops.h>
#include <iter/registry.h>

ITER_BEGIN_DECLS

typedef struct iter_dataset iter_dataset;

/**
 * Opens a dataset by its name: "format:path?key=value&key=value", e.g.
 * "cifar10:data/cifar-10-batches-bin?split=train". docs/grammar.md has the grammar; `iterbench
 * list` has every format with its options.
 *
 *   registry  the caller's own formats; NULL = built-ins alone
 *
 * Ownership  *out belongs to the caller, who gives it back with iter_dataset_unref().
 * Errors     EINVAL (spec, with the column), EIO, EFORMAT (file and reason), EUNSUPPORTED, ENOMEM.
 * Threads    any.
 */
ITER_API ITER_NODISCARD iter_status iter_dataset_open(const char *spec,
                                                      const iter_registry *registry,
                                                      iter_dataset **out, iter_error *err);

/**
 * Makes a dataset of the caller's own code. `ops` and `user` are borrowed until the last reference
 * is gone; then ops->close(user) runs once. When this fails, close() does not run.
 *
 * Errors     EINVAL (a required member missing, fields that cannot be), what describe() answered,
 *            ENOMEM.
 */
ITER_API ITER_NODISCARD iter_status iter_dataset_create(const iter_dataset_ops *ops, void *user,
                                                        iter_dataset **out, iter_error *err);

/** One named array: row i is at data + i * stride_bytes. */
typedef struct iter_array {
    const char *name; /* NULL = "data" / "label", with MXNet's numbering where there are several */
    iter_role role;
    iter_desc desc;   /* of the whole array: [n, ...] */
    const void *data; /* borrowed */
    /* bytes from row to row; 0 = dense; less than a row: rows overlap, as sliding windows do */
    size_t stride_bytes;
} iter_array;

/** Adds, drops a reference. Any thread. unref(NULL) is ignored. */
ITER_API iter_dataset *iter_dataset_ref(iter_dataset *dataset);
ITER_API void iter_dataset_unref(iter_dataset *dataset);

/** What it is made of; lives as long as the dataset. */
ITER_API const iter_description *iter_dataset_describe(const iter_dataset *dataset);

/** The spec it was opened by, or the name of the user's ops, or "arrays". */
ITER_API const char *iter_dataset_name(const iter_dataset *dataset);

ITER_END_DECLS

#endif

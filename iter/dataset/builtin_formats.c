/* builtin_formats.c - the dataset formats that come with the library, in listing order, and the
 * keys that each of them takes at URLs. */
#include "iter/remote/client.h"
#include "iter/spec/builtins.h"

/* clang-format off */
#define FORMATS(X) \
    X(cifar10) \
    X(cifar100) \
    X(mnist) \
    X(imdb) \
    X(npy) \
    X(folder) \
    X(recordio) \
    X(tar) \
    X(tfrecord) \
    X(tokens) \
    X(mix) \
    X(pack) \
    X(csv) \
    X(libsvm) \
    X(jsonl) \
    X(text) \
    X(synthetic)
/* clang-format on */

ITER_BUILTINS(format, FORMATS)
ITER_BUILTIN_NTH(format)

const iter_ops *iter_builtin_url_keys(void) {
    return iter__remote_table();
}

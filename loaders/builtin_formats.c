/* builtin_formats.c - the dataset formats that come with the library, in listing order. */
#include "iter/core/builtins.h"
#include "loaders/formats.h"

/* clang-format off */
const iter_format_ops *const iter__builtin_formats[] = {
    &iter__format_cifar10,
    &iter__format_cifar100,
    &iter__format_mnist,
    &iter__format_imdb,
    &iter__format_npy,
    &iter__format_folder,
    &iter__format_recordio,
    &iter__format_tar,
    &iter__format_synthetic,
    NULL,
};

/* formats.h - the built-in format tables; builtin_formats.c lists them. */
#ifndef ITER_LOADERS_FORMATS_H
#define ITER_LOADERS_FORMATS_H

#include <iter/ops.h>

extern const iter_format_ops iter__format_cifar10;
extern const iter_format_ops iter__format_cifar100;
extern const iter_format_ops iter__format_mnist;
extern const iter_format_ops iter__format_imdb;
extern const iter_format_ops iter__format_npy;
extern const iter_format_ops iter__format_folder;
extern const iter_format_ops iter__format_recordio;
extern const iter_format_ops iter__format_tar;
extern const iter_format_ops iter__format_synthetic;

#endif

/* builtin_tables.h - the built-in tables that tests call directly; programs find them by name. */
#ifndef TESTS_SUPPORT_BUILTIN_TABLES_H
#define TESTS_SUPPORT_BUILTIN_TABLES_H

#include <iter/ops.h>

extern const iter_format_ops iter__format_cifar10;
extern const iter_format_ops iter__format_cifar100;
extern const iter_format_ops iter__format_mnist;
extern const iter_format_ops iter__format_imdb;
extern const iter_format_ops iter__format_npy;
extern const iter_format_ops iter__format_folder;
extern const iter_format_ops iter__format_recordio;
extern const iter_format_ops iter__format_tar;
extern const iter_format_ops iter__format_tfrecord;
extern const iter_format_ops iter__format_tokens;
extern const iter_format_ops iter__format_csv;
extern const iter_format_ops iter__format_libsvm;
extern const iter_format_ops iter__format_jsonl;
extern const iter_format_ops iter__format_text;
extern const iter_format_ops iter__format_synthetic;
extern const iter_sampler_ops iter__sampler_sequential;
extern const iter_sampler_ops iter__sampler_shuffle;
extern const iter_sampler_ops iter__sampler_once;
extern const iter_sampler_ops iter__sampler_block;
extern const iter_sampler_ops iter__sampler_batch;
extern const iter_sampler_ops iter__sampler_replacement;
extern const iter_sampler_ops iter__sampler_weighted;
extern const iter_sampler_ops iter__sampler_stride;
extern const iter_sampler_ops iter__sampler_balanced;
extern const iter_sampler_ops iter__sampler_repeat;
extern const iter_sampler_ops iter__sampler_bucket;
extern const iter_source_ops iter__source_uring; /* "ring"; only under ITER_HAVE_URING */
extern const iter_source_ops iter__source_pread; /* "pread" */
extern const iter_source_ops iter__source_null;  /* "null" */
extern const iter_transform_ops iter__transform_resize;
extern const iter_transform_ops iter__transform_resize_short;
extern const iter_transform_ops iter__transform_random_resized_crop;
extern const iter_transform_ops iter__transform_random_crop;
extern const iter_transform_ops iter__transform_center_crop;
extern const iter_transform_ops iter__transform_crop;
extern const iter_transform_ops iter__transform_pad;
extern const iter_transform_ops iter__transform_random_flip;
extern const iter_transform_ops iter__transform_flip;
extern const iter_transform_ops iter__transform_cutout;
extern const iter_transform_ops iter__transform_random_erasing;
extern const iter_transform_ops iter__transform_color_jitter;
extern const iter_transform_ops iter__transform_grayscale;
extern const iter_transform_ops iter__transform_random_grayscale;
extern const iter_transform_ops iter__transform_posterize;
extern const iter_transform_ops iter__transform_random_posterize;
extern const iter_transform_ops iter__transform_solarize;
extern const iter_transform_ops iter__transform_random_solarize;
extern const iter_transform_ops iter__transform_invert;
extern const iter_transform_ops iter__transform_random_invert;
extern const iter_transform_ops iter__transform_gamma;
extern const iter_transform_ops iter__transform_scale;
extern const iter_transform_ops iter__transform_normalize;
extern const iter_transform_ops iter__transform_cast;
extern const iter_transform_ops iter__transform_to;
extern const iter_transform_ops iter__transform_one_hot;
extern const iter_transform_ops iter__transform_boxes;
extern const iter_transform_ops iter__transform_truncate;
extern const iter_transform_ops iter__transform_pad_tokens;
extern const iter_transform_ops iter__transform_tokens;
extern const iter_transform_ops iter__transform_pad_batch;
extern const iter_transform_ops iter__transform_lengths;
extern const iter_transform_ops iter__transform_tnc;

#endif

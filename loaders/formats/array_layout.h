/* array_layout.h - the option `layout` of formats that hold arrays: which axes are an image's. */
#ifndef ITER_LOADERS_FORMATS_ARRAY_LAYOUT_H
#define ITER_LOADERS_FORMATS_ARRAY_LAYOUT_H

#include <iter/option_rows.h>

typedef enum iter__array_layout {
    ITER_ARRAY_PLAIN, /* not given */
    ITER_ARRAY_HWC,
    ITER_ARRAY_CHW
} iter__array_layout;

/* Row for the option table of a format whose options struct `type` has an int32_t `member`. */
#define ITER_ARRAY_LAYOUT_ROW(type, member)                                                    \
    ITER_ROW_CHOICE("layout",                                                                  \
                    "the data's axes after the first are an image's: height, width, channels", \
                    type, member, "none|hwc|chw")

/*
 * Names the axes of one row, so that stages for images accept it: [H, W, C] "HWC", [C, H, W] "CHW",
 * or [H, W] "HW" for gray images without an axis for channels. ITER_ARRAY_PLAIN leaves the row as
 * it is.
 *
 * Errors: EINVAL with `path` if the row has another number of axes, or more than 4 channels while
 * the other layout would have 1 to 4.
 */
iter_status iter__array_layout_apply(iter__array_layout layout, const char *path, iter_desc *row,
                                     iter_error *err);

#endif

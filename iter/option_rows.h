/*
 * option_rows.h - readable rows for the options of a format, stage, sampler, decoder or layer.
 *
 *     typedef struct blur_options { int64_t radius; int32_t edge; } blur_options;
 *     static const blur_options blur_defaults = {1, 0};
 *     static const iter_option blur_rows[] = {
 *         ITER_ROW_INT("radius", "pixels to each side", blur_options, radius, 0, 64, 1),
 *         ITER_ROW_CHOICE("edge", "what lies outside the image", blur_options, edge, "zero|copy"),
 *         ITER_ROW_END};
 *
 *   name, help    as `iterbench list` shows them; names are kebab-case (a '_' that is given
 *                 is read as '-')
 *   type, member  of the options struct; a member of a nested struct is written a.b
 *   min, max      bounds of the number; both 0 = any
 *   place         1, 2, ...: may also be given without its name, as the first, second, ... such
 *                 argument; 0 = by name alone
 *
 * A row may also be written out (<iter/ops.h>): the library does not depend on these macros.
 */
#ifndef ITER_OPTION_ROWS_H
#define ITER_OPTION_ROWS_H

#include <stddef.h>

#include <iter/ops.h>

/** int64_t. */
#define ITER_ROW_INT(name, help, type, member, min, max, place) \
    { name, help, ITER_OPTION_INT, offsetof(type, member), min, max, NULL, place }
/** int64_t, and `word` stands for 0. */
#define ITER_ROW_INT_OR(name, help, type, member, min, max, word, place) \
    { name, help, ITER_OPTION_INT, offsetof(type, member), min, max, word, place }
/** double. */
#define ITER_ROW_DOUBLE(name, help, type, member, min, max, place) \
    { name, help, ITER_OPTION_DOUBLE, offsetof(type, member), min, max, NULL, place }
/** bool. */
#define ITER_ROW_BOOL(name, help, type, member) \
    { name, help, ITER_OPTION_BOOL, offsetof(type, member), 0, 0, NULL, 0 }
/** int32_t: the place of the word in `words`, which are separated by '|'. */
#define ITER_ROW_CHOICE(name, help, type, member, words) \
    ITER_ROW_CHOICE_AT(name, help, type, member, words, 0)
/** The same; the option may also be given without its name. */
#define ITER_ROW_CHOICE_AT(name, help, type, member, words, place) \
    { name, help, ITER_OPTION_CHOICE, offsetof(type, member), 0, 0, words, place }
/** const char *. */
#define ITER_ROW_STRING(name, help, type, member, place) \
    { name, help, ITER_OPTION_STRING, offsetof(type, member), 0, 0, NULL, place }
/** const char *; also takes all arguments that have an integer as name: `name:3=10,7=2` sets it to
 * "3=10 7=2". One row of a table may be so. */
#define ITER_ROW_NUMBERED(name, help, type, member, place) \
    { name, help, ITER_OPTION_STRING, offsetof(type, member), 0, 0, "#", place }
/** iter_option_list; min and max bound every number. */
#define ITER_ROW_LIST(name, help, type, member, min, max, place) \
    { name, help, ITER_OPTION_LIST, offsetof(type, member), min, max, NULL, place }
/** int32_t, an iter_dtype. */
#define ITER_ROW_DTYPE(name, help, type, member, place) \
    { name, help, ITER_OPTION_DTYPE, offsetof(type, member), 0, 0, NULL, place }
/** Ends the rows. */
#define ITER_ROW_END \
    { NULL, NULL, ITER_OPTION_BOOL, 0, 0, 0, NULL, 0 }

#endif

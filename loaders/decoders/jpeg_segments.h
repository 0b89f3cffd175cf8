/*
 * jpeg_segments.h - cuts a smaller JPEG out of one with restart markers, without decoding it.
 *
 * A restart marker (ITU-T T.81, F.1.1.5) ends a segment of entropy-coded data: its bits begin at a
 * byte, and no DC value is predicted from the segment before. So the segments of a window of MCUs,
 * one after the other, are the JPEG of that window. A decoder of Huffman codes cannot jump; this is
 * the only way past what lies above, left and right of a part.
 *
 * The file needs nothing else: markers are found by their bytes, which occur nowhere else in the
 * data, at the speed of memchr().
 */
#ifndef ITER_LOADERS_DECODERS_JPEG_SEGMENTS_H
#define ITER_LOADERS_DECODERS_JPEG_SEGMENTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <iter/ops.h>

/* A picture of one scan, with Huffman codes, sequential, with all its components. */
typedef struct iter__jpeg_grid {
    int64_t height, width;         /* in pixels, as are those of an MCU */
    int64_t mcu_height, mcu_width; /* of one component that is not interleaved: 8, 8 */
    int64_t interval;              /* MCUs between restart markers; 0 = there are none */
} iter__jpeg_grid;

/* The smallest window of whole segments that holds the part and one more MCU on each side, in
 * pixels. False = it does not spare any segment above, left or right of the part. */
bool iter__jpeg_window(const iter__jpeg_grid *grid, const iter_rect *part, iter_rect *out);

/*
 * Writes the JPEG of a window that iter__jpeg_window() gave. Application segments are left out,
 * except those that say how colours are stored, and comments.
 *
 *   out      [size + 2]
 *
 * Returns    its bytes; 0 = the markers are not in order, or the data end before the window's.
 */
size_t iter__jpeg_cut(const iter__jpeg_grid *grid, const iter_rect *window, const uint8_t *bytes,
                      size_t size, uint8_t *out);

#endif

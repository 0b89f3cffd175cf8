/* pack_encode.h - encodes pixels as JPEG or PNG. */
#ifndef PACK_ENCODE_H
#define PACK_ENCODE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* u8 [height, width, channels] "HWC", dense; 1 or 3 channels. */
typedef struct pack_pixels {
    const uint8_t *data;
    uint32_t height, width;
    int channels;
} pack_pixels;

/* Whether this build can. */
bool pack_encode_has_jpeg(void);
bool pack_encode_has_png(void);

/* Encode into *out, which comes from malloc() or is NULL, and grows. If they fail, they return
 * false with the reason. */
bool pack_encode_jpeg(const pack_pixels *pixels, int quality, uint8_t **out, size_t *capacity,
                      size_t *out_n, char *reason, size_t reason_capacity);
bool pack_encode_png(const pack_pixels *pixels, uint8_t **out, size_t *capacity, size_t *out_n,
                     char *reason, size_t reason_capacity);

struct jpeg_decompress_struct;
struct jvirt_barray_control;
/* The same for coefficients that `from` has read, with a restart marker after each `interval` MCUs,
 * and with the application segments and comments if wanted. Only in a build with libjpeg-turbo. */
bool pack_encode_blocks(struct jpeg_decompress_struct *from, struct jvirt_barray_control **blocks,
                        unsigned interval, bool with_markers, uint8_t **out, size_t *capacity,
                        size_t *out_n);

#endif

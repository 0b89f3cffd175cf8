/*
 * pack_seekable.c - see pack_seekable.h.
 *
 * As jpegtran does it: libjpeg reads the coefficients and writes them, without a transform between.
 * The markers cost 4 to 5 bytes a segment, and Huffman tables made for the picture save more than
 * that in most files.
 *
 * A damaged file is not made anew: libjpeg fills what is missing with zeros, and the copy would not
 * tell that.
 */
#include "tools/iterpack/pack_seekable.h"

#define SEGMENT_LEAST 128 /* bytes */

unsigned pack_seekable_interval(unsigned n_across, unsigned n_down, size_t bytes) {
    const size_t most = bytes / n_down / SEGMENT_LEAST; /* segments a row */
    for (unsigned interval = 1; interval < n_across; interval++)
        if (n_across % interval == 0 && n_across / interval <= most) return interval;
    return n_across;
}

bool pack_seekable_is(const uint8_t *bytes, size_t n) {
    bool sequential = false, restarts = false;
    for (size_t at = 2; n >= 6 && at <= n - 6 && bytes[at] == 0xff;) {
        const uint8_t marker = bytes[at + 1];
        if (marker == 0xc0 || marker == 0xc1) sequential = true;                 /* SOF */
        if (marker == 0xdd) restarts = bytes[at + 4] != 0 || bytes[at + 5] != 0; /* DRI */
        if (marker == 0xda) return sequential && restarts;                       /* SOS */
        at += 2 + ((size_t)bytes[at + 2] << 8 | bytes[at + 3]);
    }
    return false;
}

#ifdef ITER_HAVE_JPEG

#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jpeglib.h>

#include "tools/iterpack/pack_encode.h"

typedef struct copier {
    struct jpeg_decompress_struct from, check;
    struct jpeg_error_mgr error;
    jmp_buf fail;
} copier;

static _Noreturn void on_error(j_common_ptr common) {
    copier *c = common->client_data;
    longjmp(c->fail, 1);
}

/* A warning: the data are damaged. */
static void on_message(j_common_ptr common, int level) {
    if (level < 0) on_error(common);
}

static void open_copier(copier *c) {
    memset(c, 0, sizeof(*c));
    c->from.err = c->check.err = jpeg_std_error(&c->error);
    c->from.client_data = c->check.client_data = c;
    c->error.error_exit = on_error;
    c->error.emit_message = on_message;
}

static jvirt_barray_ptr *read_blocks(j_decompress_ptr jpeg, const uint8_t *bytes, size_t n) {
    jpeg_create_decompress(jpeg);
    jpeg_mem_src(jpeg, (unsigned char *)(uintptr_t)bytes, (unsigned long)n);
    jpeg_save_markers(jpeg, JPEG_COM, 0xffff);
    for (int i = 0; i < 16; i++)
        jpeg_save_markers(jpeg, JPEG_APP0 + i, 0xffff);
    jpeg_read_header(jpeg, TRUE);
    return jpeg_read_coefficients(jpeg);
}

static bool same_table(const JQUANT_TBL *a, const JQUANT_TBL *b) {
    return a && b && memcmp(a->quantval, b->quantval, sizeof(a->quantval)) == 0;
}

/* Whether two pictures have the same blocks, at the same places. */
static bool same_blocks(j_decompress_ptr a, jvirt_barray_ptr *of_a, j_decompress_ptr b,
                        jvirt_barray_ptr *of_b) {
    if (a->image_height != b->image_height || a->image_width != b->image_width ||
        a->num_components != b->num_components || a->jpeg_color_space != b->jpeg_color_space)
        return false;
    for (int i = 0; i < a->num_components; i++) {
        const jpeg_component_info *x = &a->comp_info[i], *y = &b->comp_info[i];
        if (x->component_id != y->component_id || x->h_samp_factor != y->h_samp_factor ||
            x->v_samp_factor != y->v_samp_factor || x->width_in_blocks != y->width_in_blocks ||
            x->height_in_blocks != y->height_in_blocks ||
            !same_table(a->quant_tbl_ptrs[x->quant_tbl_no], b->quant_tbl_ptrs[y->quant_tbl_no]))
            return false;
        for (JDIMENSION row = 0; row < x->height_in_blocks; row++) {
            JBLOCKARRAY p = a->mem->access_virt_barray((j_common_ptr)a, of_a[i], row, 1, FALSE);
            JBLOCKARRAY q = b->mem->access_virt_barray((j_common_ptr)b, of_b[i], row, 1, FALSE);
            if (memcmp(p[0], q[0], x->width_in_blocks * sizeof(JBLOCK)) != 0) return false;
        }
    }
    return true;
}

static bool is_suitable(const struct jpeg_decompress_struct *jpeg, bool progressive) {
    return !jpeg->arith_code && (progressive || (!jpeg->progressive_mode &&
                                                 jpeg->comps_in_scan == jpeg->num_components));
}

static unsigned interval_of(const struct jpeg_decompress_struct *jpeg, size_t bytes) {
    const bool single = jpeg->num_components == 1; /* an MCU is one block */
    const unsigned width = DCTSIZE * (single ? 1 : (unsigned)jpeg->max_h_samp_factor),
                   height = DCTSIZE * (single ? 1 : (unsigned)jpeg->max_v_samp_factor);
    return pack_seekable_interval((jpeg->image_width + width - 1) / width,
                                  (jpeg->image_height + height - 1) / height, bytes);
}

static bool copy(copier *c, const uint8_t *bytes, size_t n, bool progressive, uint8_t **out,
                 size_t *capacity, size_t *out_n) {
    if (setjmp(c->fail)) return false;
    jvirt_barray_ptr *blocks = read_blocks(&c->from, bytes, n);
    if (!is_suitable(&c->from, progressive)) return false;
    if (!pack_encode_blocks(&c->from, blocks, interval_of(&c->from, n), out, capacity, out_n))
        return false;
    return same_blocks(&c->from, blocks, &c->check, read_blocks(&c->check, *out, *out_n));
}

bool pack_seekable_write(const uint8_t *bytes, size_t n, bool progressive, uint8_t **out,
                         size_t *capacity, size_t *out_n) {
    copier c;
    open_copier(&c);
    const bool good = n > 2 && bytes[0] == 0xff && bytes[1] == 0xd8 &&
                      copy(&c, bytes, n, progressive, out, capacity, out_n);
    jpeg_destroy_decompress(&c.from); /* both may be called when nothing was created */
    jpeg_destroy_decompress(&c.check);
    return good;
}

#else

bool pack_seekable_write(const uint8_t *bytes, size_t n, bool progressive, uint8_t **out,
                         size_t *capacity, size_t *out_n) {
    (void)bytes, (void)n, (void)progressive, (void)out, (void)capacity, (void)out_n;
    return false;
}

#endif

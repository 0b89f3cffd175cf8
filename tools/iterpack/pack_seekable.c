/*
 * pack_seekable.c - see pack_seekable.h.
 *
 * As jpegtran does it: libjpeg reads the coefficients and writes them, without a transform between.
 * The markers cost 4 to 5 bytes a segment, and Huffman tables made for the picture save more than
 * that in most files.
 *
 * A damaged file is not made anew: libjpeg fills what is missing with zeros, and the result would
 * not tell that.
 *
 * Copies for smaller pictures are made from the same coefficients, the one for 4 first, as the one
 * for 8 needs no others.
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

#include "loaders/files/jpeg_copies.h"
#include "tools/iterpack/pack_encode.h"

/* What a component's block of 8 x 8 becomes, for either of the interfaces of libjpeg-turbo. */
#if JPEG_LIB_VERSION >= 70
#define BLOCK_SIZE(component) ((component)->DCT_h_scaled_size)
#else
#define BLOCK_SIZE(component) ((component)->DCT_scaled_size)
#endif

/* A JPEG that grows; bytes from malloc(). */
typedef struct grown {
    uint8_t *bytes;
    size_t capacity, n;
} grown;

typedef struct copier {
    struct jpeg_decompress_struct from, check;
    jvirt_barray_ptr *blocks;                       /* of `from` */
    int at_4[MAX_COMPONENTS], at_8[MAX_COMPONENTS]; /* BLOCK_SIZE() if 4 or 8 times smaller */
    struct jpeg_error_mgr error;
    jmp_buf fail;
    grown whole, copy;
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

static void read_head(j_decompress_ptr jpeg, const uint8_t *bytes, size_t n) {
    jpeg_create_decompress(jpeg);
    jpeg_mem_src(jpeg, (unsigned char *)(uintptr_t)bytes, (unsigned long)n);
    jpeg_save_markers(jpeg, JPEG_COM, 0xffff);
    for (int i = 0; i < 16; i++)
        jpeg_save_markers(jpeg, JPEG_APP0 + i, 0xffff);
    jpeg_read_header(jpeg, TRUE);
}

static void read_sizes(j_decompress_ptr jpeg, unsigned scale, int *sizes) {
    jpeg->scale_denom = scale;
    jpeg_calc_output_dimensions(jpeg);
    for (int i = 0; i < jpeg->num_components; i++)
        sizes[i] = BLOCK_SIZE(&jpeg->comp_info[i]);
}

static void read_from(copier *c, const uint8_t *bytes, size_t n) {
    int whole[MAX_COMPONENTS];
    read_head(&c->from, bytes, n);
    c->from.scale_num = 1;
    read_sizes(&c->from, 4, c->at_4);
    read_sizes(&c->from, 8, c->at_8);
    read_sizes(&c->from, 1, whole);
    c->blocks = jpeg_read_coefficients(&c->from);
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

/* Writes the blocks, with segments as for a JPEG of n bytes. */
static bool write_blocks(copier *c, size_t n, bool with_markers, grown *out) {
    return pack_encode_blocks(&c->from, c->blocks, interval_of(&c->from, n), with_markers,
                              &out->bytes, &out->capacity, &out->n);
}

/* The same, and reads them back. */
static bool write_checked(copier *c, size_t n, bool with_markers, grown *out) {
    if (!write_blocks(c, n, with_markers, out)) return false;
    jpeg_destroy_decompress(&c->check); /* may be called when nothing was created */
    read_head(&c->check, out->bytes, out->n);
    return same_blocks(&c->from, c->blocks, &c->check, jpeg_read_coefficients(&c->check));
}

static void drop_coefficients(copier *c, const int *sizes) {
    j_decompress_ptr jpeg = &c->from;
    for (int i = 0; i < jpeg->num_components; i++) {
        bool stays[DCTSIZE2];
        for (int k = 0; k < DCTSIZE2; k++)
            stays[k] = iter__jpeg_copy_has(sizes[i], k / DCTSIZE, k % DCTSIZE);
        for (JDIMENSION row = 0; row < jpeg->comp_info[i].height_in_blocks; row++) {
            JBLOCKARRAY at =
                jpeg->mem->access_virt_barray((j_common_ptr)jpeg, c->blocks[i], row, 1, TRUE);
            for (JDIMENSION x = 0; x < jpeg->comp_info[i].width_in_blocks; x++)
                for (int k = 0; k < DCTSIZE2; k++)
                    at[0][x][k] = stays[k] ? at[0][x][k] : 0;
        }
    }
}

static bool append(grown *out, const void *bytes, size_t n) {
    if (n > out->capacity - out->n) {
        uint8_t *more = realloc(out->bytes, out->n + n);
        if (!more) return false;
        out->bytes = more;
        out->capacity = out->n + n;
    }
    memcpy(out->bytes + out->n, bytes, n);
    out->n += n;
    return true;
}

/* Adds a copy. It is written twice: its size, with a segment for each row, decides how many there
 * are. */
static bool add_copy(copier *c, int64_t scale, const int *sizes) {
    uint8_t footer[ITER__JPEG_COPY_FOOTER];
    drop_coefficients(c, sizes);
    if (!write_blocks(c, 0, false, &c->copy) || !write_checked(c, c->copy.n, false, &c->copy))
        return false;
    iter__jpeg_copy_end(footer, scale, c->copy.n);
    return append(&c->whole, c->copy.bytes, c->copy.n) && append(&c->whole, footer, sizeof(footer));
}

static bool copy(copier *c, const pack_seekable_options *o, const uint8_t *bytes, size_t n) {
    if (setjmp(c->fail)) return false;
    read_from(c, bytes, n);
    return is_suitable(&c->from, o->progressive) && write_checked(c, n, true, &c->whole) &&
           (!o->for_4 || add_copy(c, 4, c->at_4)) && (!o->for_8 || add_copy(c, 8, c->at_8));
}

bool pack_seekable_write(const pack_seekable_options *options, const uint8_t *bytes, size_t n,
                         uint8_t **out, size_t *capacity, size_t *out_n) {
    copier c;
    open_copier(&c);
    c.whole = (grown){.bytes = *out, .capacity = *capacity};
    const bool good = n > 2 && bytes[0] == 0xff && bytes[1] == 0xd8 && copy(&c, options, bytes, n);
    jpeg_destroy_decompress(&c.from); /* both may be called when nothing was created */
    jpeg_destroy_decompress(&c.check);
    free(c.copy.bytes);
    *out = c.whole.bytes;
    *capacity = c.whole.capacity;
    *out_n = c.whole.n;
    return good;
}

#else

bool pack_seekable_write(const pack_seekable_options *options, const uint8_t *bytes, size_t n,
                         uint8_t **out, size_t *capacity, size_t *out_n) {
    (void)options, (void)bytes, (void)n, (void)out, (void)capacity, (void)out_n;
    return false;
}

#endif

/*
 * decode_jpeg.c - JPEG (ITU-T T.81) to pixels through libjpeg-turbo's jpeg_* interface, which alone
 * can decode a part of a picture: jpeg_crop_scanline() saves the inverse DCT and the colour
 * conversion of columns outside, jpeg_skip_scanlines() those of rows above, and rows below are
 * never read.
 *
 * If the file has restart markers, a smaller picture around the part is decoded instead
 * (jpeg_segments.h), with the same bits. If it has a copy of the coefficients that a smaller result
 * needs, that is decoded instead (jpeg_copies.h), with the same bits, too.
 *
 * A part has the same bits as a cut from the whole picture. Upsampling of chroma looks at
 * neighbouring pixels, and at the edge of a part they would be missing. So one more MCU is decoded
 * on each side and dropped. If scans of a progressive picture are missing, libjpeg smooths between
 * blocks, which looks further; that is switched off.
 *
 * A worker reuses one decompress object; no state may leak from one picture to the next. So tables
 * that an earlier file defined are overwritten before each picture: Huffman tables with the
 * standard ones, which a file without tables means (frames of motion JPEG), and quantisation tables
 * with zeros, which no file may use.
 *
 * If the data end early, the picture fails, unless the options accept it. After the last byte
 * libjpeg gets an EOI marker. If it needs more bits, it warns (JWRN_HIT_MARKER) and continues in
 * gray; hitting the end during look-ahead is not an error. Pillow does the same under
 * LOAD_TRUNCATED_IMAGES, so the pixels are equal. If a progressive picture lacks scans, libjpeg
 * smooths the edges of blocks, from pixels far around; such a picture is decoded whole, and parts
 * are cut from it. If the end comes within a marker segment, the picture fails in any case. So does
 * every arithmetically coded one, because libjpeg invents noise for its missing bits.
 *
 * CMYK pictures come from Adobe's programs, which store them inverted; so all are read that way (as
 * Pillow does). Red is C * K / 255 in stored values.
 */
#include "loaders/decoders/image.h"

#include "iter/core/error.h"

#ifdef ITER_HAVE_JPEG

#include <setjmp.h>
#include <stdio.h>
#include <string.h>

#include <jpeglib.h>

#include <jerror.h> /* after jpeglib.h, whose interface (6.2 or 8) decides the messages' numbers */

#include "iter/core/arith.h"
#include "loaders/decoders/jpeg_memory.h"
#include "loaders/decoders/jpeg_segments.h"
#include "loaders/files/jpeg_copies.h"

#define MARKER_EXIF       (JPEG_APP0 + 1)
#define ROWS_AT_ONCE      4 /* the most that libjpeg makes at a time */
#define ROW_ALIGN         32
#define ROW_STRIDE(bytes) (((bytes) + 2 * ROW_ALIGN - 1) & ~(size_t)(ROW_ALIGN - 1))
#define SCALE_MAX         8
/* Columns of a decoded block, for either of the interfaces that libjpeg-turbo is built with. */
#if JPEG_LIB_VERSION >= 70
#define BLOCK_WIDTH(jpeg) ((jpeg)->min_DCT_h_scaled_size)
#else
#define BLOCK_WIDTH(jpeg) ((jpeg)->min_DCT_scaled_size)
#endif
#define HUFFMAN_NONE 255 /* as a count of codes: such a table is refused */

typedef struct jpeg_state {
    iter__jpeg_memory memory; /* first: libjpeg's memory manager finds it there */
    struct jpeg_decompress_struct jpeg;
    struct jpeg_error_mgr error;
    struct jpeg_source_mgr source;
    struct jpeg_progress_mgr progress;
    jmp_buf fail;
    iter_status status;
    char text[JMSG_LENGTH_MAX]; /* why it failed, or the first warning */
    const iter_image_options *options;
    const uint8_t *bytes;
    size_t size;
    bool is_read;  /* the header of `bytes` has been read, and nothing after it */
    bool in_scans; /* the header has been read */
    bool ended;    /* the last byte has been read */
    bool is_copy;  /* `bytes` are a copy within the file */
    int64_t n_warnings;
    int32_t orientation;
    /* [ROWS_AT_ONCE] as wide as the decoded columns; from the picture's memory */
    uint8_t *rows;
    struct jpeg_compress_struct writer; /* used once, to get the standard tables */
    JHUFF_TBL standard_dc[2], standard_ac[2];
} jpeg_state;

/* The part in stored and scaled coordinates, and the columns to decode for it. */
typedef struct stored_part {
    iter_rect part;
    int64_t first_x, n_x; /* columns to decode */
    bool whole;           /* decode the whole picture, whatever the part */
} stored_part;

/* ---- What libjpeg calls ---------------------------------------------------------------------- */

static _Noreturn void fail_now(jpeg_state *s, iter_status status) {
    s->status = status;
    longjmp(s->fail, 1);
}

static void say_early(jpeg_state *s) {
    snprintf(s->text, sizeof(s->text), "the data end early, after %zu bytes", s->size);
}

static _Noreturn void fail_early(jpeg_state *s) {
    say_early(s);
    fail_now(s, ITER_EFORMAT);
}

static void on_no_memory(j_common_ptr common, const iter_error *error) {
    jpeg_state *s = common->client_data;
    snprintf(s->text, sizeof(s->text), "%.*s", (int)sizeof(s->text) - 1, error->message);
    fail_now(s, error->status);
}

static bool accepts_ends(const jpeg_state *s) {
    return s->options->truncated == ITER_TRUNCATED_ACCEPT;
}

static void on_error(j_common_ptr common) {
    jpeg_state *s = common->client_data;
    const bool no_memory = common->err->msg_code == JERR_OUT_OF_MEMORY;
    common->err->format_message(common, s->text);
    if (s->ended && accepts_ends(s) && !no_memory) say_early(s); /* libjpeg took the EOI for data */
    fail_now(s, no_memory ? ITER_ENOMEM : ITER_EFORMAT);
}

/* Counts a warning; if it is the first one, s->text already has its text. */
static void warned(jpeg_state *s) {
    s->n_warnings++;
    if (s->options->on_warning == ITER_WARNING_REJECT) fail_now(s, ITER_EFORMAT);
}

/* The picture needs bits that are missing. */
static void lacks_bits(jpeg_state *s) {
    if (!accepts_ends(s)) fail_early(s);
    if (s->n_warnings == 0) say_early(s);
    warned(s);
}

static void on_message(j_common_ptr common, int level) {
    jpeg_state *s = common->client_data;
    if (level >= 0) return; /* traces */
    if (s->ended && (common->err->msg_code == JWRN_HIT_MARKER || accepts_ends(s))) {
        lacks_bits(s);
        return;
    }
    if (s->n_warnings == 0) common->err->format_message(common, s->text);
    warned(s);
}

static void on_output(j_common_ptr common) {
    (void)common;
}

static void on_progress(j_common_ptr common) {
    jpeg_state *s = common->client_data;
    if (s->jpeg.input_scan_number <= s->options->max_scans) return;
    snprintf(s->text, sizeof(s->text), "more scans than max-scans=%lld",
             (long long)s->options->max_scans);
    fail_now(s, ITER_EFORMAT);
}

static void source_nothing(j_decompress_ptr jpeg) {
    (void)jpeg;
}

/* The data have ended. A picture in several scans may lack some of them, and nothing tells whether
 * it is complete. An arithmetic decoder reads zeros after the end without a warning. */
static boolean source_ended(j_decompress_ptr jpeg) {
    static const JOCTET end[2] = {0xff, JPEG_EOI};
    jpeg_state *s = jpeg->client_data;
    /* s->ended: in a marker segment */
    if (!s->in_scans || s->ended || jpeg->arith_code) fail_early(s);
    if (jpeg_has_multiple_scans(jpeg)) lacks_bits(s);
    s->ended = true;
    s->source.next_input_byte = end;
    s->source.bytes_in_buffer = sizeof(end);
    return TRUE;
}

static void source_skip(j_decompress_ptr jpeg, long n) {
    jpeg_state *s = jpeg->client_data;
    if (n <= 0) return;
    if (s->ended || (size_t)n > s->source.bytes_in_buffer) fail_early(s);
    s->source.next_input_byte += n;
    s->source.bytes_in_buffer -= (size_t)n;
}

/* An APP1 segment, which may be EXIF. */
static boolean read_exif(j_decompress_ptr jpeg) {
    jpeg_state *s = jpeg->client_data;
    const JOCTET *at = s->source.next_input_byte;
    if (s->source.bytes_in_buffer < 2) fail_early(s);
    const size_t length = (size_t)at[0] << 8 | at[1];
    if (length < 2) {
        snprintf(s->text, sizeof(s->text), "a segment of %zu bytes", length);
        fail_now(s, ITER_EFORMAT);
    }
    if (length > s->source.bytes_in_buffer) fail_early(s);
    if (s->orientation == 0 && length >= 8 && memcmp(at + 2, "Exif\0\0", 6) == 0)
        s->orientation = iter__exif_orientation(at + 8, length - 8);
    s->source.next_input_byte += length;
    s->source.bytes_in_buffer -= length;
    return TRUE;
}

/* ---- Tables that no earlier file may leave behind -------------------------------------------- */

/* A file without tables means the tables that jpeg_set_defaults() gives a writer. */
static void keep_standard_tables(jpeg_state *s) {
    struct jpeg_compress_struct *writer = &s->writer;
    writer->err = &s->error;
    writer->client_data = s;
    jpeg_create_compress(writer);
    writer->in_color_space = JCS_RGB;
    writer->input_components = 3;
    jpeg_set_defaults(writer);
    for (int i = 0; i < 2; i++) {
        s->standard_dc[i] = *writer->dc_huff_tbl_ptrs[i];
        s->standard_ac[i] = *writer->ac_huff_tbl_ptrs[i];
    }
    jpeg_destroy_compress(writer);
}

static void alloc_tables(jpeg_state *s) {
    j_common_ptr common = (j_common_ptr)&s->jpeg;
    for (int i = 0; i < NUM_HUFF_TBLS; i++) {
        s->jpeg.dc_huff_tbl_ptrs[i] = jpeg_alloc_huff_table(common);
        s->jpeg.ac_huff_tbl_ptrs[i] = jpeg_alloc_huff_table(common);
    }
    for (int i = 0; i < NUM_QUANT_TBLS; i++)
        s->jpeg.quant_tbl_ptrs[i] = jpeg_alloc_quant_table(common);
}

static void forget_tables(jpeg_state *s) {
    for (int i = 0; i < 2; i++) {
        *s->jpeg.dc_huff_tbl_ptrs[i] = s->standard_dc[i];
        *s->jpeg.ac_huff_tbl_ptrs[i] = s->standard_ac[i];
    }
    for (int i = 2; i < NUM_HUFF_TBLS; i++) {
        memset(s->jpeg.dc_huff_tbl_ptrs[i]->bits, HUFFMAN_NONE, 17);
        memset(s->jpeg.ac_huff_tbl_ptrs[i]->bits, HUFFMAN_NONE, 17);
    }
    for (int i = 0; i < NUM_QUANT_TBLS; i++)
        memset(s->jpeg.quant_tbl_ptrs[i]->quantval, 0, sizeof(s->jpeg.quant_tbl_ptrs[i]->quantval));
}

/* Fails if a component was decoded with a table that the file does not define. */
static void check_tables(jpeg_state *s) {
    for (int i = 0; i < s->jpeg.num_components; i++) {
        const JQUANT_TBL *table = s->jpeg.comp_info[i].quant_table;
        if (!table || table->quantval[0]) continue;
        snprintf(s->text, sizeof(s->text), "component %d has no quantization table", i);
        fail_now(s, ITER_EFORMAT);
    }
}

/* ---- Header ---------------------------------------------------------------------------------- */

static void read_tables(jpeg_state *s, const uint8_t *bytes, size_t size) {
    if (s->is_read) jpeg_abort_decompress(&s->jpeg);
    s->bytes = bytes;
    s->size = size;
    s->is_read = s->in_scans = s->ended = false;
    s->n_warnings = 0;
    s->text[0] = 0;
    forget_tables(s);
    s->source.next_input_byte = bytes;
    s->source.bytes_in_buffer = size;
    jpeg_read_header(&s->jpeg, TRUE);
    s->in_scans = true;
}

static void read_header(jpeg_state *s, const uint8_t *bytes, size_t size) {
    s->orientation = 0;
    s->is_copy = false;
    read_tables(s, bytes, size);
    if (!s->options->orient || s->orientation == 0) s->orientation = 1;
    iter_error error;
    const iter_status status =
        iter__image_check_size(s->options, s->jpeg.image_height, s->jpeg.image_width,
                               jpeg_has_multiple_scans(&s->jpeg), &error);
    s->is_read = status == ITER_OK;
    if (s->is_read) return;
    snprintf(s->text, sizeof(s->text), "%.*s", (int)sizeof(s->text) - 1, error.message);
    fail_now(s, status);
}

static const char *where(const jpeg_state *s) {
    return s->is_copy ? "in its copy for smaller sizes: " : "";
}

static iter_status failed(jpeg_state *s, iter_error *err) {
    jpeg_abort_decompress(&s->jpeg);
    s->is_read = false;
    return iter__fail(err, s->status, "%s%s", where(s), s->text);
}

/* ---- Pixels ---------------------------------------------------------------------------------- */

/* The largest of 8, 4, 2, 1 by which the part may be scaled down; only these have fast
 * transforms. */
static int64_t scale_for(const iter_rect *part, int64_t min_height, int64_t min_width) {
    if (min_height <= 0 || min_width <= 0) return 1;
    int64_t scale = SCALE_MAX;
    while (scale > 1 && (part->height / scale < min_height || part->width / scale < min_width))
        scale /= 2;
    return scale;
}

/* Scales [at, at + n) down, to no less than n / scale. Both ends are rounded, so that neither is
 * more than half a scaled pixel off. `whole` is the length of the scaled picture. */
static void scale_range(int64_t *at, int64_t *n, int64_t scale, int64_t whole) {
    const int64_t end = iter__min_i64((*at + *n + scale / 2) / scale, whole);
    *at = iter__max_i64(iter__min_i64((*at + scale / 2) / scale, end - 1), 0);
    *n = end - *at;
}

/* Whether scans of a progressive picture are missing: libjpeg would smooth it. */
static bool lacks_scans(j_decompress_ptr jpeg) {
    for (int c = 0; jpeg->progressive_mode && c < jpeg->num_components; c++)
        for (int i = 0; i < DCTSIZE2; i++)
            if (jpeg->coef_bits[c][i] != 0) return true;
    return false;
}

/* The columns to decode for the part, with an MCU on either side for the upsampling of chroma. */
static void crop_columns(j_decompress_ptr jpeg, stored_part *p) {
    const int64_t block = (int64_t)BLOCK_WIDTH(jpeg) * jpeg->max_h_samp_factor;
    const int64_t from = iter__max_i64(p->part.x / block - 1, 0) * block;
    const int64_t to = iter__min_i64(p->part.x + p->part.width + block, jpeg->output_width);
    p->first_x = 0;
    p->n_x = jpeg->output_width;
    if (p->whole || to - from == p->n_x) return;
    JDIMENSION x = (JDIMENSION)from, n = (JDIMENSION)(to - from);
    jpeg_crop_scanline(jpeg, &x, &n);
    p->first_x = x;
    p->n_x = n;
}

/* If the file has a copy for this scale, continues with it. */
static void use_copy(jpeg_state *s, int64_t scale) {
    j_decompress_ptr jpeg = &s->jpeg;
    const uint8_t *bytes = s->bytes;
    const size_t size = s->size;
    size_t copy_size = 0;
    const uint8_t *copy = iter__jpeg_copy_find(bytes, size, scale, &copy_size);
    if (!copy) return;
    const JDIMENSION height = jpeg->image_height, width = jpeg->image_width;
    const int n_components = jpeg->num_components;
    const J_COLOR_SPACE colours = jpeg->jpeg_color_space;
    jpeg_abort_decompress(jpeg);
    s->is_copy = true;
    read_tables(s, copy, copy_size);
    if (jpeg->image_height == height && jpeg->image_width == width &&
        jpeg->num_components == n_components && jpeg->jpeg_color_space == colours &&
        !jpeg_has_multiple_scans(jpeg))
        return;
    snprintf(s->text, sizeof(s->text), "it is of another picture, of %u x %u pixels",
             jpeg->image_height, jpeg->image_width);
    fail_now(s, ITER_EFORMAT);
}

/* If the picture has restart markers, continues with a smaller one around the part. */
static void use_segments(jpeg_state *s, iter_rect *part) {
    j_decompress_ptr jpeg = &s->jpeg;
    const bool single = jpeg->num_components == 1;
    iter_rect window;
    if (jpeg->restart_interval == 0 || jpeg->progressive_mode || jpeg->arith_code ||
        jpeg->comps_in_scan != jpeg->num_components || (single && jpeg->max_v_samp_factor != 1) ||
        (single && jpeg->max_h_samp_factor != 1))
        return;
    const iter__jpeg_grid grid = {.height = jpeg->image_height,
                                  .width = jpeg->image_width,
                                  .mcu_height = (int64_t)DCTSIZE * jpeg->max_v_samp_factor,
                                  .mcu_width = (int64_t)DCTSIZE * jpeg->max_h_samp_factor,
                                  .interval = jpeg->restart_interval};
    const uint8_t *bytes = s->bytes;
    const size_t size = s->size, most = s->memory.codec.most;
    if (most > 0 && size > most / 2) return; /* leaves the memory to the decoder */
    if (!iter__jpeg_window(&grid, part, &window)) return;
    jpeg_abort_decompress(jpeg);
    s->is_read = false;
    uint8_t *cut = jpeg->mem->alloc_large((j_common_ptr)jpeg, JPOOL_IMAGE, size + 2);
    const size_t cut_bytes = iter__jpeg_cut(&grid, &window, bytes, size, cut);
    if (cut_bytes > 0) {
        part->y -= window.y;
        part->x -= window.x;
    }
    read_tables(s, cut_bytes > 0 ? cut : bytes, cut_bytes > 0 ? cut_bytes : size);
}

static void start(jpeg_state *s, const iter_image_wish *wish, stored_part *out) {
    j_decompress_ptr jpeg = &s->jpeg;
    const bool swaps = iter__orient_swaps(s->orientation);
    out->part =
        iter__orient_rect(s->orientation, &wish->part, jpeg->image_height, jpeg->image_width);
    const int64_t scale = scale_for(&out->part, swaps ? wish->min_width : wish->min_height,
                                    swaps ? wish->min_height : wish->min_width);
    use_copy(s, scale);
    use_segments(s, &out->part);
    jpeg->scale_num = 1;
    jpeg->scale_denom = (unsigned)scale;
    jpeg->do_block_smoothing = accepts_ends(s);
    if (jpeg->jpeg_color_space == JCS_CMYK || jpeg->jpeg_color_space == JCS_YCCK)
        jpeg->out_color_space = JCS_CMYK;
    else
        jpeg->out_color_space = s->options->channels == ITER_IMAGE_GRAY ? JCS_GRAYSCALE : JCS_RGB;
    jpeg_start_decompress(jpeg);
    out->whole = accepts_ends(s) && lacks_scans(jpeg);
    if (scale > 1) {
        scale_range(&out->part.y, &out->part.height, scale, jpeg->output_height);
        scale_range(&out->part.x, &out->part.width, scale, jpeg->output_width);
    }
    crop_columns(jpeg, out);
}

static uint8_t divide_255(uint32_t product) {
    const uint32_t t = product + 128;
    return (uint8_t)((t + (t >> 8)) >> 8);
}

/* In place: RGB and gray take less room. */
static void from_cmyk(uint8_t *row, int64_t n, int64_t channels) {
    uint8_t *to = row;
    for (int64_t x = 0; x < n; x++, row += 4, to += channels) {
        const uint8_t k = row[3];
        const uint8_t r = (uint8_t)(k - divide_255((uint32_t)(255 - row[0]) * k));
        const uint8_t g = (uint8_t)(k - divide_255((uint32_t)(255 - row[1]) * k));
        const uint8_t b = (uint8_t)(k - divide_255((uint32_t)(255 - row[2]) * k));
        if (channels == 1) {
            to[0] = iter__luma(r, g, b);
        } else {
            to[0] = r;
            to[1] = g;
            to[2] = b;
        }
    }
}

/* Memory for decoded rows. If a row is aligned, libjpeg-turbo's colour conversion writes it past
 * the caches, and the next reader waits for memory (a twentieth of the decode). So no row is
 * aligned. */
static size_t take_rows(jpeg_state *s, size_t row_bytes) {
    j_common_ptr jpeg = (j_common_ptr)&s->jpeg;
    const size_t stride = ROW_STRIDE(row_bytes);
    s->rows = jpeg->mem->alloc_large(jpeg, JPOOL_IMAGE, ROWS_AT_ONCE * stride);
    return stride;
}

/* Reads the next n rows; libjpeg may make fewer at a time. */
static void read_rows(jpeg_state *s, JSAMPARRAY rows, int64_t n) {
    for (int64_t got = 0; got < n;)
        got += jpeg_read_scanlines(&s->jpeg, rows + got, (JDIMENSION)(n - got));
}

/* Passes over the rows above the part. */
static void skip_rows(jpeg_state *s, const stored_part *p) {
    j_decompress_ptr jpeg = &s->jpeg;
    if (p->part.y == 0) return;
    if (!p->whole) {
        jpeg_skip_scanlines(jpeg, (JDIMENSION)p->part.y);
        return;
    }
    take_rows(s, (size_t)(p->n_x * jpeg->output_components));
    JSAMPROW row = s->rows;
    for (int64_t y = 0; y < p->part.y; y++)
        read_rows(s, &row, 1);
}

/* Passes rows to the consumer in groups that fit the L1 cache. */
static void hand_rows(jpeg_state *s, const stored_part *p, iter_image_rows *taker, size_t reach) {
    j_decompress_ptr jpeg = &s->jpeg;
    const int64_t from = jpeg->output_components, before = (p->part.x - p->first_x) * from;
    const bool cmyk = jpeg->out_color_space == JCS_CMYK;
    const size_t decoded = (size_t)(p->n_x * from), read = (size_t)before + reach;
    const size_t row_bytes = iter__max_size(decoded, read), stride = take_rows(s, row_bytes);
    JSAMPROW rows[ROWS_AT_ONCE];
    const uint8_t *at[ROWS_AT_ONCE];
    for (int i = 0; i < ROWS_AT_ONCE; i++) {
        rows[i] = s->rows + (size_t)i * stride + ROW_ALIGN / 2;
        memset(rows[i] + decoded, 0, row_bytes - decoded);
        at[i] = rows[i] + before;
    }
    for (int64_t y = 0; y < p->part.height;) {
        const int64_t n = iter__min_i64(p->part.height - y, ROWS_AT_ONCE);
        read_rows(s, rows, n);
        for (int64_t i = 0; cmyk && i < n; i++)
            from_cmyk(rows[i] + before, p->part.width, iter__image_channels(s->options));
        taker->put(taker, at, (int32_t)n);
        y += n;
    }
}

/* The memory to decode row y of the part into: its place in `out`, or the i-th of our own rows. */
static JSAMPROW place_row(jpeg_state *s, uint8_t *out, size_t row_bytes, int64_t y, int64_t i) {
    uint8_t *there = out ? out + (size_t)y * row_bytes : NULL;
    if (there && (uintptr_t)there % ROW_ALIGN) return there;
    return s->rows + (size_t)i * ROW_STRIDE(row_bytes) + ROW_ALIGN / 2;
}

static void store_rows(jpeg_state *s, const stored_part *p, uint8_t *out) {
    const iter_rect *part = &p->part;
    const int64_t channels = iter__image_channels(s->options), from = s->jpeg.output_components;
    const bool cmyk = s->jpeg.out_color_space == JCS_CMYK;
    const bool straight = s->orientation == 1 && !cmyk && p->n_x == part->width;
    const size_t row_bytes = (size_t)(p->n_x * from);
    take_rows(s, row_bytes);
    for (int64_t y = 0; y < part->height;) {
        JSAMPROW rows[ROWS_AT_ONCE];
        const int64_t n = iter__min_i64(part->height - y, ROWS_AT_ONCE);
        for (int64_t i = 0; i < n; i++)
            rows[i] = place_row(s, straight ? out : NULL, row_bytes, y + i, i);
        read_rows(s, rows, n);
        for (int64_t i = 0; i < n; i++) {
            if (straight && rows[i] == out + (size_t)(y + i) * row_bytes) continue;
            uint8_t *row = rows[i] + (part->x - p->first_x) * from;
            if (cmyk) from_cmyk(row, part->width, channels);
            iter__orient_row(s->orientation, part->height, part->width, channels, y + i, row, out);
        }
        y += n;
    }
}

static void read_part(jpeg_state *s, const iter_image_wish *wish, iter_tensor *out) {
    stored_part p;
    start(s, wish, &p);
    const bool swaps = iter__orient_swaps(s->orientation);
    out->desc.dims[0] = swaps ? p.part.width : p.part.height;
    out->desc.dims[1] = swaps ? p.part.height : p.part.width;
    const size_t reach =
        wish->rows && s->orientation == 1 ? wish->rows->begin(wish->rows, &out->desc) : 0;
    skip_rows(s, &p);
    if (reach)
        hand_rows(s, &p, wish->rows, reach);
    else
        store_rows(s, &p, out->data);
    check_tables(s);
    jpeg_abort_decompress(&s->jpeg);
}

/* ---- callbacks ------------------------------------------------------------------------------- */

static void jpeg_stop(void *state) {
    jpeg_state *s = state;
    jpeg_destroy_compress(&s->writer); /* both may be called when nothing was created */
    jpeg_destroy_decompress(&s->jpeg);
    iter__codec_free(&s->memory.codec);
}

static iter_status jpeg_start(void *state, const void *shared, iter_error *err) {
    jpeg_state *s = state;
    s->options = shared;
    s->jpeg.err = jpeg_std_error(&s->error);
    s->jpeg.client_data = s;
    s->error.error_exit = on_error;
    s->error.emit_message = on_message;
    s->error.output_message = on_output;
    if (setjmp(s->fail)) {
        jpeg_stop(s);
        return iter__fail(err, s->status, "%s", s->text);
    }
    keep_standard_tables(s);
    jpeg_create_decompress(&s->jpeg);
    alloc_tables(s);
    s->memory.fail = on_no_memory;
    iter__jpeg_memory_use(&s->memory, &s->jpeg);
    s->source = (struct jpeg_source_mgr){.init_source = source_nothing,
                                         .fill_input_buffer = source_ended,
                                         .skip_input_data = source_skip,
                                         .resync_to_restart = jpeg_resync_to_restart,
                                         .term_source = source_nothing};
    s->jpeg.src = &s->source;
    s->progress.progress_monitor = on_progress;
    s->jpeg.progress = &s->progress;
    jpeg_set_marker_processor(&s->jpeg, MARKER_EXIF, read_exif);
    return ITER_OK;
}

static iter_status jpeg_header(void *state, const void *shared, const uint8_t *bytes, size_t size,
                               iter_desc *out, iter_error *err) {
    jpeg_state *s = state;
    (void)shared; /* the state has it */
    if (setjmp(s->fail)) return failed(s, err);
    read_header(s, bytes, size);
    const bool swaps = iter__orient_swaps(s->orientation);
    out->dims[0] = swaps ? s->jpeg.image_width : s->jpeg.image_height;
    out->dims[1] = swaps ? s->jpeg.image_height : s->jpeg.image_width;
    return ITER_OK;
}

static iter_status jpeg_decode(void *state, const void *shared, const uint8_t *bytes, size_t size,
                               const iter_image_wish *wish, iter_tensor *out, iter_error *err) {
    jpeg_state *s = state;
    (void)shared;
    if (setjmp(s->fail)) return failed(s, err);
    if (!s->is_read || s->bytes != bytes || s->size != size) read_header(s, bytes, size);
    s->is_read = false;
    const bool swaps = iter__orient_swaps(s->orientation);
    const iter_status status =
        iter__image_check_wish(wish, swaps ? s->jpeg.image_width : s->jpeg.image_height,
                               swaps ? s->jpeg.image_height : s->jpeg.image_width, err);
    if (status < 0) {
        jpeg_abort_decompress(&s->jpeg);
        return status;
    }
    read_part(s, wish, out);
    if (s->n_warnings && s->options->on_warning == ITER_WARNING_COUNT && err)
        snprintf(err->message, sizeof(err->message), "%s%s", where(s), s->text);
    return ITER_OK;
}

static void jpeg_limit(void *state, size_t bytes) {
    jpeg_state *s = state;
    s->memory.codec.most = bytes;
}

const iter_decoder_ops iter__decoder_jpeg = {
    .base = {.struct_size = sizeof(iter_decoder_ops),
             .name = "jpeg",
             .help = "JPEG to pixels, by libjpeg-turbo",
             .state_size = sizeof(jpeg_state)},
    .start = jpeg_start,
    .stop = jpeg_stop,
    .header = jpeg_header,
    .decode_image = jpeg_decode,
    .limit = jpeg_limit,
};

#else

ITER_ABSENT_CODEC(jpeg, "JPEG", "libjpeg-turbo (ITER_WITH_JPEG)")

#endif

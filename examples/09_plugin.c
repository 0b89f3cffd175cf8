/* 09_plugin.c - a format and a stage in a shared object, for every program that loads plugins:
 *
 *     cc -shared -fPIC 09_plugin.c $(pkg-config --cflags iter) -o floats.so
 *     iterbench --plugin floats.so --data "floats:numbers.bin?columns=4" --chain halve
 */
#include <iter/plugin.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

/* The format "floats": a file of f32 numbers and nothing else; `columns` of them are a sample. */
typedef struct floats_options {
    int64_t columns;
} floats_options;
static const floats_options one = {1};
static const iter_option rows[] = {
    ITER_ROW_INT("columns", "numbers a sample", floats_options, columns, 1, 65536, 0),
    ITER_ROW_END};
typedef struct floats_state {
    char path[4096]; /* the description borrows both until close() */
    iter_file file;
    uint64_t row_bytes;
} floats_state;
static iter_status open_floats(void *state, const char *path, const void *options,
                               iter_description *out, iter_error *err) {
    floats_state *f = state;
    const floats_options *o = options;
    struct stat info;
    f->row_bytes = (uint64_t)o->columns * sizeof(float);
    if (stat(path, &info) != 0 || (uint64_t)info.st_size % f->row_bytes != 0) {
        snprintf(err->message, sizeof(err->message), "%s: no file of whole samples", path);
        return err->status = ITER_EFORMAT;
    }
    snprintf(f->path, sizeof(f->path), "%s", path);
    f->file = (iter_file){.path = f->path, .bytes = (uint64_t)info.st_size};
    out->n_samples = out->identity = (uint64_t)info.st_size / f->row_bytes;
    const iter_desc row = {.dtype = ITER_F32, .n_dims = 1, .dims = {o->columns}};
    out->fields[0] = (iter_field){.name = "data", .desc = row};
    out->max_extent_bytes[0] = f->row_bytes;
    out->files = &f->file, out->n_files = out->n_fields = out->n_extents = 1;
    return ITER_OK;
}
static void close_floats(void *state) {
    (void)state;
}
static void locate(const void *state, uint64_t index, iter_extent *out) {
    const floats_state *f = state;
    *out = (iter_extent){0, index * f->row_bytes, f->row_bytes};
}
static const iter_format_ops floats = {{sizeof(floats), "floats", "a file of f32 numbers", rows,
                                        &one, sizeof(one), sizeof(floats_state)},
                                       .open = open_floats,
                                       .close = close_floats,
                                       .locate = locate};

/* The stage "halve": divides every f32 number by 2. A row of its input may have any address. */
static iter_status plan(const void *options, const iter_desc *in, iter_desc *out,
                        size_t *out_scratch, iter_error *err) {
    (void)options, *out = *in, *out_scratch = 0;
    if (in->dtype == ITER_F32) return ITER_OK;
    snprintf(err->message, sizeof(err->message), "expected f32; put to:f32 before it");
    return err->status = ITER_EINVAL;
}
static iter_status apply(void *state, const void *options, const iter_tensor *in, iter_tensor *out,
                         iter_rng *rng, void *scratch, iter_error *err) {
    (void)state, (void)options, (void)rng, (void)scratch, (void)err;
    float *to = memcpy(out->data, in->data, iter_desc_bytes(&in->desc));
    for (int64_t i = 0; i < iter_desc_elements(&in->desc); i++)
        to[i] /= 2;
    out->desc.dims[0] = in->desc.dims[0]; /* the length, if it varies from row to row */
    return ITER_OK;
}
static const iter_transform_ops halve = {
    {sizeof(halve), "halve", "halves every f32 number", 0, 0, 0, 0}, .plan = plan, .apply = apply};
ITER_PLUGIN
iter_status iter_plugin_register(iter_registry *registry, iter_error *err) {
    iter_status s = iter_registry_add_format(registry, &floats, err);
    return s == ITER_OK ? iter_registry_add_transform(registry, &halve, err) : s;
}

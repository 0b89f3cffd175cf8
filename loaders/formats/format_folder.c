/*
 * format_folder.c - images as files: a folder per class, or a list.
 *
 * Opening reads every folder and asks for every file's size, because the memory of a batch depends
 * on it, but opens no file. Classes are the folders' names, sorted as bytes. A folder without an
 * image is a class, too, so that the parts of one set agree on the numbers. Files in subfolders
 * belong to the class above. Samples come class by class, sorted by the bytes of their folders'
 * paths, then of their names: an index means the same image everywhere.
 *
 * If a file cannot be stat'ed (a link to nothing, a name in a list), or is not a regular file, it
 * is a sample, too. Its read fails and says why, and on_error applies, so that one file among a
 * million does not end a run. If all files are like that, opening fails.
 *
 * Each file is one extent for one decoder: the built-in one of images, or one of the caller's
 * registry.
 *
 * Source: torchvision's ImageFolder, whose order this is; image_list.h has that of lists.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include <iter/option_rows.h>
#include <iter/registry.h>

#include "iter/core/alloc.h"
#include "iter/core/error.h"
#include "iter/core/hash.h"
#include "iter/remote/client.h"
#include "iter/spec/suggest.h"
#include "loaders/decoders/image.h"
#include "loaders/files/file.h"
#include "loaders/files/file_set.h"
#include "loaders/files/paths.h"
#include "loaders/formats/image_list.h"
#include "loaders/formats/shape.h"

#define DEPTH_MAX   32 /* of folders; links may form circles */
#define LABELS_MAX  255
#define LISTS_AHEAD 128 /* folders elsewhere whose names are kept at a time */

typedef struct folder_options {
    iter_image_options image;
    const char *ext, *decoder, *shape;
    int32_t dtype;
    bool labels;
    iter__list_options list;
} folder_options;

static const iter_option option_rows[] = {
    ITER_ROW_STRING("ext", "endings of images, in any case, between ';'", folder_options, ext, 0),
    ITER_ROW_BOOL("labels", "no = images without classes, wherever they lie", folder_options,
                  labels),
    ITER_ROW_STRING("root", "lists: what names are relative to; default: the list's folder",
                    folder_options, list.root, 0),
    ITER_ROW_BOOL("label-names",
                  "lists: labels are names of classes, even if they look like numbers",
                  folder_options, list.label_names),
    ITER_ROW_INT("label-width", "lists: labels a line; 0 = as many as the first one has",
                 folder_options, list.label_width, 0, LABELS_MAX, 0),
    ITER_ROW_STRING("path-column",
                    ".csv: the files' column, by name or number; default: found by its endings",
                    folder_options, list.path_column, 0),
    ITER_ROW_STRING("label-columns", ".csv: the labels' columns, between ';'; default: all others",
                    folder_options, list.label_columns, 0),
    ITER_ROW_STRING("decoder",
                    "what makes a file's bytes a row: image, or a decoder of the caller's registry",
                    folder_options, decoder, 0),
    ITER_ROW_STRING("shape", "of a row, for a decoder that makes rows of one size: 3x32x32",
                    folder_options, shape, 0),
    ITER_ROW_DTYPE("dtype", "of such a row; default u8", folder_options, dtype, 0),
    ITER_IMAGE_OPTION_ROWS(folder_options, image),
    ITER_ROW_END,
};

static const folder_options defaults = {
    .image = ITER_IMAGE_OPTIONS_INIT,
    .ext = ITER_IMAGE_ENDINGS,
    .decoder = "image",
    .labels = true,
};

typedef struct folder_state {
    iter_image_options image;
    const iter_decoder_ops *decoder;
    iter_desc row;       /* what the decoder makes */
    iter__list list;     /* holds the files of folders, too */
    iter__paths classes; /* folders: their names */
    uint64_t *ends;      /* [classes.n]: for each class, the index after its last sample */
} folder_state;

static void folder_close(void *state) {
    folder_state *s = state;
    iter__list_free(&s->list);
    iter__paths_free(&s->classes);
    iter__free(s->ends);
    memset(s, 0, sizeof(*s));
}

/* ---- folders --------------------------------------------------------------------------------- */

static iter_status no_names(const char *folder, iter_error *err) {
    return iter__fail(err, ITER_ENOMEM, "%s: no memory for its names", folder);
}

static iter_status add_class(void *user, const iter__entry *entry, iter_error *err) {
    folder_state *s = user;
    if (entry->kind != ITER_ENTRY_FOLDER) return ITER_OK;
    return iter__paths_add(&s->classes, iter__strdup(entry->name), err);
}

/* A folder that is walked with those below it. */
typedef struct walk {
    folder_state *s;
    const char *folder, *ext;
    int depth;
} walk;

static iter_status add_image(void *user, const iter__entry *entry, iter_error *err) {
    const walk *w = user;
    iter__file_set *files = &w->s->list.files;
    if (entry->kind == ITER_ENTRY_FOLDER) {
        if (w->depth == DEPTH_MAX)
            return iter__fail(err, ITER_EIO, "%s: is more than %d folders deep", w->folder,
                              DEPTH_MAX);
        char *inner = iter__path_join(w->folder, entry->name);
        if (!inner) return no_names(w->folder, err);
        walk deeper = {.s = w->s, .folder = inner, .ext = w->ext, .depth = w->depth + 1};
        const iter_status status = iter__folder_list(inner, add_image, &deeper, err);
        iter__free(inner);
        return status;
    }
    if (!iter__list_is_image(entry->name, w->ext)) return ITER_OK;
    const char *path = iter__file_set_text(files, w->folder, entry->name);
    if (!path) return no_names(w->folder, err);
    return iter__file_set_add_found(files, path, entry, err);
}

static iter_status add_images(folder_state *s, const char *folder, int depth,
                              const folder_options *o, iter_error *err) {
    walk w = {.s = s, .folder = folder, .ext = o->ext, .depth = depth};
    return iter__folder_list(folder, add_image, &w, err);
}

static int by_name(const void *a, const void *b) {
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* Lists the folders of the next classes, if they are URLs. */
static iter_status list_ahead(const folder_state *s, const char *path, uint64_t first,
                              iter_error *err) {
    char *folders[LISTS_AHEAD] = {NULL};
    uint64_t n = 0;
    bool ok = true;
    iter__remote *remote = iter__remote_of(path);
    for (; remote && ok && n < LISTS_AHEAD && first + n < s->classes.n; n++)
        ok = (folders[n] = iter__path_join(path, s->classes.names[first + n])) != NULL;
    if (ok) iter__remote_list_ahead(remote, (const char *const *)folders, n);
    for (uint64_t i = 0; i < n; i++)
        iter__free(folders[i]);
    return ok ? ITER_OK : no_names(path, err);
}

static iter_status add_folder(folder_state *s, const char *path, const folder_options *o,
                              iter_error *err) {
    if (!o->labels) {
        ITER_TRY(add_images(s, path, 0, o, err));
        iter__file_set_sort(&s->list.files, 0);
    } else {
        ITER_TRY(iter__folder_list(path, add_class, s, err));
        if (s->classes.n == 0) {
            return iter__fail(
                err, ITER_EFORMAT,
                "%s: holds no folders, which are the classes; labels=no is for images "
                "without",
                path);
        }
        qsort(s->classes.names, (size_t)s->classes.n, sizeof(char *), by_name);
        s->ends = iter__alloc((size_t)s->classes.n, sizeof(*s->ends));
        if (!s->ends) return iter__fail(err, ITER_ENOMEM, "%s: no memory for its classes", path);
    }
    for (uint64_t c = 0; c < s->classes.n; c++) {
        const uint64_t first = s->list.files.n;
        if (c % LISTS_AHEAD == 0) ITER_TRY(list_ahead(s, path, c, err));
        char *folder = iter__path_join(path, s->classes.names[c]);
        if (!folder) return no_names(path, err);
        const iter_status status = add_images(s, folder, 1, o, err);
        iter__free(folder);
        ITER_TRY(status);
        iter__file_set_sort(&s->list.files, first);
        s->ends[c] = s->list.files.n;
    }
    if (s->list.files.n == 0) {
        return iter__fail(err, ITER_EFORMAT, "%s: holds no image, no file that ends with %s", path,
                          o->ext);
    }
    return iter__file_set_check(&s->list.files, path, "", err);
}

/* ---- the decoder ----------------------------------------------------------------------------- */

/* Rows of one size, if a shape is given; else images of any size. */
static iter_status choose_decoder(folder_state *s, const folder_options *o,
                                  const iter_registry *registry, iter_error *err) {
    s->decoder = iter_registry_decoder(registry, o->decoder);
    if (!s->decoder) {
        char hint[ITER_HINT_MAX];
        return iter__fail(err, ITER_EINVAL, "folder: no decoder is called '%s'%s", o->decoder,
                          iter__hint_decoder(registry, o->decoder, hint));
    }
    if (o->shape) {
        if (!s->decoder->decode)
            return iter__fail(
                err, ITER_EINVAL,
                "folder: the decoder '%s' makes images of any size: no shape=", o->decoder);
        s->row.dtype = o->dtype ? (iter_dtype)o->dtype : ITER_U8;
        const iter_status status = iter__shape_parse(o->shape, &s->row, err);
        return status < 0 ? iter__fail_in(err, status, "folder") : ITER_OK;
    }
    if (!s->decoder->decode_image)
        return iter__fail(err, ITER_EINVAL,
                          "folder: the decoder '%s' makes rows of one size: shape= must name it",
                          o->decoder);
    if (o->dtype) return iter__fail(err, ITER_EINVAL, "folder: dtype= is of rows with a shape=");
    s->row = (iter_desc){.dtype = ITER_U8, .n_dims = 3, .layout = "HWC"};
    s->row.dims[0] = s->row.dims[1] = ITER_VARIABLE;
    s->row.dims[2] = iter__image_channels(&s->image);
    return ITER_OK;
}

/* The identity of the decoder and its row. The built-in decoder adds nothing, so that saved
 * positions stay valid. */
static uint64_t hash_decoder(const folder_state *s, uint64_t hash) {
    if (s->decoder == &iter__decoder_image) return hash;
    hash = iter__fnv1a_text(hash, s->decoder->base.name);
    hash = iter__fnv1a_u64(hash, (uint64_t)s->row.dtype);
    for (int32_t d = 0; d < s->row.n_dims; d++)
        hash = iter__fnv1a_u64(hash, (uint64_t)s->row.dims[d]);
    return hash;
}

/* ---- the description ------------------------------------------------------------------------- */

static uint64_t identity_of(const folder_state *s, const char *path) {
    const iter__list *list = &s->list;
    const uint64_t n_labels = list->files.n * (uint64_t)list->label_width;
    size_t skip = iter__path_is_folder(path) ? strlen(path) : 0;
    while (skip > 0 && path[skip - 1] == '/')
        skip--;
    uint64_t hash = iter__fnv1a_text(ITER_FNV_START, "folder");
    hash = iter__fnv1a_u64(hash, (uint64_t)s->image.channels);
    hash = iter__fnv1a_u64(hash, (uint64_t)s->image.orient);
    hash = hash_decoder(s, hash);
    for (uint64_t i = 0; i < list->files.n; i++) { /* wherever sorting moved it to */
        const char *name = list->files.files[i].path;
        hash = iter__fnv1a_text(hash, skip ? name + skip : iter__path_base(name));
        hash = iter__fnv1a_u64(hash, list->files.files[i].bytes);
    }
    for (uint64_t c = 0; c < s->classes.n; c++) {
        hash = iter__fnv1a_text(hash, s->classes.names[c]);
        hash = iter__fnv1a_u64(hash, s->ends[c]);
    }
    return iter__fnv1a(hash, list->labels.memory, (size_t)n_labels * 4);
}

static int32_t n_classes(const folder_state *s) {
    return s->classes.n > 0 ? (int32_t)s->classes.n : s->list.n_classes;
}

static void describe_label(const folder_state *s, iter_field *field) {
    memset(field, 0, sizeof(*field));
    strcpy(field->name, "label");
    field->role = ITER_LABEL;
    field->extent = ITER_FROM_INDEX;
    field->desc.dtype = s->list.dtype;
    if (s->list.label_width > 1) {
        field->desc.n_dims = 1;
        field->desc.dims[0] = s->list.label_width;
    }
    field->limit = (uint32_t)n_classes(s);
}

static void fill_description(const folder_state *s, const char *path, iter_description *out) {
    const bool labels = s->classes.n > 0 || s->list.label_width > 0;
    iter_field *data = &out->fields[0];
    memset(data, 0, sizeof(*data));
    strcpy(data->name, "data");
    data->role = ITER_DATA;
    data->decoder = s->decoder;
    data->desc = s->row;
    if (labels) describe_label(s, &out->fields[1]);
    out->n_fields = labels ? 2 : 1;
    out->n_samples = s->list.files.n;
    out->n_extents = 1;
    out->max_extent_bytes[0] = s->list.files.largest;
    out->files = s->list.files.files;
    out->n_files = s->list.files.n;
    out->class_names =
        s->classes.n > 0 ? (const char *const *)s->classes.names : s->list.class_names;
    out->n_classes = n_classes(s);
    out->split = "";
    out->index_bytes = iter__file_set_bytes(&s->list.files) + 4 * s->list.capacity +
                       8 * s->classes.n; /* labels, ends */
    out->shared = &s->image;
    out->identity = identity_of(s, path);
}

/* ---- callbacks ------------------------------------------------------------------------------- */

static iter_status folder_open(void *state, const char *path, const void *options,
                               iter_description *out, iter_error *err) {
    folder_state *s = state;
    const folder_options *o = options;
    iter_status status;
    s->image = o->image;
    s->list.dtype = ITER_I32;
    ITER_TRY(choose_decoder(s, o, out->registry, err));
    if (iter__path_is_folder(path)) {
        status = add_folder(s, path, o, err);
    } else if (iter__list_is_one(path) || !iter__path_exists(path)) {
        status = iter__list_load(path, &o->list, o->ext, &s->list, err);
        if (!o->labels) s->list.label_width = s->list.n_classes = 0;
    } else {
        status = iter__fail(err, ITER_EINVAL,
                            "%s: is neither a folder nor a list (.lst, .csv, .txt)", path);
    }
    if (status < 0) {
        folder_close(s);
        return status;
    }
    fill_description(s, path, out);
    return ITER_OK;
}

static void folder_locate(const void *state, uint64_t index, iter_extent *out) {
    const folder_state *s = state;
    *out = (iter_extent){.object = index, .offset = 0, .size = s->list.files.files[index].bytes};
}

static void folder_index_row(const void *state, uint64_t index, int32_t field, void *row) {
    const folder_state *s = state;
    (void)field; /* the label is the only one */
    if (s->classes.n == 0) {
        const size_t width = (size_t)s->list.label_width;
        memcpy(row, s->list.labels.i32 + index * width, 4 * width);
        return;
    }
    /* Finds the first class that ends after the index. */
    uint64_t c = 0, last = s->classes.n - 1;
    while (c < last) {
        const uint64_t middle = c + (last - c) / 2;
        if (s->ends[middle] > index) {
            last = middle;
        } else {
            c = middle + 1;
        }
    }
    const int32_t label = (int32_t)c;
    memcpy(row, &label, sizeof(label));
}

const iter_format_ops iter__format_folder = {
    .base = {.struct_size = sizeof(iter_format_ops),
             .name = "folder",
             .help = "JPEG, PNG and WebP files: a folder per class, or a list (.lst, .csv, .txt)",
             .options = option_rows,
             .defaults = &defaults,
             .options_size = sizeof(folder_options),
             .state_size = sizeof(folder_state)},
    .open = folder_open,
    .close = folder_close,
    .locate = folder_locate,
    .index_row = folder_index_row,
};

/*
 * ops.h - every seam of libiter. Everything in loaders/ and transforms/, and every plugin,
 * implements one of these tables.
 *
 *     sampler -> format -> source -> decoder -> transforms -> row of the slot -> batch stages
 *     which      where     bytes     tensor     tensor                           batch
 *
 * A table is const data and is borrowed until the last dataset, chain or loader that uses it is
 * gone. The core allocates plugin state (base.state_size bytes, zeroed, 64-byte aligned) and checks
 * required members once. A callback's `err` is never NULL, and empty when it is called: one that
 * fails writes its reason there, and the core adds who it was and where (but for a format's open,
 * which names the file itself).
 */
#ifndef ITER_OPS_H
#define ITER_OPS_H

#include <stddef.h>
#include <stdint.h>

#include <iter/rng.h>
#include <iter/tensor.h>

ITER_BEGIN_DECLS

/* ---- What every ops table starts with -------------------------------------------------------- */

typedef enum iter_option_type {
    ITER_OPTION_BOOL,   /* bool: 0, 1, true, false, yes, no */
    ITER_OPTION_INT,    /* int64_t */
    ITER_OPTION_DOUBLE, /* double */
    ITER_OPTION_STRING, /* const char *, owned by whoever holds the options */
    ITER_OPTION_CHOICE, /* int32_t: place of the word in `choices` */
    ITER_OPTION_LIST,   /* iter_option_list: numbers separated by ';' */
    ITER_OPTION_DTYPE   /* int32_t, an iter_dtype; ITER_DTYPE_NONE = not given */
} iter_option_type;

#define ITER_OPTION_LIST_MAX 16

typedef struct iter_option_list {
    int32_t n; /* 0 = not given */
    double values[ITER_OPTION_LIST_MAX];
} iter_option_list;

/** One user-visible option of a plugin: parser, bounds, `iterbench list` and the docs come from
 * this row. */
typedef struct iter_option {
    const char *name;
    const char *help;
    iter_option_type type;
    size_t offset;   /* offsetof(struct <plugin>_options, field) */
    double min, max; /* bounds of INT, DOUBLE and every number of a LIST; both 0 = any */
    /* CHOICE: words separated by '|'; INT: a word that stands for 0, or NULL */
    const char *choices;
    /* 1, 2, ...: may also be given without its name, as the first, second, ... such argument */
    int32_t positional;
} iter_option;

typedef struct iter_ops {
    size_t struct_size;         /* sizeof the concrete table; appended members read as absent */
    const char *name;           /* registry key, [a-z0-9-]+ */
    const char *help;           /* one line for `iterbench list` */
    const iter_option *options; /* ends with a NULL name; NULL = none */
    const void *defaults;       /* options struct with default values; NULL = all zero */
    size_t options_size;
    size_t state_size;
} iter_ops;

/* ---- What a sample is made of ---------------------------------------------------------------- */

#define ITER_MAX_FIELDS  8
#define ITER_MAX_EXTENTS 4
#define ITER_NAME_MAX    32

/** As n_samples of a stream. */
#define ITER_UNKNOWN UINT64_MAX

/** In field.extent: the row comes from the index, by iter_format_ops.index_row. */
#define ITER_FROM_INDEX (-1)

typedef enum iter_role { ITER_DATA = 0, ITER_LABEL = 1 } iter_role;

typedef struct iter_decoder_ops iter_decoder_ops;

/** A part of an image, in pixels. */
typedef struct iter_rect {
    int64_t y, x, height, width;
} iter_rect;

/** Takes the rows of an image as a decoder makes them, from the first on. */
typedef struct iter_image_rows iter_image_rows;
struct iter_image_rows {
    /* Once, with the size that the image comes in. Answers how many bytes from a row's start on must be
     * readable, whatever is in them behind its pixels; 0 = not this image: to `out`. */
    size_t (*begin)(iter_image_rows *rows, const iter_desc *image);
    /* The next n rows, borrowed for the call. */
    void (*put)(iter_image_rows *rows, const uint8_t *const *at, int32_t n);
};

/** What is wanted of an image: a part of it, and from where on it may be made smaller. */
typedef struct iter_image_wish {
    iter_rect part;
    /* the part may come smaller, by whatever factor the decoder has at no cost, as long as it stays
     * at least this large; 0, 0 = exactly as it is */
    int64_t min_height, min_width;
    /* a decoder that makes whole rows from the top down may hand them over instead of writing them to
     * `out`; NULL = nobody takes them */
    iter_image_rows *rows;
} iter_image_wish;

/** One named field of a sample. */
typedef struct iter_field {
    char name[ITER_NAME_MAX]; /* "data", "label"; unique in its dataset */
    iter_role role;
    iter_desc desc; /* of one sample, without the batch dimension */
    int32_t extent; /* which of the sample's extents holds it, or ITER_FROM_INDEX */
    size_t offset;  /* bytes from the extent's start, where there is no decoder */
    /* NULL: the dense row as it is stored, in this machine's byte order */
    const iter_decoder_ops *decoder;
    /* an integer scalar must be in 0..limit - 1, else the sample fails; 0 = any value */
    uint32_t limit;
} iter_field;

/** A file that a dataset reads. An extent's `object` is its place in this list. */
typedef struct iter_file {
    const char *path;
    uint64_t bytes; /* its size when the dataset was opened, or ITER_UNKNOWN */
} iter_file;

/** What open() and describe() answer. Everything that it points to lives until close(). */
typedef struct iter_description {
    uint64_t n_samples; /* or ITER_UNKNOWN: a stream */
    int32_t n_fields;
    iter_field fields[ITER_MAX_FIELDS];
    int32_t n_extents;                           /* extents of one sample; 0 = nothing to read */
    uint64_t max_extent_bytes[ITER_MAX_EXTENTS]; /* the largest of each over all samples */
    const iter_file *files;
    uint64_t n_files;
    const char *const *class_names; /* NULL = none */
    int32_t n_classes;
    const char *split;  /* "train", "test", or "" */
    const void *shared; /* handed to the decoders: a vocabulary, iter_image_options, say */
    /* For formats with get(): 1 = a row is a function of its index alone, and making it costs more
     * than copying it: all are made once and kept where they fit into memory */
    int32_t keep_rows;
    /* hash of all that decides its samples (names, sizes, options); enters saved positions */
    uint64_t identity;
    /* held while it is open, to know where samples are; counts in a loader's memory_limit. Of built-in
     * formats it is measured; a format that uses malloc() sets it. 0 = next to nothing */
    uint64_t index_bytes;
    /* Set by the core for the time of a format's open(): the registry that the dataset is opened
     * with, for iter_registry_decoder() and the like. NULL = built-ins alone. */
    const struct iter_registry *registry;
} iter_description;

/* ---- Source: bytes by (object, offset). One state per loader. -------------------------------- */

typedef struct iter_iovec {
    void *data; /* borrowed until completion */
    size_t size;
} iter_iovec;

/** One read, owned by the caller and borrowed from submit() to completion. */
typedef struct iter_read {
    uint64_t object, offset;
    const iter_iovec *parts; /* where the bytes go, in order; at most ITER_READ_PARTS_MAX */
    int32_t n_parts;
    size_t size; /* sum of the parts */
    /* Bytes before the first part and behind the last that may be written to, too: a source that
     * reads whole blocks then needs no buffer of its own. */
    size_t room_before, room_after;
    size_t done;        /* bytes read; less than size only where the object ends */
    iter_status status; /* set at completion: OK, EIO, ECANCELED */
    int32_t os_error;   /* errno behind a status < 0, or 0 */
    int32_t path;       /* set at completion: iter_path that served the bytes */
    void *user;
    uint64_t reserved[6]; /* the source's, zero before the first submit */
} iter_read;

#define ITER_READ_PARTS_MAX 256

/** Which way bytes came in; statistics count bytes for each. */
typedef enum iter_path {
    ITER_PATH_RING,
    ITER_PATH_PREAD,
    ITER_PATH_MEMORY,
    ITER_PATH_COUNT
} iter_path;

typedef struct iter_source_config {
    const iter_file *files; /* borrowed until close */
    uint64_t n_files;
    uint32_t depth; /* reads in flight that the caller wants at most */
    /* 1 = bypass the page cache; the source widens to aligned blocks and slices */
    int32_t o_direct;
    void *arena; /* memory that most reads go to, to be registered where it helps; NULL = none */
    size_t arena_bytes;
    size_t buffer_bytes; /* for buffers of the source's own, at most; 0 = as it likes */
} iter_source_config;

typedef struct iter_source_ops {
    iter_ops base;
    /* Prepares to read the files; opens them now or as they are read. `fallback`[capacity] gets one
     * sentence if something asked for is unavailable and something else is used, else "". Required. */
    iter_status (*open)(void *state, const iter_source_config *config, char *fallback,
                        size_t capacity, iter_error *err);
    /* No read is in flight. Required. */
    void (*close)(void *state);
    /* Reads now, in the calling thread, any number of threads at once; may block. Sets done,
     * status, os_error, path. A short read or an interrupted one is continued here; less than size
     * only at the object's end. Required. */
    iter_status (*read)(void *state, iter_read *read);
    /* As read, but only if it does not block: OK, or AGAIN with nothing or a first part done
     * (read->done says how much). NULL = always AGAIN. */
    iter_status (*try_read)(void *state, iter_read *read);
    /* The asynchronous side; NULL for all six = the loader has threads call read(). submit, commit,
     * reap, wake and cancel run under the source lock and never block. A read with done > 0 is
     * continued from there. submit: PENDING = queued; AGAIN = the queue is full: commit and reap
     * first. */
    iter_status (*submit)(void *state, iter_read *read);
    /* Sends what was submitted. AGAIN = some of it was not sent; the loader commits again soon. */
    iter_status (*commit)(void *state);
    /* Hands out up to `max` completed reads; 0 is an answer. */
    int32_t (*reap)(void *state, iter_read **out, int32_t max);
    /* Outside the lock, one thread at a time; returns when there may be something to reap, after
     * timeout_ns (< 0 = never), or when wake() was called; may return with nothing to reap. An error
     * means that it cannot wait here: the loader then asks reap() every millisecond. */
    iter_status (*wait)(void *state, int64_t timeout_ns);
    void (*wake)(void *state);
    /* Asks for everything in flight to end soon; the reads still complete, by reap, with ECANCELED
     * or as they are. */
    void (*cancel)(void *state);
} iter_source_ops;

/* ---- Format: sample index to where its bytes are --------------------------------------------- */

typedef struct iter_extent {
    uint64_t object, offset;
    uint64_t size;
} iter_extent;

typedef struct iter_format_ops {
    iter_ops base;
    /* Opens what is at `path` and fills `out`. From then on the state is read-only, shared by
     * threads. On an error it has released everything itself. Required. */
    iter_status (*open)(void *state, const char *path, const void *options, iter_description *out,
                        iter_error *err);
    /* Required. */
    void (*close)(void *state);
    /* Where sample `index` (< n_samples) is: description.n_extents extents. Any thread, several at
     * once; under no lock of the loader. It should not block: it delays the batch. Required where
     * n_extents > 0. */
    void (*locate)(const void *state, uint64_t index, iter_extent *out);
    /* Writes the row of a field that comes from the index. Any thread, never blocks. Required where
     * such a field exists. */
    void (*index_row)(const void *state, uint64_t index, int32_t field, void *row);
    /* For formats without extents: memory that holds every row of `field`, row i at *out_base + i *
     * *out_stride. NULL = none. */
    iter_status (*resident)(const void *state, int32_t field, const void **out_base,
                            size_t *out_stride);
    /* For formats that make samples instead of reading them: writes rows as iter_dataset_ops.get
     * does. NULL = none. */
    iter_status (*get)(const void *state, uint32_t n, const uint64_t *indices,
                       const iter_tensor *rows, iter_rng *rng, iter_error *err);
    /* Length of the first variable field of sample `index` in elements or, where that is not known
     * before reading, a number that grows with it (bytes of text, say): length buckets go by it.
     * NULL = nothing is known. */
    int64_t (*length)(const void *state, uint64_t index);
} iter_format_ops;

/* ---- Decoder: bytes to one tensor. One state per worker. ------------------------------------- */

struct iter_decoder_ops {
    iter_ops base; /* its options are the format's business: shared carries them */
    /* NULL = nothing to do. */
    iter_status (*start)(void *state, const void *shared, iter_error *err);
    void (*stop)(void *state);
    /* Writes one row into out->data (out->desc is the field's; 64-byte aligned is not promised);
     * where dims[0] is variable it sets out->desc.dims[0] to this sample's length. Allocates
     * nothing in steady state. Required where the field has a size. Errors: EFORMAT (the bytes are
     * wrong), ENOMEM. OK with a message in err is a warning: the row is used, the loader counts. */
    iter_status (*decode)(void *state, const void *shared, const uint8_t *bytes, size_t size,
                          iter_tensor *out, iter_error *err);
    /* Instead of decode, for images of any size (the field is u8 [ITER_VARIABLE, ITER_VARIABLE, C]
     * "HWC", capacity 0). header: height and width of this one, from its first bytes; out->dims[0]
     * and [1] are set. decode_image: exactly the wished part, to dense out->data or to wish->rows;
     * where the wish allows less, out->desc.dims[0] and [1] say what came. It comes behind header() of
     * the same bytes, unchanged, or without it. Errors: EFORMAT (with the reason), ENOMEM (more than the
     * format's max-pixels). */
    iter_status (*header)(void *state, const void *shared, const uint8_t *bytes, size_t size,
                          iter_desc *out, iter_error *err);
    iter_status (*decode_image)(void *state, const void *shared, const uint8_t *bytes, size_t size,
                                const iter_image_wish *wish, iter_tensor *out, iter_error *err);
    /* Called once, behind start(): the most that the state may hold at a time, over whatever sample,
     * `out` aside. A sample that takes more is ENOMEM and says how much it takes, whatever came
     * before it. NULL = it holds next to nothing. */
    void (*limit)(void *state, size_t bytes);
    /* Where within the sample's bytes[size] the row lies as it is: dense, of desc, or, where that
     * is u8 [ITER_VARIABLE], as many bytes as it has. Then no copy is made: of the bytes only the
     * first n_known are looked at, and with n_known = 0 it is where a row is to be expected, so
     * that it can be read to where it goes before it is known. What other fields are made of lies
     * before the row. false = not there, or in no one piece: decode. NULL = always. */
    bool (*find)(const void *shared, const iter_desc *desc, const uint8_t *bytes, size_t size,
                 size_t n_known, size_t *out_offset, size_t *out_bytes);
};

/* ---- Transform: tensor to tensor. plan() once, start/stop per worker. ------------------------ */

/** Several stages folded into one pass; see iter_fold_*(). */
typedef struct iter_fold iter_fold;

/** The output of a batch, as a batch stage sees and changes it. */
typedef struct iter_batch_view {
    /* [n_rows, ...]; a stage may lower dims, permute strides, or move data within [data, data
     * + capacity_bytes) */
    iter_tensor tensor;
    int64_t n_rows;
    size_t capacity_bytes;
    const int32_t *lengths; /* [n_rows] where the field is variable, else NULL */
    void *scratch;          /* the bytes asked for by plan_batch */
} iter_batch_view;

/** A table has plan and apply, or plan and fold_*, or both (folded where the size is fixed, applied to
 * images of any size), or plan_batch and apply_batch. Images of any size: plan() gets them as dims
 * {ITER_VARIABLE, ITER_VARIABLE, C}, capacity 0, once, and again for each sample with the size that
 * apply() gets; so it does where there is a wish(). What has a size in the first plan keeps it. */
typedef struct iter_transform_ops {
    iter_ops base;
    /* iter_role of the field it works on where `field=` is not given: the first of that role */
    int32_t role;
    /* Pure: output shape and scratch bytes, or why it cannot be (name the reason, the core adds the
     * stage). Called when a loader is made, and for images of any size again for each sample. A
     * variable first dimension stays variable unless the stage fixes it.
     * Required, but for batch stages. */
    iter_status (*plan)(const void *options, const iter_desc *in, iter_desc *out,
                        size_t *out_scratch, iter_error *err);
    /* Per worker; NULL = nothing to do. */
    iter_status (*start)(void *state, const void *options, iter_error *err);
    void (*stop)(void *state);
    /* Hot: allocates nothing, takes no lock; randomness only from `rng`. Sets out->desc.dims[0]
     * where it is variable. */
    iter_status (*apply)(void *state, const void *options, const iter_tensor *in, iter_tensor *out,
                         iter_rng *rng, void *scratch, iter_error *err);
    /* Instead of apply(), over the rows of an image of any size as they are decoded, to the same bits.
     * begin_rows: as iter_image_rows.begin(), in->data is NULL; out and scratch stay until the last row.
     * take_rows: answers how many rows of out (by its H) are there. An image whose decoder fails halfway is
     * left. NULL for both = none. */
    size_t (*begin_rows)(void *state, const void *options, const iter_tensor *in, iter_tensor *out,
                         void *scratch);
    int64_t (*take_rows)(void *state, const uint8_t *const *rows, int32_t n);
    /* The part of the image `in` (HWC) that apply() needs, drawn from rng: apply() then gets that
     * part alone, dense, and the same rng as it was left. NULL = all of it. */
    void (*wish)(const void *options, const iter_desc *in, iter_rng *rng, iter_image_wish *out);
    /* Foldable stages instead of apply: what is the same for every sample (iter_fold_affine, _cast,
     * _layout, _table, and the geometry's output size). Pure: it may be called again. */
    iter_status (*fold_plan)(const void *options, iter_fold *fold, iter_error *err);
    /* What differs from sample to sample (iter_fold_crop, _flip, _cutout, _table); NULL = nothing.
     * Called with the same stages in the same order. */
    void (*fold_sample)(const void *options, iter_fold *fold, iter_rng *rng);
    /* Batch stages instead: in/out description with the batch dimension first. */
    iter_status (*plan_batch)(const void *options, iter_desc *desc, size_t *out_scratch,
                              iter_error *err);
    iter_status (*apply_batch)(const void *options, iter_batch_view *view, iter_error *err);
    /* Batch stage that adds a field i32 [N] with the lengths of a variable one; its option `name`
     * comes first in its options struct. */
    int32_t adds_lengths;
    /* Batch stage that fills up rows of different lengths; on such a field no other one may come
     * first. */
    int32_t fills_rows;
} iter_transform_ops;

typedef enum iter_edge {
    ITER_EDGE_CONSTANT = 0,
    ITER_EDGE_REFLECT = 1,
    ITER_EDGE_REPLICATE = 2
} iter_edge;

/** Current shape inside a fold, height, width and channels of an image (1 where there is no such
 * dimension). */
ITER_API void iter_fold_size(const iter_fold *fold, int64_t *out_height, int64_t *out_width,
                             int64_t *out_channels);
/** Element type at this point of the fold. */
ITER_API iter_dtype iter_fold_dtype(const iter_fold *fold);
/** Geometry, in plan (with any offsets) and per sample. Offsets in pixels of the current shape;
 * values in current units, per sample one of those told in plan by the same stage. Within one stage
 * geometry comes before values, type and layout. */
ITER_API void iter_fold_crop(iter_fold *fold, int64_t y, int64_t x, int64_t height, int64_t width);
ITER_API void iter_fold_pad(iter_fold *fold, int64_t top, int64_t left, int64_t bottom,
                            int64_t right, iter_edge edge, double value);
ITER_API void iter_fold_flip(iter_fold *fold, int vertical, int horizontal);
ITER_API void iter_fold_cutout(iter_fold *fold, int64_t y, int64_t x, int64_t height, int64_t width,
                               double value);
/** Values: table[x] for each x; elements must be u8. If the stage has no fold_sample(), the table
 * told in plan is every sample's. If it has one, it must tell a table in plan, too, but a sample gets
 * only what fold_sample() tells. Neighbouring tables join into one; a table after arithmetic or a cast
 * begins a second pass over the row. */
ITER_API void iter_fold_table(iter_fold *fold, const uint8_t table[256]);
/** Values, in plan only: x * scale[c] + bias[c]; n = channels or 1. */
ITER_API void iter_fold_affine(iter_fold *fold, int32_t n, const double *scale, const double *bias);
/** Type and layout ("CHW" or "HWC"), in plan only. */
ITER_API void iter_fold_cast(iter_fold *fold, iter_dtype dtype);
ITER_API void iter_fold_layout(iter_fold *fold, const char *layout);

/* ---- Sampler: position to sample index ------------------------------------------------------- */

typedef struct iter_sampler_context {
    uint64_t n_samples; /* of the dataset, or ITER_UNKNOWN */
    uint64_t seed;
    uint32_t batch_size, ranks;
    int64_t (*length)(const void *user,
                      uint64_t index); /* of a sample, as its dataset has it; NULL = not known */
    const void *length_user;
} iter_sampler_context;

/** Pure: length and index. Sequential: next_batch, with begin. All calls of one state come one at a
 * time, in any thread of the loader and in the caller's (workers 0, create, restore). No lock that a
 * call of the consumer needs is held meanwhile: a sampler that hangs stops the supply of batches, but
 * not timeouts, cancel or statistics. It must not call the loader. */
typedef struct iter_sampler_ops {
    iter_ops base;
    /* Required. Its messages, and those of begin and next_batch, name the reason; the core adds the
     * sampler. */
    iter_status (*open)(void *state, const void *options, const iter_sampler_context *context,
                        iter_error *err);
    void (*close)(void *state); /* NULL = nothing to do */
    /* Pure: samples in every epoch; ITER_UNKNOWN only for sequential order over a stream. */
    uint64_t (*length)(const void *state);
    /* Pure: out[i] = sample at position + i of `epoch`, i < n; position + n <= length. The same
     * answer on every rank. */
    void (*index)(void *state, uint32_t epoch, uint64_t position, uint32_t n, uint64_t *out);
    /* Sequential: start `epoch` from its beginning; then up to `capacity` samples of the next
     * global batch, *out_n = 0 at its end. */
    iter_status (*begin)(void *state, uint32_t epoch, iter_error *err);
    iter_status (*next_batch)(void *state, uint32_t capacity, uint64_t *out, uint32_t *out_n,
                              iter_error *err);
    /* Sequential, optional: state at a batch's edge, as at most 256 bytes. NULL = restore
     * replays. */
    iter_status (*save)(const void *state, void *out, size_t capacity, size_t *out_size);
    iter_status (*restore)(void *state, const void *saved, size_t size);
    /* Optional, before open(): writes into `options` what a default that depends on the context
     * means here (a unit of 0 becomes batch_size). Saved positions are bound to the options after
     * this call, so two loaders that would order samples differently refuse each other's. NULL = no
     * default depends on the context. */
    void (*resolve)(void *options, const iter_sampler_context *context);
} iter_sampler_ops;

/* ---- A user's own dataset -------------------------------------------------------------------- */

/** Rows are written straight into the batch where no stage of the chain stands between. */
typedef struct iter_dataset_ops {
    size_t struct_size;
    const char *name; /* for messages and statistics */
    /* Fills `out` (fields without extents or decoders; n_samples or ITER_UNKNOWN). Required. */
    iter_status (*describe)(void *user, iter_description *out, iter_error *err);
    /* Per worker, in its thread. NULL for both = state is NULL; then get is called by one worker at a
     * time, unless `parallel` is set. */
    iter_status (*start)(void *user, void **out_state, iter_error *err);
    void (*stop)(void *user, void *state);
    /* Writes samples indices[0..n): row i of field f goes to rows[f].data + i * rows[f].strides[0]
     * elements. rows[f].desc is [n, ...]; of a variable field lengths are told by
     * iter_rows_set_length(). rng[i] belongs to sample i. Runs under no lock of the loader. An error
     * (its reason goes into err->message) fails the call; the core then asks again one by one to learn
     * which sample it was. ENOMEM says that the process lacks memory:
     * the batch fails, whatever on_error is. Required, or `next`. */
    iter_status (*get)(void *user, void *state, uint32_t n, const uint64_t *indices,
                       const iter_tensor *rows, iter_rng *rng, iter_error *err);
    /* Streams: the next n samples in order, one caller at a time; *out_n < n only at the end. */
    iter_status (*next)(void *user, uint32_t n, const iter_tensor *rows, uint32_t *out_n,
                        iter_error *err);
    /* Streams: back to the first sample, at each epoch's start. */
    iter_status (*rewind)(void *user, iter_error *err);
    /* Length of the first variable field of a sample, in elements, before it is read; NULL = not
     * known. Any thread. */
    int64_t (*length)(const void *user, uint64_t index);
    /* Once, with the last reference of the dataset. NULL = nothing to do. */
    void (*close)(void *user);
    /* 1 = get may run in several workers at once although there is no start(). With start() it always
     * does. The loader's plan says how many workers can be busy. */
    int32_t parallel;
} iter_dataset_ops;

/** In get() and next(): row i of the variable field f has this many elements along its first
 * dimension. */
ITER_API void iter_rows_set_length(const iter_tensor *rows, int32_t field, uint32_t i,
                                   int64_t length);

ITER_END_DECLS

#endif

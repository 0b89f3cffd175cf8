/*
 * ops.h - every seam of libiter. All code in loaders/ and transforms/, and every plugin, implements
 * one of these tables.
 *
 *     sampler -> format -> source -> decoder -> transforms -> row of the slot -> batch stages
 *     which      where     bytes     tensor     tensor                           batch
 *
 * A table is const data. It is borrowed until the last dataset, chain or loader that uses it is
 * freed. The library allocates a plugin's state: base.state_size bytes, zeroed, 64-byte aligned. It
 * checks required members once.
 *
 * A callback's `err` is never NULL. A callback that fails writes its reason there. The library then
 * puts in front of it which plugin failed and where: the stage, the sample, the file. Only the
 * open() of a format or a source must name itself and its file.
 *
 * The comment of each member ends with "Call:". It says, in this order: whether the member is
 * required, or what NULL means; which thread calls it; which lock the library holds during the
 * call; how often it is called; whether it may block. A sample that replaces a failed one counts as
 * one more row.
 *
 * Threads. If "Call:" names a function, it means the thread that has called that function.
 *
 *     worker    a thread of the loader; with `workers` 0, the thread in iter_loader_next()
 *     creator   the thread in iter_dataloader_create() or iter_ndarray_create()
 *     releaser  the thread that drops the last reference to the loader and its batches. If
 *               iter_loader_stop() gave up waiting for a worker or for the watchdog's thread, the
 *               releaser may be that worker or the watchdog's thread.
 *
 * Otherwise the watchdog's thread calls no table. iter_dataset_read() makes one sample without a
 * loader: it calls the format and the decoder, or get().
 *
 * Locks, each with the field that holds it in the library's source.
 *
 *     loader lock   loader.lock, one per loader: queue, slots, position. Of all callbacks only a
 *                   source's wake() and drop() run under it.
 *     source lock   reading.lock, one per loader: the source's queue, and the memory that it reads
 *                   to
 *     sampler lock  opener.sampler_lock, one per loader: the sampler's calls come one at a time
 *     turn lock     dataset.one_at_a_time, one per dataset: next(), rewind(), and a get() that must
 *                   not run twice at once
 *     load lock     dataset.preload_lock, one per dataset: a creator holds it while it loads the
 *                   whole set into memory. Creators of other loaders over this dataset wait for it.
 *
 * The load lock is one process's own. Processes that share the memory (iter_share) do not wait for
 * it, but for the process that fills the memory.
 *
 * A callback that blocks stops its thread, and each thread that needs the lock held around it. If
 * it blocks in a worker, and `workers` is not 0:
 *
 *     iter_loader_next()     fails with ETIMEDOUT at its limit
 *     iter_loader_restore()  fails with ETIMEDOUT at faults.timeout_ms if it needs the sampler lock
 *                            (sequential samplers)
 *     iter_loader_stop()     waits for that thread at most faults.grace_ms
 *     cancel, reset, seek, save, positions and statistics answer at once
 *
 * If it blocks in the creator or in the releaser, no limit applies. With `workers` 0 no limit
 * applies to iter_loader_next() either, because the worker's callbacks run inside it.
 *
 * A callback must not call a function of the loader that called it, except iter_loader_cancel().
 * Some of these calls fail with ESTATE, others would deadlock. It may use other loaders.
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
    ITER_OPTION_STRING, /* const char *, owned by the code that filled the options */
    ITER_OPTION_CHOICE, /* int32_t: place of the word in `choices` */
    ITER_OPTION_LIST,   /* iter_option_list: numbers separated by ';' */
    ITER_OPTION_DTYPE   /* int32_t, an iter_dtype; ITER_DTYPE_NONE = not given */
} iter_option_type;

#define ITER_OPTION_LIST_MAX 16

typedef struct iter_option_list {
    int32_t n; /* 0 = not given */
    double values[ITER_OPTION_LIST_MAX];
} iter_option_list;

/** One option of a plugin. The parser, the bounds, `iterbench list` and the docs read this row. */
typedef struct iter_option {
    const char *name;
    const char *help;
    iter_option_type type;
    size_t offset;   /* offsetof(struct <plugin>_options, field) */
    double min, max; /* bounds of INT, DOUBLE and every number of a LIST; both 0 = any */
    /* CHOICE: words separated by '|'; INT: a word that stands for 0, or NULL; STRING: not NULL =
     * arguments with an integer as name join here, so that 3=10,7=2 means "3=10 7=2" */
    const char *choices;
    /* 1, 2, ...: may also be given without its name, as the first, second, ... such argument */
    int32_t positional;
} iter_option;

typedef struct iter_ops {
    /* sizeof the concrete table. A smaller table is refused with EINVAL. A larger one comes from a
     * newer version of this header. If one of its members that this version does not know is not
     * zero, the table is refused with EUNSUPPORTED. */
    size_t struct_size;
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

/** As n_samples: the dataset is a stream. */
#define ITER_UNKNOWN UINT64_MAX

/** In field.extent: the row comes from the index, by iter_format_ops.index_row. */
#define ITER_FROM_INDEX (-1)

typedef enum iter_role { ITER_DATA = 0, ITER_LABEL = 1 } iter_role;

typedef struct iter_decoder_ops iter_decoder_ops;

/** A part of an image, in pixels. */
typedef struct iter_rect {
    int64_t y, x, height, width;
} iter_rect;

/** Takes the rows of an image while a decoder makes them, first row first. The decoder calls both
 * members within decode_image(), in the same thread. */
typedef struct iter_image_rows iter_image_rows;
struct iter_image_rows {
    /* Called at most once, before the first row, with the size of the image that comes. Returns how
     * many bytes put() may read from the start of each row. If that is more than the row's pixels,
     * the bytes after them must be readable but may have any value. 0 = the rows are not wanted:
     * the decoder must write this image to `out`. */
    size_t (*begin)(iter_image_rows *rows, const iter_desc *image);
    /* The next n rows, borrowed for the call. */
    void (*put)(iter_image_rows *rows, const uint8_t *const *at, int32_t n);
};

/** The part of an image that is wanted, and the smallest size at which it may come. */
typedef struct iter_image_wish {
    iter_rect part;
    /* A decoder that can scale at no cost may make the part smaller than part.height x part.width.
     * The result must be at least min_height x min_width. 0, 0 = it must not be scaled. */
    int64_t min_height, min_width;
    /* A decoder that makes whole rows from the top down may pass them here instead of writing them
     * to `out`; NULL = it must write to `out`. */
    iter_image_rows *rows;
} iter_image_wish;

/**
 * The way that an image took through its stages. The edge at y, in pixels from the top of the image
 * as it was stored, is at y * scale_y + offset_y in the result; so with x. A negative scale is a
 * flip.
 */
typedef struct iter_image_view {
    int64_t from_height, from_width; /* as it was stored, after `orient` */
    int64_t height, width;           /* of the result */
    double scale_y, offset_y, scale_x, offset_x;
    double top, bottom, left, right; /* where the result shows the image; the rest is pad */
} iter_image_view;

/** One named field of a sample. */
typedef struct iter_field {
    char name[ITER_NAME_MAX]; /* "data", "label"; unique in its dataset */
    iter_role role;
    iter_desc desc; /* of one sample, without the batch dimension */
    int32_t extent; /* which of the sample's extents holds it, or ITER_FROM_INDEX */
    size_t offset;  /* without a decoder: bytes from the extent's start to the row */
    /* NULL: the dense row as it is stored, in this machine's byte order */
    const iter_decoder_ops *decoder;
    /* an integer scalar must be in 0..limit - 1, else the sample fails; 0 = any value */
    uint32_t limit;
} iter_field;

/** A file that a dataset reads. An extent's `object` is its place in this list. */
typedef struct iter_file {
    const char *path; /* or a URL: http://, https://, s3:// */
    uint64_t bytes;   /* its size when the dataset was opened, or ITER_UNKNOWN */
    void *place;      /* the library's, for a URL: how it is asked for; NULL = as usual */
} iter_file;

/** One of several datasets that a dataset consists of. */
typedef struct iter_part {
    const char *name;
    uint64_t n_samples;
    double weight;    /* its share of the draws, relative to the others'; 0 in all = by size */
    int32_t by_epoch; /* as in its description */
} iter_part;

/** Bits of a sample's number in a dataset that is by_epoch; above them stands the epoch. */
#define ITER_INDEX_BITS 40
#define ITER_INDEX_MAX  (((uint64_t)1 << ITER_INDEX_BITS) - 1)

/** Filled by open() and describe(), all zero before. Its pointers must stay valid until close(). */
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
    const void *shared; /* passed to the decoders, e.g. a vocabulary or iter_image_options */
    /* Bytes of `shared` that have no pointers: datasets with the same decoders and the same bytes
     * there can share decoders in a mix. 0 = they cannot. */
    size_t shared_bytes;
    /* For formats with get(). 1 = a row depends on its index alone, and making it costs more than
     * copying it. If all rows fit into memory, they are made once and kept. */
    int32_t keep_rows;
    /* For datasets with get(). 1 = the samples of each epoch are others, and always as many. get()
     * is asked for sample i of epoch e by i | e << ITER_INDEX_BITS (24 bits of e); a caller without
     * an epoch asks for one of epoch 0. At most ITER_INDEX_MAX samples, and no extents. */
    int32_t by_epoch;
    /* hash of all that decides its samples (names, sizes, options); enters saved positions */
    uint64_t identity;
    /* The datasets that it consists of: part p has the samples that follow those of part p - 1.
     * NULL = it is one. */
    const iter_part *parts;
    int32_t n_parts;
    /* Memory that the open dataset holds to find its samples; counts in a loader's memory.limit. It
     * is measured for built-in formats. A format that uses malloc() must set it. 0 = next to
     * nothing. */
    uint64_t index_bytes;
    /* Set by the library during a format's open(): the registry that the dataset is opened with,
     * for iter_registry_decoder() and the like. NULL = built-ins alone. */
    const struct iter_registry *registry;
    /* How much of the files no sample has, e.g. tokens at the end that fill no row, and a sentence
     * about it; 0 and NULL = nothing is left out. The loader's plan and `iterbench verify` say
     * so. */
    uint64_t n_left_out;
    const char *left_out;
} iter_description;

/* ---- Source: bytes by (object, offset) ------------------------------------------------------- */

typedef struct iter_iovec {
    void *data; /* borrowed until completion */
    size_t size;
} iter_iovec;

/** One read, owned by the caller and borrowed from submit() to completion. */
typedef struct iter_read {
    uint64_t object, offset;
    const iter_iovec *parts; /* the memory to fill, in order; at most ITER_READ_PARTS_MAX */
    int32_t n_parts;
    size_t size; /* sum of the parts */
    /* Bytes before the first part and after the last one that may be overwritten, too: a source
     * that reads whole blocks then needs no buffer of its own. */
    size_t room_before, room_after;
    size_t done;        /* bytes read; less than size only if the object ends there */
    iter_status status; /* set at completion: OK, EIO, ECANCELED */
    int32_t os_error;   /* errno if status < 0 and the system gave one, else 0 */
    int32_t path;       /* set at completion: iter_path that served the bytes */
    iter_error *why;    /* NULL, or where read() may say why it failed, in words */
    void *user;
    uint64_t reserved[6]; /* the source's, zero before the first submit */
} iter_read;

#define ITER_READ_PARTS_MAX 256

/** Which way bytes came in; statistics count bytes for each. */
typedef enum iter_path {
    ITER_PATH_RING,
    ITER_PATH_PREAD,
    ITER_PATH_MEMORY,
    ITER_PATH_REMOTE, /* requests to servers */
    ITER_PATH_COUNT
} iter_path;

typedef struct iter_source_config {
    const iter_file *files; /* borrowed until close */
    uint64_t n_files;
    uint32_t depth; /* reads in flight that the loader wants at most */
    /* 1 = bypass the page cache; the source widens to aligned blocks and slices */
    int32_t o_direct;
    void *arena; /* memory that most reads go to; register it if that helps; NULL = none */
    size_t arena_bytes;
    size_t buffer_bytes; /* limit for buffers of the source's own; 0 = no limit */
} iter_source_config;

/** A loader opens a source up to four times; each open() gets a new state. It opens one to load the
 * whole set into memory, and closes it after that. If the set is not in memory then, it opens one
 * to read from while it runs. If the files turn out to be cold, it closes the source and opens it
 * once more, with o_direct; this may happen to both. While the creator loads the set, it makes the
 * calls that a worker makes later, and only the load lock is held. */
typedef struct iter_source_ops {
    iter_ops base;
    /* Prepares to read the files. It may open them now or at their first read. If something that
     * was asked for is unavailable and something else is used, it writes one sentence to
     * `fallback`[capacity], else "". If it fails, it must free what it took: close() is not called.
     * Call: required; creator; no lock; up to four times per loader; may block. */
    iter_status (*open)(void *state, const iter_source_config *config, char *fallback,
                        size_t capacity, iter_error *err);
    /* No read is in flight and no other call runs.
     * Call: required; creator after loading, else releaser; no lock; once per open(); may block. */
    void (*close)(void *state);
    /* Reads now. Sets done, status, os_error, path. It must continue a short or interrupted read;
     * `done` is less than `size` only at the object's end. It may run while asynchronous reads are
     * in flight.
     * Call: required. If the six members from submit() on are NULL: threads of the loader that do
     * nothing but read. If a read failed or came short: a worker, once more for that row. While the
     * set is loaded: the creator and up to three helper threads, under the load lock. No other
     * lock; several at once; may block. */
    iter_status (*read)(void *state, iter_read *read);
    /* As read, but only if it does not block: OK, or AGAIN with nothing or a first part done
     * (read->done says how much). After AGAIN with os_error EOPNOTSUPP it is not called again.
     * Call: NULL = always AGAIN; worker, and the creator for a few reads of one byte; no lock;
     * several at once; once per read, with pauses after AGAIN; must not block. */
    iter_status (*try_read)(void *state, iter_read *read);

    /* The six members from submit() to cancel() are the asynchronous side. If all six are NULL,
     * threads of the loader call read() instead. */

    /* Queues a read. A read with done > 0 must be continued from there. AGAIN = the queue is full:
     * the read is submitted again after a commit and a reap. After any other answer the read counts
     * as queued, even after an error: reap() must then hand it out, with the error in its status.
     * Reads may still be submitted after cancel().
     * Call: worker; source lock; once per read, and again after AGAIN; must not block. */
    iter_status (*submit)(void *state, iter_read *read);
    /* Sends what was submitted. Any answer but OK = some of it was not sent: commit() is called
     * again within about 1 ms.
     * Call: worker; source lock; once per group of reads; must not block. */
    iter_status (*commit)(void *state);
    /* Hands out up to `max` completed reads; 0 = none is complete.
     * Call: worker, iter_loader_stop() or the last unref; source lock; after each wait(), and when
     * a worker looks for work while reads are in flight; must not block. */
    int32_t (*reap)(void *state, iter_read **out, int32_t max);
    /* Returns when there may be something to reap, after timeout_ns (< 0 = never), or when wake()
     * was called; it may return with nothing to reap. A wake() that came before it must not be
     * lost. An error means that it cannot wait here: the loader then calls reap() every
     * millisecond.
     * Call: worker, iter_loader_stop() or the last unref; no lock; one thread at a time is in
     * wait(), and meanwhile other threads may call every other member; may block until timeout_ns,
     * which is at most 50 ms. */
    iter_status (*wait)(void *state, int64_t timeout_ns);
    /* Makes a wait() that runs, or is about to, return soon.
     * Call: worker, and any thread that gives back a batch, resets, seeks, restores or stops;
     * always the source lock, in most of these threads also the loader lock, and in
     * iter_loader_restore() also the sampler lock; only while a thread is in or near wait(); must
     * not block. */
    void (*wake)(void *state);
    /* Asks for everything in flight to end soon. The reads still complete, by reap, with ECANCELED
     * or as they are.
     * Call: the first worker that ends, or iter_loader_stop(); source lock; once; must not
     * block. */
    void (*cancel)(void *state);
    /* The bytes of a read are no longer needed, because the loader goes on at another place. The
     * read still completes, by reap, and soon: with ECANCELED or as it is. The loader looks for it
     * after this call.
     * Call: NULL = the loader waits for such reads; any thread that resets, seeks or restores, and
     * a worker; source lock, and in most of these threads also the loader lock, in
     * iter_loader_restore() also the sampler lock; at most once per read, between its submit() and
     * its reap(); must not block. */
    void (*drop)(void *state, iter_read *read);
} iter_source_ops;

/* ---- Format: sample index to the place of its bytes ------------------------------------------ */

typedef struct iter_extent {
    uint64_t object, offset;
    uint64_t size;
} iter_extent;

/** One state per dataset, read-only after open(). A table must have at least one of locate, get and
 * resident. */
typedef struct iter_format_ops {
    iter_ops base;
    /* Opens what is at `path` and fills `out`. If it fails, it must free what it took: close() is
     * not called.
     * Call: required; iter_dataset_open(); no lock; once; may block. */
    iter_status (*open)(void *state, const char *path, const void *options, iter_description *out,
                        iter_error *err);
    /* Frees what open() took.
     * Call: required; the thread that drops the last reference to the dataset, or
     * iter_dataset_open() if the description is refused; no lock; once; may block. */
    void (*close)(void *state);
    /* Writes where the bytes of sample `index` (< n_samples) are: description.n_extents extents.
     * Call: required if n_extents > 0; worker, iter_dataset_read(),
     * iter_loader_activity(), and the creator while it loads the set (under the load lock); no
     * other lock; several at once; at least once per row that is read, several times under a block
     * shuffle; must not block, because no further batch is opened meanwhile. */
    void (*locate)(const void *state, uint64_t index, iter_extent *out);
    /* Writes the row of a field that comes from the index.
     * Call: required if a field has ITER_FROM_INDEX and comes from neither resident() nor get();
     * worker, iter_dataset_read(); no lock; several at once; once per row; must not block. */
    void (*index_row)(const void *state, uint64_t index, int32_t field, void *row);
    /* For formats without extents: memory that holds every row of `field`, row i at *out_base + i *
     * *out_stride; *out_base NULL = this field is not in memory. An error fails the open.
     * Call: NULL = none; iter_dataset_open(), after open(); no lock; once per field; may block. */
    iter_status (*resident)(const void *state, int32_t field, const void **out_base,
                            size_t *out_stride);
    /* For formats that make samples instead of reading them: writes rows as iter_dataset_ops.get
     * does. It must return OK or an error.
     * Call: NULL = none; worker, iter_dataset_read(), and with keep_rows the creator and up to
     * three helpers (under the load lock); no other lock; several at once; once per group of rows,
     * and after an error once per row of that group; may block. */
    iter_status (*get)(const void *state, uint32_t n, const uint64_t *indices,
                       const iter_tensor *rows, iter_rng *rng, iter_error *err);
    /* Length of the first variable field of sample `index` in elements. If that is unknown before
     * reading, a number that grows with it (bytes of text, say): length buckets go by it.
     * Call: NULL = lengths are unknown; called by a sampler's callback (see iter_sampler_context),
     * so in the thread and under the lock of that callback; several at once; as often as the
     * sampler asks: `bucket` asks up to three times about every sample when a loader is created;
     * must not block. */
    int64_t (*length)(const void *state, uint64_t index);
    /* Writes where a person finds sample `index` in its file, such as "line 17", for messages about
     * samples that failed; "" = the byte at which its first extent begins.
     * Call: NULL = always ""; worker, iter_dataset_read(); no lock;
     * several at once; once per failed row; may block. */
    void (*place)(const void *state, uint64_t index, char *out, size_t capacity);
} iter_format_ops;

/* ---- Decoder: bytes to one tensor ------------------------------------------------------------ */

/** One state per worker and field. A state's calls come one at a time; different states are called
 * at once. iter_dataset_read() makes a state for one row. A field that has a size needs decode(); a
 * field of any size needs header() and decode_image(). */
struct iter_decoder_ops {
    iter_ops base; /* it has no options: the format passes them in `shared` */
    /* Call: NULL = nothing to do; creator (for all workers, before they run), iter_dataset_read();
     * no lock; once per state; may block. */
    iter_status (*start)(void *state, const void *shared, iter_error *err);
    /* Call: NULL = nothing to do; releaser, iter_dataset_read(); no lock; once, if start()
     * succeeded; may block. */
    void (*stop)(void *state);
    /* Writes one row into out->data. out->desc is the field's; 64-byte alignment is not promised.
     * If dims[0] is variable, it sets out->desc.dims[0] to this sample's length. It must not
     * allocate in steady state. Errors: EFORMAT (the bytes are wrong), ENOMEM. OK with a message in
     * err is a warning: the row is used, and the loader counts the warning.
     * Call: required if the field has a size; worker, iter_dataset_read(); no lock; once per row;
     * may block. */
    iter_status (*decode)(void *state, const void *shared, const uint8_t *bytes, size_t size,
                          iter_tensor *out, iter_error *err);
    /* For images of any size: the field is u8 [ITER_VARIABLE, ITER_VARIABLE, C] "HWC", capacity 0.
     * Sets out->dims[0] and [1] to this image's height and width, from its first bytes. Errors:
     * EFORMAT (with the reason), ENOMEM (more than the format's max-pixels).
     * Call: required with decode_image; worker, iter_dataset_read(); no lock; once per row; may
     * block. */
    iter_status (*header)(void *state, const void *shared, const uint8_t *bytes, size_t size,
                          iter_desc *out, iter_error *err);
    /* Writes exactly the wished part to dense out->data, or passes its rows to wish->rows. If the
     * wish allows a smaller size, it sets out->desc.dims[0] and [1] to the size that came. It must
     * work whether or not header() was called for the same bytes before. Errors: as header().
     * Call: required with header; worker, iter_dataset_read(); no lock; once per row; may block. */
    iter_status (*decode_image)(void *state, const void *shared, const uint8_t *bytes, size_t size,
                                const iter_image_wish *wish, iter_tensor *out, iter_error *err);
    /* The most bytes that the state may hold at a time, for any sample, without `out`. A sample
     * that needs more must fail with ENOMEM and say how much it needs, whatever was decoded before.
     * Call: NULL = it holds next to nothing; creator; no lock; once, right after start(); must not
     * block. */
    void (*limit)(void *state, size_t bytes);
    /* Finds the finished row inside the sample's bytes[size], so that the loader need not call
     * decode() and no copy is made. If the row is there, dense, of `desc` and in one piece, it
     * returns true and sets *out_offset and *out_bytes to the row's place and size. (The size says
     * how long the row is if desc is [ITER_VARIABLE].) If not, it returns false, and decode() is
     * called. The bytes of other fields must come before the row.
     *
     * It must read only the first n_known bytes, because the others may not be in memory yet. If
     * n_known is 0, `bytes` is NULL: it must then predict place and size from `size` alone, so that
     * the row can be read straight into the batch.
     * Call: NULL = always false; worker, creator; no lock; several at once; a few times per row;
     * must not block. */
    bool (*find)(const void *shared, const iter_desc *desc, const uint8_t *bytes, size_t size,
                 size_t n_known, size_t *out_offset, size_t *out_bytes);
};

/* ---- Transform: tensor to tensor ------------------------------------------------------------- */

/** Several stages folded into one pass; see iter_fold_*(). */
typedef struct iter_fold iter_fold;

/** The output of a batch, as a batch stage sees and changes it. */
typedef struct iter_batch_view {
    /* [n_rows, ...]; a stage may lower dims, permute strides, or move data within [data, data +
     * capacity_bytes) */
    iter_tensor tensor;
    int64_t n_rows;
    size_t capacity_bytes;
    const int32_t *lengths; /* [n_rows] if the field is variable, else NULL */
    void *scratch;          /* the bytes that plan_batch() asked for */
} iter_batch_view;

/** A table has the members of one of these kinds:
 *
 *     plan, apply                 a stage that runs by itself
 *     plan, fold_plan             a stage that is folded; fold_sample if samples differ
 *     plan, apply, fold_plan      folded if the size is fixed, applied to images of any size
 *     plan, follow                a stage that follows the images of another field
 *     plan_batch, apply_batch     a batch stage
 *     adds_lengths                a batch stage that adds a field of lengths
 *
 * Images of any size: when the loader is created, plan() gets dims {ITER_VARIABLE, ITER_VARIABLE,
 * C}, capacity 0. For each sample plan() is called again, with the size that apply() then gets. If
 * the stage has wish(), plan() is called again for each sample even if all images have one size. A
 * dimension that the first call fixed must be the same in all later calls.
 *
 * A state belongs to one worker and one place in the chain; only apply() and *_rows() have one.
 * Options are shared by all threads. */
typedef struct iter_transform_ops {
    iter_ops base;
    /* iter_role of the field it works on if `field=` is not given: the first of that role */
    int32_t role;
    /* Pure: output shape and scratch bytes, or an error with the reason; the library adds the
     * stage. A variable first dimension stays variable unless the stage fixes it.
     * Call: required with apply or fold_plan; creator, and a worker if the image has any size or
     * the stage has wish(); no lock; several at once; the creator calls it once or more, a worker
     * once per row; must not block. */
    iter_status (*plan)(const void *options, const iter_desc *in, iter_desc *out,
                        size_t *out_scratch, iter_error *err);
    /* Call: NULL = nothing to do; creator (for all workers, before they run); no lock; once per
     * state; may block. A folded stage has no state, so it is not called. */
    iter_status (*start)(void *state, const void *options, iter_error *err);
    /* Call: NULL = nothing to do; releaser; no lock; once, if start() succeeded; may block. */
    void (*stop)(void *state);
    /* Makes one row. It must not allocate or take locks; its only randomness is `rng`. `in` and
     * `out` are dense and never overlap. in->data may have any address, so load elements by
     * memcpy(); it must not be written. out->data is aligned to its element, scratch to 64 bytes.
     * If a dimension is variable, in->desc.dims[0] is this row's length, and apply() must set
     * out->desc.dims[0], 0 to out->desc.capacity; else it must leave out->desc as it is.
     * Call: required unless the stage is folded or a batch stage; worker; no lock; once per row,
     * several rows at once with different states; it may block, but each microsecond counts. */
    iter_status (*apply)(void *state, const void *options, const iter_tensor *in, iter_tensor *out,
                         iter_rng *rng, void *scratch, iter_error *err);
    /* begin_rows and take_rows replace apply() if an image of any size can be transformed while it
     * is decoded. The result must have the same bits. begin_rows: as iter_image_rows.begin();
     * in->data is NULL; out and scratch stay valid until the last row. If the decoder fails
     * halfway, the rest of the image does not come.
     * Call: NULL for both = apply() alone; worker, within decode_image(); no lock; at most once per
     * row; must not block. */
    size_t (*begin_rows)(void *state, const void *options, const iter_tensor *in, iter_tensor *out,
                         void *scratch);
    /* The next n rows of the image. Returns how many rows of out (along its H) are finished so far.
     * Call: as begin_rows, but once per group of rows. */
    int64_t (*take_rows)(void *state, const uint8_t *const *rows, int32_t n);
    /* The part of the image `in` (HWC) that apply() needs, drawn from rng. apply() then gets only
     * that part, as a dense tensor. Its rng continues from the state in which this call left rng.
     * Call: NULL = all of the image; worker; no lock; several at once; once per row; must not
     * block. */
    void (*wish)(const void *options, const iter_desc *in, iter_rng *rng, iter_image_wish *out);
    /* For foldable stages, what is the same for every sample: iter_fold_affine, _cast, _layout,
     * _table, and the output size of the geometry. Pure.
     * Call: NULL = the stage is not foldable; creator; no lock; several times per loader; must not
     * block. */
    iter_status (*fold_plan)(const void *options, iter_fold *fold, iter_error *err);
    /* What differs from sample to sample: iter_fold_crop, _flip, _cutout, _table. The stages of a
     * fold are called in the same order as in plan.
     * Call: NULL = nothing differs; worker; no lock; several at once; once per row; must not
     * block. */
    void (*fold_sample)(const void *options, iter_fold *fold, iter_rng *rng);
    /* For batch stages: changes `desc`, which has the batch dimension first.
     * Call: required with apply_batch; creator; no lock; once or more per loader; must not
     * block. */
    iter_status (*plan_batch)(const void *options, iter_desc *desc, size_t *out_scratch,
                              iter_error *err);
    /* Changes one field of a batch. It has no state.
     * Call: NULL = no batch stage; the worker that made the batch's last row; no lock; several
     * batches at once; once per batch; may block. */
    iter_status (*apply_batch)(const void *options, iter_batch_view *view, iter_error *err);
    /* 1 = a batch stage that adds a field i32 [N] with the lengths of a variable one. Its option
     * `name` must be the first member of its options struct. */
    int32_t adds_lengths;
    /* 1 = a batch stage that fills up rows of different lengths. On such a field it must be the
     * first batch stage. */
    int32_t fills_rows;
    /* Makes one row as apply() does, knowing the way that this sample's image took: that of the
     * dataset's first field of images, with the same random numbers. The image itself need not be
     * made first.
     * Call: required unless the stage is of another kind; worker; no lock; once per row, several
     * rows at once with different states; must not block. */
    iter_status (*follow)(void *state, const void *options, const iter_tensor *in, iter_tensor *out,
                          const iter_image_view *view, iter_error *err);
} iter_transform_ops;

typedef enum iter_edge {
    ITER_EDGE_CONSTANT = 0,
    ITER_EDGE_REFLECT = 1,
    ITER_EDGE_REPLICATE = 2
} iter_edge;

/** Current shape inside a fold: height, width and channels of an image. A dimension that it lacks
 * is 1. */
ITER_API void iter_fold_size(const iter_fold *fold, int64_t *out_height, int64_t *out_width,
                             int64_t *out_channels);
/** Element type at this point of the fold. */
ITER_API iter_dtype iter_fold_dtype(const iter_fold *fold);
/** Geometry: in plan (with any offsets) and per sample. Offsets are pixels of the current shape.
 * Values are in current units; a sample's must be one that the same stage named in plan. Within one
 * stage geometry must come before values, type and layout. */
ITER_API void iter_fold_crop(iter_fold *fold, int64_t y, int64_t x, int64_t height, int64_t width);
ITER_API void iter_fold_pad(iter_fold *fold, int64_t top, int64_t left, int64_t bottom,
                            int64_t right, iter_edge edge, double value);
ITER_API void iter_fold_flip(iter_fold *fold, int vertical, int horizontal);
ITER_API void iter_fold_cutout(iter_fold *fold, int64_t y, int64_t x, int64_t height, int64_t width,
                               double value);
/** Values: table[x] for each x; elements must be u8. If the stage has no fold_sample(), the table
 * given in fold_plan() applies to every sample. If it has fold_sample(), fold_plan() must still
 * give a table, but no sample uses it: only the table given in fold_sample() applies. Neighbouring
 * tables join into one; a table after arithmetic or a cast begins a second pass over the row. */
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
    /* Length of a sample, by the dataset's own length(). It may be called in any callback of the
     * sampler, until close(). NULL = lengths are unknown. */
    int64_t (*length)(const void *user, uint64_t index);
    const void *length_user;
    /* The parts of the dataset, until close(). NULL = it has none, or a subset of it is used. */
    const iter_part *parts;
    int32_t n_parts;
    /* Writes the integer labels of samples first + i to out[i], i < n. `field` is the name of a
     * field of one integer a sample; NULL = the first one with the role of a label. Labels in
     * memory or in the format's index cost next to nothing. Others are read, several at once, so
     * ask for many at a time. It may be called in open() alone, and it blocks. NULL = a stream.
     * Errors: EINVAL (there is no such field; it has no integers), those of reading and decoding;
     * the message names the sample. */
    iter_status (*labels)(const void *user, const char *field, uint64_t first, uint64_t n,
                          int64_t *out, iter_error *err);
    const void *labels_user;
} iter_sampler_context;

/** How samples that come together lie in the dataset. */
typedef struct iter_locality {
    int32_t in_order; /* 1 = neighbours in the dataset come one after the other */
    /* If block > 0, the sampler cuts the dataset into blocks of `block` consecutive samples and
     * takes `group` whole blocks at a time. The samples of these blocks come in any order, but all
     * of them before any sample of the next group. The loader therefore reads whole blocks, one
     * group ahead. block * group must be below 2^32. */
    uint64_t block, group;
} iter_locality;

/** Samples of a dataset that is by_epoch (see iter_description). */
typedef enum iter_sampler_epochs {
    ITER_EPOCHS_FIRST = 0, /* those of epoch 0, in every epoch: an order that stays as it is */
    ITER_EPOCHS_LOADER,    /* those of the loader's epoch: an order that is new in each */
    ITER_EPOCHS_OWN        /* pure: index() adds an epoch to each sample, as get() wants it */
} iter_sampler_epochs;

/** One state per loader. A pure sampler has length and index; a sequential one has begin and
 * next_batch. Calls of one state come one at a time. A call that blocks stops the supply of
 * batches; see the head of this file for what goes on meanwhile. */
typedef struct iter_sampler_ops {
    iter_ops base;
    /* Messages of open, begin and next_batch give the reason; the library adds the sampler.
     * Call: required; creator; no lock; once; may block. */
    iter_status (*open)(void *state, const void *options, const iter_sampler_context *context,
                        iter_error *err);
    /* Call: NULL = nothing to do; releaser; no lock; once, if open() succeeded; may block. */
    void (*close)(void *state);
    /* Pure: samples in every epoch; ITER_UNKNOWN only for sequential order over a stream.
     * Call: required with index; creator; no lock; once, right after open(); may block. */
    uint64_t (*length)(const void *state);
    /* Pure: out[i] = sample at position + i of `epoch`, i < n; position + n <= length. Every rank
     * must get the same answer.
     * Call: required with length; worker; sampler lock; once or more per batch, once per sample
     * that replaces a failed one, and to read ahead if locality() set `block` or, for files at
     * URLs, `in_order`; may block. Before that the creator calls it under no lock, for a few rows
     * that enter saved positions. */
    void (*index)(void *state, uint32_t epoch, uint64_t position, uint32_t n, uint64_t *out);
    /* Sequential: starts `epoch` from its beginning.
     * Call: required with next_batch; worker, and iter_loader_restore() before restore(); sampler
     * lock; each time an epoch starts, and once per restore; may block. */
    iter_status (*begin)(void *state, uint32_t epoch, iter_error *err);
    /* Sequential: up to `capacity` samples of the next global batch; *out_n = 0 at the epoch's end.
     * Call: required with begin; worker; sampler lock; once per batch; may block. If there is no
     * restore(), also once for each batch of the epoch that comes before a restored position. */
    iter_status (*next_batch)(void *state, uint32_t capacity, uint64_t *out, uint32_t *out_n,
                              iter_error *err);
    /* Sequential: the state after a batch, as at most 256 bytes. If it fails, the position after
     * that batch is restored by drawing again.
     * Call: NULL (then restore must be NULL, too) = every position is restored by drawing again;
     * worker; sampler lock; once per batch, right after next_batch(); may block. */
    iter_status (*save)(const void *state, void *out, size_t capacity, size_t *out_size);
    /* Sequential: goes back to a saved state, in the epoch that begin() has just started.
     * Call: NULL = as for save; iter_loader_restore(); sampler lock; once per
     * iter_loader_restore(), after begin(); may block. */
    iter_status (*restore)(void *state, const void *saved, size_t size);
    /* Writes into `options` the value that a default has in this context (a unit of 0 becomes
     * batch_size). Saved positions are bound to the options after this call, so two loaders that
     * would order samples differently refuse each other's.
     * Call: NULL = no default depends on the context; creator; no lock; once, before open(); may
     * block. */
    void (*resolve)(void *options, const iter_sampler_context *context);
    /* Pure: how its samples lie; *out is zero before the call. A wrong answer makes reading slower,
     * and nothing else.
     * Call: NULL = nothing is known; creator; no lock; once, after open(); may block. */
    void (*locality)(const void *state, iter_locality *out);
    /* Pure: a hash of whatever decides the samples before this place: it takes the place of the
     * options in what a saved position is bound to. So a position can be restored with options that
     * differ in what comes after it.
     * Call: NULL = a position is bound to all options; save and restore, in any thread; loader lock
     * in save, none in restore; once each; must not block. */
    uint64_t (*history)(const void *state, uint32_t epoch, uint64_t position);
    /* Which samples of a dataset that is by_epoch it draws; with a subset always the first. */
    iter_sampler_epochs epochs;
} iter_sampler_ops;

/* ---- A user's own dataset -------------------------------------------------------------------- */

/** If no stage of the chain works on a field, get() and next() write its rows straight into the
 * batch. */
typedef struct iter_dataset_ops {
    size_t struct_size;
    const char *name; /* for messages and statistics */
    /* Fills `out`: fields without extents or decoders; n_samples or ITER_UNKNOWN.
     * Call: required; iter_dataset_create(); no lock; once; may block. */
    iter_status (*describe)(void *user, iter_description *out, iter_error *err);
    /* Makes one worker's state. If it fails, iter_loader_next() returns its error.
     * Call: NULL (then stop must be NULL, too) = get() receives NULL as its state; each worker in
     * its own thread (with `workers` 0: the creator), iter_dataset_read(); no lock; several at
     * once; once per state; may block. */
    iter_status (*start)(void *user, void **out_state, iter_error *err);
    /* Call: as start, in the same thread; with `workers` 0: the releaser. */
    void (*stop)(void *user, void *state);
    /* Writes samples indices[0..n): row i of field f goes to rows[f].data + i * rows[f].strides[0]
     * elements. rows[f].desc is [n, ...]; iter_rows_set_length() sets the lengths of a variable
     * field. rng[i] belongs to sample i. It must return OK or an error, with the reason in
     * err->message. After an error it is called once per row of the group to find the sample.
     * ENOMEM means that the process lacks memory: the batch then fails, whatever on_error is.
     * Call: required unless the dataset is a stream; worker, iter_dataset_read(); turn lock, but if
     * the table has start() or `parallel` is 1, no lock and several at once; once per group of
     * rows; may block. It must not call iter_dataset_read() on its own dataset. */
    iter_status (*get)(void *user, void *state, uint32_t n, const uint64_t *indices,
                       const iter_tensor *rows, iter_rng *rng, iter_error *err);
    /* Streams: writes the next n samples in order; *out_n < n only at the end.
     * Call: required for streams; worker; turn lock; once per group of rows; may block. */
    iter_status (*next)(void *user, uint32_t n, const iter_tensor *rows, uint32_t *out_n,
                        iter_error *err);
    /* Streams: goes back to the first sample.
     * Call: NULL = epochs after the first are empty; worker; turn lock; once per epoch, before its
     * first next(); may block. */
    iter_status (*rewind)(void *user, iter_error *err);
    /* Length of the first variable field of a sample, in elements, before it is read.
     * Call: NULL = unknown; otherwise as iter_format_ops.length. */
    int64_t (*length)(const void *user, uint64_t index);
    /* Call: NULL = nothing to do; the thread that drops the last reference to the dataset; no lock;
     * once; may block. */
    void (*close)(void *user);
    /* 1 = get may run in several workers at once although there is no start(). With start() it
     * always may. The loader's plan says how many workers can be busy. */
    int32_t parallel;
} iter_dataset_ops;

/** In get() and next(): row i of the variable field f has this many elements along its first
 * dimension. */
ITER_API void iter_rows_set_length(const iter_tensor *rows, int32_t field, uint32_t i,
                                   int64_t length);

ITER_END_DECLS

#endif

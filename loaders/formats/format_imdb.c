/*
 * format_imdb.c - the Large Movie Review Dataset: one text file a review, in the folders SPLIT/neg
 * and SPLIT/pos, and a word list beside them.
 *
 * A sample is one whole file. Opening reads the folders and asks for every file's size (the memory
 * of a batch depends on the largest), but opens no file. Samples come in a fixed order: neg before
 * pos, names sorted as bytes, so that an index means the same review everywhere. The folder is the
 * label.
 *
 * The word list is Keras' imdb_word_index.json, or, if vocab= asks for it, the set's own
 * imdb.vocab, a word a line.
 *
 * Source: A. Maas et al., "Learning Word Vectors for Sentiment Analysis", ACL 2011, and the README
 * of aclImdb.
 */
#include <inttypes.h>
#include <string.h>

#include <iter/option_rows.h>

#include "iter/core/alloc.h"
#include "iter/core/error.h"
#include "iter/core/hash.h"
#include "loaders/decoders/decode_text.h"
#include "loaders/files/file.h"
#include "loaders/files/file_set.h"

#define FOLDERS_MAX      4
#define INDEX_BYTES_MAX  ((uint64_t)1 << 30)
#define REVIEW_BYTES_MAX ((uint64_t)1 << 30)

typedef enum split { ITER_IMDB_TRAIN, ITER_IMDB_TEST, ITER_IMDB_ALL } split;

typedef struct imdb_options {
    int32_t split;
    const char *index;
    const char *vocab;
    iter__text_rule rule;
} imdb_options;

static const iter_option option_rows[] = {
    ITER_ROW_CHOICE_AT("split", "which reviews", imdb_options, split, "train|test|all", 1),
    ITER_ROW_STRING("index",
                    "word list, JSON {\"word\": rank}; default: imdb_word_index.json in the folder "
                    "or beside it",
                    imdb_options, index, 0),
    ITER_ROW_STRING("vocab",
                    "word list, a word a line, instead of index; looked for in the folder too",
                    imdb_options, vocab, 0),
    ITER_ROW_INT("num-words", "ids from here on become oov; 0 = no limit", imdb_options,
                 rule.num_words, 0, INT32_MAX, 0),
    ITER_ROW_INT("index-from", "added to a word's rank", imdb_options, rule.index_from, 0,
                 INT32_MAX, 0),
    ITER_ROW_INT("start", "id before the first word; -1 = none", imdb_options, rule.start, -1,
                 INT32_MAX, 0),
    ITER_ROW_INT("oov", "id of unknown words; -1 = they are left out", imdb_options, rule.oov, -1,
                 INT32_MAX, 0),
    ITER_ROW_INT("maxlen", "ids a review; 0 = as many as it has", imdb_options, rule.maxlen, 0,
                 1 << 24, 0),
    ITER_ROW_INT("pad", "id that fills up a short review", imdb_options, rule.pad, INT32_MIN,
                 INT32_MAX, 0),
    ITER_ROW_CHOICE("side", "which end of a long review is kept", imdb_options, rule.keep_first,
                    "last|first"),
    ITER_ROW_CHOICE("pad-side", "where a short review is filled up", imdb_options, rule.pad_first,
                    "post|pre"),
    ITER_ROW_END,
};

static const imdb_options defaults = {
    .rule = {.num_words = 30000, .index_from = 3, .start = 1, .oov = 2, .maxlen = 150, .pad = 0},
};

/* One folder's files; they follow each other in state.reviews. */
typedef struct imdb_folder {
    uint64_t end; /* the sample after its last one */
    uint8_t label;
} imdb_folder;

typedef struct imdb_state {
    iter__text text;
    iter__file_set reviews;
    int n_folders;
    imdb_folder folders[FOLDERS_MAX];
} imdb_state;

static const char *const class_names[] = {"neg", "pos"};

static void imdb_close(void *state) {
    imdb_state *s = state;
    iter__file_set_free(&s->reviews);
    iter__vocab_free(&s->text.vocab);
    memset(s, 0, sizeof(*s));
}

/* ---- the reviews ----------------------------------------------------------------------------- */

static iter_status fail_os(iter_error *err, const char *path, int os_error) {
    char text[128];
    return iter__fail(err, ITER_EIO, "%s: %s", path, iter__os_error(os_error, text, sizeof(text)));
}

static bool is_review(const char *name) {
    const size_t length = strlen(name);
    return name[0] != '.' && length > 4 && strcmp(name + length - 4, ".txt") == 0;
}

typedef struct folder_reviews {
    imdb_state *s;
    const char *folder;
} folder_reviews;

static iter_status add_review(void *user, const iter__entry *entry, iter_error *err) {
    const folder_reviews *f = user;
    if (!is_review(entry->name)) return ITER_OK;
    const char *path = iter__file_set_text(&f->s->reviews, f->folder, entry->name);
    if (!path) return iter__fail(err, ITER_ENOMEM, "%s: no memory for its list", f->folder);
    if (entry->kind == ITER_ENTRY_FOLDER)
        return iter__fail(err, ITER_EIO, "%s: is a directory, expected a review", path);
    if (entry->kind == ITER_ENTRY_OTHER && entry->reason) return fail_os(err, path, entry->reason);
    if (entry->kind == ITER_ENTRY_OTHER)
        return iter__fail(err, ITER_EIO, "%s: is not a regular file", path);
    if (entry->bytes > REVIEW_BYTES_MAX) {
        return iter__fail(err, ITER_EFORMAT,
                          "%s: has %" PRIu64 " bytes, a review has at most %" PRIu64, path,
                          entry->bytes, REVIEW_BYTES_MAX);
    }
    return iter__file_set_add(&f->s->reviews, path, entry->bytes, err);
}

/* Appends the reviews of one folder, sorted. */
static iter_status add_folder(imdb_state *s, const char *folder, uint8_t label, iter_error *err) {
    const uint64_t first = s->reviews.n;
    folder_reviews f = {s, folder};
    ITER_TRY(iter__folder_list(folder, add_review, &f, err));
    if (s->reviews.n == first)
        return iter__fail(err, ITER_EFORMAT, "%s: has no review, no file *.txt", folder);
    iter__file_set_sort(&s->reviews, first);
    s->folders[s->n_folders++] = (imdb_folder){s->reviews.n, label};
    return ITER_OK;
}

static iter_status add_reviews(imdb_state *s, const char *path, split which, iter_error *err) {
    static const char *const splits[] = {"train", "test"};
    const int begin = which == ITER_IMDB_TEST ? 1 : 0, end = which == ITER_IMDB_TRAIN ? 1 : 2;
    for (int i = begin; i < end; i++) {
        for (uint8_t label = 0; label < 2; label++) {
            char *folder = iter__strf("%s/%s/%s", path, splits[i], class_names[label]);
            if (!folder) return iter__fail(err, ITER_ENOMEM, "%s: no memory for a name", path);
            const iter_status status = add_folder(s, folder, label, err);
            iter__free(folder);
            ITER_TRY(status);
        }
    }
    return ITER_OK;
}

/* ---- the word list --------------------------------------------------------------------------- */

static iter_status no_memory(iter_error *err, const char *path) {
    return iter__fail(err, ITER_ENOMEM, "%s: no memory for a file name", path);
}

/* `file` itself, or the one in the set's folder if only that exists. */
static iter_status find_given(const char *path, const char *file, char **out, iter_error *err) {
    *out = iter__path_exists(file) ? NULL : iter__path_join(path, file);
    if (*out && !iter__path_exists(*out)) {
        iter__free(*out);
        *out = NULL;
    }
    if (!*out) *out = iter__strdup(file);
    return *out ? ITER_OK : no_memory(err, path);
}

/* Finds Keras' index beside the folder or in it. */
static iter_status find_index(const char *path, char **out, iter_error *err) {
    static const char *const places[] = {"../imdb_word_index.json", "imdb_word_index.json"};
    for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
        *out = iter__path_join(path, places[i]);
        if (!*out) return no_memory(err, path);
        if (iter__path_exists(*out)) return ITER_OK;
        iter__free(*out);
        *out = NULL;
    }
    return iter__fail(err, ITER_EIO,
                      "%s: no imdb_word_index.json in it or beside it; name one by index=FILE, or "
                      "use vocab=imdb.vocab",
                      path);
}

static iter_status load_words(imdb_state *s, const char *path, const imdb_options *o,
                              iter_error *err) {
    char *file = NULL, *text = NULL;
    size_t bytes = 0;
    if (o->index && o->vocab)
        return iter__fail(err, ITER_EINVAL, "index and vocab are both given, one is needed");
    const char *given = o->index ? o->index : o->vocab;
    ITER_TRY(given ? find_given(path, given, &file, err) : find_index(path, &file, err));
    iter_status status = iter__file_load(file, INDEX_BYTES_MAX, &text, &bytes, err);
    if (status == ITER_OK) {
        status = o->vocab ? iter__text_load_list(&s->text, text, bytes, file, err)
                          : iter__text_load_index(&s->text, text, bytes, file, err);
    }
    iter__free(text);
    iter__free(file);
    return status;
}

/* ---- the description ------------------------------------------------------------------------- */

static uint64_t identity_of(const imdb_state *s) {
    const iter__text_rule *r = &s->text.rule;
    const int64_t numbers[] = {r->num_words, r->index_from, r->start,      r->oov,
                               r->maxlen,    r->pad,        r->keep_first, r->pad_first};
    uint64_t hash = iter__fnv1a_text(ITER_FNV_START, "imdb");
    hash = iter__fnv1a(hash, numbers, sizeof(numbers));
    hash = iter__fnv1a_u64(hash, iter__vocab_identity(&s->text.vocab));
    for (uint64_t i = 0; i < s->reviews.n; i++) {
        hash = iter__fnv1a_text(hash, iter__path_base(s->reviews.files[i].path));
        hash = iter__fnv1a_u64(hash, s->reviews.files[i].bytes);
    }
    for (int i = 0; i < s->n_folders; i++)
        hash = iter__fnv1a_u64(hash, s->folders[i].end);
    return hash;
}

static void fill_description(const imdb_state *s, split which, iter_description *out) {
    static const char *const splits[] = {"train", "test", "all"};
    const int64_t maxlen = s->text.rule.maxlen;
    iter_field *data = &out->fields[0], *label = &out->fields[1];

    memset(data, 0, sizeof(*data));
    strcpy(data->name, "data");
    data->role = ITER_DATA;
    data->desc = (iter_desc){.dtype = ITER_I32, .n_dims = 1, .layout = "T"};
    data->desc.dims[0] = maxlen ? maxlen : ITER_VARIABLE;
    if (maxlen == 0) data->desc.capacity = iter__text_most_ids(&s->text.rule, s->reviews.largest);
    if (data->desc.capacity == 0 && maxlen == 0) data->desc.capacity = 1; /* all files are empty */
    data->decoder = &iter__decoder_text;

    memset(label, 0, sizeof(*label));
    strcpy(label->name, "label");
    label->role = ITER_LABEL;
    label->desc.dtype = ITER_U8;
    label->extent = ITER_FROM_INDEX;
    label->limit = 2;

    out->n_fields = 2;
    out->n_samples = s->reviews.n;
    out->n_extents = 1;
    out->max_extent_bytes[0] = s->reviews.largest;
    out->files = s->reviews.files;
    out->n_files = s->reviews.n;
    out->class_names = class_names;
    out->n_classes = 2;
    out->split = splits[which];
    out->shared = &s->text;
    out->identity = identity_of(s);
}

/* ---- callbacks ------------------------------------------------------------------------------- */

static iter_status imdb_open(void *state, const char *path, const void *options,
                             iter_description *out, iter_error *err) {
    imdb_state *s = state;
    const imdb_options *o = options;
    s->text.rule = o->rule;
    iter_status status = add_reviews(s, path, (split)o->split, err);
    if (status == ITER_OK) status = load_words(s, path, o, err);
    if (status < 0) {
        imdb_close(s);
        return status;
    }
    fill_description(s, (split)o->split, out);
    return ITER_OK;
}

static void imdb_locate(const void *state, uint64_t index, iter_extent *out) {
    const imdb_state *s = state;
    *out = (iter_extent){index, 0, s->reviews.files[index].bytes};
}

static void imdb_index_row(const void *state, uint64_t index, int32_t field, void *row) {
    const imdb_state *s = state;
    (void)field; /* the label is the only one */
    int i = 0;
    while (index >= s->folders[i].end)
        i++;
    *(uint8_t *)row = s->folders[i].label;
}

/* The length for buckets. The number of ids is known only after the review is read; its bytes grow
 * with them. */
static int64_t imdb_length(const void *state, uint64_t index) {
    const imdb_state *s = state;
    return s->text.rule.maxlen ? s->text.rule.maxlen : (int64_t)s->reviews.files[index].bytes;
}

const iter_format_ops iter__format_imdb = {
    .base = {.struct_size = sizeof(iter_format_ops),
             .name = "imdb",
             .help = "Large Movie Review Dataset: the aclImdb folder, as ids of words",
             .options = option_rows,
             .defaults = &defaults,
             .options_size = sizeof(imdb_options),
             .state_size = sizeof(imdb_state)},
    .open = imdb_open,
    .close = imdb_close,
    .locate = imdb_locate,
    .index_row = imdb_index_row,
    .length = imdb_length,
};

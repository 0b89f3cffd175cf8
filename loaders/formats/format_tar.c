/*
 * format_tar.c - tar archives as WebDataset lays them out: the files of one sample are neighbours
 * and share their name up to its first dot; the rest after the dot is the field.
 *
 * A sample's extent goes from its first header to the next sample's: one read brings all its
 * fields, and the index needs 8 bytes a sample. A tar archive has no index, so opening walks
 * through all headers, unless index-cache= keeps an index. Without fields= the first sample
 * decides: its image is "data", its .cls is "label".
 *
 * If an archive begins with files that have none of the fields (a README, a description of the
 * set), they are no sample. After the first sample every file belongs to one: a sample without its
 * fields is damage that must be seen. A hard link counts as a member, so that its sample fails and
 * is not lost.
 *
 * Source: WebDataset, tariterators.py (base_plus_ext, group_by_keys); tar.h names the archive's.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include <iter/option_rows.h>

#include "iter/core/alloc.h"
#include "iter/core/error.h"
#include "iter/core/hash.h"
#include "loaders/decoders/decode_tar.h"
#include "loaders/files/tar.h"
#include "loaders/files/window.h"
#include "loaders/formats/index_cache.h"
#include "loaders/formats/span_set.h"

#define IMAGES   ITER_IMAGE_ENDINGS
#define INTEGERS "cls;cls2;class;count;index;inx;id"

typedef struct tar_options {
    iter_image_options image;
    const char *fields;
    int32_t index_cache;
} tar_options;

static const iter_option option_rows[] = {
    ITER_ROW_STRING("fields",
                    "what a sample is made of, by endings, between ','; a;b = either; json:KEY = a "
                    "number in it",
                    tar_options, fields, 0),
    ITER_INDEX_OPTION_ROW(tar_options, index_cache),
    ITER_IMAGE_OPTION_ROWS(tar_options, image),
    ITER_ROW_END,
};

static const tar_options defaults = {.image = ITER_IMAGE_OPTIONS_INIT};

typedef struct tar_state {
    iter__tar_rule rule;
    iter__span_set samples;
    char *fields; /* the text that the rules point into */
    char names[ITER_MAX_FIELDS][ITER_NAME_MAX];
    uint64_t largest[ITER_MAX_FIELDS]; /* bytes of its members */
} tar_state;

/* Facts about an archive beside the places of its samples. */
typedef struct found {
    uint64_t n_samples;
    bool has_image, has_class; /* the first sample has them */
    bool has_others;           /* some files have endings that no sample has */
    uint64_t largest[ITER_MAX_FIELDS];
} found;

/* The walk through one archive. */
typedef struct walk {
    iter__span_set *samples;
    iter__tar tar;
    iter__window window;
    char key[ITER_TAR_NAME_MAX]; /* of the current sample; "" = none yet */
    uint64_t start;              /* of the current sample */
    found here;
} walk;

static void tar_close(void *state) {
    tar_state *s = state;
    iter__span_set_free(&s->samples);
    iter__free(s->fields);
    memset(s, 0, sizeof(*s));
}

/* ---- fields ---------------------------------------------------------------------------------- */

/* "jpg" of "left.jpg": the kind of the member. */
static const char *last_part(const char *ending) {
    const char *dot = strrchr(ending, '.');
    return dot ? dot + 1 : ending;
}

static iter_status add_field(tar_state *s, char *text, iter_error *err) {
    iter__tar_rule *rule = &s->rule;
    if (rule->n_fields == ITER_MAX_FIELDS)
        return iter__fail(err, ITER_EINVAL, "fields= names more than %d", ITER_MAX_FIELDS);
    iter__tar_field_rule *field = &rule->fields[rule->n_fields];
    *field = (iter__tar_field_rule){.endings = text};
    char *colon = strchr(text, ':');
    char first[ITER_NAME_MAX];
    snprintf(first, sizeof(first), "%.*s", (int)strcspn(text, ";"), text);
    const char *name = first;
    if (colon) {
        *colon = '\0';
        field->kind = ITER_TAR_JSON;
        field->json = name = colon + 1;
        if (strcasecmp(text, "json") != 0 || !*name)
            return iter__fail(err, ITER_EINVAL, "fields=: '%s:%s' is not json:KEY", text, name);
    } else if (iter__tar_match(IMAGES, last_part(first)) >= 0) {
        field->kind = ITER_TAR_IMAGE;
    } else if (iter__tar_match(INTEGERS, last_part(first)) >= 0) {
        field->kind = ITER_TAR_INTEGER;
    } else {
        field->kind = ITER_TAR_BYTES;
    }
    if (!*text || strlen(name) >= ITER_NAME_MAX) {
        return iter__fail(err, ITER_EINVAL, "fields=: the name '%s' must have 1 to %d letters",
                          name, ITER_NAME_MAX - 1);
    }
    /* the first image is the data, the first class the label */
    const char *usual = field->kind == ITER_TAR_IMAGE     ? "data"
                        : field->kind == ITER_TAR_INTEGER ? "label"
                                                          : NULL;
    for (int32_t f = 0; f < rule->n_fields && usual; f++) {
        if (strcmp(s->names[f], usual) == 0) usual = NULL;
    }
    snprintf(s->names[rule->n_fields++], ITER_NAME_MAX, "%s", usual ? usual : name);
    return ITER_OK;
}

/* Cuts the text at its commas and adds a field for each part. */
static iter_status read_fields(tar_state *s, const char *text, iter_error *err) {
    s->fields = iter__strdup(text);
    if (!s->fields) return iter__fail(err, ITER_ENOMEM, "no memory for the names of fields");
    for (char *p = s->fields; p;) {
        char *comma = strchr(p, ',');
        if (comma) *comma++ = '\0';
        ITER_TRY(add_field(s, p, err));
        p = comma;
    }
    return ITER_OK;
}

/* ---- the samples ----------------------------------------------------------------------------- */

static iter_status bytes_of_file(void *user, uint64_t offset, size_t n, const uint8_t **out,
                                 size_t *out_n, iter_error *err) {
    return iter__window_at(user, offset, n, out, out_n, err);
}

/* Whether samples have this field, or may have it. */
static bool is_wanted(const tar_state *s, const char *field) {
    if (s->rule.n_fields == 0)
        return iter__tar_match(IMAGES, field) >= 0 || strcasecmp(field, "cls") == 0;
    for (int32_t f = 0; f < s->rule.n_fields; f++)
        if (iter__tar_match(s->rule.fields[f].endings, field) >= 0) return true;
    return false;
}

/* Notes this field of a sample's member in w->here. */
static void book_member(const tar_state *s, walk *w, const char *field) {
    found *here = &w->here;
    if (here->n_samples == 1) {
        here->has_image |= iter__tar_match(IMAGES, field) >= 0;
        here->has_class |= strcasecmp(field, "cls") == 0;
    }
    for (int32_t f = 0; f < s->rule.n_fields; f++) {
        if (w->tar.size > here->largest[f] &&
            iter__tar_match(s->rule.fields[f].endings, field) >= 0)
            here->largest[f] = w->tar.size;
    }
}

/* Handles the current member: the next one of a sample, the first of one, or of none. */
static iter_status add_member(const tar_state *s, walk *w, iter_error *err) {
    size_t n_key = 0;
    const char *field =
        w->tar.regular || w->tar.link == '1' ? iter__tar_field(w->tar.name, &n_key) : NULL;
    if (!field) return ITER_OK;
    bool begins = strncmp(w->key, w->tar.name, n_key) != 0 || w->key[n_key] != '\0';
    if (begins) {
        memcpy(w->key, w->tar.name, n_key);
        w->key[n_key] = '\0';
        w->start = w->tar.start;
    }
    if (w->here.n_samples == 0) {
        if (!is_wanted(s, field)) { /* none of its members is wanted so far */
            w->here.has_others = true;
            return ITER_OK;
        }
        begins = true;
    }
    if (begins) {
        ITER_TRY(iter__span_set_add(w->samples, w->start, err));
        w->here.n_samples++;
    }
    book_member(s, w, field);
    return ITER_OK;
}

static iter_status add_members(const tar_state *s, walk *w, iter_error *err) {
    uint64_t end = 0; /* of the last member */
    for (;;) {
        const iter_status status = iter__tar_next(&w->tar, err);
        if (status < 0) return status;
        if (status == ITER_END) return iter__span_set_end(w->samples, end, err);
        ITER_TRY(add_member(s, w, err));
        end = w->tar.next;
    }
}

static iter_status scan_archive(const tar_state *s, walk *w, iter_error *err) {
    const char *path = w->samples->files[w->samples->n_done].path;
    const uint8_t *p = NULL;
    size_t n = 0;
    w->key[0] = '\0';
    ITER_TRY(iter__window_open(&w->window, path, err));
    iter__file_jumps(&w->window.file); /* headers are far apart */
    iter__tar_open(&w->tar, bytes_of_file, &w->window, w->window.file.bytes);
    iter_status status = iter__window_at(&w->window, 0, 2, &p, &n, err);
    if (status == ITER_OK && n == 2 && p[0] == 0x1f && p[1] == 0x8b) {
        status = iter__fail(err, ITER_EUNSUPPORTED, "%s: is gzipped; unpack it first", path);
    } else if (status == ITER_OK) {
        status = add_members(s, w, err);
        if (status == ITER_EFORMAT || status == ITER_EUNSUPPORTED)
            status = iter__fail_in(err, status, "%s", path);
    }
    iter__window_close(&w->window);
    return status;
}

/* ---- the index that was kept ----------------------------------------------------------------- */

enum { ITER_HAS_IMAGE = 1, ITER_HAS_CLASS = 2, ITER_HAS_OTHERS = 4 };

/* The fields are part of the cache's key: they decide which sample is the first, and which sizes
 * are noted. */
static iter__index_cache new_cache(const tar_state *s) {
    iter__index_cache cache = {.kind = ITER_INDEX_TAR,
                               .options = iter__fnv1a_text(ITER_FNV_START, "fields"),
                               .min_bytes = ITER_TAR_BLOCK,
                               .align = ITER_TAR_BLOCK};
    for (int32_t f = 0; f < s->rule.n_fields; f++)
        cache.options = iter__fnv1a_text(cache.options, s->rule.fields[f].endings);
    return cache;
}

static void put_notes(const tar_state *s, const found *here, uint64_t *notes) {
    int n = 0;
    notes[n++] = (here->has_image ? ITER_HAS_IMAGE : 0u) | (here->has_class ? ITER_HAS_CLASS : 0u) |
                 (here->has_others ? ITER_HAS_OTHERS : 0u);
    for (int32_t f = 0; f < s->rule.n_fields; f++) {
        if (s->rule.fields[f].kind == ITER_TAR_BYTES) notes[n++] = here->largest[f];
    }
}

static void get_notes(const tar_state *s, const uint64_t *notes, found *here) {
    int n = 0;
    here->has_image = notes[n] & ITER_HAS_IMAGE;
    here->has_others = notes[n] & ITER_HAS_OTHERS;
    here->has_class = notes[n++] & ITER_HAS_CLASS;
    for (int32_t f = 0; f < s->rule.n_fields; f++) {
        if (s->rule.fields[f].kind == ITER_TAR_BYTES) here->largest[f] = notes[n++];
    }
}

static iter_status cached_archive(const tar_state *s, walk *w, iter_error *err) {
    iter__index_cache cache = new_cache(s);
    bool there = false;
    iter_status status = iter__index_cache_load(&cache, w->samples, &there, err);
    if (status == ITER_OK && there) {
        const uint64_t *first = w->samples->first + w->samples->n_done;
        get_notes(s, cache.notes, &w->here);
        w->here.n_samples = first[0] - first[-1];
    } else if (status == ITER_OK) {
        status = scan_archive(s, w, err);
        put_notes(s, &w->here, cache.notes);
        if (status == ITER_OK) status = iter__index_cache_save(&cache, w->samples, err);
    }
    iter__index_cache_free(&cache);
    return status;
}

/* ---- all archives ---------------------------------------------------------------------------- */

typedef struct filling {
    const tar_state *state;
    const tar_options *options;
    found *found; /* [n], in each archive */
} filling;

static iter_status add_archive(void *user, iter__span_set *samples, uint64_t f, iter_error *err) {
    const filling *filled = user;
    const iter_file *file = &samples->files[samples->n_done];
    walk *w = iter__alloc(1, sizeof(*w));
    if (!w) return iter__fail(err, ITER_ENOMEM, "%s: no memory to read it", file->path);
    w->samples = samples;
    const bool cached = iter__index_cache_wanted(filled->options->index_cache, file);
    const iter_status status =
        cached ? cached_archive(filled->state, w, err) : scan_archive(filled->state, w, err);
    filled->found[f] = w->here;
    iter__free(w);
    return status;
}

/* Adds what an archive has. The first sample of all is that of the first archive that has any. */
static void add_found(tar_state *s, const found *here, found *all) {
    if (all->n_samples == 0) {
        all->has_image = here->has_image;
        all->has_class = here->has_class;
    }
    all->has_others |= here->has_others;
    all->n_samples += here->n_samples;
    for (int32_t f = 0; f < s->rule.n_fields; f++) {
        if (here->largest[f] > s->largest[f]) s->largest[f] = here->largest[f];
    }
}

/* Takes the fields of the first sample. */
static iter_status usual_fields(tar_state *s, const found *all, iter_error *err) {
    return read_fields(s, !all->has_class ? IMAGES : !all->has_image ? "cls" : IMAGES ",cls", err);
}

/* The error when there are no samples, with the reason. */
static iter_status no_samples(const tar_state *s, const found *all, const char *path,
                              iter_error *err) {
    if (!all->has_others)
        return iter__fail(err, ITER_EFORMAT, "%s: holds no samples, no files with endings", path);
    if (s->rule.n_fields == 0)
        return iter__fail(err, ITER_EINVAL,
                          "%s: its files have neither an image nor .cls among them: name the "
                          "wanted ones by fields=",
                          path);
    return iter__fail(err, ITER_EFORMAT, "%s: fields=: no sample has a member .%s%s", path,
                      s->rule.fields[0].endings,
                      s->rule.n_fields > 1 ? ", nor any other of them" : "");
}

static iter_status add_archives(tar_state *s, const char *path, const tar_options *o,
                                iter_error *err) {
    ITER_TRY(iter__span_set_open(&s->samples, path, ".tar", err));
    if (o->fields) ITER_TRY(read_fields(s, o->fields, err));
    const uint64_t n = s->samples.paths.n;
    filling filled = {.state = s, .options = o};
    found all = {.n_samples = 0};
    filled.found = iter__alloc((size_t)n, sizeof(*filled.found));
    if (!filled.found) return iter__fail(err, ITER_ENOMEM, "%s: no memory for its files", path);
    iter_status status = iter__span_set_fill_all(&s->samples, add_archive, &filled, err);
    for (uint64_t f = 0; f < n; f++)
        add_found(s, &filled.found[f], &all);
    iter__free(filled.found);
    if (status == ITER_OK && iter__span_set_count(&s->samples) == 0)
        status = no_samples(s, &all, path, err);
    if (status == ITER_OK && !o->fields) status = usual_fields(s, &all, err);
    iter__span_set_trim(&s->samples);
    return status;
}

/* ---- the description ------------------------------------------------------------------------- */

static iter_status describe_field(const tar_state *s, int32_t f, iter_field *field,
                                  iter_error *err) {
    const iter__tar_field_rule *rule = &s->rule.fields[f];
    memset(field, 0, sizeof(*field));
    memcpy(field->name, s->names[f], sizeof(field->name));
    field->decoder = iter__decoder_part(f, rule->kind == ITER_TAR_IMAGE);
    field->role =
        rule->kind == ITER_TAR_INTEGER || rule->kind == ITER_TAR_JSON ? ITER_LABEL : ITER_DATA;
    if (rule->kind == ITER_TAR_IMAGE) {
        field->desc = (iter_desc){.dtype = ITER_U8, .n_dims = 3, .layout = "HWC"};
        field->desc.dims[0] = field->desc.dims[1] = ITER_VARIABLE;
        field->desc.dims[2] = iter__image_channels(&s->rule.part.image);
    } else if (rule->kind == ITER_TAR_BYTES) {
        if (s->largest[f] == 0) {
            return iter__fail(err, ITER_EFORMAT, "fields=: no sample has a member .%s",
                              rule->endings);
        }
        field->desc = (iter_desc){.dtype = ITER_U8, .n_dims = 1, .dims = {ITER_VARIABLE}};
        field->desc.capacity = (int64_t)s->largest[f];
    } else {
        field->desc.dtype = rule->kind == ITER_TAR_JSON ? ITER_F64 : ITER_I32;
    }
    return ITER_OK;
}

static uint64_t identity_of(const tar_state *s) {
    uint64_t hash = iter__fnv1a_text(ITER_FNV_START, "tar");
    hash = iter__fnv1a_u64(hash, (uint64_t)s->rule.part.image.channels);
    hash = iter__fnv1a_u64(hash, (uint64_t)s->rule.part.image.orient);
    for (int32_t f = 0; f < s->rule.n_fields; f++) {
        hash = iter__fnv1a_text(hash, s->rule.fields[f].endings);
        hash = iter__fnv1a_text(hash, s->rule.fields[f].json ? s->rule.fields[f].json : "");
    }
    return iter__span_set_identity(&s->samples, hash);
}

/* ---- callbacks ------------------------------------------------------------------------------- */

static iter_status open_all(tar_state *s, const char *path, const tar_options *o,
                            iter_description *out, iter_error *err) {
    iter__tar_rule_init(&s->rule, &o->image);
    ITER_TRY(add_archives(s, path, o, err));
    for (int32_t f = 0; f < s->rule.n_fields; f++) {
        const iter_status status = describe_field(s, f, &out->fields[f], err);
        if (status < 0) return iter__fail_in(err, status, "%s", path);
    }
    out->n_fields = s->rule.n_fields;
    iter__span_set_describe(&s->samples, out);
    out->shared = &s->rule;
    out->identity = identity_of(s);
    return ITER_OK;
}

static iter_status tar_open(void *state, const char *path, const void *options,
                            iter_description *out, iter_error *err) {
    const iter_status status = open_all(state, path, options, out, err);
    if (status < 0) tar_close(state);
    return status;
}

static void tar_locate(const void *state, uint64_t index, iter_extent *out) {
    const tar_state *s = state;
    *out = iter__span_set_locate(&s->samples, index);
}

const iter_format_ops iter__format_tar = {
    .base = {.struct_size = sizeof(iter_format_ops),
             .name = "tar",
             .help =
                 "WebDataset's archives: one, a folder, or a pattern (\"train-{000..012}.tar\")",
             .options = option_rows,
             .defaults = &defaults,
             .options_size = sizeof(tar_options),
             .state_size = sizeof(tar_state)},
    .open = tar_open,
    .close = tar_close,
    .locate = tar_locate,
};

/*
 * cmd_list.c - `iterbench list [NAME]`: every format, transform and sampler with its options, those
 * of plugins first, the keys of URLs, and the words of --source.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <iter/loader.h>
#include <iter/registry.h>

#include "bench/common/bench_options.h"
#include "bench/common/bench_util.h"
#include "bench/common/page.h"
#include "bench/iterbench.h"

#define NAME_COLUMNS 24

/* ---- One entry ------------------------------------------------------------------------------- */

static void write_default(const iter_option *option, const void *defaults, FILE *out) {
    static const int64_t zero[32];
    const char *at =
        defaults != NULL ? (const char *)defaults + option->offset : (const char *)zero;
    switch (option->type) {
    case ITER_OPTION_BOOL: fputs(*(const bool *)at ? "yes" : "no", out); break;
    case ITER_OPTION_INT: fprintf(out, "%lld", (long long)*(const int64_t *)at); break;
    case ITER_OPTION_DOUBLE: fprintf(out, "%g", *(const double *)at); break;
    case ITER_OPTION_STRING: {
        const char *text = *(const char *const *)at;
        fputs(text != NULL ? text : "none", out);
        break;
    }
    case ITER_OPTION_CHOICE: {
        const char *word = option->choices;
        for (int32_t i = *(const int32_t *)at; i > 0 && strchr(word, '|') != NULL; i--)
            word = strchr(word, '|') + 1;
        fprintf(out, "%.*s", (int)strcspn(word, "|"), word);
        break;
    }
    case ITER_OPTION_LIST: {
        const iter_option_list *list = (const iter_option_list *)(const void *)at;
        if (list->n == 0) fputs("none", out);
        for (int32_t i = 0; i < list->n; i++)
            fprintf(out, "%s%g", i > 0 ? ";" : "", list->values[i]);
        break;
    }
    case ITER_OPTION_DTYPE: {
        int32_t dtype = *(const int32_t *)at;
        fputs(dtype == ITER_DTYPE_NONE ? "none" : iter_dtype_text((iter_dtype)dtype), out);
        break;
    }
    }
}

static void write_type(const iter_option *option, FILE *out) {
    static const char *const types[] = {"bool", "integer",     "number", "text",
                                        "",     "numbers;...", "dtype"};
    if (option->type == ITER_OPTION_CHOICE)
        fputs(option->choices, out);
    else if ((option->min != 0 || option->max != 0) && option->max < 1e15)
        fprintf(out, "%s %.10g..%.10g", types[option->type], option->min, option->max);
    else
        fputs(types[option->type], out);
}

/* "    name    type; what it is (default)" */
static void write_option(const page *p, const char *indent, const iter_option *option,
                         const void *defaults) {
    char left[64], *text = NULL;
    size_t bytes;
    FILE *out = open_memstream(&text, &bytes);
    if (out == NULL) return;
    write_type(option, out);
    fprintf(out, "; %s (", option->help != NULL ? option->help : "");
    write_default(option, defaults, out);
    fputc(')', out);
    snprintf(left, sizeof(left), "%.4s%.58s", indent, option->name);
    if (fclose(out) == 0) page_row(p, NAME_COLUMNS, left, PAGE_PLAIN, "%s", text);
    free(text);
}

static void write_ops(const page *p, const iter_ops *ops) {
    char left[64];
    snprintf(left, sizeof(left), "  %.60s", ops->name);
    page_row(p, NAME_COLUMNS, left, PAGE_PLAIN, "%s", ops->help != NULL ? ops->help : "");
    for (const iter_option *o = ops->options; o != NULL && o->name != NULL; o++)
        write_option(p, "    ", o, ops->defaults);
}

/* ---- All entries ----------------------------------------------------------------------------- */

static const iter_ops *format_at(const iter_registry *registry, int i) {
    const iter_format_ops *ops = iter_registry_format_at(registry, i);
    return ops != NULL ? &ops->base : NULL;
}

static const iter_ops *transform_at(const iter_registry *registry, int i) {
    const iter_transform_ops *ops = iter_registry_transform_at(registry, i);
    return ops != NULL ? &ops->base : NULL;
}

static const iter_ops *sampler_at(const iter_registry *registry, int i) {
    const iter_sampler_ops *ops = iter_registry_sampler_at(registry, i);
    return ops != NULL ? &ops->base : NULL;
}

static const iter_ops *decoder_at(const iter_registry *registry, int i) {
    const iter_decoder_ops *ops = iter_registry_decoder_at(registry, i);
    return ops != NULL ? &ops->base : NULL;
}

/* The words of --source: some name a choice, the others a table of this build. */
static const iter_ops *source_at(const iter_registry *registry, int i) {
    static const iter_ops choices[] = {
        {.name = "auto", .help = "memory if the set fits, else ring, else pread"},
        {.name = "memory", .help = "everything is read once, when the loader is made"},
        {.name = "ring", .help = "io_uring; not in this build"},
        {.name = "pread", .help = "threads that call pread; not in this build"},
        {.name = "null", .help = "rows of zeros; not in this build"}};
    (void)registry;
    if (i >= (int)(sizeof(choices) / sizeof(choices[0]))) return NULL;
    for (int k = 0; iter_builtin_source(k) != NULL; k++)
        if (strcmp(iter_builtin_source(k)->base.name, choices[i].name) == 0)
            return &iter_builtin_source(k)->base;
    return &choices[i];
}

/* A kind without at() is the keys of URLs: its entries are options. */
static const struct {
    const char *title;
    const iter_ops *(*at)(const iter_registry *registry, int i);
} kinds[] = {{"formats (--data FORMAT:PATH?KEY=VALUE&...)", format_at},
             {"keys of URLs (--data 'FORMAT:s3://BUCKET/PATH?KEY=VALUE&...')", NULL},
             {"transforms (--chain 'NAME:KEY=VALUE,... | ...')", transform_at},
             {"samplers (--sampler NAME:KEY=VALUE,...)", sampler_at},
             {"decoders (--data 'folder:PATH?decoder=NAME')", decoder_at},
             {"sources (--source)", source_at}};
#define N_KINDS (sizeof(kinds) / sizeof(kinds[0]))

/* The first key of URLs, or the end of the rows if this build reads none. */
static const iter_option *first_key(void) {
    static const iter_option end = {.name = NULL};
    const iter_ops *keys = iter_builtin_url_keys();
    return keys != NULL ? keys->options : &end;
}

static void write_keys(const page *p) {
    const iter_ops *keys = iter_builtin_url_keys();
    for (const iter_option *o = first_key(); o->name != NULL; o++)
        write_option(p, "  ", o, keys->defaults);
    if (keys == NULL)
        page_text(p, 4, PAGE_PLAIN,
                  "This build reads no URLs: it was made without libcurl, expat or OpenSSL.");
}

/* Whether a name means all keys: a scheme, or what errors call them. */
static bool means_keys(const char *name) {
    static const char *const words[] = {"s3", "http", "https", "url", "urls", "remote"};
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
        if (strcmp(words[i], name) == 0) return true;
    return false;
}

static void write_all(const page *p, const iter_registry *registry) {
    for (size_t k = 0; k < N_KINDS; k++) {
        if (k > 0) fputc('\n', p->out);
        page_text(p, 0, PAGE_STRONG, kinds[k].title);
        if (kinds[k].at == NULL) write_keys(p);
        for (int i = 0; kinds[k].at != NULL && kinds[k].at(registry, i) != NULL; i++)
            write_ops(p, kinds[k].at(registry, i));
    }
}

/* Writes the key of that name, or all. False if it means none. */
static bool write_key(const page *p, const char *title, const char *name, char *names,
                      size_t capacity) {
    bool found = means_keys(name);
    if (found) {
        page_text(p, 0, PAGE_STRONG, title);
        write_keys(p);
    }
    for (const iter_option *o = first_key(); o->name != NULL; o++) {
        bench_names_add(names, capacity, o->name);
        if (strcmp(o->name, name) != 0) continue;
        page_text(p, 0, PAGE_STRONG, title);
        write_option(p, "  ", o, iter_builtin_url_keys()->defaults);
        found = true;
    }
    return found;
}

/* Writes every entry of that name. Errors: EINVAL, with the nearest name. */
static iter_status write_one(const page *p, const iter_registry *registry, const char *name,
                             iter_error *err) {
    char names[4096] = "", hint[BENCH_HINT];
    bool found = false;
    for (size_t k = 0; k < N_KINDS; k++) {
        if (kinds[k].at == NULL && write_key(p, kinds[k].title, name, names, sizeof(names)))
            found = true;
        for (int i = 0; kinds[k].at != NULL && kinds[k].at(registry, i) != NULL; i++) {
            const iter_ops *ops = kinds[k].at(registry, i);
            bench_names_add(names, sizeof(names), ops->name);
            if (strcmp(ops->name, name) != 0) continue;
            page_text(p, 0, PAGE_STRONG, kinds[k].title);
            write_ops(p, ops);
            found = true;
        }
    }
    if (found) return ITER_OK;
    return bench_fail(err, ITER_EINVAL, "list: nothing is called '%s'%s", name,
                      bench_hint(name, names, "", hint));
}

int cmd_list(const bench_options *options) {
    iter_error err;
    const page p = page_of(stdout);
    if (options->n_words > 1) {
        bench_fail(&err, ITER_EINVAL, "list takes one name, not '%s' as well", options->words[1]);
        return bench_say(BENCH_USAGE, &err);
    }
    if (options->n_words == 0) {
        write_all(&p, options->registry);
        return BENCH_DONE;
    }
    if (write_one(&p, options->registry, options->words[0], &err) < 0)
        return bench_say(BENCH_USAGE, &err);
    return BENCH_DONE;
}

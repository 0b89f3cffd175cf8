/*
 * cmd_list.c - `iterbench list`: every built-in format, transform and sampler with its options, and
 * the words of --source.
 */
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include <iter/loader.h>
#include <iter/registry.h>

#include "bench_options.h"
#include "bench_util.h"
#include "iterbench.h"

static void write_default(const iter_option *option, const void *defaults) {
    const char *at = defaults != NULL ? (const char *)defaults + option->offset : NULL;
    static const int64_t zero[32];
    if (at == NULL) at = (const char *)zero;
    switch (option->type) {
    case ITER_OPTION_BOOL: printf("%s", *(const bool *)at ? "yes" : "no"); break;
    case ITER_OPTION_INT: printf("%lld", (long long)*(const int64_t *)at); break;
    case ITER_OPTION_DOUBLE: printf("%g", *(const double *)at); break;
    case ITER_OPTION_STRING: {
        const char *text = *(const char *const *)at;
        printf("%s", text != NULL ? text : "none");
        break;
    }
    case ITER_OPTION_CHOICE: {
        const char *word = option->choices;
        for (int32_t i = *(const int32_t *)at; i > 0 && strchr(word, '|') != NULL; i--)
            word = strchr(word, '|') + 1;
        printf("%.*s", (int)strcspn(word, "|"), word);
        break;
    }
    case ITER_OPTION_LIST: {
        const iter_option_list *list = (const iter_option_list *)(const void *)at;
        if (list->n == 0) printf("none");
        for (int32_t i = 0; i < list->n; i++)
            printf("%s%g", i > 0 ? ";" : "", list->values[i]);
        break;
    }
    case ITER_OPTION_DTYPE: {
        int32_t dtype = *(const int32_t *)at;
        printf("%s", dtype == ITER_DTYPE_NONE ? "none" : iter_dtype_text((iter_dtype)dtype));
        break;
    }
    }
}

static void write_type(const iter_option *option, char *out, size_t capacity) {
    static const char *const types[] = {"bool", "integer",     "number", "text",
                                        "",     "numbers;...", "dtype"};
    if (option->type == ITER_OPTION_CHOICE)
        snprintf(out, capacity, "%s", option->choices);
    else if ((option->min != 0 || option->max != 0) && option->max < 1e15)
        snprintf(out, capacity, "%s %.10g..%.10g", types[option->type], option->min, option->max);
    else
        snprintf(out, capacity, "%s", types[option->type]);
}

static void write_ops(const iter_ops *ops) {
    printf("  %-16s %s\n", ops->name, ops->help != NULL ? ops->help : "");
    for (const iter_option *o = ops->options; o != NULL && o->name != NULL; o++) {
        char type[80];
        write_type(o, type, sizeof(type));
        printf("    %-14s %-34s %s (", o->name, type, o->help != NULL ? o->help : "");
        write_default(o, ops->defaults);
        printf(")\n");
    }
}

/* The words of --source: those that stand for a choice, and those that are tables of this build. */
static void write_sources(void) {
    static const char *const choices[][2] = {
        {"auto", "memory if the set fits, else ring, else pread"},
        {"memory", "everything is read once, when the loader is made"}};
    for (int32_t i = ITER_SOURCE_AUTO; i <= ITER_SOURCE_NULL; i++) {
        const char *name = bench_source_text(i), *help = "not in this build";
        for (size_t k = 0; k < sizeof(choices) / sizeof(choices[0]); k++)
            if (strcmp(choices[k][0], name) == 0) help = choices[k][1];
        for (int k = 0; iter_builtin_source(k) != NULL; k++)
            if (strcmp(iter_builtin_source(k)->base.name, name) == 0)
                help = iter_builtin_source(k)->base.help;
        printf("  %-16s %s\n", name, help);
    }
}

int cmd_list(const bench_options *options) {
    iter_error err;
    if (options->n_words > 0) {
        bench_fail(&err, ITER_EINVAL, "unknown argument '%s'", options->words[0]);
        return bench_say(BENCH_USAGE, &err);
    }
    printf("formats (--data FORMAT:PATH?KEY=VALUE&...)\n");
    for (int i = 0; iter_builtin_format(i) != NULL; i++)
        write_ops(&iter_builtin_format(i)->base);
    printf("\ntransforms (--chain 'NAME:KEY=VALUE,... | ...')\n");
    for (int i = 0; iter_builtin_transform(i) != NULL; i++)
        write_ops(&iter_builtin_transform(i)->base);
    printf("\nsamplers (--sampler NAME:KEY=VALUE,...)\n");
    for (int i = 0; iter_builtin_sampler(i) != NULL; i++)
        write_ops(&iter_builtin_sampler(i)->base);
    printf("\nsources (--source)\n");
    write_sources();
    return BENCH_DONE;
}

/*
 * stage_list.c - the grammar of stages for lists that are not chains: see iter/stages.h.
 *
 * Each stage is read, looked up, filled and passed on before the next one is read. So errors come
 * in the order of the text, and nothing is kept.
 */
#include <stdio.h>
#include <string.h>

#include <iter/stages.h>

#include "iter/core/alloc.h"
#include "iter/core/error.h"
#include "iter/spec/grammar.h"
#include "iter/spec/options.h"
#include "iter/spec/suggest.h"

/* A parse under way. */
typedef struct stage_list {
    const char *what;
    const iter_ops *const *tables;
    int32_t n_tables;
    iter_stage_fn each;
    void *user;
} stage_list;

static const iter_ops *find_table(const stage_list *list, const char *name) {
    for (int32_t i = 0; i < list->n_tables; i++)
        if (strcmp(list->tables[i]->name, name) == 0) return list->tables[i];
    return NULL;
}

/* "no layer is called 'conv'; there are conv2d, relu" */
static iter_status fail_unknown(const stage_list *list, const iter__grammar_call *call,
                                iter_error *err) {
    char known[320], hint[ITER_HINT_MAX];
    iter__suggestion suggestion = {call->name, NULL, 0, NULL};
    size_t n = 0;
    known[0] = 0;
    for (int32_t i = 0; i < list->n_tables; i++) {
        const char *name = list->tables[i]->name;
        if (n < sizeof(known))
            n += (size_t)snprintf(known + n, sizeof(known) - n, "%s%s", n ? ", " : "", name);
        iter__suggestion_offer(&suggestion, name);
    }
    return iter__fail(err, ITER_EINVAL, "column %d: no %s is called '%.40s'; there are %s%s",
                      call->column, list->what, call->name, known,
                      iter__suggestion_text(&suggestion, hint));
}

/* Fails if there is no name of a stage at `at`. */
static iter_status check_name(const stage_list *list, const char *text, const char *at,
                              iter_error *err) {
    at += strspn(at, " \t\r\n");
    if (*at && !strchr(":|,=\"", *at)) return ITER_OK;
    int column = 1;
    for (const char *p = text; p < at; p++)
        column += ((unsigned char)*p & 0xc0) != 0x80; /* characters, not bytes */
    return iter__fail(err, ITER_EINVAL, "column %d: the name of a %s is missing", column,
                      list->what);
}

static iter_status hand_over(const stage_list *list, const iter__grammar_call *call,
                             iter_error *err) {
    const iter_ops *ops = find_table(list, call->name);
    if (!ops) return fail_unknown(list, call, err);
    void *options = NULL;
    if (ops->options_size) {
        options = iter__alloc(1, ops->options_size);
        if (!options) return iter__fail(err, ITER_ENOMEM, "%s: out of memory", ops->name);
    }
    iter_status status = iter__grammar_apply(call, ops, options, NULL, err);
    if (status >= 0) {
        status = list->each(list->user, ops, options, err);
        iter__options_free(ops, options);
        if (status == ITER_EINVAL) status = iter__fail_in(err, status, "column %d", call->column);
    }
    iter__free(options);
    return status;
}

iter_status iter_stages_parse(const char *text, const char *what, const iter_ops *const *tables,
                              int32_t n_tables, iter_stage_fn each, void *user, iter_error *err) {
    const stage_list list = {what ? what : "stage", tables, n_tables, each, user};
    if (!text || !each || (n_tables > 0 && !tables))
        return iter__fail(err, ITER_EINVAL, "%s: text, tables or callback is NULL", list.what);
    const char *cursor = text;
    if (!text[strspn(text, " \t\r\n")]) return ITER_OK; /* blank text is the empty list */
    while (cursor) {
        iter__grammar_call call;
        char *block;
        ITER_TRY(check_name(&list, text, cursor, err));
        ITER_TRY(iter__grammar_stage(text, &cursor, &call, &block, err));
        const iter_status status = hand_over(&list, &call, err);
        iter__free(block);
        if (status < 0) return status;
    }
    return ITER_OK;
}

iter_status iter_stage_check(const iter_ops *ops, const void *options, iter_error *err) {
    if (!ops || (ops->options_size && !options))
        return iter__fail(err, ITER_EINVAL, "stage: no table or no options given");
    return iter__options_check(ops, options, err);
}

int iter_stage_text(const iter_ops *ops, const void *options, char *out, size_t capacity) {
    const int length = iter__options_text(ops, options, ',', NULL, 0);
    const int head = snprintf(out, capacity, "%s%s", ops->name, length ? ":" : "");
    if (head < 0) return 0;
    if (length && (size_t)head < capacity)
        iter__options_text(ops, options, ',', out + head, capacity - (size_t)head);
    return head + length;
}

/*
 * fuzz_grammar.c - any text as a dataset spec and as a chain.
 *
 * Property: the result is OK, or EINVAL with a message that has the column. The text of a parsed
 * chain parses to the same text again. The stages are those of sample_ops.h and the built-in ones.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "iter/core/alloc.h"
#include "iter/spec/chain.h"
#include "iter/spec/grammar.h"
#include "tests/support/sample_ops.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void broken(const char *what, const char *text, const char *message) {
    fprintf(stderr, "%s\n  text: %s\n  message: %s\n", what, text, message);
    abort();
}

static void check_refusal(iter_status status, const iter_error *err, const char *text) {
    if (status != ITER_EINVAL || err->status != ITER_EINVAL) broken("not EINVAL", text, "");
    const char *column = strstr(err->message, "column ");
    if (!column || atoi(column + 7) < 1 || (size_t)atoi(column + 7) > strlen(text) + 1)
        broken("no column inside the text", text, err->message);
}

static void try_dataset(const char *text) {
    iter__grammar_call call;
    iter_error err = {0};
    char *block;
    const iter_status status = iter__grammar_dataset(text, &call, &block, &err);
    if (status < 0) {
        check_refusal(status, &err, text);
        return;
    }
    if (!call.path || !call.name[0]) broken("a dataset without name or path", text, "");
    iter__free(block);
}

static void try_chain(const char *text, const iter_registry *registry) {
    iter_chain *chain, *again;
    iter_error err = {0};
    const iter_status status = iter_chain_parse(text, registry, &chain, &err);
    if (status < 0) {
        check_refusal(status, &err, text);
        return;
    }
    if (iter_chain_parse(iter_chain_text(chain), registry, &again, &err) < 0)
        broken("the chain's own text is refused", iter_chain_text(chain), err.message);
    if (strcmp(iter_chain_text(chain), iter_chain_text(again)) != 0)
        broken("the chain's text reads back to another", iter_chain_text(chain),
               iter_chain_text(again));
    if (iter__chain_n_stages(chain) != iter__chain_n_stages(again))
        broken("stages came or went", text, "");
    iter_chain_unref(chain);
    iter_chain_unref(again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    const long before = iter__alloc_live();
    iter_registry *registry;
    char *text = malloc(size + 1);
    if (!text) return 0;
    if (size) memcpy(text, data, size);
    text[size] = 0;
    if (iter_registry_create(&registry, NULL) < 0 ||
        iter_registry_add_transform(registry, &sample_ops, NULL) < 0 ||
        iter_registry_add_transform(registry, &bare_ops, NULL) < 0)
        abort();
    try_dataset(text);
    try_chain(text, registry);
    iter_registry_destroy(registry);
    free(text);
    if (iter__alloc_live() != before) broken("a leak", "", "");
    return 0;
}

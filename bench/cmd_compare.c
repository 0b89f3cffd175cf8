/*
 * cmd_compare.c - `iterbench compare A.json B.json`: two results side by side.
 *
 * They were not measured in turns, so a difference may be the machine's: what differs between the
 * two runs besides the rates is said, and so is the way to a sure answer (versus).
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "bench_json.h"
#include "bench_util.h"
#include "iterbench.h"

static double number_at(const json_value *value, const char *path) {
    const json_value *found = json_find(value, path);
    return found != NULL && found->kind == JSON_NUMBER ? found->number : NAN;
}

static const json_value *arm_named(const json_value *result, const char *name) {
    const json_value *arms = json_find(result, "arms");
    for (const json_value *arm = arms != NULL ? arms->first : NULL; arm != NULL; arm = arm->next) {
        const json_value *found = json_find(arm, "name");
        if (found != NULL && found->kind == JSON_TEXT && strcmp(found->text, name) == 0) return arm;
    }
    return NULL;
}

static void write_value(const json_value *v) {
    if (v == NULL || v->kind == JSON_NULL)
        printf("none");
    else if (v->kind == JSON_TEXT)
        printf("%s", v->text);
    else if (v->kind == JSON_BOOL)
        printf("%s", v->number != 0 ? "true" : "false");
    else
        printf("%.10g", v->number);
}

static bool same(const json_value *a, const json_value *b) {
    if (a == NULL || b == NULL || a->kind != b->kind) return a == b;
    if (a->kind == JSON_TEXT) return strcmp(a->text, b->text) == 0;
    return a->kind == JSON_NULL || a->number == b->number;
}

/* Members of the object at `path` that are not equal in both. */
static void differences(const json_value *a, const json_value *b, const char *path) {
    const json_value *object = json_find(a, path), *other = json_find(b, path);
    for (const json_value *m = object != NULL ? object->first : NULL; m != NULL; m = m->next) {
        if (m->key == NULL || m->kind == JSON_ARRAY || m->kind == JSON_OBJECT) continue;
        const json_value *in_b = json_find(other, m->key);
        if (same(m, in_b)) continue;
        printf("  differs: %s.%s  ", path, m->key);
        write_value(m);
        printf("  |  ");
        write_value(in_b);
        printf("\n");
    }
}

static void row(const char *name, double a, double b) {
    if (!isfinite(a) && !isfinite(b)) return;
    printf("  %-24s %16.6g %16.6g", name, a, b);
    if (isfinite(a) && isfinite(b) && a != 0) printf("   x %.3f", b / a);
    printf("\n");
}

static int write_arms(const json_value *a, const json_value *b) {
    static const char *const keys[] = {"samples_per_s",     "bytes_per_s",  "next_ns.p50",
                                       "next_ns.p99",       "next_ns.max",  "wait_share",
                                       "cpu_ns_per_sample", "setup.open_s", "setup.first_batch_s"};
    const json_value *arms = json_find(a, "arms");
    int n = 0;
    for (const json_value *arm = arms != NULL ? arms->first : NULL; arm != NULL; arm = arm->next) {
        const json_value *name = json_find(arm, "name");
        const json_value *other =
            name != NULL && name->kind == JSON_TEXT ? arm_named(b, name->text) : NULL;
        if (other == NULL) continue;
        printf("%-26s %16s %16s   B / A\n", name->text, "A", "B");
        for (size_t k = 0; k < sizeof(keys) / sizeof(keys[0]); k++)
            row(keys[k], number_at(arm, keys[k]), number_at(other, keys[k]));
        n++;
    }
    return n;
}

static iter_status compare(const json_value *a, const json_value *b, const char *const *paths,
                           iter_error *err) {
    if (json_find(a, "arms") == NULL || json_find(b, "arms") == NULL)
        return bench_fail(err, ITER_EFORMAT, "%s: not a result of iterbench: no arms",
                          paths[json_find(a, "arms") != NULL]);
    if (write_arms(a, b) == 0)
        return bench_fail(err, ITER_EFORMAT, "%s and %s have no arm in common", paths[0], paths[1]);
    row("ratio (dataloader/ndarray)", number_at(a, "ratio.median"), number_at(b, "ratio.median"));
    row("limits.ordered", number_at(a, "limits.ordered_samples_per_s"),
        number_at(b, "limits.ordered_samples_per_s"));
    row("limits.copy bytes/s", number_at(a, "limits.copy_bytes_per_s"),
        number_at(b, "limits.copy_bytes_per_s"));
    row("peak_rss_bytes", number_at(a, "peak_rss_bytes"), number_at(b, "peak_rss_bytes"));
    differences(a, b, "machine");
    differences(a, b, "config");
    const json_value *hash_a = json_find(a, "hash"), *hash_b = json_find(b, "hash");
    if (hash_a != NULL && hash_a->kind == JSON_TEXT && hash_b != NULL && hash_b->kind == JSON_TEXT)
        printf("  hash %s\n", same(hash_a, hash_b) ? "equal" : "differs: not the same rows");
    printf("Two runs at two times: the machine may have moved between them. `iterbench versus` "
           "measures in turns.\n");
    return ITER_OK;
}

int cmd_compare(const bench_options *options) {
    iter_error err;
    if (options->n_words != 2) {
        bench_fail(&err, ITER_EINVAL, "compare wants two files: A.json B.json");
        return bench_say(BENCH_USAGE, &err);
    }
    json_value *a = NULL, *b = NULL;
    iter_status s = json_read(options->words[0], &a, &err);
    if (s == ITER_OK) s = json_read(options->words[1], &b, &err);
    if (s == ITER_OK) s = compare(a, b, options->words, &err);
    json_free(a);
    json_free(b);
    return s < 0 ? bench_say(BENCH_FAILED, &err) : BENCH_DONE;
}

/*
 * cmd_compare.c - `iterbench compare A.json B.json`: the changes between two results, and whether
 * they can be told apart.
 *
 * A ratio's interval is made of the two arms' own intervals: [low B / high A, high B / low A]. So a
 * ratio is stated only if the two intervals do not touch. It knows only the noise within each run.
 * The two runs did not take turns, so a difference may be the machine's. Therefore other
 * differences between the runs are printed first, and the way to a sure answer (versus) last.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "bench/common/bench_json.h"
#include "bench/common/bench_util.h"
#include "bench/common/page.h"
#include "bench/iterbench.h"
#include "diagnose/words.h"

/* ---- Finding --------------------------------------------------------------------------------- */

typedef struct figure {
    double median, low, high; /* NaN = none */
} figure;

static double number_at(const json_value *value, const char *path) {
    const json_value *found = json_find(value, path);
    return found != NULL && found->kind == JSON_NUMBER ? found->number : NAN;
}

static const char *text_at(const json_value *value, const char *path) {
    const json_value *found = json_find(value, path);
    return found != NULL && found->kind == JSON_TEXT ? found->text : NULL;
}

/* Reads a plain number, or an object with median, low and high. */
static figure figure_at(const json_value *value, const char *path) {
    const json_value *found = json_find(value, path);
    if (found == NULL || found->kind != JSON_OBJECT)
        return (figure){number_at(value, path), NAN, NAN};
    return (figure){number_at(found, "median"), number_at(found, "low"), number_at(found, "high")};
}

/* The element of the list at `list` whose text at `key` is `name`. */
static const json_value *element(const json_value *result, const char *list, const char *key,
                                 const char *name) {
    const json_value *elements = json_find(result, list);
    const json_value *e = elements != NULL ? elements->first : NULL;
    for (; e != NULL; e = e->next) {
        const char *text = text_at(e, key);
        if (text != NULL && strcmp(text, name) == 0) return e;
    }
    return NULL;
}

static bool same(const json_value *a, const json_value *b) {
    const bool none_a = a == NULL || a->kind == JSON_NULL,
               none_b = b == NULL || b->kind == JSON_NULL;
    if (none_a || none_b) return none_a == none_b;
    if (a->kind != b->kind) return false;
    if (a->kind == JSON_TEXT) return strcmp(a->text, b->text) == 0;
    return a->number == b->number;
}

/* ---- Other differences ----------------------------------------------------------------------- */

static void write_value(const json_value *v) {
    if (v == NULL || v->kind == JSON_NULL)
        printf("none");
    else if (v->kind == JSON_TEXT)
        printf("%s", BENCH_SHOWN(v->text));
    else if (v->kind == JSON_BOOL)
        printf("%s", v->number != 0 ? "true" : "false");
    else
        printf("%.10g", v->number);
}

static void difference(const char *path, const char *key, const json_value *a,
                       const json_value *b) {
    if (same(a, b)) return;
    printf("  differs: %s.%s  ", path, BENCH_SHOWN(key));
    write_value(a);
    printf("  |  ");
    write_value(b);
    printf("\n");
}

/* Prints members of the object at `path` that are not equal in both. */
static void differences(const json_value *a, const json_value *b, const char *path) {
    const json_value *objects[2] = {json_find(a, path), json_find(b, path)};
    for (int side = 0; side < 2; side++) {
        const json_value *object = objects[side];
        for (const json_value *m = object != NULL ? object->first : NULL; m != NULL; m = m->next) {
            if (m->key == NULL || m->kind == JSON_ARRAY || m->kind == JSON_OBJECT) continue;
            const json_value *other = json_find(objects[1 - side], m->key);
            if (side == 0) difference(path, m->key, m, other);
            if (side == 1 && other == NULL) difference(path, m->key, NULL, m);
        }
    }
}

/* ---- Rows ------------------------------------------------------------------------------------ */

static bool has_interval(const figure *f) {
    return isfinite(f->low) && isfinite(f->high) && f->low > 0;
}

static void write_number(double number) {
    if (isfinite(number))
        printf(" %16.6g", number);
    else
        printf(" %16s", "none");
}

static void row(const char *name, double a, double b) {
    if (!isfinite(a) && !isfinite(b)) return;
    printf("  %-24s", BENCH_SHOWN(name));
    write_number(a);
    write_number(b);
    if (isfinite(a) && isfinite(b) && a != 0) printf("   x %.*f", b / a < 1000 ? 3 : 0, b / a);
    printf("\n");
}

/* The same with the conclusion that the intervals allow. Returns whether there are intervals. */
static bool judged(const char *name, figure a, figure b) {
    if (!isfinite(a.median) || !isfinite(b.median) || a.median <= 0) {
        row(name, a.median, b.median);
        return true;
    }
    const bool judges = has_interval(&a) && has_interval(&b);
    const measure_interval ratio = {b.median / a.median, judges ? b.low / a.high : NAN,
                                    judges ? b.high / a.low : NAN, 0};
    printf("  %-24s %16.6g %16.6g   ", name, a.median, b.median);
    switch (words_side_of(&ratio, 1)) {
    case WORDS_UNKNOWN: printf("x about %.3f, no interval\n", ratio.median); break;
    case WORDS_UNCLEAR: printf("not told apart [%.3f, %.3f]\n", ratio.low, ratio.high); break;
    default: printf("x %.3f [%.3f, %.3f]\n", ratio.median, ratio.low, ratio.high);
    }
    return judges;
}

/* ---- Arms ------------------------------------------------------------------------------------ */

static int common_arms(const json_value *a, const json_value *b) {
    int n = 0;
    const json_value *arm = json_find(a, "arms")->first;
    for (; arm != NULL; arm = arm->next) {
        const char *name = text_at(arm, "name");
        n += name != NULL && element(b, "arms", "name", name) != NULL;
    }
    return n;
}

/* Returns whether every rate had an interval. */
static bool write_arms(const json_value *a, const json_value *b) {
    static const char *const keys[] = {"bytes_per_s",  "next_ns.p50",        "next_ns.p99",
                                       "next_ns.max",  "wait_share",         "cpu_ns_per_sample",
                                       "setup.open_s", "setup.first_batch_s"};
    bool all = true;
    const json_value *arm = json_find(a, "arms")->first;
    for (; arm != NULL; arm = arm->next) {
        const char *name = text_at(arm, "name");
        const json_value *other = name != NULL ? element(b, "arms", "name", name) : NULL;
        if (other == NULL) continue;
        printf("%-26s %16s %16s   B / A\n", name, "A", "B");
        if (!judged("samples_per_s", figure_at(arm, "samples_per_s"),
                    figure_at(other, "samples_per_s")))
            all = false;
        for (size_t k = 0; k < sizeof(keys) / sizeof(keys[0]); k++)
            row(keys[k], number_at(arm, keys[k]), number_at(other, keys[k]));
        row("cost_of_feeding", figure_at(arm, "cost_of_feeding").median,
            figure_at(other, "cost_of_feeding").median);
    }
    return all;
}

static void write_lonely(const json_value *a, const json_value *b, const char *side) {
    const json_value *arm = json_find(a, "arms")->first;
    for (; arm != NULL; arm = arm->next) {
        const char *name = text_at(arm, "name");
        if (name != NULL && element(b, "arms", "name", name) == NULL)
            printf("  only in %s: arm %s\n", side, BENCH_SHOWN(name));
    }
}

/* Rows for those elements of a list that both results have. */
static void write_list(const json_value *a, const json_value *b, const char *list, const char *key,
                       const char *value) {
    const json_value *elements = json_find(a, list);
    bool any = false;
    const json_value *e = elements != NULL ? elements->first : NULL;
    for (; e != NULL; e = e->next) {
        const char *name = text_at(e, key);
        const json_value *other = name != NULL ? element(b, list, key, name) : NULL;
        if (other == NULL) continue;
        if (!any) printf("%-26s %16s %16s   B / A\n", list, "A", "B");
        any = true;
        row(name, number_at(e, value), number_at(other, value));
    }
}

/* ---- Verdict --------------------------------------------------------------------------------- */

static void write_limit(const json_value *result) {
    const char *stage = text_at(result, "verdict.stage");
    const char *confidence = text_at(result, "verdict.confidence");
    const double share = number_at(result, "verdict.share");
    printf("%s", BENCH_SHOWN(text_at(result, "verdict.limit")));
    if (stage != NULL && stage[0] != '\0') printf(" (%s)", BENCH_SHOWN(stage));
    if (isfinite(share)) printf(", %.0f %%", 100 * share);
    if (confidence != NULL) printf(", confidence %s", BENCH_SHOWN(confidence));
}

static bool is_sure(const json_value *result) {
    const char *confidence = text_at(result, "verdict.confidence");
    return confidence != NULL && strcmp(confidence, "high") == 0;
}

static void write_verdict(const json_value *a, const json_value *b) {
    const char *limit_a = text_at(a, "verdict.limit"), *limit_b = text_at(b, "verdict.limit");
    if (limit_a != NULL && limit_b != NULL) {
        printf("limit %s: ", strcmp(limit_a, limit_b) == 0 ? "is the same"
                             : is_sure(a) && is_sure(b)    ? "has changed"
                                                           : "may have changed");
        write_limit(a);
        printf("  ->  ");
        write_limit(b);
        printf("\n");
        return;
    }
    const char *text_a = text_at(a, limit_a != NULL ? "verdict.text" : "verdict");
    const char *text_b = text_at(b, limit_b != NULL ? "verdict.text" : "verdict");
    const page p = page_of(stdout);
    if (text_a != NULL) page_row(&p, 14, "verdict of A:", PAGE_PLAIN, "%s", text_a);
    if (text_b != NULL) page_row(&p, 14, "verdict of B:", PAGE_PLAIN, "%s", text_b);
}

/* ---- The command ----------------------------------------------------------------------------- */

static iter_status compare(const json_value *a, const json_value *b, const char *const *paths,
                           iter_error *err) {
    if (json_find(a, "arms") == NULL || json_find(b, "arms") == NULL)
        return bench_fail(err, ITER_EFORMAT, "%s: not a result of iterbench: no arms",
                          paths[json_find(a, "arms") != NULL]);
    if (common_arms(a, b) == 0)
        return bench_fail(err, ITER_EFORMAT, "%s and %s have no arm in common", paths[0], paths[1]);
    differences(a, b, "config");
    difference("model", "name", json_find(a, "model.name"), json_find(b, "model.name"));
    difference("model", "backend", json_find(a, "model.backend"), json_find(b, "model.backend"));
    differences(a, b, "machine");
    write_lonely(a, b, "A");
    write_lonely(b, a, "B");
    const page p = page_of(stdout);
    const bool all = write_arms(a, b);
    judged("ratio (dataloader/ndarray)", figure_at(a, "ratio"), figure_at(b, "ratio"));
    row("limits.ordered", number_at(a, "limits.ordered_samples_per_s"),
        number_at(b, "limits.ordered_samples_per_s"));
    row("limits.copy bytes/s", number_at(a, "limits.copy_bytes_per_s"),
        number_at(b, "limits.copy_bytes_per_s"));
    row("peak_rss_bytes", number_at(a, "peak_rss_bytes"), number_at(b, "peak_rss_bytes"));
    write_list(a, b, "bounds", "term", "samples_per_s");
    write_list(a, b, "attribution.stages", "stage", "share");
    const json_value *hash_a = json_find(a, "hash"), *hash_b = json_find(b, "hash");
    if (hash_a != NULL && hash_a->kind == JSON_TEXT && hash_b != NULL && hash_b->kind == JSON_TEXT)
        printf("  hash %s\n", same(hash_a, hash_b) ? "equal" : "differs: not the same rows");
    write_verdict(a, b);
    if (!all)
        page_text(
            &p, 0, PAGE_PLAIN,
            "No interval: a rate of one measurement, or of fewer than six rounds, does not tell "
            "whether the two differ.");
    page_text(&p, 0, PAGE_PLAIN,
              "These are two runs at two times, and the machine's speed may have changed between "
              "them. `iterbench versus` measures in turns.");
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

/* diagnose_report.c - the verdict of a watched loop as JSON (the keys of docs/json.md that it has),
 * inside the report's page. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "diagnose/diagnose.h"
#include "diagnose/diagnose_util.h"
#include "diagnose/evidence_json.h"
#include "diagnose/json_writer.h"
#include "diagnose/report_html.h"
#include <iter/version.h>

typedef struct content {
    evidence e;
    verdict v;
    iter_diagnose *d;
    iter_diagnose_proof proof;
    bool has_proof;
} content;

static void config_json(json_writer *w, const content *c) {
    json_begin(w, "config", '{');
    json_text(w, "data", c->d->name);
    json_count(w, "batch", c->e.batch);
    if (c->e.workers >= 0) json_integer(w, "workers", c->e.workers);
    if (c->d->loader != NULL) json_count(w, "prefetch", c->e.prefetch);
    json_end(w);
    json_begin(w, "machine", '{');
    json_integer(w, "cores", c->e.cores);
    json_end(w);
}

static void arms_json(json_writer *w, const evidence *e) {
    static const struct {
        evidence_arm arm;
        const char *name;
    } arms[] = {
        {EVIDENCE_LOADER, "loader"}, {EVIDENCE_CONSUMER, "consumer"}, {EVIDENCE_BOTH, "both"}};
    json_begin(w, "arms", '[');
    for (size_t i = 0; i < sizeof(arms) / sizeof(arms[0]); i++) {
        const evidence_arm arm = arms[i].arm;
        if (!e->has[arm]) continue;
        json_begin(w, NULL, '{');
        json_text(w, "name", arms[i].name);
        json_interval(w, "samples_per_s", e->rate[arm].median, e->rate[arm].low, e->rate[arm].high);
        json_number(w, "cpu_ns_per_sample", e->cpu[arm] * 1e9);
        json_number(w, "wait_share", arm == EVIDENCE_BOTH ? e->wait_share : NAN);
        json_end(w);
    }
    json_end(w);
}

static void verdict_json(json_writer *w, const content *c) {
    const verdict *v = &c->v;
    json_begin(w, "verdict", '{');
    json_text(w, "limit", verdict_limit_text(v->limit));
    json_text(w, "stage", v->stage[0] != '\0' ? v->stage : NULL);
    json_number(w, "share", v->share);
    json_text(w, "confidence", v->high ? "high" : "low");
    json_text(w, "text", v->text);
    json_begin(w, "changes", '[');
    for (int i = 0; i < v->n_changes; i++) {
        const verdict_change *change = &v->changes[i];
        const evidence_change *of = &c->e.changes[change->of];
        json_begin(w, NULL, '{');
        json_text(w, "option", of->option);
        json_text(w, "from", of->from);
        json_text(w, "to", of->to);
        json_number(w, "gain", change->gain);
        json_number(w, "expected_samples_per_s", change->expected);
        json_text(w, "next_limit", verdict_limit_text(change->next));
        json_text(w, "text", change->text);
        json_end(w);
    }
    json_end(w);
    json_end(w);
}

static void write_content(const void *user, FILE *out) {
    const content *c = user;
    json_writer writer = {.out = out}, *w = &writer;
    json_begin(w, NULL, '{');
    json_text(w, "tool", "libiter-diagnose");
    json_text(w, "version", iter_version());
    json_bool(w, "passive", true);
    config_json(w, c);
    arms_json(w, &c->e);
    json_number(w, "wait_share", c->e.wait_share);
    evidence_attribution_json(w, &c->e);
    verdict_json(w, c);
    json_text(w, "answer", c->has_proof && c->proof.text[0] != '\0' ? c->proof.text : NULL);
    json_end(w);
}

iter_status iter_diagnose_html(iter_diagnose *d, const char *path, iter_error *err) {
    content *c = calloc(1, sizeof(*c));
    if (c == NULL) return diagnose_fail(err, ITER_ENOMEM, "%s: no memory for a report", path);
    c->d = d;
    diagnose_judge(d, &c->e, &c->v);
    pthread_mutex_lock(&d->lock);
    c->proof = d->proof;
    c->has_proof = d->has_proof;
    pthread_mutex_unlock(&d->lock);
    const iter_status s = report_html_by(path, write_content, c, err);
    free(c);
    return s;
}

/* evidence_json.c - see evidence_json.h. */
#include <math.h>
#include <stddef.h>

#include "diagnose/evidence_json.h"

static void stages_json(json_writer *w, const evidence *e, const double *shares) {
    json_begin(w, "stages", '[');
    for (int s = 0; s < e->n_stages; s++) {
        const double share = shares != NULL ? shares[s] : e->stages[s].share;
        if (share <= 0) continue;
        json_begin(w, NULL, '{');
        json_text(w, "stage", e->stages[s].name);
        json_number(w, "share", share);
        json_end(w);
    }
    json_end(w);
}

void evidence_attribution_json(json_writer *w, const evidence *e) {
    json_begin(w, "attribution", '{');
    json_number(w, "seconds", e->observed_s);
    json_integer(w, "cores", e->cores);
    json_begin(w, "consumer", '{');
    json_number(w, "busy", fmax(1 - e->wait_share, 0));
    json_number(w, "waiting", e->wait_share);
    json_number(w, "runnable", e->consumer_runnable);
    json_end(w);
    stages_json(w, e, NULL);
    json_begin(w, "workers", '[');
    for (int i = 0; i < e->n_workers; i++) {
        const evidence_worker *worker = &e->worker[i];
        json_begin(w, NULL, '{');
        json_integer(w, "worker", i);
        json_count(w, "chunks", worker->chunks);
        json_number(w, "chunk_s", worker->busy_s);
        json_number(w, "chunk_bytes", worker->bytes);
        json_number(w, "busy", worker->busy);
        json_number(w, "wait_bytes", worker->wait_bytes);
        json_number(w, "wait_slot", worker->wait_slot);
        json_number(w, "runnable", worker->runnable);
        stages_json(w, e, worker->stages);
        json_end(w);
    }
    json_end(w);
    json_end(w);
}

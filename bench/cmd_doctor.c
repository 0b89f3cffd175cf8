/*
 * cmd_doctor.c - `iterbench doctor [--data SPEC]`: checks this machine, what its state costs, and
 * how to improve it.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/common/bench_machine.h"
#include "bench/common/bench_util.h"
#include "bench/common/page.h"
#include "bench/doctor/doctor.h"
#include "bench/iterbench.h"

#define LABEL 31

static const char *const states[] = {"ok", "note", "costs"};

/* ---- Report ---------------------------------------------------------------------------------- */

static void print(const doctor *d) {
    static const page_style styles[] = {PAGE_PLAIN, PAGE_STRONG, PAGE_WARN};
    const page p = page_of(stdout);
    int costly = 0;
    for (int i = 0; i < d->n_items; i++) {
        const doctor_item *item = &d->items[i];
        char label[64];
        costly += item->state == DOCTOR_COSTS;
        snprintf(label, sizeof(label), "%-6s %s", states[item->state], item->item);
        page_row(&p, LABEL, label, styles[item->state], "%s", item->value);
        if (item->costs[0] != '\0') page_row(&p, LABEL, "", PAGE_PLAIN, "costs: %s", item->costs);
        if (item->mend[0] != '\0') page_row(&p, LABEL, "", PAGE_PLAIN, "mend: %s", item->mend);
    }
    putchar('\n');
    if (costly == 0)
        page_text(&p, 0, PAGE_GOOD, "nothing here holds a loader back");
    else
        printf("%d of %d items cost something\n", costly, d->n_items);
}

static void write_rates(json_writer *w, const doctor_rates *r) {
    json_begin(w, "rates", '{');
    json_number(w, "copy_one_bytes_per_s", r->copy_one);
    json_number(w, "copy_all_bytes_per_s", r->copy_all);
    json_number(w, "page_cache_bytes_per_s", r->page_cache);
    json_number(w, "disk_sequential_bytes_per_s", r->disk_sequential);
    json_number(w, "disk_random_bytes_per_s", r->disk_random);
    json_number(w, "gpu_copy_bytes_per_s", r->gpu_copy);
    json_number(w, "clock_ns", r->clock_ns);
    json_number(w, "witness_spread", r->witness_spread);
    json_number(w, "steal_share", r->steal_share);
    json_end(w);
}

static iter_status report(const doctor *d, iter_error *err) {
    const char *path = d->options->json;
    if (path == NULL || strcmp(path, "-") != 0) print(d);
    if (path == NULL) return ITER_OK;
    json_writer writer = {0}, *w = &writer;
    iter_status s = bench_json_open(path, &w->out, err);
    if (s < 0) return s;
    json_begin(w, NULL, '{');
    bench_machine_json(w);
    json_text(w, "data", bench_data_text(d->options));
    json_begin(w, "doctor", '[');
    for (int i = 0; i < d->n_items; i++) {
        const doctor_item *item = &d->items[i];
        json_begin(w, NULL, '{');
        json_text(w, "item", item->item);
        json_text(w, "state", states[item->state]);
        json_text(w, "value", item->value);
        json_text(w, "costs", item->costs[0] != '\0' ? item->costs : NULL);
        json_text(w, "mend", item->mend[0] != '\0' ? item->mend : NULL);
        json_end(w);
    }
    json_end(w);
    write_rates(w, &d->rates);
    json_end(w);
    return bench_json_close(path, w->out, err);
}

/* ---- Public ---------------------------------------------------------------------------------- */

int cmd_doctor(const bench_options *options) {
    iter_error err = {ITER_ENOMEM, "no memory"};
    iter_dataset *data = NULL;
    iter_status s = ITER_OK;
    if (options->n_words > 0) {
        bench_fail(&err, ITER_EINVAL, "unknown argument '%s'", options->words[0]);
        return bench_say(BENCH_USAGE, &err);
    }
    doctor *d = calloc(1, sizeof(*d));
    if (d == NULL) return bench_say(BENCH_FAILED, &err);
    d->options = options;
    d->rates = (doctor_rates){NAN, NAN, NAN, NAN, NAN, NAN, NAN, NAN, NAN};
    if (options->data != NULL) s = bench_dataset_open(options, &data, &err);
    if (s == ITER_OK) {
        const iter_description *set = data != NULL ? iter_dataset_describe(data) : NULL;
        d->files = set != NULL ? set->files : NULL;
        d->n_files = set != NULL ? set->n_files : 0;
        doctor_machine(d);
        doctor_gpu(d);
        doctor_speed(d);
        doctor_reading(d);
        doctor_disk(d);
        s = report(d, &err);
    }
    iter_dataset_unref(data);
    free(d);
    return s < 0 ? bench_say(BENCH_FAILED, &err) : BENCH_DONE;
}

/*
 * test_bench_report.c - diagnose/report_html.c: no data can escape from its element, and the
 * file needs no other; bench/verdict/diagnosis_text.c: the words for a proof.
 */
#include <criterion/criterion.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bench/verdict/diagnosis.h"
#include "diagnose/report_html.h"

TestSuite(bench_report, .timeout = 60);

static const char begin[] = "<script type=\"application/json\" id=\"result\">";

static char *read_back(const char *path, size_t *out_bytes) {
    FILE *file = fopen(path, "rb");
    cr_assert_not_null(file);
    char *text = calloc(1, 1 << 20);
    *out_bytes = fread(text, 1, (1 << 20) - 1, file);
    cr_assert(feof(file));
    fclose(file);
    return text;
}

static size_t count(const char *text, const char *word) {
    size_t n = 0;
    for (const char *at = text; (at = strstr(at, word)) != NULL; at += strlen(word))
        n++;
    return n;
}

/* The page for a JSON text; the caller must free it. */
static char *page(const char *json, size_t *out_bytes) {
    char path[] = "/tmp/iter_report_XXXXXX";
    iter_error err;
    int fd = mkstemp(path);
    cr_assert_geq(fd, 0);
    close(fd);
    cr_assert_eq(report_html_write(path, json, strlen(json), &err), ITER_OK);
    char *text = read_back(path, out_bytes);
    remove(path);
    return text;
}

static void holds(const char *json) {
    size_t bytes, n = 0;
    char *text = page(json, &bytes);
    char *at = strstr(text, begin);
    cr_assert_not_null(at);
    at += strlen(begin);
    char *end = strstr(at, "</script>");
    cr_assert_not_null(end);
    char *back = calloc(1, strlen(json) + 1); /* the data in the page, with \u003c as '<' again */
    while (at < end) {
        cr_assert_neq(*at, '<', "a '<' is in the data");
        cr_assert_lt(n, strlen(json));
        if (strncmp(at, "\\u003c", 6) == 0) {
            back[n++] = '<';
            at += 6;
        } else {
            back[n++] = *at++;
        }
    }
    cr_assert_str_eq(back, json);
    cr_assert_eq(bytes, strlen(text), "no NUL in it");
    free(back);
    free(text);
}

Test(bench_report, a_result_comes_back_as_it_was) {
    holds("{}");
    holds("{\"arms\": [{\"name\": \"loader\", \"samples_per_s\": 1.5}], \"git\": null}\n");
}

Test(bench_report, no_data_ends_the_element) {
    holds("{\"data\": \"cifar10:/data/</script><script>alert(1)</script>\"}");
    holds("{\"data\": \"</SCRIPT >\", \"chain\": \"<!--<script>\", \"command\": \"<\"}");
    holds("{\"<\": \"<<</\\u0041\", \"marker\": \"@RESULT@\"}");
    const char *hostile = "{\"data\": \"</script><script>alert(1)</script>\"}";
    size_t bytes;
    char *plain = page("{}", &bytes), *text = page(hostile, &bytes);
    cr_assert_eq(count(text, "</script"), count(plain, "</script"));
    cr_assert_eq(count(text, "<script"), count(plain, "<script"));
    free(plain);
    free(text);
}

Test(bench_report, the_page_names_no_other_place) {
    size_t bytes;
    char *text = page("{}", &bytes);
    cr_assert_eq(bytes, report_template_bytes - strlen("@RESULT@") + strlen("{}"));
    cr_assert_eq(count(text, "http:"), 0);
    cr_assert_eq(count(text, "https:"), 0);
    cr_assert_eq(count(text, "src="), 0);
    cr_assert_eq(count(text, "@import"), 0);
    cr_assert_eq(count(text, "url("), count(text, "url(#"), "only patterns of its own");
    cr_assert_eq(count(text, "href="), count(text, "href=\"data:,\""));
    free(text);
}

Test(bench_report, what_cannot_be_written_is_an_error) {
    iter_error err;
    cr_assert_eq(report_html_write("/nowhere/at/all.html", "{}", 2, &err), ITER_EIO);
    cr_assert_not_null(strstr(err.message, "/nowhere/at/all.html"), "%s", err.message);
    if (access("/dev/full", W_OK) == 0) {
        cr_assert_eq(report_html_write("/dev/full", "{}", 2, &err), ITER_EIO);
        cr_assert_not_null(strstr(err.message, "/dev/full"), "%s", err.message);
    }
}

/* ---- A diagnosis ----------------------------------------------------------------------------- */

static void expect_proof(iter_loader *loader, measure_interval proved, const char *line,
                         const char *json) {
    static diagnosis d;
    d = (diagnosis){
        .proved = proved,
        .has_proof = true,
        .arms[0].loaders = &loader,
        .asked.prove = true,
        .run.data = "synthetic:cifar10",
        .e.n_changes = 1,
        .e.changes[0] = {.option = "workers", .from = "0", .to = "2", .feasible = true},
        .v.n_changes = 1,
        .v.changes[0] = {.gain = 0.25, .ratio = {1.25, NAN, NAN, 0}, .advice = "--workers 2"}};
    void (*const writers[])(const diagnosis *, FILE *) = {diagnosis_print, diagnosis_json};
    const char *const want[] = {line, json};
    for (int i = 0; i < 2; i++) {
        char *text = NULL;
        size_t bytes;
        FILE *out = open_memstream(&text, &bytes);
        writers[i](&d, out);
        fclose(out);
        cr_assert_not_null(strstr(text, want[i]), "no \"%s\" in %s", want[i], text);
        free(text);
    }
}

Test(bench_report, a_proof_says_where_it_proves_nothing) {
    iter_dataset *data;
    iter_loader *loader;
    const iter_loader_options opt = ITER_LOADER_OPTIONS_INIT;
    cr_assert_eq(iter_dataset_open("synthetic:cifar10?n=64", NULL, &data, NULL), ITER_OK);
    cr_assert_eq(iter_dataloader_create(data, NULL, &opt, &loader, NULL), ITER_OK);
    expect_proof(loader, (measure_interval){1.2, 1.1, 1.3, 9},
                 "\nproof     --workers 2: +20 % [+10 %, +30 %]; expected about +25 %\n",
                 "\"proved_within_noise\": false");
    expect_proof(loader, (measure_interval){1.03, 0.98, 1.07, 9},
                 "\nproof     --workers 2: no difference that can be told [-2.0 %, +7.0 %]; "
                 "expected about +25 %\n",
                 "\"proved_within_noise\": true");
    expect_proof(loader, (measure_interval){1.2, 1, 1.3, 9},
                 "no difference that can be told [+0 %, +30 %];", "\"proved_within_noise\": true");
    expect_proof(loader, (measure_interval){0.9, 0.85, 0.95, 9},
                 "--workers 2: -10 % [-15 %, -5.0 %]; expected", "\"proved_within_noise\": false");
    expect_proof(loader, (measure_interval){1.2, NAN, NAN, 3},
                 "--workers 2: about +20 %; expected about +25 %", "\"proved_within_noise\": null");
    iter_loader_unref(loader);
    iter_dataset_unref(data);
}

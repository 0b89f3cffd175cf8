/*
 * cmd_report.c - `iterbench report RESULT.json OUT.html`: draws an earlier result.
 */
#include <stdlib.h>
#include <string.h>

#include "bench/common/bench_json.h"
#include "bench/common/bench_util.h"
#include "bench/iterbench.h"
#include "diagnose/report_html.h"

/* A result of iterbench has at least one of these parts, and it is not null. */
static iter_status check_result(const char *from, const json_value *value, iter_error *err) {
    static const char *const parts[] = {"arms", "limits", "decode", "doctor", "verdict", "a"};
    for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++) {
        const json_value *part = json_find(value, parts[i]);
        if (part != NULL && part->kind != JSON_NULL) return ITER_OK;
    }
    return bench_fail(err, ITER_EFORMAT,
                      "%s: not a result of iterbench: it has none of arms, limits, decode, doctor, "
                      "verdict, a and b",
                      from);
}

static iter_status report(const char *from, const char *to, iter_error *err) {
    size_t bytes;
    json_value *value = NULL;
    char *text = json_load(from, &bytes, err);
    if (text == NULL) return ITER_EIO;
    iter_status s = json_parse(from, text, bytes, &value, err);
    if (s == ITER_OK && value->kind != JSON_OBJECT)
        s = bench_fail(err, ITER_EFORMAT, "%s: not a result of iterbench: no object", from);
    if (s == ITER_OK && json_find(value, "traceEvents") != NULL)
        s = bench_fail(err, ITER_EFORMAT, "%s: a trace, not a result; Perfetto draws those", from);
    if (s == ITER_OK) s = check_result(from, value, err);
    if (s == ITER_OK) s = report_html_write(to, text, bytes, err);
    json_free(value);
    free(text);
    return s;
}

int cmd_report(const bench_options *options) {
    iter_error err;
    if (options->n_words != 2 || strcmp(options->words[0], options->words[1]) == 0) {
        bench_fail(&err, ITER_EINVAL, "report wants two files: RESULT.json OUT.html");
        return bench_say(BENCH_USAGE, &err);
    }
    iter_status s = report(options->words[0], options->words[1], &err);
    return s < 0 ? bench_say(BENCH_FAILED, &err) : BENCH_DONE;
}

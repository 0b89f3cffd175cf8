/* bench_failures.c - see bench_failures.h. */
#include "bench/report/bench_failures.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/common/bench_util.h"

/* ---- Reasons --------------------------------------------------------------------------------- */

/* The text after "stage: sample 17 (file:4711): "; NULL if the message has no such prefix. */
static const char *behind_sample(const char *message, size_t *out_stage) {
    const char *p = strstr(message, ": sample ");
    if (p == NULL) return NULL;
    *out_stage = (size_t)(p - message);
    p += strlen(": sample ");
    p += strspn(p, "0123456789");
    if (strncmp(p, " (", 2) == 0) {
        p = strstr(p, "): ");
        return p != NULL ? p + 3 : NULL;
    }
    return strncmp(p, ": ", 2) == 0 ? p + 2 : NULL;
}

static bool has_digit(const char *word, size_t length) {
    for (size_t i = 0; i < length; i++)
        if (isdigit((unsigned char)word[i])) return true;
    return false;
}

/* A word with a digit in it is taken for a number of this sample. */
static void reason_of(const char *message, char out[BENCH_REASON_MAX]) {
    size_t stage = 0, n = 0;
    const char *p = behind_sample(message, &stage);
    if (p != NULL) n = (size_t)snprintf(out, BENCH_REASON_MAX, "%.*s: ", (int)stage, message);
    if (p == NULL || n >= BENCH_REASON_MAX) p = message, n = 0;
    while (*p != '\0' && n + 1 < BENCH_REASON_MAX) {
        size_t length = 0;
        while (isalnum((unsigned char)p[length]))
            length++;
        if (length == 0) {
            out[n++] = *p++;
        } else if (has_digit(p, length)) {
            out[n++] = '#';
            p += length;
        } else {
            for (; length > 0 && n + 1 < BENCH_REASON_MAX; length--)
                out[n++] = *p++;
            p += length;
        }
    }
    out[n] = '\0';
}

static int by_count(const void *a, const void *b) {
    const bench_reason *x = a, *y = b;
    if (x->count != y->count) return x->count < y->count ? 1 : -1;
    return strcmp(x->text, y->text);
}

size_t bench_failure_reasons(const iter_failure *list, size_t n,
                             bench_reason out[BENCH_REASONS_MAX]) {
    size_t n_reasons = 0, n_other = 0;
    for (size_t i = 0; i < n; i++) {
        char text[BENCH_REASON_MAX];
        size_t k = 0;
        reason_of(list[i].message, text);
        while (k < n_reasons && strcmp(out[k].text, text) != 0)
            k++;
        if (k == BENCH_REASONS_MAX - 1) {
            n_other++;
            continue;
        }
        if (k == n_reasons) {
            memcpy(out[k].text, text, sizeof(text));
            out[n_reasons++].count = 0;
        }
        out[k].count++;
    }
    qsort(out, n_reasons, sizeof(out[0]), by_count);
    if (n_other > 0) out[n_reasons++] = (bench_reason){"other", n_other};
    return n_reasons;
}

/* ---- List ------------------------------------------------------------------------------------ */

/* Positions in the list, ordered by sample, then by position. */
typedef struct place {
    uint64_t index;
    size_t at;
} place;

static int by_sample(const void *a, const void *b) {
    const place *x = a, *y = b;
    if (x->index != y->index) return x->index < y->index ? -1 : 1;
    return (x->at > y->at) - (x->at < y->at);
}

/* first[i]: failure i is its sample's first. */
static bool *find_first(const iter_failure *list, size_t n) {
    place *places = malloc((n + 1) * sizeof(*places));
    bool *first = calloc(n + 1, sizeof(*first));
    for (size_t i = 0; places != NULL && first != NULL && i < n; i++)
        places[i] = (place){list[i].index, i};
    if (places != NULL && first != NULL) {
        qsort(places, n, sizeof(*places), by_sample);
        for (size_t i = 0; i < n; i++)
            first[places[i].at] = i == 0 || places[i].index != places[i - 1].index;
    } else {
        free(first);
        first = NULL;
    }
    free(places);
    return first;
}

size_t bench_failures_once(iter_failure *list, size_t n) {
    size_t n_kept = 0;
    bool *first = find_first(list, n);
    for (size_t i = 0; first != NULL && i < n; i++)
        if (first[i]) list[n_kept++] = list[i];
    free(first);
    return n_kept;
}

static void write_line(FILE *out, const iter_failure *f) {
    fprintf(out, "%u\t%" PRIu64 "\t%" PRIu64 "\t%s\t%s\n", f->epoch, f->position, f->index,
            iter_status_text(f->status), BENCH_SHOWN(f->message));
}

iter_status bench_failures_write(const char *path, const iter_failure *list, size_t n,
                                 iter_error *err) {
    bool *first = find_first(list, n);
    if (first == NULL) return bench_fail(err, ITER_ENOMEM, "no memory for %zu failures", n);
    FILE *out = fopen(path, "we");
    if (out == NULL) {
        free(first);
        return bench_fail(err, ITER_EIO, "%s: %s", path, strerror(errno));
    }
    fputs("epoch\tposition\tsample\tstatus\tmessage\n", out);
    for (size_t i = 0; i < n; i++)
        if (first[i]) write_line(out, &list[i]);
    free(first);
    const bool broken = ferror(out) != 0;
    if (fclose(out) != 0 || broken) return bench_fail(err, ITER_EIO, "%s: cannot be written", path);
    return ITER_OK;
}

/* test_remote_sign.c - signatures against those of botocore (tests/golden/make_sigv4.py). */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "iter/remote/sigv4.h"
#include "iter/remote/url.h"

TestSuite(remote_sign);

#define HEADERS 16

typedef struct signing_case {
    char name[64], region[32], service[32], time[32], method[16], path[4096], query[4096];
    char payload[80], authorization[512], access[64], secret[128], object[4096];
    bool has_object;
    char keys[HEADERS][64], values[HEADERS][512];
    int n_headers;
} signing_case;

static bool take(const char *line, const char *key, char *out, size_t capacity) {
    const size_t n = strlen(key);
    if (strncmp(line, key, n) != 0 || line[n] != ' ') return false;
    snprintf(out, capacity, "%s", line + n + 1);
    return true;
}

#define TAKE(key, field) take(line, key, c->field, sizeof(c->field))

/* Reads a case; false at the end. */
static bool read_case(FILE *file, signing_case *c) {
    static char line[8192];
    char hex[8192], header[1024];
    memset(c, 0, sizeof(*c));
    while (fgets(line, sizeof(line), file)) {
        line[strcspn(line, "\n")] = '\0';
        if (strcmp(line, "end") == 0) return true;
        if (TAKE("case", name) || TAKE("region", region) || TAKE("service", service) ||
            TAKE("time", time) || TAKE("method", method) || TAKE("path", path) ||
            TAKE("query", query) || TAKE("payload", payload) ||
            TAKE("authorization", authorization) || TAKE("access", access) ||
            TAKE("secret", secret))
            continue;
        if (take(line, "name", hex, sizeof(hex))) {
            c->has_object = true;
            for (size_t i = 0; hex[2 * i]; i++) {
                const char two[3] = {hex[2 * i], hex[2 * i + 1], '\0'};
                c->object[i] = (char)strtol(two, NULL, 16);
            }
        } else if (take(line, "header", header, sizeof(header))) {
            const size_t n = strcspn(header, ":");
            snprintf(c->keys[c->n_headers], 64, "%.*s", (int)n, header);
            snprintf(c->values[c->n_headers++], 512, "%s", header + n + 1);
        } else {
            cr_assert_fail("a line that no case has: %s", line);
        }
    }
    return false;
}

Test(remote_sign, botocore) {
    FILE *file = fopen(ITER_SOURCE_DIR "/tests/golden/sigv4/requests.txt", "r");
    cr_assert_not_null(file);
    static signing_case c;
    int n = 0, n_objects = 0;
    while (read_case(file, &c)) {
        iter_error err = {.status = ITER_OK};
        iter__sigv4_header headers[HEADERS];
        for (int i = 0; i < c.n_headers; i++)
            headers[i] = (iter__sigv4_header){c.keys[i], c.values[i]};
        char date[9] = "", out[1024];
        memcpy(date, c.time, 8);
        uint8_t key[ITER_SHA256_BYTES];
        cr_assert_eq(iter__sigv4_key(c.secret, date, c.region, c.service, key, &err), ITER_OK);
        const iter__sigv4_request request = {.method = c.method,
                                             .path = c.path,
                                             .query = c.query,
                                             .headers = headers,
                                             .n_headers = c.n_headers,
                                             .payload_hash = c.payload,
                                             .time = c.time,
                                             .region = c.region,
                                             .service = c.service,
                                             .access_key = c.access,
                                             .key = key};
        cr_assert_eq(iter__sigv4_sign(&request, out, sizeof(out), &err), ITER_OK, "%s",
                     err.message);
        cr_expect_str_eq(out, c.authorization, "%s %s", c.name, c.path);
        char few[8];
        cr_expect_eq(iter__sigv4_sign(&request, few, sizeof(few), &err), ITER_EINVAL);
        if (c.has_object) {
            char path[8192] = "/bucket/", *end = path + strlen(path);
            iter__url_encode(c.object, strlen(c.object), true, end, sizeof(path) - 16);
            cr_expect_str_eq(path, c.path);
            char back[8192];
            snprintf(back, sizeof(back), "%s", end);
            iter__url_decode(back);
            cr_expect_str_eq(back, c.object);
            n_objects++;
        }
        n++;
    }
    fclose(file);
    cr_expect_geq(n, 40);
    cr_expect_geq(n_objects, 10);
}

/*
 * remote_sign.c - what a signature of AWS Signature Version 4 costs: ours, and libcurl's own.
 *
 *     remote_sign URL ROUNDS
 *
 * Ours alone: iter__sigv4_sign() with the day's key, over a request as the library sends it.
 *
 * libcurl cannot sign without a request. So the same small object at URL is asked for again and
 * again over one connection, in four ways that take turns: unsigned; with the headers of a
 * signature that was made before; signed by libcurl (CURLOPT_AWS_SIGV4); and signed by ours, whose
 * headers are put into a list as the library does. What signing costs is the CPU time, of this
 * process alone, that a signed request takes more than one that carries such headers. Medians over
 * ROUNDS with 95 % intervals. The server must not check signatures.
 *
 * The library hides these functions, so this program has objects of its own.
 */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifdef ITER_HAVE_REMOTE

#include <curl/curl.h>
#include <time.h>

#include "diagnose/interval.h"
#include "iter/remote/sigv4.h"

#define ROUNDS_MAX 1000
#define SIGNATURES 4000 /* a round */
#define REQUESTS   1500 /* a round, of each way */
#define WARM       50
#define REGION     "us-east-1"
#define ACCESS_KEY "AKIAIOSFODNN7EXAMPLE" /* of AWS's documents */
#define SECRET_KEY "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"

enum { PLAIN, CARRIED, BY_CURL, BY_US, N_WAYS };

typedef struct signing {
    const char *url;
    char host[256], path[768];
    uint8_t key[ITER_SHA256_BYTES];
} signing;

static _Noreturn void die(const char *what, const char *why) {
    fprintf(stderr, "remote_sign: %s: %s\n", what, why);
    exit(1);
}

static double cpu_us(void) {
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return 1e6 * (double)t.tv_sec + 1e-3 * (double)t.tv_nsec;
}

static size_t ignore(char *bytes, size_t size, size_t n, void *user) {
    (void)bytes;
    (void)user;
    return size * n;
}

/* ---- Ours ------------------------------------------------------------------------------------ */

static void sign(const signing *s, char *out_time, char *out, size_t capacity) {
    iter_error err;
    const time_t now = time(NULL);
    struct tm tm;
    strftime(out_time, 32, "%Y%m%dT%H%M%SZ", gmtime_r(&now, &tm));
    const iter__sigv4_header headers[] = {
        {"host", s->host}, {"x-amz-content-sha256", ITER_SHA256_EMPTY}, {"x-amz-date", out_time}};
    const iter__sigv4_request request = {
        .method = "GET",
        .path = s->path,
        .query = "",
        .headers = headers,
        .n_headers = 3,
        .payload_hash = ITER_SHA256_EMPTY,
        .time = out_time,
        .region = REGION,
        .service = "s3",
        .access_key = ACCESS_KEY,
        .key = s->key,
    };
    if (iter__sigv4_sign(&request, out, capacity, &err) < 0) die("a signature", err.message);
}

static double measure_alone(const signing *s) {
    char time_text[32], signature[768];
    const double start = cpu_us();
    for (int i = 0; i < SIGNATURES; i++)
        sign(s, time_text, signature, sizeof(signature));
    return (cpu_us() - start) / SIGNATURES;
}

static struct curl_slist *add_headers(const signing *s) {
    char time_text[32], signature[768], line[1024];
    sign(s, time_text, signature, sizeof(signature));
    struct curl_slist *list = curl_slist_append(NULL, "x-amz-content-sha256: " ITER_SHA256_EMPTY);
    snprintf(line, sizeof(line), "x-amz-date: %s", time_text);
    list = curl_slist_append(list, line);
    snprintf(line, sizeof(line), "Authorization: %s", signature);
    return curl_slist_append(list, line);
}

/* ---- Requests -------------------------------------------------------------------------------- */

typedef struct way_handle {
    CURL *easy;
    struct curl_slist *carried; /* CARRIED's headers */
} way_handle;

static way_handle open_way(const signing *s, int way) {
    CURL *easy = curl_easy_init();
    if (!easy) die("memory", "none");
    curl_easy_setopt(easy, CURLOPT_URL, s->url);
    curl_easy_setopt(easy, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
    curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, ignore);
    curl_easy_setopt(easy, CURLOPT_FAILONERROR, 1L);
    if (way == BY_CURL) {
        curl_easy_setopt(easy, CURLOPT_AWS_SIGV4, "aws:amz:" REGION ":s3");
        curl_easy_setopt(easy, CURLOPT_USERPWD, ACCESS_KEY ":" SECRET_KEY);
    }
    return (way_handle){easy, way == CARRIED ? add_headers(s) : NULL};
}

static void close_way(way_handle *h) {
    curl_easy_cleanup(h->easy);
    curl_slist_free_all(h->carried);
}

static void ask(const signing *s, const way_handle *h, int way) {
    struct curl_slist *list = way == BY_US ? add_headers(s) : h->carried;
    curl_easy_setopt(h->easy, CURLOPT_HTTPHEADER, list);
    const CURLcode code = curl_easy_perform(h->easy);
    if (code != CURLE_OK) die(s->url, curl_easy_strerror(code));
    if (way == BY_US) curl_slist_free_all(list);
}

static double measure_way(const signing *s, const way_handle *h, int way) {
    for (int i = 0; i < WARM; i++)
        ask(s, h, way);
    const double start = cpu_us();
    for (int i = 0; i < REQUESTS; i++)
        ask(s, h, way);
    return (cpu_us() - start) / REQUESTS;
}

/* ---- Program --------------------------------------------------------------------------------- */

static void say(const char *what, double *values, uint32_t n, const char *unit) {
    const measure_interval m = measure_median(values, n);
    printf("%-44s %8.2f [%.2f, %.2f] %s\n", what, m.median, m.low, m.high, unit);
}

/* Of each round: a way's time less that of another way. */
static void less(const double *a, const double *b, uint32_t n, double *out) {
    for (uint32_t i = 0; i < n; i++)
        out[i] = a[i] - b[i];
}

static void measure(const signing *s, uint32_t rounds) {
    static double alone[ROUNDS_MAX], ways[N_WAYS][ROUNDS_MAX], headers[ROUNDS_MAX],
        by_curl[ROUNDS_MAX], by_us[ROUNDS_MAX], ratio[ROUNDS_MAX];
    way_handle handles[N_WAYS];
    for (int way = 0; way < N_WAYS; way++)
        handles[way] = open_way(s, way);
    for (uint32_t i = 0; i < rounds; i++) {
        alone[i] = measure_alone(s);
        for (int k = 0; k < N_WAYS; k++) {
            const int way = (int)((i + (uint32_t)k) % N_WAYS);
            ways[way][i] = measure_way(s, &handles[way], way);
        }
    }
    for (int way = 0; way < N_WAYS; way++)
        close_way(&handles[way]);
    less(ways[CARRIED], ways[PLAIN], rounds, headers);
    less(ways[BY_CURL], ways[CARRIED], rounds, by_curl);
    less(ways[BY_US], ways[CARRIED], rounds, by_us);
    for (uint32_t i = 0; i < rounds; i++)
        ratio[i] = by_curl[i] / alone[i];
    printf("%s\n%u rounds\n", curl_version(), rounds);
    say("our signature, alone", alone, rounds, "us of CPU");
    say("a request, unsigned", ways[PLAIN], rounds, "us of CPU");
    say("carrying a signature's headers: more", headers, rounds, "us of CPU");
    say("signing by libcurl: more than that", by_curl, rounds, "us of CPU");
    say("signing by ours, and making headers: more", by_us, rounds, "us of CPU");
    say("libcurl's signing / our signature", ratio, rounds, "");
}

int main(int argc, char **argv) {
    signing s = {.url = argc == 3 ? argv[1] : ""};
    iter_error err;
    char date[16];
    const time_t now = time(NULL);
    struct tm tm;
    const long rounds = argc == 3 ? strtol(argv[2], NULL, 10) : 0;
    if (rounds < 1 || rounds > ROUNDS_MAX ||
        sscanf(s.url, "http://%255[^/]%767s", s.host, s.path) != 2) {
        fprintf(stderr, "usage: remote_sign http://HOST/PATH ROUNDS\n");
        return 2;
    }
    curl_global_init(CURL_GLOBAL_DEFAULT);
    strftime(date, sizeof(date), "%Y%m%d", gmtime_r(&now, &tm));
    if (iter__sigv4_key(SECRET_KEY, date, REGION, "s3", s.key, &err) < 0)
        die("the day's key", err.message);
    measure(&s, (uint32_t)rounds);
    return 0;
}

#else

int main(void) {
    fprintf(stderr, "remote_sign: this build has no libcurl\n");
    return 77;
}

#endif

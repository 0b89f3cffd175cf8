/*
 * remote_bare.c - a plain loop that asks for ranges of objects: what reading from URLs can reach.
 *
 *     remote_bare RANGES CONNECTIONS [serve BYTES | SECONDS] [collate MIB]
 *
 * RANGES has a line "URL OFFSET SIZE" for each request; after the last one comes the first again.
 * CONNECTIONS requests are in flight, by HTTP/1.1 with keep-alive and libcurl's multi interface.
 * The bytes of a request are copied into the next place of a ring of memory, as any consumer must.
 * Each answer must be a 206 of the right size.
 *
 * "collate" makes the ring that large, and copies bytes out of it again before they are lost,
 * as a loader must that mixes the samples of that many bytes.
 *
 * SECONDS (5) is how long it runs. Then it prints requests and bytes a second, and CPU seconds.
 * "serve" answers as `iterbench serve` does: "run N" takes N requests, and a sample is BYTES bytes.
 * Between two answers requests stay in flight, as those of a loader do.
 */
#include <inttypes.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifdef ITER_HAVE_REMOTE

#include <curl/curl.h>
#include <sys/resource.h>

#include "bench/common/bench_util.h"

#define URL_BYTES    1024
#define MEMORY_BYTES ((size_t)32 << 20) /* more than a core's caches hold, as a loader's batches */
#define BUFFER_BYTES (512L << 10)       /* as the library's */
#define WAIT_MS      1000

typedef struct range {
    const char *url;
    uint64_t offset, size;
} range;

typedef struct ranges {
    range *all;
    size_t n, capacity;
    uint64_t largest;
    char *last_url; /* of the range before; URLs live until the end */
} ranges;

typedef struct connection {
    CURL *easy;
    uint8_t *to;
    uint64_t size, got;
} connection;

typedef struct loop {
    CURLM *multi;
    connection *connections;
    ranges list;
    size_t next; /* range */
    uint8_t *memory;
    size_t memory_bytes, at;
    uint8_t *batches; /* [MEMORY_BYTES], with `collate`; else NULL */
    size_t batches_at;
    uint64_t n_done, n_bytes; /* since the loop began */
} loop;

static _Noreturn void die(const char *what, const char *why) {
    fprintf(stderr, "remote_bare: %s: %s\n", what, why);
    exit(1);
}

/* ---- Ranges ---------------------------------------------------------------------------------- */

static const char *keep_url(ranges *list, const char *url) {
    if (list->last_url && strcmp(list->last_url, url) == 0) return list->last_url;
    list->last_url = strdup(url);
    if (!list->last_url) die("memory", "none");
    return list->last_url;
}

static void read_ranges(const char *path, ranges *list) {
    char url[URL_BYTES];
    range one;
    FILE *in = fopen(path, "r");
    if (!in) die(path, "cannot be opened");
    while (fscanf(in, "%1023s %" SCNu64 " %" SCNu64, url, &one.offset, &one.size) == 3) {
        if (list->n == list->capacity) {
            list->capacity = list->capacity ? 2 * list->capacity : 1024;
            list->all = realloc(list->all, list->capacity * sizeof(*list->all));
            if (!list->all) die("memory", "none");
        }
        one.url = keep_url(list, url);
        list->all[list->n++] = one;
        if (one.size > list->largest) list->largest = one.size;
    }
    const bool whole = feof(in) != 0;
    fclose(in);
    if (!whole || list->n == 0) die(path, "a line is not 'URL OFFSET SIZE', or there is none");
}

/* ---- Requests -------------------------------------------------------------------------------- */

static size_t take(char *bytes, size_t size, size_t n, void *user) {
    connection *c = user;
    n *= size;
    if (n > c->size - c->got) return 0;
    memcpy(c->to + c->got, bytes, n);
    c->got += n;
    return n;
}

/* Copies n bytes of the oldest request to the batches. */
static void collate(loop *l, const uint8_t *from, size_t n) {
    while (n > 0) {
        const size_t left = MEMORY_BYTES - l->batches_at, part = n < left ? n : left;
        memcpy(l->batches + l->batches_at, from, part);
        l->batches_at = (l->batches_at + part) % MEMORY_BYTES;
        from += part;
        n -= part;
    }
}

static void ask(loop *l, connection *c) {
    char text[64];
    const range *r = &l->list.all[l->next];
    l->next = (l->next + 1) % l->list.n;
    if (l->at + r->size > l->memory_bytes) l->at = 0;
    c->to = l->memory + l->at;
    if (l->batches) collate(l, c->to, r->size);
    c->size = r->size;
    c->got = 0;
    l->at += r->size;
    snprintf(text, sizeof(text), "%" PRIu64 "-%" PRIu64, r->offset, r->offset + r->size - 1);
    curl_easy_setopt(c->easy, CURLOPT_URL, r->url);
    curl_easy_setopt(c->easy, CURLOPT_RANGE, text);
    if (curl_multi_add_handle(l->multi, c->easy) != CURLM_OK) die(r->url, "cannot be asked for");
}

static void settle(loop *l, const CURLMsg *message) {
    connection *c;
    long status = 0;
    CURL *easy = message->easy_handle;
    const CURLcode code = message->data.result; /* gone once the handle is removed */
    curl_easy_getinfo(easy, CURLINFO_PRIVATE, (char **)(void *)&c);
    curl_easy_getinfo(easy, CURLINFO_RESPONSE_CODE, &status);
    if (code != CURLE_OK) die("a request", curl_easy_strerror(code));
    if (status != 206 || c->got != c->size) die("a request", "not a 206 of the size asked for");
    curl_multi_remove_handle(l->multi, easy);
    l->n_done++;
    l->n_bytes += c->got;
    ask(l, c);
}

/* Until n more requests have ended; as many as there are connections stay in flight. */
static void take_requests(loop *l, uint64_t n) {
    const uint64_t until = l->n_done + n;
    int running, left;
    for (;;) {
        if (curl_multi_perform(l->multi, &running) != CURLM_OK) die("curl", "perform");
        const uint64_t before = l->n_done;
        for (const CURLMsg *m; (m = curl_multi_info_read(l->multi, &left));)
            if (m->msg == CURLMSG_DONE) settle(l, m);
        if (l->n_done >= until) return;
        if (l->n_done == before && curl_multi_poll(l->multi, NULL, 0, WAIT_MS, NULL) != CURLM_OK)
            die("curl", "poll");
    }
}

static void open_loop(loop *l, const char *path, long n_connections, size_t collate_bytes) {
    curl_global_init(CURL_GLOBAL_DEFAULT);
    read_ranges(path, &l->list);
    /* A place is not written again while its request is in flight. */
    const size_t least = (size_t)l->list.largest * (size_t)(n_connections + 1);
    const size_t wanted = collate_bytes ? collate_bytes : MEMORY_BYTES;
    l->memory_bytes = least > wanted ? least : wanted;
    l->memory = malloc(l->memory_bytes);
    l->batches = collate_bytes ? calloc(1, MEMORY_BYTES) : NULL;
    if (collate_bytes && !l->batches) die("memory", "none");
    l->connections = calloc((size_t)n_connections, sizeof(*l->connections));
    l->multi = curl_multi_init();
    if (!l->memory || !l->connections || !l->multi) die("memory", "none");
    memset(l->memory, 1, l->memory_bytes);
    curl_multi_setopt(l->multi, CURLMOPT_PIPELINING, (long)CURLPIPE_NOTHING);
    curl_multi_setopt(l->multi, CURLMOPT_MAXCONNECTS, n_connections);
    for (long i = 0; i < n_connections; i++) {
        connection *c = &l->connections[i];
        c->easy = curl_easy_init();
        if (!c->easy) die("memory", "none");
        curl_easy_setopt(c->easy, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
        curl_easy_setopt(c->easy, CURLOPT_NOSIGNAL, 1L);
        curl_easy_setopt(c->easy, CURLOPT_BUFFERSIZE, BUFFER_BYTES);
        curl_easy_setopt(c->easy, CURLOPT_WRITEFUNCTION, take);
        curl_easy_setopt(c->easy, CURLOPT_WRITEDATA, c);
        curl_easy_setopt(c->easy, CURLOPT_PRIVATE, c);
        ask(l, c);
    }
}

static void close_loop(loop *l, long n_connections) {
    for (long i = 0; i < n_connections; i++) {
        curl_multi_remove_handle(l->multi, l->connections[i].easy);
        curl_easy_cleanup(l->connections[i].easy);
    }
    curl_multi_cleanup(l->multi);
    free(l->connections);
    free(l->memory);
    free(l->batches);
    free(l->list.all);
}

/* ---- The two ways to run --------------------------------------------------------------------- */

static void serve(loop *l, double sample_bytes) {
    char line[128];
    uint64_t n;
    while (fgets(line, sizeof(line), stdin) && strcmp(line, "quit\n") != 0) {
        if (sscanf(line, "run %" SCNu64, &n) != 1) die(line, "expected 'run N' or 'quit'");
        const uint64_t bytes = l->n_bytes;
        const double start = bench_now();
        take_requests(l, n);
        const double seconds = bench_now() - start;
        printf("%.0f %.9f\n", (double)(l->n_bytes - bytes) / sample_bytes, seconds);
        fflush(stdout);
    }
}

static double seconds_of(struct timeval t) {
    return (double)t.tv_sec + 1e-6 * (double)t.tv_usec;
}

static void run(loop *l, long n_connections, double seconds) {
    struct rusage before, after;
    take_requests(l, 4 * (uint64_t)n_connections);
    const uint64_t done = l->n_done, bytes = l->n_bytes;
    getrusage(RUSAGE_SELF, &before);
    const double start = bench_now();
    while (bench_now() - start < seconds)
        take_requests(l, 1);
    const double took = bench_now() - start;
    getrusage(RUSAGE_SELF, &after);
    const double n = (double)(l->n_done - done);
    const double user = seconds_of(after.ru_utime) - seconds_of(before.ru_utime);
    const double kernel = seconds_of(after.ru_stime) - seconds_of(before.ru_stime);
    printf("%.0f requests/s, %.3f GB/s, %.3f s of CPU (%.3f user, %.3f kernel) in %.3f s, "
           "%.1f us of CPU a request\n",
           n / took, 1e-9 * (double)(l->n_bytes - bytes) / took, user + kernel, user, kernel, took,
           1e6 * (user + kernel) / n);
}

int main(int argc, char **argv) {
    loop l = {0};
    const long n_connections = argc > 2 ? strtol(argv[2], NULL, 10) : 0;
    const bool collates = argc > 4 && strcmp(argv[argc - 2], "collate") == 0;
    const double collate_mib = collates ? strtod(argv[argc - 1], NULL) : 0;
    if (collates) argc -= 2;
    const bool serves = argc == 5 && strcmp(argv[3], "serve") == 0;
    const double number = serves ? strtod(argv[4], NULL) : argc == 4 ? strtod(argv[3], NULL) : 5;
    if (n_connections < 1 || n_connections > 4096 || number <= 0 || (argc > 4 && !serves) ||
        (collates && !(collate_mib >= 1 && collate_mib <= 65536))) {
        fprintf(stderr, "usage: remote_bare RANGES CONNECTIONS [serve BYTES | SECONDS] "
                        "[collate MIB]\n");
        return 2;
    }
    open_loop(&l, argv[1], n_connections, (size_t)(collate_mib * 1048576));
    if (serves)
        serve(&l, number);
    else
        run(&l, n_connections, number);
    close_loop(&l, n_connections);
    return 0;
}

#else

int main(void) {
    fprintf(stderr, "remote_bare: this build has no libcurl\n");
    return 77;
}

#endif

/* test_remote_source.c - the source for URLs against a server in a thread: reads that are dropped
 * end although no answer comes, and a server's Retry-After is obeyed. */
#include <criterion/criterion.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "iter/core/time.h"
#include "tests/support/bounded.h"

#include <iter/ops.h>

extern const iter_source_ops iter__source_remote;

TestSuite(remote_source, .timeout = 120);

#define N_READS 40
#define SIZE    100

/* Its answers: ranges of a file whose bytes are all 'x'. */
typedef struct server {
    int listening;
    char url[64];
    atomic_bool answers;       /* else it only reads requests */
    atomic_int refuses;        /* so many requests get 503 */
    atomic_uint n_open, n_got; /* connections; requests */
    atomic_llong got_ns[8];    /* when the first ones came */
} server;

typedef struct connection {
    server *server;
    int fd;
} connection;

static void answer(server *s, int fd, const char *request) {
    char text[512];
    unsigned long long first = 0, last = 0;
    const char *range = strcasestr(request, "range: bytes=");
    if (range) (void)sscanf(range + 13, "%llu-%llu", &first, &last);
    if (atomic_fetch_sub(&s->refuses, 1) > 0) {
        snprintf(text, sizeof(text),
                 "HTTP/1.1 503 x\r\nRetry-After: 1\r\nContent-Length: 0\r\n\r\n");
    } else {
        const int n = snprintf(text, sizeof(text),
                               "HTTP/1.1 206 x\r\nContent-Range: bytes %llu-%llu/100000\r\n"
                               "Content-Length: %llu\r\n\r\n",
                               first, last, last - first + 1);
        memset(text + n, 'x', SIZE);
        text[n + SIZE] = '\0';
    }
    (void)!send(fd, text, strlen(text), MSG_NOSIGNAL);
}

static void *serve(void *user) {
    const connection c = *(connection *)user;
    char request[4096];
    ssize_t n;
    free(user);
    while ((n = recv(c.fd, request, sizeof(request) - 1, 0)) > 0) {
        request[n] = '\0';
        const unsigned i = atomic_fetch_add(&c.server->n_got, 1);
        if (i < 8) atomic_store(&c.server->got_ns[i], iter__now_ns());
        if (atomic_load(&c.server->answers)) answer(c.server, c.fd, request);
    }
    close(c.fd);
    atomic_fetch_sub(&c.server->n_open, 1);
    return NULL;
}

static void *accept_all(void *user) {
    server *s = user;
    for (;;) {
        connection *c = malloc(sizeof(*c));
        pthread_t thread;
        *c = (connection){s, accept(s->listening, NULL, NULL)};
        if (c->fd < 0) {
            free(c);
            return NULL;
        }
        atomic_fetch_add(&s->n_open, 1);
        cr_assert_eq(pthread_create(&thread, NULL, serve, c), 0);
        pthread_detach(thread);
    }
}

static void start(server *s, pthread_t *thread) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t n = sizeof(address);
    memset(s, 0, sizeof(*s));
    s->listening = socket(AF_INET, SOCK_STREAM, 0);
    cr_assert_eq(bind(s->listening, (struct sockaddr *)&address, n), 0);
    cr_assert_eq(listen(s->listening, 128), 0);
    cr_assert_eq(getsockname(s->listening, (struct sockaddr *)&address, &n), 0);
    snprintf(s->url, sizeof(s->url), "http://127.0.0.1:%u/x", (unsigned)ntohs(address.sin_port));
    cr_assert_eq(pthread_create(thread, NULL, accept_all, s), 0);
}

static void stop(server *s, pthread_t thread) {
    while (atomic_load(&s->n_open) > 0)
        bounded_sleep(0.001);
    shutdown(s->listening, SHUT_RDWR);
    pthread_join(thread, NULL);
    close(s->listening);
}

typedef struct reading {
    const iter_source_ops *ops;
    void *state;
    iter_file file;
    iter_read reads[N_READS];
    iter_iovec parts[N_READS];
    char bytes[N_READS][SIZE];
    unsigned n_done;
} reading;

static reading *begin(const server *s) {
    reading *r = calloc(1, sizeof(*r));
    char fallback[160];
    iter_error err;
    r->ops = &iter__source_remote;
    r->state = calloc(1, r->ops->base.state_size);
    r->file = (iter_file){.path = s->url, .bytes = 100000};
    const iter_source_config config = {.files = &r->file, .n_files = 1, .depth = 64};
    cr_assert_eq(r->ops->open(r->state, &config, fallback, sizeof(fallback), &err), ITER_OK);
    for (unsigned i = 0; i < N_READS; i++) {
        r->parts[i] = (iter_iovec){r->bytes[i], SIZE};
        r->reads[i] =
            (iter_read){.offset = i * SIZE, .parts = &r->parts[i], .n_parts = 1, .size = SIZE};
    }
    return r;
}

static void send_reads(reading *r, unsigned first, unsigned n) {
    for (unsigned i = first; i < first + n; i++)
        cr_assert_eq(r->ops->submit(r->state, &r->reads[i]), ITER_PENDING);
    cr_assert_eq(r->ops->commit(r->state), ITER_OK);
}

/* Waits until n reads have ended. */
static void reap(reading *r, unsigned n) {
    iter_read *done[N_READS];
    while (r->n_done < n) {
        cr_assert_eq(r->ops->wait(r->state, 20000000), ITER_OK);
        r->n_done += (unsigned)r->ops->reap(r->state, done, N_READS);
    }
    cr_expect_eq(r->n_done, n);
}

static void end(reading *r) {
    r->ops->close(r->state);
    free(r->state);
    free(r);
}

/* 16 are in flight, the others are queued. The server never answers, so only drop() ends them. */
Test(remote_source, dropped_reads_end) {
    server s;
    pthread_t thread;
    start(&s, &thread);
    reading *r = begin(&s);
    send_reads(r, 0, N_READS - 1);
    while (atomic_load(&s.n_got) < 16)
        cr_assert_eq(r->ops->wait(r->state, 1000000), ITER_OK);
    for (unsigned i = 0; i < N_READS - 1; i++)
        r->ops->drop(r->state, &r->reads[i]);
    reap(r, N_READS - 1);
    for (unsigned i = 0; i < N_READS - 1; i++)
        cr_expect_eq(r->reads[i].status, ITER_ECANCELED);
    while (atomic_load(&s.n_open) > 0) /* the connections are closed */
        bounded_sleep(0.001);
    cr_expect_eq(atomic_load(&s.n_got), 16, "no queued read was sent");
    atomic_store(&s.answers, true);
    send_reads(r, N_READS - 1, 1);
    reap(r, N_READS);
    cr_expect_eq(r->reads[N_READS - 1].status, ITER_OK);
    cr_expect_eq(r->bytes[N_READS - 1][SIZE - 1], 'x');
    end(r);
    stop(&s, thread);
}

/* A read that has ended, or ends meanwhile, may be dropped, too. */
Test(remote_source, dropped_while_they_end) {
    server s;
    pthread_t thread;
    start(&s, &thread);
    reading *r = begin(&s);
    atomic_store(&s.answers, true);
    send_reads(r, 0, N_READS);
    while (atomic_load(&s.n_got) < 4)
        cr_assert_eq(r->ops->wait(r->state, 1000000), ITER_OK);
    for (unsigned i = 0; i < N_READS; i += 2)
        r->ops->drop(r->state, &r->reads[i]);
    reap(r, N_READS);
    for (unsigned i = 0; i < N_READS; i++) {
        const bool fine = r->reads[i].status == ITER_OK && r->bytes[i][SIZE - 1] == 'x';
        cr_expect(fine || (i % 2 == 0 && r->reads[i].status == ITER_ECANCELED), "read %u", i);
    }
    end(r);
    stop(&s, thread);
}

Test(remote_source, waits_as_the_server_asks) {
    server s;
    pthread_t thread;
    start(&s, &thread);
    reading *r = begin(&s);
    atomic_store(&s.answers, true);
    atomic_store(&s.refuses, 1);
    send_reads(r, 0, 1);
    reap(r, 1);
    cr_expect_eq(r->reads[0].status, ITER_OK);
    cr_expect_eq(atomic_load(&s.n_got), 2);
    cr_expect_geq(atomic_load(&s.got_ns[1]) - atomic_load(&s.got_ns[0]), 999000000);
    end(r);
    stop(&s, thread);
}

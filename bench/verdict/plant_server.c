/*
 * plant_server.c - see plant_server.h. HTTP/1.1 as far as the library asks: GET with a range, HEAD,
 * connections that stay open. A process of its own, so that its CPU time is not the run's, with a
 * thread for each connection.
 */
#include "bench/verdict/plant_server.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench/common/bench_util.h"

#define HEAD_MAX    8192
#define WAITING_MAX 1024 /* connections that wait to be accepted */

struct plant_server {
    pid_t process;
    double latency_s, most_a_s;
    char url[64], word[24];
    pthread_mutex_t lock;    /* guards these, in the server */
    double allowed, since_s; /* answers that may be given now */
};

typedef struct connection {
    plant_server *server;
    int fd;
} connection;

static double now_s(void) {
    return (double)bench_now_ns() * 1e-9;
}

static bool may_answer(plant_server *server) {
    if (server->most_a_s <= 0) return true;
    pthread_mutex_lock(&server->lock);
    const double now = now_s();
    server->allowed += (now - server->since_s) * server->most_a_s;
    server->since_s = now;
    const double most = 1 + server->most_a_s * 0.01; /* a burst of 10 ms */
    if (server->allowed > most) server->allowed = most;
    const bool may = server->allowed >= 1;
    if (may) server->allowed -= 1;
    pthread_mutex_unlock(&server->lock);
    return may;
}

static bool send_all(int fd, const char *bytes, size_t n) {
    while (n > 0) {
        const ssize_t sent = send(fd, bytes, n, MSG_NOSIGNAL);
        if (sent < 0 && errno == EINTR) continue;
        if (sent <= 0) return false;
        bytes += sent;
        n -= (size_t)sent;
    }
    return true;
}

static bool send_file(int fd, int file, off_t at, size_t n) {
    while (n > 0) {
        const ssize_t sent = sendfile(fd, file, &at, n);
        if (sent < 0 && errno == EINTR) continue;
        if (sent <= 0) return false;
        n -= (size_t)sent;
    }
    return true;
}

static bool say(int fd, const char *status, const char *more) {
    char head[HEAD_MAX + 256];
    const int n =
        snprintf(head, sizeof(head), "HTTP/1.1 %s\r\nContent-Length: 0\r\n%s\r\n", status, more);
    return send_all(fd, head, (size_t)n);
}

static void decode(char *path) {
    char *out = path;
    for (const char *at = path; *at != '\0'; out++) {
        unsigned code;
        if (at[0] == '%' && sscanf(at + 1, "%2x", &code) == 1) {
            *out = (char)code;
            at += 3;
        } else {
            *out = *at++;
        }
    }
    *out = '\0';
}

/* Answers one request, whose head is `text`. False = the connection ends. */
static bool answer(plant_server *server, int fd, char *text) {
    const bool head_only = strncmp(text, "HEAD ", 5) == 0;
    char *path = strchr(text, ' ');
    char *end = path != NULL ? strchr(path + 1, ' ') : NULL;
    if (end == NULL || (!head_only && strncmp(text, "GET ", 4) != 0)) return false;
    *end = '\0';
    path++;
    const size_t n_word = strlen(server->word);
    if (path[0] != '/' || strncmp(path + 1, server->word, n_word) != 0)
        return say(fd, "403 Forbidden", "");
    const char *range = strcasestr(end + 1, "\nrange: bytes=");
    unsigned long long first = 0, last = UINT64_MAX;
    const bool has_range = range != NULL && sscanf(range + 14, "%llu-%llu", &first, &last) == 2;
    if (!head_only && !may_answer(server)) return say(fd, "503 Slow Down", "");
    if (!head_only) bench_sleep(server->latency_s);
    char *name = path + 1 + n_word;
    struct stat st;
    decode(name);
    const int file = open(name, O_RDONLY | O_CLOEXEC);
    if (file < 0 || fstat(file, &st) < 0 || (!S_ISREG(st.st_mode) && !S_ISDIR(st.st_mode))) {
        if (file >= 0) close(file);
        return say(fd, "404 Not Found", "");
    }
    if (S_ISDIR(st.st_mode)) {
        char more[HEAD_MAX];
        const bool ends = name[strlen(name) - 1] == '/';
        snprintf(more, sizeof(more), "Location: %.4000s/\r\n", path);
        close(file);
        return ends ? say(fd, "200 OK", "") : say(fd, "301 Moved Permanently", more);
    }
    const unsigned long long size = (unsigned long long)st.st_size;
    if (last >= size) last = size - 1;
    if (first >= size || first > last) {
        close(file);
        return size == 0 && !has_range ? say(fd, "200 OK", "") : say(fd, "416 No Such Range", "");
    }
    char head[512], of[96] = "";
    if (has_range)
        snprintf(of, sizeof(of), "Content-Range: bytes %llu-%llu/%llu\r\n", first, last, size);
    const int n = snprintf(head, sizeof(head),
                           "HTTP/1.1 %s\r\nETag: \"%llx-%llx\"\r\nContent-Length: %llu\r\n%s\r\n",
                           has_range ? "206 Partial Content" : "200 OK", size,
                           (unsigned long long)st.st_mtime, last - first + 1, of);
    const bool ok = send_all(fd, head, (size_t)n) &&
                    (head_only || send_file(fd, file, (off_t)first, (size_t)(last - first + 1)));
    close(file);
    return ok;
}

static void *serve(void *user) {
    const connection c = *(connection *)user;
    char head[HEAD_MAX + 1];
    size_t n = 0;
    free(user);
    for (;;) {
        head[n] = '\0';
        char *end = strstr(head, "\r\n\r\n");
        if (end != NULL) {
            const size_t used = (size_t)(end + 4 - head);
            char rest[HEAD_MAX + 1];
            memcpy(rest, end + 4, n - used);
            end[2] = '\0';
            if (!answer(c.server, c.fd, head)) break;
            n -= used;
            memcpy(head, rest, n);
            continue;
        }
        const ssize_t got = n < HEAD_MAX ? recv(c.fd, head + n, HEAD_MAX - n, 0) : 0;
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0) break;
        n += (size_t)got;
    }
    close(c.fd);
    return NULL;
}

/* Starts the thread of a connection; false = it cannot be served. */
static bool begin(plant_server *server, int fd) {
    const int yes = 1;
    pthread_t thread;
    connection *c = malloc(sizeof(*c));
    if (c == NULL) return false;
    *c = (connection){server, fd};
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof(yes));
    if (pthread_create(&thread, NULL, serve, c) != 0) {
        free(c);
        return false;
    }
    pthread_detach(thread);
    return true;
}

/* The server's process: it ends with its parent, or by a signal. */
static void accept_all(plant_server *server, int listening, pid_t parent) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    signal(SIGINT, SIG_IGN); /* these are for the run, which ends the server */
    signal(SIGTERM, SIG_IGN);
    signal(SIGPIPE, SIG_IGN); /* sendfile() to a connection that was closed */
    while (getppid() == parent) {
        const int fd = accept4(listening, NULL, NULL, SOCK_CLOEXEC);
        if (fd >= 0 && !begin(server, fd)) close(fd);
        if (fd < 0 && errno != EINTR && errno != ECONNABORTED) break;
    }
    _exit(0);
}

iter_status plant_server_start(double latency_s, double most_a_s, plant_server **out,
                               iter_error *err) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t n = sizeof(address);
    uint64_t word = 0;
    plant_server *server = *out = calloc(1, sizeof(*server));
    if (server == NULL) return bench_fail(err, ITER_ENOMEM, "no memory for a server");
    server->latency_s = latency_s;
    server->most_a_s = most_a_s;
    server->since_s = now_s();
    pthread_mutex_init(&server->lock, NULL);
    const int listening = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    bool ok = listening >= 0 && bind(listening, (struct sockaddr *)&address, n) == 0 &&
              listen(listening, WAITING_MAX) == 0 &&
              getsockname(listening, (struct sockaddr *)&address, &n) == 0 &&
              getrandom(&word, sizeof(word), 0) == sizeof(word);
    snprintf(server->word, sizeof(server->word), "%016llx", (unsigned long long)word);
    snprintf(server->url, sizeof(server->url), "http://127.0.0.1:%u/%s",
             (unsigned)ntohs(address.sin_port), server->word);
    const pid_t parent = getpid();
    server->process = ok ? fork() : -1;
    if (server->process == 0) accept_all(server, listening, parent);
    ok = ok && server->process > 0;
    if (!ok) bench_fail(err, ITER_EIO, "a server on loopback: %s", strerror(errno));
    if (listening >= 0) close(listening);
    if (ok) return ITER_OK;
    free(server);
    *out = NULL;
    return ITER_EIO;
}

void plant_server_stop(plant_server *server) {
    if (server == NULL) return;
    kill(server->process, SIGKILL);
    while (waitpid(server->process, NULL, 0) < 0 && errno == EINTR) {
    }
    pthread_mutex_destroy(&server->lock);
    free(server);
}

const char *plant_server_url(const plant_server *server) {
    return server->url;
}

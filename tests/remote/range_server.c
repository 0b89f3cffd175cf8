/*
 * range_server.c - a fast server of one file, slow or refusing as it is told, for measurements with
 * more requests a second than faulty_server.py can answer. HTTP/1.1: GET with or without a range,
 * HEAD; a thread for each connection, on loopback.
 *
 *     range_server FILE [latency=MS] [grants=N] [busy=K] [reset=K]
 *
 * latency: answers begin after so many milliseconds. grants: answers a second, in bursts of 10 ms;
 * what is above gets 503 at once. busy: each K-th request gets 503; reset: each K-th answer ends
 * half way, with its connection. Requests with HEAD have no faults.
 *
 * Prints its port. Then it answers each line on stdin with "granted refused reset", so far, and
 * ends with stdin.
 */
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define HEAD_MAX 8192

static int file;
static unsigned long long bytes;
static double latency_s, grants_s;
static unsigned busy, reset;
static atomic_ulong granted, refused, n_reset, n_asked;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* guards these */
static double allowed, since_s;

static double now_s(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static bool grants(void) {
    if (grants_s <= 0) return true;
    pthread_mutex_lock(&lock);
    const double now = now_s(), most = 1 + grants_s * 0.01;
    allowed += (now - since_s) * grants_s;
    since_s = now;
    if (allowed > most) allowed = most;
    const bool may = allowed >= 1;
    if (may) allowed -= 1;
    pthread_mutex_unlock(&lock);
    return may;
}

static void pause_s(double seconds) {
    const struct timespec pause = {(time_t)seconds, (long)((seconds - (long)seconds) * 1e9)};
    if (seconds > 0) nanosleep(&pause, NULL);
}

static bool send_file(int fd, off_t at, size_t n) {
    while (n > 0) {
        const ssize_t sent = sendfile(fd, file, &at, n);
        if (sent <= 0) return false;
        n -= (size_t)sent;
    }
    return true;
}

static bool say(int fd, const char *head) {
    return send(fd, head, strlen(head), MSG_NOSIGNAL | MSG_MORE) == (ssize_t)strlen(head);
}

/* False = the connection ends. */
static bool answer(int fd, const char *text) {
    char head[512], of[96] = "";
    unsigned long long first = 0, last = bytes - 1;
    const bool body = strncmp(text, "GET ", 4) == 0;
    const char *range = strcasestr(text, "\nrange: bytes=");
    if (range) (void)sscanf(range + 14, "%llu-%llu", &first, &last);
    if (last >= bytes) last = bytes - 1;
    const unsigned long number = body ? atomic_fetch_add(&n_asked, 1) + 1 : 0;
    if (body && ((busy && number % busy == 0) || !grants())) {
        atomic_fetch_add(&refused, 1);
        const char *no = "HTTP/1.1 503 Slow Down\r\nContent-Length: 0\r\n\r\n";
        return send(fd, no, strlen(no), MSG_NOSIGNAL) > 0;
    }
    pause_s(latency_s);
    if (range)
        snprintf(of, sizeof(of), "Content-Range: bytes %llu-%llu/%llu\r\n", first, last, bytes);
    snprintf(head, sizeof(head),
             "HTTP/1.1 %s\r\nETag: \"%llx-x\"\r\nContent-Length: %llu\r\n%s\r\n",
             range ? "206 Partial Content" : "200 OK", bytes, last - first + 1, of);
    if (!body) return send(fd, head, strlen(head), MSG_NOSIGNAL) > 0;
    if (!say(fd, head)) return false;
    const size_t n = (size_t)(last - first + 1);
    if (reset && number % reset == 0) {
        const struct linger now = {1, 0};
        atomic_fetch_add(&n_reset, 1);
        (void)send_file(fd, (off_t)first, n / 2);
        setsockopt(fd, SOL_SOCKET, SO_LINGER, &now, sizeof(now));
        return false;
    }
    if (!send_file(fd, (off_t)first, n)) return false;
    atomic_fetch_add(&granted, 1);
    return true;
}

static void *serve(void *user) {
    const int fd = (int)(long)user;
    char head[HEAD_MAX + 1];
    size_t n = 0;
    for (;;) {
        head[n] = '\0';
        char *end = strstr(head, "\r\n\r\n");
        if (end) {
            const size_t used = (size_t)(end + 4 - head);
            end[2] = '\0';
            if (!answer(fd, head)) break;
            n -= used;
            memmove(head, head + used, n);
            continue;
        }
        const ssize_t got = n < HEAD_MAX ? recv(fd, head + n, HEAD_MAX - n, 0) : 0;
        if (got <= 0) break;
        n += (size_t)got;
    }
    close(fd);
    return NULL;
}

static void *accept_all(void *user) {
    const int listening = *(int *)user, yes = 1;
    for (;;) {
        pthread_t thread;
        const int fd = accept(listening, NULL, NULL);
        if (fd < 0) continue;
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof(yes));
        if (pthread_create(&thread, NULL, serve, (void *)(long)fd) == 0)
            pthread_detach(thread);
        else
            close(fd);
    }
    return NULL;
}

int main(int argc, char **argv) {
    struct stat st;
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t n = sizeof(address);
    char line[64];
    pthread_t thread;
    file = argc > 1 ? open(argv[1], O_RDONLY) : -1;
    if (file < 0 || fstat(file, &st) < 0) return 1;
    bytes = (unsigned long long)st.st_size;
    for (int i = 2; i < argc; i++) {
        double value;
        if (sscanf(argv[i], "latency=%lf", &value) == 1) latency_s = value / 1000;
        if (sscanf(argv[i], "grants=%lf", &value) == 1) grants_s = value;
        if (sscanf(argv[i], "busy=%lf", &value) == 1) busy = (unsigned)value;
        if (sscanf(argv[i], "reset=%lf", &value) == 1) reset = (unsigned)value;
    }
    since_s = now_s();
    signal(SIGPIPE, SIG_IGN);
    int listening = socket(AF_INET, SOCK_STREAM, 0);
    if (bind(listening, (struct sockaddr *)&address, n) < 0 || listen(listening, 1024) < 0 ||
        getsockname(listening, (struct sockaddr *)&address, &n) < 0 ||
        pthread_create(&thread, NULL, accept_all, &listening) != 0)
        return 1;
    printf("%u\n", (unsigned)ntohs(address.sin_port));
    fflush(stdout);
    while (fgets(line, sizeof(line), stdin)) {
        printf("%lu %lu %lu\n", atomic_load(&granted), atomic_load(&refused),
               atomic_load(&n_reset));
        fflush(stdout);
    }
    return 0;
}

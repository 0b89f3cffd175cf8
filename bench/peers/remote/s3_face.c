/*
 * s3_face.c - a fast server with the face of S3, for comparisons of clients: one thread, files in
 * memory, and a fixed time before each answer.
 *
 *     s3_face ROOT PORT DELAY_MS
 *
 * A folder in ROOT is a bucket, a file below it an object; all are mapped at the start. It answers on
 * 127.0.0.1, with buckets in the path: GET and HEAD of objects, with Range; ListObjectsV2 with prefix,
 * delimiter, max-keys and continuation-token; GET ?location and HEAD of a bucket. Signatures are not
 * checked. DELAY_MS is the time from a request to the first byte of its answer; any number of requests
 * may wait at once. Bandwidth is loopback's, and connecting takes no such time.
 *
 * GET /-/counts answers "requests bytes" since the last such request.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <inttypes.h>
#include <netinet/tcp.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#define REQUEST_BYTES 16384
#define HEAD_BYTES    1024
#define EVENTS        256
#define MODIFIED_HTTP "Thu, 01 Oct 2026 00:00:00 GMT"
#define MODIFIED_ISO  "2026-10-01T00:00:00.000Z"

typedef struct object {
    char *name; /* bucket/key */
    const uint8_t *bytes;
    uint64_t size;
} object;

typedef struct client client;
struct client {
    int fd;
    char request[REQUEST_BYTES + 1];
    size_t n_request;
    char head[HEAD_BYTES]; /* the answer: a head, then a body */
    size_t n_head;
    const uint8_t *body;
    size_t n_body;
    size_t sent;  /* of both */
    char *made;   /* a body that is freed after it was sent */
    bool answers; /* an answer waits or is being sent; no further request is looked at */
    bool closes;  /* after this answer */
    bool waits;   /* its time has not come */
    bool gone;    /* the peer went away while the answer waited */
    int64_t at_ns;
    client *next; /* of those that wait, in the order of time */
};

static object *objects;
static size_t n_objects, n_root;
static client *first, *last;
static int64_t delay_ns;
static int poller;
static uint64_t n_requests, n_bytes;

static _Noreturn void die(const char *what) {
    perror(what);
    exit(1);
}

static int64_t now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * INT64_C(1000000000) + t.tv_nsec;
}

/* ---- Objects --------------------------------------------------------------------------------- */

static int add_object(const char *path, const struct stat *about, int type, struct FTW *walk) {
    (void)walk;
    if (type != FTW_F) return 0;
    objects = realloc(objects, (n_objects + 1) * sizeof(*objects));
    object *o = &objects[n_objects++];
    o->name = strdup(path + n_root);
    o->size = (uint64_t)about->st_size;
    if (o->size == 0) return 0;
    const int fd = open(path, O_RDONLY);
    o->bytes = mmap(NULL, o->size, PROT_READ, MAP_SHARED | MAP_POPULATE, fd, 0);
    if (fd < 0 || o->bytes == MAP_FAILED) die(path);
    close(fd);
    return 0;
}

static int by_name(const void *a, const void *b) {
    return strcmp(((const object *)a)->name, ((const object *)b)->name);
}

static const object *find(const char *name) {
    const object key = {.name = (char *)name};
    return bsearch(&key, objects, n_objects, sizeof(*objects), by_name);
}

/* ---- Texts of a request ---------------------------------------------------------------------- */

static int digit(char c) {
    return c >= '0' && c <= '9'                 ? c - '0'
           : (c | 32) >= 'a' && (c | 32) <= 'f' ? (c | 32) - 'a' + 10
                                                : -1;
}

static void decode(const char *from, size_t n, char *to) {
    for (size_t i = 0; i < n; i++) {
        if (from[i] == '%' && i + 2 < n + 0 && digit(from[i + 1]) >= 0 && digit(from[i + 2]) >= 0) {
            *to++ = (char)(digit(from[i + 1]) * 16 + digit(from[i + 2]));
            i += 2;
        } else {
            *to++ = from[i] == '+' ? ' ' : from[i];
        }
    }
    *to = '\0';
}

/* The decoded value of a query's parameter; false = it is not there. */
static bool parameter(const char *query, const char *name, char out[REQUEST_BYTES + 1]) {
    const size_t length = strlen(name);
    out[0] = '\0';
    while (*query) {
        const size_t n = strcspn(query, "&");
        if (strncmp(query, name, length) == 0 && (query[length] == '=' || length == n)) {
            if (n > length) decode(query + length + 1, n - length - 1, out);
            return true;
        }
        query += n + (query[n] == '&');
    }
    return false;
}

/* The value of a header, up to its line's end; NULL = none. */
static const char *header(const char *request, const char *name) {
    const size_t length = strlen(name);
    for (const char *line = strstr(request, "\r\n"); line; line = strstr(line, "\r\n")) {
        line += 2;
        if (strncasecmp(line, name, length) == 0 && line[length] == ':')
            return line + length + 1 + strspn(line + length + 1, " ");
    }
    return NULL;
}

/* ---- Answers --------------------------------------------------------------------------------- */

static void answer(client *c, const char *status, const char *type, const char *more,
                   const void *body, size_t n_body, bool head_only) {
    c->n_head = (size_t)snprintf(
        c->head, sizeof(c->head),
        "HTTP/1.1 %s\r\nServer: s3_face\r\nx-amz-request-id: 1\r\nContent-Type: %s\r\n%s"
        "Content-Length: %zu\r\n\r\n",
        status, type, more, n_body);
    c->body = body;
    c->n_body = head_only ? 0 : n_body;
    n_bytes += c->n_body;
}

static void answer_text(client *c, const char *status, const char *text, bool head_only) {
    c->made = strdup(text);
    answer(c, status, "application/xml", "", c->made, strlen(c->made), head_only);
}

static void answer_object(client *c, const object *o, bool head_only) {
    char more[512];
    const char *range = header(c->request, "range");
    uint64_t from = 0, to = o->size ? o->size - 1 : 0;
    int at = snprintf(more, sizeof(more),
                      "ETag: \"%032" PRIx64 "\"\r\nLast-Modified: " MODIFIED_HTTP
                      "\r\nAccept-Ranges: bytes\r\n",
                      o->size * 2654435761u + (uint64_t)(o - objects));
    bool part = range && strncmp(range, "bytes=", 6) == 0 && o->size > 0;
    if (part && range[6] == '-') {
        const uint64_t n = strtoull(range + 7, NULL, 10);
        from = n < o->size ? o->size - n : 0;
    } else if (part) {
        char *end;
        from = strtoull(range + 6, &end, 10);
        if (*end == '-' && digit(end[1]) >= 0) to = strtoull(end + 1, NULL, 10);
        if (to >= o->size) to = o->size - 1;
    }
    if (part && from > to) {
        answer_text(c, "416 Range Not Satisfiable", "<Error><Code>InvalidRange</Code></Error>",
                    head_only);
        return;
    }
    if (part)
        snprintf(more + at, sizeof(more) - (size_t)at,
                 "Content-Range: bytes %" PRIu64 "-%" PRIu64 "/%" PRIu64 "\r\n", from, to, o->size);
    answer(c, part ? "206 Partial Content" : "200 OK", "application/octet-stream", more,
           o->bytes + from, o->size ? to - from + 1 : 0, head_only);
}

/* ListObjectsV2. A token is the number of the object to go on with. */
static void answer_list(client *c, const char *bucket, const char *query) {
    static char value[REQUEST_BYTES + 1], prefix[REQUEST_BYTES + 1], before[REQUEST_BYTES + 1];
    char *text = NULL, delimiter = 0;
    size_t n_text, n = 0, most = 1000, i = 0, n_bucket = strlen(bucket);
    FILE *out = open_memstream(&text, &n_text);
    if (parameter(query, "max-keys", value)) most = strtoull(value, NULL, 10);
    if (parameter(query, "continuation-token", value)) i = strtoull(value, NULL, 10);
    if (parameter(query, "delimiter", value)) delimiter = value[0];
    parameter(query, "prefix", prefix);
    parameter(query, "start-after", value);
    before[0] = '\0';
    fprintf(out,
            "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<ListBucketResult "
            "xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\">"
            "<Name>%s</Name><Prefix>%s</Prefix><MaxKeys>%zu</MaxKeys>",
            bucket, prefix, most);
    for (; i < n_objects && n < most; i++) {
        const char *key = objects[i].name + n_bucket + 1;
        if (strncmp(objects[i].name, bucket, n_bucket) != 0 || objects[i].name[n_bucket] != '/')
            continue;
        if (strncmp(key, prefix, strlen(prefix)) != 0 || strcmp(key, value) <= 0) continue;
        const char *end = delimiter ? strchr(key + strlen(prefix), delimiter) : NULL;
        n++;
        if (end) {
            snprintf(before, sizeof(before), "%.*s", (int)(end - key + 1), key);
            fprintf(out, "<CommonPrefixes><Prefix>%s</Prefix></CommonPrefixes>", before);
            while (i + 1 < n_objects &&
                   strncmp(objects[i + 1].name + n_bucket + 1, before, strlen(before)) == 0)
                i++; /* a next page must not begin within it */
        } else {
            fprintf(out,
                    "<Contents><Key>%s</Key><LastModified>" MODIFIED_ISO
                    "</LastModified><ETag>&quot;%032" PRIx64 "&quot;</ETag><Size>%" PRIu64
                    "</Size><StorageClass>STANDARD</StorageClass></Contents>",
                    key, objects[i].size * 2654435761u + i, objects[i].size);
        }
    }
    fprintf(out, "<KeyCount>%zu</KeyCount>", n);
    if (n == most && i < n_objects)
        fprintf(out,
                "<IsTruncated>true</IsTruncated><NextContinuationToken>%zu</NextContinuationToken>",
                i);
    else
        fprintf(out, "<IsTruncated>false</IsTruncated>");
    fprintf(out, "</ListBucketResult>");
    fclose(out);
    c->made = text;
    answer(c, "200 OK", "application/xml", "", text, n_text, false);
}

static void answer_counts(client *c) {
    char text[64];
    snprintf(text, sizeof(text), "%" PRIu64 " %" PRIu64 "\n", n_requests - 1, n_bytes);
    answer_text(c, "200 OK", text, false);
    n_requests = n_bytes = 0;
}

/* Makes the answer of the request that lies at the beginning of c->request. */
static void answer_request(client *c) {
    static char path[REQUEST_BYTES + 1], ignored[REQUEST_BYTES + 1];
    const bool head_only = strncmp(c->request, "HEAD ", 5) == 0,
               get = strncmp(c->request, "GET ", 4) == 0;
    char *line = c->request + (head_only ? 5 : 4), *end = line + strcspn(line, " \r\n");
    const char *connection = header(c->request, "connection");
    c->closes = connection && strncasecmp(connection, "close", 5) == 0;
    *end = '\0';
    char *query = strchr(line, '?');
    decode(line, query ? (size_t)(query - line) : strlen(line), path);
    query = query ? query + 1 : end;
    n_requests++;
    const object *o = get || head_only ? find(path + 1) : NULL;
    char *slash = strchr(path + 1, '/');
    const bool is_bucket = !slash || !slash[1];
    *end = ' '; /* header() looks for lines from here on */
    char *stop = query + strcspn(query, " ");
    const char kept = *stop;
    *stop = '\0';
    if (strcmp(path, "/-/counts") == 0) {
        answer_counts(c);
    } else if (o) {
        *stop = kept;
        answer_object(c, o, head_only);
    } else if (get && is_bucket && parameter(query, "list-type", ignored)) {
        if (slash) *slash = '\0';
        answer_list(c, path + 1, query);
    } else if (get && is_bucket && parameter(query, "location", ignored)) {
        answer_text(c, "200 OK", "<LocationConstraint>us-east-1</LocationConstraint>", false);
    } else if (head_only && is_bucket) {
        answer_text(c, "200 OK", "", true);
    } else {
        answer_text(c, get || head_only ? "404 Not Found" : "501 Not Implemented",
                    "<Error><Code>NoSuchKey</Code><Message>no such object</Message></Error>",
                    head_only);
    }
    *stop = kept;
}

/* ---- Connections ----------------------------------------------------------------------------- */

static void want(client *c, uint32_t events) {
    struct epoll_event event = {.events = events, .data.ptr = c};
    epoll_ctl(poller, EPOLL_CTL_MOD, c->fd, &event);
}

static void close_client(client *c) {
    close(c->fd);
    free(c->made);
    free(c);
}

static bool look(client *c);

/* Sends as much as the socket takes. False = the client is closed. */
static bool send_more(client *c) {
    while (c->sent < c->n_head + c->n_body) {
        const size_t of_head = c->sent < c->n_head ? c->sent : c->n_head,
                     of_body = c->sent - of_head;
        struct iovec parts[2] = {{c->head + of_head, c->n_head - of_head},
                                 {(void *)(c->body + of_body), c->n_body - of_body}};
        const struct msghdr message = {.msg_iov = parts, .msg_iovlen = 2};
        const ssize_t n = sendmsg(c->fd, &message, MSG_NOSIGNAL);
        if (n < 0 && errno == EAGAIN) {
            want(c, EPOLLOUT);
            return true;
        }
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) {
            close_client(c);
            return false;
        }
        c->sent += (size_t)n;
    }
    free(c->made);
    c->made = NULL;
    c->answers = false;
    if (c->closes) {
        close_client(c);
        return false;
    }
    want(c, EPOLLIN);
    return look(c); /* a further request may lie here already */
}

/* Answers the first request if it is there as a whole. False = the client is closed. */
static bool look(client *c) {
    c->request[c->n_request] = '\0';
    char *end = c->answers ? NULL : strstr(c->request, "\r\n\r\n");
    if (!end) return true;
    end[2] = '\0'; /* the last header has its line's end */
    answer_request(c);
    const size_t used = (size_t)(end + 4 - c->request);
    memmove(c->request, end + 4, c->n_request - used);
    c->n_request -= used;
    c->sent = 0;
    c->answers = true;
    if (delay_ns == 0) return send_more(c);
    c->waits = true;
    c->at_ns = now_ns() + delay_ns;
    c->next = NULL;
    if (first)
        last->next = c;
    else
        first = c;
    last = c;
    want(c, 0);
    return true;
}

static void read_more(client *c) {
    const ssize_t n = recv(c->fd, c->request + c->n_request, REQUEST_BYTES - c->n_request, 0);
    if (n < 0 && (errno == EAGAIN || errno == EINTR)) return;
    if (n <= 0) {
        close_client(c);
        return;
    }
    c->n_request += (size_t)n;
    (void)look(c);
}

static void handle(client *c) {
    if (c->waits) { /* nothing is wanted, so its peer went away */
        c->gone = true;
        epoll_ctl(poller, EPOLL_CTL_DEL, c->fd, NULL);
    } else if (c->answers) {
        (void)send_more(c);
    } else {
        read_more(c);
    }
}

/* Sends the answers whose time has come. Returns milliseconds until the next one, -1 = none waits. */
static int send_due(void) {
    const int64_t now = now_ns();
    while (first && first->at_ns <= now) {
        client *c = first;
        first = c->next;
        if (!first) last = NULL;
        c->waits = false;
        if (c->gone)
            close_client(c);
        else
            (void)send_more(c);
    }
    return first ? (int)((first->at_ns - now + 999999) / 1000000) : -1;
}

static void accept_all(int listener) {
    for (int fd; (fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC)) >= 0;) {
        client *c = calloc(1, sizeof(*c));
        struct epoll_event event = {.events = EPOLLIN, .data.ptr = c};
        if (!c) die("memory");
        c->fd = fd;
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &(int){1}, sizeof(int));
        epoll_ctl(poller, EPOLL_CTL_ADD, fd, &event);
    }
}

int main(int argc, char **argv) {
    if (argc != 4) {
        fprintf(stderr, "usage: s3_face ROOT PORT DELAY_MS\n");
        return 2;
    }
    n_root = strlen(argv[1]) + 1;
    delay_ns = (int64_t)(strtod(argv[3], NULL) * 1e6);
    if (nftw(argv[1], add_object, 32, FTW_PHYS) != 0) die(argv[1]);
    qsort(objects, n_objects, sizeof(*objects), by_name);
    const int listener = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    const struct sockaddr_in at = {.sin_family = AF_INET,
                                   .sin_port = htons((uint16_t)atoi(argv[2])),
                                   .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &(int){1}, sizeof(int));
    if (bind(listener, (const struct sockaddr *)&at, sizeof(at)) != 0 ||
        listen(listener, 1024) != 0)
        die("listen");
    poller = epoll_create1(EPOLL_CLOEXEC);
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = NULL}, events[EVENTS];
    epoll_ctl(poller, EPOLL_CTL_ADD, listener, &event);
    for (int wait_ms = -1;; wait_ms = send_due()) {
        const int n = epoll_wait(poller, events, EVENTS, wait_ms);
        for (int i = 0; i < n; i++) {
            if (events[i].data.ptr)
                handle(events[i].data.ptr);
            else
                accept_all(listener);
        }
    }
}

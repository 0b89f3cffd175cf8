/*
 * request.c - see request.h.
 *
 * HTTP/1.1, because HTTP/2 puts all requests on one connection. libcurl follows redirects of plain
 * URLs, and takes no signature along to another host because those have none; signed requests are
 * not redirected. Proxies are libcurl's own: HTTP_PROXY, HTTPS_PROXY, NO_PROXY.
 */
#include "iter/remote/client_state.h"

#ifdef ITER_HAVE_REMOTE

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>

#include "iter/core/alloc.h"
#include "iter/core/arith.h"
#include "iter/core/error.h"
#include "iter/remote/s3_xml.h"
#include "iter/remote/url.h"

#define CONNECT_MS      10000L
#define STALL_S         10L /* without STALL_BYTES a second it is a stall */
#define STALL_BYTES     100L
#define STALL_PUT_S     30L  /* a service answers after it has stored what it was sent */
#define POST_S          600L /* a service may take minutes to put parts together */
#define REDIRECTS_MAX   5L
#define BUFFER_BYTES    (512L << 10)
#define HEADERS_MAX     6
#define HEAD_BYTES_MAX  ((size_t)256 << 10) /* of all heads of a request */
#define SAID_BYTES_MAX  ((size_t)64 << 10)  /* of an answer that says no */
#define HOST_BYTES      512
#define SIGNATURE_BYTES 768
#define WRONG_MOST      4 /* answers with a wrong checksum, until the request fails */
#define WAIT_S_MAX      86400
#define SUM_HEADER      "x-amz-checksum-mode"

/* ---- The answer ------------------------------------------------------------------------------ */

/* The value of a header line if it has this name (lower case), with its bytes in *out_n. */
static const char *value_of(const char *line, size_t n, const char *name, size_t *out_n) {
    const size_t length = strlen(name);
    if (n <= length || line[length] != ':' || strncasecmp(line, name, length) != 0) return NULL;
    const char *value = line + length + 1, *end = line + n;
    while (value < end && (*value == ' ' || *value == '\t'))
        value++;
    while (end > value && (end[-1] == '\r' || end[-1] == '\n' || end[-1] == ' '))
        end--;
    *out_n = (size_t)(end - value);
    return value;
}

static void keep(const char *value, size_t n, char *out, size_t capacity) {
    out[0] = '\0';
    if (n >= capacity) return;
    memcpy(out, value, n);
    out[n] = '\0';
}

/* "bytes 0-99/1234": where it begins, and the whole, which may be "*". */
static void take_range(iter__request *r, const char *value, size_t n) {
    char text[96];
    keep(value, n, text, sizeof(text));
    uint64_t first, last, total;
    if (sscanf(text, "bytes %" SCNu64 "-%" SCNu64 "/%" SCNu64, &first, &last, &total) == 3) {
        r->range_offset = first;
        r->total = total;
    } else if (sscanf(text, "bytes %" SCNu64 "-%" SCNu64 "/*", &first, &last) == 2) {
        r->range_offset = first;
    } else if (sscanf(text, "bytes */%" SCNu64, &total) == 1) {
        r->total = total;
    }
}

static void begin_answer(iter__request *r, long status) {
    r->status = status;
    r->total = ITER_UNKNOWN;
    r->range_offset = ITER_UNKNOWN;
    r->etag[0] = r->modified[0] = r->region[0] = '\0';
    r->n_body = 0;
    r->accepts = false;
    r->wait_ns = 0;
    r->sum = (iter__checksum){.crc = 0};
}

/* Retry-After: seconds, or a date. */
static void take_wait(iter__request *r, const char *value, size_t n) {
    char text[64];
    keep(value, n, text, sizeof(text));
    char *end = text;
    long long seconds = strtoll(text, &end, 10);
    if (end == text || *end) {
        const time_t at = curl_getdate(text, NULL);
        if (at == (time_t)-1) return;
        seconds = (long long)(at - time(NULL));
    }
    if (seconds > WAIT_S_MAX) seconds = WAIT_S_MAX;
    if (seconds > 0) r->wait_ns = seconds * 1000000000;
}

void iter__request_header(iter__request *r, const char *line, size_t n) {
    const char *value;
    size_t length;
    if (n > 9 && strncmp(line, "HTTP/", 5) == 0) { /* a further one after a redirect */
        char text[8];
        const char *blank = memchr(line, ' ', n);
        keep(blank ? blank + 1 : line,
             blank ? iter__min_size(3, n - (size_t)(blank + 1 - line)) : 0, text, sizeof(text));
        begin_answer(r, strtol(text, NULL, 10));
    } else if ((value = value_of(line, n, "content-range", &length))) {
        take_range(r, value, length);
    } else if ((value = value_of(line, n, "content-length", &length))) {
        char text[32];
        keep(value, length, text, sizeof(text));
        if (r->status == 200) r->total = strtoull(text, NULL, 10);
    } else if ((value = value_of(line, n, "etag", &length))) {
        keep(value, length, r->etag, sizeof(r->etag));
    } else if ((value = value_of(line, n, "last-modified", &length))) {
        keep(value, length, r->modified, sizeof(r->modified));
    } else if ((value = value_of(line, n, "x-amz-bucket-region", &length))) {
        keep(value, length, r->region, sizeof(r->region));
    } else if ((value = value_of(line, n, "retry-after", &length))) {
        take_wait(r, value, length);
    } else {
        iter__checksum_header(&r->sum, line, n);
    }
}

static void refuse(iter__request *r, const char *why) {
    r->refused = true;
    (void)snprintf(r->reason, sizeof(r->reason), "%s", why);
}

static size_t on_header(char *line, size_t size, size_t n, void *user) {
    iter__request *r = user;
    n *= size;
    r->n_head += n;
    if (r->n_head > HEAD_BYTES_MAX) {
        refuse(r, "the head of the answer is too long");
        return 0;
    }
    iter__request_header(r, line, n);
    return n;
}

/* Whether the body that begins now is what was asked for. If not, refuses it or keeps its first
 * bytes as the server's message. */
static bool check_answer(iter__request *r) {
    if (r->kind != ITER_REQUEST_RANGE) return r->status == 200;
    const bool known = r->total != ITER_UNKNOWN || !r->is_whole;
    const bool whole = r->status == 200 && r->offset == 0 && (r->total == r->size || !known);
    if (r->status != 206 && r->status != 200) return false;
    if (r->wanted_etag[0] && r->etag[0] && strcmp(r->wanted_etag, r->etag) != 0) {
        refuse(r, "the object changed while it was read: its ETag is another");
    } else if (r->status == 200 && !whole && r->is_whole) {
        refuse(r, "the object changed while it was read: its size is another");
    } else if (r->status == 200 && !whole) {
        refuse(r, "the server ignores Range, and sent the whole object");
    } else if (r->status == 206 && r->range_offset == ITER_UNKNOWN) {
        refuse(r, "the server does not say which range it sent");
    } else if (r->status == 206 && r->range_offset != r->offset) {
        refuse(r, "the server sent another range than was asked for");
    }
    if (!r->refused && r->kind == ITER_REQUEST_RANGE)
        iter__checksum_begin(&r->sum, r->offset == 0 && r->total == r->size, r->etag);
    return !r->refused;
}

static size_t on_body(char *bytes, size_t size, size_t n, void *user) {
    iter__request *r = user;
    n *= size;
    if (r->got == 0 && r->n_body == 0) r->accepts = check_answer(r);
    if (r->refused) return 0;
    if (r->accepts) {
        if (r->kind == ITER_REQUEST_RANGE && n > r->size - r->got) {
            refuse(r, "the server sent more bytes than were asked for");
            return 0;
        }
        if (!r->sink(r->user, r->got, bytes, n)) {
            if (!r->refused) refuse(r, "the answer is too long");
            return 0;
        }
        iter__checksum_add(&r->sum, bytes, n);
        r->got += n;
        return n;
    }
    const size_t room = sizeof(r->body) - r->n_body;
    memcpy(r->body + r->n_body, bytes, n < room ? n : room);
    r->n_body += n < room ? n : room;
    r->n_said += n;
    return r->n_said <= SAID_BYTES_MAX ? n : 0; /* the status is enough */
}

/* ---- The request ----------------------------------------------------------------------------- */

static bool add_header(iter__request *r, const char *text) {
    struct curl_slist *more = text ? curl_slist_append(r->headers, text) : NULL;
    if (!more) return false;
    r->headers = more;
    return true;
}

static bool add_named(iter__request *r, const char *name, const char *value) {
    char *text = iter__strf("%s: %s", name, value);
    const bool added = add_header(r, text);
    iter__free(text);
    return added;
}

/* "https://" and the host of an s3 URL, and the path that is signed (both iter__free). */
static bool s3_place(const iter__remote *remote, const char *region, const iter__request *r,
                     char **out_base, char **out_host, char **out_path) {
    size_t n_bucket;
    const char *key = iter__url_s3_key(r->url, &n_bucket);
    const char *bucket = r->url + strlen("s3://");
    const bool dots = memchr(bucket, '.', n_bucket) != NULL; /* no certificate has such a host */
    const bool in_path = remote->path_style || dots;
    char *own = remote->endpoint ? NULL
                                 : iter__strf("https://s3.%s.amazonaws.com%s", region,
                                              strncmp(region, "cn-", 3) ? "" : ".cn");
    const char *endpoint = remote->endpoint ? remote->endpoint : own;
    if (!endpoint) return false;
    const char *host = strstr(endpoint, "://") + 3;
    const size_t n_host = strcspn(host, "/");
    const char *prefix = host + n_host; /* of the path; mostly "" */
    const int n_scheme = (int)(host - endpoint);

    const char *name = r->kind == ITER_REQUEST_LIST ? "" : key;
    const size_t n_name = strlen(name);
    const size_t room = 3 * n_name + 1;
    char *encoded = iter__alloc(room, 1);
    if (encoded) iter__url_encode(name, n_name, true, encoded, room);
    if (encoded && in_path) {
        *out_path = iter__strf("%s/%.*s%s%s", prefix, (int)n_bucket, bucket,
                               n_name || r->kind == ITER_REQUEST_LIST ? "/" : "", encoded);
        *out_host = iter__strf("%.*s", (int)n_host, host);
    } else if (encoded) {
        *out_path = iter__strf("%s/%s", prefix, encoded);
        *out_host = iter__strf("%.*s.%.*s", (int)n_bucket, bucket, (int)n_host, host);
    }
    *out_base = iter__strf("%.*s", n_scheme, endpoint);
    iter__free(encoded);
    iter__free(own);
    return *out_base && *out_host && *out_path;
}

/* The host as curl sends it: without a port that is the scheme's own. */
static void strip_port(const char *base, char *host) {
    const char *own = strncasecmp(base, "https", 5) == 0 ? ":443" : ":80";
    const size_t n = strlen(host), m = strlen(own);
    if (n > m && strcmp(host + n - m, own) == 0) host[n - m] = '\0';
}

static bool wants_sum(const iter__request *r) {
    return r->kind == ITER_REQUEST_RANGE && r->is_whole;
}

static const char *method_of(const iter__request *r) {
    switch (r->kind) {
    case ITER_REQUEST_HEAD: return "HEAD";
    case ITER_REQUEST_PUT: return "PUT";
    case ITER_REQUEST_POST: return "POST";
    case ITER_REQUEST_DELETE: return "DELETE";
    default: return "GET";
    }
}

static iter_status sign(const iter__remote *remote, iter__request *r, const iter__signer *signer,
                        const char *time, const char *host, const char *path, iter_error *err) {
    iter__sigv4_header headers[HEADERS_MAX];
    const char *hash = r->payload_hash ? r->payload_hash : ITER_SHA256_EMPTY;
    int n = 0;
    char signature[SIGNATURE_BYTES];
    (void)remote;
    headers[n++] = (iter__sigv4_header){"host", host};
    if (wants_sum(r)) headers[n++] = (iter__sigv4_header){SUM_HEADER, "ENABLED"};
    headers[n++] = (iter__sigv4_header){"x-amz-content-sha256", hash};
    headers[n++] = (iter__sigv4_header){"x-amz-date", time};
    if (signer->token[0])
        headers[n++] = (iter__sigv4_header){"x-amz-security-token", signer->token};
    const iter__sigv4_request request = {
        .method = method_of(r),
        .path = path,
        .query = r->query ? r->query : "",
        .headers = headers,
        .n_headers = n,
        .payload_hash = hash,
        .time = time,
        .region = signer->region,
        .service = "s3",
        .access_key = signer->access_key,
        .key = signer->key,
    };
    ITER_TRY(iter__sigv4_sign(&request, signature, sizeof(signature), err));
    for (int i = 1; i < n; i++) {
        if (!add_named(r, headers[i].name, headers[i].value))
            return iter__fail(err, ITER_ENOMEM, "no memory for a request");
    }
    return add_named(r, "Authorization", signature)
               ? ITER_OK
               : iter__fail(err, ITER_ENOMEM, "no memory for a request");
}

static iter_status set_s3(iter__remote *remote, iter__request *r, iter_error *err) {
    char time_text[32];
    iter__signer *signer = iter__alloc(1, sizeof(*signer));
    char *base = NULL, *host = NULL, *path = NULL, *url = NULL;
    const time_t now = time(NULL);
    struct tm tm;
    iter_status status = ITER_OK;
    (void)strftime(time_text, sizeof(time_text), "%Y%m%dT%H%M%SZ", gmtime_r(&now, &tm));
    if (!signer) status = iter__fail(err, ITER_ENOMEM, "no memory for a request");
    if (status == ITER_OK) status = iter__remote_signer(remote, time_text, signer, err);
    if (status == ITER_OK) strcpy(r->asked_region, signer->region);
    if (status == ITER_OK && !s3_place(remote, signer->region, r, &base, &host, &path))
        status = iter__fail(err, ITER_ENOMEM, "no memory for a request");
    if (status == ITER_OK) {
        url = iter__strf("%s%s%s%s%s", base, host, path, r->query ? "?" : "",
                         r->query ? r->query : "");
        if (!url) status = iter__fail(err, ITER_ENOMEM, "no memory for a request");
    }
    if (status == ITER_OK && !remote->anonymous) {
        strip_port(base, host);
        status = sign(remote, r, signer, time_text, host, path, err);
    } else if (status == ITER_OK && wants_sum(r) && !add_named(r, SUM_HEADER, "ENABLED")) {
        status = iter__fail(err, ITER_ENOMEM, "no memory for a request");
    }
    if (status == ITER_OK) {
        curl_easy_setopt(r->easy, CURLOPT_URL, url); /* copied */
        curl_easy_setopt(r->easy, CURLOPT_PATH_AS_IS, 1L);
        curl_easy_setopt(r->easy, CURLOPT_FOLLOWLOCATION, 0L);
    }
    iter__free(signer);
    iter__free(base);
    iter__free(host);
    iter__free(path);
    iter__free(url);
    return status;
}

/* A blank in a name is no URL; what is encoded already stays. */
static iter_status set_plain(iter__remote *remote, iter__request *r, iter_error *err) {
    char *revealed = NULL;
    const char *whole = r->url;
    if (iter__secrets_are_hidden(r->url)) whole = revealed = iter__remote_reveal(remote, r->url);
    char *url = whole ? iter__alloc(strlen(whole) * 3 + 1, 1) : NULL;
    if (!url) {
        iter__free(revealed);
        return iter__fail(err, ITER_ENOMEM, "no memory for a request");
    }
    char *out = url;
    for (const char *p = whole; *p; p++) {
        if ((unsigned char)*p <= ' ' || (unsigned char)*p >= 127) {
            iter__url_encode(p, 1, false, out, 4);
            out += 3;
        } else {
            *out++ = *p;
        }
    }
    curl_easy_setopt(r->easy, CURLOPT_URL, url);
    curl_easy_setopt(r->easy, CURLOPT_FOLLOWLOCATION, 1L);
    curl_easy_setopt(r->easy, CURLOPT_MAXREDIRS, REDIRECTS_MAX);
    /* From https no redirect leads to http. */
    iter__curl_allow(r->easy, true, strncasecmp(r->url, "https", 5) == 0);
    iter__free(url);
    iter__free(revealed);
    return ITER_OK;
}

static int on_progress(void *user, curl_off_t all, curl_off_t now, curl_off_t all_up,
                       curl_off_t now_up) {
    const iter__request *r = user;
    (void)all, (void)now, (void)all_up, (void)now_up;
    return r->is_over(r->over);
}

/* What is sent, from the caller's memory. While a service works on a POST it may be silent, and a
 * lost connection shows by TCP's own probes. */
static bool set_payload(iter__request *r) {
    CURL *easy = r->easy;
    curl_easy_setopt(easy, CURLOPT_CUSTOMREQUEST, method_of(r));
    if (r->kind == ITER_REQUEST_DELETE) return true;
    curl_easy_setopt(easy, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)r->n_payload);
    curl_easy_setopt(easy, CURLOPT_POSTFIELDS, r->n_payload ? r->payload : "");
    curl_easy_setopt(easy, CURLOPT_LOW_SPEED_TIME, STALL_PUT_S);
    if (r->kind == ITER_REQUEST_POST) {
        curl_easy_setopt(easy, CURLOPT_LOW_SPEED_LIMIT, 0L);
        curl_easy_setopt(easy, CURLOPT_TIMEOUT, POST_S);
        curl_easy_setopt(easy, CURLOPT_TCP_KEEPALIVE, 1L);
    }
    return add_header(r, "Content-Type: application/octet-stream");
}

static void set_common(const iter__remote *remote, iter__request *r) {
    CURL *easy = r->easy;
    curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(easy, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
    iter__curl_allow(easy, false, false);
    curl_easy_setopt(easy, CURLOPT_CONNECTTIMEOUT_MS, CONNECT_MS);
#if LIBCURL_VERSION_NUM >= 0x075700 /* 7.87.0 */
    /* Else the end of a request waits for a look-up of its host that hangs. */
    curl_easy_setopt(easy, CURLOPT_QUICK_EXIT, 1L);
#endif
    curl_easy_setopt(easy, CURLOPT_LOW_SPEED_TIME, STALL_S);
    curl_easy_setopt(easy, CURLOPT_LOW_SPEED_LIMIT, STALL_BYTES);
    curl_easy_setopt(easy, CURLOPT_BUFFERSIZE, BUFFER_BYTES);
    curl_easy_setopt(easy, CURLOPT_HEADERFUNCTION, on_header);
    curl_easy_setopt(easy, CURLOPT_HEADERDATA, r);
    curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, on_body);
    curl_easy_setopt(easy, CURLOPT_WRITEDATA, r);
    curl_easy_setopt(easy, CURLOPT_ERRORBUFFER, r->curl_error);
    curl_easy_setopt(easy, CURLOPT_PRIVATE, r);
    curl_easy_setopt(easy, CURLOPT_NOBODY, r->kind == ITER_REQUEST_HEAD ? 1L : 0L);
    if (remote->ca_file) curl_easy_setopt(easy, CURLOPT_CAINFO, remote->ca_file);
    if (!r->is_over) return;
    curl_easy_setopt(easy, CURLOPT_NOPROGRESS, 0L);
    curl_easy_setopt(easy, CURLOPT_XFERINFOFUNCTION, on_progress);
    curl_easy_setopt(easy, CURLOPT_XFERINFODATA, r);
}

static bool sends(const iter__request *r) {
    return r->kind == ITER_REQUEST_PUT || r->kind == ITER_REQUEST_POST ||
           r->kind == ITER_REQUEST_DELETE;
}

/* The range, and the version that it must be of. If-Match is for strong ETags alone. For the whole
 * object there is no range, because S3 gives no checksum with one. */
static bool set_range(iter__remote *remote, iter__request *r) {
    char range[64];
    iter__remote_version_get(remote, r->url, r->wanted_etag);
    (void)snprintf(range, sizeof(range), "%" PRIu64 "-%" PRIu64, r->offset,
                   r->offset + r->size - 1);
    if (!r->is_whole) curl_easy_setopt(r->easy, CURLOPT_RANGE, range);
    return r->wanted_etag[0] != '"' || add_named(r, "If-Match", r->wanted_etag);
}

iter_status iter__request_begin(iter__remote *remote, iter__request *r, iter_error *err) {
    r->headers = NULL;
    r->got = 0;
    r->n_head = r->n_said = 0;
    r->refused = r->throttled = r->is_folder = false;
    r->curl_error[0] = r->reason[0] = r->wanted_etag[0] = '\0';
    begin_answer(r, 0);
    iter_status status =
        iter__url_is_s3(r->url) ? set_s3(remote, r, err) : set_plain(remote, r, err);
    if (status == ITER_OK && r->kind == ITER_REQUEST_RANGE && !set_range(remote, r))
        status = iter__fail(err, ITER_ENOMEM, "no memory for a request");
    set_common(remote, r);
    if (status == ITER_OK && sends(r) && !set_payload(r))
        status = iter__fail(err, ITER_ENOMEM, "no memory for a request");
    if (status < 0) {
        curl_slist_free_all(r->headers);
        r->headers = NULL;
        return status;
    }
    curl_easy_setopt(r->easy, CURLOPT_HTTPHEADER, r->headers);
    return ITER_OK;
}

/* ---- The judgement --------------------------------------------------------------------------- */

static const char *words_of(long status) {
    switch (status) {
    case 301:
    case 307: return "the bucket is in another region";
    case 400: return "bad request";
    case 401: return "credentials are wanted";
    case 403: return "access denied";
    case 404: return "not found";
    case 412: return "the object changed while it was read";
    case 416: return "the range is past the object's end: it changed";
    case 429: return "too many requests";
    case 503: return "slow down";
    default: return status >= 500 ? "the server failed" : "an answer that was not expected";
    }
}

static void explain_status(iter__request *r) {
    char said[ITER_REASON_BYTES / 2] = "";
    if (r->n_body > 0) iter__s3_error_parse(r->body, r->n_body, said, sizeof(said));
    (void)snprintf(r->reason, sizeof(r->reason), "HTTP %ld, %s%s%s%s", r->status,
                   words_of(r->status), said[0] ? " (" : "", said, said[0] ? ")" : "");
}

static bool says(const iter__request *r, const char *code) {
    return memmem(r->body, r->n_body, code, strlen(code)) != NULL;
}

static iter__request_end judge_status(iter__remote *remote, iter__request *r) {
    explain_status(r);
    r->throttled = r->status == 429 || r->status == 503;
    const bool never = r->status == 501; /* the server does not know what is asked */
    if (r->status == 429 || r->status == 408 || (r->status >= 500 && !never))
        return ITER_REQUEST_AGAIN;
    /* Of several requests that learn it at the same time, the first one moves the client. */
    if (r->region[0] && iter__url_is_s3(r->url) && strcmp(r->region, r->asked_region) != 0) {
        iter__remote_move(remote, r->region);
        return ITER_REQUEST_AGAIN;
    }
    if ((r->status == 400 || r->status == 403) && says(r, "ExpiredToken")) {
        iter__remote_forget_credentials(remote);
        return ITER_REQUEST_AGAIN;
    }
    /* What was sent arrived changed, or too slowly. */
    if (r->status == 400 && (says(r, "XAmzContentSHA256Mismatch") || says(r, "RequestTimeout")))
        return ITER_REQUEST_AGAIN;
    /* An answer to HEAD has no body to say so. New credentials are tried, once. */
    if ((r->status == 400 || r->status == 403) && r->kind == ITER_REQUEST_HEAD && !r->renewed &&
        iter__url_is_s3(r->url) && !remote->anonymous) {
        r->renewed = iter__remote_forget_credentials(remote);
        if (r->renewed) return ITER_REQUEST_AGAIN;
    }
    return ITER_REQUEST_FAILED;
}

/* Errors that a further try may not have. */
static bool is_passing(CURLcode code) {
    switch (code) {
    case CURLE_COULDNT_RESOLVE_HOST:
    case CURLE_COULDNT_RESOLVE_PROXY:
    case CURLE_COULDNT_CONNECT:
    case CURLE_OPERATION_TIMEDOUT:
    case CURLE_PARTIAL_FILE:
    case CURLE_GOT_NOTHING:
    case CURLE_SEND_ERROR:
    case CURLE_RECV_ERROR:
    case CURLE_WEIRD_SERVER_REPLY:
    case CURLE_SSL_CONNECT_ERROR:
    case CURLE_HTTP2:
    case CURLE_AGAIN: return true;
    default: return false;
    }
}

static bool has_all(const iter__request *r) {
    uint64_t all = r->size;
    if (r->total != ITER_UNKNOWN && r->total > r->offset)
        all = iter__min_u64(all, r->total - r->offset);
    return r->got == all;
}

static iter__request_end judge_sum(iter__request *r) {
    if (!iter__checksum_is_wrong(&r->sum)) return ITER_REQUEST_DONE;
    (void)snprintf(r->reason, sizeof(r->reason), "%s", ITER_WRONG_SUM);
    r->got = 0;
    return ++r->n_wrong < WRONG_MOST ? ITER_REQUEST_AGAIN : ITER_REQUEST_FAILED;
}

static iter__request_end judge(iter__remote *remote, iter__request *r, CURLcode code) {
    if (r->refused) return ITER_REQUEST_FAILED; /* with its reason */
    if (code != CURLE_OK && !(r->status >= 300 && code == CURLE_WRITE_ERROR)) {
        const char *text = r->curl_error[0] ? r->curl_error : curl_easy_strerror(code);
        if (code == CURLE_OUT_OF_MEMORY && !r->curl_error[0]) /* libcurl 7 has one code for both */
            text = "out of memory, or a line of the answer's head is too long";
        (void)snprintf(r->reason, sizeof(r->reason), "%s", text);
        const bool no_head = code == CURLE_UNSUPPORTED_PROTOCOL && r->status == 0;
        return is_passing(code) || no_head ? ITER_REQUEST_AGAIN : ITER_REQUEST_FAILED;
    }
    if (r->status == 204 && r->kind == ITER_REQUEST_DELETE) return ITER_REQUEST_DONE;
    if (r->status != 200 && r->status != 206) return judge_status(remote, r);
    if (r->kind != ITER_REQUEST_RANGE) return ITER_REQUEST_DONE;
    if (has_all(r)) return judge_sum(r);
    (void)snprintf(r->reason, sizeof(r->reason),
                   "the answer ended after %" PRIu64 " of %" PRIu64 " bytes", r->got, r->size);
    return ITER_REQUEST_AGAIN;
}

static void add(atomic_ullong *sum, uint64_t n) {
    atomic_fetch_add_explicit(sum, n, memory_order_relaxed);
}

static void count(iter__remote *remote, const iter__request *r, iter__request_end end) {
    curl_off_t first_us = 0, us = 0;
    if (r->kind != ITER_REQUEST_RANGE) return;
    (void)curl_easy_getinfo(r->easy, CURLINFO_TOTAL_TIME_T, &us);
    (void)curl_easy_getinfo(r->easy, CURLINFO_STARTTRANSFER_TIME_T, &first_us);
    add(&remote->answers, 1);
    add(&remote->throttled, r->throttled);
    add(&remote->again, end == ITER_REQUEST_AGAIN);
    add(&remote->bytes, r->got);
    add(&remote->ns, (uint64_t)us * 1000);
    add(&remote->first_ns, (uint64_t)(first_us > 0 ? first_us : us) * 1000);
}

iter__request_end iter__request_judge(iter__remote *remote, iter__request *r, CURLcode code) {
    const char *final = NULL;
    if (r->kind == ITER_REQUEST_HEAD &&
        curl_easy_getinfo(r->easy, CURLINFO_EFFECTIVE_URL, &final) == CURLE_OK && final) {
        const size_t n = strcspn(final, "?");
        r->is_folder = n > 0 && final[n - 1] == '/';
    }
    const iter__request_end end = judge(remote, r, code);
    count(remote, r, end);
    curl_slist_free_all(r->headers);
    r->headers = NULL;
    return end;
}

#endif

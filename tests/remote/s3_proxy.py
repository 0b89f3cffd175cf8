"""A proxy in front of an S3 service that errs as it is told, and checks what it is sent.

Usage: s3_proxy.py PORT LOG PLAN, which prints its own port. PORT is the service's. LOG gets a line for each request
that came: method, query, bytes, and the fault. PLAN is words joined by '+': a fault and the number K; every K-th
request that it may concern errs so (1 without a number).

    ok           no fault
    slow-MS      each request waits for MS milliseconds
    busy-K       503 after the body was read
    reset-K      the connection is reset after half of the body
    lost-K       the request is passed on, and the connection reset instead of an answer
    flip-K       a byte of a body changes on its way
    inside       the first Complete is answered with 200 and a passing <Error>
    refuse       Complete is answered with 200 and an <Error> that stays
    forget       Complete is passed on, its answer lost; after that the upload is unknown
    deny         Complete is passed on, and answered with 403
    blind        looks and lists are answered with 403
    hold-FILE    Complete waits until FILE exists
    stay-FILE    each part waits until FILE exists

Like S3, it answers 400 if a body has another SHA-256 than x-amz-content-sha256 says.
"""
import hashlib
import http.client
import http.server
import os
import socket
import struct
import sys
import threading
import time
import urllib.parse

PORT, LOG, PLAN = int(sys.argv[1]), sys.argv[2], sys.argv[3].split("+")
counts = {}
lock = threading.Lock()


def error(code):
    return f"<Error><Code>{code}</Code><Message>as the plan says</Message></Error>".encode()


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *args):
        pass

    def say(self, status, body, headers=()):
        head = f"HTTP/1.1 {status} x\r\n" + "".join(f"{k}: {v}\r\n" for k, v in headers)
        if not any(k.lower() == "content-length" for k, _ in headers):
            head += f"Content-Length: {len(body)}\r\n"
        self.wfile.write(head.encode("latin-1") + b"\r\n" + body)

    def reset(self):
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.rfile.close()
        self.wfile.close()
        self.connection.close()
        self.close_connection = True

    def pass_on(self, body):
        up = http.client.HTTPConnection("127.0.0.1", PORT, timeout=120)
        up.putrequest(self.command, self.path, skip_host=True, skip_accept_encoding=True)
        for name, value in self.headers.items():
            if name.lower() not in ("expect", "connection"):
                up.putheader(name, value)
        up.endheaders(body)
        answer = up.getresponse()
        text = answer.read()
        skip = ("connection", "transfer-encoding", "date", "server")
        headers = [(k, v) for k, v in answer.getheaders() if k.lower() not in skip]
        up.close()
        return answer.status, text, headers

    def fault_of(self, size):
        for word in PLAN:
            kind, _, number = word.partition("-")
            if kind == "slow":
                time.sleep(int(number) / 1000)
            if kind in ("ok", "slow"):
                continue
            if kind in ("inside", "refuse", "forget", "hold", "deny") and not self.is_complete:
                continue
            if kind == "blind" and self.command not in ("GET", "HEAD"):
                continue
            if kind == "flip" and not size:
                continue
            if kind == "stay" and not self.is_part:
                continue
            with lock:
                counts[word] = counts.get(word, 0) + 1
                if kind == "inside" and counts[word] > 1:
                    continue
                if kind in ("forget", "hold", "stay", "refuse", "deny") or counts[word] % int(number or 1) == 0:
                    return kind, counts[word], number
        return "ok", 0, ""

    def answer(self):
        size = int(self.headers.get("Content-Length") or 0)
        query = urllib.parse.urlparse(self.path).query
        self.is_complete = self.command == "POST" and query.startswith("uploadId=")
        self.is_part = self.command == "PUT" and query.startswith("partNumber=")
        fault, count, rest = self.fault_of(size)
        with lock, open(LOG, "a", encoding="ascii") as log:
            log.write(f"{self.command} {query or '-'} {size} {fault}\n")
        body = self.rfile.read(size // 2 if fault == "reset" else size)
        if fault == "reset":
            return self.reset()
        if fault == "busy":
            return self.say(503, error("SlowDown"))
        if fault == "flip":
            body = body[:size // 2] + bytes([body[size // 2] ^ 8]) + body[size // 2 + 1:]
        if hashlib.sha256(body).hexdigest() != self.headers.get("x-amz-content-sha256"):
            return self.say(400, error("XAmzContentSHA256Mismatch"))
        if fault == "blind":
            return self.say(403, error("AccessDenied") if self.command == "GET" else b"")
        if fault in ("inside", "refuse"):
            return self.say(200, error("InternalError" if fault == "inside" else "AccessDenied"))
        if fault == "forget" and count > 1:
            return self.say(404, error("NoSuchUpload"))
        while fault in ("hold", "stay") and not os.path.exists(rest):
            time.sleep(0.02)
        status, text, headers = self.pass_on(body)
        if fault in ("lost", "forget"):
            return self.reset()
        if fault == "deny":
            return self.say(403, error("AccessDenied"))
        return self.say(status, text, headers)

    do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = answer


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 256

    def handle_error(self, request, client_address):
        pass


if __name__ == "__main__":
    server = Server(("127.0.0.1", 0), Handler)
    print(server.server_address[1], flush=True)
    server.serve_forever()

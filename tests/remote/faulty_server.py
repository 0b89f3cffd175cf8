"""A server of files that errs as it is told.

Usage: faulty_server.py FOLDER [LOG], which prints its port. A URL is http://127.0.0.1:PORT/PLAN/FILE.
Each range that is asked for becomes a line of LOG: FILE FIRST LAST, and how many requests are then being answered.
PLAN is words joined by '+', each with an optional number K: every K-th answer to a range errs so
(1 without a number). What comes between them is right, and so is an answer with the whole file.

    ok           no fault
    slow-MS      each answer begins after MS milliseconds
    busy-K       503          many-K     429          fail-K   500
    reset-K      the connection is reset after half of the body
    cut-K        the connection is closed after half of the body
    short-K      Content-Length and Content-Range are right, the body is one byte shorter
    garbage-K    a head that is none
    stall-K      the body stops half way
    other-K      another version of the file: its ETag changes
    whole-K      Range is ignored
    range-K      another range than was asked for
    denied-K     403          gone-K     404
    lost-K       404 for ranges that begin in the third of each K thousands of bytes
    grants-N     N answers a second, in bursts of 10 ms; the others get 429
    sum-KIND     answers have a checksum of the whole file: crc32c, crc32, sha1, sha256, goog, md5, digest
    flip-K       every K-th answer with the whole file has a wrong bit

/PLAN/counts has what was asked of files by this plan: answers, refusals (429, 503), the most bytes of one answer.
"""
import base64
import collections
import hashlib
import http.server
import os
import socket
import struct
import sys
import threading
import time
import zlib

counts = {}
seen = collections.defaultdict(lambda: [0, 0, 0])
buckets = {}
lock = threading.Lock()
log = open(sys.argv[2], "a", encoding="utf-8", buffering=1) if len(sys.argv) > 2 else None
busy = 0


def crc32c(data):
    """By its definition, bit by bit, over a table of bytes."""
    table = []
    for i in range(256):
        for _ in range(8):
            i = i >> 1 ^ (0x82f63b78 if i & 1 else 0)
        table.append(i)
    crc = 0xffffffff
    for byte in data:
        crc = crc >> 8 ^ table[(crc ^ byte) & 255]
    return crc ^ 0xffffffff


def sum_of(kind, data):
    """The header of a checksum: name, value."""
    def text(raw):
        return base64.b64encode(raw).decode()
    digests = {"sha1": hashlib.sha1, "sha256": hashlib.sha256}
    if kind in digests:
        return "x-amz-checksum-" + kind, text(digests[kind](data).digest())
    if kind == "crc32":
        return "x-amz-checksum-crc32", text(zlib.crc32(data).to_bytes(4, "big"))
    if kind == "crc32c":
        return "x-amz-checksum-crc32c", text(crc32c(data).to_bytes(4, "big"))
    if kind == "goog":
        return "x-goog-hash", "md5=" + text(hashlib.md5(data).digest())
    if kind == "md5":
        return "Content-MD5", text(hashlib.md5(data).digest())
    return "Repr-Digest", "sha-256=:" + text(hashlib.sha256(data).digest()) + ":"


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    wbufsize = 0

    def log_message(self, *args):
        pass

    def say(self, status, headers, body=b"", message=None):
        head = f"HTTP/1.1 {status} {message or 'x'}\r\n"
        head += "".join(f"{name}: {value}\r\n" for name, value in headers.items())
        self.wfile.write(head.encode() + b"\r\n" + body)

    def refuse(self, status):
        body = b"<Error><Code>Planned</Code><Message>as the plan says</Message></Error>"
        self.say(status, {"Content-Length": len(body)}, body)

    def drop(self, hard):
        if hard:
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        else:
            self.connection.shutdown(socket.SHUT_RDWR)
        self.connection.close()
        self.close_connection = True

    def do_HEAD(self):
        self.answer(head=True)

    def do_GET(self):
        global busy
        with lock:
            busy += 1
        try:
            self.answer(head=False)
        finally:
            with lock:
                busy -= 1

    def answer(self, head):
        plan, _, name = self.path.lstrip("/").partition("/")
        path = os.path.join(sys.argv[1], name)
        if name == "counts":
            body = " ".join(map(str, seen[plan])).encode()
            return self.say(200, {"Content-Length": len(body)}, body)
        if not os.path.isfile(path):
            return self.say(404, {"Content-Length": 0})
        size = os.path.getsize(path)
        tag = f'"{size:x}-1"'
        if head:
            return self.say(200, {"Content-Length": size, "ETag": tag, "Accept-Ranges": "bytes"})
        first, last = 0, size - 1
        wanted = self.headers.get("Range")
        if wanted:
            a, b = wanted.removeprefix("bytes=").split("-")
            first, last = int(a), min(int(b), size - 1)
        if log:
            with lock:
                log.write(f"{name} {first} {last} {busy}\n")
        whole = last - first + 1 >= size
        fault = self.fault_of(plan, first) if not whole else None
        refused = fault in ("busy", "many")
        with lock:
            seen[plan][refused] += 1
            if not refused:
                seen[plan][2] = max(seen[plan][2], last - first + 1)
        if fault in ("busy", "many", "fail", "denied", "gone"):
            return self.refuse({"busy": 503, "many": 429, "fail": 500, "denied": 403, "gone": 404}[fault])
        if fault == "garbage":
            self.wfile.write(b"\x00\x01garbage\r\n\r\n")
            return self.drop(False)
        if fault == "other":
            tag = f'"{size:x}-2"'
        if self.headers.get("If-Match") not in (None, tag):
            return self.refuse(412)
        if first >= size:
            return self.say(416, {"Content-Length": 0, "Content-Range": f"bytes */{size}"})
        with open(path, "rb") as file:
            if fault == "whole":
                body = file.read()
                return self.say(200, {"Content-Length": size, "ETag": tag}, body)
            if fault == "range" and first > 0:
                first, last = first - 1, last - 1
            file.seek(first)
            body = file.read(last - first + 1)
        headers = {"Content-Length": len(body), "ETag": tag}
        if wanted:
            headers["Content-Range"] = f"bytes {first}-{last}/{size}"
        if whole:
            body = self.whole(plan, body, headers)
        half = len(body) // 2
        if fault in ("reset", "cut", "stall"):
            self.say(206, headers, body[:half])
            if fault == "stall":
                time.sleep(30)
            self.drop(fault == "reset")
        elif fault == "short":
            self.say(206, headers, body[:-1])
            self.drop(False)
        else:
            self.say(206 if wanted else 200, headers, body)

    def whole(self, plan, body, headers):
        """The plan's checksum, and the body as it is sent."""
        sent = body
        for word in plan.split("+"):
            kind, _, more = word.partition("-")
            if kind == "sum":
                name, value = sum_of(more, body)
                headers[name] = value
            if kind == "flip" and self.is_turn(word, more):
                middle = len(body) // 2
                sent = body[:middle] + bytes([body[middle] ^ 1]) + body[middle + 1:]
        return sent

    @staticmethod
    def is_turn(word, number):
        with lock:
            counts[word] = counts.get(word, 0) + 1
            return counts[word] % int(number or 1) == 0

    @staticmethod
    def grants(word, rate):
        with lock:
            allowed, since = buckets.get(word, (1, time.monotonic()))
            now = time.monotonic()
            allowed = min(1 + rate / 100, allowed + (now - since) * rate)
            buckets[word] = (allowed - (allowed >= 1), now)
            return allowed >= 1

    def fault_of(self, plan, first):
        for word in plan.split("+"):
            kind, _, number = word.partition("-")
            if kind == "slow":
                time.sleep(int(number) / 1000)
                continue
            if kind == "lost":
                if first // 1000 % int(number) == 2:
                    return "gone"
                continue
            if kind == "grants":
                if not self.grants(word, int(number)):
                    return "many"
                continue
            if kind not in ("ok", "sum", "flip") and self.is_turn(word, number):
                return kind
        return None


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 256

    def handle_error(self, request, client_address):
        pass


if __name__ == "__main__":
    server = Server(("127.0.0.1", 0), Handler)
    print(server.server_address[1], flush=True)
    server.serve_forever()

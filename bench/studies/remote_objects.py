"""A folder of a million objects in S3: memory for each, seconds to list, seconds to the first batch.

    python3 bench/studies/remote_objects.py LIBITER.SO ITERBENCH [--objects 1000000] [--classes 1000] [--latency-ms 0]

A server on loopback answers ListObjectsV2 for names that it makes up, and every object is the same small PNG. It runs in
processes of its own, so its memory is not counted. Memory is how far the open raises the peak of a process; for a
tenth of the objects, too, so that what a further object takes is told apart from the rest. With --flat the objects lie in one folder without classes.
"""
import argparse
import base64
import http.server
import multiprocessing
import os
import re
import socket
import subprocess
import sys
import time
import urllib.parse

PNG = base64.b64decode("iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAIAAACQd1PeAAAADElEQVR4nGNgYGAAAAAEAAH2FzhVAAAAAElFTkSuQmCC")
PAGE = 1000


class S3(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    wbufsize = 1 << 20
    classes = each = latency = 0

    def log_message(self, *args):
        pass

    def setup(self):
        super().setup()
        self.connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def say(self, status, headers, body=b""):
        head = f"HTTP/1.1 {status} x\r\n" + "".join(f"{k}: {v}\r\n" for k, v in headers.items())
        self.wfile.write(head.encode() + b"\r\n" + body)
        self.wfile.flush()

    def handle(self):
        try:
            super().handle()
        except OSError:
            pass  # the client is gone

    def do_HEAD(self):
        time.sleep(S3.latency)
        self.say(404, {"Content-Length": 0})  # prefixes alone are asked for so

    def do_GET(self):
        time.sleep(S3.latency)
        path, _, query = self.path.partition("?")
        if not query:
            tag = self.etag(path.rsplit("/", 1)[1])
            if "Range" not in self.headers:  # the whole of a small object
                return self.say(200, {"Content-Length": len(PNG), "ETag": tag}, PNG)
            a, b = self.headers["Range"].removeprefix("bytes=").split("-")
            part = PNG[int(a):int(b) + 1]
            return self.say(206, {"Content-Length": len(part), "ETag": tag,
                                  "Content-Range": f"bytes {a}-{int(a) + len(part) - 1}/{len(PNG)}"}, part)
        asked = dict(urllib.parse.parse_qsl(query, keep_blank_values=True))
        body = self.page(asked["prefix"], int(asked.get("continuation-token", 0)), int(asked["max-keys"])).encode()
        self.say(200, {"Content-Length": len(body)}, body)

    @staticmethod
    def etag(name):
        return '"%032x"' % (int(re.sub(r"\D", "", name)) * 0x9e3779b97f4a7c15f39cc0605cedc835 % (1 << 128))

    def page(self, prefix, first, most):
        parts = prefix.strip("/").split("/")
        if S3.classes and len(parts) == 1:
            total = S3.classes
            rows = [f"<CommonPrefixes><Prefix>{prefix}c{i:05}/</Prefix></CommonPrefixes>"
                    for i in range(first, min(first + most, total))]
        else:
            base = int(parts[1][1:]) * S3.each if S3.classes else 0
            total = S3.each
            rows = [f"<Contents><Key>{prefix}{base + i:07}.png</Key><LastModified>2026-11-25T00:00:00.000Z</LastModified>"
                    f"<ETag>&quot;{self.etag(str(base + i))[1:-1]}&quot;</ETag><Size>{len(PNG)}</Size>"
                    "<StorageClass>STANDARD</StorageClass></Contents>" for i in range(first, min(first + most, total))]
        more = first + most < total
        return ('<?xml version="1.0" encoding="UTF-8"?><ListBucketResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/">'
                f"<IsTruncated>{'true' if more else 'false'}</IsTruncated>"
                + (f"<NextContinuationToken>{first + most}</NextContinuationToken>" if more else "")
                + "".join(rows) + "</ListBucketResult>")


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 512


def serve(listener, classes, each, latency):
    S3.classes, S3.each, S3.latency = classes, each, latency
    server = Server(listener.getsockname(), S3, bind_and_activate=False)
    server.socket = listener
    server.serve_forever()


OPEN = """
import ctypes, resource, sys, time
lib = ctypes.CDLL(sys.argv[1])
held = ctypes.c_void_p()
error = ctypes.create_string_buffer(4096)
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
begin = time.monotonic()
status = lib.iter_dataset_open(sys.argv[2].encode(), None, ctypes.byref(held), error)
after = resource.getrusage(resource.RUSAGE_SELF)
print(status, (after.ru_maxrss - before) * 1024, time.monotonic() - begin, after.ru_utime + after.ru_stime)
"""


def measure(library, bench, objects, classes, latency):
    """How far opening raises the peak of memory, its seconds, those of CPU, and those until a program has a batch."""
    classes = min(classes, objects // 10)
    with socket.create_server(("127.0.0.1", 0), backlog=512) as listener:
        port = listener.getsockname()[1]
        servers = [multiprocessing.Process(target=serve, args=(listener, classes, objects // max(classes, 1), latency))
                   for _ in range(2)]
        for one in servers:
            one.start()
    env = {k: v for k, v in os.environ.items() if not k.startswith("AWS_")}
    spec = f"folder:s3://photos/train?anonymous=yes&endpoint=http://127.0.0.1:{port}" + ("" if classes else "&labels=no")
    try:
        said = subprocess.run([sys.executable, "-c", OPEN, library, spec], env=env, capture_output=True, text=True,
                              check=True).stdout.split()
        if said[0] != "0":
            raise SystemExit("the set cannot be opened: " + said[0])
        begin = time.monotonic()
        with subprocess.Popen([bench, "serve", "--data", spec, "--loader", "dataloader", "--source", "ring", "--batch", "64",
                               "--workers", "1", "--chain", "resize:8|center-crop:8"], env=env, text=True,
                              stdin=subprocess.PIPE, stdout=subprocess.PIPE) as run:
            run.stdin.write("run 1\n")
            run.stdin.flush()
            if not re.match(r"64 [0-9.]+$", run.stdout.readline()):
                raise SystemExit("the first batch failed")
            batch = time.monotonic() - begin
            run.kill()
    finally:
        for one in servers:
            one.terminate()
            one.join()
    return int(said[1]), float(said[2]), float(said[3]), batch


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("library")
    parser.add_argument("iterbench")
    parser.add_argument("--objects", type=int, default=1_000_000)
    parser.add_argument("--classes", type=int, default=1000)
    parser.add_argument("--flat", action="store_true")
    parser.add_argument("--latency-ms", type=float, default=0)
    a = parser.parse_args()
    classes, latency = 0 if a.flat else a.classes, a.latency_ms / 1000
    few = a.objects // 10
    least = measure(a.library, a.iterbench, few, classes, latency)[0]
    peak, opened, cpu, batch = measure(a.library, a.iterbench, a.objects, classes, latency)
    name = "s3://photos/train/" + ("" if a.flat else "c00000/") + "0000000.png"
    print(f"{a.objects} objects, {classes or 'no'} classes, {a.latency_ms:g} ms: {(peak - least) / (a.objects - few):.0f} "
          f"bytes for a further object (its URL has {len(name)}), {peak / 1e6:.0f} MB at most, {opened:.1f} s to open, {cpu:.1f} s "
          f"of CPU, {batch:.1f} s to the first batch")


if __name__ == "__main__":
    main()

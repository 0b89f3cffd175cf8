"""Opening sets at URLs: many files at a time, with the errors of one after the other, and indexes that are kept."""
import json
import os
import re
import struct
import subprocess
import sys
import tempfile
import threading
import unittest
import http.server
import zlib

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from test_remote import BENCH, IMAGES, hash_of, run, usable  # noqa: E402

N = 12  # shards


def crc32c(data):
    crc = 0xffffffff
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82f63b78 if crc & 1 else 0)
    crc ^= 0xffffffff
    return ((crc >> 15 | crc << 17) + 0xa282ead8) & 0xffffffff


def tfrecord(data):
    length = struct.pack("<Q", len(data))
    return length + struct.pack("<I", crc32c(length)) + data + struct.pack("<I", crc32c(data))


def record(data):
    head = struct.pack("<II", 0xced7230a, len(data))
    return head + data + b"\0" * (-len(data) % 4)


def read(path):
    with open(path, "rb") as file:
        return file.read()


class Counting(http.server.BaseHTTPRequestHandler):
    """Files with an ETag of their bytes; counts requests, and those that run at the same time."""
    protocol_version = "HTTP/1.1"
    wbufsize = 0
    lock = threading.Lock()
    heads, ranges, now, most = {}, [], 0, 0
    gate = None  # an event that requests of this many wait for, and so show that they run together
    root = wait_for = None

    def log_message(self, *args):
        pass

    def say(self, status, headers, body=b""):
        text = f"HTTP/1.1 {status} x\r\n" + "".join(f"{k}: {v}\r\n" for k, v in headers.items()) + "\r\n"
        self.wfile.write(text.encode() + body)

    def do_HEAD(self):
        self.answer(True)

    def do_GET(self):
        self.answer(False)

    def answer(self, head):
        cls, name = Counting, self.path.lstrip("/")
        with cls.lock:
            cls.now += 1
            cls.most = max(cls.most, cls.now)
            if head:
                cls.heads[name] = cls.heads.get(name, 0) + 1
            else:
                cls.ranges.append((name, self.headers.get("Range")))
            if cls.wait_for and cls.now >= cls.wait_for:
                cls.gate.set()
        if cls.wait_for:
            cls.gate.wait(20)  # a client that asks one after the other is slow here, and fails the test
        try:
            self.send(head, os.path.join(cls.root, name))
        finally:
            with cls.lock:
                cls.now -= 1

    def send(self, head, path):
        if not os.path.isfile(path):
            return self.say(404, {"Content-Length": 0})
        with open(path, "rb") as file:
            data = file.read()
        tag = '"%032x"' % zlib.crc32(data)
        if head:
            return self.say(200, {"Content-Length": len(data), "ETag": tag})
        if self.headers.get("If-Match") not in (None, tag):
            return self.say(412, {"Content-Length": 0})
        if "Range" not in self.headers:  # the whole of a small object
            return self.say(200, {"Content-Length": len(data), "ETag": tag}, data)
        a, b = self.headers["Range"].removeprefix("bytes=").split("-")
        part = data[int(a):int(b) + 1]
        self.say(206, {"Content-Length": len(part), "ETag": tag,
                       "Content-Range": f"bytes {a}-{int(a) + len(part) - 1}/{len(data)}"}, part)


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 256

    def handle_error(self, request, client_address):
        pass


def reset(wait_for=None):
    with Counting.lock:
        Counting.heads, Counting.ranges, Counting.most = {}, [], 0
        Counting.wait_for, Counting.gate = wait_for, threading.Event()


@unittest.skipUnless(usable(), "this build reads no URLs")
class Open(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory(prefix="iter-open-")
        root = Counting.root = cls.folder.name
        for k in range(N):
            # Some shards have many small samples, some a few large ones, and one is larger than a part that is read.
            sizes = [2_300_000, 900, 1_200_000] if k == 5 else [(k * 37 + i * 101) % 3000 + 1 for i in range(k * 40 + 3)]
            samples = [bytes((i * 7 + j * 13 + k) & 255 for j in range(min(n, 251))) * (n // 251 + 1) for i, n in enumerate(sizes)]
            samples = [s[:n] for s, n in zip(samples, sizes)]
            cls.write(f"s-{k:03}.rec", b"".join(record(s) for s in samples))
            cls.write(f"s-{k:03}.bin", b"".join(samples)[:2 * (len(b"".join(samples)) // 2)])
            if k != 5:
                cls.write(f"s-{k:03}.tfrecord", b"".join(tfrecord(s[:300]) for s in samples[:60]))
            else:
                cls.write(f"s-{k:03}.tfrecord", b"".join(tfrecord(s[:99]) for s in samples))
            cls.write(f"s-{k:03}.csv", "a,b\n" + "".join(f"{len(s)},{i}\n" for i, s in enumerate(samples)))
            members = os.path.join(root, "members")
            os.makedirs(members, exist_ok=True)
            for i, s in enumerate(samples):
                with open(os.path.join(members, f"{k:03}-{i:04}.bin"), "wb") as out:
                    out.write(s)
            names = sorted(n for n in os.listdir(members) if n.startswith(f"{k:03}-"))
            subprocess.run(["tar", "-cf", os.path.join(root, f"s-{k:03}.tar"), "-C", members] + names, check=True)
        cls.server = Server(("127.0.0.1", 0), Counting)
        threading.Thread(target=cls.server.serve_forever, daemon=True).start()
        cls.url = f"http://127.0.0.1:{cls.server.server_address[1]}"

    @classmethod
    def tearDownClass(cls):
        cls.server.shutdown()
        cls.server.server_close()
        cls.folder.cleanup()

    @classmethod
    def write(cls, name, data):
        with open(os.path.join(cls.folder.name, name), "wb") as out:
            out.write(data if isinstance(data, bytes) else data.encode())

    def setUp(self):
        reset()

    FORMATS = {
        "recordio": ("recordio:{}/s-{{000..%03d}}.rec?header=no" % (N - 1), "rec"),
        "tar": ("tar:{}/s-{{000..%03d}}.tar?fields=bin" % (N - 1), "tar"),
        "tfrecord": ("tfrecord:{}/s-{{000..%03d}}.tfrecord?index-cache=auto" % (N - 1), "tfrecord"),
        "csv": ("csv:{}/s-{{000..%03d}}.csv?columns=a" % (N - 1), "csv"),
        "tokens": ("tokens:{}/s-{{000..%03d}}.bin?length=64" % (N - 1), "bin"),
    }
    SCANNED = ("recordio", "tar", "tfrecord", "csv")

    @staticmethod
    def chain(spec):
        return ("--chain", "pad-batch") if spec.split(":")[0] in ("recordio", "tar", "tfrecord") else ()

    def both(self, name, more=""):
        """The hash and the count of an epoch, from files and from URLs; they must be equal."""
        spec = self.FORMATS[name][0]
        local = self.epoch(spec.format(self.folder.name))
        got = self.epoch(spec.format(self.url) + more)
        self.assertEqual(got, local, name)
        return got

    def epoch(self, spec):
        done = run(BENCH, "--data", spec, "--loader", "dataloader", "--hash", "--batch", "16", "--epochs", "1",
                   "--workers", "1", "--json", os.path.join(self.folder.name, "run.json"), *self.chain(spec))
        self.assertEqual(done.returncode, 0, spec + "\n" + done.stderr + done.stdout)
        with open(os.path.join(self.folder.name, "run.json"), encoding="utf-8") as text:
            count = json.load(text)["config"]["n_samples"]
        return re.search(r"^hash +([0-9a-f]+)", done.stdout, re.M).group(1), count

    def opened(self, spec):
        """Opens the set alone; returns the exit status and the output."""
        done = run(BENCH, "plan", "--data", spec, *self.chain(spec))
        return done.returncode, done.stdout + done.stderr

    def test_the_same_samples(self):
        for name in self.FORMATS:
            self.both(name)

    def test_each_is_looked_at_once(self):
        for name in self.FORMATS:
            reset()
            code, said = self.opened(self.FORMATS[name][0].format(self.url))
            self.assertEqual(code, 0, said)
            ending = self.FORMATS[name][1]
            self.assertEqual([Counting.heads.get(f"s-{k:03}.{ending}") for k in range(N)], [1] * N, name)

    def test_keys_without_a_url(self):
        """A key of URLs that would have no effect is refused."""
        local = os.path.join(self.folder.name, "s-000.bin")
        for spec, reason in ((f"tokens:{local}?length=64&cache={self.folder.name}", "tokens: 'cache' is a key of URLs, and the set has none"),
                             (f"mix:{{0.5 tokens:{self.url}/s-000.bin?length=64; 0.5 tokens:{local}?length=64}}?region=x",
                              "mix: 'region' is a key of URLs, and belongs inside the braces")):
            code, said = self.opened(spec)
            self.assertNotEqual(code, 0, spec)
            self.assertIn(reason, said)
        code, said = self.opened(f"mix:{{0.5 tokens:{self.url}/s-000.bin?length=64&connections=3; 0.5 tokens:{local}?length=64}}")
        self.assertEqual(code, 0, said)

    def test_no_page_cache(self):
        done = run(BENCH, "--data", f"tokens:{self.url}/s-000.bin?length=64", "--cache", "cold", "--seconds", "0.1")
        self.assertEqual(done.returncode, 1)
        self.assertIn("--cache cold: its files are at URLs", done.stderr)

    def test_many_at_a_time(self):
        """The server answers nothing until 8 requests wait for it."""
        for name in ("tar", "tokens"):
            reset(wait_for=8)
            code, said = self.opened(self.FORMATS[name][0].format(self.url))
            self.assertEqual(code, 0, said)
            self.assertGreaterEqual(Counting.most, 8)

    def test_one_at_a_time_if_asked(self):
        code, said = self.opened(self.FORMATS["tar"][0].format(self.url) + "&connections=1")
        self.assertEqual(code, 0, said)
        self.assertEqual(Counting.most, 1)

    def test_the_first_error_is_said(self):
        """The 3rd and the 5th of the files err; the message is that of the 3rd, as with local files."""
        for name in self.FORMATS:
            spec, ending = self.FORMATS[name]
            third, fifth = (os.path.join(self.folder.name, f"s-{k:03}.{ending}") for k in (2, 4))
            with open(third, "rb") as a, open(fifth, "rb") as b:
                kept = a.read(), b.read()
            try:
                os.unlink(third), os.unlink(fifth)
                code, said = self.opened(spec.format(self.url))
                self.assertNotEqual(code, 0, name)
                self.assertRegex(said, rf"s-002\.{ending}.*404", name)
                self.assertNotIn("s-004", said)
                if name not in ("recordio", "tar", "tfrecord"):
                    continue
                for path, data in zip((third, fifth), kept):
                    with open(path, "wb") as out:  # a damaged head far inside
                        out.write(data[:len(data) // 3] + b"\xff" * (len(data) - len(data) // 3))
                code, local = self.opened(spec.format(self.folder.name))
                self.assertNotEqual(code, 0, name)
                code, said = self.opened(spec.format(self.url))
                self.assertEqual(said.replace(self.url, self.folder.name), local, name)
            finally:
                for path, data in zip((third, fifth), kept):
                    with open(path, "wb") as out:
                        out.write(data)

    def scanned(self, name, data):
        """The ranges that a scan reads of a file; the file ends with damage, so that nothing is read after it."""
        self.write(name, data + b"no record" * 3)
        reset()
        code, said = self.opened(f"recordio:{self.url}/{name}?header=no")
        self.assertNotEqual(code, 0)
        self.assertRegex(said, "at %d" % len(data))
        return [tuple(map(int, r.removeprefix("bytes=").split("-"))) for n, r in Counting.ranges]

    def test_large_members_are_not_fetched(self):
        """Of a shard with a head every few MB, opening reads the places of the heads alone."""
        ranges = self.scanned("large.rec", b"".join(record(bytes([i]) * 5_000_000) for i in range(4)))
        self.assertLess(sum(b - a + 1 for a, b in ranges), 1_000_000)

    def test_small_members_are_read_ahead(self):
        """A shard of small records is read once, by few requests that grow."""
        data = record(b"x" * 500) * 20_000
        ranges = self.scanned("small.rec", data)
        sizes = [b - a + 1 for a, b in ranges]
        self.assertGreaterEqual(sum(sizes), len(data))
        self.assertLess(sum(sizes), len(data) + 100_000)
        self.assertLess(len(sizes), 20)

    def kept_of(self, cache):
        """Indexes have numbers from 2^63 on."""
        return sorted(os.path.join(root, n) for root, _, names in os.walk(cache) for n in names
                      if re.fullmatch(r"[0-9a-f]{32}-[89a-f][0-9a-f]{15}", n))

    def test_index_is_kept(self):
        for name in self.SCANNED:
            with tempfile.TemporaryDirectory() as cache:
                more = f"&cache={cache}"
                spec = self.FORMATS[name][0].format(self.url) + more
                code, said = self.opened(spec)
                self.assertEqual(code, 0, said)
                kept = self.kept_of(cache)
                self.assertEqual(len(kept), N, name)
                for path in kept:
                    self.assertEqual(os.stat(path).st_mode & 0o777, 0o600)
                reset()
                code, said = self.opened(spec)
                self.assertEqual(code, 0, said)
                self.assertEqual(Counting.ranges, [], name)
                ending = self.FORMATS[name][1]
                looks = {n: k for n, k in Counting.heads.items() if n.endswith(ending)}
                self.assertEqual(looks, {f"s-{k:03}.{ending}": 1 for k in range(N)}, name)
                self.both(name, more)

                # Damaged, cut, and of another object: ignored and replaced.
                with open(kept[0], "r+b") as file:
                    file.seek(-3, 2)
                    byte = file.read(1)
                    file.seek(-1, 1)
                    file.write(bytes([byte[0] ^ 1]))
                os.truncate(kept[1], 70)
                with open(kept[2], "rb") as other, open(kept[3], "wb") as file:
                    file.write(other.read())
                whole = {path: read(path) for path in kept[4:]}
                self.both(name, more)
                self.assertEqual(self.kept_of(cache), kept)
                for path in kept[:4]:
                    data = read(path)
                    self.assertEqual(data[:7], b"ITERIDX")
                    self.assertEqual(struct.unpack_from("<I", data, 12)[0], zlib.crc32(data[16:]), path)
                for path, data in whole.items():
                    self.assertEqual(read(path), data)
                total = sum(os.path.getsize(os.path.join(root, n)) for root, _, names in os.walk(cache) for n in names
                            if root != cache)
                with open(os.path.join(cache, "bytes"), "rb") as counted:
                    self.assertEqual(struct.unpack("<Q", counted.read())[0], total)

    def test_index_is_not_kept(self):
        for more, code in (("", 0), ("&index-cache=no", 0)):
            with tempfile.TemporaryDirectory() as cache:
                spec = self.FORMATS["tar"][0].format(self.url) + more + (f"&cache={cache}" if more else "")
                self.assertEqual(self.opened(spec)[0], code)
                self.assertEqual(self.kept_of(cache), [])
        code, said = self.opened(self.FORMATS["tar"][0].format(self.url) + "&index-cache=yes")
        self.assertNotEqual(code, 0)
        self.assertRegex(said, r"s-000\.tar: index-cache=yes .* cache=")

    def test_an_object_that_changed(self):
        path = os.path.join(self.folder.name, "s-003.rec")
        with open(path, "rb") as file:
            old = file.read()
        with tempfile.TemporaryDirectory() as cache:
            spec = self.FORMATS["recordio"][0].format(self.url) + f"&cache={cache}"
            self.assertEqual(self.opened(spec)[0], 0)
            before = self.kept_of(cache)
            try:
                # The same size, other records.
                body = record(b"q" * 40) + record(b"r" * (len(old) - 56 - len(old) % 4))
                self.assertEqual(len(body), len(old))
                with open(path, "wb") as file:
                    file.write(body)
                reset()
                self.both("recordio", f"&cache={cache}")
                self.assertIn("s-003.rec", {n for n, _ in Counting.ranges})
                self.assertEqual(len(self.kept_of(cache)), len(before) + 1)
            finally:
                with open(path, "wb") as file:
                    file.write(old)

    def test_a_list_of_urls(self):
        """Each name of a list is looked at, many at a time; one that is missing is a sample that fails."""
        golden = os.path.join(os.environ["ITER_SOURCE"], "tests", "golden", "images", "rgb8.png")
        with open(golden, "rb") as file:
            picture = file.read()
        for i in range(20):
            self.write(f"p{i}.png", picture)
        local, remote = (os.path.join(self.folder.name, n) for n in ("local.lst", "remote.lst"))
        for path, root in ((local, self.folder.name), (remote, self.url)):
            with open(path, "w", encoding="ascii") as out:
                out.writelines(f"{i}\t{i % 3}\t{root}/p{i}.png\n" for i in range(20))
        want = hash_of(f"folder:{local}", *IMAGES)
        self.assertRegex(want, "^[0-9a-f]+$")
        reset(wait_for=8)
        self.assertEqual(hash_of(f"folder:{remote}", *IMAGES, "--workers", "1"), want)
        self.assertGreaterEqual(Counting.most, 8)
        reset()
        os.unlink(os.path.join(self.folder.name, "p7.png"))
        done = run(BENCH, "--data", f"folder:{remote}", "--loader", "dataloader", "--hash", "--epochs", "1", "--on-error",
                   "blank", *IMAGES)
        self.assertRegex(done.stdout, r"failed +1 sample")


if __name__ == "__main__":
    unittest.main(verbosity=2)

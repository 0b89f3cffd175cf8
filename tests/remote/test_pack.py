"""iterpack reads and writes where URLs are: the same bytes as from and to files, whole or not at all."""
import http.server
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import unittest
import urllib.parse

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import servers  # noqa: E402
from test_remote import BENCH, ENV, IMAGES, PACK, run, sets, usable  # noqa: E402

BUCKET = "packed"


class Public(http.server.BaseHTTPRequestHandler):
    """A bucket that anyone may read: its objects are the files of the server's folder. Refuses signatures."""
    protocol_version = "HTTP/1.1"

    def log_message(self, *args):
        pass

    def answer(self, status, body=b"", **headers):
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(body)

    def do_GET(self):
        path, _, query = self.path.partition("?")
        query = urllib.parse.parse_qs(query)
        if "Authorization" in self.headers:
            return self.answer(403)
        if "list-type" in query:
            return self.answer(200, self.list(query.get("prefix", [""])[0], query.get("delimiter")))
        try:
            with open(os.path.join(self.server.folder, path.split("/", 2)[2]), "rb") as file:
                body = file.read()
        except OSError:
            return self.answer(404)
        part = re.fullmatch(r"bytes=(\d+)-(\d*)", self.headers.get("Range", ""))
        if not part:
            return self.answer(200, body, ETag='"1"')
        first = int(part[1])
        last = min(int(part[2] or len(body)), len(body) - 1)
        return self.answer(206, body[first:last + 1], ETag='"1"', Content_Range=f"bytes {first}-{last}/{len(body)}")

    do_HEAD = do_GET

    def list(self, prefix, delimiter):
        names = []
        for root, _, files in os.walk(self.server.folder):
            names += [os.path.relpath(os.path.join(root, name), self.server.folder) for name in files]
        items = set()
        for name in sorted(name for name in names if name.startswith(prefix)):
            rest = name[len(prefix):]
            if delimiter and "/" in rest:
                items.add(f"<CommonPrefixes><Prefix>{prefix}{rest.split('/')[0]}/</Prefix></CommonPrefixes>")
            else:
                size = os.path.getsize(os.path.join(self.server.folder, name))
                items.add(f"<Contents><Key>{name}</Key><Size>{size}</Size></Contents>")
        return ("<ListBucketResult><IsTruncated>false</IsTruncated>" + "".join(sorted(items)) + "</ListBucketResult>").encode()


@unittest.skipUnless(usable(), "this build reads no URLs")
class Anonymous(unittest.TestCase):
    def test_anonymous(self):
        """Each command reads a public bucket without keys, if it is told to."""
        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Public)
        self.addCleanup(server.server_close)
        self.addCleanup(server.shutdown)
        server.folder = sets().files
        threading.Thread(target=server.serve_forever, daemon=True).start()
        env = {"AWS_ENDPOINT_URL": f"http://127.0.0.1:{server.server_port}"}
        with tempfile.TemporaryDirectory(prefix="iter-pack-") as folder:
            out = os.path.join(folder, "x.rec")
            root = ("--root", "s3://b/photos")
            for command in (("list", "s3://b/photos"), ("pack", "s3://b/photos.lst", out, *root), ("info", "s3://b/set.rec"),
                            ("verify", "s3://b/set.rec", "--list", "s3://b/photos.lst", *root)):
                done = run(PACK, *command, **env)
                self.assertRegex(done.stderr, "no credentials: .* iterpack's --anonymous", command)
                done = run(PACK, *command, "--anonymous", **env)
                self.assertEqual((done.returncode, done.stderr), (0, ""), command)
                if command[0] == "list":
                    with open(os.path.join(server.folder, "photos.lst"), encoding="utf-8") as file:
                        self.assertEqual(done.stdout, file.read())
            with open(out, "rb") as made, open(os.path.join(server.folder, "set.rec"), "rb") as right:
                self.assertEqual(made.read(), right.read())
            self.assertEqual(run(PACK, "info", out, "--anonymous").returncode, 0)
            self.assertIn("--anonymous is given twice", run(PACK, "info", out, "--anonymous", "--anonymous").stderr)
        done = run(PACK, "pack", "s3://b/photos.lst", "s3://b/x.rec", *root, "--anonymous", **env)
        self.assertEqual(done.returncode, 1)
        self.assertIn("s3://b/x.rec: cannot be written without a signature", done.stderr)


@unittest.skipUnless(usable(), "this build reads no URLs")
class Packed(unittest.TestCase):
    client = None

    def setUp(self):
        self.s = sets()
        if not self.s.s3:
            self.skipTest("moto and boto3 are not installed")
        if Packed.client is None:
            Packed.client = self.s.client
            Packed.client.create_bucket(Bucket=BUCKET)
        self.folder = tempfile.mkdtemp(prefix="iter-pack-")
        self.addCleanup(shutil.rmtree, self.folder)
        self.photos = os.path.join(self.s.files, "photos")
        self.names = os.path.join(self.s.files, "photos.lst")
        self.proxies = []

    def tearDown(self):
        for process in self.proxies:
            servers.stop(process)
            process.stdout.close()
        if Packed.client:
            for key in self.keys():
                Packed.client.delete_object(Bucket=BUCKET, Key=key)
            for one in self.pending():
                Packed.client.abort_multipart_upload(Bucket=BUCKET, Key=one["Key"], UploadId=one["UploadId"])

    def keys(self):
        return [one["Key"] for one in Packed.client.list_objects_v2(Bucket=BUCKET).get("Contents", [])]

    def pending(self):
        return Packed.client.list_multipart_uploads(Bucket=BUCKET).get("Uploads", [])

    def get(self, key):
        return Packed.client.get_object(Bucket=BUCKET, Key=key)["Body"].read()

    def path(self, name):
        return os.path.join(self.folder, name)

    def read(self, name):
        with open(self.path(name), "rb") as file:
            return file.read()

    def proxy(self, plan):
        """Starts one; returns the environment that leads to it."""
        self.log = self.path("log")
        process = servers.start(sys.executable, os.path.join(servers.HERE, "s3_proxy.py"), self.s.s3.rsplit(":", 1)[1],
                                self.log, plan, stdout=subprocess.PIPE)
        self.proxies.append(process)
        return dict(self.s.s3_env(), AWS_ENDPOINT_URL=f"http://127.0.0.1:{int(process.stdout.readline())}")

    def asked(self, pattern=""):
        """The requests that the proxy saw."""
        if not os.path.exists(self.log):
            return []
        with open(self.log, encoding="ascii") as log:
            return [line for line in log.read().splitlines() if re.search(pattern, line)]

    def large(self, n=40, size=400_000):
        """A list of files that make a pack of several parts, and the bytes that the local pack has."""
        os.mkdir(self.path("large"))
        with open(self.path("large.lst"), "w", encoding="ascii") as names:
            for i in range(n):
                with open(self.path(f"large/{i}.jpg"), "wb") as out:
                    seed = bytes((i * 89 + j * 7 + j // 97) & 255 for j in range(1000))
                    out.write(b"\xff\xd8\xff" + seed * (size // 1000) + b"%d" % i)
                names.write(f"{i}\t{i % 3}\t{i}.jpg\n")
        done = run(PACK, "pack", self.path("large.lst"), self.path("large.rec"), "--root", self.path("large"))
        self.assertEqual(done.returncode, 0, done.stderr)
        return self.read("large.rec"), self.read("large.idx")

    def pack_large(self, *more, **env):
        return run(PACK, "pack", self.path("large.lst"), f"s3://{BUCKET}/a/large.rec", "--root", self.path("large"),
                   "--part-size", "5", *more, **env)

    def start_large(self, **env):
        return subprocess.Popen(
            [PACK, "pack", self.path("large.lst"), f"s3://{BUCKET}/a/large.rec", "--root", self.path("large"),
             "--part-size", "5", "--restart"], env=dict(ENV, **env), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
            text=True)

    def wait_until(self, true):
        for _ in range(1200):
            if true():
                return
            time.sleep(0.05)
        self.fail("nothing happened for a minute")

    def test_one_put(self):
        """Smaller than a part; what is there stays without --restart."""
        env = self.proxy("ok")
        out = f"s3://{BUCKET}/dir/odd name+.rec"
        done = run(PACK, "pack", self.names, out, "--root", self.photos, **env)
        self.assertEqual((done.returncode, done.stdout), (0, "24 records written\n"), done.stderr)
        self.assertEqual(self.keys(), ["dir/odd name+.idx", "dir/odd name+.rec"])
        for ending in (".rec", ".idx"):
            with open(os.path.join(self.s.files, "set" + ending), "rb") as file:
                self.assertEqual(self.get("dir/odd name+" + ending), file.read())
        self.assertEqual(len(self.asked("^PUT - ")), 2)
        self.assertEqual(len(self.asked("^POST")), 0)
        other = ("pack", self.names, out, "--root", self.photos, "--gray")
        if "this build has no" in run(PACK, *other[:2], self.path("gray.rec"), *other[3:]).stderr:
            return
        done = run(PACK, *other, **env)
        self.assertEqual(done.returncode, 1)
        self.assertIn("exists already; --restart replaces it", done.stderr)
        self.assertEqual(run(PACK, *other, "--restart", **env).returncode, 0)
        self.assertEqual(self.get("dir/odd name+.rec"), self.read("gray.rec"))

    def test_parts(self):
        rec, idx = self.large()
        done = self.pack_large(**self.proxy("ok"))
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual((self.get("a/large.rec"), self.get("a/large.idx")), (rec, idx))
        sizes = [int(line.split()[2]) for line in self.asked("^PUT partNumber=")]
        self.assertEqual(sum(sizes), len(rec))
        self.assertEqual(len(sizes), -(-len(rec) // (5 << 20)))
        self.assertGreaterEqual(len(sizes), 3)
        self.assertEqual(len(self.asked("^POST uploads=")), 1)
        self.assertEqual(self.pending(), [])

    def test_shards(self):
        rec, _ = self.large(n=10, size=10_000)
        done = run(PACK, "pack", self.path("large.lst"), self.path("s.rec"), "--root", self.path("large"), "--shards", "3")
        self.assertEqual(done.returncode, 0, done.stderr)
        done = run(PACK, "pack", self.path("large.lst"), f"s3://{BUCKET}/s.rec", "--root", self.path("large"), "--shards",
                   "3", **self.s.s3_env())
        self.assertEqual(done.returncode, 0, done.stderr)
        names = [f"s-{k:05}{ending}" for k in range(3) for ending in (".idx", ".rec")]
        self.assertEqual(self.keys(), names)
        for name in names:
            self.assertEqual(self.get(name), self.read(name), name)

    def test_faults_that_pass(self):
        rec, idx = self.large()
        for plan in ("busy-3", "reset-4", "lost-5", "flip-3", "inside", "busy-5+reset-4+lost-7+flip-3+slow-5"):
            done = self.pack_large("--restart", **self.proxy(plan))
            self.assertEqual(done.returncode, 0, plan + done.stderr)
            self.assertEqual((self.get("a/large.rec"), self.get("a/large.idx")), (rec, idx), plan)
            for word in plan.split("+"):
                fault = word.split("-")[0]
                self.assertTrue(fault == "slow" or self.asked(f" {fault}$"), f"{plan}: no {fault}")
            os.remove(self.log)

    def test_complete_is_forgotten(self):
        """The answer to Complete is lost, and the service no longer knows the upload: the object is looked at."""
        rec, _ = self.large()
        done = self.pack_large(**self.proxy("forget"))
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(self.get("a/large.rec"), rec)
        self.assertGreaterEqual(len(self.asked("^POST uploadId=.* forget")), 2)

    def test_complete_is_denied_too_late(self):
        """Complete fails by its answer, but was carried out: there is no upload to abort, and the object is new."""
        rec, _ = self.large()
        done = self.pack_large(**self.proxy("deny"))
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(self.get("a/large.rec"), rec)
        self.assertEqual(len(self.asked("^DELETE uploadId=")), 1)

    def test_error_inside_200(self):
        self.large()
        done = self.pack_large(**self.proxy("refuse"))
        self.assertEqual(done.returncode, 1)
        self.assertRegex(done.stderr, f"s3://{BUCKET}/a/large.rec: AccessDenied: as the plan says")
        self.assertNotIn("a/large.rec", self.keys())
        self.assertEqual(self.pending(), [])

    def test_what_is_there_cannot_be_seen(self):
        """With the right to write alone, an object that may be there is not replaced unless that is asked for."""
        self.large()
        Packed.client.put_object(Bucket=BUCKET, Key="a/large.rec", Body=b"old")
        env = self.proxy("blind")
        done = self.pack_large(**env)
        self.assertEqual(done.returncode, 1)
        self.assertRegex(done.stderr, "a/large.rec: .*denied.*; with --restart")
        self.assertEqual(self.get("a/large.rec"), b"old")
        self.assertEqual(self.pack_large("--restart", **env).returncode, 0)
        self.assertNotEqual(self.get("a/large.rec"), b"old")

    def test_old_stays(self):
        """Readers see the old object until Complete."""
        rec, _ = self.large()
        Packed.client.put_object(Bucket=BUCKET, Key="a/large.rec", Body=b"old")
        pack = self.start_large(**self.proxy("hold-" + self.path("go")))
        self.wait_until(lambda: self.asked("^POST uploadId="))
        self.assertEqual(self.get("a/large.rec"), b"old")
        with open(self.path("go"), "w", encoding="ascii"):
            pass
        self.assertEqual((pack.communicate(timeout=120)[1], pack.returncode), ("", 0))
        self.assertEqual(self.get("a/large.rec"), rec)

    def test_interrupted(self):
        """While parts are under way: neither object changes, and no parts are left."""
        self.large()
        for number, old in ((signal.SIGINT, b"old"), (signal.SIGTERM, None)):
            if old:
                Packed.client.put_object(Bucket=BUCKET, Key="a/large.rec", Body=old)
            else:
                Packed.client.delete_object(Bucket=BUCKET, Key="a/large.rec")
            before = self.keys()
            pack = self.start_large(**self.proxy("stay-" + self.path("never")))
            self.wait_until(lambda: self.asked("^PUT partNumber="))
            self.assertEqual(len(self.pending()), 1)
            pack.send_signal(number)
            said = pack.communicate(timeout=120)[1]
            self.assertEqual(pack.returncode, 130, said)
            self.assertEqual(said, "iterpack: warning: interrupted; what was not complete is not there\n")
            self.assertEqual(self.keys(), before)
            self.assertEqual(self.pending(), [])
            self.assertEqual(len(self.asked("^DELETE uploadId=")), 1)
            os.remove(self.log)
        self.assertNotIn("a/large.rec", self.keys())

    def test_unreadable_file(self):
        """An error of an input drops what was uploaded; with --skip it is left out."""
        self.large()
        os.remove(self.path("large/39.jpg"))
        done = self.pack_large(**self.s.s3_env())
        self.assertEqual(done.returncode, 1)
        self.assertRegex(done.stderr, "item 40: 39.jpg: No such file.*\n.*nothing is uploaded")
        self.assertEqual((self.keys(), self.pending()), ([], []))
        done = self.pack_large("--skip", **self.s.s3_env())
        self.assertIn("39 records written, 1 files skipped", done.stdout)
        done = run(PACK, "verify", f"s3://{BUCKET}/a/large.rec", "--list", self.path("large.lst"), "--root",
                   self.path("large"), "--skip", **self.s.s3_env())
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_deadline(self):
        """Faults that stay: the reason, the number of tries."""
        done = run(PACK, "pack", self.names, "s3://nowhere/x.rec", "--root", self.photos, **self.s.s3_env())
        self.assertEqual(done.returncode, 1)
        self.assertRegex(done.stderr, r"s3://nowhere/x\.\w+: HTTP 404, not found \(NoSuchBucket.*\(1 try\)")

    def test_keys_are_wrong(self):
        self.large()
        wrong = dict(self.s.s3_env(), AWS_SECRET_ACCESS_KEY="wrong-one")
        for args, env, said in (((), wrong, "HTTP 403, access denied"),
                                (("--restart",), wrong, r"HTTP 403, access denied \(SignatureDoesNotMatch"),
                                ((), dict(AWS_ENDPOINT_URL=self.s.s3), "no credentials")):
            done = self.pack_large(*args, **env)
            self.assertEqual(done.returncode, 1)
            self.assertRegex(done.stderr, f"s3://{BUCKET}/a/large.*{said}")
            self.assertNotIn("wrong-one", done.stderr)
        self.assertEqual((self.keys(), self.pending()), ([], []))

    def test_https_cannot_be_written(self):
        for out, said in (("http://127.0.0.1:1/x.rec", "of URLs only s3:// can"),
                          ("https://me:word-8@127.0.0.1:1/x.rec?token=tok-7", "of URLs only s3:// can"),
                          ("s3:///x.rec", "names no object"), ("s3://bucket", "names no object")):
            done = run(PACK, "pack", "/nonexistent.lst", out, **self.s.s3_env())
            self.assertEqual(done.returncode, 1, out)
            self.assertIn(said, done.stderr)
            self.assertNotRegex(done.stderr, "word-8|tok-7|nonexistent")
        done = run(PACK, "list", "/nonexistent", "http://127.0.0.1:1/x.lst")
        self.assertIn("of URLs only s3:// can", done.stderr)
        done = run(PACK, "pack", self.names, self.path("x.rec"), "--part-size", "4")
        self.assertEqual(done.returncode, 2, done.stderr)

    def test_lists(self):
        """A list of images in S3 has the lines of the folder's; it may be written there."""
        env = self.s.s3_env()
        with open(self.names, encoding="utf-8") as file:
            local = file.read()
        self.assertEqual(run(PACK, "list", "s3://sets/photos", **env).stdout, local)
        done = run(PACK, "list", "s3://sets/photos/", f"s3://{BUCKET}/l/x.lst", **env)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(self.get("l/x.lst").decode(), local)
        mixed = run(PACK, "list", "s3://sets/photos", "--shuffle", "3", **env).stdout
        self.assertEqual(mixed, run(PACK, "list", self.photos, "--shuffle", "3").stdout)
        Packed.client.put_object(Bucket=BUCKET, Key="beside/c/a.png", Body=b"x")
        Packed.client.put_object(Bucket=BUCKET, Key="beside/b.png", Body=b"x")
        done = run(PACK, "list", f"s3://{BUCKET}/beside", **env)
        self.assertIn("1 images lie beside the class folders and are left out, the first is b.png", done.stderr)

    def test_from_s3(self):
        """Lists, images and records in S3."""
        env = self.s.s3_env()
        with open(os.path.join(self.s.files, "set.rec"), "rb") as file:
            local = file.read()
        for out in (self.path("x.rec"), f"s3://{BUCKET}/x.rec"):
            done = run(PACK, "pack", "s3://sets/photos.lst", out, "--root", "s3://sets/photos", **env)
            self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual((self.read("x.rec"), self.get("x.rec")), (local, local))
        for more in ((), ("--list", "s3://sets/photos.lst", "--root", "s3://sets/photos")):
            done = run(PACK, "verify", f"s3://{BUCKET}/x.rec", *more, **env)
            self.assertEqual(done.returncode, 0, done.stderr)
        there = run(PACK, "info", os.path.join(self.s.files, "set.rec")).stdout
        self.assertEqual(run(PACK, "info", "s3://sets/set.rec", **env).stdout,
                         there.replace(os.path.join(self.s.files, "set.rec"), "s3://sets/set.rec"))
        Packed.client.put_object(Bucket=BUCKET, Key="bad.rec", Body=local[:3000] + b"?" + local[3001:-8])
        done = run(PACK, "verify", f"s3://{BUCKET}/bad.rec", **env)
        self.assertEqual(done.returncode, 1)
        self.assertIn(f"s3://{BUCKET}/bad.rec", done.stderr)
        with open(self.names, encoding="utf-8") as file:
            lines = file.read().splitlines()
        with open(self.path("some.lst"), "w", encoding="utf-8") as out:
            out.write("\n".join(lines[:3] + ["77\t0\tone/none.png"]) + "\n")
        done = run(PACK, "pack", self.path("some.lst"), self.path("y.rec"), "--root", "s3://sets/photos", **env)
        self.assertRegex(done.stderr, r"item 4: one/none\.png: s3://sets/photos/one/none\.png: HTTP 404, not found")
        done = run(PACK, "pack", self.path("some.lst"), self.path("y.rec"), "--root", "s3://sets/photos", "--skip", **env)
        self.assertIn("files skipped", done.stdout)

    def test_loaders_write_nothing(self):
        """Indexes that a loader may keep beside its data are not uploaded."""
        with open(os.path.join(self.s.files, "set.rec"), "rb") as file:
            Packed.client.put_object(Bucket=BUCKET, Key="x.rec", Body=file.read())
        for key in ("save-idx", "index-cache"):
            done = run(BENCH, "--data", f"recordio:s3://{BUCKET}/x.rec?{key}=yes", "--loader", "dataloader", "--hash",
                       *IMAGES, **self.s.s3_env())
            self.assertNotEqual(done.returncode, 0)
            self.assertIn(f"s3://{BUCKET}/x.", done.stderr)
            self.assertEqual(self.keys(), ["x.rec"])

    def test_from_http(self):
        """Lists, images and records at a server with a password and a token, which no message has."""
        if not self.s.http:
            self.skipTest("no nginx")
        plain, token = f"http://127.0.0.1:{self.s.http}", "?token=tok-7"
        secret = f"http://me:word-8@127.0.0.1:{self.s.http}/private"
        for base, query in ((plain, ""), (secret, token)):
            out = self.path(f"x{len(query)}.rec")
            lst, root = f"{base}/photos.lst{query}", f"{base}/photos{query}"
            said = ""
            for command in (("pack", lst, out, "--root", root), ("verify", f"{base}/set.rec{query}", "--decode"),
                            ("verify", f"{base}/set.rec{query}", "--list", lst, "--root", root),
                            ("info", f"{base}/set.rec{query}")):
                done = run(PACK, *command)
                self.assertEqual(done.returncode, 0, done.stderr)
                said += done.stdout + done.stderr
            self.assertIn("with index", said)
            with open(out, "rb") as a, open(os.path.join(self.s.files, "set.rec"), "rb") as b:
                self.assertEqual(a.read(), b.read())
            done = run(PACK, "info", f"{base}/none.rec{query}")
            self.assertIn("404", done.stderr)
            self.assertNotRegex(said + done.stderr, "word-8|tok-7")


if __name__ == "__main__":
    unittest.main(verbosity=2)

"""Sets that lie elsewhere deliver what they deliver from here, whatever the servers do."""
import atexit
import json
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

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import servers  # noqa: E402

BENCH, PACK = os.environ["ITERBENCH"], os.environ["ITERPACK"]
SOURCE = os.environ["ITER_SOURCE"]
ENV = {k: v for k, v in os.environ.items() if not k.startswith("AWS_") and not k.lower().endswith("_proxy")}
for name in ("CURL_CA_BUNDLE", "SSL_CERT_FILE"):
    ENV.pop(name, None)
ENV["AWS_EC2_METADATA_DISABLED"] = "true"
ENV["HOME"] = "/nonexistent"


def run(*args, **env):
    more = dict(ENV, **env)
    return subprocess.run(args, capture_output=True, text=True, env=more, timeout=240)


def hash_of(spec, *args, **env):
    """The hash of an epoch, or the message of the failure."""
    done = run(BENCH, "--data", spec, "--loader", "dataloader", "--hash", *args, **env)
    found = re.search(r"^hash +([0-9a-f]+)", done.stdout, re.M)
    if done.returncode == 0 and found and "no sample" in done.stdout:
        return found.group(1)
    return done.stderr + done.stdout


class Sets:
    """The same files on this machine, at nginx, in S3 and at the faulty server."""
    made = None

    def __init__(self):
        self.folder = tempfile.mkdtemp(prefix="iter-remote-")
        atexit.register(shutil.rmtree, self.folder, ignore_errors=True)  # after the servers, which register later
        self.files = os.path.join(self.folder, "files")
        os.makedirs(os.path.join(self.files, "cifar"))
        self.make()
        os.chmod(self.folder, 0o755)
        self.http = self.https = self.s3 = None
        if servers.NGINX and shutil.which("openssl"):
            self.http, self.https = servers.start_nginx(self.folder, self.files)
        try:
            import boto3, moto  # noqa: F401
        except ImportError:
            pass
        else:
            with open(os.path.join(self.folder, "moto.log"), "wb") as log:
                self.s3, client, self.key, self.secret = servers.start_moto(log)
            client.create_bucket(Bucket="sets")
            for root, _, names in os.walk(self.files):
                for name in names:
                    path = os.path.join(root, name)
                    client.upload_file(path, "sets", os.path.relpath(path, self.files))
            with open(os.path.join(self.files, "photos", "one", "0.png"), "rb") as picture:
                client.put_object(Bucket="sets", Key="odd/a b+c&\u00e9 {1}%41.png", Body=picture.read())
            for i in range(1100):
                client.put_object(Bucket="sets", Key=f"many/{i:04}.bin", Body=b"x")
            servers.check_keys(self.s3)
            self.client = servers.s3_client(self.s3, self.key, self.secret)
        self.faulty = servers.start_faulty(self.files)

    def make(self):
        """cifar-10's format, photos in folders, records with their index, a tar, tokens."""
        cifar = os.path.join(self.files, "cifar")
        seed = bytes((i * 7 + i // 251) & 255 for i in range(40 * 3073))
        for name in ["data_batch_%d.bin" % i for i in range(1, 6)] + ["test_batch.bin"]:
            body = bytearray(seed)
            for i in range(40):
                body[i * 3073] = i % 10
            with open(os.path.join(cifar, name), "wb") as out:
                out.write(body)
        pictures = [os.path.join(SOURCE, "tests", "golden", "images", n)
                    for n in sorted(os.listdir(os.path.join(SOURCE, "tests", "golden", "images")))
                    if re.fullmatch("(rgb|g)(8|16)?\\.png", n)]
        for c, name in enumerate(["one", "two"]):
            os.makedirs(os.path.join(self.files, "photos", name))
            for i in range(12):
                shutil.copy(pictures[(c + i) % len(pictures)], os.path.join(self.files, "photos", name, f"{i}.png"))
        photos = os.path.join(self.files, "photos")
        names = os.path.join(self.files, "photos.lst")
        subprocess.run([PACK, "list", photos, names], check=True, capture_output=True)
        subprocess.run([PACK, "pack", names, os.path.join(self.files, "set.rec"), "--root", photos], check=True,
                       capture_output=True)
        subprocess.run(["tar", "-cf", os.path.join(self.files, "set-000.tar"), "-C", photos, "one"], check=True)
        subprocess.run(["tar", "-cf", os.path.join(self.files, "set-001.tar"), "-C", photos, "two"], check=True)
        with open(os.path.join(self.files, "tokens.bin"), "wb") as out:
            out.write(bytes(i * 31 & 255 for i in range(200000)))

    def s3_env(self, **more):
        return dict(AWS_ACCESS_KEY_ID=self.key, AWS_SECRET_ACCESS_KEY=self.secret, AWS_ENDPOINT_URL=self.s3, **more)


lock = threading.Lock()


def sets():
    with lock:
        if Sets.made is None:
            Sets.made = Sets()
    return Sets.made


IMAGES = ("--batch", "4", "--chain", "resize:16|center-crop:16")
SPECS = [
    ("cifar10:{}/cifar", ("--batch", "32")),
    ("recordio:{}/set.rec", IMAGES),
    ("tar:{}/set-{{000..001}}.tar", IMAGES),
    ("tokens:{}/tokens.bin?length=512", ("--batch", "16")),
]


def usable():
    with tempfile.TemporaryDirectory() as folder:
        done = run(BENCH, "--data", f"folder:http://127.0.0.1:1/{folder}?deadline=0", "--hash")
        return "reads no URLs" not in done.stderr + done.stdout


@unittest.skipUnless(usable(), "this build reads no URLs")
class Remote(unittest.TestCase):
    def same(self, template, base, args, **env):
        local = hash_of(template.format(sets().files), *args)
        self.assertRegex(local, "^[0-9a-f]+$")
        for more in (("--source", "ring", "--workers", "2"), ()):
            spec = template.format(base)
            self.assertEqual(hash_of(spec, *args, *more, **env), local, f"{spec} {more}")

    def test_https(self):
        s = sets()
        if not s.https:
            self.skipTest("no nginx, or no openssl")
        ca = dict(SSL_CERT_FILE=os.path.join(s.folder, "ca.pem"))
        for template, args in SPECS:
            self.same(template, f"https://127.0.0.1:{s.https}", args, **ca)
        self.same(SPECS[1][0], f"http://127.0.0.1:{s.http}/moved", IMAGES)
        said = hash_of(f"recordio:https://127.0.0.1:{s.https}/set.rec", *IMAGES)
        self.assertRegex(said, "certificate")
        said = hash_of(f"folder:https://127.0.0.1:{s.https}/photos/", *IMAGES, **ca)
        self.assertRegex(said, "has no lists")

    def test_s3(self):
        s = sets()
        if not s.s3:
            self.skipTest("moto and boto3 are not installed")
        for template, args in SPECS + [("folder:{}/photos", IMAGES), ("tar:{}/set-*.tar", IMAGES)]:
            self.same(template, "s3://sets", args, **s.s3_env())
        odd = hash_of("folder:s3://sets/odd?labels=no", "--batch", "1", *IMAGES[2:], **s.s3_env())
        self.assertRegex(odd, "^[0-9a-f]+$")

    def test_s3_keys(self):
        s = sets()
        if not s.s3:
            self.skipTest("moto and boto3 are not installed")
        spec = "recordio:s3://sets/set.rec"
        said = hash_of(spec, *IMAGES, **dict(s.s3_env(), AWS_SECRET_ACCESS_KEY="wrong"))
        self.assertRegex(said, r"s3://sets/set\.rec: HTTP 403, access denied")
        self.assertNotIn("wrong", said)
        self.assertRegex(hash_of(spec, *IMAGES, AWS_ENDPOINT_URL=s.s3), "no credentials")
        self.assertRegex(hash_of("recordio:s3://sets/none.rec", *IMAGES, **s.s3_env()), "HTTP 404, not found")
        with tempfile.TemporaryDirectory() as home:
            os.mkdir(os.path.join(home, ".aws"))
            with open(os.path.join(home, ".aws", "credentials"), "w", encoding="ascii") as out:
                out.write(f"[mine]\naws_access_key_id={s.key}\naws_secret_access_key={s.secret}\n")
            found = hash_of(f"{spec}?endpoint={s.s3}&profile=mine&region=us-east-1", *IMAGES, HOME=home)
        self.assertRegex(found, "^[0-9a-f]+$")

    def test_keys_of_a_list(self):
        """A list of this machine may name URLs, so its spec may have their keys; if it names none, they are refused."""
        s = sets()
        for base, good in ((f"http://127.0.0.1:{s.faulty}/ok/photos", True), (os.path.join(s.files, "photos"), False)):
            with tempfile.NamedTemporaryFile("w", suffix=".lst", encoding="ascii") as names:
                names.write("".join(f"{i}\t{i % 2}\t{base}/one/{i}.png\n" for i in range(8)))
                names.flush()
                plain, keyed = (hash_of(f"folder:{names.name}" + more, *IMAGES) for more in ("", "?connections=2"))
            self.assertRegex(plain, "^[0-9a-f]+$")
            if good:
                self.assertEqual(keyed, plain)
            else:
                self.assertIn("folder: 'connections' is a key of URLs, and the set has none", keyed)

    def test_s3_many_names(self):
        s = sets()
        if not s.s3:
            self.skipTest("moto and boto3 are not installed")
        said = hash_of("folder:s3://sets/many?labels=no&ext=.bin&decoder=none", **s.s3_env())
        self.assertRegex(said, "no decoder is called 'none'")
        done = run(BENCH, "plan", "--data", "folder:s3://sets/many?labels=no&ext=.bin", *IMAGES, **s.s3_env())
        self.assertRegex(done.stdout, "files 11[0-9][0-9],", done.stdout + done.stderr)

    def faults(self, plan, template="recordio:{}/set.rec", args=IMAGES, more="", **env):
        s = sets()
        spec = template.format(f"http://127.0.0.1:{s.faulty}/{plan}") + more
        return hash_of(spec, *args, "--source", "ring", **env)

    def test_faults_that_pass(self):
        local = hash_of(f"recordio:{sets().files}/set.rec", *IMAGES)
        for plan, workers in (("busy-5+many-7+fail-9", "0"), ("reset-5+cut-7+short-9+garbage-11+slow-2", "2")):
            self.assertEqual(self.faults(plan, args=IMAGES + ("--workers", workers)), local, plan)

    def test_faults_that_stay(self):
        for plan, said in (("denied", "HTTP 403, access denied .Planned: as the plan says"),
                           ("gone", "HTTP 404, not found"),
                           ("other", "the object changed while it was read"),
                           ("whole", "the server ignores Range"),
                           ("range", "another range than was asked for")):
            got = self.faults(plan, args=IMAGES + ("--workers", "2"), more="?deadline=1")
            self.assertRegex(got, said, plan)
            self.assertRegex(got, r"http://127\.0\.0\.1:\d+/" + plan + r"/set\.rec", plan)
            self.assertRegex(got, r"bytes \d+ to \d+", plan)
            self.assertRegex(got, r"\(\d+ tr(y|ies)\)", plan)

    def test_deadline(self):
        begin = time.monotonic()
        got = self.faults("busy", more="?deadline=1", args=IMAGES + ("--workers", "1"))
        self.assertRegex(got, r"HTTP 503, slow down .*\(\d+ tries\)")
        self.assertLess(time.monotonic() - begin, 30)

    def test_samples_fail_alone(self):
        s = sets()
        done = run(BENCH, "--data", f"recordio:http://127.0.0.1:{s.faulty}/lost-7/set.rec", "--loader", "dataloader",
                   "--source", "ring", "--epochs", "1", "--on-error", "blank", "--hash", *IMAGES)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex(done.stdout, r"failed +[1-9]\d* sample")

    def through(self, cache, *more, template="tokens:{}/tokens.bin?length=64", args=("--batch", "16"), size="", **env):
        """The hash of an epoch through a cache, and the bytes that came from the server."""
        s = sets()
        spec = template.format(f"http://127.0.0.1:{s.faulty}/ok")
        spec += ("&" if "?" in spec else "?") + f"cache={cache}" + size
        report = os.path.join(s.folder, self.id() + ".json")  # tests run beside each other
        done = run(BENCH, "--data", spec, "--loader", "dataloader", "--hash", "--epochs", "1", "--source", "ring",
                   "--json", report, *args, *more, **env)
        self.assertEqual(done.returncode, 0, done.stderr)
        with open(report, encoding="utf-8") as text:
            found = re.search(r'"remote": *(\d+)', text.read())
        return re.search(r"^hash +([0-9a-f]+)", done.stdout, re.M).group(1), int(found.group(1))

    def test_cache(self):
        s = sets()
        for template, args in SPECS[1:]:
            local = hash_of(template.format(s.files), *args)
            with tempfile.TemporaryDirectory() as cache:
                for workers in ("2", "0", "1", "8"):
                    got, remote = self.through(cache, "--workers", workers, template=template, args=args)
                    self.assertEqual(got, local, template)
                    if workers != "2":
                        self.assertEqual(remote, 0, "the second epoch sends no request")
                blocks = [os.path.join(root, name) for root, _, names in os.walk(cache) for name in names
                          if root != cache]
                self.assertGreater(len(blocks), 0)
                for path in blocks:
                    self.assertEqual(os.stat(path).st_mode & 0o777, 0o600)
                    with open(path, "r+b") as block:
                        block.seek(os.path.getsize(path) // 2)
                        byte = block.read(1)
                        block.seek(-1, 1)
                        block.write(bytes([byte[0] ^ 4]))
                got, remote = self.through(cache, template=template, args=args)
                self.assertEqual(got, local, "after damage")

    def test_fetch(self):
        """A cache that is filled beforehand, by a run that is killed and one that goes on."""
        s = sets()
        size = 5_300_000
        with open(os.path.join(s.files, "fetch.bin"), "wb") as out:
            out.write(bytes(i * 31 + (i >> 8) & 255 for i in range(size)))
        template, args = "tokens:{}/fetch.bin?length=1000", ("--batch", "16")
        with tempfile.TemporaryDirectory() as cache:
            spec = template.format(f"http://127.0.0.1:{s.faulty}/ok") + f"&cache={cache}"
            slow = template.format(f"http://127.0.0.1:{s.faulty}/slow-3") + f"&cache={cache}"
            killed = subprocess.Popen([BENCH, "fetch", "--data", slow], env=ENV, stdout=subprocess.DEVNULL)
            time.sleep(0.1)
            killed.kill()
            killed.wait()
            done = run(BENCH, "fetch", "--data", spec)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertIn(f"{size / 1e6:.1f} of {size / 1e6:.1f} MB are in the cache", done.stdout)
            self.assertIn(" 0.0 MB came now", run(BENCH, "fetch", "--data", spec).stdout)
            got, remote = self.through(cache, template=template, args=args)
            self.assertEqual((got, remote), (hash_of(template.format(s.files), *args), 0))
        with tempfile.TemporaryDirectory() as cache:
            spec = f"tokens:http://127.0.0.1:{s.faulty}/ok/fetch.bin?length=64&cache={cache}"
            self.assertRegex(run(BENCH, "fetch", "--data", spec.replace("/ok/", "/denied/")).stderr, "HTTP 403")
            slow = spec.replace("/ok/", "/slow-3000/")  # ^C does not ask again for what is in flight
            stopped = subprocess.Popen([BENCH, "fetch", "--data", slow], env=ENV, stderr=subprocess.PIPE, text=True,
                                       stdout=subprocess.DEVNULL)
            for _ in range(600):  # until several requests are in flight
                folder = f"/proc/{stopped.pid}/fd"
                if sum(os.path.realpath(os.path.join(folder, n)).count("socket:") for n in os.listdir(folder)) >= 5:
                    break
                time.sleep(0.05)
            stopped.send_signal(signal.SIGINT)
            self.assertIn("fetch: stopped", stopped.communicate(timeout=60)[1])
            self.assertEqual(stopped.returncode, 130)
            os.chmod(cache, 0o500)
            if os.geteuid() != 0:
                self.assertNotEqual(run(BENCH, "fetch", "--data", spec).returncode, 0)
            os.chmod(cache, 0o700)
        done = run(BENCH, "fetch", "--data", f"tokens:{s.files}/tokens.bin?length=64")
        self.assertIn("no file of this set has a cache", done.stderr)

    def test_cache_is_small(self):
        s = sets()
        path = os.path.join(s.files, "large.bin")
        with open(path, "wb") as out:
            for i in range(6):
                out.write(bytes((i + j * 31) & 255 for j in range(1 << 20)))
        template = "tokens:{}/large.bin?length=1000"
        local = hash_of(template.format(s.files), "--batch", "16")
        with tempfile.TemporaryDirectory() as cache:
            for workers in ("1", "0", "2"):
                got, remote = self.through(cache, "--workers", workers, template=template, size="&cache-size=3300k")
                self.assertEqual(got, local)
            self.assertGreater(remote, 2 << 20)
            self.assertLess(remote, 4 << 20)
            total = sum(os.path.getsize(os.path.join(root, name)) for root, _, names in os.walk(cache)
                        for name in names)
            self.assertLess(total, 3300000 + 8)

    def test_cache_and_death(self):
        """Two processes share a cache; one is killed again and again."""
        s = sets()
        path = os.path.join(s.files, "kill.bin")
        with open(path, "wb") as out:
            out.write(bytes(j * 31 + (j >> 8) & 255 for j in range(8 << 20)))
        template = "tokens:{}/kill.bin?length=1000"
        local = hash_of(template.format(s.files), "--batch", "16")
        with tempfile.TemporaryDirectory() as cache:
            spec = template.format(f"http://127.0.0.1:{s.faulty}/slow-3") + f"&cache={cache}&cache-size=7M"
            args = [BENCH, "--data", spec, "--loader", "dataloader", "--source", "ring", "--epochs", "9"]
            for i in range(8):
                killed = subprocess.Popen(args, env=ENV, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
                other = subprocess.Popen(args[:-1] + ["1", "--hash"], env=ENV, stdout=subprocess.PIPE, text=True)
                time.sleep(0.02 + 0.03 * i)
                killed.kill()
                killed.wait()
                said = other.communicate(timeout=120)[0]
                self.assertRegex(said, "hash +" + local, f"after {i} kills")
                if i % 2:
                    shutil.rmtree(os.path.join(cache, sorted(n for n in os.listdir(cache) if len(n) == 2)[0]))

    def test_plants(self):
        """A set by URLs of iterbench's own server, slow or refusing: it is read, and the verdict's evidence has it."""
        s = sets()
        for kind in ("slow-remote:0.5", "throttled:0.2"):
            done = run(BENCH, "--loader", "dataloader", "--data", f"tokens:{s.files}/tokens.bin?length=64", "--batch", "16",
                       "--compute-ms", "1", "--workers", "1", "--seconds", "0.5", "--plant", kind, "--json", "-")
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertRegex(done.stdout, '"command": ".*--plant %s' % kind)
        done = run(BENCH, "--loader", "dataloader", "--data", f"tokens:http://127.0.0.1:{s.faulty}/ok/tokens.bin?length=64",
                   "--plant", "slow-remote")
        self.assertRegex(done.stderr, "files of this machine")

    def test_secrets(self):
        """A password and a token in URLs reach the server, and nothing that is printed or kept."""
        s = sets()
        if not s.http:
            self.skipTest("no nginx")
        host = f"http://me:word-8@127.0.0.1:{s.http}/private"
        names = os.path.join(s.folder, "urls.lst")
        with open(os.path.join(s.files, "photos.lst"), encoding="utf-8") as listed, open(names, "w") as out:
            for i, line in enumerate(listed):
                number, label, name = line.rstrip("\n").split("\t")
                out.write(f"{number}\t{label}\t{host}/photos/{name}?i={i}&token=tok-7\n")
        local = hash_of(f"folder:{s.files}/photos.lst?root={s.files}/photos", *IMAGES)
        self.assertRegex(local, "^[0-9a-f]+$")
        for spec, args, want in (
                (f'recordio:"{host}/set.rec?token=tok-7"', IMAGES, hash_of(f"recordio:{s.files}/set.rec", *IMAGES)),
                (f'tar:"{host}/set-{{000..001}}.tar?token=tok-7"', IMAGES,
                 hash_of(f"tar:{s.files}/set-{{000..001}}.tar", *IMAGES)),
                (f"folder:{names}", IMAGES, local),
                (f'recordio:"{host}/set.rec?token=tok-7-wrong"', IMAGES, None),
                (f"recordio:http://me:word-8-wrong@127.0.0.1:{s.http}/private/set.rec", IMAGES, None),
                (f"cifar10:{host}/cifar", (), None)):
            with tempfile.TemporaryDirectory() as cache:
                out = os.path.join(s.folder, "run.json")
                cached = f"{spec}{'&' if spec.endswith(chr(34)) and '?' in spec.split(chr(34))[-1] else '?'}cache={cache}"
                done = run(BENCH, "--data", cached, "--loader", "dataloader", "--hash", "--source", "ring", "--json", out,
                           "--on-error", "blank", *args)
                said = done.stdout + done.stderr
                if want:
                    self.assertRegex(said, "hash +" + want, spec)
                    with open(out, encoding="utf-8") as text:
                        said += text.read()
                else:
                    self.assertNotEqual(done.returncode, 0)
                    self.assertRegex(said, "40[13]", spec)
                if want and spec.startswith("recordio"):
                    said += run(BENCH, "--data", cached, "--loader", "dataloader", "--compute-ms", "1", "--seconds", "0.2",
                                "--json", "-", *args).stdout
                plan = run(BENCH, "plan", "--data", cached, *args)
                said += plan.stdout + plan.stderr + "".join(
                    name for _, folders, files in os.walk(cache) for name in folders + files)
                for secret in ("word-8", "tok-7"):
                    self.assertNotIn(secret, said, spec)

    def test_nobody_listens(self):
        got = hash_of(f"recordio:http://127.0.0.1:{servers.free_port()}/x.rec?deadline=0.2")
        self.assertRegex(got, "(?i)connect")
        self.assertRegex(hash_of("recordio:s3:///x.rec"), "no credentials|names no bucket|404|bucket")


if __name__ == "__main__":
    unittest.main(verbosity=2)

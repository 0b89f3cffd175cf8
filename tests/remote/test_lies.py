"""Servers that lie, hang, send too much or send elsewhere: right bytes or a clear error, in bounded time and memory."""
import concurrent.futures
import datetime
import ipaddress
import os
import re
import resource
import signal
import socket
import ssl
import subprocess
import tempfile
import threading
import time
import unittest

BENCH = os.environ["ITERBENCH"]
ENV = {k: v for k, v in os.environ.items() if not k.startswith("AWS_") and not k.lower().endswith("_proxy")}
for name in ("CURL_CA_BUNDLE", "SSL_CERT_FILE"):
    ENV.pop(name, None)
ENV.update(HOME="/nonexistent", AWS_ACCESS_KEY_ID="KEY", AWS_SECRET_ACCESS_KEY="such/secret+", AWS_SESSION_TOKEN="such-token")
BODY = bytes(i * 31 + (i >> 8) & 255 for i in range(100_000))
MEMORY = 1 << 30  # more than iterbench takes, less than any of these servers would send


class Liar:
    """Serves BODY. If the first part of a path is in `lies`, that function answers: f(send, method, head); false = it did not."""

    def __init__(self, lies, context=None):
        self.lies, self.context, self.heads = lies, context, []
        self.socket = socket.create_server(("127.0.0.1", 0), backlog=64)
        self.port = self.socket.getsockname()[1]
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            try:
                connection = self.socket.accept()[0]
            except OSError:
                return
            threading.Thread(target=self.serve, args=(connection,), daemon=True).start()

    def serve(self, connection):
        try:
            with self.context.wrap_socket(connection, server_side=True) if self.context else connection as connection:
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                waiting = b""
                while True:
                    while b"\r\n\r\n" not in waiting:
                        more = connection.recv(65536)
                        if not more:
                            return
                        waiting += more
                    head, _, waiting = waiting.partition(b"\r\n\r\n")
                    self.answer(connection.sendall, head.decode("latin-1"))
        except OSError:
            pass

    def answer(self, send, head):
        self.heads.append(head)
        method, path = head.split(" ", 2)[:2]
        lie = self.lies.get(path.split("?")[0].split("/")[1])
        if not (lie and lie(send, method, head)):
            honest(send, method, head)

    def close(self):
        self.socket.close()


def honest(send, method, head, first_line="", more="", chunked=False, body=BODY):
    wanted = re.search(r"(?im)^range: bytes=(\d+)-(\d+)", head)
    first, last = (int(wanted[1]), min(int(wanted[2]), len(body) - 1)) if wanted else (0, len(body) - 1)
    status = f"206 x\r\nContent-Range: bytes {first}-{last}/{len(body)}" if wanted else "200 x"
    part = body[first:last + 1]
    length = "Transfer-Encoding: chunked" if chunked and method != "HEAD" else f"Content-Length: {len(part)}"
    send((first_line + f"HTTP/1.1 {status}\r\n{length}\r\nETag: \"one\"\r\n{more}\r\n").encode())
    if method == "HEAD":
        return
    if not chunked:
        return send(part)
    for at in range(0, len(part), 1000):
        piece = part[at:at + 1000]
        send(b"%x\r\n" % len(piece) + piece + b"\r\n")
    send(b"0\r\n\r\n")


def get(answer):
    """A lie of GET alone."""
    def lie(send, method, head):
        return method == "GET" and (answer(send, head), True)[1]
    return lie


def both(answer):
    return lambda send, method, head: (answer(send, head), True)[1]


def for_ever(head, piece):
    def answer(send, _):
        send(head)
        while True:  # until the client has enough
            send(piece)
    return answer


def slowly(head, piece):
    def answer(send, _):
        send(head)
        while True:
            send(piece)
            time.sleep(1)
    return answer


def redirect(to):
    return both(lambda send, head: send(f"HTTP/1.1 302 x\r\nLocation: {to}\r\nContent-Length: 0\r\n\r\n".encode()))


def page(text):
    def answer(send, _):
        body = f'<?xml version="1.0"?>{text}'.encode()
        send(b"HTTP/1.1 200 x\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
    return answer


def only_lists(answer):
    return lambda send, method, head: "list-type=2" in head.split("\r\n")[0] and (answer(send, head), True)[1]


LINE = b"X-Bomb: " + b"a" * 1000 + b"\r\n"
PART = b"HTTP/1.1 206 x\r\nContent-Range: bytes 0-9/100000\r\n"
ITEM = "<Contents><Key>{}</Key><Size>5</Size></Contents>"
BOMB = "<!DOCTYPE a [<!ENTITY a '" + "ha" * 100 + "'>" + "".join(
    f"<!ENTITY {chr(98 + i)} '" + f"&{chr(97 + i)};" * 50 + "'>" for i in range(8)) + "]><ListBucketResult>&i;</ListBucketResult>"

# The first part of the path, what it does, and a pattern of the message; "" = the right bytes.
LIES = [
    ("honest", None, ""),
    ("chunked", lambda send, method, head: (honest(send, method, head, chunked=True), True)[1], ""),
    ("continue", lambda send, method, head: (honest(send, method, head, "HTTP/1.1 100 x\r\n\r\nHTTP/1.1 103 x\r\nLink: x\r\n\r\n"), True)[1], ""),
    ("stars", get(lambda send, head: honest(lambda b: send(b.replace(b"/100000\r\n", b"/*\r\n")), "GET", head)), ""),
    ("lines", both(for_ever(b"HTTP/1.1 200 x\r\n", LINE)), "head of the answer is too long|[Tt]oo large|exceeds"),
    ("line", both(for_ever(b"HTTP/1.1 200 x\r\nX-Bomb: ", b"a" * 65536)), "head is too long|[Tt]oo large|exceeds"),
    ("early", both(for_ever(b"", b"HTTP/1.1 103 x\r\n\r\n")), "head of the answer is too long|[Tt]oo large|exceeds"),
    ("endless", get(for_ever(b"HTTP/1.1 206 x\r\nETag: \"one\"\r\nContent-Range: bytes 0-99999/100000\r\n\r\n", b"b" * 65536)),
     "more bytes than were asked for|another range"),
    ("endless200", get(for_ever(b"HTTP/1.1 200 x\r\n\r\n", b"b" * 65536)), "ignores Range"),
    ("endless404", get(for_ever(b"HTTP/1.1 404 x\r\n\r\n", b"b" * 65536)), "HTTP 404, not found"),
    ("endless503", get(for_ever(b"HTTP/1.1 503 x\r\n\r\n", b"b" * 65536)), "HTTP 503, slow down"),
    ("ranges", get(lambda send, head: send(b"HTTP/1.1 206 x\r\nContent-Type: multipart/byteranges; boundary=b\r\nContent-Length: 100000\r\n\r\n"
                                           + b"--b\r\n" * 20000)), "does not say which range"),
    ("nolength", both(lambda send, head: send(b"HTTP/1.1 200 x\r\nConnection: close\r\n\r\n")), "does not say how long"),
    ("negative", both(lambda send, head: send(b"HTTP/1.1 200 x\r\nContent-Length: -1\r\n\r\n")), "Content-Length|how long"),
    ("same", get(lambda send, head: send(b"HTTP/1.1 304 x\r\nETag: \"one\"\r\n\r\n")), "HTTP 304"),
    ("loop", redirect("/loop/x.bin"), "redirects"),
    ("file", redirect("file:///etc/passwd"), "(?i)protocol"),
    ("silent", both(lambda send, head: time.sleep(600)), "(?i)too slow|timed? ?out"),
    ("trickle", get(slowly(PART, b"X")), "(?i)too slow|timed? ?out"),
]
LISTS = [
    ("sets", only_lists(page("<ListBucketResult><IsTruncated>true</IsTruncated><NextContinuationToken>t</NextContinuationToken>"
                             + ITEM.format("f/a.bin") + "</ListBucketResult>")), "goes on where it went on before"),
    ("bomb", only_lists(page(BOMB)), "document type declaration"),
    ("outside", only_lists(page("<ListBucketResult>" + ITEM.format("other/../../a.bin") + "</ListBucketResult>")), "is not in the folder"),
    ("huge", only_lists(for_ever(b"HTTP/1.1 200 x\r\n\r\n<ListBucketResult>", ITEM.format("f/a.bin").encode() * 1000)), "too long"),
    ("deep", only_lists(page("<ListBucketResult>" + "<a>" * 10000)), "an element"),
    ("zero", only_lists(page("<ListBucketResult>" + ITEM.format("f/a&#0;b.bin") + "</ListBucketResult>")), "the list: line"),
    ("size", only_lists(page("<ListBucketResult><Contents><Key>f/a.bin</Key><Size>-5</Size></Contents></ListBucketResult>")), "a size of"),
]


def limit_memory():
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def run(spec, *args, **env):
    """Status, output, and the most memory that iterbench had."""
    with tempfile.TemporaryFile() as out:
        process = subprocess.Popen([BENCH, "--data", spec, "--loader", "dataloader", "--hash", "--epochs", "1", "--batch", "16",
                                    "--source", "ring", *args], env=dict(ENV, **env), stdout=out, stderr=out, preexec_fn=limit_memory)
        timer = threading.Timer(200, process.kill)  # a hang
        timer.start()
        _, status, usage = os.wait4(process.pid, 0)
        timer.cancel()
        process.returncode = os.waitstatus_to_exitcode(status)
        out.seek(0)
        return process.returncode, out.read().decode("utf-8", "replace"), usage.ru_maxrss * 1024


def each(test, cases, check):
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        for case, reason in zip(cases, pool.map(check, cases)):
            with test.subTest(case[0]):
                test.assertIsNone(reason)


def certificates(folder):
    """ca.pem, and certificates of a server: right.pem, old.pem (expired), other.pem (of another host)."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    now, day = datetime.datetime.now(datetime.timezone.utc), datetime.timedelta(days=1)
    ca_key, key = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP256R1())
    ca = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "test CA")])

    def make(name, host, end, public, is_ca=False):
        made = x509.CertificateBuilder().issuer_name(ca).subject_name(
            ca if is_ca else x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "x")])).public_key(public).serial_number(
            x509.random_serial_number()).not_valid_before(now - 9 * day).not_valid_after(end).add_extension(
            x509.BasicConstraints(is_ca, None), True)
        if host:
            made = made.add_extension(x509.SubjectAlternativeName([host]), False)
        with open(os.path.join(folder, name), "wb") as out:
            out.write(made.sign(ca_key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM))
            if not is_ca:
                out.write(key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()))

    here = x509.IPAddress(ipaddress.ip_address("127.0.0.1"))
    make("ca.pem", None, now + day, ca_key.public_key(), True)
    make("right.pem", here, now + day, key.public_key())
    make("old.pem", here, now - day, key.public_key())
    make("other.pem", x509.DNSName("example.org"), now + day, key.public_key())


class Lies(unittest.TestCase):
    def test_files(self):
        server = Liar({name: lie for name, lie, _ in LIES})
        self.addCleanup(server.close)
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "x.bin")
            with open(path, "wb") as out:
                out.write(BODY)
            local = re.search(r"(?m)^hash +(\w+)", run(f"tokens:{path}?length=64")[1])[1]

        def check(case):
            name, _, said = case
            status, text, most = run(f"tokens:http://127.0.0.1:{server.port}/{name}/x.bin?length=64&deadline=1&connections=4")
            if most > MEMORY:
                return f"{most >> 20} MiB"
            if said:
                return None if status > 0 and re.search(said, text) and f"/{name}/x." in text else f"{status}: {text}"
            return None if f"{local}" in text else text

        each(self, LIES, check)

    def test_lists(self):
        server = Liar({name: lie for name, lie, _ in LISTS})
        self.addCleanup(server.close)

        def check(case):
            name, _, said = case
            status, text, most = run(f"folder:s3://{name}/f/?labels=no&ext=.bin&endpoint=http://127.0.0.1:{server.port}&deadline=1")
            if most > MEMORY:
                return f"{most >> 20} MiB"
            return None if status > 0 and re.search(said, text) and f"s3://{name}/f" in text else f"{status}: {text}"

        each(self, LISTS, check)

    def test_nowhere(self):
        status, text, _ = run("tokens:http://no-such-host.invalid/x.bin?length=64&deadline=0.5")
        self.assertGreater(status, 0)
        self.assertRegex(text, "(?i)resolve host")
        status, text, _ = run("mnist:http://127.0.0.1:9?split=test&deadline=0.5")  # names are tried; none is there for another reason
        self.assertGreater(status, 0)
        self.assertRegex(text, "(?i)t10k-images-idx3-ubyte: failed to connect")

    def test_interrupted(self):
        process = subprocess.Popen([BENCH, "--hash", "--data", "tokens:http://127.0.0.1:9/x.bin?length=64&deadline=60"], env=ENV,
                                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL))
        time.sleep(2)
        process.send_signal(signal.SIGINT)
        self.assertEqual(process.wait(30), -signal.SIGINT)

    def test_redirects_take_no_secrets(self):
        """Neither a password nor a signature goes to another server, and a signed request not even without."""
        other, unasked = Liar({}), Liar({})
        self.addCleanup(other.close)
        self.addCleanup(unasked.close)
        server = Liar({name: redirect(f"http://127.0.0.1:{liar.port}/x/x.bin") for name, liar in (("plain", other), ("sets", unasked))})
        self.addCleanup(server.close)
        status, text, _ = run(f"tokens:http://me:word-8@127.0.0.1:{server.port}/plain/x.bin?length=64&deadline=1")
        self.assertEqual(status, 0, text)
        self.assertIn("authorization: basic", "".join(server.heads).lower())
        self.assertGreater(len(other.heads), 0)
        self.assertNotIn("authorization", "".join(other.heads).lower())
        status, text, _ = run(f"tokens:s3://sets/x.bin?length=64&endpoint=http://127.0.0.1:{server.port}&deadline=1")
        self.assertGreater(status, 0)
        self.assertRegex(text, "HTTP 302")
        self.assertEqual(unasked.heads, [])

    def test_certificates(self):
        try:
            import cryptography  # noqa: F401
        except ImportError:
            self.skipTest("cryptography is not installed")
        with tempfile.TemporaryDirectory() as folder:
            certificates(folder)
            plain = Liar({})
            self.addCleanup(plain.close)
            for name, said in (("right", "^hash"), ("old", "(?i)expired"), ("other", "(?i)subject name|match")):
                context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
                context.load_cert_chain(os.path.join(folder, name + ".pem"))
                server = Liar({"down": redirect(f"http://127.0.0.1:{plain.port}/x/x.bin")}, context)
                self.addCleanup(server.close)
                spec = f"tokens:https://127.0.0.1:{server.port}/x/x.bin?length=64&deadline=1"
                with self.subTest(name):
                    self.assertRegex(run(spec, SSL_CERT_FILE=os.path.join(folder, "ca.pem"))[1], "(?m)" + said)
                    self.assertRegex(run(spec)[1], "(?i)certificate")
                if name == "right":
                    text = run(spec.replace("/x/", "/down/"), SSL_CERT_FILE=os.path.join(folder, "ca.pem"))[1]
                    self.assertRegex(text, "(?i)protocol")
            self.assertEqual(plain.heads, [])

    def test_secrets_of_s3(self):
        """Keys, tokens and signatures are in no output, trace or name."""
        server = Liar({})
        self.addCleanup(server.close)
        with tempfile.TemporaryDirectory() as folder:
            spec = f"tokens:s3://sets/x.bin?length=64&endpoint=http://127.0.0.1:{server.port}&deadline=1&cache={folder}/cache"
            status, text, _ = run(spec, "--json", f"{folder}/run.json", ITER_PROFILE=f"{folder}/trace.json")
            self.assertEqual(status, 0, text)
            for command in ("plan", "doctor", "verify"):
                done = subprocess.run([BENCH, command, "--data", spec], env=ENV, capture_output=True, text=True, timeout=200)
                text += done.stdout + done.stderr
            text += run(spec.replace("x.bin", "none/x.bin").replace("/cache", "/none"))[1]
            for root, folders, files in os.walk(folder):
                text += " ".join(folders + files)
                for name in files:
                    with open(os.path.join(root, name), "rb") as file:
                        text += file.read().decode("latin-1")
            signatures = set(re.findall("Signature=([0-9a-f]+)", "".join(server.heads)))
            self.assertGreater(len(signatures), 0)
            for secret in {"such/secret+", "such-token", "AWS4-HMAC"} | signatures:
                self.assertNotIn(secret, text)


if __name__ == "__main__":
    unittest.main(verbosity=2)

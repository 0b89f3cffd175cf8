"""Requests are signed with the keys that botocore finds in the same environment, files and services."""
import calendar
import concurrent.futures
import hashlib
import hmac
import http.server
import json
import os
import re
import subprocess
import sys
import tempfile
import threading
import time
import unittest
import urllib.parse

BENCH = os.environ["ITERBENCH"]
BASE = {k: v for k, v in os.environ.items() if not k.startswith("AWS_") and not k.lower().endswith("_proxy")}

# What botocore resolves, in a process of its own: its environment is the case's.
BOTO = """
import json, sys, botocore.session
s = botocore.session.Session(profile=sys.argv[1] or None)
c = s.get_credentials()
print(json.dumps(c and [c.access_key, c.secret_key, c.token]))
"""


class Fake(http.server.BaseHTTPRequestHandler):
    """S3 that has one object and notes who asks; a container's service at /creds, a machine's at /latest."""
    protocol_version = "HTTP/1.1"
    wbufsize = 1 << 20

    def log_message(self, *args):
        pass

    def say(self, status, body=b"", **headers):
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.send_header("Content-Length", str(headers.pop("size", len(body))))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def keys(self, name):
        s = self.server
        with s.lock:
            s.given += 1
            s.given_at.append(len(s.asked))
            number = s.given
            expires = time.time() + s.lasts_s
            s.expires.append(expires)
        self.say(200, json.dumps({
            "Code": "Success", "LastUpdated": "2026-01-01T00:00:00Z", "Type": "AWS-HMAC", "AccessKeyId": f"{name}{number}",
            "SecretAccessKey": f"se/cret+{number}", "Token": f"token/{number}==",
            "Expiration": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(expires))}).encode())

    def do_PUT(self):
        if self.path == "/latest/api/token" and self.headers.get("X-aws-ec2-metadata-token-ttl-seconds"):
            return self.say(200, b"imds-token-5")
        self.say(404)

    def do_HEAD(self):
        self.do_GET()

    def do_GET(self):
        s = self.server
        if self.path == "/creds":
            with s.lock:
                s.mute_at = s.mute_at or (time.time() if s.mute_from and len(s.asked) > s.mute_from else 0)
            if 0 < time.time() - s.mute_at < 2.5:
                s.n_mute += 1
                return self.say(500)
            ok = self.headers.get("Authorization") == s.wanted
            return self.keys("BOX") if ok else self.say(401)
        if self.path.startswith("/latest/meta-data/iam/security-credentials/"):
            if self.headers.get("X-aws-ec2-metadata-token") != "imds-token-5":
                return self.say(401)
            if self.path.endswith("/"):
                return self.say(200, b"the-role")
            return self.keys("MACHINE") if self.path.endswith("/the-role") else self.say(404)
        with s.lock:
            s.asked.append((self.command, self.path, dict(self.headers.items()), time.time()))
        if s.region and f"/{s.region}/s3/" not in self.headers.get("Authorization", ""):
            return self.say(400, x_amz_bucket_region=s.region)
        judged = s.judge(self)
        if judged is not True:
            return self.say(judged or 403, b"<Error><Code>ExpiredToken</Code><Message>it is old</Message></Error>")
        body = bytes(range(256)) * 400
        wanted = re.fullmatch(r"bytes=(\d+)-(\d+)", self.headers.get("Range", ""))
        if self.command == "HEAD" or not wanted:
            return self.say(200, body, ETag='"one"')
        first, last = int(wanted[1]), min(int(wanted[2]), len(body) - 1)
        time.sleep(s.slow_s)
        self.say(206, body[first:last + 1], ETag='"one"', Content_Range=f"bytes {first}-{last}/{len(body)}")


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 64

    def __init__(self, wanted=None, lasts_s=3600, judge=lambda request: True, slow_s=0.0, mute_from=0,
                 region=""):
        super().__init__(("127.0.0.1", 0), Fake)
        self.lock = threading.Lock()
        self.asked, self.given, self.given_at, self.expires = [], 0, [], []
        self.wanted, self.lasts_s, self.judge, self.slow_s = wanted, lasts_s, judge, slow_s
        self.mute_from, self.mute_at, self.n_mute, self.region = mute_from, 0, 0, region
        self.url = f"http://127.0.0.1:{self.server_address[1]}"
        threading.Thread(target=self.serve_forever, args=(0.02,), daemon=True).start()

    def handle_error(self, request, client_address):
        pass

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.shutdown()
        self.server_close()


def signature(command, path, headers, secret):
    """Signature Version 4 of a request, as the AWS documents describe it."""
    _, given = headers["Authorization"].split(" ", 1)
    parts = dict(p.split("=", 1) for p in given.split(", "))
    names = parts["SignedHeaders"].split(";")
    low = {k.lower(): v for k, v in headers.items()}
    _, date, region, service, end = parts["Credential"].split("/")
    url = urllib.parse.urlsplit(path)
    canonical = "\n".join([command, url.path, url.query, *(f"{n}:{low[n]}" for n in names), "", parts["SignedHeaders"],
                           low["x-amz-content-sha256"]])
    text = "\n".join(["AWS4-HMAC-SHA256", low["x-amz-date"], "/".join([date, region, service, end]),
                      hashlib.sha256(canonical.encode()).hexdigest()])
    key = b"AWS4" + secret.encode()
    for word in (date, region, service, end, text):
        key = hmac.new(key, word.encode(), hashlib.sha256).digest()
    return key.hex(), parts


ENV = {"AWS_ACCESS_KEY_ID": "ENVKEY", "AWS_SECRET_ACCESS_KEY": "env/secret+"}
KEYS = "aws_access_key_id = {0}KEY\naws_secret_access_key = {0}/secret\n"
BOX = {"AWS_CONTAINER_CREDENTIALS_FULL_URI": "{url}/creds", "AWS_CONTAINER_AUTHORIZATION_TOKEN": "box-token"}
MACHINE = {"AWS_EC2_METADATA_SERVICE_ENDPOINT": "{url}", "AWS_EC2_METADATA_DISABLED": "false"}
TWO = "[default]\n" + KEYS.format("D") + "[two]\n" + KEYS.format("T") + "aws_session_token = T/token==\n"

# name, environment, credentials file, config file, profile=
SAME = [
    ("environment", ENV, "", "", ""),
    ("session token", dict(ENV, AWS_SESSION_TOKEN="env/token=="), "", "", ""),
    ("an old name", dict(ENV, AWS_SECURITY_TOKEN="env/old=="), "", "", ""),
    ("environment first", dict(ENV, AWS_PROFILE="two"), TWO, "", ""),
    ("a named profile first", ENV, TWO, "", "two"),
    ("default", {}, TWO, "", ""),
    ("AWS_PROFILE", {"AWS_PROFILE": "two"}, TWO, "", ""),
    ("AWS_DEFAULT_PROFILE", {"AWS_DEFAULT_PROFILE": "two"}, TWO, "", ""),
    ("config alone", {"AWS_PROFILE": "two"}, "", TWO.replace("[two", "[profile two"), ""),
    ("config's default", {}, "", TWO, ""),
    ("quotes in a head", {"AWS_PROFILE": "a b"}, "", '[profile "a b"]\n' + KEYS.format("Q"), ""),
    ("keys of one file", {}, "[default]\n" + KEYS.format("C"), "[default]\n" + KEYS.format("F") + "aws_session_token = F/t\n", ""),
    ("comments, blanks, CRLF", {},
     "# a\r\n\r\n; b\r\n[other]\r\n" + KEYS.format("O").replace("\n", "\r\n") + "[default]\r\n  # c\r\n" +
     "AWS_ACCESS_KEY_ID=CRKEY  \r\naws_secret_access_key\t=  C=R/s:#;x \r\n[last]\r\naws_access_key_id = no\r\n", "", ""),
    ("colons", {}, "[default]\naws_access_key_id: COLKEY\naws_secret_access_key : s:e=c\n", "", ""),
    ("what is nested", {}, "", "[default]\ns3 =\n  aws_access_key_id = nested\n  region = x\n" + KEYS.format("N"), ""),
    ("a head in the wrong file", {"AWS_PROFILE": "two"}, TWO, "[two]\n" + KEYS.format("W") + "[profile two]\nregion = x\n", ""),
    ("container", BOX, "", "", ""),
    ("files before services", dict(BOX, **MACHINE), TWO, "", ""),
    ("container first", dict(BOX, **MACHINE), "", "", ""),
    ("token in a file", {"AWS_CONTAINER_CREDENTIALS_FULL_URI": "{url}/creds", "AWS_CONTAINER_AUTHORIZATION_TOKEN": "old",
                         "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE": "{folder}/token"}, "", "", ""),
    ("machine", MACHINE, "", "", ""),
    ("machine, with a slash", dict(MACHINE, AWS_EC2_METADATA_SERVICE_ENDPOINT="{url}/"), "", "", ""),
    ("a profile without keys", dict(MACHINE, AWS_PROFILE="bare"), "", "[profile bare]\nregion = x\n", ""),
]

# name, environment, credentials file, config file, profile=, a pattern of the message. botocore asks elsewhere here, or fails, too.
REFUSED = [
    ("nothing", {}, "", "", "", "no credentials"),
    ("half of the environment", {"AWS_ACCESS_KEY_ID": "HALF"}, TWO, "", "", "AWS_SECRET_ACCESS_KEY is not"),
    ("half of a profile", {}, "[default]\naws_access_key_id = HALF\n", "", "", "no aws_secret_access_key"),
    ("no such profile", {"AWS_PROFILE": "none"}, TWO, "", "", "the profile 'none' is not"),
    ("no such profile, named", ENV, TWO, "", "none", "the profile 'none' is not"),
    ("role", {"AWS_PROFILE": "r"}, TWO, "[profile r]\nrole_arn = arn:x\nsource_profile = two\n", "", "role_arn, which is not supported"),
    ("sign-on", {"AWS_PROFILE": "r"}, "", "[profile r]\nsso_session = x\n", "", "sso_session, which is not supported"),
    ("process", {}, "", "[default]\ncredential_process = /bin/false\n", "", "credential_process, which is not supported"),
    ("web identity", {"AWS_WEB_IDENTITY_TOKEN_FILE": "/x", "AWS_ROLE_ARN": "arn:x", **MACHINE}, "", "", "", "web identity"),
    ("container says no", dict(BOX, AWS_CONTAINER_AUTHORIZATION_TOKEN="wrong", **MACHINE), "", "", "", "container's service gives none"),
    ("token of two lines", dict(BOX, AWS_CONTAINER_AUTHORIZATION_TOKEN="box-token\r\nX-Evil: 1"), "", "", "", "more than one line"),
    ("a far container", dict(BOX, AWS_CONTAINER_CREDENTIALS_FULL_URI="http://10.9.8.7/creds"), "", "", "", "another machine"),
    ("a far container, in disguise", dict(BOX, AWS_CONTAINER_CREDENTIALS_FULL_URI="http://127.0.0.1@10.9.8.7/creds"), "", "", "",
     "another machine"),
    ("machine is off", dict(MACHINE, AWS_EC2_METADATA_DISABLED="true"), "", "", "", "no credentials"),
]


def ask(server, folder, case):
    """What we say about the set, with the environment of the case; and that environment."""
    _, env, credentials, config, profile = case[:5]
    env = dict(BASE, HOME=folder, AWS_EC2_METADATA_DISABLED="true", AWS_SHARED_CREDENTIALS_FILE="~/keys",
               AWS_CONFIG_FILE=os.path.join(folder, "config"),
               **{k: v.replace("{url}", server.url).replace("{folder}", folder) for k, v in env.items()
                  if k != "AWS_EC2_METADATA_DISABLED"})
    env.update({k: v for k, v in case[1].items() if k == "AWS_EC2_METADATA_DISABLED"})
    for name, text in (("keys", credentials), ("config", config), ("token", "box-token")):
        if text:
            with open(os.path.join(folder, name), "w", encoding="utf-8", newline="") as out:
                out.write(text)
    spec = f"tokens:s3://sets/x.bin?length=64&endpoint={server.url}&deadline=1" + (f"&profile={profile}" if profile else "")
    done = subprocess.run([BENCH, "plan", "--data", spec], env=env, capture_output=True, text=True, timeout=120)
    return done, env


class Credentials(unittest.TestCase):
    def each(self, cases, check):
        """Calls check(case) for all cases, some at once."""
        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            for case, reason in zip(cases, pool.map(check, cases)):
                with self.subTest(case[0]):
                    self.assertIsNone(reason)

    def test_same_as_botocore(self):
        try:
            import botocore  # noqa: F401
        except ImportError:
            self.skipTest("botocore is not installed")

        def check(case):
            with Server("box-token") as server, tempfile.TemporaryDirectory() as folder:
                done, env = ask(server, folder, case)
                if done.returncode or not server.asked:
                    return done.stderr
                given, server.given = server.given, 0
                boto = subprocess.run([sys.executable, "-c", BOTO, case[4]], env=env, capture_output=True, text=True)
                if boto.returncode:
                    return boto.stderr
                key, secret, token = json.loads(boto.stdout)
                command, path, headers, _ = server.asked[0]
                found, parts = signature(command, path, headers, secret)
                want = (key, found, token)
                got = (parts["Credential"].split("/")[0], parts["Signature"], headers.get("x-amz-security-token"))
                if got != want:
                    return f"{got}, expected {want}"
                return None if given <= 1 else f"asked {given} times"

        self.each(SAME, check)

    def test_refused(self):
        def check(case):
            with Server("box-token") as server, tempfile.TemporaryDirectory() as folder:
                done, _ = ask(server, folder, case)
                if done.returncode == 0 or server.asked:
                    return "a request was sent"
                if not re.search(case[5], done.stderr):
                    return done.stderr
                secrets = [s for s in ("box-token", "/secret", "wrong") if s in done.stderr + done.stdout]
                return f"{secrets} in {done.stderr}" if secrets else None

        self.each(REFUSED, check)

    def read(self, server, **more):
        env = dict(BASE, AWS_EC2_METADATA_DISABLED="true", HOME="/nonexistent", **more,
                   AWS_CONTAINER_CREDENTIALS_FULL_URI=server.url + "/creds")
        spec = f"tokens:s3://sets/x.bin?length=64&endpoint={server.url}&deadline=30&connections=2"
        done = subprocess.run([BENCH, "--data", spec, "--loader", "dataloader", "--hash", "--epochs", "1", "--source", "ring",
                               "--workers", "2", "--batch", "8", "--prefetch", "2"],
                              env=env, capture_output=True, text=True, timeout=120)
        self.assertEqual(done.returncode, 0, done.stderr)
        return re.search(r"^hash +(\w+)", done.stdout, re.M)[1]

    def test_renewed(self):
        """Keys that expire while a set is read are asked for again, and no request goes out with old ones."""
        late = []

        def judge(request):
            number = int(re.search("Credential=BOX([0-9]+)/", request.headers["Authorization"])[1])
            signed = calendar.timegm(time.strptime(request.headers["x-amz-date"], "%Y%m%dT%H%M%SZ"))
            if signed >= int(request.server.expires[number - 1]):
                late.append(number)
            return True

        with Server(lasts_s=3600) as server:
            want = self.read(server)
            n_clients = server.given  # iterbench opens the set several times
        with Server(lasts_s=2, judge=judge, slow_s=0.02) as server:
            self.assertEqual(self.read(server), want)
            self.assertGreater(server.given, n_clients)
            self.assertEqual(late, [])
        with Server(lasts_s=120) as server:  # they expire soon: that is no reason to ask for each request
            self.assertEqual(self.read(server), want)
            self.assertLess(server.given, len(server.asked) / 4)

    def test_service_falls_silent(self):
        """Reads wait for keys if those that they had expired and their service fails for a while."""
        with Server() as server:
            want = self.read(server)
            # iterbench opens the set several times. The service fails at the first renewal of the one that reads most:
            # before its keys are there, an open would fail, as it must.
            ends = server.given_at[1:] + [len(server.asked)]
            start = max(zip(ends, server.given_at), key=lambda pair: pair[0] - pair[1])[1]
        with Server(lasts_s=2, slow_s=0.01, mute_from=start) as server:
            self.assertEqual(self.read(server), want)
            self.assertGreater(server.n_mute, 0)

    def test_signed_for_get(self):
        """A URL that answers to GET alone, as one that was signed by others does."""
        for status in (403, 405, 501):
            with self.subTest(status), Server(judge=lambda request: request.command == "GET" or status) as server:
                done = subprocess.run([BENCH, "plan", "--data", f'tokens:"{server.url}/x.bin?X-Amz-Signature=1"?length=64'],
                                      env=BASE, capture_output=True, text=True, timeout=30)
                self.assertEqual(done.returncode, 0, done.stderr)
                self.assertRegex(done.stdout, "of 51200 tokens", done.stdout)
                self.assertEqual([asked[0] for asked in server.asked].count("HEAD"), 1)

    def test_region(self):
        """Of requests that go to a wrong region at the same time, each goes on in the right one."""
        with Server(region="eu-west-9") as server:
            env = dict(BASE, AWS_EC2_METADATA_DISABLED="true", HOME="/nonexistent", **ENV)
            spec = f"tokens:s3://sets/{{a,b,c,d,e,f,g,h}}.bin?length=64&endpoint={server.url}"
            done = subprocess.run([BENCH, "plan", "--data", spec], env=env, capture_output=True, text=True, timeout=60)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertGreaterEqual(len(server.asked), 9)

    def test_expired_token(self):
        """A server that calls keys expired gets new ones."""
        def judge(request):
            return "Credential=BOX1/" not in request.headers["Authorization"]

        with Server(judge=judge) as server:
            self.assertRegex(self.read(server), "^[0-9a-f]+$")
            self.assertGreater(server.given, 1)


if __name__ == "__main__":
    unittest.main(verbosity=2)

#!/usr/bin/env python3
"""Writes sigv4/requests.txt beside itself: requests and the header that botocore signs them by.

Usage: make_sigv4.py FOLDER, which is tests/unit/auth/aws4_testsuite of botocore's source. The
suite's cases come first, by their canonical requests. Requests to S3 follow, with names of objects
that are hard to encode, signed by botocore itself. Needs the PyPI package botocore.
"""
import datetime
import os
import sys

import botocore.auth
from botocore.awsrequest import AWSRequest
from botocore.compat import urlsplit
from botocore.credentials import Credentials
from botocore.utils import percent_encode

SUITE_KEYS = ("AKIDEXAMPLE", "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY")
TIME = "20150830T123600Z"
NAMES = ["a", "photos/cat 1.jpg", "a+b=c&d?e#f", "100%/50%25", "\u1234/\u00e9\U0001f600", "a//b/../c/.",
         "~tilde-_.", "'(quotes)!*\"", "tab\tend", "[x]{0..9}@:,;$", "x" * 700]


def suite(folder):
    for root, _, names in sorted(os.walk(folder)):
        for name in sorted(names):
            if not name.endswith(".creq"):
                continue
            base = os.path.join(root, name[:-5])
            lines = open(base + ".creq", encoding="utf-8").read().split("\n")
            blank = lines.index("", 3)
            authz = open(base + ".authz", encoding="utf-8").read().strip()
            headers = [line.split(":", 1) for line in lines[3:blank]]
            yield dict(case=name[:-5], keys=SUITE_KEYS, region="us-east-1", service="service", time=TIME,
                       method=lines[0], path=lines[1], query=lines[2], headers=headers,
                       payload=lines[blank + 2], authorization=authz, name=None)


class Clock(datetime.datetime):
    @classmethod
    def utcnow(cls):
        return datetime.datetime(2015, 8, 30, 12, 36, 0)

    @classmethod
    def now(cls, tz=None):
        return datetime.datetime(2015, 8, 30, 12, 36, 0, tzinfo=tz)


def s3(name, token, query):
    credentials = Credentials("AKIDEXAMPLE", "secret/with+signs", token)
    auth = botocore.auth.S3SigV4Auth(credentials, "s3", "eu-west-1")
    url = "http://127.0.0.1:9000/bucket/" + percent_encode(name, safe="/~")
    if query:
        url = "http://127.0.0.1:9000/bucket/?" + query
    request = AWSRequest(method="GET", url=url)
    request.context["payload_signing_enabled"] = True
    auth.add_auth(request)
    canonical = auth.canonical_request(request).split("\n")
    blank = canonical.index("", 3)
    return dict(case="s3", keys=("AKIDEXAMPLE", "secret/with+signs"), region="eu-west-1", service="s3", time=TIME,
                method="GET", path=urlsplit(request.url).path, query=canonical[2],
                headers=[line.split(":", 1) for line in canonical[3:blank] if not line.startswith("authorization")],
                payload=canonical[-1],
                authorization=request.headers["Authorization"], name=None if query else name)


def main():
    botocore.auth.datetime = type("module", (), {"datetime": Clock, "timezone": datetime.timezone})
    if hasattr(botocore.auth, "get_current_datetime"):
        botocore.auth.get_current_datetime = lambda *a, **k: Clock.utcnow()
    cases = list(suite(sys.argv[1]))
    cases += [s3(name, None, "") for name in NAMES] + [s3("a b", "a/token+with=signs", "")]
    cases += [s3("", None, "continuation-token=1%2F%2B%3D&delimiter=%2F&encoding-type=url&list-type=2&max-keys=2&prefix="
                 + percent_encode("a b/\u00e9+", safe="~"))]
    folder = os.path.join(os.path.dirname(os.path.abspath(__file__)), "sigv4")
    with open(os.path.join(folder, "requests.txt"), "w", encoding="utf-8", newline="\n") as out:
        for c in cases:
            for key in ("case", "region", "service", "time", "method", "path", "query", "payload", "authorization"):
                out.write(f"{key} {c[key]}\n")
            out.write(f"access {c['keys'][0]}\nsecret {c['keys'][1]}\n")
            if c["name"] is not None:
                out.write(f"name {c['name'].encode().hex()}\n")
            for key, value in c["headers"]:
                out.write(f"header {key}:{value}\n")
            out.write("end\n")


if __name__ == "__main__":
    main()

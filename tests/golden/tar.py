#!/usr/bin/env python3
"""Writes tar/{ustar,gnu,pax}.tar beside itself: the same samples in Python's three formats.

Names are longer than a header's field: above 100 letters ustar needs its prefix, above 255 only gnu
and pax can store them.
"""
import io
import os
import tarfile

FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "tar")
DEEP = "d" * 60 + "/" + "e" * 60
LONG = "f" * 120 + "/" + "g" * 180


def members(long_name):
    yield "readme", b"no sample"
    yield "a/0001.cls", b"3"
    yield "a/0001.seg.BIN", b"\0\1\2"
    yield "a/0001.json", b'{"x": [1, {"y": 2}], "width": 640, "box": {"y": -1.5e2}}\n'
    yield "a/0002.CLS", b" -7\n"
    yield "a/0002.json", b'{"width":1e3,"box":{"x":"}","y":0}}'
    yield "a/0002.seg.bin", b""
    yield DEEP + "/0003.cls", b"2147483647"
    yield DEEP + "/0003.json", b'{"a\\"b": "\\\\", "width": 0.25, "box": {"y": 7}}'
    yield DEEP + "/0003.seg.bin", bytes(range(256)) * 4
    if long_name:
        yield LONG + ".cls", b"4"
        yield LONG + ".json", b'{"width": 5, "box": {"y": 6}}'
        yield LONG + ".seg.bin", b"long"


def main():
    os.makedirs(FOLDER, exist_ok=True)
    for name, form in (("ustar", tarfile.USTAR_FORMAT), ("gnu", tarfile.GNU_FORMAT), ("pax", tarfile.PAX_FORMAT)):
        out = io.BytesIO()
        with tarfile.open(fileobj=out, mode="w", format=form) as tar:
            folder = tarfile.TarInfo("a")
            folder.type = tarfile.DIRTYPE
            tar.addfile(folder)
            for member, data in members(name != "ustar"):
                info = tarfile.TarInfo(member)
                info.size = len(data)
                tar.addfile(info, io.BytesIO(data))
        data = out.getvalue().rstrip(b"\0")
        data += bytes(-len(data) % 512 + 1024)
        with open(os.path.join(FOLDER, name + ".tar"), "wb") as f:
            f.write(data)


main()

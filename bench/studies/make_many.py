#!/usr/bin/env python3
"""Writes many small samples, to measure the cost of opening: make_many.py tar|rec|folder OUT N [BYTES]

tar: one member per sample, NAME.cls of BYTES bytes; rec: records of BYTES bytes, without an .idx; folder: N empty files NAME.jpg,
13,000 per class. Content beyond 4 KiB becomes a hole, if the file system has holes.
"""
import os
import struct
import sys

CHUNK = 1 << 24


def tar_header(i, size):
    head = bytearray(512)
    name = b"%08d.cls" % i
    head[: len(name)] = name
    head[124:136] = b"%011o\0" % size
    head[156:157] = b"0"
    head[257:265] = b"ustar\x0000"
    head[148:156] = b" " * 8
    head[148:156] = b"%06o\0 " % sum(head)
    return bytes(head)


def write_all(path, samples, stride, tail):
    with open(path, "wb") as out:
        if stride > 8192:
            for i, head in enumerate(samples):
                out.seek(i * stride)
                out.write(head)
                n = i + 1
            out.truncate(n * stride + len(tail))
            return
        pending = []
        for head in samples:
            pending.append(head.ljust(stride, b"\0"))
            if len(pending) * stride > CHUNK:
                out.write(b"".join(pending))
                pending.clear()
        out.write(b"".join(pending) + tail)


def main():
    kind, path, n = sys.argv[1], sys.argv[2], int(sys.argv[3])
    size = int(sys.argv[4]) if len(sys.argv) > 4 else 1
    if kind == "tar":
        stride = 512 + -(-size // 512) * 512
        write_all(path, (tar_header(i, size) + b"7" for i in range(n)), stride, bytes(1024))
    elif kind == "rec":
        head = struct.pack("<II", 0xCED7230A, size)
        write_all(path, (head for _ in range(n)), 8 + -(-size // 4) * 4, b"")
    else:
        for i in range(n):
            folder = f"{path}/{i // 13000:03d}"
            if i % 13000 == 0:
                os.makedirs(folder)
            os.close(os.open(f"{folder}/{i:08d}.jpg", os.O_CREAT | os.O_WRONLY, 0o644))


main()

#!/usr/bin/env python3
"""Writes tfrecord/{few,odd}.tfrecord beside itself, with the PyPI packages tfrecord and protobuf.

few: examples as the package's own writer makes them. odd: messages that protocol buffers allow and
that writer does not make: numbers that are not packed, a field that comes twice, unknown fields,
an example without features.
"""
import os
import struct

from tfrecord import example_pb2
from tfrecord.writer import TFRecordWriter

FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "tfrecord")
PICTURE = os.path.join(FOLDER, "..", "images", "i_g1.png")


def framed(data):
    length = struct.pack("<Q", len(data))
    return length + TFRecordWriter.masked_crc(length) + data + TFRecordWriter.masked_crc(data)


def field(number, data):
    out = bytearray([number << 3 | 2])
    n = len(data)
    while n >= 128:
        out.append(n & 127 | 128)
        n >>= 7
    out.append(n)
    return bytes(out) + data


def entry(name, feature):
    return field(1, field(1, name.encode()) + field(2, feature))


def odd():
    # 5 and -1 apart, then 300 and 6 packed; floats apart; an unknown field 9
    integers = bytes([8, 5, 8]) + b"\xff" * 9 + b"\x01" + field(1, b"\xac\x02\x06")
    floats = b"\x0d" + struct.pack("<f", 1.5) + field(1, struct.pack("<2f", -2, 0.25)) + b"\x4d" + b"abcd"
    text = field(1, b"first")
    first = (entry("i", field(3, integers)) + entry("f", field(2, floats))
             + entry("s", field(1, field(1, b"not this one"))) + entry("s", field(1, text)))
    yield field(2, b"unknown") + field(1, first)
    yield field(1, entry("i", field(3, b""))) + field(1, entry("s", field(1, field(1, b""))))
    yield b""


def main():
    os.makedirs(FOLDER, exist_ok=True)
    with open(PICTURE, "rb") as file:
        picture = file.read()
    writer = TFRecordWriter(os.path.join(FOLDER, "few.tfrecord"))
    for i in range(5):
        writer.write({
            "image/encoded": (picture, "byte"),
            "image/class/label": (i * 1000 - 2000, "int"),
            "boxes": ([0.5 * k for k in range(i)], "float"),
            "size": ([10 + i, 20 + i, -(1 << 62)], "int"),
            "name": (("sample %d \u00e4" % i).encode(), "byte"),
        })
    writer.close()
    with open(os.path.join(FOLDER, "odd.tfrecord"), "wb") as file:
        seen = []
        for data in odd():
            seen.append(example_pb2.Example.FromString(data).features.feature)
            file.write(framed(data))
    # what the real parser makes of them
    assert list(seen[0]["i"].int64_list.value) == [5, -1, 300, 6]
    assert list(seen[0]["f"].float_list.value) == [1.5, -2, 0.25]
    assert list(seen[0]["s"].bytes_list.value) == [b"first"]
    assert list(seen[1]["i"].int64_list.value) == [] and list(seen[1]["s"].bytes_list.value) == [b""]
    assert len(seen[2]) == 0


if __name__ == "__main__":
    main()

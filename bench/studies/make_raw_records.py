#!/usr/bin/env python3
"""Writes a RecordIO file of raw images, with its .idx, for measuring: make_raw_records.py OUT.rec HEIGHTxWIDTHx3 BYTES

Pixels are random 7-bit values, the same every time. So no record holds the magic (0xced7230a), and each is in one piece. Labels
count 0 to 999.
"""
import random
import struct
import sys

MAGIC = 0xCED7230A
POOL = 64 << 20  # records are cut from so many random bytes, at varying offsets


def main():
    path, shape, total = sys.argv[1], sys.argv[2], int(float(sys.argv[3]))
    height, width, channels = (int(n) for n in shape.split("x"))
    pixels = height * width * channels
    draw = random.Random(1)
    low = bytes(i & 0x7F for i in range(256))
    pool = draw.randbytes(POOL + pixels).translate(low)
    n = -(-total // (pixels + 32))
    with open(path, "wb") as rec, open(path.removesuffix(".rec") + ".idx", "w") as idx:
        for i in range(n):
            idx.write(f"{i}\t{rec.tell()}\n")
            at = draw.randrange(POOL)
            rec.write(struct.pack("<IIIfQQ", MAGIC, pixels + 24, 0, i % 1000, i, 0))
            rec.write(pool[at:at + pixels])
            rec.write(bytes(-pixels % 4))
    print(f"{path}: {n} records of {height} x {width} x {channels}")


main()

"""An epoch by Python is the epoch by C: the hash of docs/json.md, by iterbench and from batches here, for any workers."""
from __future__ import annotations

import os
import shutil
import struct
import subprocess
import unittest

import numpy as np

import libiter
from support import cifar_file

PRIME, BASIS, MASK = 0x100000001B3, 0xCBF29CE484222325, 2**64 - 1


def fnv(data, h=BASIS):
    for byte in data:
        h = ((h ^ byte) * PRIME) & MASK
    return h


def fnv_rows(heads, rows):
    """fnv() of many rows of the same length at once: uint64 [n]; numpy's multiplication wraps."""
    h = np.array(heads, np.uint64)
    for column in np.ascontiguousarray(rows).T:
        h = (h ^ column.astype(np.uint64)) * np.uint64(PRIME)
    return h


CODES = {"u8": 1, "i32": 6, "i64": 8, "f32": 11}


class Hash:
    """The sum over rows, as docs/json.md defines it."""

    def __init__(self, fields):
        self.fields, self.total = fields, 0

    def add(self, batch):
        n = len(batch.index)
        for number, (field, array) in enumerate(zip(self.fields, batch)):
            shape = array.shape[1:]
            heads = [
                fnv(struct.pack("<QQIII%dQ" % len(shape), batch.epoch, position, number, CODES[field.dtype], len(shape), *shape))
                for position in batch.position.tolist()
            ]
            rows = np.ascontiguousarray(array).reshape(n, -1).view(np.uint8).reshape(n, -1)
            self.total = (self.total + sum(fnv_rows(heads, rows).tolist())) & MASK


def by_python(spec, chain, workers, epochs=2, **options):
    with libiter.Loader(spec, chain, batch_size=16, shuffle=True, seed=7, workers=workers, **options) as loader:
        total = Hash(loader.fields)
        for _ in range(epochs):
            for batch in loader:
                total.add(batch)
    return "%016x" % total.total


def by_iterbench(program, spec, chain, *extra):
    command = [program, "--data", spec, "--shuffle", "full", "--seed", "7", "--epochs", "2", "--batch", "16",
               "--hash", "--json", "-", *extra] + (["--chain", chain] if chain else [])  # fmt: skip
    out = subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout.decode()
    return [line.split('"')[3] for line in out.splitlines() if '"hash"' in line][-1]


class Equal(unittest.TestCase):
    def test_the_published_number(self):
        """check_hash.py's: two epochs in order of 70 records."""
        with cifar_file() as spec, libiter.Loader(spec, batch_size=7, workers=1) as loader:
            total = Hash(loader.fields)
            for _ in range(2):
                for batch in loader:
                    total.add(batch)
        self.assertEqual("%016x" % total.total, "03701f9ccf491190")

    def test_iterbench(self):
        library = os.environ.get("LIBITER_LIBRARY", "")
        program = os.environ.get("ITERBENCH") or shutil.which("iterbench", path=os.path.join(os.path.dirname(library), "bench"))
        if not program:
            self.skipTest("neither ITERBENCH nor bench/iterbench beside LIBITER_LIBRARY")
        with cifar_file(50) as spec:
            cases = [
                (spec, None),
                (spec, "random-crop:size=16,pad=4 | random-flip | normalize:mean=125;123;114,std=63;62;67 | to:f32,nchw"),
                ("synthetic:imdb?n=60&maxlen=40", None),
            ]
            for source, chain in cases:
                expected = by_iterbench(program, source, chain, "--workers", "2")
                for workers in (0, 1, 2, 8):
                    with self.subTest(source=source.split(":")[0], chain=chain, workers=workers):
                        self.assertEqual(by_python(source, chain, workers), expected)


if __name__ == "__main__":
    unittest.main()

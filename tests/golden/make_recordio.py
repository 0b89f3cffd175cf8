#!/usr/bin/env python3
"""Writes recordio_mxnet.h beside itself: files that MXNet itself wrote. Needs MXNet 1.9.1.

Also recordio/{one,three}.{lst,rec,idx}: lists, and the results of MXNet's im2rec --pass-through for
them, from the files that tests/check_iterpack.sh makes. The header has three sets: records without
a header, with one label each, with three. Payloads contain the magic at every place modulo 4, and a
header contains it as a label and as an id, so that records are cut within it.
"""
import os
import struct
import tempfile

import mxnet as mx
import numpy as np

FOLDER = os.path.dirname(os.path.abspath(__file__))
MAGIC = struct.pack("<I", 0xCED7230A)
MAGIC_LABEL = struct.unpack("<f", MAGIC)[0]
MAGIC_ID = 0xCED7230ACED7230A

PLAIN = [b"", b"a", b"abcd", b"hello", MAGIC, MAGIC + b"abcd", b"ab" + MAGIC + b"cd", b"abcd" + MAGIC, b"abcd" + MAGIC + MAGIC + b"x",
         bytes(range(64)) * 3]
SCALAR = [(3.0, 7, 0, b"payload"), (0.0, 0, 0, b""), (-1.5, 1, 2, MAGIC), (MAGIC_LABEL, 3, 4, b"abc"),
          (2.0, MAGIC_ID, MAGIC_ID, b"x" * 5 + MAGIC + b"y" * 3 + MAGIC), (16777216.0, 2**63 + 5, 2**40, bytes(range(256)))]
MULTI = [([1.0, 2.5, -3.0], 8, 9, b"payload"), ([MAGIC_LABEL] * 3, 1, 0, MAGIC * 2), ([0.0, MAGIC_LABEL, 7.0], 2, 0, b"")]


def write(records):
    with tempfile.TemporaryDirectory() as folder:
        rec, idx = os.path.join(folder, "x.rec"), os.path.join(folder, "x.idx")
        writer = mx.recordio.MXIndexedRecordIO(idx, rec, "w")
        for key, record in enumerate(records):
            writer.write_idx(key, record)
        writer.close()
        return open(rec, "rb").read(), open(idx, "rb").read()


def pack(label, number, number2, content):
    if isinstance(label, list):
        label = np.array(label, dtype=np.float32)
    return mx.recordio.pack(mx.recordio.IRHeader(0, label, number, number2), content)


def array(name, data):
    lines = [", ".join("0x%02x" % b for b in data[i:i + 20]) + "," for i in range(0, len(data), 20)]
    return "static const uint8_t %s[] = {\n    %s\n};\n" % (name, "\n    ".join(lines))


def text(data):
    return "(const uint8_t *)\"%s\", %d" % ("".join("\\%03o" % b for b in data), len(data))


def rows(name, width, records):
    out = ["static const recordio_row %s[] = {" % name]
    for record in records:
        label, number, number2, content = record if isinstance(record, tuple) else (0.0, 0, 0, record)
        labels = label if isinstance(label, list) else [label]
        numbers = ", ".join(float(np.float32(x)).hex() + "f" for x in labels)
        out.append("    {{%s}, %du, %du, %s}," % (numbers, number, number2, text(content)))
    return "\n".join(out + ["};\n"])


FILES = [("a/0", b""), ("a/1", b"hello"), ("b/2", MAGIC * 2 + b"x"), ("b/3 3", b"x" * 300 + MAGIC + b"y" * 7)]


def lists():
    """What im2rec's image_encode() does with --pass-through and --pack-label."""
    folder = os.path.join(FOLDER, "recordio")
    os.makedirs(folder, exist_ok=True)
    for name, labels in (("one", [[0.0], [1.0], [-2.5], [MAGIC_LABEL]]), ("three", [[1.0, 2.0, 3.0 + i / 7] for i in range(4)])):
        ids = [7, 3, 2**40, MAGIC_ID] if name == "one" else [0, 1, 2, 3]
        base = os.path.join(folder, name)
        writer = mx.recordio.MXIndexedRecordIO(base + ".idx", base + ".rec", "w")
        with open(base + ".lst", "w") as lst:
            for number, label, (path, content) in zip(ids, labels, FILES):
                label = [float("%f" % x) for x in label]
                lst.write("%d\t" % number + "".join("%f\t" % x for x in label) + path + "\n")
                writer.write_idx(number, pack(label[0] if len(label) == 1 else label, number, 0, content))
        writer.close()


def main():
    lists()
    out = ["/* Made by make_recordio.py with MXNet %s; do not edit. */" % mx.__version__, "/* clang-format off */", "#include <stdint.h>", "",
           "typedef struct recordio_row {", "    float labels[3];", "    uint64_t id, id2;", "    const uint8_t *content;",
           "    uint32_t n_content;", "} recordio_row;", ""]
    for name, width, records in (("plain", 0, PLAIN), ("scalar", 1, SCALAR), ("multi", 3, MULTI)):
        rec, idx = write(records if width == 0 else [pack(*r) for r in records])
        out += [array("mxnet_%s_rec" % name, rec), array("mxnet_%s_idx" % name, idx), rows("mxnet_%s_rows" % name, width, records)]
    with open(os.path.join(FOLDER, "recordio_mxnet.h"), "w") as f:
        f.write("\n".join(out))


main()

"""tokens: against a naive reader: every row of every kind of file, dtype and way of cutting.

Usage: check_tokens.py   with ITER_LIBRARY (libiter.so) in the environment; otherwise skipped (77)

Files are written by numpy and, for Megatron's sets, twice: by a writer of a few lines, from the
description of the layout, and by Megatron's own package if it can be imported. The reader lists the
windows of a stream with a loop.
"""
import os, struct, sys, tempfile

library = os.environ.get("ITER_LIBRARY", "")


def skip(reason):
    print("skipped:", reason)
    sys.exit(77)


if not library.endswith(".so") or not os.path.exists(library):
    skip("ITER_LIBRARY names no shared library")
try:
    import numpy as np
except ImportError:
    skip("no numpy")
os.environ["LIBITER_LIBRARY"] = library
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "python"))
import libiter

rng = np.random.default_rng(5)
folder = tempfile.mkdtemp(prefix="tokens-")
n_rows = n_sets = 0


def at(name):
    return os.path.join(folder, name)


def tokens(n, dtype):
    high = 2 if np.dtype(dtype).kind == "b" else 100 if np.dtype(dtype).itemsize == 1 else 30000
    return rng.integers(0, high, n).astype(dtype)


def windows(stream, length, stride, last):
    """The definition: rows of `length` inputs and a target more, `stride` apart."""
    out, covered, start = [], 0, 0
    while start + length + 1 <= len(stream):
        out.append(stream[start:start + length + 1])
        covered = start + length + 1
        start += stride
    if last == "overlap" and out and covered < len(stream):
        out.append(stream[len(stream) - length - 1:])
    if last == "short" and covered < len(stream) and len(stream) - start >= 2:
        out.append(stream[start:])
    return out


def rows_of(streams, length, stride, last):
    return [row for stream in streams for row in windows(stream, length, stride, last)]


def check(path, streams, length, stride=None, last="drop", more="", label=True):
    global n_rows, n_sets
    want = rows_of(streams, length, stride or length, last)
    text = "tokens:%s?length=%d&last=%s&label=%s%s" % (path, length, last, "yes" if label else "no", more)
    if stride:
        text += "&stride=%d" % stride
    data = libiter.Dataset(text)
    assert len(data) == len(want), (text, len(data), len(want))
    for i, row in enumerate(want):
        got = data[i]
        if label:
            assert got["data"].dtype == row.dtype.newbyteorder("="), (text, got["data"].dtype)
            assert np.array_equal(got["data"], row[:-1]), (text, i, got["data"], row)
            assert np.array_equal(got["label"], row[1:]), (text, i)
        else:
            assert list(got) == ["data"] and np.array_equal(got["data"], row), (text, i)
    seen = []  # and some through a loader, with workers and pad
    if last != "short" and stride is None and length == 16:
        loader = libiter.Loader(data, batch_size=7, shuffle=True, seed=3, workers=2)
        for batch in loader:
            for k, i in enumerate(batch.index[:len(batch.data) - batch.pad]):
                assert np.array_equal(batch.data[k], want[i][:-1] if label else want[i]), (text, i)
                if label:
                    assert np.array_equal(batch.label[k], want[i][1:]), (text, i)
                seen.append(int(i))
        assert sorted(seen) == list(range(len(want))), text
        loader.close()
    n_rows += len(want)
    n_sets += 1


def every_cut(path, streams, more=""):
    for last in "drop", "overlap", "short":
        for length, stride in (16, None), (16, 5), (7, 30), (1, None), (400, 100):
            if rows_of(streams, length, stride or length, last):
                check(path, streams, length, stride, last, more)
    check(path, streams, 16, None, "overlap", more, label=False)


# ---- one stream a file ---------------------------------------------------------------------------
for dtype in "u1", "i1", "<u2", "<i2", "<u4", "<i4", "<u8", "<i8":
    stream = tokens(1000, dtype)
    stream.tofile(at("raw.bin"))
    every_cut(at("raw.bin"), [stream], "&dtype=" + np.dtype(dtype).name)
    np.save(at("one.npy"), stream)
    every_cut(at("one.npy"), [stream])
for dtype in ">u2", ">i4", ">i8":
    stream = tokens(500, dtype)
    np.save(at("big.npy"), stream)
    every_cut(at("big.npy"), [stream])
stream = tokens(700, "<u2")
stream.tofile(at("nanogpt.bin"))  # without an option: u16
every_cut(at("nanogpt.bin"), [stream])
for magic, version, dtype in (20240520, 1, "<u2"), (20240801, 7, "<u4"), (20240801, 1, "<u4"):
    stream = tokens(900, dtype)
    header = np.zeros(256, "<i4")
    header[:3] = magic, version, len(stream)
    with open(at("llmc.bin"), "wb") as file:
        file.write(header.tobytes() + stream.tobytes())
    every_cut(at("llmc.bin"), [stream])
    whole = np.fromfile(at("llmc.bin"), dtype)
    check(at("llmc.bin"), [whole], 20, more="&header=no&dtype=" + np.dtype(dtype).name)

# ---- many files ----------------------------------------------------------------------------------
shards = [tokens(n, "<u2") for n in (100, 5, 17, 300, 16)]
os.mkdir(at("many"))
for i, stream in enumerate(shards):
    stream.tofile(at("many/s-%02d.bin" % i))
for path in "many", "many/s-*.bin", "many/s-{00..04}.bin", "many/s-{00,01,02,03,04}.bin":
    every_cut(at(path), shards)


# ---- Megatron ------------------------------------------------------------------------------------
CODES = {"u1": 1, "i1": 2, "<i2": 3, "<i4": 4, "<i8": 5, "<f8": 6, "<f4": 7, "<u2": 8}


def write_megatron(name, documents, dtype, modes=False):
    """documents: a list of lists of sequences."""
    sequences = [s for document in documents for s in document]
    borders, pointer = [0], 0
    for document in documents:
        borders.append(borders[-1] + len(document))
    with open(at(name + ".bin"), "wb") as file:
        for s in sequences:
            file.write(np.asarray(s, dtype).tobytes())
    with open(at(name + ".idx"), "wb") as file:
        file.write(b"MMIDIDX\0\0" + struct.pack("<QBQQ", 1, CODES[dtype], len(sequences), len(borders)))
        for s in sequences:
            file.write(struct.pack("<i", len(s)))
        for s in sequences:
            file.write(struct.pack("<q", pointer))
            pointer += len(s) * np.dtype(dtype).itemsize
        for border in borders:
            file.write(struct.pack("<q", border))
        if modes:
            file.write(bytes(len(sequences)))


def streams_of(documents, dtype):
    flat = [np.concatenate([np.asarray(s, dtype) for s in d] or [np.zeros(0, dtype)]) for d in documents]
    return flat, [np.concatenate(flat)]


def check_megatron(name, documents, dtype):
    kept, crossed = streams_of(documents, dtype)
    every_cut(at(name + ".idx"), crossed)
    every_cut(at(name + ".idx"), kept, "&documents=keep")
    for path in name + ".bin", name, name + ".*":
        check(at(path), kept, 9, 4, "overlap", "&documents=keep")


for dtype in CODES:
    lengths = rng.integers(0, 60, 40).tolist() + [500, 0, 1, 17, 2]
    documents = [[tokens(n, dtype)] for n in lengths]
    write_megatron("plain", documents, dtype, modes=dtype == "<i4")
    check_megatron("plain", documents, dtype)
# several sequences a document, and none
documents = [[tokens(int(n), "<u2") for n in rng.integers(0, 30, k)] for k in (0, 3, 1, 0, 0, 7, 2, 0)]
write_megatron("several", documents, "<u2")
check_megatron("several", documents, "<u2")
# several sets as one
parts = []
for i in range(3):
    parts.append([[tokens(int(n), "<i4")] for n in rng.integers(0, 50, 30 + i)])
    write_megatron("part-%d" % i, parts[-1], "<i4")
flat = [streams_of(p, "<i4") for p in parts]
every_cut(at("part-{0..2}.idx"), [s for kept, _ in flat for s in kept], "&documents=keep")
every_cut(at("part-*.idx"), [s for _, crossed in flat for s in crossed])

# by Megatron's own package
try:
    from megatron.core.datasets.indexed_dataset import IndexedDataset, IndexedDatasetBuilder
except ImportError as error:
    print("Megatron's own writer was left out:", error)
else:
    import torch
    for dtype in np.uint8, np.int8, np.int16, np.int32, np.int64, np.float32, np.float64, np.uint16:
        name = "own-" + np.dtype(dtype).name
        builder = IndexedDatasetBuilder(at(name + ".bin"), dtype=dtype)
        documents = []
        for n in rng.integers(1, 60, 50):
            documents.append([tokens(int(n), dtype)])
            if n % 3 == 0:
                documents[-1].append(tokens(int(n) + 1, dtype))
            joined = np.concatenate(documents[-1])
            builder.add_document(torch.from_numpy(joined.astype(np.int64)), [len(s) for s in documents[-1]])
        builder.finalize(at(name + ".idx"))
        check_megatron(name, documents, np.dtype(dtype).newbyteorder("<"))
        own = IndexedDataset(at(name))  # and as Megatron reads it
        data = libiter.Dataset("tokens:%s?length=12&documents=keep" % at(name + ".idx"))
        index = 0
        for d in range(len(own.document_indices) - 1):
            text = np.concatenate([own[i] for i in range(own.document_indices[d], own.document_indices[d + 1])])
            for start in range(0, len(text) - 12, 12):
                assert np.array_equal(data[index]["data"], text[start:start + 12])
                index += 1
        assert index == len(data)
    print("Megatron's own writer and reader agree, over 8 dtypes")

import shutil
shutil.rmtree(folder)
print("tokens: %d sets, %d rows: equal" % (n_sets, n_rows))

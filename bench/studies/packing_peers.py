"""Padding of packed rows: libiter's plan, first fit, and grain's best fit, over the same documents.

Usage: PYTHONPATH=python LIBITER_LIBRARY=build/release/libiter.so python packing_peers.py FOLDER DOCUMENTS

Documents have lognormal lengths, mu 6.0 and sigma 1.2 (median 403 tokens, mean 830, 9 % above 2,048), by
numpy's generator of seed 5. Rows have room for 2,048 inputs; a document of n tokens takes n - 1. All contestants
get the same pieces: longer documents are cut into whole rows and a rest.

    libiter     an epoch of pack:{...}?length=2048&group=4096, counted from its batches
    first fit   pieces in the stream's order, each to the first row of its 4,096 documents that has room
    grain       BestFitPackIterDataset and FirstFitPackIterDataset with as many bins as are given; 1,664 hold about
                as many tokens as 4,096 documents have
"""
import os, sys, time, warnings

import numpy as np

import libiter

warnings.filterwarnings("ignore")
T, GROUP = 2048, 4096


def make(folder, n):
    lengths = np.maximum(1, np.round(np.random.default_rng(5).lognormal(6.0, 1.2, n))).astype(np.int32)
    prefix = os.path.join(folder, "packing%d" % n)
    total = int(lengths.sum())
    with open(prefix + ".bin", "wb") as file:
        file.truncate(2 * total)  # the tokens do not matter
    places = np.zeros(n, np.int64)
    np.cumsum(lengths[:-1], out=places[1:], dtype=np.int64)
    with open(prefix + ".idx", "wb") as file:
        file.write(b"MMIDIDX\0\0" + np.uint64(1).tobytes() + b"\x08" + np.uint64(n).tobytes() + np.uint64(n + 1).tobytes())
        file.write(lengths.tobytes() + (2 * places).tobytes() + np.arange(n + 1, dtype=np.int64).tobytes())
    return prefix + ".idx", lengths


def report(name, rows, used, seconds, n):
    padding = 1 - used / (rows * T)
    print("%-34s %8d rows, padding %.3f %%, %7.0f ns a document" % (name, rows, 100 * padding, 1e9 * seconds / n))
    return padding


def ours(path, units, n):
    start = time.perf_counter()
    loader = libiter.Loader("pack:{tokens:%s?documents=whole}?length=%d&group=%d" % (path, T, GROUP), batch_size=64,
                            workers=0, source="pread")
    opened = time.perf_counter() - start
    rows = used = 0
    for batch in loader:
        segments = np.asarray(batch.segments)
        rows += len(segments)
        used += int((segments > 0).sum())
    assert used == units
    report("libiter (to open)", rows, used, opened, n)


def pieces(units):
    for u in units.tolist():
        while u > T:
            yield T
            u -= T
        if u > 0:
            yield u


def first_fit(units, n):
    start, rows, used = time.perf_counter(), 0, 0
    for at in range(0, len(units), GROUP):
        room = np.full(GROUP * 4, T, np.int32)
        n_open = 0
        for u in pieces(units[at:at + GROUP]):
            i = int(np.argmax(room >= u))
            room[i] -= u
            n_open = max(n_open, i + 1)
            used += u
        rows += n_open
    report("first fit, groups of 4,096", rows, used, time.perf_counter() - start, n)


def by_grain(kind, bins, units, n):
    import grain
    from grain import experimental
    parts = np.fromiter(pieces(units), np.int32)

    class Pieces:
        def __len__(self):
            return len(parts)

        def __getitem__(self, i):
            return {"ids": np.ones(parts[i], np.uint8)}

    start, rows, used = time.perf_counter(), 0, 0
    parent = grain.MapDataset.source(Pieces()).to_iter_dataset(grain.ReadOptions(num_threads=0, prefetch_buffer_size=0))
    for row in getattr(experimental, kind)(parent, length_struct={"ids": T}, num_packing_bins=bins):
        rows += 1
        used += int(row["ids"].sum())
    report("grain %s, %d bins" % (kind[:8], bins), rows, used, time.perf_counter() - start, n)


n = int(sys.argv[2])
path, lengths = make(sys.argv[1], n)
units = np.maximum(lengths - 1, 0)
print("%d documents, %d tokens, mean %.0f, median %.0f, %.1f %% above %d" %
      (n, lengths.sum(), lengths.mean(), np.median(lengths), 100 * (lengths > T).mean(), T))
ours(path, int(units.sum()), n)
if n <= 400000:
    first_fit(units, n)
    for kind in "FirstFitPackIterDataset", "BestFitPackIterDataset":
        for bins in 64, 1664:
            by_grain(kind, bins, units, n)

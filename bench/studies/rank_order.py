#!/usr/bin/env python3
"""What a rank's order costs: opening the last rank's loader, its first batch, and jumps, for sets and numbers of ranks of any size.

    PYTHONPATH=python LIBITER_LIBRARY=build/release/libiter.so bench/studies/rank_order.py

Samples of 1 KiB are drawn, no file is read, and none is kept: what is left is the loader's own work. Each row is a process of its own; times are the
least of 20. Memory is what the process grew by until the first batch, against a set of 1,000 samples.
"""
import os
import subprocess
import sys
import time

CASES = [(1000, 1), (10**6, 64), (10**9, 64), (10**9, 65536), (10**12, 65536)]


def anonymous_kib():
    with open("/proc/self/smaps_rollup", encoding="utf-8") as file:
        return next(int(line.split()[1]) for line in file if line.startswith("Anonymous:"))


def one(samples, ranks):
    import libiter

    def make():
        return libiter.Loader("synthetic:?n=%d&shape=1024&dtype=u8&classes=10" % samples, batch_size=32, workers=0, shuffle="full", seed=3,
                              memory_limit=16 << 20, rank=ranks - 1, ranks=ranks)

    for _ in range(2):  # what is made once per process
        loader = make()
        next(iter(loader))
        loader.close()
    before = anonymous_kib()
    opened, first = [], []
    for i in range(20):
        begin = time.perf_counter()
        loader = make()
        middle = time.perf_counter()
        next(iter(loader))
        end = time.perf_counter()
        opened.append(middle - begin)
        first.append(end - middle)
        if i == 0:
            grown = anonymous_kib() - before
        loader.close()
    print("| %d | %d | %.0f | %.0f | %d |" % (samples, ranks, 1e6 * min(opened), 1e6 * min(first), grown), flush=True)


def main():
    if len(sys.argv) == 3:
        one(int(sys.argv[1]), int(sys.argv[2]))
        return
    print("| samples | ranks | opening: us | first batch: us | memory: KiB |\n| --- | --- | --- | --- | --- |", flush=True)
    for samples, ranks in CASES:
        subprocess.run([sys.executable, __file__, str(samples), str(ranks)], check=True)


if __name__ == "__main__":
    main()

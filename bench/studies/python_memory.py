#!/usr/bin/env python3
"""Memory of a process over many epochs of a dataset in Python: strings, read by the loader's threads.

    LIBITER_LIBRARY=build/release/libiter.so PYTHONPATH=python bench/studies/python_memory.py [--strings 1000000]
        [--epochs 100] [--workers 2]

The dataset is a list of strings of 8 to 40 characters; get() returns their bytes, and the length varies. After each
epoch it reads the resident memory of the process. Prints it for some epochs, and by how much it was larger at most
than after the first epoch. Exit status 1 if that is more than --limit percent.
"""
import argparse
import os
import sys
import time

import numpy as np

import libiter


class Strings:
    fields = {"text": ("u8", (None,), 40), "label": ("i64", ())}

    def __init__(self, count):
        self.strings = [("%d " % i) * (8 // (len(str(i)) + 1) + 1 + i % 3) for i in range(count)]

    def __len__(self):
        return len(self.strings)

    def get(self, indices):
        rows = [np.frombuffer(self.strings[i].encode(), np.uint8) for i in indices.tolist()]
        return rows, indices.astype(np.int64)


def resident():
    """Bytes of the process that are in memory."""
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--strings", type=int, default=1000000)
    parser.add_argument("--epochs", type=int, default=100)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--batch-size", type=int, default=256)
    parser.add_argument("--limit", type=float, default=1.0, help="percent")
    given = parser.parse_args()
    data = Strings(given.strings)
    begin, seen, expected = time.monotonic(), [], sum(len(text) for text in data.strings)
    with libiter.Loader(data, "pad-batch", batch_size=given.batch_size, shuffle=True, workers=given.workers, seed=1) as loader:
        for epoch in range(given.epochs):
            rows = characters = 0
            for batch in loader:
                rows += len(batch.label)
                characters += int(batch.lengths("text").sum())
            assert (rows, characters) == (given.strings, expected), (rows, characters)
            seen.append(resident())
            if epoch < 3 or (epoch + 1) % 10 == 0:
                print("epoch %3d  %8.2f MiB  %6.1f s" % (epoch, seen[-1] / 2**20, time.monotonic() - begin), flush=True)
    growth = 100 * (max(seen) / seen[0] - 1)
    print("after the first epoch %.2f MiB, at most %.2f MiB: %+.2f %%" % (seen[0] / 2**20, max(seen) / 2**20, growth))
    return 1 if growth > given.limit else 0


if __name__ == "__main__":
    sys.exit(main())

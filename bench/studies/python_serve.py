#!/usr/bin/env python3
"""A loop in Python that answers "run N" by "samples seconds", as `iterbench serve` does: the Python side of python_pairs.sh.

    python_serve.py SPEC CHAIN BATCH for|del [numpy|torch]

`for` is `for images, labels in loader`, which holds a batch while the next one is made; `del` lets go of it before. Nothing is read
of a batch, and nothing is counted in the loop: the loader's position tells how many samples were taken.
"""
import os
import sys
import time
from itertools import islice

import libiter


def take(loader, stream, n, let_go):
    if let_go:
        for images, labels in islice(stream, n):
            del images, labels
    else:
        for images, labels in islice(stream, n):
            pass


def main():
    spec, chain, batch, how = sys.argv[1:5]
    loader = libiter.Loader(spec, chain, batch_size=int(batch), shuffle=True, output=(sys.argv[5:] or ["numpy"])[0])
    n_samples, per_epoch = len(loader.dataset), len(loader)
    stream, left = iter(loader), per_epoch
    clock = time.process_time if os.environ.get("LOOP_CLOCK") == "cpu" else time.perf_counter
    for line in iter(sys.stdin.readline, ""):
        if line == "quit\n":
            break
        wanted = int(line.split()[1])
        epoch, samples = loader.position
        begin = clock()
        while wanted > 0:
            if left == 0:
                next(stream, None)  # the end of the epoch
                stream, left = iter(loader), per_epoch
            now = min(wanted, left)
            take(loader, stream, now, how == "del")
            wanted, left = wanted - now, left - now
        seconds = clock() - begin
        end_epoch, end_samples = loader.position
        print("%d %.9f" % ((end_epoch - epoch) * n_samples + end_samples - samples, seconds), flush=True)


if __name__ == "__main__":
    main()

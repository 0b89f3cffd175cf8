#!/usr/bin/env python3
"""Does a passive watch find bottlenecks that were planted into training loops in Python?

    bench/studies/python_plants.py [--seconds 4] [--seed 1] [--only NAME]

Each loop is an ordinary `for` over a loader of its own, with a cause of known kind; strengths are drawn from the
seed. The watch knows nothing of the plant. One line a loop: what was planted, what was found, whether that is
right, and how sure it is. Loops over torch's DataLoader are left out without torch.

    bench/studies/python_plants.py --cost [--seconds 60]

What it costs that a Loader watches itself: batches of 64 of CIFAR-10 as float32, in slices with and without the
watch that take turns, for 0 workers and 1. Prints the ratio of the rates, and of the CPU time a batch, each with the
95 % interval of its median; and what part of a core the watch's own thread takes, which other programs do not disturb.

Needs the package (PYTHONPATH=python LIBITER_LIBRARY=build/release/libiter.so).
"""
import argparse
import contextlib
import itertools
import math
import os
import random
import statistics
import threading
import time

import numpy as np

import libiter
from libiter import _loader

ROWS, WIDTH, BATCH = 4096, 256, 32
IMAGES = "synthetic:cifar10?n=4096"
SLOW_CHAIN = "to:layout=hwc | resize:size=256 | random-flip | normalize | to:f32,nchw"


def burn(ms):
    """Python code for so long by the thread's own clock; it holds the GIL."""
    until = time.thread_time() + ms / 1000
    while time.thread_time() < until:
        pass


def rest(ms):
    time.sleep(ms / 1000)


def multiply(ms, matrix=np.ones((256, 256), np.float32)):
    """NumPy for so long, without the GIL; with as many threads as its BLAS likes."""
    until = time.monotonic() + ms / 1000
    while time.monotonic() < until:
        matrix @ matrix


class Rows:
    """A dataset in Python. Times are milliseconds a row."""

    def __init__(self, burns=0.0, rests=0.0, bursts=0, slow_thread=False):
        self.burns, self.rests, self.bursts, self.slow_thread = burns, rests, bursts, slow_thread
        self.count, self.first = itertools.count(), None

    def __len__(self):
        return ROWS

    def get(self, indices):
        n = len(indices)
        if self.first is None and threading.current_thread() is not threading.main_thread():
            self.first = threading.get_ident()
        if self.burns:
            burn(self.burns * n)
        if self.bursts:  # rests only every so many rows, and then for all of them
            numbers = [next(self.count) for _ in range(n)]
            if any(number % self.bursts == self.bursts - 1 for number in numbers):
                rest(self.rests * self.bursts)
        elif self.rests and (not self.slow_thread or threading.get_ident() == self.first):
            rest(self.rests * n)
        return np.zeros((n, WIDTH), np.uint8)


class Items:
    """A dataset for torch."""

    def __init__(self, work, ms):
        self.work, self.ms = work, ms

    def __len__(self):
        return ROWS

    def __getitem__(self, index):
        if self.ms:
            self.work(self.ms)
        return np.zeros(WIDTH, np.uint8)


def arrays(**options):
    return libiter.Loader(np.zeros((ROWS, WIDTH), np.uint8), **{"batch_size": BATCH, "shuffle": True, **options})


def images(workers):
    return libiter.Loader(IMAGES, SLOW_CHAIN, batch_size=BATCH, shuffle=True, workers=workers)


def python(workers, parallel=False, prefetch=0, **times):
    data = libiter.Dataset(Rows(**times), parallel=parallel)
    return libiter.Loader(data, batch_size=BATCH, shuffle=True, workers=workers, prefetch=prefetch)


def by_torch(work, ms, workers):
    from torch.utils.data import DataLoader

    return DataLoader(Items(work, ms), batch_size=BATCH, num_workers=workers, persistent_workers=workers > 0)


def generator(ms):
    while True:
        if ms:
            rest(ms)
        yield np.zeros((BATCH, WIDTH), np.uint8)


def batch_ms(make):
    """Milliseconds that a loader without workers takes for a batch: the median."""
    with make(0) as loader:
        times = [time.monotonic()]
        for _ in itertools.islice(loader, 40):
            times.append(time.monotonic())
    return 1000 * statistics.median(np.diff(times[4:]))


def plants(draw):
    """(name, right answers, makes the loader, the consumer)"""

    def x(ms):
        return ms * draw.uniform(0.8, 1.4)

    image = batch_ms(images)
    yield "busy-consumer", ["consumer"], lambda: arrays(workers=1), lambda ms=x(8): burn(ms)
    yield "sleeping-consumer", ["consumer"], lambda: arrays(workers=2), lambda ms=x(8): rest(ms)
    yield "numpy-consumer", ["consumer"], lambda: arrays(workers=1), lambda ms=x(6): multiply(ms)
    yield "light-loader", ["consumer", "none"], lambda: arrays(workers=0), lambda ms=x(5): rest(ms)
    yield "no-worker", ["workers"], lambda: images(0), lambda ms=image * draw.uniform(0.8, 1.2): rest(ms)
    yield "one-worker", ["workers", "transform"], lambda: images(1), lambda ms=image * draw.uniform(0.2, 0.4): rest(ms)
    yield "slow-chain", ["transform"], lambda: images(2), lambda ms=x(0.3): rest(ms)
    yield "gil-dataset", ["turn"], lambda ms=x(0.25): python(2, burns=ms), lambda ms=x(1): rest(ms)
    yield "sleeping-dataset", ["turn"], lambda ms=x(0.25): python(2, rests=ms), lambda ms=x(1): rest(ms)
    yield "parallel-dataset", ["workers", "decode"], lambda ms=x(0.25): python(1, True, rests=ms), lambda ms=x(1): rest(ms)
    yield "inline-dataset", ["workers"], lambda ms=x(0.15): python(0, True, rests=ms), lambda ms=x(5): rest(ms)
    yield "slow-worker", ["worker"], lambda ms=x(0.6): python(2, True, rests=ms, slow_thread=True), lambda ms=x(0.3): rest(ms)
    yield "bursts", ["prefetch"], lambda ms=x(0.04): python(1, True, 2, rests=ms, bursts=512), lambda ms=x(2.6): rest(ms)
    # What Python itself takes for a batch lies outside next(), so the consumer is a right answer.
    yield "small-batch", ["batch", "consumer"], lambda: arrays(workers=1, batch_size=1), lambda: None
    yield "healthy", ["consumer", "none"], lambda: images(2), lambda ms=image * draw.uniform(2, 3): rest(ms)
    yield "torch-inline", ["workers"], lambda ms=x(0.15): by_torch(burn, ms, 0), lambda ms=x(3): rest(ms)
    yield "torch-slow", ["loader"], lambda ms=x(0.6): by_torch(rest, ms, 2), lambda ms=x(1): rest(ms)
    yield "torch-fast", ["consumer"], lambda: by_torch(rest, 0, 2), lambda ms=x(40): rest(ms)
    yield "generator-slow", ["loader"], lambda ms=x(5): generator(ms), lambda ms=x(2): rest(ms)
    yield "generator-fast", ["consumer"], lambda: generator(0), lambda ms=x(5): burn(ms)


def run(make, consume, seconds):
    """Iterates for so long; returns the verdict."""
    loader = make()
    until = time.monotonic() + seconds
    with contextlib.ExitStack() as stack:
        stack.callback(getattr(loader, "close", lambda: None))
        ours = isinstance(loader, libiter.Loader)
        watch = None if ours else libiter.diagnose(loader)
        while time.monotonic() < until:
            for _ in loader if ours else watch:
                consume()
                if time.monotonic() >= until:
                    break
        return loader.verdict() if ours else watch.verdict()


def judge(options):
    judged = right = wrong_and_sure = 0
    print("| loop | planted | found | right | confidence | share | first change |\n|---|---|---|---|---|--:|---|")
    for name, limits, make, consume in plants(random.Random(options.seed)):
        if options.only not in ("", name):
            continue
        try:
            verdict = run(make, consume, options.seconds)
        except ImportError as reason:
            print("| %s | left out: %s |" % (name, reason))
            continue
        good = verdict.limit in limits
        judged, right, wrong_and_sure = judged + 1, right + good, wrong_and_sure + (verdict.is_sure and not good)
        change = verdict.changes[0].text if verdict.changes else ""
        print("| %s | %s | %s | %s | %s | %.0f %% | %s |" % (
            name, limits[0], verdict.limit, "yes" if good else "NO", "high" if verdict.is_sure else "low",
            100 * verdict.share, change), flush=True)
        if options.only:
            print(verdict)
    print("%d of %d right; wrong with high confidence: %d" % (right, judged, wrong_and_sure))


# ---- What it costs ---------------------------------------------------------------------------------


def slice_rate(loader, watched, seconds):
    """Batches a second of a slice, batches for each second of this process's CPU time, and the part of a core that
    the watch's thread takes."""
    if loader._watch is not None:
        loader._watch.close()
    loader._watch = None
    watch_or_none = _loader.watch_or_none
    if not watched:
        _loader.watch_or_none = lambda loader: None
    before = set(os.listdir("/proc/self/task"))
    count, begin, cpu = 0, time.perf_counter(), time.process_time()
    now = begin
    try:
        while now < begin + seconds:
            for _ in loader:
                count += 1
                now = time.perf_counter()
                if now >= begin + seconds:
                    break
    finally:
        _loader.watch_or_none = watch_or_none
    cpu, own = time.process_time() - cpu, 0.0
    for task in set(os.listdir("/proc/self/task")) - before:
        with open("/proc/self/task/%s/schedstat" % task) as file:
            own += int(file.read().split()[0]) * 1e-9
    return count / (now - begin), count / cpu, own / (now - begin)


def show(what, ratios):
    ratios = sorted(ratios)
    n = len(ratios)
    half = 0.98 * math.sqrt(n)  # the median lies between these order statistics in 95 of 100 cases
    low, high = ratios[max(0, int(n / 2 - half))], ratios[min(n - 1, int(n / 2 + half))]
    print("%s: %.4f [%.4f, %.4f], %d pairs of slices" % (what, ratios[n // 2], low, high, n), flush=True)


def cost(seconds):
    for workers in (0, 1):
        with libiter.Loader("synthetic:cifar10", "normalize | to:f32,nchw", batch_size=64, shuffle=True,
                            workers=workers) as loader:
            slice_rate(loader, False, 0.5)
            ratios, until = [], time.monotonic() + seconds / 2
            while time.monotonic() < until:
                order = [False, True] if len(ratios) % 2 else [True, False]
                rates = {watched: slice_rate(loader, watched, 0.25) for watched in order}
                ratios.append([on / off for on, off in zip(rates[True][:2], rates[False])] + [rates[True][2]])
        show("workers %d, rate watched / rate not watched" % workers, [row[0] for row in ratios])
        show("workers %d, CPU time a batch, watched / not watched" % workers, [1 / row[1] for row in ratios])
        show("workers %d, part of a core that the watch takes" % workers, [row[2] for row in ratios])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=0.0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", default="")
    parser.add_argument("--cost", action="store_true")
    options = parser.parse_args()
    if options.cost:
        return cost(options.seconds or 60)
    options.seconds = options.seconds or 4
    return judge(options)


if __name__ == "__main__":
    main()

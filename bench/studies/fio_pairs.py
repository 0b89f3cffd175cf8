#!/usr/bin/env python3
"""A loader beside fio: cold records in random order, in turns. fio_pairs.py NUMBERS RECORDS PIXELS DEPTH ROUNDS

    bench/studies/fio_pairs.py build/release/bench/numbers r26.rec 93x94x3 256 15

RECORDS must come from `numbers records-make`. Each round has one epoch of a loader (`numbers cold`, one worker, O_DIRECT, each
record once), the bare ring of the same program, and fio's io_uring, also with O_DIRECT, over the whole file: each block once in
random order. A block is the record rounded up to whole blocks of 4 KiB, so fio reads no more than the loader does. fio runs in
turn as it is, with registered files and buffers, and, as root, also with buffers on huge pages, as the loader's are (by
/sys/kernel/mm/transparent_hugepage/enabled), and requests submitted in batches. The page cache is dropped before each run (posix_fadvise; fio:
--invalidate=1). Ratios are of records/s to reads/s, per round; the interval is that of the median, by order statistics. The
order changes from round to round, because earlier reads may be cached by the machine's host.
"""
import json
import math
import os
import random
import re
import subprocess
import sys
import statistics


HUGE = "/sys/kernel/mm/transparent_hugepage/enabled"


def on_huge_pages(run):
    """Runs it while all large allocations get huge pages."""
    was = re.search(r"\[(\w+)\]", open(HUGE).read()).group(1)
    try:
        with open(HUGE, "w") as file:
            file.write("always")
        return run()
    finally:
        with open(HUGE, "w") as file:
            file.write(was)


def fio(path, block, depth, more):
    text = subprocess.run(
        ["fio", "--name=r", f"--filename={path}", "--rw=randread", f"--bs={block}", f"--iodepth={depth}",
         "--ioengine=io_uring", "--direct=1", "--invalidate=1", "--readonly", "--output-format=json", *more],
        check=True, capture_output=True, text=True).stdout
    read = json.loads(text[text.index("{"):])["jobs"][0]["read"]
    return read["total_ios"] / (read["runtime"] / 1000), read["io_bytes"] / read["runtime"] / 1000


def loader(numbers, path, pixels, depth):
    text = subprocess.run([numbers, "cold", f"recordio:{path}?raw={pixels}", "", "1", depth, "1"], check=True,
                          capture_output=True, text=True).stdout
    seconds, rate, megabytes, bare = re.search(
        r"loader ([\d.]+) s, (\d+) samples/s, (\d+) MB/s; bare ring ([\d.]+) s", text).groups()
    return float(rate), float(megabytes), float(rate) * float(seconds) / float(bare)


def say(what, ratios):
    ratios = sorted(ratios)
    n = len(ratios)
    k = max(0, math.floor((n - 1.96 * math.sqrt(n)) / 2))
    print(f"{what}: median {statistics.median(ratios):.3f} [{ratios[k]:.3f}, {ratios[n - 1 - k]:.3f}] of {n} rounds")


def main():
    numbers, path, pixels, depth, rounds = sys.argv[1:6]
    height, width, channels = (int(n) for n in pixels.split("x"))
    record = (32 + height * width * channels + 3) // 4 * 4
    block = -(-record // 4096) * 4096
    ways = {"fio": [], "fio, registered": ["--registerfiles=1", "--fixedbufs=1"]}
    if os.access(HUGE, os.W_OK):
        ways["fio, registered, huge pages, batches"] = [*ways["fio, registered"], "--iodepth_batch_submit=32",
                                                        "--iodepth_batch_complete_min=1", "--iodepth_batch_complete_max=32"]
    ratios = {name: [] for name in [*ways, "bare ring"]}
    order = [None, *ways]
    draw = random.Random(1)
    for _ in range(int(rounds)):
        draw.shuffle(order)
        reads = {}
        for name in order:
            def run(name=name):
                return fio(path, block, depth, ways[name]) if name else loader(numbers, path, pixels, depth)
            reads[name] = on_huge_pages(run) if name and "huge" in name else run()
        rate, megabytes, bare = reads.pop(None)
        line = f"loader {rate:.0f} records/s ({megabytes:.0f} MB/s), bare ring {bare:.0f}"
        ratios["bare ring"].append(rate / bare)
        for name in ways:
            ratios[name].append(rate / reads[name][0])
            line += f", {name} {reads[name][0]:.0f} reads/s of {block // 1024} KiB ({reads[name][1]:.0f} MB/s)"
        print(line, flush=True)
    for name, values in ratios.items():
        say(f"{path.rsplit('/', 1)[-1]}, depth {depth}: loader / {name}", values)


main()

#!/usr/bin/env python3
"""Rows of an array as they are: NDArrayIter beside the fastest gathers of numpy and torch.

    bench/studies/rows_peers.py [--build build/release] [--python PYTHON] [--pairs 15] [--only loop,take,torch,slice] [--out FILE]

PYTHON has numpy and, for torch's rows, torch. Both sides are live processes on one core that take turns (iterbench versus). The peers copy
into one buffer that they reuse, in an order that was drawn once: drawing it anew each epoch, as the loader does, is not counted. Where a row
says "read", the consumer reads a byte of each cache line on both sides.
"""
import argparse
import ctypes
import datetime
import json
import os
import subprocess
import sys
import tempfile
import time

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
#       name, bytes a row, rows, batch, order
ROWS = [("8 f32", 32, 1000000, 256, "full"), ("8 f32", 32, 1000000, 64, "full"), ("MNIST u8", 784, 60000, 1024, "full"),
        ("CIFAR-10 f32", 12288, 50000, 1024, "full"), ("300 KB f32", 300000, 4000, 16, "full"), ("4 bytes", 4, 4000000, 256, "full"),
        ("256 bytes", 256, 400000, 256, "full"), ("CIFAR-10 f32", 12288, 50000, 64, "none"), ("MNIST u8", 784, 60000, 64, "none")]


def serve(kind, size, count, batch, order, reads):
    import numpy
    rng = numpy.random.default_rng(1)
    wide = size % 4 == 0 and kind != "slice"
    data = numpy.empty((count, size // 4 if wide else size), numpy.float32 if wide else numpy.uint8)
    data.view(numpy.uint8)[:] = rng.integers(0, 100, size, numpy.uint8)
    rows = rng.permutation(count) if order == "full" else numpy.arange(count)
    out = numpy.empty((batch,) + data.shape[1:], data.dtype)
    if kind == "torch":
        import torch
        torch.set_num_threads(1)
        data_t, rows_t, out_t = torch.from_numpy(data), torch.from_numpy(rows), torch.from_numpy(out)
    touch = None
    if reads:
        folder = tempfile.mkdtemp()
        library = os.path.join(folder, "touch.so")
        subprocess.run(["cc", "-O2", "-shared", "-fPIC", os.path.join(ROOT, "bench", "peers", "touch.c"), "-o", library], check=True)
        touch = ctypes.CDLL(library).iter_peer_touch
        touch.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
        address = out.ctypes.data
    at = 0
    for line in sys.stdin:
        if line == "quit\n":
            break
        n = int(line.split()[1])
        start = time.perf_counter()
        for _ in range(n):
            if at + batch > count:
                at = 0
            if kind == "take":
                numpy.take(data, rows[at:at + batch], axis=0, out=out, mode="clip")
            elif kind == "torch":
                torch.index_select(data_t, 0, rows_t[at:at + batch], out=out_t)
            else:
                numpy.copyto(out, data[at:at + batch])
            if touch:
                touch(address, out.nbytes)
            at += batch
        print(n * batch, "%.9f" % (time.perf_counter() - start), flush=True)


def compare(arguments, ours, theirs):
    with tempfile.NamedTemporaryFile() as file:
        subprocess.run(["taskset", "-c", "1", os.path.join(arguments.build, "bench", "iterbench"), "versus", "--a", theirs, "--b", ours,
                        "--pairs", str(arguments.pairs), "--slice", "0.15", "--json", file.name], check=True, stdout=subprocess.DEVNULL)
        return json.load(open(file.name, encoding="utf-8"))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default=os.path.join(ROOT, "build", "release"))
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--pairs", type=int, default=15)
    parser.add_argument("--only", default="loop,take,torch,slice", help="which of the others take part (all)")
    parser.add_argument("--out", help="a file for the table")
    parser.add_argument("--serve", nargs=6, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.serve:
        kind, size, count, batch, order, reads = arguments.serve
        serve(kind, int(size), int(count), int(batch), order, reads == "read")
        return
    has_torch = subprocess.run([arguments.python, "-c", "import torch"], capture_output=True).returncode == 0
    lines = ["%s; %d cores, load %.1f at the start; %d pairs a row" % (
        datetime.datetime.now().strftime("%Y-%m-%d %H:%M"), os.cpu_count(), os.getloadavg()[0], arguments.pairs), "",
        "| rows, batch, order, consumer | beside | ours: ns a row | other: ns a row | times as fast |", "| --- | --- | --- | --- | --- |"]
    print("\n".join(lines), flush=True)
    numbers = os.path.join(arguments.build, "bench", "numbers")
    for name, size, count, batch, order in ROWS:
        kinds = ["loop", "take"] + ["torch"] * has_torch if order == "full" else ["loop", "slice"]
        for reads in ("free", "read"):
            for kind in [k for k in kinds if k in arguments.only.split(",")]:
                what = "%d %d %d %s %s" % (size, count, batch, order, reads)
                ours = "%s rows view %s" % (numbers, what)
                theirs = "%s rows loop %s" % (numbers, what)
                if kind != "loop":
                    theirs = "%s %s --serve %s %s" % (arguments.python, os.path.abspath(__file__), kind, what)
                found = compare(arguments, ours, theirs)
                other = {"loop": "one memcpy() a row", "take": "np.take", "torch": "torch.index_select", "slice": "np slices, copied"}[kind]
                lines.append("| %s, %d, %s, %s | %s | %.1f | %.1f | %.2f [%.2f, %.2f] |" % (
                    name, batch, "shuffled" if order == "full" else "in order", "none" if reads == "free" else "reads", other,
                    1e9 / found["b"]["samples_per_s"], 1e9 / found["a"]["samples_per_s"], found["ratio"]["median"], found["ratio"]["low"], found["ratio"]["high"]))
                print(lines[-1], flush=True)
    if arguments.out:
        with open(arguments.out, "w", encoding="utf-8") as file:
            file.write("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()

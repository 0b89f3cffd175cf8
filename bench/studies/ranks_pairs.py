#!/usr/bin/env python3
"""Training in several processes: beside one process with as many threads, and beside torch's DistributedDataParallel.

    bench/studies/ranks_pairs.py [--build build/release] [--pairs 7] [--torch PYTHON | --link RATE] [--out FILE]

Each pair runs both sides one after the other, the first one in turn, and compares the seconds of the same number of steps with the same
global batch of 64. Ours train on real data from $ITER_DATA, batches made by the rank's own thread. torch (--torch: the Python of an
environment that has it) computes on batches in memory. Ratios are medians of pairs with the interval that holds the median with 95 %.

--link RATE, as root: ranks talk by TCP, the loopback interface is limited to RATE ("2gbit"; all ranks together), and the other side sends
its gradients in one piece after the backward pass.
"""
import argparse
import datetime
import json
import math
import os
import statistics
import subprocess
import tempfile

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
PROGRAMS = {"cnn": ("train_cifar", 50), "gru": ("train_imdb", 150), "mlp": ("train_mnist", 900)}
MPIRUN = ["mpirun", "--allow-run-as-root", "-n", "2"]


def interval(values):
    values = sorted(values)
    n = len(values)
    k = max(0, math.floor((n - 1.96 * math.sqrt(n)) / 2))
    return "%.2f [%.2f, %.2f]" % (statistics.median(values), values[k], values[n - 1 - k])


class Bench:
    def __init__(self, arguments):
        self.arguments = arguments
        self.others = []  # seconds that rank 0 spent with the others, as a share

    def ours(self, kind, ranks, threads, *options):
        program, steps = PROGRAMS[kind]
        command = [os.path.join(self.arguments.build, "examples", program), "--threads", str(threads), "--epochs", "1",
                   "--limit-steps", str(steps), *options, "--json"]
        mpirun = MPIRUN + (["--mca", "btl", "self,tcp"] if self.arguments.link else [])
        with tempfile.NamedTemporaryFile() as file:
            subprocess.run((mpirun if ranks > 1 else []) + command + [file.name], check=True, stdout=subprocess.DEVNULL)
            result = json.load(open(file.name, encoding="utf-8"))
        seconds = result["epochs"][0]["seconds"]
        if ranks > 1:
            self.others.append(result["communicate_seconds"] / seconds)
        return seconds / steps

    def torch(self, kind):
        steps = PROGRAMS[kind.split("-")[0]][1]
        command = [self.arguments.torch, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2",
                   os.path.join(ROOT, "bench", "peers", "ddp_torch.py"), kind, str(steps)]
        environment = dict(os.environ, OMP_NUM_THREADS="1")
        made = subprocess.run(command, check=True, capture_output=True, text=True, env=environment)
        return float(made.stdout.split()[-1]) / steps

    def pairs(self, name, ours, theirs):
        """A row of the table: how many times as fast `ours` is."""
        self.others = []
        both = []
        for i in range(self.arguments.pairs):
            turn = [ours, theirs] if i % 2 == 0 else [theirs, ours]
            seconds = [side() for side in turn]
            both.append(tuple(seconds if i % 2 == 0 else reversed(seconds)))
        mine, other = (statistics.median(side) for side in zip(*both))
        return "| %s | %.2f | %.2f | %s | %.0f %% |" % (
            name, 1e3 * mine, 1e3 * other, interval([b / a for a, b in both]), 100 * statistics.median(self.others))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default=os.path.join(ROOT, "build", "release"))
    parser.add_argument("--pairs", type=int, default=7)
    parser.add_argument("--torch", help="a Python that has torch")
    parser.add_argument("--link", help="a rate for tc")
    parser.add_argument("--out", help="a file for the table")
    arguments = parser.parse_args()
    bench = Bench(arguments)
    lines = ["%s; %d cores, load %.1f at the start; %d pairs" % (
        datetime.datetime.now().strftime("%Y-%m-%d %H:%M"), os.cpu_count(), os.getloadavg()[0], arguments.pairs), "",
        "| 2 ranks of 1 thread, beside | ours: ms a step | other: ms a step | times as fast | with the other rank |",
        "| --- | --- | --- | --- | --- |"]
    if arguments.link:
        lines[0] += "; loopback limited to %s" % arguments.link
        subprocess.run(["tc", "qdisc", "replace", "dev", "lo", "root", "tbf", "rate", arguments.link, "burst", "2mb", "latency", "100ms"],
                       check=True)
    print("\n".join(lines), flush=True)
    try:
        compare(bench, arguments, lines)
    finally:
        if arguments.link:
            subprocess.run(["tc", "qdisc", "del", "dev", "lo", "root"], check=True)
    if arguments.out:
        with open(arguments.out, "w", encoding="utf-8") as file:
            file.write("\n".join(lines) + "\n")


def compare(bench, arguments, lines):
    rows = [("%s: 1 process of 2 threads" % kind, kind, lambda kind=kind: bench.ours(kind, 1, 2)) for kind in PROGRAMS]
    if arguments.torch:
        rows += [("%s: torch DDP, gloo" % kind, kind.split("-")[0], lambda kind=kind: bench.torch(kind))
                 for kind in ("cnn", "gru", "gru-sparse")]
    if arguments.link:
        rows = [("cnn: sums after the pass", "cnn", lambda: bench.ours("cnn", 2, 1, "--bucket-bytes", "1000000000"))]
    for name, kind, theirs in rows:
        lines.append(bench.pairs(name, lambda kind=kind: bench.ours(kind, 2, 1), theirs))
        print(lines[-1], flush=True)


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""Reading from URLs beside a bare loop of libcurl, in turns; and what a signature costs.

    bench/studies/remote_pairs.py pairs [--build build/release] [--pairs 15] [--slice 1] [--only REGEX] [--out FILE]
    bench/studies/remote_pairs.py sign  [--build build/release] [--rounds 31]

pairs   nginx on loopback serves raw records of 26 KB in one file. Cases: records in random order, each a range
        of its own, without and with a worker; and block shuffles whose blocks are --blocks MiB (1, 2, 4, 8).
        First a loader reads an epoch while nginx writes down what is asked for: those are the ranges that
        remote_bare asks for, and the table says how many and how large they were. Then `iterbench serve` and
        `remote_bare ... serve` take turns in slices. Both copy the bytes into memory of their own, and neither
        looks at them. remote_bare first tries each of --connections, and runs with the fastest.
sign    nginx serves a small object to remote_sign, which see.

A loader reads ahead while the other side runs, a group of blocks at a time, up to its --memory. So before each slice it
delivers as much as that memory holds, which is not timed. If nginx had less than half of the work a byte in the loader's
slices all the same, the table says "read outside of slices", and the row means nothing.

A pair counts if a fixed loop ran equally fast (5 %) before, between and after its slices. If that leaves fewer
than --pairs of three times as many, all of them count, and the table says so. Ratios are medians of pairs, with
the interval that holds the median with 95 % (order statistics). CPU seconds are of all threads of a side; nginx's
are of its worker while that side ran. The loader without a worker reads in the consumer's thread; with one it has
two threads, and nginx wants a core as well: with two cores, three threads share them.
"""
import argparse
import atexit
import datetime
import math
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
sys.path.insert(0, os.path.join(ROOT, "tests", "remote"))
import servers  # noqa: E402

SHAPE, ROW = "93x94x3", 93 * 94 * 3
RECORD = (32 + ROW + 3) // 4 * 4
BATCH = 64


def interval(values):
    """Median, and the order statistics around it that hold it with 95 %; None if there are too few."""
    values = sorted(values)
    n = len(values)
    k = max(0, math.floor((n - 1.96 * math.sqrt(n)) / 2))
    return statistics.median(values), values[k] if n >= 6 else None, values[n - 1 - k] if n >= 6 else None


def words(values, form="%.3f"):
    median, low, high = interval(values)
    return form % median + (f" [{form % low}, {form % high}]" if low is not None else "")


def witness():
    began = time.perf_counter()
    total = 0
    for i in range(300_000):
        total += i * i
    return time.perf_counter() - began


def cpu_seconds(pid):
    """Of all threads that live, in nanoseconds' resolution."""
    total = 0
    for task in os.listdir(f"/proc/{pid}/task"):
        try:
            with open(f"/proc/{pid}/task/{task}/schedstat", encoding="ascii") as file:
                total += int(file.read().split()[0])
        except OSError:  # it has just ended
            pass
    return total / 1e9


class Side:
    """A program that answers "run N" by "samples seconds"; a sample is one record."""

    def __init__(self, command, ahead=0):
        self.n, self.command, self.ahead = 1, command, ahead
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def run(self, n):
        self.process.stdin.write(f"run {n}\n")
        self.process.stdin.flush()
        answer = self.process.stdout.readline().split()
        if len(answer) != 2:
            sys.exit("no answer: " + " ".join(self.command))
        return float(answer[0]), float(answer[1])

    def warm(self):
        """Uses up what was read ahead while the other side ran: `ahead` turns, or a part of a slice."""
        self.run(self.ahead or max(1, self.n // 8))

    def calibrate(self, slice_s):
        """As many turns as take about slice_s, found while it warms up for some slices."""
        began = time.perf_counter()
        while True:
            self.warm()
            _, seconds = self.run(self.n)
            if seconds < slice_s / 2:
                self.n *= 2
            else:
                self.n = max(1, round(self.n * slice_s / seconds))
                if time.perf_counter() - began > 4 * slice_s:
                    return

    def slice(self, server):
        """Samples a second, CPU seconds a sample of this side and of the server."""
        self.warm()
        mine, its = cpu_seconds(self.process.pid), cpu_seconds(server)
        samples, seconds = self.run(self.n)
        return (samples / seconds, (cpu_seconds(self.process.pid) - mine) / samples, (cpu_seconds(server) - its) / samples)

    def close(self):
        try:
            self.process.communicate("quit\n", timeout=10)
        except (subprocess.TimeoutExpired, BrokenPipeError):
            self.process.kill()
            self.process.wait()


class Server:
    """nginx over a folder, with a log of requests or without."""

    def __init__(self, files, log="off"):
        self.folder = tempfile.mkdtemp(prefix="iter-pairs-")
        atexit.register(shutil.rmtree, self.folder, ignore_errors=True)
        os.chmod(self.folder, 0o755)
        self.port, _ = servers.start_nginx(self.folder, files, log)
        with open(os.path.join(self.folder, "pid"), encoding="ascii") as file:
            master = int(file.read())
        with open(f"/proc/{master}/task/{master}/children", encoding="ascii") as file:
            self.worker = int(file.read().split()[0])


def cases_of(arguments):
    yield "records, no worker", ["--shuffle", "full", "--workers", "0"]
    yield "records, 1 worker", ["--shuffle", "full", "--workers", "1"]
    for mib in arguments.blocks.split(","):
        rows = max(1, round(float(mib) * 2**20 / RECORD))
        for workers in (0, 1):
            name = f"blocks of {mib} MiB, " + ("1 worker" if workers else "no worker")
            yield name, ["--sampler", f"block:block={rows},buffer={arguments.buffer}", "--workers", str(workers)]


def loader_command(arguments, verb, port, more):
    command = [os.path.join(arguments.build, "bench", "iterbench"), *verb, "--loader", "dataloader", "--source", "ring",
               "--batch", str(BATCH), "--data", f"recordio:http://127.0.0.1:{port}/r26.rec?raw={SHAPE}", *more]
    return command if verb == ["plan"] else command + ["--consumer", "none", "--memory", f"{arguments.memory}MiB"]


def asked_for(arguments, files, verb, more):
    """The ranges (offset, size) that a run of iterbench gets, in the order of the answers."""
    with tempfile.NamedTemporaryFile("r", suffix=".log", encoding="utf-8") as log:
        server = Server(files, log.name)
        subprocess.run(loader_command(arguments, verb, server.port, more), check=True, stdout=subprocess.DEVNULL)
        time.sleep(0.2)
        found = (re.match(r"/r26\.rec bytes=(\d+)-\d+ 206 (\d+)$", line) for line in log)
        return [(int(match[1]), int(match[2])) for match in found if match]


def ranges_of(arguments, files, more):
    """What an epoch asks for, without the looks at the file when it is opened, which `plan` makes as well. A loader
    reads ahead into the next epoch, so the list ends with as many bytes as the set has."""
    looks, ranges, left = set(asked_for(arguments, files, ["plan"], more)), [], arguments.records * RECORD
    for one in asked_for(arguments, files, [], more + ["--epochs", "1"]):
        if one not in looks and left > 0:
            ranges.append(one)
            left -= one[1]
    return ranges


def write_ranges(path, port, ranges):
    with open(path, "w", encoding="ascii") as out:
        for offset, size in ranges:
            out.write(f"http://127.0.0.1:{port}/r26.rec {offset} {size}\n")


def bare_command(arguments, path, connections):
    return [os.path.join(arguments.build, "bench", "remote_bare"), path, str(connections), "serve", str(RECORD),
            *(["collate", str(arguments.memory)] if arguments.collate else [])]


def best_connections(arguments, path):
    """The number of connections with which the bare loop is fastest, and all rates in GB/s."""
    rates = {}
    for n in (int(n) for n in arguments.connections.split(",")):
        side = Side(bare_command(arguments, path, n))
        side.calibrate(0.3)
        rates[n] = statistics.median(s / t for s, t in (side.run(side.n) for _ in range(5))) * RECORD / 1e9
        side.close()
    return max(rates, key=rates.get), rates


def pairs_of(bare, loader, server, arguments):
    """(kept, dropped): each a list of (slice of bare, slice of loader)."""
    for side in (bare, loader):
        side.calibrate(arguments.slice)
    kept, dropped = [], []
    before = witness()
    while len(kept) < arguments.pairs and len(kept) + len(dropped) < 3 * arguments.pairs:
        order = [bare, loader] if len(kept) + len(dropped) & 1 else [loader, bare]
        looks, slices = [before], {}
        for side in order:
            slices[side] = side.slice(server)
            looks.append(witness())
        before = looks[-1]
        (kept if max(looks) <= 1.05 * min(looks) else dropped).append((slices[bare], slices[loader]))
    return kept, dropped


def measure_case(arguments, files, server, name, more):
    ranges = ranges_of(arguments, files, more)
    sizes = sorted(size for _, size in ranges)
    with tempfile.NamedTemporaryFile(suffix=".ranges") as path:
        write_ranges(path.name, server.port, ranges)
        connections, rates = best_connections(arguments, path.name)
        bare = Side(bare_command(arguments, path.name, connections))
        loader = Side(loader_command(arguments, ["serve"], server.port, more), ahead=arguments.memory * 2**20 // (RECORD * BATCH))
        kept, dropped = pairs_of(bare, loader, server.worker, arguments)
        bare.close()
        loader.close()
    noisy = len(kept) < arguments.pairs
    hidden = statistics.median(pair[1][2] / pair[0][2] for pair in kept + dropped) < 0.5
    pairs = kept + dropped if noisy else kept
    per_gb = 1e9 / RECORD
    middle = lambda side, what: statistics.median(pair[side][what] for pair in pairs)  # noqa: E731
    return {
        "case": name,
        "asked": f"{len(sizes)} of {sizes[0] / 2**20:.3f} / {statistics.median(sizes) / 2**20:.3f} / {sizes[-1] / 2**20:.3f}",
        "connections": f"{connections} (" + ", ".join(f"{n}: {rate:.2f}" for n, rate in rates.items()) + ")",
        "bare": f"{middle(0, 0) * RECORD / statistics.mean(sizes):.0f} · {middle(0, 0) * RECORD / 1e9:.2f}",
        "loader": f"{middle(1, 0):.0f} · {middle(1, 0) * RECORD / 1e9:.2f}",
        "ratio": words([loader[0] / bare[0] for bare, loader in pairs]),
        "cpu": f"{middle(1, 1) * per_gb:.3f} / {middle(0, 1) * per_gb:.3f}",
        "server": f"{middle(1, 2) * per_gb:.3f} / {middle(0, 2) * per_gb:.3f}",
        "per cpu": words([bare[1] / loader[1] for bare, loader in pairs]),
        "per all cpu": words([sum(bare[1:]) / sum(loader[1:]) for bare, loader in pairs]),
        "pairs": f"{len(kept)} ({len(dropped)})" + (", all counted" if noisy else "")
                 + (", **read outside of slices**" if hidden else ""),
    }


HEADS = {
    "case": "case", "asked": "an epoch's ranges: number, MiB (min / median / max)", "connections": "bare loop's connections (GB/s of each)",
    "bare": "bare: requests/s · GB/s", "loader": "loader: records/s · GB/s", "ratio": "**loader / bare**",
    "cpu": "CPU s a GB: loader / bare", "server": "nginx's beside: loader / bare", "per cpu": "rate a CPU s: loader / bare",
    "per all cpu": "the same with nginx's", "pairs": "pairs kept (dropped)"}


def row(cells):
    return "| " + " | ".join(cells) + " |"


def pairs(arguments):
    with tempfile.TemporaryDirectory(prefix="iter-records-") as files:
        os.chmod(files, 0o755)
        subprocess.run([os.path.join(arguments.build, "bench", "numbers"), "records-make", os.path.join(files, "r26.rec"), str(ROW),
                        str(arguments.records)], check=True)
        server = Server(files)
        now = datetime.datetime.now().strftime("%Y-%m-%d %H:%M")
        lines = [f"{now}; {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f} at the start; {arguments.records} records of {RECORD} "
                 f"bytes; slices of {arguments.slice} s; memory of the loader {arguments.memory} MiB", "",
                 row(HEADS.values()), row(["---"] * len(HEADS))]
        print("\n".join(lines), flush=True)
        for name, more in cases_of(arguments):
            if re.search(arguments.only, name):
                lines.append(row(measure_case(arguments, files, server, name, more).values()))
                print(lines[-1], flush=True)
    if arguments.out:
        with open(arguments.out, "w", encoding="utf-8") as out:
            out.write("\n".join(lines) + "\n")


def sign(arguments):
    with tempfile.TemporaryDirectory(prefix="iter-records-") as files:
        os.chmod(files, 0o755)
        with open(os.path.join(files, "photo-00001.jpg"), "wb") as out:
            out.write(b"x" * 100)
        server = Server(files)
        subprocess.run([os.path.join(arguments.build, "bench", "remote_sign"), f"http://127.0.0.1:{server.port}/photo-00001.jpg",
                        str(arguments.rounds)], check=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["pairs", "sign"])
    parser.add_argument("--build", default=os.path.join(ROOT, "build", "release"))
    parser.add_argument("--records", type=int, default=20000)
    parser.add_argument("--pairs", type=int, default=15)
    parser.add_argument("--slice", type=float, default=1, help="seconds")
    parser.add_argument("--memory", type=int, default=384, help="MiB of the loader: two groups of blocks of 8 MiB")
    parser.add_argument("--blocks", default="1,2,4,8", help="MiB of a block of the block shuffles")
    parser.add_argument("--collate", action="store_true", help="the bare loop copies the bytes again, out of --memory")
    parser.add_argument("--buffer", type=int, default=16, help="blocks that are mixed with one another")
    parser.add_argument("--connections", default="4,8,16,32,64", help="that the bare loop tries")
    parser.add_argument("--only", default="", metavar="REGEX", help="cases")
    parser.add_argument("--rounds", type=int, default=31, help="of sign")
    parser.add_argument("--out", help="a file for the table")
    arguments = parser.parse_args()
    (pairs if arguments.what == "pairs" else sign)(arguments)


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""Predicts how training in several ranks scales, from what one machine shows, and holds that against 2 and 4 measured ranks.

    bench/scale_model.py measure --out FILE [--build build/release] [--program train_cifar] [--rows 32] [--steps 60]
    bench/scale_model.py check FILE [--link RATE]... [--runs 3]       2 and 4 ranks on this machine, predicted and measured in pairs
    bench/scale_model.py predict FILE [--slow 0.0001] [--workers 2]   2 to 4,096 ranks on 10, 100 and 400 Gbit/s

Each rank has the same number of rows, so the global batch grows with the ranks. Efficiency = the step of one rank alone / the step of all.

measure: no ranks talk to each other.
  - The steps of 1, 2 and 4 processes at the same time, each training alone by one thread, one by one from their profiles. So what
    processes on one machine take from each other is measured, not assumed.
  - The buckets of the gradient, and how long before the end of the backward pass each is ready.
  - TCP over loopback, two processes: the time of a small message, bytes a second, seconds of processor a byte.
  - Copies of 16 MiB in memory, two processes at the same time.
  - The loader alone, one worker.

The model of a step. A worker begins a batch when it is free and a place in the queue is; some samples take 50 times as long (--slow is
their share). A rank's pass begins when its batch is there and the last step has ended, and takes as long as a step drawn from the
measured ones. The link takes the buckets one by one, each when all ranks have it: each rank sends its parts and receives the
sum, twice (R-1)/R of the bytes, in 2 (R-1) messages. Then comes the turn, in which each rank sends its status to all others. The
update ends the step. A rank's processor copies each gradient once, adds the parts that it owns, and copies their sum; its passes lack
that time. On this machine all ranks share the link, and moving bytes by TCP costs processor time, too.
"""
import argparse
import json
import os
import random
import re
import socket
import statistics
import subprocess
import tempfile
import time

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")
TURN_BYTES = 560  # of a rank: status, message, times, a loss (engine/ranks/job.c)
LINKS = {"10 Gbit/s": (10e9 / 8, 20e-6), "100 Gbit/s": (100e9 / 8, 5e-6), "400 Gbit/s": (400e9 / 8, 2e-6)}  # bytes/s, s a message
MESSAGE_CPU = 1e-6  # a message's processor time on a real network
SLOW_TIMES = 50
MIB = 1 << 20


# ---- Measuring ---------------------------------------------------------------------------------


def train(arguments, options, prefix=(), environment=None):
    """Begins a training program; the result is read by finish()."""
    out = tempfile.NamedTemporaryFile(suffix=".json")
    command = [*prefix, os.path.join(arguments.build, "examples", arguments.program), "--threads", "1", "--workers", "0", "--epochs", "1",
               "--limit-steps", str(arguments.steps), "--json", out.name, *options]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, env=dict(os.environ, **(environment or {})))
    return process, out


def finish(started):
    process, out = started
    message = process.communicate()[1]
    if process.returncode != 0:
        raise SystemExit(message.decode())
    with open(out.name, encoding="utf-8") as file:
        return json.load(file)


def steps_of(trace):
    """Seconds from step to step, without the first ones, as the profile has them."""
    with open(trace, encoding="utf-8") as file:
        events = json.load(file)
    events = events["traceEvents"] if isinstance(events, dict) else events
    begins = sorted(event["ts"] for event in events if event.get("name") == "step" and event.get("ph") in ("X", "B"))
    return [(b - a) / 1e6 for a, b in zip(begins[5:], begins[6:])]


def alone(arguments, processes):
    """The steps of so many processes that train at the same time, each for itself."""
    with tempfile.TemporaryDirectory() as folder:
        traces = [os.path.join(folder, "%d.json" % i) for i in range(processes)]
        started = [train(arguments, ["--batch", str(arguments.rows), "--ranks", "one"], environment={"ITER_PROFILE": trace})
                   for trace in traces]
        for one in started:
            finish(one)
        return [seconds for trace in traces for seconds in steps_of(trace)]


def serve(listener, sizes):
    connection = listener.accept()[0]
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    view = memoryview(bytearray(4 * MIB))
    for n, size in sizes:
        for _ in range(n):
            left = size
            while left:
                left -= connection.recv_into(view[:min(left, len(view))])
            connection.sendall(b"x")


def link(rounds=2000, pieces=200):
    """(seconds of a small message, bytes a second, processor seconds a byte) of TCP over loopback."""
    sizes = [(rounds, 1), (pieces, 4 * MIB)]
    listener = socket.create_server(("127.0.0.1", 0))
    child = os.fork()
    if child == 0:
        serve(listener, sizes)
        os._exit(0)
    connection = socket.create_connection(listener.getsockname())
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    results = []
    for n, size in sizes:
        data = bytes(size)
        begin = time.perf_counter()
        for _ in range(n):
            connection.sendall(data)
            connection.recv(1)
        results.append((time.perf_counter() - begin) / n)
    usage = os.wait4(child, 0)[2]
    own = os.times()
    total = pieces * 4 * MIB
    return results[0] / 2, 4 * MIB / results[1], (usage.ru_utime + usage.ru_stime + own.system) / total


def copies(rounds=100):
    """Seconds a byte of a copy in memory, while another process copies, too."""
    readers, children = [], []
    for _ in range(2):
        reader, writer = os.pipe()
        child = os.fork()
        if child == 0:
            one, other = bytearray(b"1") * (16 * MIB), bytearray(16 * MIB)
            begin = time.perf_counter()
            for _ in range(rounds):
                other[:] = one
            os.write(writer, repr((time.perf_counter() - begin) / rounds / len(one)).encode())
            os._exit(0)
        os.close(writer)
        readers.append(reader)
        children.append(child)
    seconds = []
    for reader, child in zip(readers, children):
        seconds.append(float(os.read(reader, 100)))
        os.close(reader)
        os.waitpid(child, 0)
    return statistics.fmean(seconds)


def loader_alone(arguments):
    """Seconds a sample of the loader alone, one worker."""
    made = subprocess.run([os.path.join(arguments.build, "bench", "iterbench"), "--data", arguments.data, "--chain", arguments.chain,
                           "--batch", str(arguments.rows), "--workers", "1", "--seconds", "3", "--json", "-"],
                          check=True, capture_output=True, text=True)
    found = json.loads(made.stdout)
    rate = found["arms"][0]["samples_per_s"]
    return 1 / (rate["median"] if isinstance(rate, dict) else rate)


def measure(arguments):
    result = {"program": arguments.program, "rows": arguments.rows, "cores": os.cpu_count(), "steps": {}}
    for round_ in range(arguments.rounds):
        for processes in (1, 2, 4):
            result["steps"].setdefault(str(processes), []).extend(alone(arguments, processes))
    parts = finish(train(arguments, ["--batch", str(2 * arguments.rows), "--ranks", "one", "--micro-batches", "2"]))
    result["buckets"] = [{"bytes": b["bytes"], "lead": b["lead_seconds"] / parts["steps"]} for b in parts["buckets"]]
    result["message_s"], result["bytes_per_s"], result["cpu_s_per_byte"] = link()
    result["copy_s_per_byte"] = copies()
    result["sample_s"] = loader_alone(arguments)
    with open(arguments.out, "w", encoding="utf-8") as file:
        json.dump(result, file)
    for processes, seconds in result["steps"].items():
        print("%s at a time: %.1f ms a step, 99 %% within %.1f ms" % (processes, 1e3 * statistics.fmean(seconds),
                                                                   1e3 * sorted(seconds)[int(0.99 * len(seconds))]))
    for bucket in result["buckets"]:
        print("bucket of %.2f MB, ready %.1f ms before the end" % (bucket["bytes"] / 1e6, 1e3 * bucket["lead"]))
    print("loopback: %.1f us a message, %.2f GB/s, %.2f ns of processor a byte" % (
        1e6 * result["message_s"], result["bytes_per_s"] / 1e9, 1e9 * result["cpu_s_per_byte"]))
    print("a copy in memory: %.2f ns a byte" % (1e9 * result["copy_s_per_byte"]))
    print("loader: %.1f us a sample" % (1e6 * result["sample_s"]))


# ---- The model ---------------------------------------------------------------------------------


class Wire:
    """What ranks talk over. With `cores`, all ranks are on these, and share one link of this rate; else each has its own."""

    def __init__(self, rate, message, ranks, copy, cores=0, cpu_per_byte=0.0):
        self.ranks, self.message = ranks, message
        self.per_byte = (ranks if cores else 1) / rate
        # Processor time that the passes lack: of a moved byte, and of a gradient's byte in the rank's own sums.
        share = max(1.0, ranks / cores) if cores else 1.0
        self.cpu = ranks * cpu_per_byte / cores if cores else 0.0
        self.own = copy * (2 + 1 / ranks) * share

    def sum_of(self, size):
        """(seconds on the link, processor seconds) of a bucket."""
        others = self.ranks - 1
        moved = 2 * size * others / self.ranks
        return 2 * self.message + 2 * others * MESSAGE_CPU + moved * self.per_byte, moved * self.cpu + size * self.own

    def turn(self):
        others = self.ranks - 1
        return self.message + others * (MESSAGE_CPU + TURN_BYTES * self.per_byte)


def step_seconds(measured, steps, wire, ranks, n, workers=0, slow=0.0, seed=0, queue=4):
    """The mean step of `ranks` ranks over n steps; `steps` are what a rank alone takes."""
    draw = random.Random(seed)
    buckets, rows, sample = measured["buckets"], measured["rows"], measured["sample_s"]
    end = 0.0
    free = [[0.0] * max(workers, 1) for _ in range(ranks)]
    taken = [[0.0] * queue for _ in range(ranks)]
    first = n // 5
    leads = [lead_of(measured, steps, bucket) for bucket in buckets]
    for s in range(n):
        if s == first:
            begin = end
        last = 0.0
        for r in range(ranks):
            slow_ones = 0
            if slow:  # a draw of a binomial whose mean is small
                chance, limit = draw.random(), (1 - slow) ** rows
                while chance > limit and slow_ones < rows:
                    slow_ones += 1
                    chance -= limit
                    limit *= (rows - slow_ones + 1) / slow_ones * slow / (1 - slow)
            making = sample * (rows + slow_ones * (SLOW_TIMES - 1))
            ready = end
            if workers:
                w = s % workers
                start = max(free[r][w], taken[r][s % queue])
                free[r][w] = start + making
                ready = max(end, free[r][w])
                taken[r][s % queue] = ready
            else:
                ready += making - sample * rows  # the usual part is in the measured steps
            last = max(last, ready + draw.choice(steps))
        clock, stolen = 0.0, 0.0
        for bucket, lead in zip(buckets, leads):
            on_link, cpu = wire.sum_of(bucket["bytes"])
            clock = max(clock, last - lead) + on_link
            stolen += cpu
        end = max(last + stolen + wire.turn(), clock + (stolen if clock > last else 0.0))
    return (end - begin) / (n - first)


def lead_of(measured, steps, bucket):
    """The lead was measured by one process alone."""
    return bucket["lead"] * statistics.fmean(steps) / statistics.fmean(measured["steps"]["1"])


# ---- Against ranks -----------------------------------------------------------------------------


def run_ranks(arguments, measured, ranks):
    prefix = ["mpirun", "--allow-run-as-root", "--oversubscribe", "--bind-to", "none", "--mca", "btl", "self,tcp", "-n", str(ranks)]
    found = finish(train(arguments, ["--batch", str(ranks * measured["rows"])], prefix))
    return found["seconds"] / found["steps"]


def check(arguments):
    with open(arguments.file, encoding="utf-8") as file:
        measured = json.load(file)
    arguments.program, arguments.rows = measured["program"], measured["rows"]
    print("| link of all ranks | ranks | predicted: ms a step | measured | predicted / measured |\n| --- | --- | --- | --- | --- |")
    for limit in arguments.link or [None]:
        rate = measured["bytes_per_s"]
        if limit:
            rate = min(rate, float(re.match(r"[\d.]+", limit).group()) * 1e9 / 8)
            subprocess.run(["tc", "qdisc", "replace", "dev", "lo", "root", "tbf", "rate", limit, "burst", "2mb", "latency", "100ms"],
                           check=True)
        try:
            for ranks in (2, 4):
                wire = Wire(rate, measured["message_s"], ranks, measured["copy_s_per_byte"], measured["cores"], measured["cpu_s_per_byte"])
                pairs = []
                for _ in range(arguments.runs):  # the machine's speed changes, so the steps are measured again
                    steps = alone(arguments, ranks)
                    pairs.append((step_seconds(measured, steps, wire, ranks, 400), run_ranks(arguments, measured, ranks)))
                predicted, seconds = (statistics.median(side) for side in zip(*pairs))
                print("| %s | %d | %.1f | %.1f | %.2f |" % (limit or "loopback as it is", ranks, 1e3 * predicted, 1e3 * seconds,
                                                          statistics.median(a / b for a, b in pairs)), flush=True)
        finally:
            if limit:
                subprocess.run(["tc", "qdisc", "del", "dev", "lo", "root"], check=True)


def predict(arguments):
    with open(arguments.file, encoding="utf-8") as file:
        measured = json.load(file)
    steps = measured["steps"]["1"]
    if arguments.sample_us:
        measured["sample_s"] = arguments.sample_us * 1e-6
    print("| ranks | " + " | ".join("%s%s" % (link_, text) for link_ in LINKS for text in ("", ", slow samples")) + " |")
    print("| --- |" + " --- |" * 2 * len(LINKS))
    for power in range(1, 13):
        ranks = 1 << power
        cells = []
        for rate, message in LINKS.values():
            for slow in (0.0, arguments.slow):
                wire = Wire(rate, message, ranks, measured["copy_s_per_byte"])
                n = max(30, min(400, 100000 // ranks))
                seconds = step_seconds(measured, steps, wire, ranks, n, arguments.workers, slow)
                cells.append("%.0f %%" % (100 * statistics.fmean(steps) / seconds))
        print("| %d | %s |" % (ranks, " | ".join(cells)), flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default=os.path.join(ROOT, "build", "release"))
    parser.add_argument("--steps", type=int, default=60, help="of each run")
    modes = parser.add_subparsers(dest="mode", required=True)
    mode = modes.add_parser("measure")
    mode.add_argument("--out", required=True)
    mode.add_argument("--program", default="train_cifar")
    mode.add_argument("--rows", type=int, default=32, help="of a rank's batch")
    mode.add_argument("--rounds", type=int, default=3)
    mode.add_argument("--data", default="synthetic:cifar10", help="for the loader alone")
    mode.add_argument("--chain", default="normalize | to:f32,nchw")
    mode = modes.add_parser("check")
    mode.add_argument("file")
    mode.add_argument("--link", action="append", help="a rate for tc, as root")
    mode.add_argument("--runs", type=int, default=3)
    mode = modes.add_parser("predict")
    mode.add_argument("file")
    mode.add_argument("--slow", type=float, default=1e-4, help="share of samples that take 50 times as long")
    mode.add_argument("--workers", type=int, default=2)
    mode.add_argument("--sample-us", type=float, help="of one worker, instead of the measured loader's: photos need some 5,000")
    arguments = parser.parse_args()
    {"measure": measure, "check": check, "predict": predict}[arguments.mode](arguments)


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""Measures other loaders beside libiter on the same work and writes one table with ratios.

Each contestant and `iterbench serve` run as live processes at the two ends of `iterbench versus`, which lets them take
turns in short slices and keeps the pairs of slices that a fixed loop found the machine steady in.

    bench/peers/setup.sh                                  once: virtual environments
    bench/peers/selfcheck.py                              do the contestants deliver what they should?
    bench/peers/run.py --out DIR                          the measurement, about an hour
    ITER_PEERS_QUICK=1 bench/peers/run.py --out DIR       does everything run? its figures mean nothing

DIR gets results.jsonl (one line of machine and command, then one a contestant, written as they come) and table.md.
"""
import datetime
import json
import os
import platform
import re
import shlex
import subprocess
import sys
import tempfile
import time

import contestants
import field
import table

QUICK = bool(os.environ.get("ITER_PEERS_QUICK"))
SLICE_S, SLICE_OF_PHOTOS_S = .25, 1.5


def machine():
    model = "unknown"
    with open("/proc/cpuinfo") as file:
        for line in file:
            if line.startswith("model name"):
                model = line.split(":", 1)[1].strip()
                break
    return {"cpu": model, "cores": len(os.sched_getaffinity(0)), "kernel": "%s %s" % (platform.system(), platform.release()),
            "memory_gib": round(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 2**30, 1)}


def spoken_command(arguments):
    """The command line with words for paths."""
    words = ["ITER_PEERS_QUICK=1"] * QUICK + ["bench/peers/run.py"]
    given, skip = sys.argv[1:], False
    for i, word in enumerate(given):
        name = word.split("=")[0].lstrip("-")
        if skip:
            skip = False
        elif word.startswith("--") and name in field.PATHS:
            words.append("--%s %s" % (name, name.upper()))
            skip = "=" not in word
        else:
            words.append(shlex.quote(word))
    return " ".join(words)


class Talk:
    """One program behind the protocol, for a smoke run."""

    def __init__(self, place, command, cores):
        self.errors = tempfile.TemporaryFile("w+")
        self.process = subprocess.Popen(["taskset", "-c", cores, "/bin/sh", "-c", command], env=place.environment, text=True,
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.errors)

    def run(self, n):
        try:
            self.process.stdin.write("run %d\n" % n)
            self.process.stdin.flush()
        except BrokenPipeError:
            pass
        answer = self.process.stdout.readline().split()
        if len(answer) != 2:
            self.errors.seek(0)
            raise RuntimeError(field.last_line(self.errors.read()))
        return int(answer[0]), float(answer[1])

    def rate(self, slices=2, slice_s=.1):
        n, rates = 1, []
        while len(rates) < slices:
            samples, seconds = self.run(n)
            if seconds >= slice_s:
                rates.append(samples / seconds)
            else:
                n *= 2
        return sum(rates) / len(rates)

    def close(self):
        try:
            self.process.communicate("quit\n", timeout=30)
        except (subprocess.TimeoutExpired, BrokenPipeError):
            self.process.kill()
            self.process.wait()


def smoke(place, ours, peer, cores):
    rates = []
    for command in (peer, ours):
        talk = Talk(place, command, cores)
        try:
            rates.append(talk.rate())
        finally:
            talk.close()
    return {"peer_samples_per_s": rates[0], "ours_samples_per_s": rates[1], "smoke": True,
            "ratio": {"median": rates[1] / rates[0], "low": None, "high": None, "pairs": 0, "dropped": 0}}


def versus(place, ours, peer, cores, pairs, slice_s, starts):
    with tempfile.NamedTemporaryFile("r", suffix=".json") as out:
        command = '"$ITERBENCH" versus --a %s --b %s --pairs %d --slice %g --starts %d --json %s' % (
            shlex.quote(peer), shlex.quote(ours), pairs, slice_s, starts,
            shlex.quote(out.name))
        done = place.shell(command, cores, timeout=120 * starts + 40 * slice_s * pairs)
        if done.returncode:
            raise RuntimeError(field.last_line(done.stderr))
        result = json.load(out)
    return {"peer_samples_per_s": result["a"]["samples_per_s"], "ours_samples_per_s": result["b"]["samples_per_s"],
            "ratio": result["ratio"], "ratios": result["ratios"], "by_start": result["by_start"], "git": result["git"]}


def measure(place, row, workload, arguments):
    line = dict(row._asdict(), version=place.version(row.family), ours_command=place.ours(workload, row),
                peer_command=place.contestant(row))
    cores = field.first_cores(row.cores)
    began = time.time()
    try:
        if cores is None:
            raise RuntimeError("wants %d cores" % row.cores)
        if QUICK:
            line.update(smoke(place, line["ours_command"], line["peer_command"], cores))
        else:
            line.update(versus(place, line["ours_command"], line["peer_command"], cores, arguments.pairs,
                               SLICE_OF_PHOTOS_S if contestants.takes_photos(workload) else SLICE_S, arguments.starts))
    except (RuntimeError, ValueError, KeyError) as error:  # a peer that cannot do it is a finding
        line["error"] = str(error)
    line["took_s"] = round(time.time() - began, 1)
    return line


def say(line):
    print("%-10s %-6s %-20s " % (line["workload"], line["family"], line["name"]), end="")
    if "error" in line:
        print("FAILED:", line["error"], flush=True)
    else:
        ratio = line["ratio"]
        print("%12.0f, ours %12.0f, ratio %s, %d pairs (%d dropped)" % (
            line["peer_samples_per_s"], line["ours_samples_per_s"], table.interval(ratio), ratio["pairs"],
            ratio["dropped"]), flush=True)


def done_before(path):
    if not os.path.exists(path):
        return set()
    with open(path) as file:
        lines = [json.loads(line) for line in file][1:]
    return {(r["workload"], r["family"], r["name"]) for r in lines if "error" not in r}


def main():
    parser = field.parser(__doc__)
    field.add_arguments(parser)
    parser.add_argument("--out", required=True, metavar="DIR", help="where the results go")
    parser.add_argument("--pairs", type=int, default=15, metavar="N", help="pairs of slices to keep of each (15)")
    parser.add_argument("--starts", type=int, default=3, metavar="N", help="starts of both sides, each for an equal part of the pairs (3)")
    parser.add_argument("--resume", action="store_true", help="leave out what DIR has already; the rest is added")
    arguments = parser.parse_args()
    place = field.Field(arguments)
    os.makedirs(arguments.out, exist_ok=True)
    path = os.path.join(arguments.out, "results.jsonl")
    if os.path.exists(path) and not arguments.resume:
        raise SystemExit("%s is there already: --resume, or another --out" % path)
    done = done_before(path)
    rows = [r for r in contestants.ALL if re.search(arguments.only, "%s %s %s" % r[:3]) and r[:3] not in done]
    absent = place.absent(rows)
    workloads = {w.key: w for w in contestants.WORKLOADS}
    with open(path, "a") as out:
        def write(line):
            out.write(json.dumps(line) + "\n")
            out.flush()
        if out.tell() == 0:
            version = subprocess.run([place.iterbench, "--version"], stdout=subprocess.PIPE, text=True, check=True).stdout
            git = subprocess.run(["git", "-C", field.ROOT, "describe", "--always", "--dirty"], stdout=subprocess.PIPE,
                                 stderr=subprocess.DEVNULL, text=True).stdout
            write({"date": datetime.datetime.now().astimezone().strftime("%Y-%m-%d %H:%M %z"), "machine": machine(),
                   "command": spoken_command(arguments), "iterbench": version.strip(), "git": git.strip() or "unknown",
                   "quick": QUICK})
        for row in rows:
            if row.family in absent:
                line = dict(row._asdict(), version="", error=absent[row.family])
            else:
                line = measure(place, row, workloads[row.workload], arguments)
            write(line)
            say(line)
    with open(os.path.join(arguments.out, "table.md"), "w") as out:
        out.write(table.markdown(path))


if __name__ == "__main__":
    main()

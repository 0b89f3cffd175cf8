#!/usr/bin/env python3
"""Reads the same samples from the same S3 server by libiter and by other loaders, in turns, and writes a table.

    bench/peers/remote/setup.sh                           once
    bench/peers/remote/run.py --photos DIR [--out FILE]   the measurement

The server is s3_face, which answers each request after a delay (--delays, in ms). For each delay and kind (raw: a file a
sample, in random order; shards: each loader's own best way):

1. Each configuration of each contestant reads an epoch, of which bytes and sums are checked, and then three that are
   timed. The one with the fastest median of a contestant goes on.
2. libiter's and a peer's take turns: an epoch each, --rounds times, the first one in turn. Both live all the time, with
   workers that stay, if the peer lets them. The ratio is the median of rounds with the interval that holds it with 95 %
   (order statistics); a round counts if a fixed loop ran equally fast (5 %) before, between and after its epochs. If fewer
   than --rounds of three times as many do, all count, and the table says so.

CPU seconds are of the contestant and all its processes, not of the server.
"""
import argparse
import datetime
import importlib.metadata
import json
import math
import os
import re
import select
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.join(HERE, "..", "..", "..")
ROW = 90112  # more than the largest photo
TICK = os.sysconf("SC_CLK_TCK")
EPOCH_S_MAX = 300
LOOKS = 3  # epochs of each configuration

# (peer, program, kind): options of each configuration; those after "|" are for a server that answers late.
PEERS = {
    ("s3torchconnector", "peer_s3torchconnector.py", "raw"): "workers=0; workers=1; workers=2; workers=4 | workers=8; workers=16",
    ("s3torchconnector", "peer_s3torchconnector.py", "shards"): "workers=0; workers=1; workers=2; workers=4 | workers=8",
    ("litdata", "peer_litdata.py", "raw"): "workers=0; workers=1; workers=2; workers=4 | workers=4 concurrent=128",
    ("litdata", "peer_litdata.py", "shards"): "workers=0; workers=1; workers=2; workers=4 |",
    ("webdataset", "peer_webdataset.py", "shards"): "workers=0; workers=1; workers=2; workers=4 | workers=8",
    ("spdl-core", "peer_spdl_s3.py", "raw"): "concurrency=8; concurrency=16; concurrency=32; concurrency=16 boto=1 "
                                             "| concurrency=64; concurrency=128",
    ("spdl-core", "peer_spdl_s3.py", "shards"): "concurrency=2; concurrency=4; concurrency=4 boto=1 | concurrency=16",
    ("s3fs", "peer_fsspec.py", "raw"): "ahead=64; ahead=256 | ahead=1024",
    ("s3fs", "peer_fsspec.py", "shards"): "ahead=64; ahead=256 | ahead=1024",
}
# (format, shuffle, workers, block, connections); those with other connections than the default are for a late server.
OURS = {
    "raw": [("folder", "full", workers, "", n) for workers in (0, 1, 2) for n in (64, 256)],
    "shards": [("recordio", "block", workers, block, n) for workers in (0, 1, 2) for block in ("40", "160", "320") for n in (64, 256)],
}


def interval(values):
    values = sorted(values)
    n = len(values)
    k = max(0, math.floor((n - 1.96 * math.sqrt(n)) / 2))
    text = "%.2f" % statistics.median(values)
    return text + (" [%.2f, %.2f]" % (values[k], values[n - 1 - k]) if n >= 6 else "")


def witness():
    began, total = time.perf_counter(), 0
    for i in range(300_000):
        total += i * i
    return time.perf_counter() - began


def cpu_seconds(pid):
    """Of a process and of those below it, also of those that ended and were waited for."""
    try:
        with open("/proc/%d/stat" % pid) as file:
            ticks = sum(map(int, file.read().rsplit(")", 1)[1].split()[11:15]))
        for task in os.listdir("/proc/%d/task" % pid):
            with open("/proc/%d/task/%s/children" % (pid, task)) as file:
                ticks += sum(cpu_seconds(int(child)) * TICK for child in file.read().split())
    except OSError:  # it has just ended
        return 0
    return ticks / TICK


class Contestant:
    """A live process that reads an epoch when told to."""

    def __init__(self, name, options, command, environment, about):
        self.name, self.options, self.about = name, options, about
        self.errors = tempfile.TemporaryFile("w+")
        self.process = subprocess.Popen(command, env=environment, cwd=HERE, text=True, stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, stderr=self.errors)

    def ask(self, what):
        """(samples a second, CPU seconds of the epoch)."""
        before = cpu_seconds(self.process.pid)
        try:
            self.process.stdin.write(what + "\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            pass
        ready, _, _ = select.select([self.process.stdout], [], [], EPOCH_S_MAX)
        words = self.process.stdout.readline().split() if ready else ["late"]
        if len(words) != 4:
            self.errors.seek(0)
            said = [line.strip() for line in self.errors.read().splitlines() if line.strip()]
            raise RuntimeError("no epoch in %d s" % EPOCH_S_MAX if not ready else (said or ["it ended without a word"])[-1])
        n, n_bytes, seconds, total = int(words[0]), int(words[1]), float(words[2]), int(words[3])
        wanted = self.about
        if (n, n_bytes) != (wanted["samples"], wanted["bytes"]) or what == "check" and total != wanted["sum"]:
            raise RuntimeError("delivered %d samples, %d bytes, sum %d; expected %s" % (n, n_bytes, total, wanted))
        return n / seconds, cpu_seconds(self.process.pid) - before

    def close(self):
        try:
            self.process.communicate(timeout=5)
        except (subprocess.TimeoutExpired, BrokenPipeError, ValueError):
            self.process.kill()
            self.process.wait()


class Field:
    """A server with a delay, and how contestants are started beside it."""

    def __init__(self, arguments, programs, n, delay):
        python = os.path.join(arguments.venvs, "remote", "bin", "python")
        made = subprocess.run([python, os.path.join(HERE, "samples.py"), arguments.scratch, arguments.photos, str(n),
                               os.path.join(arguments.build, "tools", "iterpack", "iterpack")], check=True, capture_output=True, text=True)
        self.about = json.loads(made.stdout.splitlines()[-1])
        self.files, self.delay, self.python, self.programs = os.path.join(arguments.scratch, str(n)), delay, python, programs
        with socket.socket() as s:
            s.bind(("127.0.0.1", 0))
            port = s.getsockname()[1]
        self.endpoint = "http://127.0.0.1:%d" % port
        self.server = subprocess.Popen([os.path.join(programs, "s3_face"), self.files, str(port), str(delay)])
        for _ in range(100):
            try:
                self.counts()
                break
            except OSError:
                time.sleep(0.1)
        self.environment = dict(os.environ, PEERS_FILES=self.files, OMP_NUM_THREADS="1", AWS_ACCESS_KEY_ID="none",
                                AWS_SECRET_ACCESS_KEY="none", AWS_EC2_METADATA_DISABLED="true")

    def counts(self):
        """Requests and bytes since the last time."""
        with urllib.request.urlopen(self.endpoint + "/-/counts") as answer:
            return tuple(map(int, answer.read().split()))

    def ours(self, kind, way):
        form, shuffle, workers, block, connections = way
        url = "s3://bench/raw" if form == "folder" else "s3://bench/rec/*.rec"
        more = "decoder=bytes&shape=%d&dtype=u8" % ROW if form == "folder" else "decode=none"
        more += "&connections=%d" % connections
        command = [os.path.join(self.programs, "remote_ours"), "%s:%s?endpoint=%s&%s" % (form, url, self.endpoint, more),
                   str(workers), shuffle] + [block] * bool(block)
        words = "%s, workers=%d" % (form, workers) + (", blocks of " + block if block else "") + (
            ", connections=%d" % connections if connections != 256 else "")
        return Contestant("libiter", words, command, self.environment, self.about)

    def peer(self, key, options):
        name, program, kind = key
        return Contestant(name, options, [self.python, program, self.endpoint, kind, *options.split()], self.environment, self.about)

    def close(self):
        self.server.kill()
        self.server.wait()


def look(field, make, lines, kind):
    """Starts a contestant, checks it, times some epochs; the middle rate, or None."""
    contestant = make()
    try:
        contestant.ask("check")
        field.counts()
        rates, cpus = zip(*(contestant.ask("epoch") for _ in range(LOOKS)))
        requests, n_bytes = (n / LOOKS for n in field.counts())
        rate, cpu = statistics.median(rates), statistics.median(cpus)
        lines.append("| %s | %g | %s | %s | %.0f | %.2f | %d · %.0f |" % (
            kind, field.delay, contestant.name, contestant.options, rate, cpu, round(requests), n_bytes / max(1, requests) / 1024))
    except RuntimeError as error:  # a peer that cannot do it is a finding
        rate = None
        lines.append("| %s | %g | %s | %s | failed: %s | | |" % (kind, field.delay, contestant.name, contestant.options,
                                                                  str(error)[:200].replace("|", "/")))
    contestant.close()
    print(lines[-1], flush=True)
    return rate


def best(field, makers, lines, kind):
    rates = [(look(field, make, lines, kind) or 0, i) for i, make in enumerate(makers)]
    rate, i = max(rates)
    return makers[i] if rate else None


def pairs(field, make_ours, make_peer, arguments):
    ours, peer = make_ours(), make_peer()
    rounds, kept = [], 0
    try:
        for one in (ours, peer):
            one.ask("check")
        before = witness()
        while kept < arguments.rounds and len(rounds) < 3 * arguments.rounds:
            looks, got = [before], {}
            for one in (ours, peer) if len(rounds) & 1 else (peer, ours):
                got[one] = one.ask("epoch")
                looks.append(witness())
            before = looks[-1]
            steady = max(looks) <= 1.05 * min(looks)
            kept += steady
            rounds.append((got[ours], got[peer], steady))
    finally:
        ours.close()
        peer.close()
    noisy = kept < arguments.rounds
    counted = [r for r in rounds if r[2] or noisy]
    middle = lambda side, what: statistics.median(r[side][what] for r in counted)  # noqa: E731
    return "%.0f | %.0f | **%s** | %.2f / %.2f | %d (%d)%s" % (
        middle(0, 0), middle(1, 0), interval([r[0][0] / r[1][0] for r in counted]), middle(0, 1), middle(1, 1), kept,
        len(rounds) - kept, ", all counted" if noisy else "")


def run(field, arguments, looks, table):
    for kind in ("raw", "shards"):
        if not re.search(arguments.kinds, kind):
            continue
        ours = best(field, [lambda way=way: field.ours(kind, way) for way in OURS[kind] if field.delay or way[4] == 64], looks, kind)
        for key, text in PEERS.items():
            if key[2] != kind or not re.search(arguments.only, key[0]):
                continue
            always, _, late = text.partition("|")
            words = [w.strip() for w in (always + (";" + late if field.delay else "")).split(";") if w.strip()]
            if field.delay and any("workers=4" == w for w in words):
                words = [w for w in words if w not in ("workers=0", "workers=1")]  # each waits for a request at a time
            peer = best(field, [lambda w=w: field.peer(key, w) for w in words], looks, kind)
            if not ours or not peer:
                continue
            a, b = ours(), peer()
            names = a.options, b.options
            a.close()
            b.close()
            try:
                result = pairs(field, ours, peer, arguments)
            except RuntimeError as error:
                result = "failed: %s | | | |" % str(error)[:200].replace("|", "/")
            table.append("| %s | %g | %s | %s | %s | %s |" % (kind, field.delay, key[0], names[1], names[0], result))
            print(table[-1], flush=True)


def compile_programs(arguments, folder):
    build = os.path.abspath(arguments.build)
    cc = os.environ.get("CC", "cc")
    subprocess.run([cc, "-std=c11", "-O2", os.path.join(HERE, "s3_face.c"), "-o", os.path.join(folder, "s3_face")], check=True)
    subprocess.run([cc, "-std=c11", "-O2", "-D_GNU_SOURCE", "-I", ROOT, os.path.join(HERE, "remote_ours.c"), "-L", build, "-liter", "-lz",
                    "-Wl,-rpath," + build, "-o", os.path.join(folder, "remote_ours")], check=True)


def versions(arguments):
    [folder] = [os.path.join(arguments.venvs, "remote", "lib", name, "site-packages")
                for name in os.listdir(os.path.join(arguments.venvs, "remote", "lib"))]
    found = {d.metadata["Name"].lower().replace("_", "-"): d.version for d in importlib.metadata.distributions(path=[folder])}
    return ", ".join("%s %s" % (name, found.get(name, "absent")) for name in (
        "torch", "s3torchconnector", "litdata", "webdataset", "spdl-core", "obstore", "s3fs", "fsspec", "boto3"))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--photos", required=True, help="a folder with JPEG files of about 26 KB")
    parser.add_argument("--build", default=os.path.join(ROOT, "build", "release"))
    parser.add_argument("--venvs", default=os.path.expanduser("~/.cache/iter-peers"))
    parser.add_argument("--scratch", default=os.path.expanduser("~/.cache/iter-peers-scratch/remote"))
    parser.add_argument("--delays", default="0:8192,20:4096", help="MS:SAMPLES, several")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--kinds", default="", metavar="REGEX", help="raw, shards")
    parser.add_argument("--only", default="", metavar="REGEX", help="peers")
    parser.add_argument("--out", help="a file for the tables")
    arguments = parser.parse_args()
    looks = ["| kind | delay, ms | | configuration | samples/s | CPU s an epoch | requests · KiB each |", "| --- " * 7 + "|"]
    table = ["| kind | delay, ms | peer | its best | libiter's best | libiter: samples/s | peer: samples/s | libiter / peer "
             "| CPU s an epoch: libiter / peer | rounds kept (dropped) |", "| --- " * 10 + "|"]
    about = "%s; %d cores, load %.1f at the start; SAMPLES by delay: %s; %s" % (
        datetime.datetime.now().strftime("%Y-%m-%d %H:%M"), os.cpu_count(), os.getloadavg()[0], arguments.delays, versions(arguments))
    print(about, flush=True)
    with tempfile.TemporaryDirectory(prefix="iter-peers-") as programs:
        compile_programs(arguments, programs)
        for pair in arguments.delays.split(","):
            delay, n = pair.split(":")
            field = Field(arguments, programs, int(n), float(delay))
            try:
                run(field, arguments, looks, table)
            finally:
                field.close()
    text = "\n".join([about, "", *table, "", "Each configuration, the median of three epochs after a checked one:", "", *looks, ""])
    if arguments.out:
        with open(arguments.out, "w", encoding="utf-8") as out:
            out.write(text)


if __name__ == "__main__":
    sys.exit(main())

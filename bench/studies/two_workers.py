#!/usr/bin/env python3
"""One process with two workers beside two processes with one worker each: the cost of sharing a loader.

    bench/studies/two_workers.py --iterbench FILE [--rounds N] [--batches N] -- ARGUMENTS OF iterbench serve

Three programs are alive: two with one worker, one with two. In each round the first runs alone, then the first two at once, then
the third. Batches are not read. Every run is timed twice, over N and over N / 4 batches, and only the difference counts:
otherwise batches that a loader has made ahead would count as made during the run. Prints the speed-up of two workers over that
of two processes: its median and the interval that holds it with 95 %.
"""
import argparse
import statistics
import subprocess
import threading


class Program:
    def __init__(self, iterbench, arguments, workers):
        self.process = subprocess.Popen([iterbench, "serve", *arguments, "--consumer", "none", "--workers", str(workers)],
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def run(self, n):
        self.process.stdin.write("run %d\n" % n)
        self.process.stdin.flush()
        samples, seconds = self.process.stdout.readline().split()
        return int(samples), float(seconds)

    def rate(self, n, out):
        few, many = self.run(n // 4), self.run(n)
        out.append((many[0] - few[0]) / (many[1] - few[1]))


def together(programs, n):
    rates = []
    threads = [threading.Thread(target=p.rate, args=(n, rates)) for p in programs]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    if len(rates) < len(programs):
        raise SystemExit("a program ended early")
    return sum(rates)


def interval(values):
    """The interval of the median, by order statistics."""
    values = sorted(values)
    n = len(values)
    below, mass = 0, 0.5 ** n
    total = mass
    while below < n // 2 - 1:
        mass = mass * (n - below) / (below + 1)
        if total + mass > 0.025:
            break
        total += mass
        below += 1
    return statistics.median(values), values[below], values[-1 - below]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--iterbench", required=True)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--batches", type=int, default=80, help="batches of a run by one worker (80)")
    parser.add_argument("arguments", nargs="+")
    a = parser.parse_args()
    one, other, both = (Program(a.iterbench, a.arguments, n) for n in (1, 1, 2))
    ratios = []
    for p in (one, other, both):
        p.run(a.batches)
    for _ in range(a.rounds):
        alone, apart, shared = together([one], a.batches), together([one, other], a.batches), together([both], 2 * a.batches)
        ratios.append(shared / apart)
        print("one worker %.0f, two processes %.0f (%.2f), two workers %.0f (%.2f)" % (
            alone, apart, apart / alone, shared, shared / alone), flush=True)
    print("two workers / two processes: %.3f [%.3f, %.3f], %d rounds" % (*interval(ratios), len(ratios)))


if __name__ == "__main__":
    main()

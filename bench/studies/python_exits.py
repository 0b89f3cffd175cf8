#!/usr/bin/env python3
"""Starts and ends small Python programs that use a loader, and counts those that crash, hang or end late.

    LIBITER_LIBRARY=build/release/libiter.so PYTHONPATH=python bench/studies/python_exits.py [--n 1000] [--jobs 2]

The programs and what each must do are in tests/python/exit_programs.py; they come in turns, each time with another
seed. Prints a table: how often each ran, how often it was wrong, and the longest and the median time that it took
beyond its own work: until the process had ended, and for ctrl_c_blocked until the program saw KeyboardInterrupt.
Exit status 1 if any was wrong or took longer than --limit seconds.
"""
import argparse
import concurrent.futures
import os
import statistics
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "tests", "python"))
import exit_programs  # noqa: E402


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--n", type=int, default=1000, help="programs in all")
    parser.add_argument("--jobs", type=int, default=2, help="programs at once")
    parser.add_argument("--limit", type=float, default=1.0, help="seconds that an end may take")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", help="names, with commas; all without it")
    given = parser.parse_args()
    names = given.only.split(",") if given.only else exit_programs.NAMES
    taken = {name: [] for name in names}
    wrong = {name: 0 for name in names}
    with tempfile.TemporaryDirectory() as folder:
        file = exit_programs.make_file(os.path.join(folder, "batch.bin"))

        def one(i):
            return names[i % len(names)], i, exit_programs.run(names[i % len(names)], given.seed + i, file)

        with concurrent.futures.ThreadPoolExecutor(given.jobs) as pool:
            for name, i, (reason, seconds) in pool.map(one, range(given.n)):
                taken[name].append(seconds)
                if reason or seconds > given.limit:
                    wrong[name] += 1
                    print("%s %d: %.3f s: %s" % (name, given.seed + i, seconds, reason or "too long"), flush=True)
    print("%-18s %6s %6s %10s %10s" % ("program", "count", "wrong", "longest s", "median s"))
    for name in names:
        if taken[name]:
            row = (name, len(taken[name]), wrong[name], max(taken[name]), statistics.median(taken[name]))
            print("%-18s %6d %6d %10.3f %10.3f" % row)
    everything = [seconds for several in taken.values() for seconds in several]
    print("%-18s %6d %6d %10.3f %10.3f" % ("all", len(everything), sum(wrong.values()), max(everything),
                                           statistics.median(everything)))
    return 1 if sum(wrong.values()) else 0


if __name__ == "__main__":
    sys.exit(main())

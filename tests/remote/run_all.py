"""Runs the tests of this folder, several at a time: they mostly wait for servers and programs.

Usage: run_all.py [NAME...], of tests; a part of the name is enough. Prints what unittest -v prints, a line for each test.
"""
import concurrent.futures
import os
import sys
import time
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
AT_ONCE = 6


def tests_of(suite):
    for one in suite:
        if isinstance(one, unittest.TestSuite):
            yield from tests_of(one)
        else:
            yield one


def run(test):
    result, begin = unittest.TestResult(), time.monotonic()
    test.run(result)
    ended = "ok"
    if result.failures or result.errors or result.unexpectedSuccesses:
        ended = "FAIL"
    elif result.skipped:
        ended = "skipped " + repr(result.skipped[0][1])
    print(f"{test} ... {ended} {'' if result.skipped else f'({time.monotonic() - begin:.1f} s)'}".rstrip(), flush=True)
    return result


def main():
    tests = [test for test in tests_of(unittest.defaultTestLoader.discover(HERE, "test_*.py"))
             if len(sys.argv) == 1 or any(name in test.id() for name in sys.argv[1:])]
    with concurrent.futures.ThreadPoolExecutor(AT_ONCE) as pool:
        results = list(pool.map(run, tests))
    bad = [one for result in results for one in result.failures + result.errors]
    for test, text in bad:
        print(f"\n{test}\n{text}")
    print(f"\nRan {len(tests)} tests, {len(bad)} failures")
    return 1 if bad or not tests else 0


if __name__ == "__main__":
    sys.exit(main())

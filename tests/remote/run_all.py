"""Runs the tests of this folder, several at a time: they mostly wait for servers and programs.

Usage: run_all.py [NAME...], of tests; a part of the name is enough. Prints what unittest -v prints, a line for each test.

Tests of a class that prepares something (setUpClass, setUp) run one after the other, those of other classes beside each other.
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


def groups_of(tests):
    """Lists of tests that must not run beside each other. The longest come first."""
    groups = {}
    for test in tests:
        kind = type(test)
        prepares = any(getattr(kind, name).__qualname__.split(".")[0] != "TestCase" for name in ("setUpClass", "setUp"))
        groups.setdefault(kind if prepares else test, []).append(test)
    return sorted(groups.values(), key=len, reverse=True)


class Lines(unittest.TestResult):
    """Prints a line for each test."""

    def startTest(self, test):
        super().startTest(test)
        self.begin, self.said = time.monotonic(), "ok"

    def addFailure(self, test, err):
        super().addFailure(test, err)
        self.said = "FAIL"

    def addError(self, test, err):
        super().addError(test, err)
        self.said = "FAIL"

    def addSubTest(self, test, subtest, err):
        super().addSubTest(test, subtest, err)
        if err:
            self.said = "FAIL"

    def addSkip(self, test, reason):
        super().addSkip(test, reason)
        self.said = "skipped " + repr(reason)

    def stopTest(self, test):
        super().stopTest(test)
        took = "" if self.said.startswith("skipped") else f" ({time.monotonic() - self.begin:.1f} s)"
        print(f"{test} ... {self.said}{took}", flush=True)


def run(tests):
    result = Lines()
    unittest.TestSuite(tests).run(result)
    return result


def main():
    tests = [test for test in tests_of(unittest.defaultTestLoader.discover(HERE, "test_*.py"))
             if len(sys.argv) == 1 or any(name in test.id() for name in sys.argv[1:])]
    with concurrent.futures.ThreadPoolExecutor(AT_ONCE) as pool:
        results = list(pool.map(run, groups_of(tests)))
    bad = [one for result in results for one in result.failures + result.errors]
    for test, text in bad:
        print(f"\n{test}\n{text}")
    print(f"\nRan {len(tests)} tests, {len(bad)} failures")
    return 1 if bad or not tests else 0


if __name__ == "__main__":
    sys.exit(main())

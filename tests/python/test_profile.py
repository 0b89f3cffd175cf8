"""libiter.profile(): its file, its table, and what it refuses."""
import json
import os
import subprocess
import sys
import tempfile
import threading
import unittest

import numpy as np

import libiter


def some_batches(count, workers=1):
    with libiter.Loader(np.zeros((100, 8), np.float32), batch_size=4, workers=workers) as loader:
        for number, _ in enumerate(loader):
            with libiter.scope("train"):
                with libiter.scope("forward"):
                    pass
            if number + 1 == count:
                break


class Files(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.file = os.path.join(self.folder.name, "trace.json")

    def events(self):
        with open(self.file, encoding="utf-8") as file:
            loaded = json.load(file)  # complete JSON
        return loaded["traceEvents"] if isinstance(loaded, dict) else loaded

    def names(self):
        return [event.get("name") for event in self.events()]

    def test_scopes_and_loader_events(self):
        with libiter.profile(self.file) as p:
            some_batches(5)
        names = self.names()
        self.assertEqual(names.count("train"), 5)
        self.assertEqual(names.count("forward"), 5)
        for name in ("open", "next", "held", "batch"):
            self.assertIn(name, names)
        table = p.table()
        for name in ("train", "forward", "next", "user", "loader"):
            self.assertIn(name, table)

    def test_file_is_complete_while_it_runs(self):
        with libiter.profile(self.file, dump_period_ms=-1) as p:
            some_batches(3)
            p.dump()
            self.assertEqual(self.names().count("train"), 3)
            some_batches(2)
        self.assertEqual(self.names().count("train"), 5)

    def test_file_is_complete_after_an_exception(self):
        with self.assertRaises(ZeroDivisionError):
            with libiter.profile(self.file):
                with libiter.scope("train"):
                    raise ZeroDivisionError
        self.assertIn("train", self.names())
        with libiter.profile(self.file):  # it was stopped
            pass

    def test_pause_and_resume(self):
        with libiter.profile(self.file) as p:
            with libiter.scope("one"):
                pass
            p.pause()
            with libiter.scope("two"):
                pass
            p.resume()
            with libiter.scope("three"):
                pass
        names = self.names()
        self.assertTrue("one" in names and "three" in names)
        self.assertNotIn("two", names)

    def test_scopes_of_threads(self):
        def work():
            with libiter.scope("in a thread"):
                pass

        with libiter.profile(self.file):
            threads = [threading.Thread(target=work) for _ in range(3)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        self.assertEqual(self.names().count("in a thread"), 3)

    def test_scope_as_decorator(self):
        @libiter.scope("validate")
        def validate(x):
            return 2 * x

        with libiter.profile(self.file):
            self.assertEqual([validate(1), validate(2)], [2, 4])
        self.assertEqual(self.names().count("validate"), 2)

    def test_default_name(self):
        code = "import libiter\nwith libiter.profile(): pass\n"
        subprocess.run([sys.executable, "-c", code], cwd=self.folder.name, check=True)
        self.assertTrue(os.path.exists(os.path.join(self.folder.name, "profile.json")))


class Tables(unittest.TestCase):
    def test_json_counts(self):
        with libiter.profile("") as p:
            some_batches(7)
        rows = {(row["category"], row["name"]): row for row in json.loads(p.table(format="json"))["rows"]}
        self.assertEqual(rows["user", "train"]["count"], 7)
        self.assertEqual(rows["loader", "next"]["count"], 7)
        self.assertGreaterEqual(rows["user", "train"]["total"], rows["user", "forward"]["total"])

    def test_order(self):
        with libiter.profile("") as p:
            for name, count in (("b", 3), ("a", 2), ("c", 1)):
                for _ in range(count):
                    with libiter.scope(name):
                        pass

        def names(*sort, **options):
            rows = json.loads(p.table(*sort, format="json", **options))["rows"]
            return [row["name"] for row in rows if row["category"] == "user"]

        self.assertEqual(names("count"), ["b", "a", "c"])
        self.assertEqual(names("count", ascending=True), ["c", "a", "b"])
        self.assertEqual(sorted(names("name")), ["a", "b", "c"])

    def test_reset(self):
        with libiter.profile("") as p:
            with libiter.scope("before"):
                pass
            self.assertIn("before", p.table(reset=True))
            self.assertNotIn("before", p.table())

    def test_words(self):
        with libiter.profile("") as p:
            pass
        with self.assertRaisesRegex(libiter.InvalidArgument, "sort_by is 'totl'.*did you mean total"):
            p.table("totl")
        with self.assertRaisesRegex(libiter.InvalidArgument, "format is 'html'"):
            p.table(format="html")


class Misuse(unittest.TestCase):
    def test_two_at_once(self):
        with libiter.profile("") as p:
            with self.assertRaises(libiter.WrongState):
                with libiter.profile(""):
                    self.fail("it started")
            with self.assertRaises(libiter.WrongState):
                with p:
                    self.fail("it started twice")
            with libiter.scope("goes on"):
                pass
        self.assertIn("goes on", p.table())

    def test_not_entered_ended_and_replaced(self):
        p = libiter.profile("")
        for call in (p.table, p.dump, p.pause, p.resume):
            self.assertRaises(libiter.WrongState, call)
        with p:
            pass
        self.assertRaisesRegex(libiter.WrongState, "ended", p.pause)
        p.dump()
        p.table()
        with libiter.profile(""):
            self.assertRaisesRegex(libiter.WrongState, "another profile", p.table)

    def test_no_table(self):
        with libiter.profile("", aggregate=False) as p:
            self.assertRaisesRegex(libiter.WrongState, "aggregate", p.table)

    def test_a_file_that_cannot_be_made(self):
        with self.assertRaises(libiter.InputOutput):
            with libiter.profile(os.path.join("no", "such", "folder", "trace.json")):
                self.fail("it started")
        with libiter.profile(""):
            pass

    def test_options(self):
        self.assertRaises(libiter.InvalidArgument, libiter.profile, "", events_per_thread=-1)
        self.assertRaises(TypeError, libiter.profile, "", dump_period_ms="1 s")

    def test_scope_without_a_profile(self):
        with libiter.scope("nothing"):
            pass


if __name__ == "__main__":
    unittest.main()

"""libiter.diagnose() and Loader.verdict(): what they say, what they refuse, and what they leave behind."""
import ctypes as c
import gc
import math
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
import unittest
import weakref

import numpy as np

from support import HERE, eventually, needs, python

import libiter
from libiter import _diagnose, _native

ROWS = np.zeros((2048, 16), np.float32)
PROGRAM = """
import sys, time
import numpy as np
import libiter
loader = libiter.Loader(np.zeros((2048, 16), np.float32), batch_size=32, workers=1)
for number, batch in enumerate(loader):
    time.sleep(0.03)
    if number == 39:
        break
"""


def sleeping(loader, batches=16, seconds=0.02):
    """A consumer beside which a loader of arrays in memory takes no time."""
    for number, _ in enumerate(loader):
        time.sleep(seconds)
        if number + 1 == batches:
            break


def until_seen(loader, verdict):
    """Such a consumer, until the watch has seen ten batches: a thread of its own looks at the loader, and on a busy
    machine it may begin late. Returns the verdict."""
    until = time.monotonic() + 60
    while verdict().batches < 10 and time.monotonic() < until:
        sleeping(loader, 4)
    return verdict()


def slow_batches(batches=16, seconds=0.02):
    for _ in range(batches):
        time.sleep(seconds)
        yield np.zeros((8, 3), np.float32), np.zeros(8, np.int64)


def tasks():
    """Threads of this process, the library's, too."""
    return set(os.listdir("/proc/self/task"))


def loader_of_rows(**options):
    return libiter.Loader(ROWS, batch_size=32, **options)


def stream_dataset(test):
    """A dataset of C's that is a stream; the package makes none."""

    made = libiter.Dataset("synthetic:cifar10?n=10")
    like = _native.Desc.from_buffer_copy(_native.quick.iter_dataset_describe(made._handle).contents.fields[0].desc)

    def describe(_, out, err):
        field = out.contents.fields[0]
        field.name, field.desc = b"data", like
        out.contents.n_samples, out.contents.n_fields = _native.UNKNOWN, 1
        return 0

    def next_rows(_, count, rows, out_count, err):
        out_count[0] = count
        return 0

    ops = _native.DatasetOps(struct_size=c.sizeof(_native.DatasetOps), name=b"stream")
    ops.describe, ops.next = _native.DESCRIBE(describe), _native.NEXT(next_rows)
    ops.rewind = _native.REWIND(lambda _, err: 0)
    err, handle = _native.ErrorStruct(), c.c_void_p()
    test.addCleanup(lambda kept: None, ops)
    _native.check(_native.blocking.iter_dataset_create(c.byref(ops), None, c.byref(handle), c.byref(err)), err)
    made._handle, own = handle.value, made._handle
    _native.blocking.iter_dataset_unref(own)
    return made


class Verdicts(unittest.TestCase):
    def test_fields(self):
        with loader_of_rows(workers=1) as loader:
            verdict = until_seen(loader, loader.verdict)
        self.assertEqual(verdict.limit, "consumer")
        self.assertEqual(verdict.stage, "")
        self.assertFalse(verdict.is_sure and verdict.seconds < 3)
        self.assertEqual(verdict.changes, ())
        self.assertEqual(verdict.samples, 32 * verdict.batches)
        self.assertGreaterEqual(verdict.seconds, 0.02 * (verdict.batches - 1))
        self.assertLessEqual(verdict.rate, 32 / 0.02 * 1.5)
        self.assertGreaterEqual(verdict.consumer_rate, verdict.rate)
        self.assertGreater(verdict.loader_rate, verdict.rate)
        for share in (verdict.share, verdict.wait_share):
            self.assertTrue(0 <= share <= 1, share)
        self.assertGreaterEqual(verdict.cores_used, 0)
        self.assertIn(verdict.says, verdict.text)
        self.assertIn("consumer", verdict.says)

    def test_before_any_batch(self):
        with loader_of_rows() as loader:
            verdict = loader.verdict()
            self.assertEqual((verdict.limit, verdict.batches, verdict.changes), ("none", 0, ()))
            self.assertTrue(math.isnan(verdict.rate))
            self.assertIn("Nothing can be told", str(verdict))

    def test_another_loader_is_iterated_past_its_watch(self):
        batches = [np.zeros(4)] * 3
        watch = libiter.diagnose(batches)
        for _ in batches:
            pass
        self.assertIn("iterate over the watch", str(watch.verdict()))
        for _ in watch:
            pass
        self.assertNotIn("iterate over the watch", str(watch.verdict()))
        with self.assertRaisesRegex(TypeError, "expected a loader.*NoneType"):
            libiter.diagnose(None)

    def test_text_is_wrapped_and_changes_are_numbered(self):
        changes = tuple(
            libiter.Change("workers", "2", 0.5, "workers 1 -> 2: " + "about half as fast again " * 6) for _ in range(2)
        )
        values = {"limit": "workers", "text": "words of letters 12 % " * 20, "changes": changes}
        verdict = libiter.Verdict(*(values.get(name, 0) for name in libiter.Verdict.__dataclass_fields__))
        lines = str(verdict).split("\n")
        self.assertLessEqual(max(map(len, lines)), 100)
        self.assertGreater(len(lines), 6)
        self.assertFalse([line for line in lines if line.startswith("%")])
        starts = [line[:5] for line in lines if line.startswith("  ")]
        self.assertEqual([start for start in starts if start.strip()], ["  1. ", "  2. "])
        words = str(verdict).replace("  1. ", "").replace("  2. ", "").split()
        self.assertEqual(words, " ".join([verdict.text] + [change.text for change in changes]).split())

    def test_numbers_and_their_units_stay_in_the_text(self):
        with loader_of_rows() as loader:
            sleeping(loader, 4)
            verdict = loader.verdict()
        self.assertEqual(" ".join(str(verdict).split()), verdict.text)


class Watches(unittest.TestCase):
    def test_of_a_loader(self):
        with loader_of_rows() as loader:
            sleeping(loader, 3, 0)
            with libiter.diagnose(loader) as watch:
                until_seen(loader, watch.verdict)
            self.assertEqual(watch.verdict().limit, "consumer")  # also after `with`
            self.assertEqual(loader.verdict().limit, "consumer")

    def test_as_an_iterable(self):
        with loader_of_rows() as loader:
            watch = libiter.diagnose(loader)
            self.assertEqual(len(watch), len(loader))
            self.assertEqual([len(batch[0]) for batch in watch], [32] * 64)
            self.assertIn(watch.verdict().batches, range(65))

    def test_of_another_loader(self):
        watch = libiter.diagnose(slow_batches(), name="by hand")
        self.assertEqual(sum(len(labels) for _, labels in watch), 16 * 8)
        verdict = watch.verdict()
        self.assertEqual((verdict.limit, verdict.batches, verdict.samples), ("loader", 15, 15 * 8))  # not the first
        self.assertGreater(verdict.wait_share, 0.5)
        self.assertTrue(math.isnan(verdict.loader_rate))

    def test_of_another_loader_that_is_fast(self):
        watch = libiter.diagnose(slow_batches(16, 0))
        sleeping(watch)
        self.assertEqual(watch.verdict().limit, "consumer")

    def test_exception_of_another_loader(self):
        def fails():
            yield np.zeros(4)
            yield np.zeros(4)
            raise LookupError("no third one")

        watch = libiter.diagnose(fails())
        with self.assertRaisesRegex(LookupError, "no third one"):
            list(watch)
        self.assertLessEqual(watch.verdict().batches, 1)

    def test_samples_of_a_batch(self):
        rows = np.zeros((5, 2))
        for batch in (rows, [rows, 1], (rows, rows), {"data": rows}, [{"x": (rows,)}]):
            self.assertEqual(_diagnose.samples_in(batch), 5)
        for batch in ("text", 7, [], np.float32(1)):
            self.assertEqual(_diagnose.samples_in(batch), 1)

    def test_closed(self):
        watch = libiter.diagnose(slow_batches())
        watch.close()
        watch.close()
        self.assertEqual(repr(watch), "Watch(closed)")
        for call in (watch.verdict, watch.prove, lambda: watch.html("x.html"), lambda: list(watch)):
            with self.assertRaisesRegex(libiter.WrongState, "the watch is closed"):
                call()
        loader = loader_of_rows()
        loader.close()
        for call in (loader.verdict, lambda: libiter.diagnose(loader)):
            with self.assertRaisesRegex(libiter.WrongState, "it is closed"):
                call()

    def test_readable_after_the_loader_was_closed(self):
        with loader_of_rows(workers=1) as loader:
            watch = libiter.diagnose(loader)
            seen = until_seen(loader, watch.verdict)
        self.assertGreaterEqual(watch.verdict().batches, seen.batches)
        self.assertEqual(watch.verdict().limit, "consumer")

    def test_read_and_closed_by_other_threads(self):
        with loader_of_rows(workers=1) as loader:
            watch, wrong = libiter.diagnose(loader), []

            def read():
                try:
                    while True:
                        watch.verdict()
                except libiter.WrongState:
                    pass
                except BaseException as reason:  # pylint: disable=broad-except
                    wrong.append(reason)

            threads = [threading.Thread(target=read) for _ in range(3)]
            for thread in threads:
                thread.start()
            sleeping(loader, 5)
            watch.close()
            for thread in threads:
                thread.join()
            self.assertEqual(wrong, [])


class Lives(unittest.TestCase):
    def test_own_watch_does_not_keep_the_loader(self):
        for first in (lambda loader: sleeping(loader, 2, 0), lambda loader: loader.verdict()):
            loader = loader_of_rows(workers=1)
            first(loader)
            self.assertIsNotNone(loader._watch)
            gone, before = weakref.ref(loader), gc.isenabled()
            gc.disable()  # by its references alone
            try:
                del loader
                self.assertIsNone(gone())
            finally:
                if before:
                    gc.enable()

    def test_no_thread_is_left(self):
        loader_of_rows(workers=2).close()
        before = tasks()
        loader = loader_of_rows(workers=2)
        sleeping(loader, 4)
        watch = libiter.diagnose(loader)
        sleeping(loader, 4)
        self.assertEqual(len(tasks() - before), 4)  # workers, and a thread of each watch
        loader.close()
        self.assertTrue(eventually(lambda: len(tasks() - before) == 1))
        watch.close()
        self.assertTrue(eventually(lambda: not tasks() - before))

    def test_dataset_in_python_is_not_called_after_close(self):
        calls = []

        class Squares:
            def __len__(self):
                return 1000

            def get(self, indices):
                calls.append(len(indices))
                return indices.astype(np.float32)

        loader = libiter.Loader(Squares(), batch_size=10, workers=1, prefetch=4)
        watch = libiter.diagnose(loader)
        sleeping(loader, 5, 0)
        loader.close()
        count = len(calls)
        time.sleep(0.05)
        self.assertEqual(len(calls), count)
        watch.close()

    def test_child_of_fork(self):
        out = python(
            """
import os, sys
import numpy as np
import libiter
def some(loader):
    for number, _ in enumerate(loader):
        if number == 20:
            return loader.verdict().limit != ""
rows = np.zeros((2048, 16), np.float32)
loader = libiter.Loader(rows, batch_size=32, workers=1)
watch, other = libiter.diagnose(loader), libiter.diagnose(iter([rows] * 9))
some(loader), next(iter(other))
child = os.fork()
if child == 0:
    for call in (loader.verdict, watch.verdict, watch.prove, other.verdict):
        try:
            call()
        except libiter.WrongState as reason:
            assert "fork" in str(reason), reason
        else:
            os._exit(1)
    watch.close()
    print("child", some(libiter.Loader(rows, batch_size=32, workers=1)), flush=True)
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
print("parent", some(loader))
"""
        )
        self.assertEqual(out.split(), ["child", "True", "parent", "True"])


class Proofs(unittest.TestCase):
    def test_no_change(self):
        with loader_of_rows() as loader:
            watch = libiter.diagnose(loader)
            until_seen(loader, watch.verdict)
            proof = watch.prove(0.1)
        self.assertEqual(proof.advice, "")
        self.assertTrue(math.isnan(proof.loader))
        self.assertIn("Nothing was tried", str(proof))

    def test_change(self):
        class Slow:
            def __len__(self):
                return 1000

            def get(self, indices):
                time.sleep(0.002 * len(indices))
                return indices.astype(np.float32)

        data = libiter.Dataset(Slow(), parallel=True)
        with libiter.Loader(data, batch_size=10, workers=0) as loader:
            watch = libiter.diagnose(loader)
            verdict = until_seen(loader, watch.verdict)  # it takes as long as the loader: one worker helps
            proof = watch.prove(0.2)
            self.assertEqual(verdict.limit, "workers")
            self.assertEqual(verdict.changes[0].option, "workers")
            self.assertGreater(verdict.changes[0].gain, 0)
            self.assertIn("  1. workers", str(verdict))
        self.assertEqual(proof.advice, "workers=" + verdict.changes[0].value)
        self.assertGreater(proof.loader_rate, 0)
        self.assertLessEqual(proof.loader_rate, 1 / 0.002)
        self.assertGreater(proof.loader, 0)
        self.assertGreater(proof.loop, 0)
        self.assertIn("Tried workers=", str(proof))

    def test_refused(self):
        watch = libiter.diagnose(slow_batches(4))
        list(watch)
        with self.assertRaisesRegex(libiter.Unsupported, r"compare\(\)"):
            watch.prove()
        with self.assertRaisesRegex(libiter.Unsupported, "no torch DataLoader"):
            watch.compare()
        with loader_of_rows() as loader:
            watch = libiter.diagnose(loader)
            with self.assertRaisesRegex(libiter.InvalidArgument, "seconds is -1"):
                watch.prove(-1)

    def test_stream(self):
        with libiter.Loader(stream_dataset(self), batch_size=2) as loader:
            watch = libiter.diagnose(loader)
            sleeping(loader, 4, 0)
            with self.assertRaisesRegex(libiter.Unsupported, "stream"):
                watch.prove()


class Reports(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        self.file = os.path.join(self.folder, "verdict.html")

    def text(self, path=None):
        with open(path or self.file, encoding="utf-8") as file:
            return file.read()

    def test_html(self):
        with loader_of_rows() as loader:
            watch = libiter.diagnose(loader, name="my <rows>")
            until_seen(loader, watch.verdict)
            watch.html(self.file)
            page = self.text()
            self.assertRegex(page, '"limit": ?"consumer"')
            self.assertIn("The consumer is the limit", page)
            self.assertNotIn("my <rows>", page)  # no tag of it in the page
            with self.assertRaisesRegex(libiter.InputOutput, "no/such"):
                watch.html(os.path.join(self.folder, "no/such/file.html"))

    def run_with(self, value, last="", code=0):
        environment = {**os.environ, "ITER_DIAGNOSE": value}
        done = subprocess.run(
            [sys.executable, "-c", PROGRAM + last], cwd=HERE, env=environment, capture_output=True, text=True, timeout=60
        )
        self.assertEqual(done.returncode, code, done.stderr)
        return done.stderr

    def test_environment(self):
        for last, code in (("loader.close()", 0), ("", 0), ("sys.exit(3)", 3), ("1 / 0", 1)):
            with self.subTest(last):
                said = self.run_with("1", last, code)
                self.assertEqual(said.count("libiter: verdict on"), 1, said)
                self.assertIn("The consumer is the limit", said)

    def test_environment_names_a_file(self):
        for last, code in (("loader.close()", 0), ("", 0), ("sys.exit(3)", 3)):
            with self.subTest(last):
                said = self.run_with(self.file, last, code)
                self.assertIn("(limit: consumer) in " + self.file, said)
                self.assertRegex(self.text(), '"limit": ?"consumer"')
                os.remove(self.file)

    def test_environment_says_no(self):
        for value in ("", "0"):
            self.assertEqual(self.run_with(value), "")

    def test_environment_in_a_wheel(self):
        for name in ("libiter.so", "libiter_diagnose.so"):  # without the numbers that an installed library has
            shutil.copy(os.path.realpath(_native.library_path(name)), os.path.join(self.folder, name))
        environment = {**os.environ, "ITER_DIAGNOSE": "1", "LIBITER_LIBRARY": os.path.join(self.folder, "libiter.so")}
        done = subprocess.run(
            [sys.executable, "-c", PROGRAM], cwd=HERE, env=environment, capture_output=True, text=True, timeout=60
        )
        self.assertEqual(done.stderr.count("libiter: verdict on"), 1, done.stderr)

    def test_missing_library(self):
        copy = os.path.join(self.folder, "libiter.so")
        shutil.copy(os.path.realpath(_native.library_path()), copy)
        done = subprocess.run(
            [
                sys.executable,
                "-c",
                PROGRAM
                + """
for call in (loader.verdict, lambda: libiter.diagnose(loader), lambda: libiter.diagnose([1])):
    try:
        call()
    except libiter.Unsupported as reason:
        print(reason)
""",
            ],
            cwd=HERE,
            env={**os.environ, "LIBITER_LIBRARY": copy},
            stdout=subprocess.PIPE,
            timeout=60,
        )
        self.assertEqual(done.returncode, 0)
        self.assertEqual(done.stdout.decode().count("diagnose: its library could not be loaded"), 3)


class Torch(unittest.TestCase):
    @needs("torchvision")
    def test_native_loader(self):
        import torchvision
        from libiter.torch import DataLoader

        dataset = torchvision.datasets.FakeData(1)  # only so that an import error skips
        del dataset
        from vision_sets import cifar

        data = cifar(200)
        data.transform = torchvision.transforms.ToTensor()
        loader = DataLoader(data, batch_size=10)
        self.assertEqual(loader.way, "native")
        watch = libiter.diagnose(loader)
        self.assertEqual(until_seen(loader, watch.verdict).limit, "consumer")

    @needs("torch")
    def test_compare(self):
        import torch
        import torch.utils.data as D

        data = D.TensorDataset(torch.zeros(500, 8), torch.zeros(500, dtype=torch.int64))
        watch = libiter.diagnose(D.DataLoader(data, batch_size=10))
        self.assertEqual(sum(len(y) for _, y in watch), 500)
        self.assertEqual(watch.verdict().samples, 490)
        made = watch.compare(0.2)
        self.assertGreater(made.theirs, 0)
        self.assertGreater(made.ours, 0)
        self.assertGreaterEqual(made.loop, 1)
        self.assertIn(made.way, ("native", "python"))
        self.assertIn("libiter", str(made))

    @needs("torch")
    def test_compare_refused(self):
        import torch
        import torch.utils.data as D

        class Stream(D.IterableDataset):
            def __iter__(self):
                return iter(torch.zeros(20, 3))

        watch = libiter.diagnose(D.DataLoader(Stream(), batch_size=5))
        list(watch)
        with self.assertRaises(libiter.Unsupported):
            watch.compare(0.1)


if __name__ == "__main__":
    unittest.main()

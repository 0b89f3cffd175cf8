"""A batch is never written while anything looks at it; what is lent comes back once; nothing leaks."""
from __future__ import annotations

import gc
import os
import sys
import threading
import unittest
import weakref

import numpy as np

import libiter
from libiter import _callbacks
from support import arrays, eventually, needs


def loader_of(count=4000, **options):
    options.setdefault("batch_size", 10)
    options.setdefault("workers", 2)
    return libiter.Loader(arrays(count), **options)


def resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def run_on(loader, batches=50):
    """Takes batches and lets them go, so that every free slot is written again."""
    for _ in range(batches):
        try:
            next(loader)
        except StopIteration:
            iter(loader)


class Views(unittest.TestCase):
    def check(self, view_of, read=None, output="numpy", **options):
        """Holds what view_of(batch) gives alone, goes on, and compares."""
        data = arrays(4000)[0]
        read = read or (lambda view: np.asarray(view))
        for workers in (0, 2):
            loader = loader_of(workers=workers, output=output, **options)
            for _ in range(3):
                batch = next(loader)
                index = batch.index
                view = view_of(batch)
                expected = np.array(read(view))
                del batch
                gc.collect()
                run_on(loader)
                np.testing.assert_array_equal(np.array(read(view)), expected)
                self.assertTrue(np.isin(expected, data[index]).all())
                del view
            run_on(loader)

    def test_array(self):
        self.check(lambda batch: batch.data)

    def test_slice(self):
        self.check(lambda batch: batch.data[3:7, ::2])

    def test_a_row_of_a_transposed_view(self):
        self.check(lambda batch: batch.data.T[1:][::-1])

    def test_view_as_bytes(self):
        self.check(lambda batch: batch.data.view(np.uint8), lambda view: view.view(np.float32))

    def test_memoryview(self):
        self.check(lambda batch: memoryview(batch.data), np.asarray)

    def test_frombuffer(self):
        self.check(lambda batch: np.frombuffer(batch.data, np.float32))

    def test_broadcast(self):
        self.check(lambda batch: np.broadcast_to(batch.data[0], (5, 3)))

    def test_iterator(self):
        self.check(lambda batch: batch.data.flat, lambda view: view[:10])

    def test_the_batch_alone(self):
        self.check(lambda batch: batch, lambda batch: batch.data)

    def test_pickled_tuple_of_views(self):
        self.check(lambda batch: tuple(batch), lambda views: views[0])

    def test_closed_batch(self):
        def view_of(batch):
            array = batch.data
            batch.close()
            return array

        self.check(view_of)

    def test_from_dlpack_of_numpy(self):
        if not hasattr(np, "from_dlpack"):
            self.skipTest("numpy has no from_dlpack")
        self.check(lambda batch: np.from_dlpack(batch.data))

    def test_exported(self):
        if np.lib.NumpyVersion(np.__version__) < "2.1.0":
            self.skipTest("numpy %s does not know versioned DLPack" % np.__version__)
        self.check(lambda batch: np.from_dlpack(batch.data), output="dlpack")

    def test_an_exporter_alone(self):
        if np.lib.NumpyVersion(np.__version__) < "2.1.0":
            self.skipTest("numpy %s does not know versioned DLPack" % np.__version__)
        self.check(lambda batch: batch.data, np.from_dlpack, output="dlpack")

    def test_a_capsule_alone(self):
        class Once:
            def __init__(self, tensor):
                self.device, self.capsule = tensor.__dlpack_device__(), tensor.__dlpack__(max_version=(1, 0))

            def __dlpack_device__(self):
                return self.device

            def __dlpack__(self, **_):
                return self.capsule

        if np.lib.NumpyVersion(np.__version__) < "2.1.0":
            self.skipTest("numpy %s does not know versioned DLPack" % np.__version__)
        loader = loader_of()
        exporter = libiter.Loader(arrays(4000), batch_size=10, workers=2, output="dlpack")
        once = Once(next(exporter).data)
        run_on(exporter)
        np.testing.assert_array_equal(np.from_dlpack(once), next(loader).data)

    @needs("torch")
    def test_torch(self):
        import torch

        self.check(lambda batch: batch.data, lambda view: view.numpy(), output="torch")
        self.check(lambda batch: batch.data[1:].t(), lambda view: view.numpy(), output="torch")
        self.check(lambda batch: batch.data.detach().view(-1)[::3], lambda view: view.numpy(), output="torch")
        self.check(lambda batch: torch.from_dlpack(batch.data), lambda view: view.numpy())
        self.check(lambda batch: batch.data.untyped_storage(),
                   lambda view: torch.tensor([], dtype=torch.float32).set_(view).numpy()[:3], output="torch")  # fmt: skip

    @needs("jax")
    def test_jax(self):
        self.check(lambda batch: batch.data, output="jax")

    def test_in_threads(self):
        """Each thread keeps a view for a while, and none changes."""
        loader = loader_of(40000, workers=4, max_held=20)
        wrong, lock = [], threading.Lock()

        def work():
            for _ in range(100):
                with lock:
                    batch = next(loader, None)
                    if batch is None:
                        return
                view, expected = batch.data[::2], batch.index.astype(np.float32)[::2] * 10
                del batch
                for _ in range(20):
                    if not np.array_equal(view[:, 0], expected):
                        wrong.append(expected)

        threads = [threading.Thread(target=work) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(wrong, [])

    def test_after_the_loader(self):
        """Arrays stay valid after close(), and after nothing but the array is left."""
        data = arrays(4000)[0]
        for end in (lambda loader: loader.close(), lambda loader: None):
            for workers in (0, 2):
                loader = loader_of(workers=workers)
                held = [next(loader).data for _ in range(3)]
                end(loader)
                del loader
                gc.collect()
                others = [next(loader_of(workers=0)).data for _ in range(5)]  # takes the memory if it was freed
                np.testing.assert_array_equal(np.concatenate(held), data[:30])
                del others

    def test_written_by_the_program(self):
        """What a program writes into a batch does not show in the next one."""
        loader = loader_of(workers=0, views="no")
        for epoch in range(3):
            for batch in loader:
                np.testing.assert_array_equal(batch.label, batch.index.astype(np.int64) + 1000)
                batch.data[:], batch.label[:] = -1, -1

    def test_copy(self):
        data = arrays(4000)[0]
        for output in ("numpy", "torch", "jax"):
            if output != "numpy":
                try:
                    __import__(output)
                except ImportError:
                    continue
            batches = list(loader_of(output=output, copy=True))
            self.assertEqual(len(batches), 400)
            np.testing.assert_array_equal(np.concatenate([np.asarray(batch.data) for batch in batches]), data)
            self.assertEqual(np.concatenate([batch.index for batch in batches]).tolist(), list(range(4000)))
            self.assertEqual({int(batch.number) for batch in batches}, set(range(400)))
            self.assertTrue(all(batch.valid.all() and batch.pad == 0 for batch in batches))

    def test_max_held(self):
        for max_held in (1, 2, 5):
            loader = loader_of(max_held=max_held, workers=1)
            held = [next(loader) for _ in range(max_held)]
            with self.assertRaisesRegex(libiter.WrongState, r"%d .*copy=True" % max_held):
                next(loader)
            held.pop()
            held.append(next(loader))
            self.assertEqual(held[-1].number, max_held)


class Leaks(unittest.TestCase):
    def test_arrays_are_released_once(self):
        """The loader's arrays live as long as it or a batch, and no longer."""
        for last in ("loader", "batch"):
            for workers in (0, 2):
                data = arrays(100)[0]
                there = weakref.ref(data)
                gc.collect()  # what earlier tests left
                before = set(_callbacks._kept)
                held = {"loader": libiter.Loader(data, batch_size=10, workers=workers)}
                held["batch"] = next(held["loader"])
                del data
                del held["batch" if last == "loader" else "loader"]
                gc.collect()
                self.assertIsNotNone(there())
                held.clear()
                self.assertTrue(eventually(lambda: there() is None))
                self.assertLessEqual(set(_callbacks._kept), before)

    def test_arrays_of_a_loader_that_could_not_be_made(self):
        data = arrays(100)[0]
        there = weakref.ref(data)
        with self.assertRaises(libiter.InvalidArgument):
            libiter.Loader(data, "no-such-stage", batch_size=10)
        with self.assertRaises(libiter.InvalidArgument):
            libiter.Loader(data, batch_size=10, rank=3, ranks=2)
        del data
        gc.collect()
        self.assertIsNone(there())

    @unittest.skipIf(
        sys.version_info[:2] == (3, 13) and not getattr(sys, "_is_gil_enabled", bool)(),
        "the free-threaded Python 3.13 never frees a class",
    )
    def test_loaders_and_batches(self):
        """2,000 loaders, some with batches that outlive them: the process does not grow."""

        def some(count):
            for i in range(count):
                loader = libiter.Loader(arrays(100), batch_size=50, workers=i % 2, output="numpy" if i % 3 else "dlpack")
                batch = next(loader)
                if i % 2:
                    loader.close()
                del loader
                if i % 3 == 0:
                    batch.data.__dlpack__(max_version=(1, 0) if i % 2 else None)  # a capsule that is not taken
                del batch

        some(300)
        gc.collect()
        before, objects = resident(), len(gc.get_objects())
        some(1500)
        gc.collect()
        self.assertLess(len(gc.get_objects()) - objects, 300)
        self.assertLess(resident() - before, 4 << 20)

    def test_batches_of_varying_shape(self):
        loader = libiter.Loader("synthetic:imdb?n=512&variable=yes&maxlen=200", "pad-batch", batch_size=4, shuffle=True)
        for _ in range(3):
            for batch in loader:
                batch.lengths("data")
        gc.collect()
        before = len(gc.get_objects())
        for _ in range(10):
            for batch in loader:
                batch.lengths("data")
        gc.collect()
        self.assertLess(len(gc.get_objects()) - before, 1000)

    def test_states_and_questions(self):
        loader = loader_of()
        next(loader)

        def ask():
            for _ in range(300):
                loader.state_dict(), loader.stats(), loader.plan(), loader.failures(), loader.activity(), repr(loader)

        ask()
        gc.collect()
        before = resident()
        for _ in range(5):
            ask()
        self.assertLess(resident() - before, 4 << 20)

    def test_errors(self):
        """An error keeps no batch: the loader goes on for ever."""

        class Bad:
            fields = {"data": ("i64", ())}

            def __len__(self):
                return 1000

            def get(self, indices):
                if (indices % 10 == 7).any():
                    raise ValueError("planned")
                return indices.astype(np.int64)

        loader = libiter.Loader(Bad(), batch_size=5, workers=2)
        taken = failed = 0
        while True:
            try:
                taken += len(next(loader).index)
            except libiter.Malformed:
                failed += 1
            except StopIteration:
                break
        self.assertEqual((taken, failed), (500, 100))


if __name__ == "__main__":
    unittest.main()

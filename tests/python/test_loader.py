"""Loader: what a `for` gives, epochs, positions, errors, batches."""
from __future__ import annotations

import copy
import inspect
import os
import pickle
import tempfile
import threading
import unittest

import numpy as np

import libiter
from support import arrays, cifar_file, cifar_records, indices_of, python


class Epochs(unittest.TestCase):
    def test_each_for_is_an_epoch(self):
        for workers in (0, 2):
            with libiter.Loader(arrays(), batch_size=16, shuffle=True, workers=workers, seed=3) as loader:
                orders = [indices_of(loader) for _ in range(3)]
                for epoch, order in enumerate(orders):
                    self.assertEqual(sorted(order), list(range(100)), epoch)
                self.assertEqual(len({tuple(order) for order in orders}), 3)
                self.assertEqual(loader.epoch, 2)

    def test_rows_are_those_of_the_index(self):
        data, label = arrays()
        with libiter.Loader((data, label), batch_size=7, shuffle=True, workers=2) as loader:
            for batch in loader:
                np.testing.assert_array_equal(batch.data, data[batch.index])
                np.testing.assert_array_equal(batch.label, label[batch.index])

    def test_break_then_for_begins_the_next_epoch(self):
        with libiter.Loader(arrays(), batch_size=10, shuffle=True, seed=1, workers=1) as whole:
            epochs = [indices_of(whole) for _ in range(3)]
        with libiter.Loader(arrays(), batch_size=10, shuffle=True, seed=1, workers=1) as loader:
            for batch in loader:
                if batch.number == 3:
                    break
            self.assertEqual((batch.epoch, batch.index.tolist()), (0, epochs[0][30:40]))
            del batch
            self.assertEqual(indices_of(loader), epochs[1])
            self.assertEqual(indices_of(loader), epochs[2])

    def test_next_goes_on_where_a_for_stopped(self):
        loader = libiter.Loader(arrays(), batch_size=10)
        for _ in loader:
            break
        self.assertEqual(next(loader).index.tolist(), list(range(10, 20)))

    def test_iter_twice_before_the_first_batch_is_one_epoch(self):
        loader = libiter.Loader(arrays(), batch_size=50)
        iter(loader), iter(loader)
        self.assertEqual([batch.epoch for batch in loader], [0, 0])

    def test_next_after_the_end_stays_at_the_end(self):
        loader = libiter.Loader(arrays(), batch_size=50)
        iterator = iter(loader)
        self.assertEqual(len(list(zip(iterator, range(5)))), 2)
        for _ in range(3):
            self.assertRaises(StopIteration, next, iterator)
        self.assertEqual([batch.epoch for batch in loader], [1, 1])

    def test_epochs(self):
        loader = libiter.Loader(arrays(), batch_size=50, epochs=2)
        self.assertEqual([[batch.epoch for batch in loader] for _ in range(4)], [[0, 0], [1, 1], [], []])

    def test_set_epoch(self):
        with libiter.Loader(arrays(), batch_size=10, shuffle=True, workers=2) as loader:
            orders = [indices_of(loader) for _ in range(4)]
            for epoch in (2, 0, 3, 3, 1):
                loader.set_epoch(epoch)
                self.assertEqual(loader.position, (epoch, 0))
                self.assertEqual(indices_of(loader), orders[epoch])

    def test_seek(self):
        with libiter.Loader(arrays(), batch_size=10, shuffle=True, workers=2) as loader:
            orders = [indices_of(loader) for _ in range(2)]
            loader.seek(1, 70)
            self.assertEqual(indices_of(loader), orders[1][70:])
            with self.assertRaisesRegex(libiter.InvalidArgument, "70"):
                loader.seek(1, 71)
            for wrong in (-1, 2**32, 2**70):
                with self.assertRaises((libiter.InvalidArgument, OverflowError, TypeError)):
                    loader.set_epoch(wrong)

    def test_length(self):
        for options, expected in (({}, 10), ({"batch_size": 16}, 7), ({"batch_size": 16, "last_batch": "discard"}, 6),
                                  ({"ranks": 2, "rank": 1}, 5), ({"subset": [5, 6, 7]}, 1)):  # fmt: skip
            options.setdefault("batch_size", 10)
            with libiter.Loader(arrays(), **options) as loader:
                self.assertEqual(len(loader), expected)
                self.assertEqual(sum(1 for _ in loader), expected)

    def test_no_length_is_a_type_error(self):
        chain = "pad-batch"
        spec = "synthetic:imdb?n=64&variable=yes"
        with libiter.Loader(spec, chain, batch_size=8, sampler="bucket:n-buckets=2") as loader:
            try:
                length = len(loader)
            except TypeError as reason:
                self.assertIn("no fixed length", str(reason))
            else:
                self.assertEqual(length, sum(1 for _ in loader))

    def test_the_loop_of_ranks_is_the_loop_of_one(self):
        with libiter.Loader(arrays(), batch_size=20, shuffle=True, seed=5) as one:
            expected = [batch.index.tolist() for batch in one]
        parts = []
        for rank in range(4):
            with libiter.Loader(arrays(), batch_size=5, shuffle=True, seed=5, rank=rank, ranks=4) as loader:
                parts.append([batch.index.tolist() for batch in loader])
        self.assertEqual([sum(several, []) for several in zip(*parts)], expected)

    def test_another_number_of_workers_is_the_same(self):
        with cifar_file() as spec:
            seen = []
            for workers in (0, 1, 2, 8, "auto"):
                chain = "random-crop:size=32,pad=4 | random-flip | to:f32,nchw"
                with libiter.Loader(spec, chain, batch_size=16, shuffle=True, seed=9, workers=workers) as loader:
                    seen.append([(batch.index.tobytes(), batch.data.tobytes()) for _ in range(2) for batch in loader])
            self.assertTrue(all(one == seen[0] for one in seen))

    def test_two_loaders_do_not_disturb_each_other(self):
        data = arrays()
        loaders = [libiter.Loader(data, batch_size=10, workers=workers) for workers in (0, 1, 2)]
        for batches in zip(*loaders):
            self.assertEqual(len({batch.index.tobytes() for batch in batches}), 1)


class Positions(unittest.TestCase):
    def test_state_survives_pickle_and_restores(self):
        for workers in (0, 2):
            loader = libiter.Loader(arrays(), batch_size=10, shuffle=True, workers=workers)
            whole = indices_of(loader) and indices_of(loader)
            loader.set_epoch(1)
            for batch in loader:
                if batch.number == 3:
                    state = pickle.loads(pickle.dumps(loader.state_dict()))
                    break
            del batch
            self.assertEqual(len(state["position"]), 96)
            for give in (state, state["position"]):
                other = libiter.Loader(arrays(), batch_size=10, shuffle=True)
                other.load_state_dict(give)
                self.assertEqual(other.position, (1, 40))
                self.assertEqual(indices_of(other), whole[40:])
                self.assertEqual(other.epoch, 1)
                self.assertEqual({batch.epoch for batch in other}, {2})

    def test_the_end_of_an_epoch_goes_on_with_the_next(self):
        loader = libiter.Loader(arrays(), batch_size=10)
        for batch in loader:
            pass
        for state in (loader.state_dict(),):
            loader.load_state_dict(state)
            self.assertEqual([batch.epoch for batch in loader], [1] * 10)

    def test_a_state_before_the_first_batch(self):
        loader = libiter.Loader(arrays(), batch_size=10, shuffle=True)
        state = loader.state_dict()
        order = indices_of(loader)
        loader.load_state_dict(state)
        self.assertEqual(indices_of(loader), order)

    def test_load_in_the_middle_of_a_for(self):
        loader = libiter.Loader(arrays(), batch_size=10)
        seen, state = [], None
        for batch in loader:
            seen.append(batch.number)
            if batch.number == 2 and state is None:
                state = loader.state_dict()
            if len(seen) == 5:
                loader.load_state_dict(state)
        self.assertEqual(seen, [0, 1, 2, 3, 4, 3, 4, 5, 6, 7, 8, 9])

    def test_refused(self):
        loader = libiter.Loader(arrays(), batch_size=10, shuffle=True, seed=1)
        state = loader.state_dict()
        for other in (libiter.Loader(arrays(99), batch_size=10, shuffle=True, seed=1),
                      libiter.Loader(arrays(), batch_size=10, shuffle=True, seed=2),
                      libiter.Loader(arrays(), batch_size=10, seed=1)):  # fmt: skip
            before = other.position
            with self.assertRaisesRegex(libiter.InvalidArgument, "position|saved"):
                other.load_state_dict(state)
            self.assertEqual(other.position, before)
        for bad in ({}, {"version": 2, "position": state["position"]}, {"version": 1, "position": "x"}, b"", b"x" * 96,
                    state["position"][:-1], bytes(96)):  # fmt: skip
            with self.assertRaises(libiter.Malformed):
                loader.load_state_dict(bad)
        for bad in (None, 3, [1]):
            with self.assertRaises(TypeError):
                loader.load_state_dict(bad)
        self.assertEqual(len(indices_of(loader)), 100)


class Batches(unittest.TestCase):
    def test_what_a_batch_knows(self):
        data, label = arrays(23)
        with libiter.Loader({"data": data, "label": label}, batch_size=10, last_batch="pad", workers=1) as loader:
            batches = []
            for batch in loader:
                batches.append((batch.number, batch.epoch, batch.pad, batch.n_failed, batch.index.tolist(),
                                batch.position.tolist(), batch.valid.tolist()))  # fmt: skip
        self.assertEqual(batches[0], (0, 0, 0, 0, list(range(10)), list(range(10)), [True] * 10))
        self.assertEqual(batches[2][:5], (2, 0, 7, 0, [20, 21, 22, 0, 1, 2, 3, 4, 5, 6]))

    def test_a_named_tuple(self):
        data, label = arrays(8)
        batch = next(iter(libiter.Loader({"pixels": data, "class": label, "index": label, "x-y": label}, batch_size=8)))
        self.assertIsInstance(batch, tuple)
        self.assertEqual(batch._fields, ("pixels", "class", "index", "x-y"))
        self.assertEqual(list(batch._asdict()), ["pixels", "class", "index", "x-y"])
        self.assertIs(batch.pixels, batch[0])
        self.assertIs(batch.class_, batch[1])
        self.assertIs(batch.index_, batch[2])
        self.assertIs(batch.x_y, batch[3])
        self.assertEqual(batch.index.tolist(), list(range(8)))
        self.assertIn("float32 [8, 3]", repr(batch))
        pixels, label, _, _ = batch
        self.assertIs(pixels, batch[0])

    def test_pickled_it_is_a_copy(self):
        batch = next(iter(libiter.Loader(arrays(8), batch_size=8)))
        again = pickle.loads(pickle.dumps(batch))
        np.testing.assert_array_equal(again.data, batch.data)
        self.assertEqual(again._fields, batch._fields)
        with self.assertRaises(libiter.WrongState):
            again.index

    def test_lengths(self):
        with libiter.Loader("synthetic:imdb?n=16&variable=yes", "pad-batch", batch_size=8) as loader:
            batch = next(iter(loader))
            lengths = batch.lengths("data")
            self.assertEqual((lengths.dtype, lengths.shape), (np.int32, (8,)))
            self.assertEqual(batch.data.shape[1], lengths.max())
            with self.assertRaises(KeyError):
                batch.lengths("nothing")
            with self.assertRaises(libiter.InvalidArgument):
                batch.lengths("label")

    def test_close(self):
        data, _ = arrays(8)
        loader = libiter.Loader(data, batch_size=4)
        batch = next(iter(loader))
        (array,) = batch
        batch.close()
        batch.close()
        with self.assertRaisesRegex(libiter.WrongState, "closed"):
            batch.index
        np.testing.assert_array_equal(array, data[:4])

    def test_no_rows_for_this_rank(self):
        """A last batch with fewer rows than ranks."""
        shapes = []
        for rank in range(4):
            with libiter.Loader(arrays(10), batch_size=2, rank=rank, ranks=4, workers=1) as loader:
                shapes.append([(len(b.index), b.data.shape, len(b.position), len(b.valid)) for b in loader])
        self.assertEqual(sorted(one[-1] for one in shapes), [(0, (0, 3), 0, 0)] * 2 + [(1, (1, 3), 1, 1)] * 2)

    def test_fields(self):
        with cifar_file() as spec, libiter.Loader(spec, "to:f32,nchw", batch_size=5) as loader:
            data, label = loader.fields
            self.assertEqual((data.name, data.role, data.dtype, data.shape), ("data", "data", "f32", (5, 3, 32, 32)))
            self.assertEqual(data.layout, "NCHW")
            self.assertEqual((label.name, label.role, label.shape), ("label", "label", (5,)))
            images, _ = next(loader)
            records = cifar_records(5)
            self.assertEqual(images.dtype, np.float32)
            np.testing.assert_array_equal(images.reshape(5, -1), records[:, 1:].astype(np.float32))


class Faults(unittest.TestCase):
    """A file of pictures, one of which is no picture."""

    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.folder.cleanup)
        png = bytes.fromhex(
            "89504e470d0a1a0a0000000d49484452000000010000000108020000009077 53de0000000c4944415408d763f8cfc000000301010018dd8db00000"
            "000049454e44ae426082".replace(" ", ""))
        for name in ("a", "b"):
            os.makedirs(os.path.join(cls.folder.name, name))
            for i in range(4):
                with open(os.path.join(cls.folder.name, name, "%d.png" % i), "wb") as file:
                    file.write(png if (name, i) != ("b", 1) else b"no picture")
        cls.spec = "folder:" + cls.folder.name

    def loader(self, **options):
        options.setdefault("workers", 1)
        return libiter.Loader(self.spec, "resize:size=2", batch_size=2, **options)

    def test_fail_raises_and_goes_on(self):
        for workers in (0, 2):
            with self.loader(workers=workers) as loader:
                iter(loader)
                numbers = [next(loader).number, next(loader).number]
                with self.assertRaisesRegex(libiter.Malformed, r"b/1\.png") as raised:
                    next(loader)
                self.assertEqual(raised.exception.status, "EFORMAT")
                self.assertIsInstance(raised.exception, ValueError)
                self.assertEqual(numbers + [next(loader).number], [0, 1, 3])
                self.assertRaises(StopIteration, next, loader)

    def test_blank(self):
        with self.loader(on_error="blank") as loader:
            batches = [(b.n_failed, b.valid.tolist(), bool(b.data[1].any())) for b in loader]
            self.assertEqual([one[0] for one in batches], [0, 0, 1, 0])
            self.assertEqual(batches[2][1:], ([True, False], False))
            (failure,) = loader.failures()
            self.assertEqual((failure.epoch, failure.position, failure.index, failure.status), (0, 5, 5, "EFORMAT"))
            self.assertIn("b/1.png", failure.message)
            self.assertEqual(loader.stats().n_failures, 1)

    def test_replace(self):
        with self.loader(on_error="replace") as loader:
            batches = [(b.n_failed, b.valid.tolist(), b.index.tolist()) for b in loader]
            self.assertEqual([one[0] for one in batches], [0, 0, 1, 0])
            self.assertEqual(batches[2][1], [True, True])
            self.assertNotEqual(batches[2][2][1], 5)

    def test_max_failures(self):
        with self.loader(on_error="blank", max_failures=1) as loader:
            self.assertEqual(sum(b.n_failed for b in loader), 1)
            with self.assertRaisesRegex(libiter.Error, "max_failures|failed"):
                for _ in range(3):
                    for _ in loader:
                        pass


class Errors(unittest.TestCase):
    def test_no_pickle_and_no_copy(self):
        with libiter.Loader(arrays()) as loader:
            for take in (pickle.dumps, copy.copy, copy.deepcopy):
                with self.assertRaisesRegex(TypeError, "make one in each process"):
                    take(loader)

    def test_classes(self):
        """Each is a libiter.Error and Python's own class."""
        for kind, builtin in ((libiter.InvalidArgument, ValueError), (libiter.OutOfMemory, MemoryError),
                              (libiter.InputOutput, OSError), (libiter.Malformed, ValueError),
                              (libiter.Unsupported, NotImplementedError), (libiter.WrongState, RuntimeError),
                              (libiter.Canceled, RuntimeError), (libiter.DeviceFailed, RuntimeError),
                              (libiter.TimedOut, TimeoutError)):  # fmt: skip
            self.assertTrue(issubclass(kind, libiter.Error) and issubclass(kind, builtin))

    def test_what_cannot_be_opened(self):
        with self.assertRaisesRegex(libiter.InputOutput, "nowhere"):
            libiter.Loader("cifar10:/nowhere/at/all")
        with self.assertRaisesRegex(libiter.InvalidArgument, "did you mean 'cifar10'"):
            libiter.Loader("cifar1:x")
        with self.assertRaisesRegex(libiter.InvalidArgument, "random-flip"):
            libiter.Loader("synthetic:cifar10?n=4", "random-flp")
        with self.assertRaisesRegex(libiter.OutOfMemory, "memory"):
            libiter.Loader("synthetic:cifar10?n=400", batch_size=100, memory_limit=1000)
        with cifar_file(3) as spec:
            with open(spec.split(":")[1], "ab") as file:
                file.write(b"x")
            with self.assertRaisesRegex(libiter.Malformed, "batch.bin"):
                libiter.Loader(spec)
        for wrong in (None, 3, object()):
            with self.assertRaises(TypeError):
                libiter.Loader(wrong)
        with self.assertRaises((TypeError, ValueError)):
            libiter.Loader("synthetic:cifar10?n=4\0x")

    def test_closed(self):
        loader = libiter.Loader(arrays(), batch_size=10, workers=1)
        batch = next(iter(loader))
        loader.close()
        loader.close()
        np.testing.assert_array_equal(batch.data, arrays()[0][:10])
        self.assertEqual(repr(loader), "Loader(closed)")
        for use in (lambda: next(loader), lambda: iter(loader), lambda: len(loader), loader.state_dict, loader.stats,
                    loader.plan, loader.failures, loader.activity, loader.cancel, lambda: loader.position,
                    lambda: loader.fields, lambda: loader.set_epoch(0), lambda: loader.load_state_dict(b"")):  # fmt: skip
            with self.assertRaisesRegex(libiter.WrongState, "closed"):
                use()

    def test_cancel_wakes_another_thread(self):
        class Slow:
            fields = {"data": ("i64", ())}
            entered, leave = threading.Event(), threading.Event()

            def __len__(self):
                return 100

            def get(self, indices):
                self.entered.set()
                self.leave.wait(60)
                return indices.astype(np.int64)

        data = Slow()
        loader = libiter.Loader(data, batch_size=10, workers=1)
        raised = []

        def take():
            try:
                next(loader)
            except Exception as reason:
                raised.append(reason)

        thread = threading.Thread(target=take)
        thread.start()
        data.entered.wait(60)
        loader.cancel()
        thread.join(60)
        self.assertIsInstance(raised[0], libiter.Canceled)
        data.leave.set()
        self.assertRaises(libiter.Canceled, next, loader)
        self.assertEqual(len(loader.state_dict()["position"]), 96)
        loader.close()

    def test_too_many_held(self):
        """list(loader) says what to do."""
        loader = libiter.Loader(arrays(), batch_size=5)
        with self.assertRaisesRegex(libiter.WrongState, "copy=True, or a larger max_held"):
            list(loader)
        del loader
        loader = libiter.Loader(arrays(), batch_size=5, copy=True)
        self.assertEqual(np.concatenate([b.label for b in list(loader)]).tolist(), arrays()[1].tolist())
        loader = libiter.Loader(arrays(), batch_size=5, max_held=20)
        self.assertEqual(np.concatenate([b.label for b in list(loader)]).tolist(), arrays()[1].tolist())

    def test_an_interrupted_list_goes_on(self):
        """After that error the next batch is the one that was refused."""
        loader = libiter.Loader(arrays(), batch_size=5, workers=1, max_held=3)
        held = []
        with self.assertRaises(libiter.WrongState):
            for batch in loader:
                held.append(batch)
        del held[:], batch
        self.assertEqual(next(loader).number, 3)

    def test_help_has_every_option(self):
        text = inspect.getdoc(libiter.Loader)
        for name in inspect.signature(libiter.Loader.__init__).parameters:
            if name not in ("self", "unknown_options"):
                self.assertRegex(text, r"\b%s\b" % name)

    def test_no_library(self):
        """Without the C library the import says where it looked."""
        out = python("import os; os.environ['LIBITER_LIBRARY'] = 'nowhere.so'\n"
                     "try:\n  from libiter import Loader\nexcept ImportError as e: print(e)")  # fmt: skip
        self.assertIn("nowhere.so", out)
        self.assertIn("LIBITER_LIBRARY", out)


if __name__ == "__main__":
    unittest.main()

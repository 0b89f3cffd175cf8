"""Datasets in Python: forms, fields, seeds, errors, interrupts, wrong use."""
from __future__ import annotations

import collections
import gc
import threading
import time
import traceback
import unittest
import weakref

import numpy as np

import libiter
from libiter import _dataset
from philox import Draws
from support import eventually, indices_of

Point = collections.namedtuple("Point", ["x", "label"])


class Base:
    def __init__(self, count=20):
        self.count = count

    def __len__(self):
        return self.count


class Chunks(Base):
    """get(): all rows at once, as what `form` makes of (x f32 [n, 2], label i64 [n])."""

    def __init__(self, form, count=20):
        self.form, self.count = form, count

    def get(self, indices):
        i = np.asarray(indices).astype(np.float32)
        return self.form(np.stack([i, -i], axis=1), np.asarray(indices).astype(np.int64))


class Items(Base):
    """__getitem__: sample i by `form`."""

    def __init__(self, form, count=20):
        self.form, self.count = form, count

    def __getitem__(self, i):
        if not isinstance(i, int) or not 0 <= i < self.count:
            raise IndexError(i)
        return self.form(np.array([i, -i], np.float32), i)


class Lists(Items):
    """__getitems__ as well: it is preferred."""

    asked = 0

    def __getitems__(self, indices):
        self.asked += 1
        return [Items.__getitem__(self, i) for i in indices]


class Get(Base):
    """get() calls a function with the indices."""

    def __init__(self, function, count=20):
        self.function, self.count = function, count

    def get(self, indices):
        return self.function(indices)


class Forms(unittest.TestCase):
    def test_samples(self):
        forms = {
            ("data", "label"): lambda x, y: (x, y),
            ("x", "label"): lambda x, y: Point(x, y),
            ("x", "y"): lambda x, y: {"x": x, "y": y},
            ("data", "data1", "data2"): lambda x, y: (x, y, x),
            ("data",): lambda x, y: x,
        }
        for kind in (Chunks, Items, Lists):
            for workers in (0, 2):
                for names, form in forms.items():
                    with self.subTest(kind=kind.__name__, workers=workers, names=names):
                        data = kind(form)
                        with libiter.Loader(data, batch_size=6, shuffle=True, workers=workers) as loader:
                            self.assertEqual(tuple(field.name for field in loader.fields), names)
                            for batch in loader:
                                i = batch.index.astype(np.float32)
                                np.testing.assert_array_equal(batch[0], np.stack([i, -i], axis=1))
                                if len(names) > 1:
                                    np.testing.assert_array_equal(batch[1], batch.index.astype(np.int64))
                                    self.assertEqual(batch[1].dtype, np.int64)
                        if kind is Lists:
                            self.assertGreater(data.asked, 0)

    def test_a_list_of_numbers(self):
        for data in ([3, 1, 4, 1, 5], list(range(5)), [1.5, 2.5], [True, False]):
            with libiter.Loader(libiter.Dataset(data), batch_size=2) as loader:
                self.assertEqual([x for (batch,) in loader for x in batch.tolist()], data)

    def test_a_dataset(self):
        with libiter.Dataset(Items(lambda x, y: (x, y))) as data:
            self.assertEqual(len(data), 20)
            self.assertEqual(data.name, "Items")
            self.assertEqual(data.fields, {"data": ("f32", (2,)), "label": ("i64", ())})
            self.assertEqual(data[3]["data"].tolist(), [3, -3])
            self.assertEqual(data[-1]["label"], 19)
            self.assertRaises(IndexError, lambda: data[20])
        self.assertRaises(libiter.WrongState, lambda: len(data))

    def test_fields(self):
        class Declared(Base):
            fields = {"a": ("u8", (2,)), "b": (np.float64, ()), "c": ("bool", ())}

            def get(self, indices):
                n = len(indices)
                return {"b": np.ones(n), "c": np.zeros(n, bool), "a": np.full((n, 2), 7, np.uint8)}

        with libiter.Loader(Declared(), batch_size=5) as loader:
            self.assertEqual([(f.name, f.dtype, f.shape) for f in loader.fields],
                             [("a", "u8", (5, 2)), ("b", "f64", (5,)), ("c", "bool", (5,))])  # fmt: skip
            batch = next(loader)
            self.assertEqual((batch.a.tolist(), batch.b.tolist()), ([[7, 7]] * 5, [1.0] * 5))

    def test_variable_lengths(self):
        words = [bytes([65 + i]) * (i % 5) for i in range(26)]

        class Words(Base):
            fields = {"text": ("u8", (None,), 8), "label": ("i32", ())}

            def get(self, indices):
                return [np.frombuffer(words[i], np.uint8) for i in indices], np.array(indices, np.int32)

        class Items(Words):
            get = None

            def __getitem__(self, i):
                return np.frombuffer(words[i], np.uint8), i

        for kind in (Words, Items):
            for workers in (0, 1, 3):
                with libiter.Loader(kind(26), "pad-batch", batch_size=4, shuffle=True, workers=workers) as loader:
                    for batch in loader:
                        lengths = batch.lengths("text")
                        for row, length, i in zip(batch.text, lengths, batch.index.tolist()):
                            self.assertEqual(bytes(row[:length]), words[i])
                            self.assertFalse(row[length:].any())
        with libiter.Dataset(Words(26)) as data:
            self.assertEqual(bytes(data[7]["text"]), words[7])

    def test_too_long(self):
        class Long(Base):
            fields = {"data": ("u8", (None,), 4)}

            def get(self, indices):
                return [np.zeros(5 if i == 3 else 2, np.uint8) for i in indices]

        with libiter.Loader(Long(), "pad-batch", batch_size=4) as loader:
            with self.assertRaisesRegex(libiter.Malformed, "first dimension of at most 4, got .5."):
                next(loader)
        with self.assertRaisesRegex(libiter.InvalidArgument, "capacity"):
            libiter.Dataset(Long(), fields={"data": ("u8", (None,))})
        with self.assertRaisesRegex(libiter.InvalidArgument, "first dimension"):
            libiter.Dataset(Long(), fields={"data": ("u8", (2, None), 4)})

    def test_refused(self):
        class NoLength:
            def __getitem__(self, i):
                return i

        with self.assertRaisesRegex(TypeError, "__len__"):
            libiter.Dataset(NoLength())
        with self.assertRaisesRegex(TypeError, "get"):
            libiter.Dataset(Base())
        with self.assertRaisesRegex(libiter.InvalidArgument, "empty"):
            libiter.Dataset([])
        for value in ("text", b"bytes", None, object(), 1j, np.datetime64("2020-01-01")):
            with self.assertRaisesRegex((libiter.InvalidArgument, TypeError), "field data|expected"):
                libiter.Dataset([value])
        with self.assertRaises(libiter.InvalidArgument):
            libiter.Dataset(Get(lambda i: tuple(np.zeros(len(i)) for _ in range(9))))
        with self.assertRaises(libiter.InvalidArgument):
            libiter.Dataset(Get(lambda i: 5))

    def test_an_error_in_the_first_sample(self):
        """It decides about the fields, so its own exception is raised."""
        with self.assertRaisesRegex(KeyError, "missing"):
            libiter.Loader(Get(lambda i: {}["missing"]))


class Seeds(unittest.TestCase):
    class Seeded(Base):
        def get(self, indices, seeds):
            return {"seed": seeds, "index": indices}

    def test_the_same_for_any_workers(self):
        seen = []
        for workers in (0, 1, 4):
            for batch_size in (8, 5):
                with libiter.Loader(self.Seeded(100), batch_size=batch_size, shuffle=True, seed=11, workers=workers) as loader:
                    seen.append([s for _ in range(2) for b in loader for s in b[0].tolist()])
        self.assertTrue(all(one == seen[0] for one in seen))
        self.assertEqual(len(set(seen[0])), 200)

    def test_they_are_philox(self):
        """As the definitions of the library's random numbers have them."""
        with libiter.Loader(self.Seeded(10), batch_size=4, seed=12345678901234567890, workers=1) as loader:
            for epoch in range(2):
                for batch in loader:
                    for position, seed in zip(batch.position.tolist(), batch[0].tolist()):
                        draws = Draws(12345678901234567890, "get", position, 0, epoch)
                        low = draws.u32()
                        self.assertEqual(seed, low | draws.u32() << 32)

    def test_another_seed_is_another(self):
        a, b = (next(iter(libiter.Loader(self.Seeded(), batch_size=20, seed=s)))[0].tolist() for s in (1, 2))
        self.assertFalse(set(a) & set(b))

    def test_resumed_they_are_the_same(self):
        loader = libiter.Loader(self.Seeded(40), batch_size=4, shuffle=True, seed=3, workers=1)
        whole = [b[0].tolist() for b in loader]
        loader.seek(0, 20)
        self.assertEqual([b[0].tolist() for b in loader], whole[5:])


class Errors(unittest.TestCase):
    @staticmethod
    def fails_at(bad, reason, count=20):
        def get(indices):
            if bad in indices.tolist():
                raise reason
            return indices.astype(np.int64)

        return Get(get, count)

    def test_fail_has_the_cause_and_its_place(self):
        for workers in (0, 2):
            reason = ValueError("planned %d" % workers)
            with libiter.Loader(self.fails_at(7, reason), batch_size=4, workers=workers) as loader:
                iter(loader)
                next(loader)
                with self.assertRaises(libiter.Malformed) as raised:
                    next(loader)
                text = str(raised.exception)
                self.assertIn("planned %d" % workers, text)
                self.assertIn("sample 7", text)
                self.assertIn("test_dataset.py", text)
                self.assertIs(raised.exception.__cause__, reason)
                lines = "".join(traceback.format_exception(None, reason, reason.__traceback__))
                self.assertIn("raise reason", lines)
                self.assertEqual([b.number for b in [next(loader)]], [2])

    def test_statuses(self):
        for reason, kind in ((OSError("x"), libiter.InputOutput), (FileNotFoundError(2, "none", "f"), libiter.InputOutput),
                             (MemoryError(), libiter.OutOfMemory), (KeyError("k"), libiter.Malformed),
                             (libiter.Unsupported("u"), libiter.Unsupported), (AssertionError(), libiter.Malformed),
                             (StopIteration(), libiter.Malformed), (RuntimeError("%s %n \0"), libiter.Malformed),
                             (ValueError("é" * 400), libiter.Malformed)):  # fmt: skip
            with self.subTest(reason=repr(reason)[:40]):
                with libiter.Loader(self.fails_at(5, reason), batch_size=4, workers=1) as loader:
                    next(loader)
                    with self.assertRaises(kind) as raised:
                        next(loader)
                    self.assertIs(raised.exception.__cause__, reason)

    def test_blank_and_replace(self):
        for workers in (0, 2):
            for on_error in ("blank", "replace"):
                data = self.fails_at(7, ValueError("planned"))
                with libiter.Loader(data, batch_size=4, on_error=on_error, workers=workers) as loader:
                    rows = [(int(i), int(x), bool(v)) for b in loader for i, x, v in zip(b.index, b[0], b.valid)]
                    (failure,) = loader.failures()
                self.assertEqual(failure.index, 7)
                self.assertIn("planned", failure.message)
                if on_error == "blank":
                    self.assertEqual(rows[7], (7, 0, False))
                else:
                    self.assertTrue(rows[7][0] == rows[7][1] != 7 and rows[7][2])
                del rows[7]
                self.assertTrue(all(i == x and v for i, x, v in rows))

    def test_wrong_rows(self):
        good = np.zeros((1, 2), np.float32)
        makes = {  # after an error get() is called for each row of the group
            "expected shape .1, 2., got .3, 2.": lambda n: np.zeros((3, 2), np.float32),
            "expected shape .1, 2., got .1, 3.": lambda n: np.zeros((n, 3), np.float32),
            "Cannot cast": lambda n: np.zeros((n, 2), np.complex64),
            "expected 1 fields, got 2": lambda n: (np.zeros((n, 2), np.float32), np.zeros(n)),
        }
        for text, make in makes.items():
            with self.subTest(text):
                data = Get(lambda i, make=make: good if len(i) == 1 and i[0] == 0 else make(len(i)))
                with libiter.Loader(data, batch_size=4) as loader:
                    with self.assertRaisesRegex(libiter.Malformed, text):
                        next(loader)

    def test_wrong_samples(self):
        for wrong, text in ((np.zeros(3), "expected shape .2., got .3."), (1.0, "expected shape .2., got"),
                            ((1, 2, 3), "expected 1 fields, got 3"), ({"other": 1}, "expected the fields data, got other"),
                            ("ab", "expected shape")):  # fmt: skip
            with self.subTest(repr(wrong)):
                data = Items(lambda x, y, wrong=wrong: wrong if y == 2 else x)
                with libiter.Loader(data, batch_size=4) as loader:
                    with self.assertRaisesRegex(libiter.Malformed, text):
                        next(loader)

    def test_a_wrong_number_of_samples(self):
        class Short(Base):
            fields = {"data": ("i64", ())}

            def __getitems__(self, indices):
                return [0] * 3

        with self.assertRaisesRegex(libiter.Malformed, "expected 1 samples, got 3"):
            next(libiter.Loader(Short(), batch_size=4))


class Interrupts(unittest.TestCase):
    def test_nothing_is_lost(self):
        """KeyboardInterrupt and SystemExit in get() leave next(), and the next call gives the same batch."""
        for workers in (0, 2):
            for kind in (KeyboardInterrupt, SystemExit):
                with self.subTest(workers=workers, kind=kind.__name__):
                    raised = []

                    def get(indices):
                        if 9 in indices.tolist() and not raised:
                            raised.append(1)
                            raise kind("planned")
                        return indices.astype(np.int64)

                    with libiter.Loader(Get(get), batch_size=4, workers=workers) as loader:
                        iter(loader)
                        seen, times = [], 0
                        while True:
                            try:
                                seen += next(loader)[0].tolist()
                            except kind:
                                times += 1
                            except StopIteration:
                                break
                        self.assertEqual((seen, times), (list(range(20)), 1))

    def test_a_loop_that_goes_on(self):
        """The program catches the interrupt around its `for`, saves, and resumes: no row is lost or seen twice."""
        raised = []

        def get(indices):
            if 9 in indices.tolist() and not raised:
                raised.append(1)
                raise KeyboardInterrupt
            return indices.astype(np.int64)

        loader = libiter.Loader(Get(get), batch_size=4, shuffle=True, seed=2)
        seen = []
        with self.assertRaises(KeyboardInterrupt):
            for batch in loader:
                seen += batch[0].tolist()
        state = loader.state_dict()
        other = libiter.Loader(Get(get), batch_size=4, shuffle=True, seed=2)
        other.load_state_dict(state)
        for batch in other:
            seen += batch[0].tolist()
        self.assertEqual(sorted(seen), list(range(20)))


class WrongUse(unittest.TestCase):
    def test_get_calls_its_loader(self):
        for workers in (0, 1):
            for call in ("next", "reset", "state_dict", "load", "stats", "position"):
                with self.subTest(call=call, workers=workers):
                    said = []

                    def get(indices):
                        if said or not made:
                            return indices.astype(np.int64)
                        try:
                            loader = made[0]
                            said.append({"next": lambda: next(loader), "reset": lambda: loader.set_epoch(1),
                                         "state_dict": loader.state_dict, "stats": loader.stats,
                                         "load": lambda: loader.load_state_dict(b"x" * 96),
                                         "position": lambda: loader.position}[call]())  # fmt: skip
                        except Exception as reason:
                            said.append(reason)
                        return indices.astype(np.int64)

                    made = []
                    loader = libiter.Loader(Get(get, 4000), batch_size=4, workers=workers, prefetch=2)
                    made.append(loader)
                    rows = indices_of(loader)
                    self.assertEqual(len(rows), 4000)
                    self.assertTrue(said)
                    if call in ("next", "reset", "load"):
                        self.assertIsInstance(said[0], libiter.Error)
                    del made[:]
                    loader.close()

    def test_get_drops_the_loader(self):
        """The last reference goes away within get(), in a worker."""
        for workers in (1, 2):
            holder = []

            def get(indices):
                if len(holder) == 1 and indices[0] >= 8:
                    holder.clear()
                return indices.astype(np.int64)

            holder.append(libiter.Loader(Get(get, 4000), batch_size=4, workers=workers, grace_ms=200))
            seen = weakref.ref(holder[0])
            self.assertTrue(eventually(lambda: seen() is None or next(seen(), None) is None))

    def test_close_while_get_runs(self):
        """The loader waits grace_ms; get() ends later, and what it needs is still there."""
        for round in range(3):
            inside, leave, left = threading.Event(), threading.Event(), threading.Event()

            def get(indices):
                if indices[0] >= 4:
                    inside.set()
                    leave.wait(60)
                    left.set()
                return indices.astype(np.int64)

            loader = libiter.Loader(Get(get, 400), batch_size=4, workers=2, grace_ms=20)
            inside.wait(60)
            loader.close()
            del loader, get
            gc.collect()
            leave.set()
            self.assertTrue(left.wait(60))

    def test_close_while_collate_runs(self):
        inside, leave, left = threading.Event(), threading.Event(), threading.Event()

        def collate(fields):
            inside.set()
            leave.wait(60)
            left.set()

        loader = libiter.Loader(np.zeros((100, 4), np.float32), batch_size=4, workers=2, grace_ms=20, collate=collate)
        inside.wait(60)
        loader.close()
        del loader, collate
        for _ in range(3):
            gc.collect()
        leave.set()
        self.assertTrue(left.wait(60))

    def test_keeping_the_arguments(self):
        """indices may be kept: they are a copy."""
        kept = []

        def get(indices):
            kept.append(indices)
            return indices.astype(np.int64)

        with libiter.Loader(Get(get), batch_size=4, workers=1) as loader:
            indices_of(loader)
        del loader
        gc.collect()
        self.assertEqual(set(np.concatenate(kept).tolist()), set(range(20)))

    def test_length_that_changes(self):
        data = Get(lambda i: i.astype(np.int64))
        loader = libiter.Loader(data, batch_size=4)
        data.count = 3
        self.assertEqual(len(indices_of(loader)), 20)


class Life(unittest.TestCase):
    def test_closed_once_by_whatever_ends_last(self):
        """The loader, its batch, or the dataset: the Python object is dropped after the last of them."""
        for workers in (0, 2):
            for last in ("loader", "batch", "dataset"):
                with self.subTest(last=last, workers=workers):
                    before = len(_dataset._live)
                    source = Get(lambda i: i.astype(np.int64))
                    there = weakref.ref(source)
                    held = {"dataset": libiter.Dataset(source)}
                    held["loader"] = libiter.Loader(held["dataset"], batch_size=4, workers=workers)
                    held["batch"] = next(held["loader"])
                    del source
                    for name in [name for name in ("dataset", "batch", "loader") if name != last]:
                        del held[name]
                    gc.collect()
                    self.assertIsNotNone(there())
                    held.clear()
                    self.assertTrue(eventually(lambda: there() is None))
                    self.assertEqual(len(_dataset._live), before)

    def test_a_batch_in_a_circle(self):
        """Garbage with a __del__ that reads the batch."""
        read = []

        class Trainer:
            def __del__(self):
                read.append(self.batch[0].tolist())

        for _ in range(4):
            loader = libiter.Loader(Get(lambda i: i.astype(np.int64), 4000), batch_size=4, workers=2)
            batch = next(loader)
            trainer = Trainer()
            trainer.batch, trainer.me, trainer.loader = batch, trainer, loader
            del loader, batch, trainer
            gc.collect()
        self.assertEqual(read, [[0, 1, 2, 3]] * 4)

    def test_parallel(self):
        """With parallel=True two threads are inside get() at once; without it never."""
        for parallel in (True, False):
            inside, most, lock, both = [0], [0], threading.Lock(), threading.Event()

            def get(indices):
                with lock:
                    inside[0] += 1
                    most[0] = max(most[0], inside[0])
                    if inside[0] == 2:
                        both.set()
                if parallel and len(indices) > 1:
                    both.wait(20)
                with lock:
                    inside[0] -= 1
                return indices.astype(np.int64)

            data = libiter.Dataset(Get(get, 400), parallel=parallel)
            with libiter.Loader(data, batch_size=20, workers=4) as loader:
                self.assertEqual(indices_of(loader), list(range(400)))
            self.assertEqual(most[0] >= 2, parallel)

    def test_strings_by_two_workers(self):
        """1e5 strings: each is delivered once, whole."""
        strings = ["%d" % i * (1 + i % 4) for i in range(100000)]

        class Strings(Base):
            fields = {"text": ("u8", (None,), 24)}

            def get(self, indices):
                return [np.frombuffer(strings[i].encode(), np.uint8) for i in indices.tolist()]

        seen = set()
        data = libiter.Dataset(Strings(len(strings)))
        with libiter.Loader(data, "pad-batch", batch_size=500, shuffle=True, workers=2) as loader:
            for batch in loader:
                text, width = batch.text.tobytes(), batch.text.shape[1]
                for row, (i, length) in enumerate(zip(batch.index.tolist(), batch.lengths("text").tolist())):
                    if text[row * width : row * width + length] != strings[i].encode():
                        self.fail("row %d" % i)
                    seen.add(i)
        self.assertEqual(len(seen), len(strings))


if __name__ == "__main__":
    unittest.main()

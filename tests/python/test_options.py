"""Every option by its own name: what it does to the loader, which values it takes, and the errors for others."""
from __future__ import annotations

import ctypes as c
import inspect
import itertools
import os
import threading
import unittest

import numpy as np

import libiter
from libiter import _callbacks, _native as n, _options
from support import arrays, cifar_file, indices_of

# option: (value, member of iter_loader_options, its value there)
TABLE = {
    "batch_size": (7, "batch_size", 7),
    "workers": ("auto", "workers", -1),
    "prefetch": (9, "prefetch", 9),
    "max_held": (4, "max_held", 4),
    "rank": (2, "rank", 2),
    "ranks": (5, "ranks", 5),
    "local_ranks": (3, "local_ranks", 3),
    "global_batch": (6, "global_batch", 6),
    "micro_batches": (7, "micro_batches", 7),
    "seed": (2**64 - 1, "seed", 2**64 - 1),
    "shuffle": ("replacement", "shuffle", 5),
    "last_batch": ("discard", "last_batch", 3),
    "epochs": (11, "epochs", 11),
    "lookahead": ("epoch", "lookahead", 1),
    "sampler": ("bucket:n-buckets=8", "sampler.spec", b"bucket:n-buckets=8"),
    "subset": ([3, 1], "sampler.n_subset", 2),
    "block": (12, "sampler.block", 12),
    "buffer_blocks": (13, "sampler.buffer_blocks", 13),
    "source": ("pread", "reading.source", 3),
    "o_direct": (True, "reading.o_direct", 1),
    "threads": (14, "reading.threads", 14),
    "only_reads": (True, "reading.only_reads", 1),
    "max_sample_bytes": (1 << 40, "reading.max_sample_bytes", 1 << 40),
    "memory": ("pinned", "memory.kind", 2),
    "device": (1, "memory.device", 2),
    "finish": ("device", "memory.finish", 2),
    "resident": ("yes", "memory.resident", 2),
    "share": ("no", "memory.share", 1),
    "memory_limit": (1 << 50, "memory.limit", 1 << 50),
    "on_error": ("blank", "faults.on_error", 2),
    "max_failures": (15, "faults.max_failures", 15),
    "timeout_ms": (16, "faults.timeout_ms", 16),
    "grace_ms": (17, "faults.grace_ms", 17),
    "stall_ms": (18, "watch.stall_ms", 18),
    "copy_arrays": (True, "arrays.copy", 1),
    "views": ("no", "views", 1),
}
CALLBACKS = {"collate": "collate", "on_stall": "watch.on_stall"}
# Members that belong to C alone, or that another option sets with its own.
NO_OPTION = {"struct_size", "sampler.registry", "sampler.ops", "sampler.options", "sampler.subset", "reading.ops",
             "watch.user", "arrays.release", "arrays.user", "collate_user"}  # fmt: skip


def at(struct, path):
    for part in path.split("."):
        struct = getattr(struct, part)
    return struct


def members(struct, before=""):
    for name, kind in struct._fields_:
        if isinstance(kind, type) and issubclass(kind, c.Structure):
            yield from members(kind, before + name + ".")
        else:
            yield before + name


class Table(unittest.TestCase):
    def test_every_member_has_an_option(self):
        named = {path for _, path, _ in TABLE.values()} | set(CALLBACKS.values())
        self.assertEqual(set(members(n.LoaderOptions)) - named, NO_OPTION)

    def test_every_option_is_here(self):
        own = {"self", "data", "chain", "layout", "output", "copy", "unknown_options"}
        self.assertEqual(set(inspect.signature(libiter.Loader.__init__).parameters) - own, set(TABLE) | set(CALLBACKS))
        self.assertEqual(set(_options.NAMES), set(TABLE) | set(CALLBACKS))

    def test_each_arrives(self):
        for name, (value, path, expected) in TABLE.items():
            with self.subTest(name):
                struct = _options.Options({name: value}, _callbacks.Callbacks(None, None)).struct
                self.assertEqual(at(struct, path), expected)
                without = _options.Options({}, _callbacks.Callbacks(None, None)).struct
                self.assertFalse(at(without, path))

    def test_none_is_the_default(self):
        options = {name: None for name in list(TABLE) + list(CALLBACKS)}
        struct = _options.Options(options, _callbacks.Callbacks(None, None)).struct
        self.assertEqual(bytes(struct)[8:], bytes(c.sizeof(struct) - 8))

    def test_numbers_of_numpy(self):
        struct = _options.Options({"batch_size": np.int64(5), "seed": np.uint64(2**63)}, None).struct
        self.assertEqual((struct.batch_size, struct.seed), (5, 2**63))


class Effects(unittest.TestCase):
    """What the program sees."""

    def order(self, data=None, **options):
        options.setdefault("batch_size", 10)
        with libiter.Loader(arrays() if data is None else data, **options) as loader:
            return [indices_of(loader) for _ in range(2)]

    def test_shuffle(self):
        plain = list(range(100))
        self.assertEqual(self.order(), [plain, plain])
        for value in (False, None, "none", np.bool_(False)):
            self.assertEqual(self.order(shuffle=value), [plain, plain])
        full = self.order(shuffle=True, seed=4)
        for value in ("full", "FULL", np.bool_(True)):
            self.assertEqual(self.order(shuffle=value, seed=4), full)
        self.assertNotEqual(full[0], full[1])
        once = self.order(shuffle="once", seed=4)
        self.assertEqual(once[0], once[1])
        self.assertEqual(sorted(once[0]), plain)
        drawn = self.order(shuffle="replacement", seed=4)[0]
        self.assertLess(len(set(drawn)), 100)
        units = self.order(shuffle="batch", block=5, seed=4)[0]
        self.assertEqual({tuple(units[i : i + 5]) for i in range(0, 100, 5)}, {tuple(range(i, i + 5)) for i in range(0, 100, 5)})
        blocks = self.order(shuffle="block", block=10, buffer_blocks=1, seed=4)[0]
        self.assertEqual(sorted(blocks), plain)
        self.assertTrue(all(len({x // 10 for x in blocks[i : i + 10]}) == 1 for i in range(0, 100, 10)))

    def test_seed(self):
        self.assertNotEqual(self.order(shuffle=True, seed=1), self.order(shuffle=True, seed=2))

    def test_last_batch(self):
        def sizes(last_batch):
            with libiter.Loader(arrays(25), batch_size=10, last_batch=last_batch) as loader:
                return [[(len(b.index), b.pad) for b in loader] for _ in range(2)]

        self.assertEqual(sizes("keep")[0], [(10, 0), (10, 0), (5, 0)])
        self.assertEqual(sizes("pad")[0], [(10, 0), (10, 0), (10, 5)])
        self.assertEqual(sizes("discard")[0], [(10, 0), (10, 0)])
        for name in ("roll-over", "roll_over"):
            self.assertEqual(sizes(name), [[(10, 0), (10, 0)], [(10, 5), (10, 0), (10, 0)]])

    def test_subset(self):
        self.assertEqual(self.order(subset=[9, 3, 3, 50])[0], [9, 3, 3, 50])
        self.assertEqual(self.order(subset=np.arange(5, dtype=np.int16))[0], list(range(5)))
        self.assertEqual(self.order(subset=range(90, 100))[0], list(range(90, 100)))
        for wrong in ([], [-1], [[1]], [1.5], ["a"]):
            with self.assertRaises(libiter.InvalidArgument):
                self.order(subset=wrong)
        with self.assertRaisesRegex(libiter.InvalidArgument, "100"):
            self.order(subset=[100])

    def test_ranks_of_the_launcher(self):
        names = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "OMPI_COMM_WORLD_RANK")
        before = {name: os.environ.pop(name) for name in names if name in os.environ}
        try:
            self.assertEqual(libiter.ranks(), (0, 1, 0, 1, ""))
            self.assertEqual(self.order(ranks="auto", batch_size=5), self.order(batch_size=5))
            os.environ.update(RANK="1", WORLD_SIZE="2", LOCAL_RANK="0", LOCAL_WORLD_SIZE="1")
            self.assertEqual(libiter.ranks(), (1, 2, 0, 1, "torchrun"))
            self.assertEqual(self.order(ranks="auto", batch_size=5), self.order(rank=1, ranks=2, batch_size=5))
            with self.assertRaisesRegex(libiter.InvalidArgument, "rank is 1 beside"):
                self.order(rank=1, ranks="auto")
            os.environ["OMPI_COMM_WORLD_RANK"] = "0"
            os.environ["OMPI_COMM_WORLD_SIZE"] = "2"
            with self.assertRaisesRegex(libiter.InvalidArgument, "contradict"):
                self.order(ranks="auto")
        finally:
            for name in names + ("OMPI_COMM_WORLD_SIZE",):
                os.environ.pop(name, None)
            os.environ.update(before)

    def test_ranks(self):
        parts = [self.order(rank=rank, ranks=2, batch_size=5)[0] for rank in range(2)]
        self.assertEqual(sorted(parts[0] + parts[1]), list(range(100)))
        with self.assertRaisesRegex(libiter.InvalidArgument, "rank"):
            self.order(rank=2, ranks=2)

    def test_workers(self):
        for workers in (0, 1, 3):
            with libiter.Loader(arrays(), workers=workers) as loader:
                self.assertEqual(loader.stats().n_workers, workers)
        with libiter.Loader(arrays(), workers="auto", collate=lambda fields: None) as loader:
            self.assertEqual(loader.stats().n_workers, len(os.sched_getaffinity(0)))
        with libiter.Loader(arrays(), workers="auto") as loader:  # a batch costs less than moving it
            self.assertEqual(loader.stats().n_workers, 0)

    def test_sources(self):
        with cifar_file() as spec:
            for source in ("memory", "ring", "pread", "null"):
                with libiter.Loader(spec, "to:f32", source=source, batch_size=10, threads=2, workers=1) as loader:
                    batch = next(loader)
                    self.assertEqual(bool(batch.data.any()), source != "null")
                    stats = loader.stats()
                    if source != "ring" or not stats.fallbacks:
                        self.assertEqual(stats.source, source)
            with libiter.Loader(spec, only_reads=True, batch_size=10) as loader:
                self.assertFalse(next(loader).data.any())
            with libiter.Loader(spec, o_direct=True, source="pread", batch_size=10) as loader:
                self.assertTrue(next(loader).data.any())

    def test_prefetch(self):
        """The loader makes so many batches ahead, and no more."""
        asked, lock = set(), threading.Lock()

        class Data:
            fields = {"data": ("i64", ())}

            def __len__(self):
                return 1000

            def get(self, indices):
                with lock:
                    asked.update(indices.tolist())
                return indices.astype(np.int64)

        with libiter.Loader(Data(), batch_size=10, workers=1, prefetch=3, max_held=1) as loader:
            for number in range(20):
                self.assertEqual(next(loader).number, number)
                with lock:
                    self.assertLessEqual(max(asked), (number + 3 + 2) * 10)

    def test_collate(self):
        seen = []

        def collate(fields):
            seen.append({name: array.shape for name, array in fields.items()})
            fields["data"][:] = fields["label"][:, None]

        for workers in (0, 2):
            with libiter.Loader(arrays(), batch_size=10, workers=workers, collate=collate) as loader:
                for batch in loader:
                    np.testing.assert_array_equal(batch.data[:, 0], (batch.index + 1000).astype(np.float32))
        self.assertTrue(all(one == {"data": (10, 3), "label": (10,)} for one in seen))

    def test_a_collate_that_fails(self):
        planned = ValueError("planned")

        def collate(fields):
            if fields["label"][0] == 1010:
                raise planned

        for workers in (0, 2):
            with libiter.Loader(arrays(), batch_size=10, workers=workers, collate=collate) as loader:
                next(loader)
                with self.assertRaisesRegex(libiter.Error, "ValueError: planned") as raised:
                    for _ in range(2):
                        next(loader)
                self.assertIs(raised.exception.__cause__, planned)
                self.assertEqual(next(loader).number, 2)

    def test_an_interrupted_collate(self):
        """Ctrl-C in collate is Ctrl-C for the program."""

        def collate(fields):
            if fields["label"][0] == 1010:
                raise KeyboardInterrupt

        for workers in (0, 1):
            with libiter.Loader(arrays(), batch_size=10, workers=workers, collate=collate) as loader:
                next(loader)
                with self.assertRaises(KeyboardInterrupt):
                    next(loader)
                self.assertEqual(next(loader).number, 2)

    def test_stalls_and_timeouts(self):
        """A get() that waits until the stall was reported; and next() gives up after timeout_ms."""
        told = threading.Event()
        stalls = []

        class Data:
            fields = {"data": ("i64", ())}

            def __len__(self):
                return 100

            def get(self, indices):
                if indices[0] >= 10:
                    told.wait(60)
                return indices.astype(np.int64)

        def on_stall(stall):
            stalls.append(stall)
            if stall["batch"] == 1:
                told.set()

        with libiter.Loader(Data(), batch_size=10, workers=1, stall_ms=30, on_stall=on_stall) as loader:
            self.assertEqual(indices_of(loader), list(range(100)))
            self.assertEqual(loader.stats().n_stalls, len(stalls))
        (stall,) = [stall for stall in stalls if stall["batch"] == 1]
        self.assertEqual((stall["epoch"], stall["stage"]), (0, "get"))
        self.assertIn("get", stall["message"])
        told.clear()
        with libiter.Loader(Data(), batch_size=10, workers=1, timeout_ms=120) as loader:
            self.assertEqual(self.patient(loader).number, 0)
            with self.assertRaises(libiter.TimedOut):
                next(loader)
            told.set()
            self.assertEqual(self.patient(loader).number, 1)

    @staticmethod
    def patient(loader):
        """next() on a machine that may be slow."""
        while True:
            try:
                return next(loader)
            except libiter.TimedOut:
                pass

    def test_a_first_batch_that_times_out_is_not_lost(self):
        """A `for` after it begins the same epoch."""
        leave = threading.Event()

        class Data:
            fields = {"data": ("i64", ())}

            def __len__(self):
                return 20

            def get(self, indices):
                leave.wait(60)
                return indices.astype(np.int64)

        with libiter.Loader(Data(), batch_size=10, workers=1, timeout_ms=60) as loader:
            with self.assertRaises(libiter.TimedOut):
                for _ in loader:
                    pass
            leave.set()
            self.assertEqual(self.patient(iter(loader)).index.tolist(), list(range(10)))
            self.assertEqual(loader.epoch, 0)

    def test_copy_arrays(self):
        data, label = arrays()
        loader = libiter.Loader((data, label), batch_size=10, copy_arrays=True)
        data[:] = -1
        self.assertEqual(next(loader).data[1, 0], 10)

    def test_memory_of_a_device(self):
        """Nothing of Python's arrays tells the loader when a stream has read a batch, so it would be written too early."""
        for output in ("numpy", "dlpack"):
            with self.assertRaisesRegex(libiter.Unsupported, "for C alone"):
                libiter.Loader(arrays(), memory="device", output=output)


class Wrong(unittest.TestCase):
    def test_fewer_than_no_workers(self):
        with self.assertRaisesRegex(libiter.InvalidArgument, "workers is -1"):
            libiter.Loader(arrays(), workers=-1)

    def test_unknown_options(self):
        for name, hint in (("batchsize", "batch_size"), ("num_workers", "workers"), ("drop_last", 'last_batch="discard"'),
                           ("pin_memory", 'memory="pinned"'), ("world_size", "ranks"), ("suffle", "shuffle"),
                           ("btch_size", "batch_size"), ("transform", "chain"), ("persistent_workers", "threads always persist"),
                           ("collate_fn", "collate"), ("generator", "seed"), ("timeout", "timeout_ms")):  # fmt: skip
            with self.subTest(name):
                with self.assertRaises(TypeError) as raised:
                    libiter.Loader(arrays(), **{name: 1})
                self.assertIn("no option is called %s" % name, str(raised.exception))
                self.assertIn(hint, str(raised.exception).split("called %s" % name)[1])

    def test_an_image_without_layout(self):
        class Images:
            def __len__(self):
                return 4

            def __getitem__(self, index):
                return np.zeros((8, 8, 3), np.uint8), index

        for data in (np.zeros((4, 8, 8, 3), np.uint8), Images()):
            with self.assertRaisesRegex(libiter.InvalidArgument, 'layout="NHWC"'):
                libiter.Loader(data, "random-flip")

    def test_words(self):
        for name, value, hint in (("shuffle", "ful", "full"), ("last_batch", "drop", "keep"), ("source", "momory", "memory"),
                                  ("on_error", "skip", "fail"), ("memory", "gpu", "device"), ("output", "tensorflow", "torch"),
                                  ("share", 3, "auto")):  # fmt: skip
            with self.subTest(name):
                with self.assertRaisesRegex(libiter.InvalidArgument, hint) as raised:
                    libiter.Loader(arrays(), **{name: value})
                self.assertIn(name, str(raised.exception))

    def test_numbers(self):
        for name, value in (("batch_size", 0), ("batch_size", -1), ("batch_size", 2**32), ("workers", -2), ("seed", -1),
                            ("seed", 2**64), ("timeout_ms", -1), ("device", -1), ("prefetch", 2**32)):  # fmt: skip
            with self.subTest(name=name, value=value):
                with self.assertRaisesRegex(libiter.InvalidArgument, "%s is %d; expected" % (name, value)):
                    libiter.Loader(arrays(), **{name: value})
        for name, value in itertools.product(("batch_size", "seed", "rank"), ("1", 1.5, True, [1])):
            with self.subTest(name=name, value=value):
                with self.assertRaisesRegex(TypeError, "%s is .*expected an integer" % name):
                    libiter.Loader(arrays(), **{name: value})

    def test_texts(self):
        for options in ({"chain": 5}, {"sampler": 5}, {"chain": ["to:f32"]}):
            with self.assertRaises(TypeError):
                libiter.Loader(arrays(), **options)
        for options in ({"chain": "to:f32\0"}, {"sampler": "bucket\0"}):
            with self.assertRaises(libiter.InvalidArgument):
                libiter.Loader(arrays(), **options)
        with self.assertRaises(TypeError):
            libiter.Loader(arrays(), None, 32)
        for name in ("collate", "on_stall"):
            with self.assertRaisesRegex(TypeError, name):
                libiter.Loader(arrays(), **{name: 5})


if __name__ == "__main__":
    unittest.main()

"""NDArrayIter against vectors that MXNet 1.9.1 gave, and its names."""
import json
import os
import pickle
import unittest

import numpy as np

import libiter

GOLDEN = os.path.join(os.path.dirname(__file__), "..", "golden", "ndarrayiter-mxnet-1.9.1.json")


def endless(n, batch, epochs):
    """roll_over as one sequence 0, 1, ..., n - 1, 0, ...: an epoch has the batches that end within its rows."""
    out, taken = [], 0
    for epoch in range(epochs):
        now = []
        while taken + batch <= (epoch + 1) * n:
            rows = range(taken, taken + batch)
            now.append([[row % n for row in rows], sum(row // n < epoch for row in rows)])
            taken += batch
        out.append(now)
    return out


def expected(row):
    """What MXNet gave; with roll_over the sequence above, which loses no row if reset() comes twice or early, and
    which MXNet's own vectors equal if nothing is lost."""
    script, epochs = row["script"], row["epochs"]
    if row["last_batch"] != "roll_over":
        return [[batch for batch in epoch if not isinstance(batch, str)] for epoch in epochs]
    pure = endless(row["n"], row["batch"], 8)
    if script == "eeee" and isinstance(epochs, list):
        assert pure[:4] == epochs
    if script[0] == "h":
        return [pure[0]] + pure[: len(script) - 1]
    return [pure[0][:1] if script[0] == "m" else pure[0]] + pure[1 : len(script)]


class Golden(unittest.TestCase):
    """Scripts: e = epoch, reset; d = epoch, two resets; x = epoch, one more next(), reset; m = one batch, reset;
    h = epoch, hard_reset."""

    def run_script(self, it, script, take):
        epochs = []
        for letter in script:
            epochs.append(take(it, 1 if letter == "m" else 1000))
            if letter == "x":
                self.assertRaises(StopIteration, it.next)
            if letter == "h":
                it.hard_reset()
            else:
                it.reset()
            if letter == "d":
                it.reset()
        return epochs

    def by_next(self, it, limit):
        epoch = []
        while len(epoch) < limit:
            try:
                batch = it.next()
            except StopIteration:
                break
            self.assertEqual(list(batch.index), list(batch.data[0]))
            self.assertEqual(list(batch.label[0]), [3 * row for row in batch.data[0]])
            epoch.append([list(map(int, batch.data[0])), batch.pad])
        return epoch

    def by_iter_next(self, it, limit):
        epoch = []
        while len(epoch) < limit and it.iter_next():
            self.assertEqual(list(it.getindex()), list(it.getdata()[0]))
            self.assertEqual(list(it.getlabel()[0]), [3 * row for row in it.getdata()[0]])
            epoch.append([list(map(int, it.getdata()[0])), it.getpad()])
        return epoch

    def check(self, workers, take):
        with open(GOLDEN, encoding="utf-8") as file:
            rows = json.load(file)["rows"]
        self.assertEqual(len(rows), 195)
        for row in rows:
            array = np.arange(row["n"], dtype=np.int32)
            it = libiter.NDArrayIter(
                array, 3 * array, batch_size=row["batch"], last_batch_handle=row["last_batch"], workers=workers
            )
            what = {key: row[key] for key in ("n", "batch", "last_batch", "script")}
            self.assertEqual(self.run_script(it, row["script"], take), expected(row), what)
            it.close()

    def test_next(self):
        self.check(0, self.by_next)

    def test_iter_next(self):
        self.check(0, self.by_iter_next)

    def test_with_workers(self):
        self.check(2, self.by_next)


class Names(unittest.TestCase):
    def test_one_array(self):
        it = libiter.NDArrayIter(np.zeros((5, 2), np.float32), np.zeros(5, np.int64), batch_size=2)
        self.assertEqual(it.provide_data, [("data", (2, 2))])
        self.assertEqual(it.provide_label, [("softmax_label", (2,))])
        (desc,) = it.provide_label
        self.assertEqual((desc.dtype, desc.layout), (np.int64, "NCHW"))
        self.assertEqual((it.num_data, it.batch_size), (5, 2))

    def test_as_mxnet_provides(self):
        """MXNet 1.9.1 gave these for {"a": int32 [4], "b": float32 [4, 2]}, {"y": float32 [4]}, and for two arrays."""
        it = libiter.NDArrayIter(
            {"b": np.zeros((4, 2), np.float32), "a": np.zeros(4, np.int32)}, {"y": np.zeros(4, np.float32)}, batch_size=2
        )
        got = [[d.name, list(d.shape), str(d.dtype), d.layout] for d in it.provide_data + it.provide_label]
        self.assertEqual(
            got, [["a", [2], "int32", "NCHW"], ["b", [2, 2], "float32", "NCHW"], ["y", [2], "float32", "NCHW"]]
        )
        it = libiter.NDArrayIter([np.zeros(4), np.zeros(4)], batch_size=2)
        self.assertEqual(it.provide_data, [("_0_data", (2,)), ("_1_data", (2,))])
        self.assertEqual(it.provide_label, [])
        self.assertEqual(next(it).label, [])

    def test_several_arrays_stay_in_their_places(self):
        data = {"x": np.arange(6) + 100, "label": np.arange(6) + 200}  # "label" is data here
        it = libiter.NDArrayIter(data, [np.arange(6) + 300, np.arange(6) + 400], batch_size=6)
        batch = next(it)
        self.assertEqual([desc.name for desc in it.provide_data], ["label", "x"])
        self.assertEqual([desc.name for desc in it.provide_label], ["_0_softmax_label", "_1_softmax_label"])
        self.assertEqual([int(array[0]) for array in batch.data], [200, 100])
        self.assertEqual([int(array[0]) for array in batch.label], [300, 400])

    def test_iter_does_not_reset(self):
        it = libiter.NDArrayIter(np.arange(4), batch_size=2)
        self.assertEqual(len([0 for _ in it]), 2)
        self.assertEqual(len([0 for _ in it]), 0)
        it.reset()
        self.assertEqual(len([0 for _ in it]), 2)

    def test_desc_is_a_pair(self):
        desc = libiter.DataDesc("x", (2, 3), np.float32, "NC")
        name, shape = desc
        self.assertEqual((name, shape, repr(desc).startswith("DataDesc[x,(2, 3),")), ("x", (2, 3), True))
        self.assertEqual(dict([desc]), {"x": (2, 3)})
        self.assertEqual(pickle.loads(pickle.dumps(desc)).layout, "NC")


class Rest(unittest.TestCase):
    def test_shuffle_is_new_each_epoch_and_follows_the_seed(self):
        def epochs(seed, workers=0):
            it = libiter.NDArrayIter(np.arange(100), batch_size=10, shuffle=True, seed=seed, workers=workers)
            out = []
            for _ in range(2):
                out.append([int(row) for batch in it for row in batch.data[0]])
                it.reset()
            return out

        first, second = epochs(1)
        self.assertEqual(sorted(first), list(range(100)))
        self.assertEqual(sorted(second), list(range(100)))
        self.assertNotEqual(first, second)
        self.assertEqual(epochs(1, workers=2), [first, second])
        self.assertNotEqual(epochs(2)[0], first)

    def test_dtype_is_kept(self):
        array = np.array([2**24 + 1, 2**40], np.int64)  # float32, which MXNet makes of it, holds neither exactly
        self.assertEqual(list(next(libiter.NDArrayIter(array, batch_size=2)).data[0]), list(array))

    def test_keep(self):
        it = libiter.NDArrayIter(np.arange(5), batch_size=3, last_batch_handle="keep")
        self.assertEqual([len(batch.data[0]) for batch in it], [3, 2])

    def test_batches_to_keep(self):
        it = libiter.NDArrayIter(np.arange(20), batch_size=2, copy=True)
        self.assertEqual([int(batch.data[0][0]) for batch in list(it)], list(range(0, 20, 2)))
        with self.assertRaisesRegex(libiter.WrongState, "copy=True"):
            list(libiter.NDArrayIter(np.arange(20), batch_size=2))

    def test_torch(self):
        try:
            import torch
        except ImportError:
            self.skipTest("torch is not installed")
        it = libiter.NDArrayIter(torch.arange(4.0), torch.arange(4), batch_size=2, output="torch")
        batch = next(it)
        self.assertIsInstance(batch.data[0], torch.Tensor)
        self.assertEqual(batch.label[0].dtype, torch.int64)

    def test_state_of_its_loader(self):
        array = np.arange(40)
        it = libiter.NDArrayIter(array, batch_size=4, shuffle=True, seed=3)
        for _ in range(3):
            it.next()
        state, rest = it.loader.state_dict(), [list(batch.data[0]) for batch in it]
        other = libiter.NDArrayIter(array, batch_size=4, shuffle=True, seed=3)
        other.loader.load_state_dict(state)
        self.assertEqual([list(batch.data[0]) for batch in other], rest)

    def test_errors(self):
        ten = np.arange(10)
        with self.assertRaisesRegex(libiter.WrongState, "reset"):
            libiter.NDArrayIter(ten).getdata()
        with self.assertRaisesRegex(libiter.InvalidArgument, "data is empty"):
            libiter.NDArrayIter(None)
        with self.assertRaisesRegex(libiter.InvalidArgument, "last_batch_handle is 'rol_over'.*roll-over"):
            libiter.NDArrayIter(ten, last_batch_handle="rol_over")
        with self.assertRaises(libiter.InvalidArgument):
            libiter.NDArrayIter(ten, np.arange(9))
        with self.assertRaisesRegex(libiter.InvalidArgument, "both have an array a"):
            libiter.NDArrayIter({"a": ten}, {"a": ten})
        with self.assertRaisesRegex(TypeError, "Loader"):
            libiter.NDArrayIter(ten, chain="to:f32")
        with self.assertRaisesRegex(TypeError, "shufle"):
            libiter.NDArrayIter(ten, shufle=True)
        with self.assertRaisesRegex(libiter.InvalidArgument, "single number"):
            libiter.NDArrayIter([1, 2, 3])


if __name__ == "__main__":
    unittest.main()

"""What goes in as arrays and comes out as arrays: numpy, torch, jax, DLPack; every dtype and every layout."""
from __future__ import annotations

import ctypes as c
import gc
import importlib.util
import unittest

import numpy as np

import libiter
from libiter import _dlpack, _native as n
from support import arrays, needs

DTYPES = ["uint8", "int8", "uint16", "int16", "uint32", "int32", "uint64", "int64", "float16", "float32", "float64", "bool"]


def values(dtype, shape=(20, 3)):
    count = int(np.prod(shape))
    if dtype == "bool":
        return (np.arange(count) % 3 == 0).reshape(shape)
    return np.arange(count).reshape(shape).astype(dtype)


def epoch(data, **options):
    options.setdefault("batch_size", 6)
    with libiter.Loader(data, **options) as loader:
        return [np.array(batch[0]) for batch in loader]


class Numpy(unittest.TestCase):
    def test_dtypes(self):
        for dtype in DTYPES:
            for shape in ((20,), (20, 3), (20, 2, 3, 2)):
                data = values(dtype, shape)
                for batch, at in zip(epoch(data), range(0, 20, 6)):
                    self.assertEqual(batch.dtype, np.dtype(dtype))
                    np.testing.assert_array_equal(batch, data[at : at + 6])

    def test_layouts(self):
        base = np.arange(40 * 6, dtype=np.float32).reshape(40, 6)
        read_only = base.copy()
        read_only.flags.writeable = False
        layouts = {
            "every second row": base[::2],
            "backwards": base[::-1],
            "columns": base[:, 1:4],
            "every second column": base[:, ::2],
            "Fortran": np.asfortranarray(base),
            "transposed": np.ascontiguousarray(base.T).T,
            "big-endian": base.astype(">f4"),
            "read-only": read_only,
            "broadcast": np.broadcast_to(base[0], (10, 6)),
            "windows": np.lib.stride_tricks.as_strided(base[0], (4, 3), (4, 4)),
            "one row": base[:1],
            "unaligned": np.frombuffer(b"x" + base.tobytes(), np.float32, offset=1).reshape(40, 6),
            "wide rows": base[:, None, :],
        }
        for name, data in layouts.items():
            with self.subTest(name):
                np.testing.assert_array_equal(np.concatenate(epoch(data)), data)
                np.testing.assert_array_equal(np.concatenate(epoch(data, copy_arrays=True)), data)

    def test_no_copy_of_dense_rows(self):
        """Rows that lie in one piece are read where they are: a change shows."""
        data = np.zeros((20, 6), np.float32)
        loader = libiter.Loader(data[::2, 1:4], batch_size=5, workers=0)
        data[:] = 7
        self.assertTrue((next(loader).data == 7).all())

    def test_views(self):
        """Rows that follow one another come as read-only views; everything else may be written to."""
        data, label = arrays(20)
        with libiter.Loader((data, label), batch_size=6, max_held=4) as loader:
            batches = list(loader)
        self.assertEqual([len(batch.data) for batch in batches], [6, 6, 6, 2])
        for k, batch in enumerate(batches):  # they outlive the loader
            for array, given in zip(batch, (data, label)):
                self.assertTrue(np.shares_memory(array, given))
                np.testing.assert_array_equal(array, given[6 * k : 6 * k + 6])
                with self.assertRaises(ValueError):
                    array[0] = 0
        for options in ({"views": "no"}, {"shuffle": True}, {"copy": True}, {"chain": "cast:f64"},
                        {"collate": lambda fields: None}):  # fmt: skip
            with self.subTest(options), libiter.Loader(data, batch_size=6, **options) as loader:
                array = next(loader).data
                self.assertFalse(np.shares_memory(array, data))
                array[0] = 0
        with self.assertRaisesRegex(libiter.InvalidArgument, "views"):
            libiter.Loader(data, views="yes")

    def test_views_are_read_only_in_dlpack(self):
        data = arrays(20)[0]
        with libiter.Loader(data, batch_size=6, output="dlpack", views="auto") as loader:
            tensor = next(loader).data
            array = np.from_dlpack(tensor)
            self.assertFalse(array.flags.writeable)
            self.assertTrue(np.shares_memory(array, data))
            with self.assertRaises(libiter.Unsupported):
                tensor.__dlpack__()  # the old form cannot say so
        with libiter.Loader(data, batch_size=6, output="dlpack") as loader:
            self.assertFalse(np.shares_memory(np.from_dlpack(next(loader).data), data))

    def test_many_views_cost_no_memory(self):
        """What is kept for views depends on the number of rows alone, not on how many batches there were."""
        data = np.arange(4000, dtype=np.int32)
        with libiter.Loader(data, batch_size=2) as loader:
            for _ in loader:
                pass
            gc.collect()
            before = len(gc.get_objects())
            for _ in loader:
                pass
            gc.collect()
            self.assertLess(len(gc.get_objects()) - before, 50)

    def test_forms(self):
        data, label = arrays(10)
        for given, names in ((data, ("data",)), ((data,), ("data",)), ([data, label], ("data", "label")),
                             ((data, label, data), ("data", "data1", "data2")),
                             ({"a": data, "target": label}, ("a", "target"))):  # fmt: skip
            with libiter.Loader(given, batch_size=5) as loader:
                self.assertEqual(next(loader)._fields, names)
                roles = {field.name: field.role for field in loader.fields}
                for name in names:
                    self.assertEqual(roles[name], "label" if name in ("label", "target") else "data")

    def test_refused(self):
        data, label = arrays(10)
        for given, text in (((data, label[:9]), "10|9"), (np.float32(3), "dimensions"), (np.array(["a"]), "numbers"),
                            (np.zeros((3, 2), complex), "complex"), (np.zeros((3,), object), "numbers"), ({}, "none"),
                            ((), "none"), (np.zeros((2,) * 9), "dimensions"), (np.zeros(3, "M8[s]"), "numbers"),
                            ([np.zeros(2)] * 9, "8|fields")):  # fmt: skip
            with self.subTest(text):
                with self.assertRaisesRegex(libiter.InvalidArgument, text):
                    libiter.Loader(given)

    def test_empty(self):
        """No samples, and rows without elements."""
        try:
            self.assertEqual(epoch(np.zeros((0, 3), np.float32)), [])
        except libiter.InvalidArgument as reason:
            self.assertRegex(str(reason), "sample|empty|no data")
        try:
            self.assertEqual([batch.shape for batch in epoch(np.zeros((7, 0), np.float32))], [(6, 0), (1, 0)])
        except libiter.InvalidArgument as reason:
            self.assertRegex(str(reason), "shape|empty|element|dimension")

    def test_aligned_and_writable(self):
        batch = next(iter(libiter.Loader(arrays(10), batch_size=5, shuffle=True)))
        for array in batch:
            self.assertEqual(array.__array_interface__["data"][0] % 64, 0)
            self.assertTrue(array.flags.writeable and array.flags.c_contiguous)

    def test_bf16(self):
        loader = libiter.Loader(arrays(10)[0], "to:bf16", batch_size=5, output="dlpack")
        self.assertEqual(loader.fields[0].dtype, "bf16")
        try:
            import ml_dtypes
        except ImportError:
            with self.assertRaisesRegex(libiter.Unsupported, "ml_dtypes"):
                libiter.Loader(arrays(10)[0], "to:bf16", batch_size=5)
            self.skipTest("ml_dtypes is not installed")
        data = (np.arange(60).reshape(20, 3) / 2).astype(ml_dtypes.bfloat16)
        for copy in (False, True):
            got = epoch(data, copy=copy)
            self.assertEqual(got[0].dtype, data.dtype)
            np.testing.assert_array_equal(np.concatenate(got).astype(np.float32), data.astype(np.float32))


@needs("torch")
class Torch(unittest.TestCase):
    def test_dtypes(self):
        import torch

        names = ["uint8", "int8", "int16", "int32", "int64", "float16", "float32", "float64", "bool"]
        if importlib.util.find_spec("ml_dtypes"):  # numpy stands between, and has no bf16 of its own
            names.append("bfloat16")
        for name in names:
            for copy in (False, True):
                data = torch.arange(60).reshape(20, 3).to(getattr(torch, name))
                with libiter.Loader(data, batch_size=6, output="torch", copy=copy, shuffle=True) as loader:
                    for batch in loader:
                        self.assertEqual(batch.data.dtype, data.dtype)
                        self.assertTrue(torch.equal(batch.data, data[batch.index.astype(np.int64)]))

    def test_layouts(self):
        import torch

        data = torch.arange(240.0).reshape(40, 6)
        for given in (data.t(), data[::2], data[:, ::2], data.clone().requires_grad_(), data.expand(40, 6)):
            with libiter.Loader(given, batch_size=7, output="torch") as loader:
                self.assertTrue(torch.equal(torch.cat([batch.data.clone() for batch in loader]), given.detach()))

    def test_trains(self):
        import torch

        data = torch.arange(20.0)[:, None] / 20
        model = torch.nn.Linear(1, 1)
        with libiter.Loader((data, 3 * data), batch_size=5, output="torch", shuffle=True, workers=1) as loader:
            optimizer = torch.optim.SGD(model.parameters(), 0.5)
            for _ in range(60):
                for x, y in loader:
                    optimizer.zero_grad()
                    loss = ((model(x) - y) ** 2).mean()
                    loss.backward()
                    optimizer.step()
        self.assertLess(loss.item(), 1e-3)

    def test_from_dlpack(self):
        import torch

        data = arrays(20)[0]
        with libiter.Loader(data, batch_size=5, output="dlpack") as loader:
            for batch in loader:
                self.assertTrue(torch.equal(torch.from_dlpack(batch.data), torch.from_numpy(data[batch.index])))
        with libiter.Loader(data, "to:bf16", batch_size=5, output="dlpack") as loader:
            self.assertEqual(torch.from_dlpack(next(loader).data).dtype, torch.bfloat16)


@needs("jax")
class Jax(unittest.TestCase):
    def test_values(self):
        import jax.numpy as jnp

        for name in ("uint8", "int8", "int16", "int32", "uint32", "float16", "float32", "bfloat16"):
            for copy in (False, True):
                data = jnp.arange(60).reshape(20, 3).astype(name)
                with libiter.Loader(data, batch_size=6, output="jax", copy=copy) as loader:
                    for batch in loader:
                        self.assertEqual(batch.data.dtype, data.dtype)
                        self.assertTrue(bool((batch.data == data[batch.index]).all()))

    def test_tree_map(self):
        import jax

        with libiter.Loader(arrays(20), batch_size=5, output="numpy") as loader:
            batch = next(loader)
            leaves, tree = jax.tree_util.tree_flatten(batch)
            self.assertEqual(len(leaves), 2)
            again = jax.tree_util.tree_unflatten(tree, [leaf + 1 for leaf in leaves])
            np.testing.assert_array_equal(again[0], batch[0] + 1)


class Dlpack(unittest.TestCase):
    """Capsules of both forms, looked at as a consumer does."""

    def tensor(self):
        self.loader = libiter.Loader(arrays(4000)[0], batch_size=10, workers=1, output="dlpack")
        return next(self.loader).data

    def free_slots(self):
        """Whether the loader can lend max_held batches: whether none is held."""
        held = []
        try:
            for _ in range(3):
                held.append(next(self.loader))
        except libiter.WrongState:
            return False
        return True

    def test_versioned(self):
        tensor = self.tensor()
        self.assertEqual((tensor.shape, tensor.dtype), ((10, 3), "f32"))
        self.assertEqual(tensor.__dlpack_device__(), (1, 0))
        capsule = tensor.__dlpack__(max_version=(1, 0))
        self.assertIn('"dltensor_versioned"', repr(capsule))
        managed = n.Dlpack.from_address(_dlpack._pointer(id(capsule), b"dltensor_versioned"))
        self.assertEqual(managed.major, 1)
        self.assert_tensor(managed.tensor)

    def test_legacy(self):
        tensor = self.tensor()
        for version in (None, (0, 8)):
            capsule = tensor.__dlpack__(max_version=version)
            self.assertIn('"dltensor"', repr(capsule))
            self.assert_tensor(n.DlpackTensor.from_address(_dlpack._pointer(id(capsule), b"dltensor")))
        self.assert_tensor(n.DlpackTensor.from_address(_dlpack._pointer(id(capsule), b"dltensor")))

    def assert_tensor(self, tensor):
        self.assertEqual((tensor.device_type, tensor.n_dims, tensor.dtype_code, tensor.dtype_bits, tensor.dtype_lanes),
                         (1, 2, 2, 32, 1))  # fmt: skip
        self.assertEqual(tensor.shape[:2], [10, 3])
        data = np.frombuffer(c.string_at(tensor.data + tensor.byte_offset, 120), np.float32).reshape(10, 3)
        np.testing.assert_array_equal(data, arrays(10)[0])

    def test_a_capsule_that_is_not_taken_frees_its_tensor(self):
        for version in (None, (1, 0)):
            tensor = self.tensor()
            capsules = [tensor.__dlpack__(max_version=version) for _ in range(5)]
            del tensor
            gc.collect()
            self.assertFalse(self.free_slots())
            del capsules
            gc.collect()
            self.assertTrue(self.free_slots())

    def test_a_capsule_that_is_taken_frees_it_once(self):
        for consume in (lambda x: np.from_dlpack(x), None):
            if consume is None:
                try:
                    import torch
                except ImportError:
                    continue
                consume = torch.utils.dlpack.from_dlpack
            elif np.lib.NumpyVersion(np.__version__) < "2.1.0":
                continue
            tensor = self.tensor()
            views = [consume(tensor) for _ in range(3)]
            del tensor
            gc.collect()
            self.assertFalse(self.free_slots())
            np.testing.assert_array_equal(np.asarray(views[2]), arrays(10)[0])
            del views
            gc.collect()
            self.assertTrue(self.free_slots())

    def test_refused(self):
        tensor = self.tensor()
        with self.assertRaises(BufferError):
            tensor.__dlpack__(dl_device=(2, 0))
        with self.assertRaises(BufferError):
            tensor.__dlpack__(copy=True)
        with self.assertRaisesRegex(libiter.InvalidArgument, "copy=True"):
            libiter.Loader(arrays(10), output="dlpack", copy=True)


if __name__ == "__main__":
    unittest.main()

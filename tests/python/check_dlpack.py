"""Batches leave by DLPack and arrays come in by it, without a copy, with numpy (and torch, if it is
installed) on the other side.

Run it as  ITER_LIBRARY=build/dev/libiter.so python3 check_dlpack.py  or with the library as argument.
Needs numpy >= 2.1. Exit 0 passed, 1 failed, 77 skipped.
"""
import ctypes as c
import os
import re
import sys


def skip(reason):
    print("skipped:", reason)
    sys.exit(77)


try:
    import numpy as np
except ImportError:
    skip("numpy is not installed")
if tuple(int(part) for part in np.__version__.split(".")[:2]) < (2, 1):
    skip("numpy %s knows no versioned DLPack, 2.1 does" % np.__version__)
library_path = sys.argv[1] if len(sys.argv) > 1 else os.environ.get("ITER_LIBRARY", "")
if not library_path:
    skip("neither argument nor ITER_LIBRARY names the library")
if os.environ.get("ITER_SHARED") == "0" or not os.path.basename(library_path).startswith("libiter.so"):
    skip("the library is not built as a shared one")

# ---- The C interface, as in iter/status.h, tensor.h, dataset.h, loader.h -------------------------

OK, END, EINVAL, EUNSUPPORTED, ESTATE = 0, 1, -2, -5, -6
DATA, LABEL = 0, 1
DTYPES = {"u1": 1, "i1": 2, "u2": 3, "i2": 4, "u4": 5, "i4": 6, "u8": 7, "i8": 8, "f2": 9, "f4": 11, "f8": 12, "b1": 13}
BF16 = 10


class Error(c.Structure):
    _fields_ = [("status", c.c_int), ("message", c.c_char * 504)]


class Desc(c.Structure):
    _fields_ = [("dtype", c.c_int), ("n_dims", c.c_int32), ("dims", c.c_int64 * 8), ("capacity", c.c_int64),
                ("layout", c.c_char * 16)]


class Tensor(c.Structure):
    _fields_ = [("desc", Desc), ("strides", c.c_int64 * 8), ("data", c.c_void_p)]


class Array(c.Structure):
    _fields_ = [("name", c.c_char_p), ("role", c.c_int), ("desc", Desc), ("data", c.c_void_p),
                ("stride_bytes", c.c_size_t)]


RELEASE = c.CFUNCTYPE(None, c.c_void_p)


with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "iter", "loader.h")) as header:
    LOADER_H = re.sub(r"/\*.*?\*/", " ", header.read(), flags=re.S)
NUMBERS = {"size_t": c.c_size_t, "int32_t": c.c_int32, "uint32_t": c.c_uint32, "int64_t": c.c_int64, "uint64_t": c.c_uint64}


def members(name):
    """Members of a struct as the header has them, so that a new one cannot shift the others unseen."""
    body = re.search(r"typedef struct %s \{(.*?)\} %s;" % (name, name), LOADER_H, re.S).group(1)
    for member in filter(None, (" ".join(part.split()) for part in body.split(";"))):
        function = re.search(r"\(\*(\w+)\)\(", member)
        if function:
            yield function.group(1), RELEASE if function.group(1) == "release" else c.c_void_p
        elif "*" in member:
            yield member.split("*")[-1].strip(), c.c_char_p if "char" in member else c.c_void_p
        else:
            kind, names = member.split(" ", 1)
            if kind not in NUMBERS:
                NUMBERS[kind] = type(kind, (c.Structure,), {"_fields_": list(members(kind))})
            for one in names.split(","):
                yield one.strip(), NUMBERS[kind]


class Options(c.Structure):
    _fields_ = list(members("iter_loader_options"))


lib = c.CDLL(library_path)
for name, result, arguments in [
        ("iter_ndarray_create", c.c_int, [c.POINTER(Array), c.c_int32, c.c_void_p, c.POINTER(Options),
                                          c.POINTER(c.c_void_p), c.POINTER(Error)]),
        ("iter_dataset_open", c.c_int, [c.c_char_p, c.c_void_p, c.POINTER(c.c_void_p), c.POINTER(Error)]),
        ("iter_dataset_unref", None, [c.c_void_p]),
        ("iter_dataloader_create", c.c_int, [c.c_void_p, c.c_void_p, c.POINTER(Options), c.POINTER(c.c_void_p),
                                             c.POINTER(Error)]),
        ("iter_loader_next", c.c_int, [c.c_void_p, c.POINTER(c.c_void_p), c.POINTER(Error)]),
        ("iter_loader_reset", c.c_int, [c.c_void_p, c.POINTER(Error)]),
        ("iter_loader_unref", None, [c.c_void_p]),
        ("iter_batch_unref", None, [c.c_void_p]),
        ("iter_batch_tensor", c.POINTER(Tensor), [c.c_void_p, c.c_int32]),
        ("iter_batch_to_dlpack", c.c_int, [c.c_void_p, c.c_int32, c.POINTER(c.c_void_p), c.POINTER(Error)]),
        ("iter_tensor_from_dlpack", c.c_int, [c.c_void_p, c.POINTER(Tensor), c.POINTER(Error)]),
        ("iter_array_from_dlpack", c.c_int, [c.c_void_p, c.c_char_p, c.c_int, c.POINTER(Array), c.POINTER(Error)])]:
    function = getattr(lib, name)
    function.restype, function.argtypes = result, arguments

# ---- PyCapsules ----------------------------------------------------------------------------------

CAPSULE = b"dltensor_versioned"  # a capsule keeps the pointer, so this must live
api = c.pythonapi
DESTRUCTOR = c.CFUNCTYPE(None, c.c_void_p)  # the address alone: ctypes must not touch a dying object
api.PyCapsule_New.restype, api.PyCapsule_New.argtypes = c.py_object, [c.c_void_p, c.c_char_p, DESTRUCTOR]
api.PyCapsule_IsValid.restype, api.PyCapsule_IsValid.argtypes = c.c_int, [c.c_void_p, c.c_char_p]
api.PyCapsule_GetPointer.restype, api.PyCapsule_GetPointer.argtypes = c.c_void_p, [c.c_void_p, c.c_char_p]


class Managed(c.Structure):
    """The stable head of DLManagedTensorVersioned."""
    _fields_ = [("major", c.c_uint32), ("minor", c.c_uint32), ("manager_ctx", c.c_void_p),
                ("deleter", c.CFUNCTYPE(None, c.c_void_p)), ("flags", c.c_uint64)]


def delete_managed(pointer):
    c.cast(pointer, c.POINTER(Managed)).contents.deleter(pointer)


@DESTRUCTOR
def drop_capsule(capsule):
    """A consumer renames the capsule; one that still has its name was never consumed."""
    if api.PyCapsule_IsValid(capsule, CAPSULE):
        delete_managed(api.PyCapsule_GetPointer(capsule, CAPSULE))


class Exported:
    """One field of a batch, as numpy and torch expect it."""

    def __init__(self, batch, field):
        self.batch, self.field = batch, field

    def __dlpack_device__(self):
        return (1, 0)

    def __dlpack__(self, *, stream=None, max_version=None, dl_device=None, copy=None):
        assert max_version is not None and max_version[0] >= 1, "a consumer of unversioned DLPack"
        assert not copy
        managed, err = c.c_void_p(), Error()
        check(lib.iter_batch_to_dlpack(self.batch, self.field, c.byref(managed), c.byref(err)), OK, err)
        return api.PyCapsule_New(managed, CAPSULE, drop_capsule)


def import_array(array, name, role, want=OK):
    """A numpy array as an iter_array, and what must stay alive with it."""
    capsule = array.__dlpack__(max_version=(1, 0))
    managed = api.PyCapsule_GetPointer(id(capsule), CAPSULE)
    out, err = Array(), Error()
    check(lib.iter_array_from_dlpack(managed, name, role, c.byref(out), c.byref(err)), want, err)
    return out, capsule


# ---- Verbs ---------------------------------------------------------------------------------------

failures = 0


def expect(condition, text):
    global failures
    if not condition:
        failures += 1
        print("%s:%d: %s" % (os.path.basename(__file__), sys._getframe(1).f_lineno, text))


def check(status, want, err=None):
    if status != want:
        raise AssertionError("status %d, expected %d: %s" % (status, want, err.message.decode() if err else ""))


def ndarray(fields, **options):
    opt = Options(struct_size=c.sizeof(Options), **options)
    loader, err = c.c_void_p(), Error()
    check(lib.iter_ndarray_create((Array * len(fields))(*fields), len(fields), None, c.byref(opt), c.byref(loader),
                                  c.byref(err)), OK, err)
    return loader


def next_batch(loader, want=OK):
    batch, err = c.c_void_p(), Error()
    check(lib.iter_loader_next(loader, c.byref(batch), c.byref(err)), want, err)
    return batch


def address(array):
    return array.__array_interface__["data"][0]


def borrowed(batch, field):
    return lib.iter_batch_tensor(batch, field).contents


# ---- Checks --------------------------------------------------------------------------------------

def check_values_and_addresses(workers):
    """numpy's arrays in by DLPack, batches out by it: 10 rows in batches of 4, the last filled up with rows 0 and 1."""
    data = np.arange(10 * 3 * 5, dtype=np.float32).reshape(10, 3, 5)
    label = np.arange(100, 110, dtype=np.int64)
    fields = [import_array(data, b"data", DATA), import_array(label, b"label", LABEL)]
    expect(fields[0][0].data == address(data), "the array was copied on the way in")
    loader = ndarray([field for field, _ in fields], batch_size=4, workers=workers)
    for rows in ([0, 1, 2, 3], [4, 5, 6, 7], [8, 9, 0, 1]):
        batch = next_batch(loader)
        for field, source in enumerate((data, label)):
            seen = np.from_dlpack(Exported(batch, field))
            expect(address(seen) == borrowed(batch, field).data, "a copy was made of field %d" % field)
            expect(seen.dtype == source.dtype and np.array_equal(seen, source[rows]), "field %d of rows %s" % (field, rows))
            is_view = rows[3] == rows[0] + 3
            expect(seen.flags.writeable != is_view, "views of the array, and they alone, are read-only")
            expect((address(seen) == address(source[rows[0]:])) == is_view, "rows %s: where they lie" % rows)
            expect(seen.strides == source[:4].strides, "strides %s" % (seen.strides,))
            again = np.from_dlpack(Exported(batch, field))
            expect(address(again) == address(seen), "two exports of one field lie apart")
            del seen, again
        lib.iter_batch_unref(batch)
    next_batch(loader, END)
    lib.iter_loader_unref(loader)


def check_element_types():
    for code, dtype in DTYPES.items():
        source = np.arange(8).astype(code).reshape(4, 2)
        field, capsule = import_array(source, None, DATA)
        expect(field.desc.dtype == dtype, "%s came in as %d" % (code, field.desc.dtype))
        loader = ndarray([field], batch_size=4)
        batch = next_batch(loader)
        seen = np.from_dlpack(Exported(batch, 0))
        expect(seen.dtype == source.dtype and np.array_equal(seen, source), "values of %s" % code)
        del seen
        lib.iter_batch_unref(batch)
        lib.iter_loader_unref(loader)
        del capsule


def check_lifetimes():
    """With max_held 1 the loader itself tells when a batch is free: next() fails until numpy drops it."""
    released = []
    source = np.arange(24, dtype=np.uint8).reshape(8, 3)
    field, capsule = import_array(source, None, DATA)
    release = RELEASE(lambda user: released.append(1))
    loader = ndarray([field], batch_size=2, max_held=1, arrays=NUMBERS["iter_loader_arrays"](release=release))

    batch = next_batch(loader)
    seen = np.from_dlpack(Exported(batch, 0))
    part = seen[1:]
    lib.iter_batch_unref(batch)
    next_batch(loader, ESTATE)
    del seen
    next_batch(loader, ESTATE)  # the view still has it
    expect(np.array_equal(part, source[1:2]), "values after the batch was given back")
    del part
    batch = next_batch(loader)

    unused = Exported(batch, 0).__dlpack__(max_version=(1, 0))
    lib.iter_batch_unref(batch)
    next_batch(loader, ESTATE)
    del unused  # never consumed: the capsule releases it
    batch = next_batch(loader)

    seen = np.from_dlpack(Exported(batch, 0))
    lib.iter_batch_unref(batch)
    lib.iter_loader_unref(loader)
    expect(np.array_equal(seen, source[4:6]), "values after the loader was given back")
    expect(not released, "the arrays were released under a live batch")
    del seen
    expect(released == [1], "the arrays were released %d times" % len(released))
    del capsule


def check_dataset(workers):
    data, loader, err = c.c_void_p(), c.c_void_p(), Error()
    check(lib.iter_dataset_open(b"synthetic:cifar10?n=100", None, c.byref(data), c.byref(err)), OK, err)
    opt = Options(struct_size=c.sizeof(Options), batch_size=32, workers=workers, shuffle=1, seed=7)
    check(lib.iter_dataloader_create(data, None, c.byref(opt), c.byref(loader), c.byref(err)), OK, err)
    lib.iter_dataset_unref(data)
    rows = 0
    while True:
        batch, err = c.c_void_p(), Error()
        status = lib.iter_loader_next(loader, c.byref(batch), c.byref(err))
        if status == END:
            break
        check(status, OK, err)
        tensor = borrowed(batch, 0)
        seen = np.from_dlpack(Exported(batch, 0))
        expect(seen.shape == tuple(tensor.desc.dims[:tensor.desc.n_dims]), "shape %s" % (seen.shape,))
        expect(seen.tobytes() == c.string_at(tensor.data, seen.nbytes), "bytes of a batch")
        expect(address(seen) == tensor.data, "a copy was made")
        rows += seen.shape[0]
        del seen
        lib.iter_batch_unref(batch)
    expect(rows == 100, "%d rows of 100" % rows)
    lib.iter_loader_unref(loader)


def check_refusals():
    square = np.zeros((4, 4, 4), dtype=np.float32)
    import_array(np.asfortranarray(square), None, DATA, EUNSUPPORTED)
    import_array(square[::-1], None, DATA, EUNSUPPORTED)
    import_array(np.zeros((), dtype=np.float32), None, DATA, EINVAL)
    import_array(np.zeros(4, dtype=np.complex64), None, DATA, EUNSUPPORTED)
    apart, capsule = import_array(square[::2], None, DATA)
    expect(apart.stride_bytes == square.strides[0] * 2, "rows that lie apart")
    del capsule


def check_torch():
    try:
        import torch
    except ImportError:
        print("skipped in part: torch is not installed, so bf16 has no second reader")
        return
    values = torch.arange(12).reshape(4, 3).to(torch.bfloat16)
    desc = Desc(dtype=BF16, n_dims=2, dims=(c.c_int64 * 8)(4, 3))
    loader = ndarray([Array(role=DATA, desc=desc, data=values.data_ptr())], batch_size=4)
    batch = next_batch(loader)
    try:
        seen = torch.from_dlpack(Exported(batch, 0))
    except AssertionError as error:
        print("skipped in part: torch %s: %s" % (torch.__version__, error))
        seen = None
    if seen is not None:
        expect(seen.dtype == torch.bfloat16 and torch.equal(seen, values), "bf16 values in torch")
        expect(seen.data_ptr() == borrowed(batch, 0).data, "torch made a copy")
        del seen
    lib.iter_batch_unref(batch)
    lib.iter_loader_unref(loader)


for workers in (0, 2):
    check_values_and_addresses(workers)
    check_dataset(workers)
check_element_types()
check_lifetimes()
check_refusals()
check_torch()
print("numpy %s: %s" % (np.__version__, "FAILED" if failures else "ok"))
sys.exit(1 if failures else 0)

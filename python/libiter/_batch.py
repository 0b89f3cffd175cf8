"""One batch: a named tuple of its fields, with what the loader knows about its rows."""
from __future__ import annotations

import ctypes as c
import keyword
import operator
import time
from typing import TYPE_CHECKING, Any, Callable, Dict, List, NamedTuple, Optional, Sequence, Tuple, Type

import numpy as np

from . import _native as n
from ._dlpack import DlpackTensor
from ._tensors import BF16, Owners, SetViews, SlotView, converter, numpy_dtype, untrack

_taken = {"count", "index"}


class Field(NamedTuple):
    """One field of a loader's batches."""

    name: str
    role: str  #: "data" or "label"
    dtype: str  #: "f32" and the like
    shape: Tuple[Any, ...]  #: of a full batch; None = it varies, up to `capacity`
    capacity: int
    layout: str  #: a letter a dimension, such as "NCHW"; "" = unnamed


class Batch(Tuple[Any, ...]):
    """A batch: a tuple of arrays, one per field, in the order of `loader.fields`.

        images, labels = batch          # or batch.data, batch.label

    The arrays lie in memory of the loader. Each keeps its batch alive; when the last of them and the batch are
    gone, the loader uses the memory again. With copy=True they are copies. Read-only arrays are views of the set
    itself, see `views` of Loader.
    """

    _fields: Tuple[str, ...] = ()
    _memory: Any = None
    _handle = 0
    _kept: Optional["_Kept"] = None

    def __new__(cls, *arrays: Any) -> "Batch":
        """From arrays: for code that rebuilds a tuple after it changed the parts, as jax.tree_util does. Such a
        batch has fields alone."""
        return tuple.__new__(cls, arrays)

    if TYPE_CHECKING:  # the fields by name, which a type checker does not know

        def __getattr__(self, name: str) -> Any: ...

    def __getnewargs__(self) -> Tuple[Any, ...]:
        return tuple(self)

    def __reduce__(self) -> Any:
        return (_rebuild, (self._fields, tuple(self)))

    def __repr__(self) -> str:
        parts = ", ".join(
            "%s=%s %s" % (name, getattr(array, "dtype", "?"), list(getattr(array, "shape", ())))
            for name, array in zip(self._fields, self)
        )
        return "Batch(%s)" % parts

    def _asdict(self) -> Dict[str, Any]:
        """The fields by name."""
        return dict(zip(self._fields, self))

    def _info(self) -> n.BatchInfo:
        if self._kept is not None:
            return self._kept.info
        if not self._handle:
            raise n.WrongState("batch: it was closed, or it was not made by a loader")
        info: n.BatchInfo = n.quick.iter_batch_describe(self._handle)
        return info

    def _rows(self, what: str, dtype: Any) -> "np.ndarray[Any, Any]":
        n_rows = self._info().n_rows
        if self._kept is not None:
            text = self._kept.rows[what]
        else:
            text = c.string_at(_pointers[what](self._handle), n_rows * np.dtype(dtype).itemsize) if n_rows else b""
        return np.frombuffer(text, dtype)

    @property
    def index(self) -> "np.ndarray[Any, Any]":  # type: ignore[override]
        """uint64 [n_rows]: the index of each row's sample in the dataset. A copy."""
        return self._rows("index", np.uint64)

    @property
    def position(self) -> "np.ndarray[Any, Any]":
        """uint64 [n_rows]: each row's position in the order of its epoch. A copy."""
        return self._rows("position", np.uint64)

    @property
    def valid(self) -> "np.ndarray[Any, Any]":
        """bool [n_rows]: False for a row of zeros, whose sample failed under on_error="blank". A copy."""
        return self._rows("valid", np.uint8).astype(bool)

    def lengths(self, field: str) -> "np.ndarray[Any, Any]":
        """int32 [n_rows]: how many elements of each row of a variable field are used. A copy. Raises KeyError
        if there is no such field, InvalidArgument if its rows all have the same length."""
        if field not in self._fields:
            raise KeyError(field)
        if self._kept is None:
            n_rows = self._info().n_rows
            pointer = n.quick.iter_batch_lengths(self._handle, self._fields.index(field))
            text = c.string_at(pointer, 4 * n_rows) if pointer else None
        else:
            text = self._kept.lengths.get(field)
        if text is None:
            raise n.InvalidArgument("field %s: all rows have the same length" % field)
        return np.frombuffer(text, np.int32)

    @property
    def pad(self) -> int:
        """How many rows at the end only fill up the batch (at the front, with last_batch="roll-over")."""
        return int(self._info().pad)

    @property
    def epoch(self) -> int:
        """The epoch that it belongs to."""
        return int(self._info().epoch)

    @property
    def number(self) -> int:
        """Its number within the epoch, from 0."""
        return int(self._info().number)

    @property
    def n_failed(self) -> int:
        """Rows whose sample failed and was blanked or replaced."""
        return int(self._info().n_failed)

    def close(self) -> None:
        """Lets go of the batch before the object ends. Arrays that are still in use keep its memory, but its
        attributes cannot be read any more."""
        self._memory, self._handle, self._kept = None, 0, None


_pointers: Dict[str, Callable[[int], int]] = {
    "index": n.quick.iter_batch_index,
    "position": n.quick.iter_batch_position,
    "valid": n.quick.iter_batch_valid,
}


class _Kept:
    """What a batch of copies still knows after its memory was given back."""

    __slots__ = ("info", "rows", "lengths")

    def __init__(self, handle: int, names: Sequence[str]) -> None:
        self.info: n.BatchInfo = n.quick.iter_batch_describe(handle)
        rows = self.info.n_rows
        self.rows = {
            what: c.string_at(pointer(handle), rows * (1 if what == "valid" else 8)) if rows else b""
            for what, pointer in _pointers.items()
        }
        self.lengths: Dict[str, bytes] = {}
        for i, name in enumerate(names):
            at = n.quick.iter_batch_lengths(handle, i)
            if at:
                self.lengths[name] = c.string_at(at, 4 * rows)


def _rebuild(fields: Tuple[str, ...], arrays: Tuple[Any, ...]) -> Batch:
    return tuple.__new__(batch_type(fields), arrays)


_types: Dict[Tuple[str, ...], Type[Batch]] = {}


def batch_type(names: Sequence[str]) -> Type[Batch]:
    """The Batch class with these fields as attributes. A name that is no attribute's, or is one already, gets
    a "_" after it."""
    key = tuple(names)
    made = _types.get(key)
    if made is not None:
        return made
    parts: Dict[str, Any] = {"_fields": key, "__doc__": Batch.__doc__, "__module__": __name__}
    for i, name in enumerate(key):
        safe = name if name.isidentifier() else "".join(x if x.isalnum() else "_" for x in name)
        if keyword.iskeyword(safe) or hasattr(Batch, safe) or safe in _taken or not safe.isidentifier():
            safe = (safe if safe.isidentifier() else "_" + safe) + "_"
        parts[safe] = property(operator.itemgetter(i), doc="Field %s." % name)
    made = _types[key] = type("Batch", (Batch,), parts)
    return made


# ---- Making them ----------------------------------------------------------------------------------


def maker(fields: List[Field], output: str, copy: bool, may_view: bool) -> Callable[[c.c_void_p], Batch]:
    """Returns make(out), which takes one reference on a batch out of `out`, and gives the Batch. If an exception
    leaves it, Ctrl-C for example, the batch is either still in `out`, or was given back."""
    names = [field.name for field in fields]
    kind = batch_type(names)
    if output in ("jax", "dlpack"):
        return _dlpack_maker(fields, kind, output, copy)
    n_fields = len(fields)
    bf16 = [numpy_dtype(BF16) if field.dtype == "bf16" and output == "numpy" else None for field in fields]
    has_bf16 = any(field.dtype == "bf16" for field in fields)
    convert = converter(output)
    slots: Dict[int, SlotView] = {}
    owners = Owners()
    is_view, views_of = n.quick.iter_batch_is_view, SetViews(n_fields, convert is None).arrays
    ndarray, new = np.ndarray, tuple.__new__

    def make(out: c.c_void_p) -> Batch:
        handle: int = out.value  # type: ignore[assignment]
        out.value = None  # Python (3.11 and later) handles no signal between this and the next line
        owner = owners[handle]()
        untrack(owner)
        memory: Any = owner
        arrays: List[Any]
        if may_view and is_view(handle):
            arrays = views_of(handle, owner)
        else:
            view = slots.get(handle)
            if view is None or view.now.raw != view.then:
                view = slots[handle] = SlotView(handle, n_fields)
            memory = view.memory.from_address(view.base)
            memory.owner = owner
            arrays = [ndarray(shape, dtype, memory, offset, strides) for shape, dtype, offset, strides in view.parts]
        if has_bf16 and convert is None:
            arrays = [array if to is None else array.view(to) for array, to in zip(arrays, bf16)]
        if copy:
            arrays = [array.copy() for array in arrays]
        if convert is not None:
            arrays = [convert(array, field.dtype == "bf16") for array, field in zip(arrays, fields)]
        batch: Batch = new(kind, arrays)
        if copy:
            batch._kept = _Kept(handle, names)
        else:
            batch._memory = memory
            batch._handle = handle
        return batch

    return make


def _dlpack_maker(
    fields: List[Field], kind: Type[Batch], output: str, copy: bool
) -> Callable[[c.c_void_p], Batch]:
    from_dlpack: Any = None
    if output == "jax":
        try:
            import jax.dlpack
        except ImportError:
            raise n.Unsupported('output="jax": jax is not installed') from None
        from_dlpack = jax.dlpack.from_dlpack
    elif copy:
        raise n.InvalidArgument('copy=True: output="dlpack" only exports; copy in the library that imports')
    names, dtypes = [field.name for field in fields], [field.dtype for field in fields]
    owners = Owners()

    def make(out: c.c_void_p) -> Batch:
        handle: int = out.value  # type: ignore[assignment]
        out.value = None  # as above
        memory = owners[handle]()
        untrack(memory)
        arrays: List[Any] = []
        for i, dtype in enumerate(dtypes):
            tensor = n.Tensor.from_address(n.quick.iter_batch_tensor(handle, i))
            shape = tuple(tensor.desc.dims[: tensor.desc.n_dims])
            arrays.append(DlpackTensor(handle, memory, i, shape, dtype))
        if from_dlpack is not None:
            arrays = [from_dlpack(array) for array in arrays]
        batch: Batch = tuple.__new__(kind, arrays)
        if copy:
            batch = tuple.__new__(kind, [array.copy() for array in arrays])
            for array in batch:
                array.block_until_ready()  # the copy reads the slot until then
            batch._kept = _Kept(handle, names)
        else:
            batch._memory = memory
            batch._handle = handle
        return batch

    return make


def held_by_jax(message: bytes) -> bool:
    """Whether the loader lacks free batches and JAX may hold some. JAX runs behind the program, and a step holds its
    batch until it has run, so this waits for all that runs; a batch of a finished step is free a moment later."""
    if b"batches are held" not in message:
        return False
    live_arrays: Any = __import__("jax").live_arrays
    for array in live_arrays():
        array.block_until_ready()
    time.sleep(0.001)
    return True

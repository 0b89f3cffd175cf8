"""From an iter_tensor to arrays of numpy, torch and jax, and back from arrays to descriptions.

Nothing here copies, except where a function says so.
"""
from __future__ import annotations

import ctypes as c
import functools
import math
import struct
import sys
from typing import Any, Callable, Dict, List, Mapping, Optional, Sequence, Tuple, Type, Union

import numpy as np

from . import _native as n

_names = ["u8", "i8", "u16", "i16", "u32", "i32", "u64", "i64", "f16", "bf16", "f32", "f64", "bool"]
_numpy_names = {
    "u8": "uint8",
    "i8": "int8",
    "u16": "uint16",
    "i16": "int16",
    "u32": "uint32",
    "i32": "int32",
    "u64": "uint64",
    "i64": "int64",
    "f16": "float16",
    "f32": "float32",
    "f64": "float64",
    "bool": "bool",
}
_dtypes: Dict[int, "np.dtype[Any]"] = {
    code: np.dtype(_numpy_names[name]) for code, name in enumerate(_names, 1) if name in _numpy_names
}
_codes = {dtype: code for code, dtype in _dtypes.items()}
_itemsizes = [0, 1, 1, 2, 2, 4, 4, 8, 8, 2, 2, 4, 8, 1]
BF16 = 10
_UINT16 = np.dtype("uint16")

OUTPUTS = ("numpy", "torch", "jax", "dlpack")


def dtype_text(code: int) -> str:
    """ "f32" and the like."""
    return _names[code - 1]


def dtype_code(dtype: Any) -> int:
    """The iter_dtype of "f32", "float32", np.float32, ...; raises InvalidArgument for others."""
    if isinstance(dtype, str) and dtype in _names:
        return _names.index(dtype) + 1
    if str(dtype) in ("bfloat16", "torch.bfloat16"):
        return BF16
    if str(dtype).startswith("torch."):
        dtype = str(dtype)[len("torch.") :]
    try:
        found = _codes.get(np.dtype(dtype).newbyteorder("="))
    except TypeError:
        found = None
    if found is None:
        raise n.InvalidArgument("dtype %s: expected one of %s" % (dtype, ", ".join(_names)))
    return found


def numpy_dtype(code: int) -> "np.dtype[Any]":
    """numpy's dtype. numpy itself has no bfloat16; ml_dtypes adds it, if it is installed."""
    if code != BF16:
        return _dtypes[code]
    try:
        import ml_dtypes  # type: ignore[import-not-found,unused-ignore]
    except ImportError:
        raise n.Unsupported(
            'bf16: numpy has no such type. Use output="torch", or install ml_dtypes, or end the chain with to:f32'
        ) from None
    bfloat16: "np.dtype[Any]" = np.dtype(ml_dtypes.bfloat16)
    return bfloat16


def fill_desc(
    desc: n.Desc, code: int, shape: Sequence[Optional[int]], capacity: int = 0, layout: str = ""
) -> None:
    """Writes dtype, shape and layout; None = a variable first dimension of at most `capacity`."""
    if len(shape) > n.MAX_DIMS:
        raise n.InvalidArgument("%d dimensions: at most %d are possible" % (len(shape), n.MAX_DIMS))
    desc.dtype, desc.n_dims, desc.capacity, desc.layout = code, len(shape), capacity, layout.encode()
    for i, extent in enumerate(shape):
        desc.dims[i] = n.VARIABLE if extent is None else extent


Layout = Union[str, Mapping[str, str], None]


def layout_of(layout: Layout, name: str, n_dims: int, is_label: bool) -> str:
    """The letters of a sample's dimensions, without N, or "". A text is for every data field that has so many
    dimensions; a mapping has one for each field that it names."""
    if layout is None:
        return ""
    if isinstance(layout, str):
        text = layout[1:] if layout.startswith("N") else layout
        return text if len(text) == n_dims and not is_label else ""
    text = layout.get(name, "")
    text = text[1:] if text.startswith("N") else text
    if text and len(text) != n_dims:
        raise n.InvalidArgument("layout of field %s: %r has %d letters; expected %d" % (name, text, len(text), n_dims))
    return text


def check_layout(layout: Layout, found: Mapping[str, str]) -> None:
    """Raises InvalidArgument if a layout that was given is no field's; `found` has the layout of each field."""
    if isinstance(layout, str) and layout and not any(found.values()):
        raise n.InvalidArgument("layout: no data field has the dimensions of %r" % layout)
    for name in layout if isinstance(layout, Mapping) else ():
        if name not in found:
            raise n.InvalidArgument("layout: there is no field %s; expected one of %s" % (name, ", ".join(found)))


def view_rows(tensor: n.Tensor) -> "np.ndarray[Any, Any]":
    """A writable numpy view of a tensor in memory that the library lends for a callback."""
    desc = tensor.desc
    code, n_dims = desc.dtype, desc.n_dims
    size = _itemsizes[code]
    shape = tuple(desc.capacity if extent < 0 else extent for extent in desc.dims[:n_dims])
    strides = tuple(step * size for step in tensor.strides[:n_dims])
    if 0 in shape:
        return np.empty(shape, numpy_dtype(code))
    last = sum((extent - 1) * step for extent, step in zip(shape, strides)) + size
    memory = (c.c_ubyte * last).from_address(tensor.data)
    return np.ndarray(shape, numpy_dtype(code), memory, 0, strides)


def copy_of(tensor: n.Tensor) -> "np.ndarray[Any, Any]":
    """A numpy array of its own."""
    return view_rows(tensor).copy()


def as_array(value: Any) -> "np.ndarray[Any, Any]":
    """Any array on the host as numpy's, without a copy if possible: numpy, torch, jax, lists of numbers."""
    if isinstance(value, np.ndarray):
        return value
    detach = getattr(value, "detach", None)
    if detach is not None:  # a torch tensor; one that lies on a GPU says so itself
        value = detach()
        if str(value.dtype) == "torch.bfloat16":  # of the same size: torch converts no bfloat16 to numpy
            return np.asarray(value.view(sys.modules["torch"].int16)).view(numpy_dtype(BF16))
    return np.asarray(value)


# ---- Arrays over a slot ---------------------------------------------------------------------------


class Memory(c.Array):  # type: ignore[type-arg]
    """The memory of one batch. Every array over it keeps it alive, and its `owner` gives the batch back."""

    _type_ = c.c_ubyte
    _length_ = 0
    owner: Any = None


untrack = c.pythonapi.PyObject_GC_UnTrack
untrack.restype, untrack.argtypes = None, [c.py_object]


class Owners(Dict[int, Type[Any]]):
    """By batch: the type of objects, each of which drops one reference on that batch when it ends.

    No Python code runs then, because Python would handle a signal there, and an exception that is raised in a
    destructor is lost: so would Ctrl-C be, and the batch. The maker calls untrack(), so that the garbage collector
    does not see them: it would end one in a circle of garbage before a `__del__` of that circle, which may still
    read arrays.
    """

    def __missing__(self, batch: int) -> Type[Any]:
        drop = functools.partial(n.quick.iter_batch_unref, batch)
        kind = self[batch] = type("Owner", (), {"__slots__": (), "__del__": staticmethod(drop)})
        return kind


_memory_types: Dict[int, Any] = {}


def memory_type(size: int) -> Any:
    """The Memory type of that many bytes; made once."""
    made = _memory_types.get(size)
    if made is None:
        made = _memory_types[size] = type("Memory", (Memory,), {"_length_": size, "_type_": c.c_ubyte})
    return made


class SlotView:
    """How the arrays of one slot are made, for one state of its tensors (their shapes may change).

    A slot's addresses stay the same as long as the loader lives, so the tensors are read once. While now.raw is
    `then`, they are what they were.
    """

    __slots__ = ("now", "then", "memory", "base", "parts")

    def __init__(self, batch: int, n_fields: int) -> None:
        first: int = n.quick.iter_batch_tensor(batch, 0)  # of an array
        self.now = (c.c_char * (n_fields * _tensor_bytes)).from_address(first)
        self.then: bytes = self.now.raw
        tensors = (n.Tensor * n_fields).from_buffer_copy(self.then)
        bounds: List[Tuple[int, int]] = []
        for tensor in tensors:
            desc, size = tensor.desc, _itemsizes[tensor.desc.dtype]
            extent = sum((d - 1) * s for d, s in zip(desc.dims[: desc.n_dims], tensor.strides[: desc.n_dims]))
            empty = tensor.data is None or 0 in desc.dims[: desc.n_dims]
            if not empty:
                bounds.append((tensor.data, tensor.data + extent * size + size))
        self.base = min((low for low, _ in bounds), default=0)
        self.memory = memory_type(max((high for _, high in bounds), default=self.base) - self.base)
        # shape, dtype, offset, strides of each field; bf16 as 16-bit integers
        self.parts = []
        for tensor in tensors:
            desc, size = tensor.desc, _itemsizes[tensor.desc.dtype]
            shape = tuple(desc.dims[: desc.n_dims])
            strides = tuple(step * size for step in tensor.strides[: desc.n_dims])
            dtype = _dtypes.get(desc.dtype, _UINT16)
            offset = 0 if 0 in shape or tensor.data is None else tensor.data - self.base
            self.parts.append((shape, dtype, offset, strides))


_tensor_bytes = c.sizeof(n.Tensor)


class SetViews:
    """The arrays of batches that are views of the set. Each batch lies elsewhere, so addresses are read every time;
    shapes depend on the number of rows alone."""

    def __init__(self, n_fields: int, read_only: bool) -> None:
        self._n_fields, self._read_only = n_fields, read_only
        self._now: Dict[int, Any] = {}
        self._parts: Dict[int, List[Tuple[Tuple[int, ...], "np.dtype[Any]", Any]]] = {}

    def _describe(self, raw: bytes) -> "List[Tuple[Tuple[int, ...], np.dtype[Any], Any]]":
        """Shape, dtype (bf16 as 16-bit integers) and type of the memory of each field."""
        parts = []
        for tensor in (n.Tensor * self._n_fields).from_buffer_copy(raw):
            shape = tuple(tensor.desc.dims[: tensor.desc.n_dims])
            dtype = _dtypes.get(tensor.desc.dtype, _UINT16)
            parts.append((shape, dtype, memory_type(math.prod(shape) * dtype.itemsize)))
        return parts

    def arrays(self, batch: int, owner: Any) -> "List[np.ndarray[Any, Any]]":
        now = self._now.get(batch)
        if now is None:
            first: int = n.quick.iter_batch_tensor(batch, 0)
            now = self._now[batch] = (c.c_char * (self._n_fields * _tensor_bytes)).from_address(first)
        raw = now.raw
        n_rows = _number_at(raw, _rows_at)[0]
        parts = self._parts.get(n_rows)
        if parts is None:
            parts = self._parts[n_rows] = self._describe(raw)
        made: "List[np.ndarray[Any, Any]]" = []
        at = _data_at
        for shape, dtype, kind in parts:
            memory = kind.from_address(_number_at(raw, at)[0])
            memory.owner = owner
            array: "np.ndarray[Any, Any]" = np.ndarray(shape, dtype, memory)
            if self._read_only:
                array.setflags(write=False)
            made.append(array)
            at += _tensor_bytes
        return made


_number_at = struct.Struct("=q").unpack_from
_data_at, _rows_at = n.Tensor.data.offset, n.Tensor.desc.offset + n.Desc.dims.offset

Convert = Callable[["np.ndarray[Any, Any]", bool], Any]


def converter(output: str) -> Optional[Convert]:
    """What makes an output's array of a numpy array, without a copy; None = nothing to do. The second argument
    says that the array holds bfloat16 as 16-bit integers."""
    if output == "numpy":
        return None
    if output == "torch":
        try:
            import torch  # type: ignore[import-not-found,unused-ignore]
        except ImportError:
            raise n.Unsupported('output="torch": torch is not installed') from None
        from_numpy, bfloat16 = torch.from_numpy, torch.bfloat16

        def to_torch(array: "np.ndarray[Any, Any]", is_bf16: bool) -> Any:
            if is_bf16:
                return from_numpy(array.view(np.int16)).view(bfloat16)
            return from_numpy(array)

        return to_torch
    raise AssertionError(output)

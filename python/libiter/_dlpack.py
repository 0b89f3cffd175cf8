"""A batch's field as a DLPack exporter: what jax and other libraries import without a copy."""
from __future__ import annotations

import ctypes as c
from typing import Any, Optional, Tuple

from . import _native as n

_new = c.pythonapi.PyCapsule_New
_new.restype, _new.argtypes = c.py_object, [c.c_void_p, c.c_char_p, c.c_void_p]
_is_valid = c.pythonapi.PyCapsule_IsValid
_is_valid.restype, _is_valid.argtypes = c.c_int, [c.c_void_p, c.c_char_p]
_pointer = c.pythonapi.PyCapsule_GetPointer
_pointer.restype, _pointer.argtypes = c.c_void_p, [c.c_void_p, c.c_char_p]
_DESTRUCTOR = c.PYFUNCTYPE(None, c.c_void_p)
_DELETER = c.PYFUNCTYPE(None, c.c_void_p)

VERSIONED, LEGACY = b"dltensor_versioned", b"dltensor"


def _delete(managed: int, offset: int) -> None:
    _DELETER.from_address(managed + offset)(managed)


def _drop_capsule(capsule: int) -> None:
    """A capsule that a consumer took has another name; one that it did not take still owns its tensor."""
    if _is_valid(capsule, VERSIONED):
        _delete(_pointer(capsule, VERSIONED), 16)
    elif _is_valid(capsule, LEGACY):
        _delete(_pointer(capsule, LEGACY), 56)


_drop = _DESTRUCTOR(_drop_capsule)


class DlpackTensor:
    """One tensor of a batch, for any library's from_dlpack(). It keeps the batch alive.

    shape   tuple of int
    dtype   "f32" and the like
    """

    __slots__ = ("_batch", "_memory", "_field", "shape", "dtype")

    def __init__(self, batch: int, memory: Any, field: int, shape: Tuple[int, ...], dtype: str) -> None:
        self._batch, self._memory, self._field = batch, memory, field
        self.shape, self.dtype = shape, dtype

    def _export(self) -> c.c_void_p:
        err, managed = n.ErrorStruct(), c.c_void_p()
        n.check(n.quick.iter_batch_to_dlpack(self._batch, self._field, managed, err), err)
        return managed

    def __dlpack_device__(self) -> Tuple[int, int]:
        managed = self._export().value or 0
        tensor = n.Dlpack.from_address(managed).tensor
        device = (int(tensor.device_type), int(tensor.device_id))
        _delete(managed, 16)
        return device

    def __dlpack__(
        self,
        *,
        stream: Optional[Any] = None,
        max_version: Optional[Tuple[int, int]] = None,
        dl_device: Optional[Tuple[int, int]] = None,
        copy: Optional[bool] = None,
    ) -> Any:
        """A capsule: versioned if the consumer's max_version knows that, else of the form before 1.0."""
        if dl_device is not None and tuple(dl_device) != self.__dlpack_device__():
            raise BufferError("the tensor is on device %s, not on %s" % (self.__dlpack_device__(), dl_device))
        if copy:
            raise BufferError("a copy was asked for; this exporter makes none")
        managed, name = self._export(), VERSIONED
        if max_version is None or max_version[0] < 1:
            legacy, err = c.c_void_p(), n.ErrorStruct()
            status = n.quick.iter_dlpack_to_legacy(managed, legacy, err)
            if status < 0:
                _delete(managed.value or 0, 16)
                n.check(status, err)
            managed, name = legacy, LEGACY
        return _new(managed.value, name, c.cast(_drop, c.c_void_p))

    def __repr__(self) -> str:
        return "DlpackTensor(%s %s)" % (self.dtype, list(self.shape))

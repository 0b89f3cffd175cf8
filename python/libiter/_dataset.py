"""Datasets: opened by a spec, or made of a Python object."""
from __future__ import annotations

import collections
import ctypes as c
import inspect
import itertools
import os
import sys
import traceback
from typing import Any, Callable, Deque, Dict, List, Mapping, Optional, Sequence, Tuple

import numpy as np

from . import _native as n
from ._tensors import Layout, as_array, check_layout, copy_of, dtype_code, dtype_text, fill_desc, layout_of, view_rows

_label_names = ("label", "labels", "target", "targets", "y")


def role_of(name: str) -> int:
    """Labels by their usual names; everything else is data."""
    return 1 if name.lower() in _label_names else 0


class Dataset:
    """Samples by index: a spec that the library opens, or a Python object.

    source    a spec such as "cifar10:DIR?split=train" (docs/grammar.md), or an object with `__len__` and one of

                  get(indices) -> arrays            rows of all of them at once: the fastest
                  __getitems__(indices) -> samples  a list with a sample for each
                  __getitem__(index) -> sample

              A sample is a number, an array, a tuple, a named tuple or a dict of them; get() returns the same
              with a first dimension of len(indices), which is an array uint64. If get() has a parameter called
              `seeds`, it receives uint64 [len(indices)]: random numbers of the loader's seed, the epoch and each
              row's position, the same for any number of workers.
    fields    of a Python object: {name: (dtype, shape)}, or {name: (dtype, (None, ...), capacity)} for a first
              dimension that varies up to `capacity`. Without it, sample 0 is asked for, and decides.
    layout    of a Python object: what a sample's dimensions are, "CHW" or "HWC", for stages that need an image; or
              {field: text}
    parallel  of a Python object: True = several threads may be inside it at once. False, the default, is right
              for objects that were written for a single thread, such as those that seek in a file.
    memory_limit  of a spec: bytes that opening may take; 0 = what is free.

    A Python object runs in the loader's threads, under the GIL. An exception becomes the reason of the failed
    sample, and the cause of the exception that the loader raises, with its traceback.

    Raises InvalidArgument (a wrong spec), InputOutput, Malformed, Unsupported, OutOfMemory; TypeError for an
    object that has none of these methods.
    """

    def __init__(
        self,
        source: Any,
        *,
        fields: Optional[Mapping[str, Tuple[Any, ...]]] = None,
        parallel: bool = False,
        memory_limit: int = 0,
        layout: Layout = None,
    ) -> None:
        self._handle = 0
        self._python: Optional[_PythonDataset] = None
        err, out = n.ErrorStruct(), c.c_void_p()
        if isinstance(source, (str, os.PathLike)):
            if layout:
                raise n.InvalidArgument("layout: a spec has its own: %s?layout=hwc" % os.fspath(source))
            options = n.DatasetOptions(c.sizeof(n.DatasetOptions), None, memory_limit)
            spec = n.text("dataset", os.fsencode(source))
            n.check(n.blocking.iter_dataset_open_with(spec, c.byref(options), c.byref(out), c.byref(err)), err)
        else:
            self._python = _PythonDataset(source, fields, parallel, layout)
            self._python.create(out, err)
        self._handle = out.value or 0

    def _description(self) -> n.Description:
        if not self._handle:
            raise n.WrongState("dataset: it is closed")
        description: n.Description = n.quick.iter_dataset_describe(self._handle).contents
        return description

    def __len__(self) -> int:
        """Number of samples. Raises TypeError for a stream."""
        samples = self._description().n_samples
        if samples == n.UNKNOWN:
            raise TypeError("dataset %s: a stream has no length" % self.name)
        return int(samples)

    def __getitem__(self, index: int) -> Dict[str, "np.ndarray[Any, Any]"]:
        """Sample `index` as it is stored, decoded, without a chain: {field: array}. The arrays are copies. Meant
        for looking at samples: a reader is made for each call. Raises IndexError."""
        length = len(self)
        at = index + length if index < 0 else index
        if not 0 <= at < length:
            raise IndexError("dataset %s: sample %d of %d" % (self.name, index, length))
        err, out = n.ErrorStruct(), c.c_void_p()
        status = n.blocking.iter_dataset_read(self._handle, at, None, c.byref(out), c.byref(err))
        self._check(status, err)
        try:
            return {
                n.quick.iter_sample_name(out, i).decode(): copy_of(n.quick.iter_sample_tensor(out, i).contents)
                for i in range(n.quick.iter_sample_n_fields(out))
            }
        finally:
            n.blocking.iter_sample_free(out)

    def _check(self, status: int, err: n.ErrorStruct) -> None:
        if status < 0:
            message = err.message.decode("utf-8", "replace")
            raise n.error_of(status, message) from self._python.reasons.find(message) if self._python else None

    @property
    def name(self) -> str:
        """The spec, or the class of the Python object."""
        return str(n.quick.iter_dataset_name(self._handle).decode("utf-8", "replace")) if self._handle else "closed"

    @property
    def class_names(self) -> List[str]:
        """The classes' names, by label; empty if it has none."""
        description = self._description()
        if not description.class_names:
            return []
        return [description.class_names[i].decode("utf-8", "replace") for i in range(description.n_classes)]

    @property
    def fields(self) -> Dict[str, Tuple[str, Tuple[Optional[int], ...]]]:
        """{name: (dtype, shape)} of a sample as it is stored; None = a dimension that varies."""
        description = self._description()
        found = {}
        for field in description.fields[: description.n_fields]:
            shape = tuple(None if x < 0 else int(x) for x in field.desc.dims[: field.desc.n_dims])
            found[field.name.decode()] = (dtype_text(field.desc.dtype), shape)
        return found

    def fetch(self, progress: Optional[Callable[[int, int], Any]] = None) -> None:
        """Fills the disk cache of a set at URLs (key `cache=`) with what it lacks. `progress(kept, total)` gets bytes;
        an exception that it raises ends the call, and so does False. What was fetched stays, and the next call goes on
        there. Raises InputOutput, Unsupported (nothing is cached), Canceled."""
        self._description()
        raised: List[BaseException] = []

        def tell(_user: Any, kept: int, total: int) -> bool:
            try:
                return progress is None or progress(kept, total) is not False
            except BaseException as reason:  # it goes on where fetch() was called
                raised.append(reason)
                return False

        err = n.ErrorStruct()
        status = n.blocking.iter_dataset_fetch(self._handle, n.FETCH_PROGRESS(tell), None, c.byref(err))
        if raised:
            raise raised[0]
        n.check(status, err)

    def close(self) -> None:
        """Drops this object's hold. Loaders over the dataset keep it open."""
        handle, self._handle = self._handle, 0
        if handle:
            n.blocking.iter_dataset_unref(handle)

    def __del__(self, is_finalizing: Callable[[], bool] = sys.is_finalizing) -> None:
        if getattr(self, "_handle", 0) and not is_finalizing():
            self.close()

    def __enter__(self) -> "Dataset":
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()

    def __repr__(self) -> str:
        return "Dataset(%r)" % self.name


# ---- A Python object as a table of callbacks ------------------------------------------------------


_number = itertools.count(1)
_live: Dict[int, "_PythonDataset"] = {}  # until the library calls close()
# No Python function: a signal that is handled in one would leave the dataset behind.
_close = n.forever(n.CLOSE(_live.pop))


def parts_of(sample: Any) -> Tuple[List[str], List[Any]]:
    """Names and values of a sample's fields."""
    if isinstance(sample, Mapping):
        return [str(key) for key in sample], list(sample.values())
    if isinstance(sample, (tuple, list)):
        names = getattr(sample, "_fields", None)
        if names is None:
            names = ["data", "label"] if len(sample) == 2 else ["data"] if len(sample) == 1 else None
        if names is None:
            names = ["data"] + ["data%d" % i for i in range(1, len(sample))]
        return [str(name) for name in names], list(sample)
    return ["data"], [sample]


def _place_of(reason: BaseException) -> str:
    """File and line where it was raised."""
    frames = traceback.extract_tb(reason.__traceback__)
    return " (%s:%s)" % (os.path.basename(frames[-1].filename), frames[-1].lineno) if frames else ""


def _status_of(reason: BaseException) -> int:
    if isinstance(reason, n.Error):
        for status, kind in n._errors.items():
            if type(reason) is kind:
                return status
    if isinstance(reason, MemoryError):
        return n.ENOMEM
    return n.EIO if isinstance(reason, OSError) else n.EFORMAT


def write_error(err: Any, reason: BaseException, status: int) -> str:
    """Writes an exception into an iter_error; returns its text."""
    text = "%s: %s%s" % (type(reason).__name__, str(reason).strip() or "no reason given", _place_of(reason))
    text = " ".join(text.replace("\0", "\\0").split()).encode("utf-8", "replace")[:300].decode("utf-8", "ignore")
    err.contents.status = status
    err.contents.message = text.encode()
    return text


class Reasons:
    """The latest exceptions in functions that the library called, with what was written into its errors."""

    def __init__(self) -> None:
        self._kept: Deque[Tuple[str, BaseException]] = collections.deque(maxlen=64)

    def add(self, text: str, reason: BaseException) -> None:
        """Keeps one."""
        self._kept.append((text, reason))

    def find(self, message: str) -> Optional[BaseException]:
        """The one that a message tells of, the latest first."""
        for text, reason in reversed(self._kept):
            if text[:80] in message:  # C may cut it
                return reason
        return None


class _PythonDataset:
    """The callbacks of one object, for iter_dataset_create()."""

    def __init__(
        self, source: Any, fields: Optional[Mapping[str, Tuple[Any, ...]]], parallel: bool, layout: Layout
    ) -> None:
        if not hasattr(source, "__len__"):
            raise TypeError("dataset: %s has no __len__" % type(source).__name__)
        self.source, self.number, self.parallel = source, next(_number), parallel
        self.reasons = Reasons()
        self.interrupt: Optional[BaseException] = None  # raised in get(), but not an error of a sample
        self.wants_seeds = False
        self.get = self._find_get(source)
        self.declared = fields if fields is not None else getattr(source, "fields", None)
        self.names: List[str] = []
        self.codes: List[int] = []
        self.shapes: List[Tuple[Optional[int], ...]] = []
        self.capacities: List[int] = []
        self._find_fields()
        self.layouts = [
            layout_of(layout, field, len(shape), role_of(field) == 1) for field, shape in zip(self.names, self.shapes)
        ]
        check_layout(layout, dict(zip(self.names, self.layouts)))
        name = type(source).__name__.encode("utf-8", "replace")[:60]
        self.length = len(source)
        self.ops = n.DatasetOps(
            struct_size=c.sizeof(n.DatasetOps),
            name=name,
            describe=n.DESCRIBE(self._describe),
            get=n.GET(self._get),
            close=_close,
            parallel=1 if parallel else 0,
        )

    def create(self, out: c.c_void_p, err: n.ErrorStruct) -> None:
        _live[self.number] = self
        status = n.blocking.iter_dataset_create(c.byref(self.ops), self.number, c.byref(out), c.byref(err))
        if status < 0:
            _live.pop(self.number, None)
        n.check(status, err)

    # -- the object's own methods --

    def _find_get(self, source: Any) -> Callable[[Any, Any], Any]:
        get = getattr(source, "get", None)
        if callable(get) and not isinstance(source, Mapping):
            try:
                self.wants_seeds = "seeds" in inspect.signature(get).parameters
            except (TypeError, ValueError):
                pass
            return (lambda indices, seeds: get(indices, seeds=seeds)) if self.wants_seeds else (lambda i, _: get(i))
        many = getattr(source, "__getitems__", None)
        if callable(many):
            return lambda indices, _: _Samples(many([int(i) for i in indices]), len(indices))
        if hasattr(source, "__getitem__"):
            return lambda indices, _: _Samples([source[int(i)] for i in indices], len(indices))
        raise TypeError(
            "dataset: %s has none of get(), __getitems__() and __getitem__()" % type(source).__name__
        )

    def _find_fields(self) -> None:
        if self.declared is not None:
            for name, row in self.declared.items():
                self._add(str(name), dtype_code(row[0]), tuple(row[1]), int(row[2]) if len(row) > 2 else 0)
            return
        if len(self.source) == 0:
            raise n.InvalidArgument("dataset: it is empty, so its fields must be given: fields={name: (dtype, shape)}")
        first = self.get(np.zeros(1, np.uint64), np.zeros(1, np.uint64))
        if isinstance(first, _Samples):
            names, values = parts_of(first.samples[0])
            arrays = [np.asarray(as_array(value))[None] for value in values]
        else:
            names, values = parts_of(first)
            arrays = [as_array(value) for value in values]
        for name, array in zip(names, arrays):
            if array.dtype == object or array.dtype.kind in "SUVmMc":
                raise n.InvalidArgument(
                    "dataset: field %s of sample 0 is %s; expected numbers of a type that a tensor can have"
                    % (name, array.dtype)
                )
            if array.ndim == 0:
                raise n.InvalidArgument("dataset: field %s of get() has no first dimension for the samples" % name)
            self._add(name, dtype_code(array.dtype), tuple(array.shape[1:]), 0)

    def _add(self, name: str, code: int, shape: Tuple[Optional[int], ...], capacity: int) -> None:
        if len(self.names) == n.MAX_FIELDS:
            raise n.InvalidArgument("dataset: more than %d fields" % n.MAX_FIELDS)
        if any(extent is None for extent in shape) and (shape[0] is not None or None in shape[1:] or capacity < 1):
            raise n.InvalidArgument(
                "dataset: field %s: only the first dimension may vary, and needs a capacity: (dtype, (None, ...), "
                "capacity)" % name
            )
        self.names.append(name)
        self.codes.append(code)
        self.shapes.append(shape)
        self.capacities.append(capacity)

    # -- callbacks --

    def _describe(self, _user: Any, out: Any, _err: Any) -> int:
        description = out.contents
        description.n_samples = self.length
        description.n_fields = len(self.names)
        for i, name in enumerate(self.names):
            field = description.fields[i]
            field.name = name.encode("utf-8", "replace")[:31]
            field.role = role_of(name)
            fill_desc(field.desc, self.codes[i], self.shapes[i], self.capacities[i], self.layouts[i])
        return n.OK

    def _get(self, _user: Any, _state: Any, count: int, indices: Any, rows: Any, rng: Any, err: Any) -> int:
        try:
            at = np.ctypeslib.as_array(indices, (count,))
            seeds = None
            if self.wants_seeds:
                seeds = np.array([n.quick.iter_rng_u64(c.byref(rng[i])) for i in range(count)], np.uint64)
            self._write(self.get(at.copy(), seeds), count, rows)
            return n.OK
        except BaseException as reason:  # pylint: disable=broad-except
            if not isinstance(reason, Exception):
                self.interrupt = reason
                write_error(err, reason, n.ECANCELED)
                return n.ECANCELED
            status = _status_of(reason)
            self.reasons.add(write_error(err, reason, status), reason)
            return status

    def unraisable(self, before: Callable[[Any], Any]) -> Callable[[Any], None]:
        """A sys.unraisablehook for the time of a call. If Ctrl-C came while the library ran, Python raises it at the
        very beginning of _get(), where it cannot be caught, and the library would go on with rows that were not
        made."""

        def hook(told: Any) -> None:  # Python 3.13 no longer names the function in `object`
            ours = told.object == self._get or told.object is None and "ctypes callback" in (told.err_msg or "")
            if ours and not isinstance(told.exc_value, Exception):
                self.interrupt = told.exc_value
            else:
                before(told)

        return hook

    # -- rows --

    def _write(self, made: Any, count: int, rows: Any) -> None:
        if isinstance(made, _Samples):
            views = [view_rows(rows[f]) for f in range(len(self.names))]
            for i, sample in enumerate(made.samples):
                for f, value in enumerate(self._values_of(sample)):
                    self._write_row(views[f], f, i, as_array(value), rows)
            return
        if len(self.names) == 1 and self.capacities[0] and isinstance(made, list):
            made = (made,)  # a list of rows
        for f, value in enumerate(self._values_of(made)):
            if self.capacities[f]:
                if len(value) != count:
                    raise ValueError("field %s: expected %d rows, got %d" % (self.names[f], count, len(value)))
                view = view_rows(rows[f])
                for i in range(count):
                    self._write_row(view, f, i, as_array(value[i]), rows)
                continue
            array, view = as_array(value), view_rows(rows[f])
            if array.shape != view.shape:
                raise ValueError(
                    "field %s: expected shape %s, got %s" % (self.names[f], list(view.shape), list(array.shape))
                )
            np.copyto(view, array, casting="same_kind")

    def _write_row(self, view: "np.ndarray[Any, Any]", f: int, i: int, row: "np.ndarray[Any, Any]", rows: Any) -> None:
        expected = view.shape[1:]
        if self.capacities[f]:
            if row.ndim != len(expected) or row.shape[1:] != expected[1:] or row.shape[0] > expected[0]:
                raise ValueError(
                    "field %s: expected shape %s with a first dimension of at most %d, got %s"
                    % (self.names[f], [None] + list(expected[1:]), expected[0], list(row.shape))
                )
            n.quick.iter_rows_set_length(rows, f, i, row.shape[0])
            np.copyto(view[i, : row.shape[0]], row, casting="same_kind")
            view[i, row.shape[0] :] = 0
            return
        if row.shape != expected:
            raise ValueError(
                "field %s: expected shape %s, got %s; sample 0 has the first; if it varies, "
                "state fields = {'%s': ('%s', (None,), 100)}"
                % (self.names[f], list(expected), list(row.shape), self.names[f], view.dtype.name)
            )
        np.copyto(view[i, ...], row, casting="same_kind")

    def _values_of(self, sample: Any) -> List[Any]:
        if isinstance(sample, Mapping):
            missing = [name for name in self.names if name not in sample]
            if missing or len(sample) != len(self.names):
                raise ValueError("expected the fields %s, got %s" % (", ".join(self.names), ", ".join(map(str, sample))))
            return [sample[name] for name in self.names]
        values = list(sample) if isinstance(sample, (tuple, list)) else [sample]
        if len(values) != len(self.names):
            raise ValueError("expected %d fields, got %d" % (len(self.names), len(values)))
        return values


class _Samples:
    """A sample for each index, not yet stacked."""

    def __init__(self, samples: Any, count: int) -> None:
        self.samples = samples
        if len(samples) != count:
            raise ValueError("__getitems__: expected %d samples, got %d" % (count, len(samples)))

"""The C library: where it is found, its structs, its functions, its errors.

Structs are those of iter/*.h, member by member; tests/python/test_native.py compares them. Functions that may
block are called through `blocking`, which releases the GIL. Short ones go through `quick`, which keeps it,
because releasing it would cost more than the call.
"""
from __future__ import annotations

import ctypes as c
import os
from typing import Any, Dict, List, Optional, Type

OK, END, AGAIN = 0, 1, 2
UNKNOWN = 2**64 - 1
MAX_DIMS = 8
MAX_FIELDS = 8
VARIABLE = -1


# ---- Errors ---------------------------------------------------------------------------------------


class Error(Exception):
    """A call of the library failed. `status` has its name in C, such as "EFORMAT"."""

    status = "EINVAL"


class InvalidArgument(Error, ValueError):
    """An argument, an option, a spec or a chain is wrong (EINVAL)."""


class OutOfMemory(Error, MemoryError):
    """Memory, or the memory limit, does not suffice (ENOMEM)."""

    status = "ENOMEM"


class InputOutput(Error, OSError):
    """A file could not be read or written (EIO)."""

    status = "EIO"


class Malformed(Error, ValueError):
    """Data is malformed or cut short (EFORMAT)."""

    status = "EFORMAT"


class Unsupported(Error, NotImplementedError):
    """This build of the library, or the data, does not support it (EUNSUPPORTED)."""

    status = "EUNSUPPORTED"


class WrongState(Error, RuntimeError):
    """The call is not allowed now: closed, too many batches held, or after fork() (ESTATE)."""

    status = "ESTATE"


class Canceled(Error, RuntimeError):
    """The loader was canceled (ECANCELED)."""

    status = "ECANCELED"


class DeviceFailed(Error, RuntimeError):
    """A GPU or its driver failed (EDEVICE)."""

    status = "EDEVICE"


class TimedOut(Error, TimeoutError):
    """A wait was longer than its limit (ETIMEDOUT). The call may be repeated."""

    status = "ETIMEDOUT"


_errors: Dict[int, Type[Error]] = {
    -1: OutOfMemory,
    -2: InvalidArgument,
    -3: InputOutput,
    -4: Malformed,
    -5: Unsupported,
    -6: WrongState,
    -7: Canceled,
    -8: DeviceFailed,
    -9: TimedOut,
}
ENOMEM, EINVAL, EIO, EFORMAT, EUNSUPPORTED, ESTATE, ECANCELED, EDEVICE, ETIMEDOUT = range(-1, -10, -1)


class ErrorStruct(c.Structure):
    """iter_error"""

    _fields_ = [("status", c.c_int), ("message", c.c_char * 504)]


def error_of(status: int, message: str) -> Error:
    """The exception for a status below 0."""
    return _errors.get(status, Error)(message)


def check(status: int, err: ErrorStruct) -> int:
    """Returns a status that is no error; raises the exception of one that is."""
    if status < 0:
        raise error_of(status, err.message.decode("utf-8", "replace"))
    return status


def text(what: str, value: Any) -> bytes:
    """A text for C: without a zero byte, at which C would end it."""
    if not isinstance(value, (str, bytes)):
        raise TypeError("%s is %r; expected a text" % (what, value))
    encoded = value.encode() if isinstance(value, str) else value
    if b"\0" in encoded:
        raise InvalidArgument("%s: %r has a zero byte" % (what, value))
    return encoded


# ---- Structs --------------------------------------------------------------------------------------


class Desc(c.Structure):
    """iter_desc"""

    _fields_ = [
        ("dtype", c.c_int),
        ("n_dims", c.c_int32),
        ("dims", c.c_int64 * MAX_DIMS),
        ("capacity", c.c_int64),
        ("layout", c.c_char * 16),
    ]


class Tensor(c.Structure):
    """iter_tensor"""

    _fields_ = [("desc", Desc), ("strides", c.c_int64 * MAX_DIMS), ("data", c.c_void_p)]


class BatchField(c.Structure):
    """iter_batch_field"""

    _fields_ = [("name", c.c_char * 32), ("role", c.c_int), ("desc", Desc)]


class BatchInfo(c.Structure):
    """iter_batch_info"""

    _fields_ = [
        ("epoch", c.c_uint32),
        ("number", c.c_uint64),
        ("slot", c.c_uint32),
        ("n_rows", c.c_uint32),
        ("pad", c.c_uint32),
        ("first_valid", c.c_uint32),
        ("n_valid", c.c_uint32),
        ("n_failed", c.c_uint32),
        ("first_row", c.c_uint32),
        ("global_rows", c.c_uint32),
    ]


class LoaderShare(c.Structure):
    """iter_loader_share"""

    _fields_ = [
        ("rank", c.c_uint32),
        ("ranks", c.c_uint32),
        ("global_batch", c.c_uint32),
        ("micro_batches", c.c_uint32),
        ("seed", c.c_uint64),
        ("dataset", c.c_uint64),
        ("chain", c.c_uint64),
        ("sampler", c.c_uint64),
    ]


class Array(c.Structure):
    """iter_array"""

    _fields_ = [
        ("name", c.c_char_p),
        ("role", c.c_int),
        ("desc", Desc),
        ("data", c.c_void_p),
        ("stride_bytes", c.c_size_t),
    ]


class DatasetOptions(c.Structure):
    """iter_dataset_options"""

    _fields_ = [("struct_size", c.c_size_t), ("registry", c.c_void_p), ("memory_limit", c.c_uint64)]


class FieldStruct(c.Structure):
    """iter_field"""

    _fields_ = [
        ("name", c.c_char * 32),
        ("role", c.c_int),
        ("desc", Desc),
        ("extent", c.c_int32),
        ("offset", c.c_size_t),
        ("decoder", c.c_void_p),
        ("limit", c.c_uint32),
    ]


class Description(c.Structure):
    """iter_description"""

    _fields_ = [
        ("n_samples", c.c_uint64),
        ("n_fields", c.c_int32),
        ("fields", FieldStruct * MAX_FIELDS),
        ("n_extents", c.c_int32),
        ("max_extent_bytes", c.c_uint64 * 4),
        ("files", c.c_void_p),
        ("n_files", c.c_uint64),
        ("class_names", c.POINTER(c.c_char_p)),
        ("n_classes", c.c_int32),
        ("split", c.c_char_p),
        ("shared", c.c_void_p),
        ("shared_bytes", c.c_size_t),
        ("keep_rows", c.c_int32),
        ("by_epoch", c.c_int32),
        ("identity", c.c_uint64),
        ("parts", c.c_void_p),
        ("n_parts", c.c_int32),
        ("index_bytes", c.c_uint64),
        ("registry", c.c_void_p),
        ("n_left_out", c.c_uint64),
        ("left_out", c.c_char_p),
    ]


class Rng(c.Structure):
    """iter_rng"""

    _fields_ = [
        ("key", c.c_uint32 * 2),
        ("counter", c.c_uint32 * 4),
        ("block", c.c_uint32 * 4),
        ("used", c.c_uint32),
    ]


DESCRIBE = c.CFUNCTYPE(c.c_int, c.c_void_p, c.POINTER(Description), c.POINTER(ErrorStruct))
GET = c.CFUNCTYPE(
    c.c_int,
    c.c_void_p,
    c.c_void_p,
    c.c_uint32,
    c.POINTER(c.c_uint64),
    c.POINTER(Tensor),
    c.POINTER(Rng),
    c.POINTER(ErrorStruct),
)
CLOSE = c.CFUNCTYPE(None, c.c_void_p)
FETCH_PROGRESS = c.CFUNCTYPE(c.c_bool, c.c_void_p, c.c_uint64, c.c_uint64)
NEXT = c.CFUNCTYPE(
    c.c_int, c.c_void_p, c.c_uint32, c.POINTER(Tensor), c.POINTER(c.c_uint32), c.POINTER(ErrorStruct)
)
REWIND = c.CFUNCTYPE(c.c_int, c.c_void_p, c.POINTER(ErrorStruct))


class DatasetOps(c.Structure):
    """iter_dataset_ops"""

    _fields_ = [
        ("struct_size", c.c_size_t),
        ("name", c.c_char_p),
        ("describe", DESCRIBE),
        ("start", c.c_void_p),
        ("stop", c.c_void_p),
        ("get", GET),
        ("next", NEXT),
        ("rewind", REWIND),
        ("length", c.c_void_p),
        ("close", CLOSE),
        ("parallel", c.c_int32),
    ]


class Stall(c.Structure):
    """iter_stall"""

    _fields_ = [
        ("struct_size", c.c_size_t),
        ("epoch", c.c_uint32),
        ("batch", c.c_uint64),
        ("waited_ns", c.c_uint64),
        ("worker", c.c_int32),
        ("stage", c.c_char * 32),
        ("sample", c.c_uint64),
        ("file", c.c_char * 256),
        ("offset", c.c_uint64),
        ("since_ns", c.c_uint64),
        ("message", c.c_char * 480),
    ]


ON_STALL = c.CFUNCTYPE(None, c.c_void_p, c.POINTER(Stall))


class BatchView(c.Structure):
    """iter_batch_view"""

    _fields_ = [
        ("tensor", Tensor),
        ("n_rows", c.c_int64),
        ("capacity_bytes", c.c_size_t),
        ("lengths", c.POINTER(c.c_int32)),
        ("scratch", c.c_void_p),
    ]


COLLATE = c.CFUNCTYPE(c.c_int, c.c_void_p, c.POINTER(BatchView), c.c_int32, c.POINTER(ErrorStruct))


class SamplerOptions(c.Structure):
    """iter_loader_sampler"""

    _fields_ = [
        ("block", c.c_uint32),
        ("buffer_blocks", c.c_uint32),
        ("spec", c.c_char_p),
        ("registry", c.c_void_p),
        ("ops", c.c_void_p),
        ("options", c.c_void_p),
        ("subset", c.c_void_p),
        ("n_subset", c.c_uint64),
    ]


class ReadingOptions(c.Structure):
    """iter_loader_reading"""

    _fields_ = [
        ("source", c.c_int32),
        ("o_direct", c.c_int32),
        ("threads", c.c_uint32),
        ("only_reads", c.c_int32),
        ("ops", c.c_void_p),
        ("max_sample_bytes", c.c_uint64),
    ]


class MemoryOptions(c.Structure):
    """iter_loader_memory"""

    _fields_ = [
        ("kind", c.c_int32),
        ("device", c.c_int32),
        ("finish", c.c_int32),
        ("resident", c.c_int32),
        ("share", c.c_int32),
        ("limit", c.c_uint64),
    ]


class FaultsOptions(c.Structure):
    """iter_loader_faults"""

    _fields_ = [
        ("on_error", c.c_int32),
        ("max_failures", c.c_uint32),
        ("timeout_ms", c.c_int64),
        ("grace_ms", c.c_int64),
    ]


class WatchOptions(c.Structure):
    """iter_loader_watch"""

    _fields_ = [("stall_ms", c.c_int64), ("on_stall", ON_STALL), ("user", c.c_void_p)]


class ArraysOptions(c.Structure):
    """iter_loader_arrays"""

    _fields_ = [("copy", c.c_int32), ("release", CLOSE), ("user", c.c_void_p)]


class LoaderOptions(c.Structure):
    """iter_loader_options"""

    _fields_ = [
        ("struct_size", c.c_size_t),
        ("batch_size", c.c_uint32),
        ("workers", c.c_int32),
        ("prefetch", c.c_uint32),
        ("max_held", c.c_uint32),
        ("rank", c.c_uint32),
        ("ranks", c.c_uint32),
        ("local_ranks", c.c_uint32),
        ("seed", c.c_uint64),
        ("shuffle", c.c_int32),
        ("last_batch", c.c_int32),
        ("epochs", c.c_uint32),
        ("lookahead", c.c_int32),
        ("sampler", SamplerOptions),
        ("reading", ReadingOptions),
        ("memory", MemoryOptions),
        ("faults", FaultsOptions),
        ("watch", WatchOptions),
        ("arrays", ArraysOptions),
        ("collate", COLLATE),
        ("collate_user", c.c_void_p),
        ("global_batch", c.c_uint32),
        ("micro_batches", c.c_uint32),
        ("views", c.c_int32),
    ]


class Failure(c.Structure):
    """iter_failure"""

    _fields_ = [
        ("epoch", c.c_uint32),
        ("position", c.c_uint64),
        ("index", c.c_uint64),
        ("status", c.c_int),
        ("message", c.c_char * 200),
    ]


class WorkerStats(c.Structure):
    """iter_worker_stats"""

    _fields_ = [
        ("busy_ns", c.c_uint64),
        ("wait_bytes_ns", c.c_uint64),
        ("wait_slot_ns", c.c_uint64),
        ("cpu_ns", c.c_uint64),
        ("chunks", c.c_uint64),
        ("run_delay_ns", c.c_uint64),
        ("bytes", c.c_uint64),
    ]


class LoaderStats(c.Structure):
    """iter_loader_stats"""

    _fields_ = [
        ("struct_size", c.c_size_t),
        ("batches", c.c_uint64),
        ("samples", c.c_uint64),
        ("bytes", c.c_uint64),
        ("path_bytes", c.c_uint64 * 4),
        ("next_wait_ns", c.c_uint64),
        ("open_ns", c.c_uint64),
        ("read_ns", c.c_uint64),
        ("transform_ns", c.c_uint64),
        ("batch_ns", c.c_uint64),
        ("n_failures", c.c_uint64),
        ("retried_reads", c.c_uint64),
        ("slot_bytes", c.c_uint64),
        ("arena_bytes", c.c_uint64),
        ("scratch_bytes", c.c_uint64),
        ("preload_bytes", c.c_uint64),
        ("preload_s", c.c_double),
        ("source", c.c_int32),
        ("n_workers", c.c_int32),
        ("workers", WorkerStats * 64),
        ("n_fallbacks", c.c_int32),
        ("fallbacks", (c.c_char * 160) * 8),
        ("n_stalls", c.c_uint64),
        ("stall_text", c.c_char * 480),
        ("device", c.c_char * 96),
        ("pinned_bytes", c.c_uint64),
        ("device_bytes", c.c_uint64),
        ("n_copies", c.c_uint64),
        ("copied_bytes", c.c_uint64),
        ("device_wait_ns", c.c_uint64),
        ("n_warnings", c.c_uint64),
        ("warning_text", c.c_char * 480),
        ("next_calls", c.c_uint64),
        ("next_ns", c.c_uint64),
        ("next_first_ns", c.c_uint64),
        ("next_last_ns", c.c_uint64),
        ("next_tid", c.c_int32),
        ("prefetch", c.c_int32),
        ("answers", c.c_uint64),
        ("answers_throttled", c.c_uint64),
        ("answers_again", c.c_uint64),
        ("answer_bytes", c.c_uint64),
        ("answer_first_ns", c.c_uint64),
        ("answer_ns", c.c_uint64),
        ("connections", c.c_int32),
    ]


class ActivityInfo(c.Structure):
    """iter_activity_info"""

    _fields_ = [
        ("worker", c.c_int32),
        ("stage", c.c_char * 32),
        ("sample", c.c_uint64),
        ("file", c.c_char * 256),
        ("offset", c.c_uint64),
        ("since_ns", c.c_uint64),
    ]


class RanksStruct(c.Structure):
    """iter_ranks."""

    _fields_ = [
        ("rank", c.c_uint32),
        ("ranks", c.c_uint32),
        ("local_rank", c.c_uint32),
        ("local_ranks", c.c_uint32),
        ("launcher", c.c_char_p),
    ]


class ProfileOptions(c.Structure):
    """iter_profile_options"""

    _fields_ = [
        ("struct_size", c.c_size_t),
        ("filename", c.c_char_p),
        ("events_per_thread", c.c_uint32),
        ("no_aggregate", c.c_int32),
        ("no_memory", c.c_int32),
        ("dump_period_ms", c.c_int64),
    ]


class DlpackTensor(c.Structure):
    """iter_dlpack_tensor"""

    _fields_ = [
        ("data", c.c_void_p),
        ("device_type", c.c_int32),
        ("device_id", c.c_int32),
        ("n_dims", c.c_int32),
        ("dtype_code", c.c_uint8),
        ("dtype_bits", c.c_uint8),
        ("dtype_lanes", c.c_uint16),
        ("shape", c.POINTER(c.c_int64)),
        ("strides", c.POINTER(c.c_int64)),
        ("byte_offset", c.c_uint64),
    ]


class Dlpack(c.Structure):
    """iter_dlpack"""

    _fields_ = [
        ("major", c.c_uint32),
        ("minor", c.c_uint32),
        ("manager_ctx", c.c_void_p),
        ("deleter", c.CFUNCTYPE(None, c.c_void_p)),
        ("flags", c.c_uint64),
        ("tensor", DlpackTensor),
    ]


def forever(callback: Any) -> Any:
    """Keeps a callback until the process ends, because C may call it while the interpreter is taken down. What C
    calls must not belong to an object that the call may end."""
    c.pythonapi.Py_IncRef(c.py_object(callback))
    return callback


def names_of(struct: Any) -> List[str]:
    """The names of a struct's members."""
    return [str(field[0]) for field in struct._fields_]


# ---- The library ----------------------------------------------------------------------------------


def library_path(name: str = "libiter.so") -> str:
    """The file to load: that of the environment's LIBITER_LIBRARY, else the package's own, else by name."""
    named = os.environ.get("LIBITER_LIBRARY")
    if named:
        return named if name == "libiter.so" else os.path.join(os.path.dirname(named), name)
    here = os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib", name)
    return here if os.path.exists(here) else name


def _open() -> Any:
    path = library_path()
    try:
        return c.CDLL(path), c.PyDLL(path)
    except OSError as reason:
        raise ImportError(
            "libiter: the C library could not be loaded from %s: %s. A wheel contains it; with a source "
            "tree set LIBITER_LIBRARY to build/release/libiter.so" % (path, reason)
        ) from None


blocking, quick = _open()

_p, _i32, _i64, _u32, _u64, _size = c.c_void_p, c.c_int32, c.c_int64, c.c_uint32, c.c_uint64, c.c_size_t
_err = c.POINTER(ErrorStruct)


def declare(name: str, result: Optional[Any], *arguments: Any) -> None:
    """Sets the types of a function. Its struct pointers are POINTER types, so that wrong ones are refused."""
    for library in (blocking, quick):
        function = getattr(library, name)
        function.restype = result
        function.argtypes = list(arguments)


declare("iter_version", c.c_char_p)
declare("iter_text_nearest", c.c_char_p, c.c_char_p, c.c_char_p, c.c_char_p, _size)
declare("iter_ranks_read", c.c_int, c.POINTER(RanksStruct), _err)
declare("iter_dataset_open_with", c.c_int, c.c_char_p, c.POINTER(DatasetOptions), c.POINTER(_p), _err)
declare("iter_dataset_create", c.c_int, c.POINTER(DatasetOps), _p, c.POINTER(_p), _err)
declare("iter_dataset_unref", None, _p)
declare("iter_dataset_describe", c.POINTER(Description), _p)
declare("iter_dataset_name", c.c_char_p, _p)
declare("iter_dataset_read", c.c_int, _p, _u64, c.c_char_p, c.POINTER(_p), _err)
declare("iter_dataset_fetch", c.c_int, _p, FETCH_PROGRESS, _p, _err)
declare("iter_sample_n_fields", _i32, _p)
declare("iter_sample_name", c.c_char_p, _p, _i32)
declare("iter_sample_tensor", c.POINTER(Tensor), _p, _i32)
declare("iter_sample_free", None, _p)
declare("iter_chain_parse", c.c_int, c.c_char_p, _p, c.POINTER(_p), _err)
declare("iter_chain_text", c.c_char_p, _p)
declare("iter_chain_unref", None, _p)
declare("iter_dataloader_create", c.c_int, _p, _p, c.POINTER(LoaderOptions), c.POINTER(_p), _err)
declare("iter_ndarray_create", c.c_int, c.POINTER(Array), _i32, _p, c.POINTER(LoaderOptions), c.POINTER(_p), _err)
declare("iter_loader_next_within", c.c_int, _p, _i64, c.POINTER(_p), _err)
declare("iter_loader_reset", c.c_int, _p, _err)
declare("iter_loader_seek", c.c_int, _p, _u32, _u64, _err)
declare("iter_loader_save", c.c_int, _p, _p, _size, c.POINTER(_size), _err)
declare("iter_loader_restore", c.c_int, _p, c.c_char_p, _size, _err)
declare("iter_loader_cancel", None, _p)
declare("iter_loader_stop_within", c.c_int, _p, _i64, _err)
declare("iter_loader_ref", _p, _p)
declare("iter_loader_unref", None, _p)
declare("iter_loader_n_batches", _u64, _p)
declare("iter_loader_n_samples", _u64, _p)
declare("iter_loader_share_of", LoaderShare, _p)
declare("iter_loader_position", None, _p, c.POINTER(_u32), c.POINTER(_u64))
declare("iter_loader_n_fields", _i32, _p)
declare("iter_loader_field", c.POINTER(BatchField), _p, _i32)
declare("iter_loader_plan_text", c.c_char_p, _p)
declare("iter_loader_stats_read", c.c_int, _p, c.POINTER(LoaderStats), _err)
declare("iter_loader_failures", _size, _p, c.POINTER(Failure), _size)
declare("iter_loader_activity", _i32, _p, c.POINTER(ActivityInfo), _i32)
declare("iter_batch_unref", None, _p)
declare("iter_batch_tensor", _p, _p, _i32)
declare("iter_batch_is_view", c.c_bool, _p)
declare("iter_batch_describe", BatchInfo, _p)
declare("iter_batch_index", _p, _p)
declare("iter_batch_position", _p, _p)
declare("iter_batch_row_epoch", _p, _p)
declare("iter_batch_valid", _p, _p)
declare("iter_batch_lengths", _p, _p, _i32)
declare("iter_batch_to_dlpack", c.c_int, _p, _i32, c.POINTER(_p), _err)
declare("iter_dlpack_to_legacy", c.c_int, _p, c.POINTER(_p), _err)
declare("iter_rows_set_length", None, c.POINTER(Tensor), _i32, _u32, _i64)
declare("iter_rng_u64", _u64, c.POINTER(Rng))
declare("iter_profile_start", c.c_int, c.POINTER(ProfileOptions), _err)
declare("iter_profile_stop", c.c_int, _err)
declare("iter_profile_dump", c.c_int, _err)
declare("iter_profile_pause", None)
declare("iter_profile_resume", None)
declare("iter_profile_scope_begin", None, c.c_char_p)
declare("iter_profile_scope_end", None)
declare("iter_profile_table", c.c_int, _i32, _i32, _i32, _i32, c.c_char_p, _size, c.POINTER(_size), _err)

version: str = quick.iter_version().decode()


def nearest(wanted: str, names: List[str]) -> str:
    """The name that a person probably meant, or ""."""
    out = c.create_string_buffer(128)
    found: bytes = quick.iter_text_nearest(wanted.encode("utf-8", "replace"), "|".join(names).encode(), out, 128)
    return found.decode("utf-8", "replace")

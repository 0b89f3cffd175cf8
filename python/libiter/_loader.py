"""The loader: `for images, labels in libiter.Loader(...)`."""
from __future__ import annotations

import ctypes as c
import dataclasses
import re
import sys
import threading
import time
import types
import weakref
from typing import Any, Callable, Dict, Iterator, List, Mapping, Optional, Sequence, Tuple, Union

import numpy as np

from . import _exit
from . import _native as n
from ._arrays import array_structs, is_arrays
from ._batch import Batch, Field, held_by_jax, maker
from ._callbacks import Callbacks
from ._dataset import Dataset
from ._diagnose import Verdict, Watch, watch_or_none
from ._options import NAMES, Options, number, unknown
from ._ranks import options_of
from ._tensors import OUTPUTS, Layout, dtype_text

SLICE_MS = 50  # how long next() waits before it looks for signals


@dataclasses.dataclass(frozen=True)
class Failure:
    """A sample that failed, as delivered."""

    epoch: int
    position: int  #: in the order of its epoch
    index: int  #: in the dataset
    status: str  #: "EFORMAT" and the like
    message: str


class Loader:
    """Batches of a dataset, made by threads of the library.

        loader = libiter.Loader("cifar10:data/cifar-10-batches-bin", "random-flip | to:f32,nchw",
                                batch_size=64, shuffle=True, workers=2, seed=7)
        for epoch in range(10):
            for images, labels in loader:       # float32 [64, 3, 32, 32], uint8 [64]
                train(images, labels)

    A row depends on seed, epoch and position alone: another number of workers or ranks, or a resumed run, changes
    no bit of it.

    data    a spec ("cifar10:DIR", docs/grammar.md), a Dataset, an object that Dataset() accepts, or arrays: one, a
            tuple of (data, label), or a dict {name: array}. Arrays are [n, ...], of numpy, torch or jax. They are
            borrowed: they must not change while the loader lives, except with copy_arrays=True.
    layout  of arrays, or of an object: what the dimensions are, "NCHW" or "NHWC", for stages that need an image;
            or {field: text}
    chain   what happens to each sample, "random-crop:size=32,pad=4 | random-flip | to:f32,nchw"; None = fields as
            they are stored.
    output  what a batch consists of: "numpy", "torch", "jax", or "dlpack" (exporters for any from_dlpack()).
    copy    False: arrays are views of the loader's memory. Each keeps its batch, at most max_held at once; they may
            be written to, unless they are read-only (see views). True: arrays of their own, to be kept as long as
            wanted.

    How it runs:
      batch_size   samples per batch and rank; None = 32, or what follows from global_batch
      shuffle      False; True or "full": a new permutation every epoch; "once": one for all epochs; "block": blocks
                   of neighbours (block=, buffer_blocks=), for disks; "batch": whole units of `block` samples;
                   "replacement": independent draws
      workers      threads that make batches; 0 = next() makes them; "auto" = one per core, or none where
                   threads only cost (iter/loader.h)
      seed         of all order and augmentation
      prefetch     the most batches made ahead; 0 = enough for the workers
      max_held     batches that the program may hold at once. A `for` statement holds the previous batch while the
                   next one is made, so at least 2
      last_batch   what becomes of samples that do not fill a batch: "keep" a shorter batch; "pad" it with the
                   epoch's first samples; "discard"; "roll-over" into the next epoch
      epochs       after so many an iteration is empty; 0 = endless
      lookahead    "endless": prepares the next epoch while this one ends; "epoch": does not
    Which samples:
      rank, ranks, local_ranks    this process's share of each batch of ranks x batch_size samples; ranks="auto": all
                   three as torchrun, mpirun or srun say (libiter.ranks())
      global_batch samples per batch over all ranks, instead of batch_size; need not be a multiple of ranks
      micro_batches    a share of a batch is whole ones of so many equal parts; 0 = it begins at any sample
      sampler      a text such as "bucket:n-buckets=8", instead of shuffle
      subset       sample indices to use, in this order
    Reading:
      source       "auto", "memory" (all is loaded first), "ring" (io_uring), "pread", "null" (zeros: no reading)
      o_direct, threads, only_reads, max_sample_bytes     as in iter/loader.h
    Memory:
      memory_limit bytes for everything; 0 = half of what is free
      memory       "auto", "host", "pinned"; device, share as in iter/loader.h. "device", with finish and resident,
                   is for C: DLPack does not tell the loader when a stream has read a batch
      copy_arrays  True = arrays given as `data` are copied
      views        "auto": where the rows of a batch follow one another in arrays, or in a set that is held in memory,
                   and nothing changes them, a batch is a read-only view of them: nothing is copied. "no": never.
                   None = "auto" with output="numpy"; other libraries have no read-only arrays, so "no" with them
    Faults:
      on_error     a sample that fails: "fail" the batch's next(), "replace" it, "blank" it (zeros; batch.valid)
      max_failures failed samples before next() gives up; 0 = no limit
      timeout_ms   longest wait for a batch; 0 = for ever
      grace_ms     longest wait for a busy thread in close()
      stall_ms, on_stall    a wait longer than stall_ms is reported: on_stall({"message": ..., ...})
    collate      called with {field: array} before a batch is delivered; changes the arrays in place

    One thread at a time may take batches. Ctrl-C interrupts a wait. A child of fork() must make its own loader.

    Raises InvalidArgument (an option, a spec, a chain), TypeError (an unknown option), InputOutput, Malformed,
    Unsupported, OutOfMemory (with the numbers). All but TypeError are libiter.Error.
    """

    def __init__(
        self,
        data: Any,
        chain: Optional[str] = None,
        *,
        batch_size: Optional[int] = None,
        shuffle: Union[bool, str, None] = False,
        workers: Union[int, str] = 0,
        seed: int = 0,
        output: str = "numpy",
        copy: bool = False,
        prefetch: int = 0,
        max_held: int = 3,
        rank: int = 0,
        ranks: Union[int, str] = 0,
        local_ranks: int = 0,
        global_batch: int = 0,
        micro_batches: int = 0,
        last_batch: str = "keep",
        epochs: int = 0,
        lookahead: str = "endless",
        sampler: Optional[str] = None,
        subset: Optional[Sequence[int]] = None,
        block: int = 0,
        buffer_blocks: int = 0,
        source: str = "auto",
        o_direct: bool = False,
        threads: int = 0,
        only_reads: bool = False,
        max_sample_bytes: int = 0,
        memory: str = "auto",
        device: Optional[int] = None,
        finish: str = "auto",
        resident: str = "no",
        share: str = "auto",
        memory_limit: int = 0,
        on_error: str = "fail",
        max_failures: int = 0,
        timeout_ms: int = 0,
        grace_ms: int = 0,
        stall_ms: int = 0,
        on_stall: Optional[Callable[[Dict[str, Any]], None]] = None,
        collate: Optional[Callable[[Dict[str, "np.ndarray[Any, Any]"]], None]] = None,
        copy_arrays: bool = False,
        views: Optional[str] = None,
        layout: Layout = None,
        **unknown_options: Any,
    ) -> None:
        if ranks == "auto":
            rank, ranks, local_ranks = options_of(rank, local_ranks)
        if views is None:
            views = "auto" if output == "numpy" else "no"
        given = {name: value for name, value in locals().items() if name in NAMES}
        self._handle = 0
        self._watch: Optional[Watch] = None  # its own, which verdict() reads
        self._watches: "weakref.WeakSet[Watch]" = weakref.WeakSet()  # of libiter.diagnose(); they hold the loader in C
        for name in unknown_options:
            raise unknown(name, NAMES + ["output", "copy", "chain", "layout"])
        if output not in OUTPUTS:
            raise n.InvalidArgument("options: output is %r; expected one of %s" % (output, ", ".join(OUTPUTS)))
        if memory == "device":
            raise n.Unsupported(
                'options: memory="device" is for C alone: no array tells the loader when a stream has read its batch'
            )
        self._callbacks = Callbacks(collate, on_stall)
        options = Options(given, self._callbacks)
        self._timeout_ms = timeout_ms
        self._dataset: Optional[Dataset] = None
        self._create(data, chain, layout, options)
        self._callbacks.made([field.name for field in self.fields])
        _exit.add(self)
        job: n.LoaderShare = n.quick.iter_loader_share_of(self._handle)
        self._global_batch = int(job.global_batch)
        self.batch_size = batch_size or -(-self._global_batch // int(job.ranks))
        self.output = output
        try:
            self._make = maker(self.fields, output, copy, options.struct.views == 0)
        except Exception:
            self.close()
            raise
        self._python = self._dataset._python if self._dataset is not None else None
        self._slice_ms = min(SLICE_MS, timeout_ms) if timeout_ms else SLICE_MS
        self._in_caller = workers == 0  # next() calls the dataset
        self._saved, self._size = c.create_string_buffer(1 << 16 if self._python else 0), c.c_size_t()
        self._untouched = True  # nothing was taken since it was created or moved
        self._resumed = False  # moved by load_state_dict()
        self._next = n.blocking["iter_loader_next_within"]  # an object of its own, with the fastest types
        self._next.restype, self._next.argtypes = c.c_int, [c.c_void_p, c.c_int64, c.c_void_p, c.c_void_p]
        self._out, self._error = c.c_void_p(), n.ErrorStruct()
        self._out_at, self._error_at = c.addressof(self._out), c.addressof(self._error)

    # ---- Making it --------------------------------------------------------------------------------

    def _create(self, data: Any, chain: Optional[str], layout: Layout, options: Options) -> None:
        err, out, stages = n.ErrorStruct(), c.c_void_p(), c.c_void_p()
        if chain:
            n.check(n.blocking.iter_chain_parse(n.text("chain", chain), None, c.byref(stages), c.byref(err)), err)
        try:
            if is_arrays(data):
                status = self._create_over_arrays(data, layout, stages, options, out, err)
            else:
                if isinstance(data, Dataset) and layout:
                    raise n.InvalidArgument("layout: a Dataset has it already; give it to Dataset()")
                self._dataset = data if isinstance(data, Dataset) else Dataset(data, layout=layout)
                self._dataset._description()  # raises if it is closed
                status = n.blocking.iter_dataloader_create(
                    self._dataset._handle, stages, c.byref(options.struct), c.byref(out), c.byref(err)
                )
        finally:
            n.blocking.iter_chain_unref(stages)
        if status < 0:
            self._callbacks.close()
        self._check(status, err)
        self._handle = out.value or 0

    def _create_over_arrays(
        self, data: Any, layout: Layout, stages: Any, options: Options, out: Any, err: Any
    ) -> int:
        structs, keeps = array_structs(data, layout)
        self._callbacks.keeps.extend(keeps)
        release = self._callbacks.keep_until_released()
        options.struct.arrays.release, options.struct.arrays.user = release
        status: int = n.blocking.iter_ndarray_create(
            structs, len(structs), stages, c.byref(options.struct), c.byref(out), c.byref(err)
        )
        if status < 0:
            self._callbacks.released(options.struct.arrays.user)
        return status

    def _check(self, status: int, err: n.ErrorStruct) -> None:
        if status >= 0:
            return
        message = err.message.decode("utf-8", "replace")
        reason = self._callbacks.reasons.find(message)
        if reason is not None and not isinstance(reason, Exception):
            raise reason  # Ctrl-C, or sys.exit()
        if reason is None and self._dataset is not None and self._dataset._python is not None:
            reason = self._dataset._python.reasons.find(message)
        if reason is not None:
            raise n.error_of(status, message) from reason
        if status == n.ESTATE and b"batches are held" in err.message:
            said = err.message.decode().split(";")[0]
            raise n.WrongState(
                said + ". Each array keeps its batch. To keep more of them, use copy=True, or a larger max_held"
            )
        of_spec = self._dataset is not None and self._dataset._python is None
        if status == n.EINVAL and not of_spec and re.search(r"wants an image.* \[\d+, \d+, \d+\]$", message):
            raise n.InvalidArgument(message + '; say what its dimensions are: layout="NHWC" or layout="NCHW"')
        n.check(status, err)

    def _live(self) -> int:
        if not self._handle:
            raise n.WrongState("loader: it is closed")
        return self._handle

    # ---- Iterating --------------------------------------------------------------------------------

    def __iter__(self) -> Iterator[Batch]:
        """Begins an epoch: the first one; the rest of one, after load_state_dict() or seek(); else the next one.
        What was left of an epoch that the program did not finish is dropped. The iterator's own iter() begins nothing,
        so `for` and islice() go on with one that was begun."""
        handle = self._live()
        if self._watch is None:
            self._watch = watch_or_none(self)
        if not self._untouched:
            self._reset(handle)
            self._resumed = False
        self._untouched = True
        return iter(self.__next__, None)

    def _reset(self, handle: int) -> None:
        err = n.ErrorStruct()
        self._check(n.blocking.iter_loader_reset(handle, c.byref(err)), err)

    def __next__(self) -> Batch:
        """The next batch of the epoch that iter() began."""
        if self._python is not None:
            return self._next_of_python(self._python)
        try:
            status = self._next(self._handle, self._slice_ms, self._out_at, self._error_at) if self._handle else -1
            if status != 0:
                self._wait_on(status)
            self._untouched = False
            return self._make(self._out)
        except KeyboardInterrupt:
            self._give_back()
            raise

    def _give_back(self) -> None:
        """A batch that was taken, but not given to the program because of Ctrl-C, comes again if the order of samples
        allows to go back."""
        handle = self._out.value
        if handle:
            info = n.quick.iter_batch_describe(handle)
            self._out.value = None
            n.quick.iter_batch_unref(handle)
            n.blocking.iter_loader_seek(self._handle, info.epoch, info.number * self._global_batch, None)

    def _next_of_python(self, python: Any) -> Batch:
        """As __next__(), for a dataset in Python: Ctrl-C and sys.exit() in its methods are raised here, and the
        loader is where it was before the call."""
        handle, untouched = self._live(), self._untouched
        saved = n.quick.iter_loader_save(handle, self._saved, len(self._saved), self._size, self._error)
        status, hook = n.ETIMEDOUT, sys.unraisablehook
        try:
            if self._in_caller and threading.current_thread() is threading.main_thread():
                sys.unraisablehook = python.unraisable(hook)
            status = self._next(handle, self._slice_ms, self._out_at, self._error_at)
            if status != 0 and python.interrupt is None:
                self._wait_on(status)
            if python.interrupt is None:
                self._untouched = False
                return self._make(self._out)
        except (n.Error, StopIteration):
            if python.interrupt is None:
                raise
        except KeyboardInterrupt as reason:
            python.interrupt = reason
        finally:
            sys.unraisablehook = hook
        interrupt, python.interrupt = python.interrupt, None
        if self._out.value:
            n.quick.iter_batch_unref(self._out)
            self._out.value = None
        if saved == 0:
            n.blocking.iter_loader_restore(handle, self._saved.raw[: self._size.value], self._size.value, None)
            self._untouched = untouched
        try:
            raise interrupt
        finally:
            interrupt = None  # its traceback has this frame: no circle, which would keep the batch

    def _wait_on(self, status: int) -> None:
        """What follows a call that gave no batch: more short calls, between which Python handles signals; or the
        end; or an error. Returns when a batch is there."""
        handle = self._live()
        begin = time.monotonic()
        for _ in range(20):
            if status != n.ESTATE or self.output != "jax" or not held_by_jax(self._error.message):
                break
            status = self._next(handle, self._slice_ms, self._out_at, self._error_at)
        while status == n.ETIMEDOUT:
            left = self._slice_ms
            if self._timeout_ms:
                left = min(left, self._timeout_ms - left - int(1000 * (time.monotonic() - begin)))
                if left <= 0:
                    break
            if self._python is not None and self._python.interrupt is not None:
                break
            status = self._next(handle, left, self._out_at, self._error_at)
        if status == n.END and self._resumed and self._untouched:  # restored at the end of an epoch: begins the next
            self._resumed = False
            self._reset(handle)
            status = self._next(handle, self._slice_ms, self._out_at, self._error_at)
            if status != 0:
                self._wait_on(status)
            return
        self._untouched = self._resumed = False
        if status == n.END:
            raise StopIteration
        self._check(status, self._error)

    def __len__(self) -> int:
        """Batches of an epoch for this rank. Raises TypeError if an epoch has no fixed length (a stream, a
        sampler that draws as it goes)."""
        batches = n.quick.iter_loader_n_batches(self._live())
        if batches == n.UNKNOWN:
            raise TypeError("loader: an epoch of this dataset or sampler has no fixed length")
        return int(batches)

    # ---- Position ---------------------------------------------------------------------------------

    def state_dict(self) -> Dict[str, Any]:
        """The position after the last batch taken: {"position": 96 bytes, ...}. It is the same on every rank."""
        handle, err, size = self._live(), n.ErrorStruct(), c.c_size_t()
        out = c.create_string_buffer(1 << 16)
        n.check(n.quick.iter_loader_save(handle, out, len(out), c.byref(size), c.byref(err)), err)
        return {"version": 1, "position": out.raw[: size.value]}

    def load_state_dict(self, state: Union[Mapping[str, Any], bytes]) -> None:
        """Goes to a saved position; the next iteration gives the rest of its epoch. Workers, ranks and batch size
        may differ from those of the loader that saved; dataset, seed, chain and sampler must not.

        Raises InvalidArgument (other data; or no batch of this size begins there), Malformed (no position)."""
        handle, err = self._live(), n.ErrorStruct()
        if isinstance(state, Mapping):
            if state.get("version") != 1 or not isinstance(state.get("position"), (bytes, bytearray)):
                raise n.Malformed("load_state_dict: expected what state_dict() gave, got keys %s" % sorted(state))
            saved = bytes(state["position"])
        elif isinstance(state, (bytes, bytearray)):
            saved = bytes(state)
        else:
            raise TypeError("load_state_dict: expected what state_dict() gave, got %s" % type(state).__name__)
        n.check(n.blocking.iter_loader_restore(handle, saved, len(saved), c.byref(err)), err)
        self._untouched = self._resumed = True

    def set_epoch(self, epoch: int) -> None:
        """Goes to the beginning of an epoch; the next iteration is that epoch."""
        self.seek(epoch, 0)

    def seek(self, epoch: int, sample: int) -> None:
        """Goes to a sample of an epoch, a multiple of the global batch; the next iteration gives the rest."""
        handle, err = self._live(), n.ErrorStruct()
        epoch, sample = number("epoch", epoch, 0, 2**32 - 1, "seek"), number("sample", sample, 0, 2**64 - 1, "seek")
        n.check(n.blocking.iter_loader_seek(handle, epoch, sample, c.byref(err)), err)
        self._untouched, self._resumed = True, False

    @property
    def position(self) -> Tuple[int, int]:
        """The current epoch, and how many of its samples all ranks together have taken."""
        epoch, samples = c.c_uint32(), c.c_uint64()
        n.quick.iter_loader_position(self._live(), c.byref(epoch), c.byref(samples))
        return int(epoch.value), int(samples.value)

    @property
    def epoch(self) -> int:
        """The current epoch."""
        return self.position[0]

    # ---- Looking at it ----------------------------------------------------------------------------

    @property
    def dataset(self) -> Optional[Dataset]:
        """What it reads; None for arrays."""
        return self._dataset

    @property
    def fields(self) -> List[Field]:
        """The fields of its batches, in order."""
        handle, found = self._live(), []
        for i in range(n.quick.iter_loader_n_fields(handle)):
            field = n.quick.iter_loader_field(handle, i).contents
            desc = field.desc
            shape = tuple(None if x < 0 else int(x) for x in desc.dims[: desc.n_dims])
            found.append(
                Field(
                    field.name.decode("utf-8", "replace"),
                    "label" if field.role == 1 else "data",
                    dtype_text(desc.dtype),
                    shape,
                    int(desc.capacity),
                    desc.layout.decode(),
                )
            )
        return found

    def plan(self) -> str:
        """What is done to a sample, a line per step, as `iterbench plan` prints it."""
        return str(n.quick.iter_loader_plan_text(self._live()).decode("utf-8", "replace"))

    def stats(self) -> types.SimpleNamespace:
        """Counters since the loader was created; the names are those of iter_loader_stats. Times are in ns."""
        out, err = n.LoaderStats(struct_size=c.sizeof(n.LoaderStats)), n.ErrorStruct()
        n.check(n.quick.iter_loader_stats_read(self._live(), c.byref(out), c.byref(err)), err)
        made: Dict[str, Any] = {}
        for name in n.names_of(n.LoaderStats)[1:]:
            value = getattr(out, name)
            if name == "workers":
                names = n.names_of(n.WorkerStats)
                value = [
                    types.SimpleNamespace(**{member: getattr(value[i], member) for member in names})
                    for i in range(min(out.n_workers, len(value)))
                ]
            elif name == "fallbacks":
                value = [value[i].value.decode("utf-8", "replace") for i in range(out.n_fallbacks)]
            elif name == "path_bytes":
                value = dict(zip(("ring", "pread", "memory", "remote"), value))
            elif name == "source":
                value = ("auto", "memory", "ring", "pread", "null", "remote")[value]
            elif isinstance(value, bytes):
                value = value.decode("utf-8", "replace")
            made[name] = value
        return types.SimpleNamespace(**made)

    def verdict(self) -> Verdict:
        """What limits the loop that iterates over this loader, since its first iteration. print() shows it. See
        libiter.diagnose() for one loop alone, for trying the proposed change, and for reports.

        Raises Unsupported if libiter_diagnose.so is missing."""
        self._live()
        if self._watch is None:
            self._watch = Watch(self, None, keeps=False)
        return self._watch.verdict()

    def failures(self) -> List[Failure]:
        """Failed samples of delivered batches, the first 1,024."""
        out = (n.Failure * 1024)()
        count = min(n.quick.iter_loader_failures(self._live(), out, len(out)), len(out))
        status = {number: kind.status for number, kind in n._errors.items()}
        return [
            Failure(f.epoch, f.position, f.index, status.get(f.status, "?"), f.message.decode("utf-8", "replace"))
            for f in out[:count]
        ]

    def activity(self) -> List[Dict[str, Any]]:
        """What each worker does just now: {"worker", "stage", "sample", "file", "offset", "since_ns"}."""
        out = (n.ActivityInfo * 1024)()
        count = min(n.quick.iter_loader_activity(self._live(), out, len(out)), len(out))
        return [
            {
                "worker": a.worker,
                "stage": a.stage.decode(),
                "sample": None if a.sample == n.UNKNOWN else int(a.sample),
                "file": a.file.decode("utf-8", "replace"),
                "offset": int(a.offset),
                "since_ns": int(a.since_ns),
            }
            for a in out[:count]
        ]

    # ---- The end ----------------------------------------------------------------------------------

    def cancel(self) -> None:
        """Wakes a blocked next() in another thread, which raises Canceled. After it the loader gives no batch."""
        n.quick.iter_loader_cancel(self._live())

    def close(self) -> None:
        """Stops the threads, and waits for them at most grace_ms. Batches that are held stay valid. A closed loader
        can only be closed again."""
        handle, self._handle = self._handle, 0
        if not handle:
            return
        if self._watch is not None:
            self._watch.close()
        _exit.remove(self)
        if self._watches:  # else the last reference stops it
            n.blocking.iter_loader_stop_within(handle, -1, c.byref(n.ErrorStruct()))
        n.blocking.iter_loader_unref(handle)
        self._callbacks.close()

    def __enter__(self) -> "Loader":
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()

    def __del__(self, is_finalizing: Callable[[], bool] = sys.is_finalizing) -> None:
        if getattr(self, "_handle", 0) and not is_finalizing():  # then modules are gone, and it was stopped before
            self.close()

    def __reduce__(self) -> Any:
        raise TypeError("a Loader has threads, and cannot be pickled or copied: make one in each process")

    def __repr__(self) -> str:
        if not self._handle:
            return "Loader(closed)"
        name = self._dataset.name if self._dataset is not None else "arrays"
        fields = ", ".join("%s: %s %s" % (f.name, f.dtype, list(f.shape)) for f in self.fields)
        return "Loader(%s; %s)" % (name, fields)


__all__ = ["Failure", "Loader"]

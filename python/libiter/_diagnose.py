"""A verdict for a training loop: what limits it, by how much, what to change. <iter/diagnose.h> from Python."""
from __future__ import annotations

import ctypes as c
import dataclasses
import importlib
import os
import textwrap
import threading
import time
from typing import Any, Dict, Iterator, List, Optional, Tuple

from . import _native as n

COLUMNS = 100  # of what str() gives


def _wrapped(text: str, first: str = "", then: str = "") -> str:
    together = text.replace(" %", "\xa0%")  # a number and its unit stay on one line
    lines = textwrap.wrap(
        together, COLUMNS, initial_indent=first, subsequent_indent=then, break_long_words=False, break_on_hyphens=False
    )
    return "\n".join(lines).replace("\xa0%", " %")


@dataclasses.dataclass(frozen=True)
class Change:
    """A change that the verdict proposes. Its gain comes from a model, so it is "about"."""

    option: str  #: the Loader's option
    value: str  #: what to set it to
    gain: float  #: rate with it / rate without - 1
    text: str  #: one line


@dataclasses.dataclass(frozen=True)
class Verdict:
    """What limits a loop. str() gives the paragraph. Rates are samples a second; NaN = not measured."""

    limit: str  #: "consumer", "read", "decode", "transform", "workers", ..., or "none"
    stage: str  #: where in the loader, or ""
    share: float  #: part of the loop's time that the limit costs, 0 to 1
    is_sure: bool  #: high confidence
    seconds: float
    batches: int
    samples: int
    rate: float  #: of the loop
    consumer_rate: float  #: of the loop if next() took no time
    loader_rate: float  #: of the loader if the loop took no time
    wait_share: float  #: part of the time that the loop spends in next()
    cores_used: float
    changes: Tuple[Change, ...]  #: best first, at most three
    says: str  #: the limit, in one or two sentences
    text: str  #: with its evidence, and how sure it is

    def __str__(self) -> str:
        lines = [_wrapped(self.text)]
        lines += [_wrapped(change.text, "  %d. " % i, "     ") for i, change in enumerate(self.changes, 1)]
        return "\n".join(lines)


@dataclasses.dataclass(frozen=True)
class Proof:
    """What the first change gave when it was tried. Ratios are rate with it / rate without, (low, high) their 95 %
    interval."""

    advice: str  #: the change; "" = the verdict proposes none
    loader_rate: float  #: samples/s of the loader alone, as it is
    loader: float  #: of the loader alone: measured
    loader_interval: Tuple[float, float]
    loop: float  #: of the loop: the model's, from that measurement
    loop_interval: Tuple[float, float]
    text: str

    def __str__(self) -> str:
        return _wrapped(self.text)


@dataclasses.dataclass(frozen=True)
class Comparison:
    """Another library's loader and ours, each alone, over the same data."""

    theirs: float  #: samples/s
    ours: float
    loop: float  #: of the loop with ours: the model's. Rate with ours / rate now
    way: str  #: how ours runs it
    text: str

    def __str__(self) -> str:
        return _wrapped(self.text)


# ---- The library, opened when it is first needed ---------------------------------------------------


class _Options(c.Structure):
    _fields_ = [
        ("struct_size", c.c_size_t),
        ("name", c.c_char_p),
        ("workers", c.c_int32),
        ("knows_workers", c.c_int32),
        ("batch_size", c.c_uint64),
    ]


class _Change(c.Structure):
    _fields_ = [
        ("option", c.c_char * 32),
        ("from", c.c_char * 64),
        ("to", c.c_char * 64),
        ("advice", c.c_char * 160),
        ("text", c.c_char * 480),
        ("gain", c.c_double),
        ("expected", c.c_double),
        ("next", c.c_int32),
    ]


class _Diagnosis(c.Structure):
    _fields_ = [
        ("struct_size", c.c_size_t),
        ("limit", c.c_int32),
        ("is_sure", c.c_int32),
        ("limit_text", c.c_char * 16),
        ("stage", c.c_char * 64),
        ("share", c.c_double),
        ("seconds", c.c_double),
        ("batches", c.c_uint64),
        ("samples", c.c_uint64),
        ("n_slices", c.c_uint32),
        ("wait_share", c.c_double),
        ("rate", c.c_double),
        ("consumer_rate", c.c_double),
        ("loader_rate", c.c_double),
        ("no_core_share", c.c_double),
        ("cores_used", c.c_double),
        ("n_changes", c.c_int32),
        ("changes", _Change * 3),
        ("says", c.c_char * 768),
        ("text", c.c_char * 2048),
    ]


class _Proof(c.Structure):
    _fields_ = [
        ("struct_size", c.c_size_t),
        ("advice", c.c_char * 160),
        ("n_slices", c.c_uint32),
        ("loader_rate", c.c_double),
        ("loader", c.c_double),
        ("loader_low", c.c_double),
        ("loader_high", c.c_double),
        ("loop", c.c_double),
        ("loop_low", c.c_double),
        ("loop_high", c.c_double),
        ("text", c.c_char * 480),
    ]


STRUCTS = {
    "iter_diagnose_options": _Options,
    "iter_diagnose_change": _Change,
    "iter_diagnosis": _Diagnosis,
    "iter_diagnose_proof": _Proof,
}
_library: Optional[Any] = None
_lock = threading.Lock()


def library() -> Any:
    """libiter_diagnose.so, opened. Raises Unsupported if it is not there."""
    global _library
    with _lock:
        if _library is None:
            _library = _open()
        return _library


def _open() -> Any:
    path = n.library_path("libiter_diagnose.so")
    if not os.path.exists(path) and os.path.exists(path + ".0.1"):
        path += ".0.1"
    try:
        made = c.CDLL(path)
    except OSError as reason:
        raise n.Unsupported("diagnose: its library could not be loaded: %s" % reason) from None
    err, out = c.POINTER(n.ErrorStruct), c.POINTER(c.c_void_p)
    rows: List[Tuple[str, Any, List[Any]]] = [
        ("iter_diagnose_start", c.c_int, [c.c_void_p, c.POINTER(_Options), out, err]),
        ("iter_diagnose_start_loop", c.c_int, [c.POINTER(_Options), out, err]),
        ("iter_diagnose_next_begin", None, [c.c_void_p]),
        ("iter_diagnose_next_end", None, [c.c_void_p, c.c_uint64]),
        ("iter_diagnose_read", c.c_int, [c.c_void_p, c.POINTER(_Diagnosis), err]),
        ("iter_diagnose_prove", c.c_int, [c.c_void_p, c.c_double, c.POINTER(_Proof), err]),
        ("iter_diagnose_html", c.c_int, [c.c_void_p, c.c_char_p, err]),
        ("iter_diagnose_stop", None, [c.c_void_p]),
    ]
    for name, result, arguments in rows:
        function = getattr(made, name)
        function.restype, function.argtypes = result, arguments
    return made


def _text(value: bytes) -> str:
    return value.decode("utf-8", "replace")


# ---- A watch ---------------------------------------------------------------------------------------


class Watch:
    """A watch of one loop; libiter.diagnose() makes it.

    It is iterable itself: `for batch in watch` passes on the batches of the loader, and times them. A libiter
    Loader need not be iterated by way of its watch.
    """

    def __init__(self, target: Any, name: Optional[str], keeps: bool = True) -> None:
        self._handle: int = 0
        self._lib = library()
        if not hasattr(target, "__iter__") and not hasattr(target, "__getitem__"):
            raise TypeError("diagnose: expected a loader or another iterable, got %s" % type(target).__name__)
        self._is_iterated: bool = False
        self._lock = threading.Lock()  # close() in another thread waits for a call
        self._process = os.getpid()
        self._target: Any = target if keeps else None  # a loader's own watch must not keep it alive
        self._ours: bool = isinstance(getattr(target, "_handle", None), int) and hasattr(target, "state_dict")
        inner = getattr(target, "_inner_loader", None)  # of libiter.torch.DataLoader
        loader = inner() if callable(inner) else None
        if loader is not None:
            self._ours, target = True, loader
        options = _Options(struct_size=c.sizeof(_Options), name=name.encode() if name else None)
        err, out = n.ErrorStruct(), c.c_void_p()
        if self._ours:
            status = self._lib.iter_diagnose_start(target._live(), c.byref(options), c.byref(out), c.byref(err))
        else:
            if not name:
                options.name = type(target).__name__.encode()
            workers = getattr(target, "num_workers", None)
            if isinstance(workers, int):
                options.workers, options.knows_workers = workers, 1
            size = getattr(target, "batch_size", None)
            options.batch_size = size if isinstance(size, int) and size > 0 else 0
            status = self._lib.iter_diagnose_start_loop(c.byref(options), c.byref(out), c.byref(err))
        n.check(status, err)
        self._handle = out.value or 0
        if self._ours and keeps:
            target._watches.add(self)

    def _live(self) -> int:
        if not self._handle:
            raise n.WrongState("diagnose: the watch is closed")
        if os.getpid() != self._process:
            raise n.WrongState("diagnose: the watch is that of the parent process; a child of fork() starts its own")
        return self._handle

    def _call(self, name: str, *arguments: Any) -> None:
        err = n.ErrorStruct()
        with self._lock:
            status = getattr(self._lib, name)(self._live(), *arguments, c.byref(err))
        n.check(status, err)

    def __iter__(self) -> Iterator[Any]:
        if self._ours:
            yield from self._target
            return
        batches, self._is_iterated = iter(self._target), True
        while True:
            handle = self._live()
            self._lib.iter_diagnose_next_begin(handle)
            try:
                batch = next(batches)
            except StopIteration:
                self._lib.iter_diagnose_next_end(handle, 0)
                return
            except BaseException:
                self._lib.iter_diagnose_next_end(handle, 0)
                raise
            self._lib.iter_diagnose_next_end(handle, samples_in(batch))
            yield batch

    def __len__(self) -> int:
        return len(self._target)

    def verdict(self) -> Verdict:
        """The verdict so far. With less than three seconds of the loop it is not sure, and says so."""
        out = _Diagnosis(struct_size=c.sizeof(_Diagnosis))
        self._call("iter_diagnose_read", c.byref(out))
        changes = tuple(
            Change(_text(change.option), _text(change.to), float(change.gain), _text(change.text))
            for change in out.changes[: out.n_changes]
        )
        says, text = _text(out.says), _text(out.text)
        if not self._ours and not self._is_iterated:
            says = text = "Nothing can be told: the loader is not libiter's, so iterate over the watch"
        return Verdict(
            _text(out.limit_text),
            _text(out.stage),
            float(out.share),
            bool(out.is_sure),
            float(out.seconds),
            int(out.batches),
            int(out.samples),
            float(out.rate),
            float(out.consumer_rate),
            float(out.loader_rate),
            float(out.wait_share),
            float(out.cores_used),
            changes,
            says,
            text,
        )

    def prove(self, seconds: float = 0) -> Proof:
        """Tries the first change: the loader alone with it and without it, in turns, for `seconds` (0 = 2). Call it
        after the loop. Raises Unsupported for a stream, a dataset in Python that must not be read twice at once, or
        a loader that is not ours (see compare())."""
        self._live()
        if not self._ours:
            raise n.Unsupported("prove: the loader is not libiter's; compare() tries ours over a torch DataLoader's data")
        out = _Proof(struct_size=c.sizeof(_Proof))
        self._call("iter_diagnose_prove", float(seconds), c.byref(out))
        return Proof(
            _text(out.advice),
            float(out.loader_rate),
            float(out.loader),
            (float(out.loader_low), float(out.loader_high)),
            float(out.loop),
            (float(out.loop_low), float(out.loop_high)),
            _text(out.text) or "Nothing was tried: the verdict proposes no change.",
        )

    def compare(self, seconds: float = 2) -> Comparison:
        """Another library's loader against ours: libiter.torch.DataLoader over its dataset, with its options. The
        two run alone, in turns, for `seconds` in all; the loop's rate with ours is the model's. Call it after the
        loop. Raises Unsupported if the loader is not torch's."""
        return compare(self, self._target, seconds)

    def html(self, path: Any) -> None:
        """Writes the verdict as a report, one file. Raises InputOutput."""
        self._call("iter_diagnose_html", os.fsencode(path))

    def close(self) -> None:
        """Ends the watch."""
        if not self._handle:
            return
        with self._lock:
            handle, self._handle = self._handle, 0
        if handle:
            self._lib.iter_diagnose_stop(handle)

    def __enter__(self) -> "Watch":
        return self

    def __exit__(self, *_: Any) -> None:
        """The watch stays readable until close(), or until it is no longer used."""

    def __del__(self) -> None:
        if getattr(self, "_handle", 0):
            self.close()

    def __repr__(self) -> str:
        return "Watch(%r)" % self._target if self._handle else "Watch(closed)"


def samples_in(batch: Any) -> int:
    """Samples of a batch: the first dimension of its first array."""
    while isinstance(batch, (tuple, list, dict)) and len(batch):
        batch = next(iter(batch.values())) if isinstance(batch, dict) else batch[0]
    shape = getattr(batch, "shape", None)
    if shape is not None and len(shape):
        return int(shape[0])
    return 1


def diagnose(loader: Any, *, name: Optional[str] = None) -> Watch:
    """Watches a training loop, and says what limits it.

        with libiter.diagnose(loader) as watch:
            for images, labels in loader:       # the loop stays as it is
                train(images, labels)
        print(watch.verdict())
        print(watch.prove())                    # tries the first change

    loader  a libiter.Loader, or a libiter.torch.DataLoader; or any other iterable of batches. Of another one,
            iterate over the watch: `for batch in watch`. The verdict then says whether that loader limits the loop,
            and watch.compare() measures what ours would do with a torch DataLoader's dataset.
    name    for texts and the report

    The watch costs less than 1 % of a core. Raises Unsupported if libiter_diagnose.so is missing.
    """
    return Watch(loader, name)


def watch_or_none(loader: Any) -> Optional[Watch]:
    """A watch that loader.verdict() reads; None if its library is missing, or in a child of fork()."""
    try:
        return Watch(loader, None, keeps=False)
    except n.Error:
        return None


# ---- Ours against theirs ---------------------------------------------------------------------------


def _seconds_a_sample(batches: Iterator[Any], seconds: float) -> Tuple[float, int]:
    """Takes batches for about that long; returns seconds a sample, and how many samples."""
    samples, begin = 0, time.perf_counter()
    while True:
        batch = next(batches, None)
        now = time.perf_counter()
        if batch is None:
            break
        samples += samples_in(batch)
        if now - begin >= seconds:
            break
    return ((now - begin) / samples if samples else float("nan")), samples


def _endless(loader: Any) -> Iterator[Any]:
    while True:
        empty = True
        for batch in loader:
            empty = False
            yield batch
        if empty:
            return


def _ours_like(theirs: Any) -> Any:
    """libiter.torch.DataLoader with the arguments of a torch DataLoader."""
    kind = importlib.import_module("libiter.torch").DataLoader
    if theirs.batch_size is None:
        raise n.Unsupported("compare: libiter would run this by torch, too: its batch_size is None")
    if not hasattr(theirs.dataset, "__getitem__") or not hasattr(theirs.dataset, "__len__"):
        raise n.Unsupported("compare: libiter would run this by torch, too: the dataset is a stream")
    ours = kind(
        theirs.dataset,
        batch_size=theirs.batch_size,
        sampler=theirs.sampler,
        drop_last=theirs.drop_last,
        num_workers=theirs.num_workers,
        collate_fn=theirs.collate_fn,
        worker_init_fn=theirs.worker_init_fn,
        generator=theirs.generator,
    )
    if ours.way == "torch":
        raise n.Unsupported("compare: libiter would run this by torch, too: %s" % ours.why().split("because: ")[-1])
    return ours


def compare(watch: Watch, theirs: Any, seconds: float) -> Comparison:
    """See Watch.compare()."""
    if not hasattr(theirs, "dataset") or not hasattr(theirs, "num_workers"):
        raise n.Unsupported("compare: %s is no torch DataLoader" % type(theirs).__name__)
    ours = _ours_like(theirs)
    try:
        rounds = 4
        iterators = [_endless(theirs), _endless(ours)]
        for batches in iterators:  # threads and processes start, files become warm
            _seconds_a_sample(batches, seconds / (4 * rounds))
        times: List[List[float]] = [[], []]
        for _ in range(rounds):
            for spent, batches in zip(times, iterators):
                spent.append(_seconds_a_sample(batches, seconds / (2 * rounds))[0])
        their_s, our_s = (sorted(spent)[rounds // 2] for spent in times)
    finally:
        ours.close()
    verdict = watch.verdict()
    now_s = 1 / verdict.rate if verdict.rate == verdict.rate and verdict.rate > 0 else float("nan")
    consumer_s = 1 / verdict.consumer_rate if verdict.consumer_rate > 0 else float("nan")
    then_s = max(consumer_s, our_s) if theirs.num_workers else consumer_s + our_s
    loop = max(1.0, now_s / then_s) if now_s == now_s and then_s == then_s else float("nan")
    text = "Alone, %s gives %.0f samples/s and libiter %.0f (%.1f times as many), %s." % (
        type(theirs).__name__,
        1 / their_s,
        1 / our_s,
        their_s / our_s,
        ours.why().split("\n")[0].rstrip("."),
    )
    if loop == loop:
        text += " The loop would run at about %.2f times its rate." % loop
    return Comparison(1 / their_s, 1 / our_s, loop, ours.way, text)

"""From keyword arguments to iter_loader_options. The names are those of the members; those of a struct inside
are given without its name (sampler.block is block=), except memory.kind and memory.limit: memory=, memory_limit=.
"""
from __future__ import annotations

import ctypes as c
import difflib
from typing import Any, Callable, Dict, List, Mapping, Optional, Tuple

import numpy as np

from . import _native as n
from ._callbacks import COLLATE, ON_STALL

SHUFFLES = ["none", "full", "once", "block", "batch", "replacement"]
LAST_BATCHES = ["default", "keep", "pad", "discard", "roll-over"]
ON_ERRORS = ["fail", "replace", "blank"]
SOURCES = ["auto", "memory", "ring", "pread", "null", "remote"]
LOOKAHEADS = ["endless", "epoch"]
MEMORIES = ["auto", "host", "pinned", "device"]
FINISHES = ["auto", "host", "device"]
RESIDENTS = ["no", "auto", "yes"]
SHARES = ["auto", "no"]
VIEWS = ["auto", "no"]

# What other loaders call it.
_elsewhere = {
    "num_workers": 'workers=..., or workers="auto"',
    "worker_count": "workers=...",
    "drop_last": 'last_batch="discard"',
    "prefetch_factor": "prefetch=..., in batches of all workers together",
    "prefetch_buffer_size": "prefetch=...",
    "pin_memory": 'memory="pinned"',
    "timeout": "timeout_ms=...",
    "generator": "seed=...",
    "collate_fn": "collate=..., which changes the arrays of a batch in place",
    "batch_sampler": "libiter.torch.DataLoader, which takes torch's samplers",
    "persistent_workers": "nothing: threads always persist",
    "worker_init_fn": "nothing: workers are threads of this process",
    "multiprocessing_context": "nothing: workers are threads of this process",
    "last_batch_handle": "last_batch=...",
    "world_size": "ranks=...",
    "num_replicas": "ranks=...",
    "shard_index": "rank=...",
    "num_epochs": "epochs=...",
    "transform": "chain=...",
    "transforms": "chain=...",
    "batchsize": "batch_size=...",
}


def unknown(name: str, known: List[str]) -> TypeError:
    """The error for an argument that a Loader does not have, with the one that was probably meant."""
    hint = _elsewhere.get(name)
    if hint is not None and hint.startswith("nothing: "):
        return TypeError("Loader: no option is called %s; leave it out: %s" % (name, hint[len("nothing: ") :]))
    if hint is None:
        near = difflib.get_close_matches(name, known, 1, 0.6) or [n.nearest(name, known)]
        hint = near[0] + "=..." if near[0] else ""
    return TypeError("Loader: no option is called %s%s" % (name, "; did you mean %s?" % hint if hint else ""))


def choice(name: str, value: Any, words: List[str]) -> int:
    """The number of a word."""
    text = str(value).lower().replace("_", "-")
    if text in words:
        return words.index(text)
    near = n.nearest(text, words)
    raise n.InvalidArgument(
        "options: %s is %r; expected one of %s%s"
        % (name, value, ", ".join(words), "; did you mean %s?" % near if near else "")
    )


def number(name: str, value: Any, low: int, high: int, where: str = "options") -> int:
    """An integer in its bounds; numpy's integers count, True and 1.5 do not."""
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        raise TypeError("%s: %s is %r; expected an integer" % (where, name, value))
    given = int(value.__index__())
    if not low <= given <= high:
        raise n.InvalidArgument("%s: %s is %d; expected %d to %d" % (where, name, given, low, high))
    return given


def shuffle_of(value: Any) -> int:
    """False, True (= "full") or a name."""
    if value is None or isinstance(value, (bool, np.bool_)):
        return 1 if value else 0
    return choice("shuffle", value, SHUFFLES)


def workers_of(value: Any) -> int:
    """A number, or "auto"."""
    if isinstance(value, str):
        if value != "auto":
            raise n.InvalidArgument('options: workers is %r; expected a number or "auto"' % value)
        return -1
    return number("workers", value, 0, 2**31 - 1)


def device_of(value: Any) -> int:
    """None = the current context's GPU, else the number of one."""
    return 0 if value is None else number("device", value, 0, 1023) + 1


class Options:
    """The struct, and all that it points to."""

    def __init__(self, values: Mapping[str, Any], callbacks: Any) -> None:
        self.struct = n.LoaderOptions(struct_size=c.sizeof(n.LoaderOptions))
        self.keeps: List[Any] = []
        for name, value in values.items():
            row = _rows[name]
            if value is not None or name == "shuffle":
                row(self, name, value)
        self._callbacks(values, callbacks)

    def _callbacks(self, values: Mapping[str, Any], callbacks: Any) -> None:
        if values.get("collate") is not None:
            self.struct.collate, self.struct.collate_user = COLLATE, callbacks.number
        if values.get("on_stall") is not None:
            self.struct.watch.on_stall, self.struct.watch.user = ON_STALL, callbacks.number


def _at(struct: Any, path: str) -> Tuple[Any, str]:
    parts = path.split(".")
    for part in parts[:-1]:
        struct = getattr(struct, part)
    return struct, parts[-1]


def _number_row(path: str, low: int, high: int) -> Callable[[Options, str, Any], None]:
    def write(options: Options, name: str, value: Any) -> None:
        struct, member = _at(options.struct, path)
        setattr(struct, member, number(name, value, low, high))

    return write


def _choice_row(path: str, words: List[str]) -> Callable[[Options, str, Any], None]:
    def write(options: Options, name: str, value: Any) -> None:
        struct, member = _at(options.struct, path)
        setattr(struct, member, choice(name, value, words))

    return write


def _bool_row(path: str) -> Callable[[Options, str, Any], None]:
    def write(options: Options, name: str, value: Any) -> None:
        struct, member = _at(options.struct, path)
        setattr(struct, member, 1 if value else 0)

    return write


def _made_row(path: str, make: Callable[[Any], int]) -> Callable[[Options, str, Any], None]:
    def write(options: Options, name: str, value: Any) -> None:
        struct, member = _at(options.struct, path)
        setattr(struct, member, make(value))

    return write


def _sampler(options: Options, name: str, value: Any) -> None:
    options.struct.sampler.spec = n.text("options: sampler", value)


def _subset(options: Options, name: str, value: Any) -> None:
    given = np.asarray(value)
    if given.ndim != 1 or given.dtype.kind not in "iu" or (given.size and given.min() < 0):
        raise n.InvalidArgument("options: subset: expected a list of sample indices from 0")
    indices = np.ascontiguousarray(given, np.uint64)
    if not len(indices):
        raise n.InvalidArgument("options: subset is empty")
    options.struct.sampler.subset = indices.ctypes.data
    options.struct.sampler.n_subset = len(indices)
    options.keeps.append(indices)


def _nothing(options: Options, name: str, value: Any) -> None:
    """Callbacks; the loader makes them."""


_u32, _i64, _u64 = 2**32 - 1, 2**63 - 1, 2**64 - 1
_rows: Dict[str, Callable[[Options, str, Any], None]] = {
    "batch_size": _number_row("batch_size", 1, _u32),
    "workers": _made_row("workers", workers_of),
    "prefetch": _number_row("prefetch", 0, _u32),
    "max_held": _number_row("max_held", 0, _u32),
    "rank": _number_row("rank", 0, _u32),
    "ranks": _number_row("ranks", 0, _u32),
    "local_ranks": _number_row("local_ranks", 0, _u32),
    "global_batch": _number_row("global_batch", 0, _u32),
    "micro_batches": _number_row("micro_batches", 0, _u32),
    "seed": _number_row("seed", 0, _u64),
    "shuffle": _made_row("shuffle", shuffle_of),
    "last_batch": _choice_row("last_batch", LAST_BATCHES),
    "epochs": _number_row("epochs", 0, _u32),
    "lookahead": _choice_row("lookahead", LOOKAHEADS),
    "sampler": _sampler,
    "subset": _subset,
    "block": _number_row("sampler.block", 0, _u32),
    "buffer_blocks": _number_row("sampler.buffer_blocks", 0, _u32),
    "source": _choice_row("reading.source", SOURCES),
    "o_direct": _bool_row("reading.o_direct"),
    "threads": _number_row("reading.threads", 0, _u32),
    "only_reads": _bool_row("reading.only_reads"),
    "max_sample_bytes": _number_row("reading.max_sample_bytes", 0, _u64),
    "memory": _choice_row("memory.kind", MEMORIES),
    "device": _made_row("memory.device", device_of),
    "finish": _choice_row("memory.finish", FINISHES),
    "resident": _choice_row("memory.resident", RESIDENTS),
    "share": _choice_row("memory.share", SHARES),
    "memory_limit": _number_row("memory.limit", 0, _u64),
    "on_error": _choice_row("faults.on_error", ON_ERRORS),
    "max_failures": _number_row("faults.max_failures", 0, _u32),
    "timeout_ms": _number_row("faults.timeout_ms", 0, _i64),
    "grace_ms": _number_row("faults.grace_ms", 0, _i64),
    "stall_ms": _number_row("watch.stall_ms", 0, _i64),
    "on_stall": _nothing,
    "collate": _nothing,
    "copy_arrays": _bool_row("arrays.copy"),
    "views": _choice_row("views", VIEWS),
}
NAMES = list(_rows)

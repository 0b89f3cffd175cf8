"""The profiler: what every thread of every loader did and when, beside the program's own scopes."""
from __future__ import annotations

import contextlib
import ctypes as c
import os
import threading
from typing import Any, Optional, Union

from . import _native as n
from ._options import choice, number

SORTS = ["total", "mean", "min", "max", "count", "p50", "p99", "name"]
FORMATS = ["table", "json"]

_lock = threading.Lock()
_latest: Optional["profile"] = None  # the one whose events the library holds


class profile:  # pylint: disable=invalid-name
    """Records while its block runs.

        with libiter.profile("profile.json") as p:
            for images, labels in loader:
                with libiter.scope("train"):
                    train(images, labels)
        print(p.table())

    filename           where the trace goes; None = "profile.json"; "" = no file. %p is the process's number, %r its
                       rank. It opens in Perfetto and chrome://tracing, and is complete JSON at any time
    events_per_thread  how many each thread can hold, 56 bytes each; 0 = 65,536
    aggregate          False = no table
    memory             False = no counters of memory
    dump_period_ms     how often the file is updated; 0 = 1000; -1 = only by dump() and at the end

    A process has one profiler. Raises WrongState if another profile runs (or ITER_PROFILE is set), InputOutput if
    the file cannot be made, or another process writes it.
    """

    def __init__(
        self,
        filename: Union[str, "os.PathLike[str]", None] = None,
        *,
        events_per_thread: int = 0,
        aggregate: bool = True,
        memory: bool = True,
        dump_period_ms: int = 0,
    ) -> None:
        self.filename = "profile.json" if filename is None else os.fspath(filename)
        self._aggregate, self._running = aggregate, False
        self._options = n.ProfileOptions(
            struct_size=c.sizeof(n.ProfileOptions),
            filename=os.fsencode(self.filename),
            events_per_thread=number("events_per_thread", events_per_thread, 0, 2**32 - 1),
            no_aggregate=0 if aggregate else 1,
            no_memory=0 if memory else 1,
            dump_period_ms=number("dump_period_ms", dump_period_ms, -1, 2**63 - 1),
        )

    def __enter__(self) -> "profile":
        global _latest
        err = n.ErrorStruct()
        with _lock:
            n.check(n.blocking.iter_profile_start(c.byref(self._options), c.byref(err)), err)
            _latest, self._running = self, True
        return self

    def __exit__(self, kind: Any, *_: Any) -> None:
        self._require()
        err = n.ErrorStruct()
        self._running = False
        status = n.blocking.iter_profile_stop(c.byref(err))
        if kind is None:  # else the program's own exception is the one to see
            n.check(status, err)

    def _require(self, running: bool = True) -> None:
        if _latest is not self:
            if _latest is None:
                raise n.WrongState("profile: it was not entered: with libiter.profile(...) as p")
            raise n.WrongState("profile: another profile began since")
        if running and not self._running:
            raise n.WrongState("profile: it has ended")

    def pause(self) -> None:
        """Records nothing until resume(). Open scopes stay open."""
        self._require()
        n.quick.iter_profile_pause()

    def resume(self) -> None:
        """Goes on after pause()."""
        self._require()
        n.quick.iter_profile_resume()

    def dump(self) -> None:
        """Updates the file now; recording goes on. After the block it does nothing: the file is complete then.
        Raises InputOutput if it could not be written; then it stays as it was."""
        self._require(running=False)
        err = n.ErrorStruct()
        n.check(n.blocking.iter_profile_dump(c.byref(err)), err)

    def table(
        self, sort_by: str = "total", format: str = "table", *, ascending: bool = False, reset: bool = False
    ) -> str:
        """Count, total, mean, minimum, maximum, median and 99th percentile of every name, during the block or after
        it, until another profile begins.

        sort_by  "total", "mean", "min", "max", "count", "p50", "p99", "name"
        format   "table" for people, "json" for programs (docs/json.md)
        reset    True = the next table counts from now on

        Raises InvalidArgument for another word, WrongState with aggregate=False."""
        self._require(running=False)
        if not self._aggregate:
            raise n.WrongState("profile: aggregate=False keeps no table")
        by, kind = choice("sort_by", sort_by, SORTS), choice("format", format, FORMATS)
        err, size = n.ErrorStruct(), c.c_size_t()
        call = n.blocking.iter_profile_table
        n.check(call(by, int(ascending), 0, kind, None, 0, c.byref(size), c.byref(err)), err)
        while True:  # it may have grown in between
            out = c.create_string_buffer(size.value + 4096)
            status = call(by, int(ascending), int(reset), kind, out, len(out), c.byref(size), c.byref(err))
            if status == n.EINVAL and size.value > len(out):
                continue
            n.check(status, err)
            return out.value.decode("utf-8", "replace")


class scope(contextlib.ContextDecorator):  # pylint: disable=invalid-name
    """A span of the calling thread in the profile; spans nest. Without a profile it costs two short calls.

        with libiter.scope("forward"): ...

        @libiter.scope("validate")
        def validate(): ...

    The name's first 47 bytes count; a process has 512 names.
    """

    def __init__(self, name: str) -> None:
        self._name = name.encode("utf-8", "replace")

    def __enter__(self) -> "scope":
        n.quick.iter_profile_scope_begin(self._name)
        return self

    def __exit__(self, *_: Any) -> None:
        n.quick.iter_profile_scope_end()

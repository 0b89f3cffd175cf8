"""The end of the process: loaders are stopped before the interpreter is taken down.

A worker that runs a dataset in Python needs the GIL, and must not ask for it after the interpreter has begun to
end. Functions of `atexit` run after non-daemon threads have ended and before that, so loaders stop there. Each may
wait for GRACE_MS; a worker that is still inside a Python function then is left alone.
"""
from __future__ import annotations

import atexit
import ctypes as c
import threading
import time
import weakref
from typing import Any

from . import _native as n

GRACE_MS = 300
_live: "weakref.WeakSet[Any]" = weakref.WeakSet()
_lock = threading.Lock()
ending = False


def add(loader: Any) -> None:
    """Stops it at the end of the process. Raises WrongState if that has begun."""
    if ending:
        raise n.WrongState("loader: the interpreter is ending")
    with _lock:
        _live.add(loader)


def remove(loader: Any) -> None:
    """It is closed."""
    with _lock:
        _live.discard(loader)


def _stop_all() -> None:
    global ending
    ending = True
    with _lock:  # close() waits for it before it drops its reference
        handles = [loader._handle for loader in _live if loader._handle]
        for handle in handles:
            n.quick.iter_loader_ref(handle)
            n.quick.iter_loader_cancel(handle)  # all at once, so that they end side by side
    until = time.monotonic() + GRACE_MS / 1000
    for handle in handles:
        left = max(0, int(1000 * (until - time.monotonic())))
        n.blocking.iter_loader_stop_within(handle, left, c.byref(n.ErrorStruct()))
        n.blocking.iter_loader_unref(handle)


atexit.register(_stop_all)

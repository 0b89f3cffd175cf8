"""Python functions that the library calls: collate, on_stall, and the release of arrays."""
from __future__ import annotations

import itertools
import threading
from typing import Any, Callable, Dict, List, Optional, Tuple

from . import _native as n
from ._dataset import Reasons, write_error
from ._tensors import view_rows

_number = itertools.count(1)
_kept: Dict[int, Any] = {}  # arrays that loaders borrow, until the library releases them
_release = n.forever(n.CLOSE(_kept.pop))  # no Python function, in which a signal could be handled
_running: Dict[int, "Callbacks"] = {}  # until the loader is closed


class Callbacks:
    """The callbacks of one loader, and what must live as long as it does."""

    def __init__(
        self, collate: Optional[Callable[[Dict[str, Any]], None]], on_stall: Optional[Callable[[Dict[str, Any]], None]]
    ) -> None:
        for name, function in (("collate", collate), ("on_stall", on_stall)):
            if function is not None and not callable(function):
                raise TypeError("options: %s is %r; expected a function" % (name, function))
        self.fields: List[str] = []  # once the loader is made; its threads may be there earlier
        self._is_made = threading.Event()
        self.keeps: List[Any] = []
        self.reasons = Reasons()  # why collate failed
        self._collate, self._on_stall = collate, on_stall
        self.number = next(_number)
        if collate is not None or on_stall is not None:
            _running[self.number] = self

    def made(self, fields: List[str]) -> None:
        """The loader exists and has these fields."""
        self.fields = fields
        self._is_made.set()

    def close(self) -> None:
        """Nothing is called any more."""
        _running.pop(self.number, None)
        self._is_made.set()

    def keep_until_released(self) -> Tuple[Any, int]:
        """The release function and its argument: until then `keeps` stay."""
        user = next(_number)
        _kept[user] = self.keeps
        return _release, user

    def released(self, user: int) -> None:
        """The loader was not made, so the library does not release."""
        _kept.pop(user, None)

    def run_collate(self, views: Any, count: int, err: Any) -> int:
        try:
            self._is_made.wait()
            arrays = {}
            for i in range(count):
                name = self.fields[i] if i < len(self.fields) else "field%d" % i
                arrays[name] = view_rows(views[i].tensor)
            assert self._collate is not None
            self._collate(arrays)
            return n.OK
        except BaseException as reason:  # pylint: disable=broad-except
            status = n.EINVAL if isinstance(reason, Exception) else n.ECANCELED
            self.reasons.add(write_error(err, reason, status), reason)
            return status

    def run_on_stall(self, stall: Any) -> None:
        if self._on_stall is None:
            return
        said = stall.contents
        told: Dict[str, Any] = {}
        for name in n.names_of(n.Stall)[1:]:
            value = getattr(said, name)
            if isinstance(value, bytes):
                value = value.decode("utf-8", "replace")
            told[name] = None if value == n.UNKNOWN else value
        self._on_stall(told)


def _collate(user: Optional[int], views: Any, count: int, err: Any) -> int:
    callbacks = _running.get(user or 0)
    return n.ECANCELED if callbacks is None else callbacks.run_collate(views, count, err)


def _on_stall(user: Optional[int], stall: Any) -> None:
    callbacks = _running.get(user or 0)
    if callbacks is not None:
        callbacks.run_on_stall(stall)


COLLATE, ON_STALL = n.forever(n.COLLATE(_collate)), n.forever(n.ON_STALL(_on_stall))

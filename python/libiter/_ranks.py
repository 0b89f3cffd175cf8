"""Which of how many processes this one is, as torchrun, mpirun or srun say in the environment."""
from __future__ import annotations

import ctypes as c
from typing import Any, NamedTuple, Tuple

from . import _native as n


class Ranks(NamedTuple):
    """What the launcher says; `launcher` is "" if there is none, and `ranks` then 1."""

    rank: int
    ranks: int
    local_rank: int
    local_ranks: int
    launcher: str


def ranks() -> Ranks:
    """Reads it. Raises InvalidArgument, with the variables, if they contradict each other."""
    out, err = n.RanksStruct(), n.ErrorStruct()
    n.check(n.quick.iter_ranks_read(c.byref(out), c.byref(err)), err)
    return Ranks(out.rank, out.ranks, out.local_rank, out.local_ranks, out.launcher.decode())


def options_of(rank: Any, local_ranks: Any) -> Tuple[int, int, int]:
    """rank, ranks and local_ranks of a loader with ranks="auto"."""
    if rank != 0:
        raise n.InvalidArgument('options: rank is %r beside ranks="auto", which sets it' % (rank,))
    found = ranks()
    return found.rank, found.ranks, local_ranks or found.local_ranks

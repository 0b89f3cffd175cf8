"""A DataLoader with torch's signature and results, run by C threads where they give the same.

    from libiter.torch import DataLoader        # instead of torch.utils.data

    loader = DataLoader(dataset, batch_size=256, shuffle=True, num_workers=2)
    print(loader.why())

docs/python-torch.md has what is recognised, and what differs from torch.
"""

from __future__ import annotations

import itertools
import os
import tempfile
import weakref
from typing import Any, Callable, Dict, Iterator, List, Mapping, Optional, Tuple

import torch
import torch.utils.data as _data
from torch.utils.data.distributed import DistributedSampler

from . import _native
from ._dataset import Dataset
from ._known import Known, recognise
from ._known_chain import NotKnown
from ._loader import Loader
from ._torch_order import Order, order_of
from ._torch_rows import Rows, rows_of

__all__ = ["DataLoader"]

WAYS = ("auto", "native", "python", "torch")
_OPTIONS = (
    "workers",
    "prefetch",
    "max_held",
    "local_ranks",
    "source",
    "o_direct",
    "threads",
    "max_sample_bytes",
    "memory_limit",
    "share",
    "on_error",
    "max_failures",
    "timeout_ms",
    "grace_ms",
    "stall_ms",
    "on_stall",
)


class _Plan:
    """How it runs: the way, why, and what a Loader is made of."""

    def __init__(
        self,
        way: str,
        reason: str,
        order: Optional[Order] = None,
        known: Optional[Known] = None,
        rows: Optional[Rows] = None,
    ) -> None:
        self.way, self.reason, self.order, self.known, self.rows = way, reason, order, known, rows


class DataLoader(_data.DataLoader[Any]):
    """torch.utils.data.DataLoader, which runs in C threads if it knows the dataset and its transform.

    The arguments are torch's, and so are batches: what default_collate makes of the samples, such as
    [images f32 [n, channels, height, width], labels i64 [n]]. Additional arguments:

    way       "auto": native, if dataset, transform and sampler are known; else torch.
              "native": the same, but raises libiter.Unsupported if they are not known.
              "python": the dataset's own `__getitem__` in threads of this process. All samples must
              have the shapes and types of sample 0.
              "torch": as torch does it.
    seed      None: each epoch draws its order from `generator`, or from torch's default generator, so
              that torch.manual_seed() makes runs repeatable. A number: order and augmentation depend
              on it and on the number of the epoch alone.
    rank, ranks   this process's share, as by a DistributedSampler with that seed (None = 0)
    copy      None: a batch is a view of the loader's memory while few are held, else a copy, so
              batches can be kept. True: always a copy. False: never; at most `max_held` may be held.
    parallel  way "python": True = several threads may be in `__getitem__` at once
    options   of libiter.Loader: workers (default num_workers), prefetch, max_held, source,
              memory_limit, on_error, stall_ms, ...

    `num_workers` threads make batches; 0 = the calling thread makes them. A sample that our decoders
    refuse is made by the dataset itself, so its exception is the one that torch would raise.

    Raises what torch's DataLoader raises; TypeError for an unknown option.
    """

    def __init__(
        self,
        dataset: Any,
        batch_size: Optional[int] = 1,
        shuffle: Optional[bool] = None,
        sampler: Any = None,
        batch_sampler: Any = None,
        num_workers: int = 0,
        collate_fn: Optional[Callable[[List[Any]], Any]] = None,
        pin_memory: bool = False,
        drop_last: bool = False,
        timeout: float = 0,
        worker_init_fn: Optional[Callable[[int], None]] = None,
        multiprocessing_context: Any = None,
        generator: Any = None,
        *,
        prefetch_factor: Optional[int] = None,
        persistent_workers: bool = False,
        pin_memory_device: str = "",
        in_order: bool = True,
        way: str = "auto",
        seed: Optional[int] = None,
        rank: Optional[int] = None,
        ranks: Optional[int] = None,
        copy: Optional[bool] = None,
        parallel: bool = False,
        **options: Any,
    ) -> None:
        if way not in WAYS:
            raise ValueError(f"DataLoader: way is {way!r}, expected one of {', '.join(WAYS)}")
        for name in options:
            if name not in _OPTIONS:
                raise TypeError(f"DataLoader: no option is called {name}; it has torch's, and {', '.join(_OPTIONS)}")
        self._owns_sampler = ranks is not None and sampler is None
        if self._owns_sampler:
            sampler = DistributedSampler(dataset, ranks, rank or 0, bool(shuffle), seed or 0, drop_last)
            shuffle = None
        self._plan = _Plan("", "")
        more: Dict[str, Any] = {} if in_order else {"in_order": False}  # torch before 2.6 has no such argument
        if pin_memory_device:
            more["pin_memory_device"] = pin_memory_device
        super().__init__(
            dataset,
            batch_size,
            shuffle,
            sampler,
            batch_sampler,
            num_workers,
            collate_fn,
            pin_memory,
            drop_last,
            timeout,
            worker_init_fn,
            multiprocessing_context,
            generator,
            prefetch_factor=prefetch_factor,
            persistent_workers=persistent_workers,
            **more,
        )
        self._way, self._seed, self._copy, self._parallel = way, seed, copy, parallel
        self._options: Dict[str, Any] = {"max_held": 3, "on_error": "blank", **options}
        self._mends = "on_error" not in options
        self._given = list(options) + ["seed"] * (seed is not None and not self._owns_sampler)  # ours, not torch's
        self._prefetch_given = prefetch_factor is not None
        self._native: Optional[Loader] = None
        self._is_stale = False  # _native was made by another plan
        self._held: Dict[int, Any] = {}  # batches of _native that the program holds as views
        self._current: Optional["weakref.ref[_Epoch]"] = None
        self._number = -1  # of the last epoch that began
        self._sampler_epoch: Optional[int] = None
        self._batches, self._unfinished = 0, False
        self._generator_then: Any = None
        self._resume: Optional[Mapping[str, Any]] = None
        self._plan = self._decide()

    # ---- How it runs ------------------------------------------------------------------------------

    def _decide(self) -> _Plan:
        if self._way == "torch":
            return _Plan("torch", "way is torch")
        try:
            if isinstance(self.dataset, _data.IterableDataset):
                raise NotKnown("the dataset is an IterableDataset")
            if self.batch_size is None:
                raise NotKnown("batch_sampler is given" if self.batch_sampler is not None else "batch_size is None")
            if self.collate_fn is not _data.default_collate:
                raise NotKnown("collate_fn is not torch's default_collate")
            if self.worker_init_fn is not None and self.num_workers > 0:
                raise NotKnown("worker_init_fn is given")
            if len(self.dataset) == 0:  # type: ignore[arg-type,unused-ignore]
                raise NotKnown("the dataset is empty")
            known = rows = None
            if self._way == "python":
                rows = rows_of(self.dataset)
            else:
                known = recognise(self.dataset)
            order = self._order()
        except NotKnown as reason:
            if self._way == "auto":
                return _Plan("torch", str(reason))
            raise _native.Unsupported(f"DataLoader: way is {self._way!r}, but {reason}") from None
        return _Plan("native" if known is not None else "python", "", order, known, rows)

    def _refresh(self) -> _Plan:
        """The plan for the next epoch: dataset and sampler may have been changed since the last one."""
        plan = self._plan
        if plan.order is not None and (plan.known is None or plan.known.is_current()):
            try:
                order = self._order()
            except NotKnown:
                order = None
            if order is not None and order.is_like(plan.order):
                plan.order = order
                return plan
        self._plan, self._is_stale = self._decide(), True
        return self._plan

    def _order(self) -> Order:
        assert self.batch_size is not None
        n = len(self.dataset)  # type: ignore[arg-type,unused-ignore]
        return order_of(self.sampler, self.generator, n, self.batch_size, self.drop_last)

    def _build(self, plan: _Plan) -> Loader:
        import numpy as np

        order = plan.order
        assert order is not None and self.batch_size is not None
        subset = order.subset
        if plan.known is not None and plan.known.subset is not None:
            subset = plan.known.subset if subset is None else plan.known.subset[subset]
        options: Dict[str, Any] = {
            "batch_size": self.batch_size,
            "shuffle": order.shuffle,
            "workers": self.num_workers,
            "seed": self._seed if self._seed is not None else order.seed or 0,
            "output": "torch",
            "lookahead": "epoch",
            "last_batch": "discard" if self.drop_last else "keep",
            "rank": order.rank,
            "ranks": order.ranks,
            "timeout_ms": int(1000 * self.timeout),
            **self._options,
        }
        if subset is not None:
            options["subset"] = np.asarray(subset, np.uint64)
        if self._prefetch_given:
            options.setdefault("prefetch", (self.prefetch_factor or 0) * self.num_workers)
        if plan.rows is not None:
            options["on_error"] = "fail" if self._mends else options["on_error"]
            return Loader(Dataset(self.dataset, fields=plan.rows.fields, parallel=self._parallel), None, **options)
        assert plan.known is not None
        if plan.known.arrays is not None:
            arrays = {name: array for name, (array, _) in plan.known.arrays.items()}
            layouts = {name: layout for name, (_, layout) in plan.known.arrays.items() if layout}
            return Loader(arrays, plan.known.chain or None, layout=layouts, **options)
        with tempfile.TemporaryDirectory(prefix="libiter-") as folder:  # the list is read when it is opened
            path = os.path.join(folder, "images.lst")
            with open(path, "wb") as file:
                file.write(plan.known.list_text())
            return Loader(Dataset(f'folder:"{path}"'), plan.known.chain, **options)

    def why(self) -> str:
        """How it runs, in words: which way, the chain, what is not bit for bit as in torch; or which
        stage or argument is in the way."""
        plan = self._refresh()
        if plan.way == "torch":
            processes = f"{self.num_workers} processes" if self.num_workers else "the calling thread"
            ignored = f"\nwithout effect: {', '.join(self._given)}" if self._given else ""
            return f"torch: torch's own DataLoader runs it, in {processes}.\nbecause: {plan.reason}{ignored}"
        workers = self._options.get("workers", self.num_workers)
        threads = f"{workers} C thread{'s' * (workers != 1)}" if workers else "the calling thread"
        order = plan.order
        assert order is not None
        lines = [f"order: {'a new permutation every epoch' if order.shuffle else 'the order of the dataset'}"]
        if order.ranks > 1:
            lines[0] += f", rank {order.rank} of {order.ranks}"
        if plan.known is None:
            lines.insert(0, f"python: the dataset's own __getitem__, in {threads} with Python's lock.")
            return "\n".join(lines)
        known = plan.known
        kind = "files" if known.arrays is None else "arrays in memory"
        lines.insert(0, f"native: {type(self.dataset).__name__} as {kind}, {len(known)} samples, in {threads}.")
        lines.append(f"chain: {known.chain or 'none'}")
        return "\n".join(lines + [f"near: {note}" for note in known.notes])

    @property
    def way(self) -> str:
        """ "native", "python" or "torch": how the last epoch ran, or the first one will."""
        return self._plan.way

    def check_worker_number_rationality(self) -> None:
        """torch warns if there are more worker processes than cores. Threads are no processes."""
        if self._plan.way == "torch":
            super().check_worker_number_rationality()

    # ---- Epochs -----------------------------------------------------------------------------------

    def __iter__(self) -> Iterator[Any]:  # type: ignore[override,unused-ignore]
        plan, resume = self._refresh(), self._resume
        self._resume = None
        if resume is not None and resume["way"] != plan.way:
            raise _native.InvalidArgument(f"load_state_dict: it was saved by way {resume['way']}, this is {plan.way}")
        if self._owns_sampler and plan.way == "torch":
            self.sampler.set_epoch(self._number + 1)  # type: ignore[union-attr,attr-defined,unused-ignore]
        if plan.way == "torch":
            return self._iterate_torch(resume)
        last = self._current() if self._current is not None else None
        if self._native is None or self._is_stale or (last is not None and not last.is_done):  # two iterators at once
            self._native, self._held, self._is_stale = self._build(plan), {}, False
        if resume is None:
            self._number = self._next_number(plan)
            self._native.set_epoch(self._number)
            self._batches = 0
        else:
            self._native.load_state_dict(resume["position"])
        self._unfinished = True
        epoch = _Epoch(self, self._native, plan, self._batches)
        self._current = weakref.ref(epoch)
        return epoch

    def _inner_loader(self) -> Optional[Loader]:
        """The Loader that the next epoch runs on, or None if torch runs it."""
        plan = self._refresh()
        if plan.way != "torch" and (self._native is None or self._is_stale):
            self._native, self._held, self._is_stale = self._build(plan), {}, False
        return self._native if plan.way != "torch" else None

    def _next_number(self, plan: _Plan) -> int:
        """Order and augmentation depend on the seed and this number."""
        order = plan.order
        assert order is not None
        if order.distributed is not None and not self._owns_sampler:
            before, self._sampler_epoch = self._sampler_epoch, int(order.distributed.epoch)
            return self._sampler_epoch if self._sampler_epoch != before else self._number + 1
        if order.distributed is not None or self._seed is not None:
            return self._number + 1
        return int(torch.empty((), dtype=torch.int64).random_(0, 2**31 - 1, generator=order.generator).item())

    def _iterate_torch(self, resume: Optional[Mapping[str, Any]]) -> Iterator[Any]:
        generator = self.generator if self.generator is not None else torch.default_generator
        if resume is None:
            self._number, self._batches = self._number + 1, 0
            self._generator_then = generator.get_state()
            rows: Iterator[Any] = super().__iter__()
        else:
            self._generator_then = resume["generator_then"]
            with torch.random.fork_rng(devices=[]):  # samplers draw when the first batch is taken
                generator.set_state(self._generator_then)
                again = super().__iter__()
                made = list(itertools.islice(again, self._batches, self._batches + 1))
            rows = itertools.chain(made, again)
        self._unfinished = True
        return self._count(rows)

    def _count(self, rows: Iterator[Any]) -> Iterator[Any]:
        for batch in rows:
            self._batches += 1
            yield batch
        self._unfinished = False

    # ---- Position ---------------------------------------------------------------------------------

    def state_dict(self) -> Dict[str, Any]:
        """The position after the last batch, as torchdata's StatefulDataLoader has it."""
        if self._resume is not None:
            return dict(self._resume)
        try:  # after the last batch the next epoch follows, even if the loop has not asked for the end yet
            unfinished = self._unfinished and self._batches < len(self)
        except TypeError:
            unfinished = self._unfinished
        state: Dict[str, Any] = {
            "version": 1,
            "way": self._plan.way,
            "number": self._number,
            "batches": self._batches,
            "unfinished": unfinished,
            "sampler_epoch": self._sampler_epoch,
            "generator": None if self.generator is None else self.generator.get_state(),
        }
        if unfinished and self._plan.way == "torch":
            state["generator_then"] = self._generator_then
        elif unfinished:
            assert self._native is not None
            state["position"] = self._native.state_dict()
        return state

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """The next iteration gives the rest of the epoch that `state` was saved in, or the epoch after
        it if that had ended. By way "torch" the batches before it are made again and dropped."""
        if state.get("version") != 1 or "batches" not in state:
            raise _native.Malformed(f"load_state_dict: expected what state_dict() gave, got keys {sorted(state)}")
        self._number, self._batches = int(state["number"]), int(state["batches"])
        self._sampler_epoch, self._unfinished = state["sampler_epoch"], bool(state["unfinished"])
        if self.generator is not None and state["generator"] is not None:
            self.generator.set_state(state["generator"])
        self._resume = dict(state) if self._unfinished else None

    def __getstate__(self) -> Dict[str, Any]:
        return {**self.__dict__, "_plan": None, "_native": None, "_held": {}, "_current": None}

    def __setstate__(self, state: Dict[str, Any]) -> None:
        self.__dict__.update(state, _unfinished=False)
        self._plan = self._decide()

    def verdict(self) -> Any:
        """What limits the loop over this loader, as libiter.Loader.verdict() says it. Raises Unsupported if torch
        runs it: libiter.diagnose() watches such a loop."""
        loader = self._inner_loader()
        if loader is None:
            raise _native.Unsupported("verdict: torch runs this loader; iterate over libiter.diagnose(loader)")
        return loader.verdict()

    def close(self) -> None:
        """Stops the threads. The next iteration starts new ones."""
        native, self._native = self._native, None
        if native is not None:
            native.close()


class _Epoch:
    """An iterator over the rest of one epoch."""

    def __init__(self, owner: DataLoader, native: Loader, plan: _Plan, n_taken: int) -> None:
        self._owner, self._native, self._plan, self._n_taken = owner, native, plan, n_taken
        self._n_batches = len(owner)
        self._held = owner._held
        self._pins = owner.pin_memory and torch.cuda.is_available()
        self._most = owner._options["max_held"] - 2 if owner._copy is None else -1 if owner._copy else 1 << 30
        self.is_done = False
        iter(native)

    def __iter__(self) -> "_Epoch":
        return self

    def __len__(self) -> int:
        return self._n_batches

    def __next__(self) -> Any:
        batch = None if self.is_done else self._take()
        self._n_taken += batch is not None
        self.is_done = batch is None
        if self._owner._native is self._native:  # else there is a newer iterator
            self._owner._batches, self._owner._unfinished = self._n_taken, not self.is_done
        if self.is_done:
            raise StopIteration
        return batch

    def _take(self) -> Any:
        try:
            batch = next(self._native)
        except StopIteration:
            return None
        except _native.Error as error:
            if self._plan.way == "python" and error.__cause__ is not None:
                raise error.__cause__  # as torch raises it
            raise
        tensors = list(batch)
        if self._owner._mends and batch.n_failed:
            tensors = self._mend(batch, tensors)
        elif self._pins:
            tensors = [tensor.pin_memory() for tensor in tensors]
        elif len(self._held) > self._most:
            tensors = [tensor.clone() for tensor in tensors]
        else:
            self._hold(batch._memory)
        order = self._plan.order
        assert order is not None
        if order.tail >= 0 and self._n_taken == self._n_batches:
            return None
        if order.tail > 0 and self._n_taken == self._n_batches - 1:
            tensors = [tensor[: order.tail] for tensor in tensors]
        return tensors if self._plan.rows is None else self._plan.rows.collated(tensors)

    def _hold(self, memory: Any) -> None:
        """Counts this batch until nothing uses its memory any more."""
        held, key = self._held, id(memory)
        held[key] = weakref.ref(memory, lambda _: held.pop(key, None))

    def _mend(self, batch: Any, tensors: List[Any]) -> List[Any]:
        """Rows that our decoders refuse are made by the dataset, or raise its exception."""
        assert self._plan.known is not None
        tensors = [tensor.clone() for tensor in tensors]
        for row in (~batch.valid).nonzero()[0]:
            sample = _data.default_collate([self._plan.known.base[int(batch.index[row])]])
            for tensor, value in zip(tensors, sample):
                tensor[row] = value[0]
        return [tensor.pin_memory() for tensor in tensors] if self._pins else tensors

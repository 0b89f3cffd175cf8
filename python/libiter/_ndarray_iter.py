"""NDArrayIter: batches of arrays in memory, by the names and the rules of MXNet 1.9.1."""
from __future__ import annotations

from typing import Any, List, Mapping, NamedTuple, Optional, Tuple

import numpy as np

from . import _native as n
from ._batch import Batch
from ._loader import Loader
from ._options import choice
from ._tensors import as_array

_LAST = ["pad", "discard", "roll-over", "keep"]


class _NameAndShape(NamedTuple):
    name: str
    shape: Tuple[int, ...]


class DataDesc(_NameAndShape):
    """One array of a batch: a pair (name, shape), as MXNet's, that also knows its dtype and its layout."""

    dtype: Any  #: numpy's
    layout: str

    def __new__(cls, name: str, shape: Tuple[int, ...], dtype: Any = np.float32, layout: str = "NCHW") -> "DataDesc":
        desc = super().__new__(cls, name, shape)
        desc.dtype, desc.layout = dtype, layout
        return desc

    def __repr__(self) -> str:
        return "DataDesc[%s,%s,%s,%s]" % (self.name, self.shape, self.dtype, self.layout)


class DataBatch:
    """One batch. `data` and `label` are lists of arrays, in the order of provide_data and provide_label; `pad` is
    how many rows only fill it up (at the end; with roll_over at the front, left over from the epoch before)."""

    bucket_key = None

    def __init__(self, batch: Batch, data: List[DataDesc], label: List[DataDesc]) -> None:
        arrays = batch._asdict()
        self.data = [arrays[desc.name] for desc in data]
        self.label = [arrays[desc.name] for desc in label]
        self.pad = batch.pad
        self.provide_data, self.provide_label = data, label
        self._batch = batch

    @property
    def index(self) -> Any:
        """uint64 [batch_size]: the row of the arrays that each row is. MXNet has None here."""
        return self._batch.index

    def __repr__(self) -> str:
        shapes = [[tuple(array.shape) for array in arrays] for arrays in (self.data, self.label)]
        return "DataBatch: data shapes: %s label shapes: %s" % tuple(shapes)


class NDArrayIter:
    """Batches of arrays in memory, as MXNet's NDArrayIter gives them.

        train = libiter.NDArrayIter(images, labels, batch_size=64, shuffle=True)
        for epoch in range(10):
            train.reset()
            for batch in train:
                step(batch.data[0], batch.label[0])

    data, label        an array, a list of arrays or a dict {name: array}; each [n, ...] with the same n, of numpy,
                       torch or jax. Several without names are called _0_data, _1_data, ...; a dict is sorted by
                       name. The arrays are borrowed, as Loader borrows them.
    batch_size         rows of a batch; it may be larger than n
    shuffle            True: another order in every epoch
    last_batch_handle  rows that do not fill a batch: "pad" it with the first rows of the epoch; "discard" them;
                       "roll_over": they begin the next epoch. And "keep": a shorter batch
    data_name, label_name    the names of a single array
    layout             a text for provide_data and provide_label; it changes nothing
    seed, workers, output, copy    as of Loader
    options            all other options of Loader, except chain

    It differs from MXNet on purpose: an array keeps its dtype, where MXNet makes float32 of numpy's; `index` is
    known; `seed` decides the order; with roll_over no row is lost if reset() is called twice or in mid-epoch.
    A batch's arrays are views, so at most max_held batches can be kept, except with copy=True.

    Raises InvalidArgument (no data, different n, two arrays with one name, an option), TypeError (an unknown
    option, a chain).
    """

    def __init__(
        self,
        data: Any,
        label: Any = None,
        batch_size: int = 1,
        shuffle: bool = False,
        last_batch_handle: str = "pad",
        data_name: str = "data",
        label_name: str = "softmax_label",
        layout: str = "NCHW",
        *,
        seed: int = 0,
        workers: int = 0,
        output: str = "numpy",
        copy: bool = False,
        **options: Any,
    ) -> None:
        for name in ("chain", "last_batch"):
            if name in options:
                raise TypeError(
                    "NDArrayIter: it has no option %s; %s"
                    % (name, "use Loader({name: array}, chain)" if name == "chain" else "use last_batch_handle=...")
                )
        last = _LAST[choice("last_batch_handle", last_batch_handle, _LAST)]
        arrays, labels = _named("data", data, data_name), _named("label", label, label_name)
        if not arrays:
            raise n.InvalidArgument("NDArrayIter: data is empty")
        twice = [name for name, _ in labels if name in dict(arrays)]
        if twice:
            raise n.InvalidArgument("NDArrayIter: data and label both have an array %s" % twice[0])
        self.batch_size, self.layout = batch_size, layout
        self.num_data = len(arrays[0][1])
        self.num_source = len(arrays)
        #: The Loader that makes the batches: state_dict(), stats() and the like.
        self.loader = Loader(
            dict(arrays + labels),
            batch_size=batch_size,
            shuffle=bool(shuffle),
            last_batch=last,
            seed=seed,
            workers=workers,
            output=output,
            copy=copy,
            **options,
        )
        self._data, self._label = self._describe(arrays), self._describe(labels)
        self._batch: Optional[DataBatch] = None

    def _describe(self, arrays: List[Tuple[str, Any]]) -> List[DataDesc]:
        return [
            DataDesc(name, (self.batch_size,) + array.shape[1:], array.dtype, self.layout) for name, array in arrays
        ]

    @property
    def provide_data(self) -> List[DataDesc]:
        """Names and shapes of a batch's data."""
        return self._data

    @property
    def provide_label(self) -> List[DataDesc]:
        """Names and shapes of a batch's labels."""
        return self._label

    def reset(self) -> None:
        """Begins the next epoch. Before the first batch of an epoch it changes nothing."""
        self._batch = None
        iter(self.loader)

    def hard_reset(self) -> None:
        """Goes back to the first epoch; what rolled over is forgotten."""
        self._batch = None
        self.loader.set_epoch(0)

    def iter_next(self) -> bool:
        """Goes to the next batch. False at the end of the epoch; then reset() begins the next one."""
        self._batch = None  # its memory can be used again
        try:
            batch = next(self.loader)
        except StopIteration:
            return False
        self._batch = DataBatch(batch, self._data, self._label)
        return True

    def next(self) -> DataBatch:
        """The next batch. Raises StopIteration at the end of the epoch."""
        if not self.iter_next():
            raise StopIteration
        return self._current()

    __next__ = next

    def __iter__(self) -> "NDArrayIter":
        """Itself. As in MXNet it does not reset."""
        return self

    def _current(self) -> DataBatch:
        if self._batch is None:
            raise n.WrongState("NDArrayIter: there is no batch; call reset() after the end of an epoch, then next()")
        return self._batch

    def getdata(self) -> List[Any]:
        """The data of the batch that iter_next() went to. Raises WrongState if there is none."""
        return self._current().data

    def getlabel(self) -> List[Any]:
        """Its labels."""
        return self._current().label

    def getpad(self) -> int:
        """How many of its rows only fill it up."""
        return self._current().pad

    def getindex(self) -> Any:
        """uint64 [batch_size]: where its rows lie in the arrays. MXNet gives None."""
        return self._current().index

    def close(self) -> None:
        """Stops the threads. Batches that are held stay valid."""
        self._batch = None
        self.loader.close()

    def __repr__(self) -> str:
        return "NDArrayIter(%s, label=%s)" % (self._data, self._label)


def _named(what: str, given: Any, default: str) -> List[Tuple[str, Any]]:
    """MXNet's names for what was given."""
    if given is None:
        return []
    if isinstance(given, Mapping):
        named = sorted(((str(name), array) for name, array in given.items()), key=lambda pair: pair[0])
    elif isinstance(given, (list, tuple)):
        names = [default] if len(given) == 1 else ["_%d_%s" % (i, default) for i in range(len(given))]
        named = list(zip(names, given))
    else:
        named = [(default, given)]
    made = [(name, as_array(array)) for name, array in named]
    for name, array in made:
        if array.ndim == 0:
            raise n.InvalidArgument("NDArrayIter: %s %s is a single number; expected an array [n, ...]" % (what, name))
    return made

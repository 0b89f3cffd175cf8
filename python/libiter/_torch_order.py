"""torch's samplers as a loader's order of samples."""

from __future__ import annotations

from typing import Any, Optional

from ._known_chain import NotKnown

__all__ = ["Order", "order_of"]


class Order:
    """Which samples come, and who gets them.

    shuffle    True = a new permutation every epoch
    subset     numpy int64: samples that are used, by their number in the dataset; None = all
    rank, ranks   of a DistributedSampler; 0, 0 = this process has all samples
    seed       of a DistributedSampler; None = each epoch draws from `generator`
    generator  torch.Generator, or None = torch's default one
    distributed   the DistributedSampler, whose `epoch` numbers the epochs; None = another sampler
    tail       rows that each rank has in the epoch's last batch if that is short; -1 = as it comes
    """

    def __init__(self, shuffle: bool, generator: Optional[Any] = None) -> None:
        self.shuffle, self.generator = shuffle, generator
        self.subset: Any = None
        self.rank = self.ranks = 0
        self.seed: Optional[int] = None
        self.distributed: Any = None
        self.tail = -1

    def is_like(self, other: "Order") -> bool:
        """True if a loader made for `other` does for this one."""
        mine, others = self.subset, other.subset
        same = mine is others or (
            mine is not None and others is not None and len(mine) == len(others) and bool((mine == others).all())
        )
        key = (self.shuffle, self.rank, self.ranks, self.seed, self.tail)
        return same and key == (other.shuffle, other.rank, other.ranks, other.seed, other.tail)


def order_of(sampler: Any, generator: Any, n: int, batch_size: int, drop_last: bool) -> Order:
    """The order that `sampler` gives over n samples. Raises NotKnown with the reason."""
    import torch.utils.data as data
    from torch.utils.data.distributed import DistributedSampler

    kind = type(sampler)
    if kind is data.SequentialSampler and len(sampler) == n:
        return Order(False, generator)
    if kind is data.RandomSampler and not sampler.replacement and len(sampler) == n == len(sampler.data_source):
        return Order(True, sampler.generator if sampler.generator is not None else generator)
    if kind is data.SubsetRandomSampler:
        return _of_subset(sampler, generator, n)
    if kind is DistributedSampler and len(sampler.dataset) == n:
        return _of_ranks(sampler, n, batch_size, drop_last)
    raise NotKnown(f"sampler: {kind.__name__} with {_length(sampler)} of {n} samples is not known")


def _length(sampler: Any) -> Any:
    try:
        return len(sampler)
    except TypeError:
        return "an unknown number"


def _of_subset(sampler: Any, generator: Any, n: int) -> Order:
    import numpy as np

    order = Order(True, sampler.generator if sampler.generator is not None else generator)
    order.subset = np.array(sampler.indices)
    if order.subset.ndim != 1 or order.subset.dtype.kind not in "iu" or not len(order.subset):
        raise NotKnown("sampler: SubsetRandomSampler with indices that are no whole numbers, or none")
    if order.subset.min() < 0 or order.subset.max() >= n:
        raise NotKnown(f"sampler: SubsetRandomSampler with indices outside of 0 to {n - 1}")
    return order


def _of_ranks(sampler: Any, n: int, batch_size: int, drop_last: bool) -> Order:
    """Every rank takes the same number of samples: as torch does, a few samples come twice, or with
    the sampler's drop_last a few are left out."""
    import numpy as np

    order = Order(bool(sampler.shuffle))
    order.rank, order.ranks, order.seed = int(sampler.rank), int(sampler.num_replicas), int(sampler.seed)
    order.distributed = sampler
    total = n
    if n % order.ranks and not sampler.drop_last:
        total = n + order.ranks - n % order.ranks
        order.subset = np.arange(total) % n
    if not drop_last:
        order.tail = total % (batch_size * order.ranks) // order.ranks
    return order

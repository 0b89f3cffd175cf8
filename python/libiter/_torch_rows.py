"""What default_collate makes of the samples of a Python dataset, if all are like sample 0."""

from __future__ import annotations

import random
from typing import Any, Dict, List, Tuple

from ._known_chain import NotKnown

__all__ = ["Rows", "rows_of"]


class Rows:
    """The fields of a sample, and the container that default_collate puts them into."""

    def __init__(self, kind: Any, keys: List[Any], fields: Dict[str, Tuple[Any, Tuple[int, ...]]]) -> None:
        self._kind, self._keys, self.fields = kind, keys, fields

    def collated(self, tensors: List[Any]) -> Any:
        """A list, a dict, a named tuple, or the one tensor."""
        if self._kind is None:
            return tensors[0]
        if self._kind is dict:
            return dict(zip(self._keys, tensors))
        return list(tensors) if self._kind is list else self._kind(*tensors)


def _field(value: Any, name: str) -> Tuple[Any, Tuple[int, ...]]:
    """dtype and shape that default_collate gives a row of this value."""
    import numpy as np
    import torch

    if isinstance(value, torch.Tensor):
        if (
            type(value) not in (torch.Tensor, torch.nn.Parameter)
            or value.device.type != "cpu"
            or value.layout != torch.strided
            or value.requires_grad
        ):
            raise NotKnown(f"{name} of sample 0 is no plain tensor on the CPU")
        try:
            return value.detach().numpy().dtype, tuple(value.shape)
        except TypeError:
            raise NotKnown(f"{name} of sample 0 is {value.dtype}, which numpy does not have") from None
    if isinstance(value, (np.ndarray, np.number, np.bool_)) and value.dtype.kind in "biuf":
        return value.dtype, tuple(value.shape)
    if type(value) in (bool, int, float):
        return np.dtype({bool: "bool", int: "int64", float: "float64"}[type(value)]), ()
    raise NotKnown(f"{name} of sample 0 is {type(value).__name__}, expected numbers")


def rows_of(dataset: Any) -> Rows:
    """Looks at sample 0. Raises NotKnown if default_collate would make anything but tensors of it.

    The generators of torch, numpy and random are put back after that.
    """
    import numpy as np
    import torch

    states = random.getstate(), np.random.get_state()
    try:
        with torch.random.fork_rng(devices=[]):
            sample = dataset[0]
    finally:
        random.setstate(states[0])
        np.random.set_state(states[1])
    if type(sample) is dict:
        if not all(isinstance(key, str) for key in sample):
            raise NotKnown("a key of sample 0 is no text")
        return Rows(dict, list(sample), {key: _field(value, f"{key!r}") for key, value in sample.items()})
    if isinstance(sample, tuple) or type(sample) is list:
        kind = type(sample) if hasattr(sample, "_fields") else list
        return Rows(kind, [], {f"field{i}": _field(value, f"element {i}") for i, value in enumerate(sample)})
    return Rows(None, [], {"field0": _field(sample, "the value")})

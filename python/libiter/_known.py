"""Datasets of torchvision and torch that C threads can read: arrays or files, and a chain.

recognise(dataset) looks at the object alone. It calls none of its methods, so nothing is read and
no random number is drawn.

A dataset is known if its class still has torchvision's own `__getitem__`. What `__getitem__` would
use (`data`, `targets`, `samples`, `transform`) is taken from the object as it is now, so edits
count. Known.is_current() finds out whether they were made after that.
"""

from __future__ import annotations

import copy
import os
import struct
from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple

from ._known_chain import NotKnown, chain_of

__all__ = ["Known", "NotKnown", "recognise"]

_Seen = Tuple[Any, str, Any, Any]  # owner, attribute, its value, a copy of the values or None
_ENDINGS = (".jpg", ".jpeg", ".png", ".webp")


class Known:
    """What a recognised dataset is read from.

    arrays   {name: (numpy array [n, ...], layout of a row)}, or None if it is read from files
    files    [(path, class)] in the order of the dataset, or None
    chain    text of the chain; "" = rows as they are
    subset   numpy int64 [m]: the samples that a Subset has, in its order; None = all
    notes    where results are near those of torch, but not bit for bit the same
    base     the dataset whose rows they are: inside of a Subset the inner one
    n_base   samples of `base`
    name     of the dataset's class, for messages
    """

    def __init__(
        self,
        base: Any,
        n_base: int,
        seen: List[_Seen],
        chain: Callable[[], Tuple[str, List[str]]],
        arrays: Optional[Dict[str, Tuple[Any, str]]] = None,
        files: Optional[List[Tuple[str, int]]] = None,
        notes: Sequence[str] = (),
    ) -> None:
        self.base, self.n_base, self.name = base, n_base, type(base).__name__
        self.arrays, self.files = arrays, files
        self.chain, more = chain()
        self.notes = list(notes) + more
        self.subset: Any = None
        self._seen, self._chain_now = seen, chain

    def __len__(self) -> int:
        return self.n_base if self.subset is None else len(self.subset)

    def is_current(self) -> bool:
        """False if the transform gives another chain now, if `data`, `targets`, `samples` or `indices`
        became another object, or if a list or a tensor of them has other values."""
        try:
            if self._chain_now()[0] != self.chain:
                return False
        except (NotKnown, AttributeError):
            return False
        return all(_is_same(getattr(owner, what, None), value, values) for owner, what, value, values in self._seen)

    def list_text(self) -> bytes:
        """`files` as a list that `folder:` reads: number, class and path on each line."""
        lines = (b"%d\t%d\t%s\n" % (i, label, os.fsencode(path)) for i, (path, label) in enumerate(self.files or []))
        return b"".join(lines)


def _is_same(now: Any, value: Any, values: Any) -> bool:
    if now is not value:
        return False
    if values is None:
        return True
    if isinstance(values, list):  # compares identities first, which is quick
        return bool(now == values)
    return bool(len(now) == len(values) and (now == values).all())


def _seen(owner: Any, what: str, with_values: bool) -> _Seen:
    """What is_current() compares later: the object itself and, with values, a copy of a list, an
    array or a tensor. The elements of a list are not copied."""
    value = getattr(owner, what)
    if not with_values or isinstance(value, (tuple, range)):
        return owner, what, value, None
    return owner, what, value, copy.copy(value) if isinstance(value, list) else copy.deepcopy(value)


# ---- arrays in memory ----------------------------------------------------------------------------


def _dense_rows(array: Any) -> bool:
    """True if the rows of [n, ...] are dense, and come one after another, maybe with gaps."""
    expected = array.itemsize
    for size, stride in zip(array.shape[:0:-1], array.strides[:0:-1]):
        if size != 1 and stride != expected:
            return False
        expected *= size
    return bool(array.shape[0] < 2 or array.strides[0] >= expected)


def _labels(targets: Any, n: int, as_int: bool) -> Any:
    """int64 [n], if default_collate makes int64 of these labels.

    as_int   __getitem__ calls int() for each of them
    """
    import numpy as np
    import torch

    if isinstance(targets, torch.Tensor):
        good = targets.ndim == 1 and not targets.is_floating_point() and (as_int or targets.dtype == torch.int64)
        array = targets.detach().cpu().numpy() if good else None
    elif isinstance(targets, np.ndarray):
        good = targets.ndim == 1 and targets.dtype.kind in "iu" and (as_int or targets.dtype == np.int64)
        array = targets
    else:
        good = isinstance(targets, (list, tuple)) and set(map(type, targets)) <= {int}
        array = np.array(targets, np.int64) if good else None
    if not good or array is None:
        raise NotKnown("targets are no whole numbers that become int64")
    if len(array) < n:
        raise NotKnown(f"has {len(array)} targets and {n} images")
    return np.ascontiguousarray(array[:n], np.int64)


def _cifar(dataset: Any) -> Known:
    import numpy as np

    data = dataset.data
    if (
        not isinstance(data, np.ndarray)
        or data.dtype != np.uint8
        or data.ndim != 4
        or data.shape[3] != 3
        or not len(data)
    ):
        raise NotKnown("data is no array u8 [n, height, width, 3]")
    planes = data.transpose(0, 3, 1, 2)  # torchvision keeps CHW in memory, and shows it as HWC
    layout, array = ("CHW", planes) if _dense_rows(planes) else ("HWC", data)
    notes = []
    if not _dense_rows(array):
        array = np.ascontiguousarray(array)
        notes.append("data was copied: its rows are not dense")
    return _images(dataset, array, layout, 3, data.shape[1:3], _labels(dataset.targets, len(data), False), notes)


def _mnist(dataset: Any) -> Known:
    import torch

    data = dataset.data
    if (
        not isinstance(data, torch.Tensor)
        or data.dtype != torch.uint8
        or data.ndim != 3
        or data.device.type != "cpu"
        or not len(data)
    ):
        raise NotKnown("data is no tensor u8 [n, height, width] on the CPU")
    array = data.numpy()
    notes = []
    if not _dense_rows(array):
        array = array.copy()
        notes.append("data was copied: its rows are not dense")
    return _images(
        dataset, array[..., None], "HWC", 1, array.shape[1:], _labels(dataset.targets, len(data), True), notes
    )


def _images(
    dataset: Any, array: Any, layout: str, channels: int, size: Tuple[int, int], labels: Any, notes: List[str]
) -> Known:
    seen = [_seen(dataset, "data", False), _seen(dataset, "targets", True)]
    return Known(
        dataset,
        len(array),
        seen,
        lambda: chain_of(_transform(dataset), channels, size[0], size[1], layout),
        arrays={"data": (array, layout), "label": (labels, "")},
        notes=notes,
    )


def _transform(dataset: Any) -> Any:
    if dataset.target_transform is not None:
        raise NotKnown("target_transform is not known")
    if dataset.transform is None:
        raise NotKnown("there is no transform: default_collate refuses PIL images")
    return dataset.transform


def _tensors(dataset: Any) -> Known:
    import numpy as np
    import torch

    types = {
        torch.uint8,
        torch.int8,
        torch.int16,
        torch.int32,
        torch.int64,
        torch.float16,
        torch.float32,
        torch.float64,
    }
    arrays: Dict[str, Tuple[Any, str]] = {}
    for i, tensor in enumerate(dataset.tensors):
        if type(tensor) is not torch.Tensor or tensor.layout != torch.strided or tensor.device.type != "cpu":
            raise NotKnown(f"tensor {i} is not a plain dense one on the CPU")
        if (
            tensor.requires_grad
            or tensor.is_conj()
            or tensor.is_neg()
            or tensor.dtype not in types
            or tensor.ndim > 8
            or not tensor.numel()
        ):
            raise NotKnown(
                f"tensor {i}, {tensor.dtype} {list(tensor.shape)}, is not known (requires_grad={tensor.requires_grad})"
            )
        array = tensor.numpy()
        arrays[f"tensor{i}"] = (array if _dense_rows(array) else np.ascontiguousarray(array), "")
    if not 1 <= len(arrays) <= 8:
        raise NotKnown(f"has {len(arrays)} tensors, expected 1 to 8")
    return Known(dataset, len(dataset.tensors[0]), [_seen(dataset, "tensors", False)], lambda: ("", []), arrays=arrays)


# ---- files ---------------------------------------------------------------------------------------


def _is_gray16(path: str) -> bool:
    """A gray PNG of 16 bits: Pillow clips its values, and our decoder takes the upper 8 bits."""
    try:
        with open(path, "rb") as file:
            head = file.read(26)
    except OSError:
        return False  # the error comes when the sample is read
    return len(head) == 26 and head[:8] == b"\x89PNG\r\n\x1a\n" and struct.unpack("BB", head[24:26]) == (16, 0)


def _folder(dataset: Any) -> Known:
    import torchvision  # type: ignore[import-untyped,import-not-found,unused-ignore]
    from torchvision.datasets import folder  # type: ignore[import-untyped,import-not-found,unused-ignore]

    if dataset.loader not in (folder.default_loader, folder.pil_loader) or torchvision.get_image_backend() != "PIL":
        raise NotKnown("loader is not torchvision's default")

    def chain() -> Tuple[str, List[str]]:
        text, notes = chain_of(_transform(dataset), 3, None, None, "HWC")
        return text + " | cast:dtype=i64,field=label", notes

    chain()  # before the files are looked at
    files: List[Tuple[str, int]] = []
    for path, label in dataset.samples:
        path = os.path.abspath(os.fsdecode(path))
        if type(label) is not int or not 0 <= label < 2**31:
            raise NotKnown(f"{path}: class {label!r} is no whole number of 31 bits")
        if any(c in path for c in "\t\r\n"):
            raise NotKnown(f"{path!r}: the name has a tab or a line end")
        ending = os.path.splitext(path)[1].lower()
        if ending not in _ENDINGS:
            raise NotKnown(f"{path}: only {', '.join(_ENDINGS)} are known")
        if ending == ".png" and _is_gray16(path):
            raise NotKnown(f"{path}: is a gray PNG of 16 bits, whose values Pillow clips")
        files.append((path, label))
    if not files:
        raise NotKnown("has no samples")
    return Known(dataset, len(files), [_seen(dataset, "samples", True)], chain, files=files)


# ---- any of them ---------------------------------------------------------------------------------


def _subset(dataset: Any) -> Known:
    import numpy as np

    known = recognise(dataset.dataset)
    indices = np.array(dataset.indices)
    if indices.ndim != 1 or indices.dtype.kind not in "iu":
        raise NotKnown("Subset: indices are no whole numbers, or none")
    indices, n = indices.astype(np.int64), len(known)
    if indices.min() < -n or indices.max() >= n:
        raise NotKnown(f"Subset: indices are none, or not within the {n} samples")
    indices[indices < 0] += n
    known.subset = indices if known.subset is None else known.subset[indices]
    known.name = f"Subset of {known.name}"
    known._seen.append(_seen(dataset, "indices", True))
    known._seen.append(_seen(dataset, "dataset", False))
    return known


def recognise(dataset: Any) -> Known:
    """What `dataset` is read from.

    dataset   torchvision's CIFAR10, CIFAR100, MNIST, FashionMNIST, ImageFolder and what inherits
              their `__getitem__`; torch's TensorDataset; a Subset of one of them

    Returns a Known. Raises NotKnown with the reason, which names the stage in the way.
    """
    import torch.utils.data as data

    if type(dataset) is data.Subset:
        return _subset(dataset)
    if type(dataset) is data.TensorDataset:
        return _tensors(dataset)
    try:
        from torchvision import datasets  # type: ignore[import-untyped,import-not-found,unused-ignore]
    except ImportError:
        raise NotKnown(f"{type(dataset).__name__}: torchvision is not installed") from None
    readers = ((datasets.CIFAR10, _cifar), (datasets.MNIST, _mnist), (datasets.DatasetFolder, _folder))
    kind = type(dataset)
    for known, read in readers:
        if not isinstance(dataset, known):
            continue
        if (
            kind.__getitem__ is not known.__getitem__
            or kind.__len__ is not known.__len__
            or hasattr(dataset, "__getitems__")
        ):
            raise NotKnown(f"{kind.__name__}: has a __getitem__ of its own")
        try:
            return read(dataset)
        except NotKnown as reason:
            raise NotKnown(f"{kind.__name__}: {reason}") from None
        except AttributeError as missing:
            raise NotKnown(f"{kind.__name__}: is not as expected: {missing}") from None
    raise NotKnown(
        f'{kind.__name__}: not a dataset of torchvision that is known; way="python" runs its __getitem__ in threads'
    )

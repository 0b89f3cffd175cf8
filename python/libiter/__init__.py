"""libiter: data iterators for training, from C.

    import libiter
    loader = libiter.Loader("cifar10:data/cifar-10-batches-bin", "random-flip | to:f32,nchw",
                            batch_size=64, shuffle=True, workers=2)
    for images, labels in loader: ...

`help(libiter.Loader)` has every option.
"""
from __future__ import annotations

from ._batch import Batch, Field
from ._dataset import Dataset
from ._diagnose import Change, Comparison, Proof, Verdict, Watch, diagnose
from ._loader import Failure, Loader
from ._native import (
    Canceled,
    DeviceFailed,
    Error,
    InputOutput,
    InvalidArgument,
    Malformed,
    OutOfMemory,
    TimedOut,
    Unsupported,
    WrongState,
)
from ._native import version as __version__
from ._ndarray_iter import DataBatch, DataDesc, NDArrayIter
from ._profile import profile, scope

__all__ = [
    "Batch",
    "Canceled",
    "Change",
    "Comparison",
    "DataBatch",
    "DataDesc",
    "Dataset",
    "DeviceFailed",
    "Error",
    "Failure",
    "Field",
    "InputOutput",
    "InvalidArgument",
    "Loader",
    "Malformed",
    "NDArrayIter",
    "OutOfMemory",
    "Proof",
    "TimedOut",
    "Unsupported",
    "Verdict",
    "Watch",
    "WrongState",
    "__version__",
    "diagnose",
    "profile",
    "scope",
]

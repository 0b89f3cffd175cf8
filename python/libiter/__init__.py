"""libiter: data iterators for training, from C.

    import libiter
    loader = libiter.Loader("cifar10:data/cifar-10-batches-bin", "random-flip | to:f32,nchw",
                            batch_size=64, shuffle=True, workers=2)
    for images, labels in loader: ...

`help(libiter.Loader)` has every option.
"""
from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any, List

if TYPE_CHECKING:
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
    from ._ranks import Ranks, ranks

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
    "Ranks",
    "TimedOut",
    "Unsupported",
    "Verdict",
    "Watch",
    "WrongState",
    "__version__",
    "diagnose",
    "profile",
    "ranks",
    "scope",
]

# Imported when first used: `iterbench` and `iterpack` start through this package, and need neither numpy nor the
# library.
_modules = {
    "Batch": "_batch",
    "Field": "_batch",
    "Dataset": "_dataset",
    "Change": "_diagnose",
    "Comparison": "_diagnose",
    "Proof": "_diagnose",
    "Verdict": "_diagnose",
    "Watch": "_diagnose",
    "diagnose": "_diagnose",
    "Failure": "_loader",
    "Loader": "_loader",
    "Canceled": "_native",
    "DeviceFailed": "_native",
    "Error": "_native",
    "InputOutput": "_native",
    "InvalidArgument": "_native",
    "Malformed": "_native",
    "OutOfMemory": "_native",
    "TimedOut": "_native",
    "Unsupported": "_native",
    "WrongState": "_native",
    "DataBatch": "_ndarray_iter",
    "DataDesc": "_ndarray_iter",
    "NDArrayIter": "_ndarray_iter",
    "profile": "_profile",
    "Ranks": "_ranks",
    "ranks": "_ranks",
    "scope": "_profile",
}


def __getattr__(name: str) -> Any:
    if name == "__version__":
        value: Any = importlib.import_module("._native", __name__).version
    elif name in _modules:
        value = getattr(importlib.import_module("." + _modules[name], __name__), name)
    else:
        raise AttributeError("module 'libiter' has no attribute %r" % name)
    globals()[name] = value
    return value


def __dir__() -> List[str]:
    return sorted(set(globals()) | set(__all__))

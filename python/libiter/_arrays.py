"""From arrays to the iter_array structs of a loader over memory."""
from __future__ import annotations

from typing import Any, Dict, List, Mapping, Tuple

import numpy as np

from . import _native as n
from ._dataset import role_of
from ._tensors import Layout, as_array, check_layout, dtype_code, fill_desc, layout_of


def is_arrays(data: Any) -> bool:
    """Whether Loader takes it as arrays, rather than as a spec or a dataset."""
    return isinstance(data, (Mapping, tuple, list)) or hasattr(data, "__array__")


def array_structs(data: Any, layout: Layout) -> Tuple[Any, List["np.ndarray[Any, Any]"]]:
    """The structs, and the arrays that they point into: those that were given, or copies of arrays whose rows do
    not lie in one piece."""
    if isinstance(data, Mapping):
        named = [(str(name), as_array(array)) for name, array in data.items()]
    else:
        several = list(data) if isinstance(data, (tuple, list)) else [data]
        names = ["data", "label"] if len(several) == 2 else ["data"] + ["data%d" % i for i in range(1, len(several))]
        named = list(zip(names, [as_array(array) for array in several]))
    if not named:
        raise n.InvalidArgument("arrays: none were given")
    structs, keeps, found = (n.Array * len(named))(), [], {}  # type: Any, List[Any], Dict[str, str]
    for struct, (name, array) in zip(structs, named):
        if array.ndim == 0 or array.dtype.kind not in "biuf" and str(array.dtype) != "bfloat16":
            raise n.InvalidArgument(
                "arrays: %s is %s with %d dimensions; expected numbers, [n, ...]" % (name, array.dtype, array.ndim)
            )
        if not _rows_are_dense(array):
            array = np.ascontiguousarray(array, array.dtype.newbyteorder("="))
        keeps.append(array)
        struct.name, struct.role = name.encode(), role_of(name)
        found[name] = layout_of(layout, name, array.ndim - 1, struct.role == 1)
        text = "N" + found[name] if found[name] else ""
        fill_desc(struct.desc, dtype_code(array.dtype), array.shape, 0, text)
        struct.data = array.__array_interface__["data"][0]
        struct.stride_bytes = array.strides[0] if len(array) > 1 else 0
    check_layout(layout, found)
    return structs, keeps


def _rows_are_dense(array: "np.ndarray[Any, Any]") -> bool:
    """Whether each row lies in one piece, in C order, and rows come one after another."""
    if not array.size:
        return True
    row = array[0]
    in_order = array.strides[0] >= row.nbytes or len(array) == 1
    return bool(row.flags.c_contiguous and array.strides[0] >= 0 and array.dtype.isnative and in_order)

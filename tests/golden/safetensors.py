"""Writes the files in tests/golden/safetensors/ by the format's own library.

Run in that folder's parent: python3 safetensors.py (safetensors 0.8.0 and numpy 2.4.6 made the
committed ones). Every tensor is 3, 5, 7, ... cast to its type."""
import os
import sys

sys.path.pop(0)  # otherwise this file is found under the library's name
import numpy as np
from safetensors.numpy import save_file

os.makedirs("safetensors", exist_ok=True)


def ramp(dtype, *shape):
    return (np.arange(int(np.prod(shape))) * 2 + 3).reshape(shape).astype(dtype)


tensors = {name: ramp(name, 2, 3) for name in "u1 i1 u2 i2 u4 i4 u8 i8 f2 f4 f8".split()}
tensors["b1"] = ramp("u1", 5) % 2 == 1
tensors["scalar"] = ramp("f4")
tensors["empty"] = ramp("f4", 0, 4)
save_file(tensors, "safetensors/types.safetensors", metadata={"writer": "the format's own library", "empty": "", "umlaut": "\u00e4"})
save_file({}, "safetensors/none.safetensors")

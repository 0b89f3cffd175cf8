"""Writes the arrays in tests/golden/npy/ by numpy itself (numpy 2.4.6 made the committed ones).

Run in that folder's parent: python3 npy.py"""
import os
import numpy as np
from numpy.lib import format as npf

os.makedirs("npy", exist_ok=True)
ramp = np.arange(12).reshape(3, 4)
for name in "u1 i1 u2 i2 u4 i4 u8 i8 f2 f4 f8".split():
    np.save(f"npy/{name}.npy", (ramp * 3).astype(name))
np.save("npy/b1.npy", ramp % 3 == 0)
np.save("npy/vector.npy", np.array([5, 6, 7], "<i8"))
np.save("npy/fortran.npy", np.asfortranarray(ramp.astype("<f4")))
cube = np.arange(120).reshape(5, 3, 4, 2)  # element [n, i, j, k] = ((n * 3 + i) * 4 + j) * 2 + k
np.save("npy/fortran_rank4.npy", np.asfortranarray(cube.astype("<u2")))
np.save("npy/fortran_big_endian.npy", np.asfortranarray(ramp.astype(">i8")))
np.save("npy/big_endian.npy", ramp.astype(">f4"))
np.save("npy/big_endian_bytes.npy", ramp.astype(">u1"))
np.save("npy/structured.npy", np.zeros(3, [("a", "<f4"), ("b", "<i4")]))
np.save("npy/object.npy", np.array([None, 1, "x"], object), allow_pickle=True)
np.save("npy/complex.npy", ramp.astype("<c8"))
np.save("npy/text.npy", np.array(["ab", "c", "d"]))
np.save("npy/scalar.npy", np.array(3.0))
np.save("npy/empty.npy", np.zeros((0, 4), "<f4"))
np.save("npy/hollow.npy", np.zeros((3, 0), "<f4"))
np.save("npy/rank8.npy", np.arange(6, dtype="<f4").reshape(3, 1, 2, 1, 1, 1, 1, 1))
np.save("npy/rank9.npy", np.zeros((3, 1, 1, 1, 1, 1, 1, 1, 1), "<f4"))
for version in (2, 3):
    with open(f"npy/version{version}.npy", "wb") as f:
        npf.write_array(f, ramp.astype("<f4"), version=(version, 0))

"""bytes_torchvision.h: torchvision's results for the 256 bytes, for backend_bytes.c.

Usage: python make_bytes.py > bytes_torchvision.h   (torchvision and Pillow)

Each stage runs over Pillow's image of the bytes 0 to 255. Hashes are FNV-1a-64 over the 256
results. Over tensors, posterize, solarize and invert must give the same bytes, which is checked
here. There adjust_gamma computes in f32, and one byte in many thousands may differ by one.
"""
import numpy as np
import PIL
import torch
import torchvision
from PIL import Image
from torchvision.transforms import functional as F

RAMP = np.arange(256, dtype=np.uint8).reshape(16, 16)


def fnv(array):
    hash = 0xcbf29ce484222325
    for byte in np.ascontiguousarray(array).tobytes():
        hash = (hash ^ byte) * 0x100000001b3 % 2**64
    return hash


cases = [("posterize:%d" % bits, F.posterize, (bits,)) for bits in range(9)]
cases += [("solarize:%d" % least, F.solarize, (least,)) for least in (0, 1, 37, 64, 127, 128, 129, 200, 255)]
cases += [("invert", F.invert, ())]
cases += [("gamma:%s,%s" % (gamma, gain), F.adjust_gamma, (gamma, gain))
          for gamma in (0, 0.1, 0.4, 0.45, 0.5, 0.9, 1, 1.1, 1.8, 2.2, 2.4, 3, 10) for gain in (1, 0.5, 1.75)]

print("/* Made by make_bytes.py: what torchvision %s makes of the bytes 0 to 255 (Pillow %s). */" % (torchvision.__version__, PIL.__version__))
print("#ifndef TESTS_GOLDEN_BYTES_TORCHVISION_H\n#define TESTS_GOLDEN_BYTES_TORCHVISION_H\n\n#include <stdint.h>\n\n/* clang-format off */")
print("static const struct torchvision_bytes {\n    const char *chain;\n    uint64_t hash;\n} torchvision_bytes[] = {")
for chain, function, arguments in cases:
    made = np.asarray(function(Image.fromarray(RAMP), *arguments)).astype(int)
    same = function(torch.from_numpy(RAMP)[None], *arguments)[0].numpy().astype(int)
    assert np.abs(made - same).max() <= (1 if function is F.adjust_gamma else 0), chain
    print("    {\"%s\", UINT64_C(0x%016x)}," % (chain, fnv(made.astype(np.uint8))))
print("};\n/* clang-format on */\n\n#endif")

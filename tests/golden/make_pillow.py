"""pillow.h: hashes of Pillow's results for generated pixels, for backend_image.c and
backend_color.c.

Usage: python make_pillow.py > pillow.h   (Pillow 13 or later, numpy; older ones order the passes
differently)

Hashes are FNV-1a-64 over the bytes of the result, [height, width, channels].
"""
import numpy as np
import PIL
from PIL import Image, ImageEnhance

assert int(PIL.__version__.split(".")[0]) >= 13, PIL.__version__


def fill(height, width, channels, seed):
    n = height * width * channels
    out, state = np.zeros(n, np.uint8), seed
    for i in range(n):
        y, x, c = i // (width * channels), i // channels % width, i % channels
        state = (state * 1664525 + 1013904223) % 2**32
        out[i] = (state >> 24 if seed & 1 else 3 * x + 2 * y + 40 * c + (state >> 28)) % 256
    return out.reshape(height, width, channels)


def fnv(array):
    hash = 0xcbf29ce484222325
    for byte in np.ascontiguousarray(array).tobytes():
        hash = (hash ^ byte) * 0x100000001b3 % 2**64
    return hash


def image(pixels):
    return Image.fromarray(pixels[..., 0] if pixels.shape[2] == 1 else pixels)


print("/* Made by make_pillow.py: what Pillow %s makes of the pixels that image_stage.h fills in. */" % PIL.__version__)
print("#ifndef TESTS_GOLDEN_PILLOW_H\n#define TESTS_GOLDEN_PILLOW_H\n\n#include <stdint.h>\n\n/* clang-format off */")
print("static const struct pillow_resize {\n    int32_t height, width, channels, out_height, out_width;\n    uint32_t seed;\n    uint64_t bilinear, bicubic;\n} pillow_resizes[] = {")
sizes = [(100, 133), (133, 100), (64, 64), (57, 91), (120, 30), (30, 120), (37, 53), (200, 40), (41, 211), (7, 5), (1, 60), (60, 1)]
outs = [(56, 56), (64, 48), (91, 57), (29, 30), (111, 13), (12, 64), (64, 64)]
seed = 0
for size in sizes:
    for out in outs:
        seed += 1
        channels = 1 if seed % 9 == 0 else 3  # with four, Pillow multiplies by alpha
        source = image(fill(*size, channels, seed))
        made = [fnv(np.asarray(source.resize((out[1], out[0]), how))) for how in (Image.BILINEAR, Image.BICUBIC)]
        print("    {%d, %d, %d, %d, %d, %d, UINT64_C(0x%016x), UINT64_C(0x%016x)}," % (*size, channels, *out, seed, *made))
print("};\n")
print("/* b brightness, c contrast, s saturation by a factor; h hue on by so many of 256; g gray. */")
print("static const struct pillow_color {\n    char what;\n    double number;\n    uint32_t seed;\n    uint64_t hash;\n} pillow_colors[] = {")
for seed in (3, 4):
    picture = image(fill(61, 83, 3, seed))
    for what, enhance in (("b", ImageEnhance.Brightness), ("c", ImageEnhance.Contrast), ("s", ImageEnhance.Color)):
        for factor in (0.0, 0.25, 0.625, 1.0, 1.375, 2.5):
            print("    {'%s', %s, %d, UINT64_C(0x%016x)}," % (what, factor, seed, fnv(np.asarray(enhance(picture).enhance(factor)))))
    for shift in (0, 1, 25, 127, 128, 230, 255):
        bands = [np.asarray(band) for band in picture.convert("HSV").split()]
        bands[0] = bands[0] + np.uint8(shift)
        turned = Image.merge("HSV", [Image.fromarray(band) for band in bands]).convert("RGB")
        print("    {'h', %d, %d, UINT64_C(0x%016x)}," % (shift, seed, fnv(np.asarray(turned))))
    gray = np.asarray(picture.convert("L"))
    print("    {'g', 0, %d, UINT64_C(0x%016x)}," % (seed, fnv(np.dstack([gray] * 3))))
print("};\n/* clang-format on */\n\n#endif")

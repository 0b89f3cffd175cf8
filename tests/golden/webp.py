"""Small WebP files of every kind, and Pillow's pixels of them, for test_decode_webp.c.

Usage: python webp.py FOLDER   (needs Pillow with WebP; cwebp makes simple.webp)

NAME.webp is the file. A decoder must give the pixels of NAME.webp.ppm as RGB, of NAME.webp.gray.pgm
as one channel, and of NAME.webp.up.ppm turned by EXIF.
"""
import io
import os
import random
import shutil
import struct
import subprocess
import sys

from PIL import Image, ImageOps

folder = sys.argv[1]
draw = random.Random(11)


def put(name, data):
    with open(os.path.join(folder, name), "wb") as f:
        f.write(data)


def put_pixels(name, image):
    kind = b"P6" if image.mode == "RGB" else b"P5"
    put(name + (".ppm" if image.mode == "RGB" else ".pgm"), b"%s\n%d %d\n255\n" % (kind, image.width, image.height) + image.tobytes())


def picture(height, width, channels=3):
    """Slopes, an edge and noise; coloured, so that chroma matters at every pixel."""
    out = bytearray()
    for y in range(height):
        for x in range(width):
            for c in range(channels):
                v = (x * (3 + 2 * c) + y * (7 - 3 * c)) // 2 + draw.randrange(24) + (110 if (x + 2 * y) // 23 % 2 and c != 1 else 0)
                out.append(v % 256 if c == 2 else max(0, min(v, 255)))
    return Image.frombytes("RGB" if channels == 3 else "RGBA", (width, height), bytes(out))


def put_webp(name, data, gray=True):
    put(name + ".webp", data)
    image = Image.open(io.BytesIO(data)).convert("RGB")
    put_pixels(name + ".webp", image)
    if gray:
        put_pixels(name + ".webp.gray", image.convert("L"))


def webp(name, image, gray=True, **options):
    stream = io.BytesIO()
    image.save(stream, "WEBP", **options)
    put_webp(name, stream.getvalue(), gray)
    return stream.getvalue()


odd, large = picture(45, 53), picture(130, 171)
webp("lossy", odd, quality=80)
webp("lossy_large", large, gray=False, quality=60, method=6)
webp("lossy_rough", odd, gray=False, quality=3)
webp("lossy_alpha", picture(45, 53, 4), quality=70)
webp("lossless", odd, lossless=True)
webp("lossless_alpha", picture(45, 53, 4), lossless=True, exact=True)
webp("lossless_palette", odd.quantize(7).convert("RGB"), lossless=True, quality=100, method=6)
webp("one", Image.frombytes("RGB", (1, 1), b"\x10\x80\xf0"), gray=False, quality=90)
webp("column", picture(33, 1), gray=False, quality=90)
webp("row", picture(1, 34), gray=False, lossless=True)
for orientation in (3, 6):
    exif = b"Exif\0\0" + b"MM\0*" + struct.pack(">IHHHIHHI", 8, 1, 0x0112, 3, 1, orientation, 0, 0)
    data = webp("turned%d" % orientation, picture(21, 29), gray=False, exif=exif, lossless=orientation == 3, quality=90)
    put_pixels("turned%d.webp.up" % orientation, ImageOps.exif_transpose(Image.open(io.BytesIO(data))).convert("RGB"))
stream = io.BytesIO()
picture(12, 10).save(stream, "WEBP", save_all=True, append_images=[picture(12, 10)], duration=50)
put("animated.webp", stream.getvalue())
if shutil.which("cwebp"):  # the simple loop filter
    odd.save(os.path.join(folder, "x.png"))
    subprocess.run(["cwebp", "-quiet", "-nostrong", "-f", "90", "-q", "30", os.path.join(folder, "x.png"), "-o", os.path.join(folder, "simple.webp")], check=True)
    os.remove(os.path.join(folder, "x.png"))
    put_webp("simple", open(os.path.join(folder, "simple.webp"), "rb").read(), gray=False)
else:
    print("no cwebp: no simple.webp")

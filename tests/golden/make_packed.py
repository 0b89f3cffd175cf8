#!/usr/bin/env python3
"""Writes packed/{crop16,short20,gray16}.bin beside itself: Pillow's results for images/ with
iterpack's options. Needs Pillow 13.

crop16, gray16: upright, the square in the middle, bilinear to 16 x 16, one image after the other.
short20: the short side to 20.
"""
import os

from PIL import Image, ImageOps

FOLDER = os.path.dirname(os.path.abspath(__file__))
CROPPED = ["rgb420.jpg", "exif6.jpg", "gray.jpg", "progressive.jpg", "rgb8.png", "exif8.jpg"]


def load(name, mode):
    image = Image.open(os.path.join(FOLDER, "images", name))
    image.draft(mode, image.size)  # the luma of a JPEG as it is stored
    image = ImageOps.exif_transpose(image)
    return image.convert(mode)


def square(image):
    side = min(image.size)
    x, y = (image.width - side) // 2, (image.height - side) // 2
    return image.crop((x, y, x + side, y + side))


def write(name, images):
    with open(os.path.join(FOLDER, "packed", name), "wb") as out:
        for image in images:
            out.write(image.tobytes())


os.makedirs(os.path.join(FOLDER, "packed"), exist_ok=True)
for name, mode in (("crop16.bin", "RGB"), ("gray16.bin", "L")):
    write(name, [square(load(file, mode)).resize((16, 16), Image.Resampling.BILINEAR) for file in CROPPED])
image = load("rgb420.jpg", "RGB")
assert image.size == (53, 45)
write("short20.bin", [image.resize((53 * 20 // 45, 20), Image.Resampling.BILINEAR)])

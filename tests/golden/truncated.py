"""Pillow's results for some pictures of a folder if their files end early, for
test_decode_truncated.c.

Usage: python truncated.py FOLDER   (needs Pillow; the folder has the files of images.py)

NAME.cut.ppm has the pixels of the first BYTES of NAME under LOAD_TRUNCATED_IMAGES. The progressive
one is cut in its last scan, in which no edges are smoothed: versions of libjpeg-turbo smooth
differently.
"""
import io
import os
import sys

from PIL import Image, ImageFile

ImageFile.LOAD_TRUNCATED_IMAGES = True
folder = sys.argv[1]
CUTS = [("rgb420.jpg", 1100), ("rgb444.jpg", 1200), ("restart.jpg", 950), ("gray.jpg", 1000), ("cmyk.jpg", 2500), ("progressive.jpg", 1100), ("exif6.jpg", 800),
        ("rgb8.png", 3000), ("p8.png", 1500), ("i_rgb8.png", 2000), ("i_p4.png", 500), ("g8.png", 1200), ("turned6.png", 900)]
for name, n in CUTS:
    with open(os.path.join(folder, name), "rb") as f:
        data = f.read()
    assert n < len(data) - 20, (name, len(data))
    image = Image.open(io.BytesIO(data[:n])).convert("RGB")
    with open(os.path.join(folder, name + ".cut.ppm"), "wb") as f:
        f.write(b"P6\n%d %d\n255\n" % (image.width, image.height) + image.tobytes())
    print(name, len(data), n, sum(image.tobytes()))

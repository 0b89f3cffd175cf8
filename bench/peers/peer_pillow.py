"""Pillow by hand. It also draws the charts for the check of everybody's crops."""
import numpy as np
from PIL import Image

import peer_photos
from peer_common import main
from peer_photos import SIDE, PhotosByHand, Stills, draw_window, stills


def load(path):
    with Image.open(path) as image:
        image = image.convert("RGB")
        x, y, w, h = draw_window(*image.size)
        return np.asarray(image.resize((SIDE, SIDE), Image.Resampling.BILINEAR, (x, y, x + w, y + h)))


def resize(image):
    return image.resize((SIDE, SIDE), Image.Resampling.BILINEAR)


def draw(chart, path):
    Image.fromarray(chart).save(path, quality=97, subsampling=0)


main("pillow", {
    "photos": lambda row: PhotosByHand(load),
    "resize": lambda row: Stills([Image.fromarray(still) for still in stills()], resize),
}, prepare_photos=lambda: peer_photos.prepare(draw))

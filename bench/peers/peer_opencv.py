"""OpenCV by hand."""
import cv2
import numpy as np

from peer_common import main, touch_array
from peer_photos import SIDE, PhotosByHand, Stills, draw_window, stills


def loader(interpolation):
    def load(path):
        image = cv2.imread(path, cv2.IMREAD_COLOR_RGB | cv2.IMREAD_IGNORE_ORIENTATION)
        x, y, w, h = draw_window(image.shape[1], image.shape[0])
        return cv2.resize(image[y:y + h, x:x + w], (SIDE, SIDE), interpolation=interpolation)
    return lambda row: PhotosByHand(load)


class Resized(Stills):
    """Into one buffer, which spares the allocation."""

    def __init__(self, interpolation):
        self.buffer = np.empty((SIDE, SIDE, 3), np.uint8)
        super().__init__(list(stills()), lambda image: cv2.resize(image, (SIDE, SIDE), self.buffer, interpolation=interpolation))

    def epoch(self):
        for i in range(self.size):
            yield self.resize(self.images[i]), None, 1

    def touch(self, data):
        touch_array(data)

    def to_numpy(self, data):
        return data[None].copy()


cv2.setNumThreads(0)
main("opencv", {
    "linear": loader(cv2.INTER_LINEAR),
    "area": loader(cv2.INTER_AREA),
    "resize-area": lambda row: Resized(cv2.INTER_AREA),
})

"""Loops compiled by numba: what a careful user writes where NumPy needs several passes. One buffer is written again and again."""
import numba
import numpy as np

from peer_common import BATCH, MEAN, STD, Contestant, cifar, main, order, per_channel

MINUS, TIMES = (per_channel(MEAN) * 255).ravel(), (1 / (255 * per_channel(STD))).ravel()
PAD = 4


@numba.njit(fastmath=True, nogil=True)
def normalise(images, rows, minus, times, out):
    for i in range(len(rows)):
        image = images[rows[i]]
        for c in range(3):
            for k in range(1024):
                out[i, c, k] = (np.float32(image[c, k]) - minus[c]) * times[c]


@numba.njit(fastmath=True, nogil=True)
def normalise_crops(padded, rows, y, x, mirrored, minus, times, out):
    """Of images that were padded once."""
    for i in range(len(rows)):
        image = padded[rows[i], :, y[i]:y[i] + 32, x[i]:x[i] + 32]
        for c in range(3):
            for r in range(32):
                line = image[c, r]
                if mirrored[i]:
                    for k in range(32):
                        out[i, c, r, k] = (np.float32(line[31 - k]) - minus[c]) * times[c]
                else:
                    for k in range(32):
                        out[i, c, r, k] = (np.float32(line[k]) - minus[c]) * times[c]


class Convert(Contestant):
    def __init__(self):
        images, self.labels = cifar()
        self.images, self.size = images.reshape(-1, 3, 1024), len(images)
        self.buffer = np.empty((BATCH, 3, 32, 32), np.float32)
        self.flat = self.buffer.reshape(BATCH, 3, 1024)

    def epoch(self):
        for rows in order(self.size):
            normalise(self.images, rows, MINUS, TIMES, self.flat)
            yield self.buffer[:len(rows)], self.labels[rows], len(rows)


class Crops(Contestant):
    def __init__(self):
        images, self.labels = cifar()
        self.padded, self.size = np.pad(images, ((0, 0), (0, 0), (PAD, PAD), (PAD, PAD))), len(images)
        self.buffer = np.empty((BATCH, 3, 32, 32), np.float32)

    def epoch(self):
        for rows in order(self.size):
            out, n = self.buffer[:len(rows)], len(rows)
            y, x = np.random.randint(0, 2 * PAD + 1, (2, n))
            normalise_crops(self.padded, rows, y, x, np.random.rand(n) < .5, MINUS, TIMES, out)
            yield out, self.labels[rows], n


main("numba", {"convert": lambda row: Convert(), "crops": lambda row: Crops()})

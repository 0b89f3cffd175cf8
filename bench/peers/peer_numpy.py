"""No library: what a careful user writes with NumPy, and the tokeniser in plain Python."""
import numpy as np

from peer_common import (BATCH, MEAN, STD, Contestant, cifar, main, normalised, order, per_channel, review_ids,
                         review_texts, tokenise, vocabulary)


class Rows(Contestant):
    """x[permutation] of an array that is ready."""

    def __init__(self, data, labels):
        self.data, self.labels, self.size = data, labels, len(data)

    def epoch(self):
        data, labels = self.data, self.labels
        for rows in order(self.size):
            yield data[rows], labels[rows], len(rows)


class Take(Rows):
    """The same into one buffer, which spares the allocation."""

    def __init__(self, data, labels):
        super().__init__(data, labels)
        self.buffer = np.empty((BATCH,) + data.shape[1:], data.dtype)

    def epoch(self):
        data, labels, buffer = self.data, self.labels, self.buffer
        for rows in order(self.size):
            out = buffer[:len(rows)]
            np.take(data, rows, axis=0, out=out, mode="clip")
            yield out, labels[rows], len(rows)


class Convert(Rows):
    def __init__(self, data, labels):
        super().__init__(data, labels)
        self.minus, self.times = per_channel(MEAN) * 255, 1 / (255 * per_channel(STD))

    def normalise(self, pixels):
        out = pixels.astype(np.float32)
        out -= self.minus
        out *= self.times
        return out

    def epoch(self):
        for rows in order(self.size):
            yield self.normalise(self.data[rows]), self.labels[rows], len(rows)


class Windows(Convert):
    """Crops are views into the set, padded once; one gather takes a batch of them."""

    def __init__(self, data, labels):
        super().__init__(data, labels)
        padded = np.pad(data, ((0, 0), (0, 0), (4, 4), (4, 4)))
        self.windows = np.lib.stride_tricks.sliding_window_view(padded, (32, 32), axis=(2, 3))

    def epoch(self):
        for rows in order(self.size):
            y, x = np.random.randint(0, 9, (2, len(rows)))
            images = self.windows[rows, :, y, x]
            mirrored = np.random.rand(len(rows)) < .5
            images[mirrored] = images[mirrored, :, :, ::-1]
            yield self.normalise(images), self.labels[rows], len(rows)


class Words(Contestant):
    def __init__(self):
        self.texts, self.labels = review_texts()
        self.ids, self.size = vocabulary(), len(self.texts)

    def epoch(self):
        for i in range(0, self.size, BATCH):
            texts = self.texts[i:i + BATCH]
            yield tokenise(texts, self.ids), self.labels[i:i + BATCH], len(texts)


def ready():
    images, labels = cifar()
    return normalised(images), labels


main("numpy", {
    "rows": lambda row: Rows(*ready()),
    "take": lambda row: Take(*ready()),
    "convert": lambda row: Convert(*cifar()),
    "windows": lambda row: Windows(*cifar()),
    "ids": lambda row: Rows(*review_ids()),
    "ids-take": lambda row: Take(*review_ids()),
    "words": lambda row: Words(),
}, prepare=review_ids)

"""TurboLoader: its loader of arrays, and the fused kernel that this loader does not reach, called by hand."""
import numpy as np
import turboloader

import photo_turbo
from peer_common import BATCH, MEAN, STD, Contestant, cifar, main, normalised, order, review_ids


class Arrays(Contestant):
    def __init__(self, data, labels):
        self.loader = turboloader.ArrayDataLoader(data, labels, batch_size=BATCH, shuffle=True)
        self.size, self.n_epochs = len(data), 0

    def epoch(self):
        if hasattr(self.loader, "set_epoch"):
            self.loader.set_epoch(self.n_epochs)
        self.n_epochs += 1
        for batch in self.loader:
            yield batch[0], batch[1], len(batch[0])


class Kernel(Contestant):
    def __init__(self):
        self.images, self.labels = cifar("nhwc")
        self.size, self.buffer = len(self.images), np.empty((BATCH, 3, 32, 32), np.float32)

    def epoch(self):
        mean, std, gather = list(MEAN), list(STD), turboloader.normalize_u8_gather
        for rows in order(self.size):
            out = self.buffer[:len(rows)]
            gather(self.images, rows, out, mean, std, True)
            yield out, self.labels[rows], len(rows)


def ready():
    images, labels = cifar()
    return Arrays(normalised(images), labels)


main("turbo", {"array": lambda row: ready(), "kernel": lambda row: Kernel(), "ids": lambda row: Arrays(*review_ids()),
               **photo_turbo.MAKE})

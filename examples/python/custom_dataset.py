"""custom_dataset.py - samples from your own Python code, a chunk at a time; random numbers that no number of workers
changes; rows of different lengths; and a sample that fails.

    python custom_dataset.py
"""
import zlib

import numpy as np

import libiter


PAD = "pad-batch"  # rows of a batch are as long as its longest one; zeros fill the others


class Tones:
    """1,000 sounds, each 20 to 100 numbers long, and their pitch."""

    #: Lengths vary, so the fields cannot be guessed from the first sample: {name: (dtype, shape, capacity)}
    fields = {"sound": ("f32", (None,), 100), "label": ("i64", ())}

    def __len__(self):
        return 1000

    def get(self, indices, seeds):
        """Runs in the loader's threads. seeds: a number for each row, of the loader's seed, the epoch and the row's
        position."""
        sounds = []
        for index, seed in zip(indices, seeds):
            random = np.random.default_rng(seed)
            time = np.arange(random.integers(20, 101))
            sounds.append(np.sin(time * (1 + index % 7) / 10) + random.normal(0, 0.1, len(time)))
        return [sound.astype(np.float32) for sound in sounds], (indices % 7).astype(np.int64)


class Broken:
    """One sample of its 100 cannot be read."""

    def __len__(self):
        return 100

    def __getitem__(self, index):
        if index == 42:
            raise ValueError("this recording is empty")
        return np.full(4, index, np.float32), index


def checksum(workers):
    total = 0
    with libiter.Loader(Tones(), PAD, batch_size=50, shuffle=True, seed=3, workers=workers) as loader:
        for batch in loader:
            total = zlib.crc32(batch.sound.tobytes() + batch.label.tobytes(), total)
    return total


with libiter.Loader(Tones(), PAD, batch_size=4, shuffle=True) as loader:
    batch = next(iter(loader))
    print("sound %s, of which are used %s" % (list(batch.sound.shape), batch.lengths("sound").tolist()))

print("the same rows with 0 and 2 workers: %s" % ("yes" if checksum(0) == checksum(2) else "no"))

with libiter.Loader(Broken(), batch_size=10, on_error="blank") as loader:
    kept = sum(int(batch.valid.sum()) for batch in loader)
    print("%d of 100 samples; sample %d: %s" % (kept, loader.failures()[0].index, loader.failures()[0].message))

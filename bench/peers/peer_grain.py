"""grain, with OpenCV for the work: its own transforms have none of images. One endless iterator, so that workers start once."""
import random

import cv2
import grain
import numpy as np
from absl import flags

from peer_common import BATCH, main, touch_array
from peer_photos import SIDE, Photos, draw_window, normalise_into

flags.FLAGS.mark_as_parsed()  # its worker processes ask for them
cv2.setNumThreads(0)


class Files:
    def __init__(self, files):
        self.files = files

    def __len__(self):
        return len(self.files)

    def __getitem__(self, i):
        return self.files[i]


def load(sample, rng):
    random.seed(int(rng.integers(1 << 62)))
    image = cv2.imread(sample[0], cv2.IMREAD_COLOR_RGB | cv2.IMREAD_IGNORE_ORIENTATION)
    x, y, w, h = draw_window(image.shape[1], image.shape[0])
    image = cv2.resize(image[y:y + h, x:x + w], (SIDE, SIDE), interpolation=cv2.INTER_LINEAR)
    out = np.empty((3, SIDE, SIDE), np.float32)
    normalise_into(out, image[:, ::-1] if random.random() < .5 else image)
    return out, sample[1]


class Endless(Photos):
    def __init__(self, row):
        super().__init__()
        data = grain.MapDataset.source(Files(self.files)).seed(1).shuffle().repeat(None).random_map(load).batch(BATCH)
        threads = row.threads if row.threads > 1 else 0
        data = data.to_iter_dataset(grain.ReadOptions(num_threads=threads, prefetch_buffer_size=threads))
        if row.workers and not threads:
            data = data.mp_prefetch(grain.MultiprocessingOptions(num_workers=row.workers, per_worker_buffer_size=2))
        self.iterator, self.size = iter(data), self.size // BATCH * BATCH

    def epoch(self):
        for _ in range(self.size // BATCH):
            data, labels = next(self.iterator)
            yield data, labels, len(data)

    def touch(self, data):
        touch_array(data)


if __name__ == "__main__":  # its workers import this file
    main("grain", {"opencv": Endless})

"""DALI without a GPU: batches of u8 images from a source in Python, everything else in its operators."""
import numpy as np
from nvidia.dali import fn, pipeline_def, types

import photo_dali
from peer_common import BATCH, MEAN, STD, Contestant, cifar, main, touch_array


class Source:
    """Batches of the set, shuffled anew each epoch; what is left of a full batch is dropped."""

    def __init__(self):
        self.images, self.labels = cifar("nhwc")
        self.at = self.size = len(self.images)

    def __call__(self):
        if self.at + BATCH > self.size:
            self.permutation, self.at = np.random.permutation(self.size), 0
        rows = self.permutation[self.at:self.at + BATCH]
        self.at += BATCH
        return self.images[rows], self.labels[rows]


def pipeline(row, augment):
    @pipeline_def(batch_size=BATCH, num_threads=row.threads, device_id=None, prefetch_queue_depth=2,
                  exec_dynamic="dynamic" in row.name)
    def define():
        images, labels = fn.external_source(Source(), num_outputs=2, batch=True, layout=["HWC", ""],
                                            dtype=[types.UINT8, types.INT64], no_copy=True)
        crop = {}
        if augment:
            images = fn.slice(images, [-4, -4], [40, 40], axis_names="HW", out_of_bounds_policy="pad",
                              normalized_anchor=False, normalized_shape=False)
            crop = dict(crop=(32, 32), crop_pos_x=fn.random.uniform(range=(0, 1)),
                        crop_pos_y=fn.random.uniform(range=(0, 1)), mirror=fn.random.coin_flip())
        images = fn.crop_mirror_normalize(images, mean=[255 * m for m in MEAN], std=[255 * s for s in STD],
                                          dtype=types.FLOAT, output_layout="CHW", **crop)
        return images, labels
    return define()


class Pipeline(Contestant):
    def __init__(self, row, augment):
        self.pipeline = pipeline(row, augment)
        self.pipeline.build()
        self.size = 50000 // BATCH * BATCH

    def touch(self, data):
        touch_array(np.asarray(data))

    def epoch(self):
        for _ in range(self.size // BATCH):
            images, labels = self.pipeline.run()
            yield images.as_tensor(), labels.as_tensor(), BATCH


main("dali", {**dict.fromkeys(("cmn", "cmn-dynamic"), lambda row: Pipeline(row, False)), "aug": lambda row: Pipeline(row, True),
              **photo_dali.MAKE})

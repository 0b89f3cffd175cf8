"""DALI over photos, and its reader of RecordIO."""
import numpy as np
from nvidia.dali import fn, pipeline_def, types

from peer_common import BATCH, Contestant, touch_address, touch_array
from peer_photos import MEAN_255, RATIO, SCALE, SIDE, STD_255, TRIES, Photos, listed, packed


def photos(row):
    paths, labels = (list(column) for column in zip(*listed()))

    @pipeline_def(batch_size=BATCH, num_threads=row.threads, device_id=None, prefetch_queue_depth=2,
                  exec_dynamic="dynamic" in row.name)
    def define():
        encoded, label = fn.readers.file(files=paths, labels=labels, random_shuffle=True, initial_fill=len(paths),
                                         name="reader")
        images = fn.decoders.image_random_crop(encoded, device="cpu", output_type=types.RGB, random_area=list(SCALE),
                                               random_aspect_ratio=list(RATIO), num_attempts=TRIES)
        images = fn.resize(images, size=(SIDE, SIDE), antialias=row.name.startswith("aa"), interp_type=types.INTERP_LINEAR)
        return fn.crop_mirror_normalize(images, mirror=fn.random.coin_flip(), mean=MEAN_255, std=STD_255,
                                        dtype=types.FLOAT, output_layout="CHW"), label
    return define()


class Windows(Photos):
    """Its reader goes on over the end of an epoch: all batches are full."""

    def __init__(self, row):
        super().__init__()
        self.pipeline = photos(row)
        self.pipeline.build()
        self.size = self.size // BATCH * BATCH

    def epoch(self):
        for _ in range(self.size // BATCH):
            images, labels = self.pipeline.run()
            yield images.as_tensor(), labels.as_tensor(), BATCH

    def touch(self, data):
        touch_array(np.asarray(data))


class Records(Contestant):
    def __init__(self, row):
        @pipeline_def(batch_size=BATCH, num_threads=1, device_id=None, prefetch_queue_depth=2)
        def define():
            data, labels = fn.readers.mxnet(path=packed("rec", "photos"), index_path=packed("idx", "photos"), name="reader")
            return data, labels
        self.pipeline = define()
        self.pipeline.build()
        self.size = self.pipeline.epoch_size("reader") // BATCH * BATCH

    def epoch(self):
        for _ in range(self.size // BATCH):
            data, labels = self.pipeline.run()
            yield data, labels.as_tensor(), BATCH

    def touch(self, data):
        for i in range(len(data)):
            tensor = data[i]
            touch_address(tensor.data_ptr(), tensor.shape()[0])

    def to_numpy(self, data):
        return [np.array(data[i]).tobytes() for i in range(len(data))] if hasattr(data, "as_tensor") else np.array(data)


MAKE = {**dict.fromkeys(("noaa", "noaa-dynamic", "aa", "aa-dynamic"), Windows), "records": Records}

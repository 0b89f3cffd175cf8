"""MXNet's ImageRecordIter over photos, and its readers of RecordIO in Python."""
import mxnet as mx

from peer_common import BATCH, Contestant, touch_bytes
from peer_photos import MEAN_255, RATIO, SCALE, SIDE, STD_255, listed, packed


def iterator(row):
    named = {}
    for channel, mean, std in zip("rgb", MEAN_255, STD_255):
        named["mean_" + channel], named["std_" + channel] = mean, std
    return mx.io.ImageRecordIter(
        path_imgrec=packed("rec"), path_imgidx=packed("idx"), data_shape=(3, SIDE, SIDE), batch_size=BATCH, shuffle=True,
        random_resized_crop=True, min_random_area=SCALE[0], max_random_area=SCALE[1], min_aspect_ratio=RATIO[0],
        max_aspect_ratio=RATIO[1], rand_mirror=True, preprocess_threads=row.threads, prefetch_buffer=2, device_id=-1, ctx="cpu",
        **named)


class Records(Contestant):
    """In the order of the file, in handfuls of 64; `unpack` takes header and label off."""

    def __init__(self, unpack):
        self.reader, self.size = mx.recordio.MXRecordIO(packed("rec", "photos"), "r"), len(listed("photos"))
        self.unpack = unpack

    def epoch(self):
        self.reader.reset()
        data, labels = [], []
        for record in iter(self.reader.read, None):
            if self.unpack:
                header, record = mx.recordio.unpack(record)
                labels.append(header.label)
            data.append(record)
            if len(data) == BATCH:
                yield data, labels or None, BATCH
                data, labels = [], []
        if data:
            yield data, labels or None, len(data)

    def touch(self, data):
        for record in data:
            touch_bytes(record)

    def to_numpy(self, data):
        return data

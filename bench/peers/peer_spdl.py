"""SPDL: FFmpeg decodes, crops, scales and mirrors a photo, on SPDL's pool of threads; NumPy normalises.

FFmpeg's bilinear scaling looks at all pixels that fall into one.
"""
import random

import numpy as np
import spdl.io
from spdl.pipeline import PipelineBuilder

from peer_common import BATCH, main
from peer_photos import SIDE, Photos, draw_window, normalise_into


def decode(item):
    packets = spdl.io.demux_image(item[0])
    x, y, w, h = draw_window(packets.width, packets.height)
    steps = "crop=%d:%d:%d:%d:exact=1,scale=%d:%d:flags=bilinear%s,format=pix_fmts=rgb24" % (
        w, h, x, y, SIDE, SIDE, ",hflip" if random.random() < .5 else "")
    return spdl.io.decode_packets(packets, filter_desc=steps), item[1]


def collate(items):
    images = spdl.io.to_numpy(spdl.io.convert_frames([frames for frames, _ in items]))
    out = np.empty((len(images), 3, SIDE, SIDE), np.float32)
    for row, image in zip(out, images):
        normalise_into(row, image)
    return out, np.array([label for _, label in items])


class Pipeline(Photos):
    def __init__(self, row):
        super().__init__()
        self.threads = row.threads

    def epoch(self):
        random.shuffle(self.files)
        pipeline = (PipelineBuilder().add_source(self.files).pipe(decode, concurrency=self.threads).aggregate(BATCH)
                    .pipe(collate).add_sink(2).build(num_threads=self.threads))
        with pipeline.auto_stop():
            for data, labels in pipeline:
                yield data, labels, len(data)


main("spdl", {"photos": Pipeline})

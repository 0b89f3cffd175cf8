"""FFCV: a file of raw images in the page cache, and its compiled pipelines."""
import os

import numpy as np
import torch
from ffcv.fields import IntField, RGBImageField
from ffcv.fields.decoders import IntDecoder, SimpleRGBImageDecoder
from ffcv.loader import Loader, OrderOption
from ffcv.transforms import NormalizeImage, RandomHorizontalFlip, RandomTranslate, Squeeze, ToTensor, ToTorchImage
from ffcv.writer import DatasetWriter

from peer_common import BATCH, MEAN, STD, Contestant, cifar, main, scratch, touch_address

FILE = "cifar.beton"


class Pipeline(Contestant):
    close_early = False  # its threads wait for ever where an iteration is left

    def __init__(self, row, *augment, nhwc=False):
        torch.set_num_threads(1)
        scale = np.array([255.])
        images = [SimpleRGBImageDecoder(), *augment,
                  NormalizeImage(np.array(MEAN) * scale, np.array(STD) * scale, np.float32), ToTensor(),
                  ToTorchImage(channels_last=nhwc)]
        self.loader = Loader(scratch(FILE), batch_size=BATCH, num_workers=row.threads, order=OrderOption.RANDOM,
                             drop_last=False, os_cache=True, batches_ahead=3,
                             pipelines={"image": images, "label": [IntDecoder(), ToTensor(), Squeeze()]})

    def touch(self, data):
        touch_address(data.data_ptr(), data.nbytes)

    def epoch(self):
        for data, labels in self.loader:
            yield data, labels, len(data)


class Images:
    def __init__(self):
        self.images, self.labels = cifar("nhwc")

    def __len__(self):
        return len(self.images)

    def __getitem__(self, i):
        return self.images[i], int(self.labels[i])


def prepare():
    if not os.path.exists(scratch(FILE)):
        fields = {"image": RGBImageField(write_mode="raw"), "label": IntField()}
        DatasetWriter(scratch(FILE + ".part"), fields, num_workers=1).from_indexed_dataset(Images())
        os.rename(scratch(FILE + ".part"), scratch(FILE))


main("ffcv", {
    "nchw": lambda row: Pipeline(row),
    "nhwc": lambda row: Pipeline(row, nhwc=True),
    "aug": lambda row: Pipeline(row, RandomHorizontalFlip(), RandomTranslate(4)),
}, prepare)

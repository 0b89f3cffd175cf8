"""FFCV: a file of raw images in the page cache, and its compiled pipelines."""
import os

import numpy as np
import torch
from ffcv.fields import IntField, RGBImageField
from ffcv.fields.decoders import IntDecoder, RandomResizedCropRGBImageDecoder, SimpleRGBImageDecoder
from ffcv.loader import Loader, OrderOption
from ffcv.transforms import NormalizeImage, RandomHorizontalFlip, RandomTranslate, Squeeze, ToTensor, ToTorchImage
from ffcv.writer import DatasetWriter

import peer_photos
import photo_ffcv
from peer_common import BATCH, MEAN, STD, Contestant, cifar, main, scratch, touch_address
from peer_photos import MEAN_255, SCALE, SIDE, STD_255, listed, packed

FILE = "cifar.beton"


class Pipeline(Contestant):
    close_early = False  # its threads wait for ever where an iteration is left

    def __init__(self, row, *steps, nhwc=False, file=FILE, mean=255 * np.array(MEAN), std=255 * np.array(STD)):
        torch.set_num_threads(1)
        images = [*steps, NormalizeImage(mean, std, np.float32), ToTensor(), ToTorchImage(channels_last=nhwc)]
        self.loader = Loader(scratch(file), batch_size=BATCH, num_workers=row.threads, order=OrderOption.RANDOM,
                             drop_last=False, os_cache=True, batches_ahead=3,
                             pipelines={"image": images, "label": [IntDecoder(), ToTensor(), Squeeze()]})

    def touch(self, data):
        touch_address(data.data_ptr(), data.nbytes)

    def epoch(self):
        for data, labels in self.loader:
            yield data, labels, len(data)


class Photos(Pipeline):
    rests = True

    def __init__(self, row, ending="beton"):
        super().__init__(row, RandomResizedCropRGBImageDecoder((SIDE, SIDE), SCALE), RandomHorizontalFlip(),
                         file=os.path.basename(packed(ending)), mean=np.array(MEAN_255), std=np.array(STD_255))
        self.size = len(listed())


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


def prepare_photos():
    peer_photos.prepare()
    photo_ffcv.prepare()


main("ffcv", {
    "nchw": lambda row: Pipeline(row, SimpleRGBImageDecoder()),
    "nhwc": lambda row: Pipeline(row, SimpleRGBImageDecoder(), nhwc=True),
    "aug": lambda row: Pipeline(row, SimpleRGBImageDecoder(), RandomHorizontalFlip(), RandomTranslate(4)),
    "photos": Photos,
    "photos-raw": lambda row: Photos(row, "raw.beton"),
}, prepare, prepare_photos)

"""MXNet 1.9: NDArrayIter, ImageRecordIter and gluon's DataLoader.

Its NDArrayIter gathers the whole array anew in every reset() where it shuffles. Arrays are made asynchronously: the
consumer waits for each, then reads through its pointer (asnumpy() would copy the batch).
"""
import ctypes
import os

import mxnet as mx
import numpy as np
from mxnet import gluon
from mxnet.gluon.data.vision import transforms

import photo_mxnet
import step_mxnet
from peer_common import (BATCH, MEAN, STD, Contestant, cifar, main, normalised, per_channel, review_ids, scratch,
                         touch_address)
from peer_photos import listed


class Arrays(Contestant):
    def __init__(self):
        self.pointer = ctypes.c_void_p()

    def touch(self, data):
        data.wait_to_read()
        mx.base.check_call(mx.base._LIB.MXNDArrayGetData(data.handle, ctypes.byref(self.pointer)))
        touch_address(self.pointer.value, data.size * np.dtype(data.dtype).itemsize)

    def to_numpy(self, data):
        return data.asnumpy()


class Iter(Arrays):
    """Anything with the interface of DataIter."""

    def __init__(self, iterator, size):
        super().__init__()
        self.iterator, self.size = iterator, size

    def epoch(self):
        self.iterator.reset()
        for batch in self.iterator:
            yield batch.data[0], batch.label[0], BATCH - batch.pad


class Gluon(Arrays):
    def __init__(self, row, dataset, **options):
        super().__init__()
        self.size = len(dataset)
        self.loader = gluon.data.DataLoader(dataset, BATCH, shuffle=True, num_workers=row.workers, **options)

    def epoch(self):
        for data, labels in self.loader:
            yield data, labels, data.shape[0]


class Views:
    """Numpy views of rows, normalised one by one."""

    def __init__(self):
        self.images, self.labels = cifar()
        self.minus, self.times = per_channel(MEAN)[0] * 255, 1 / (255 * per_channel(STD)[0])

    def __len__(self):
        return len(self.images)

    def __getitem__(self, i):
        return (self.images[i].astype(np.float32) - self.minus) * self.times, self.labels[i]


class PaddedCrop(gluon.Block):
    """This version has no random crop with padding; GluonCV's script for this set does it so."""

    def forward(self, image):
        padded = np.pad(image.asnumpy(), ((4, 4), (4, 4), (0, 0)))
        return mx.image.random_crop(mx.nd.array(padded, dtype="uint8"), (32, 32))[0]


def images_of_nd(*before):
    images, labels = cifar("nhwc")
    dataset = gluon.data.ArrayDataset(mx.nd.array(images, dtype="uint8"), labels)
    steps = list(before) + [transforms.ToTensor(), transforms.Normalize(MEAN, STD)]
    return dataset.transform_first(transforms.Compose(steps), lazy=True)


def ndarrayiter(shuffle):
    images, labels = cifar()
    return Iter(mx.io.NDArrayIter(normalised(images), labels.astype(np.float32), BATCH, shuffle=shuffle), len(images))


def gluon_rows(row):
    images, labels = cifar()
    return Gluon(row, gluon.data.ArrayDataset(mx.nd.array(normalised(images)), labels.astype(np.float32)))


def ids_iter():
    ids, labels = review_ids()
    data = mx.nd.array(ids, dtype="int32")
    return Iter(mx.io.NDArrayIter(data, labels.astype(np.float32), BATCH, shuffle=True), len(ids))


def ids_gluon(row):
    ids, labels = review_ids()
    return Gluon(row, gluon.data.ArrayDataset(mx.nd.array(ids, dtype="int32"), labels.astype(np.float32)))


def record_iter(row):
    named = {}
    for channel, mean, std in zip("rgb", MEAN, STD):
        named["mean_" + channel], named["std_" + channel] = mean * 255, std * 255
    iterator = mx.io.ImageRecordIter(
        path_imgrec=scratch("cifar.rec"), path_imgidx=scratch("cifar.idx"), data_shape=(3, 32, 32), batch_size=BATCH,
        shuffle=True, pad=4, fill_value=0, rand_crop=True, rand_mirror=True, preprocess_threads=row.threads,
        prefetch_buffer=2, device_id=-1, ctx="cpu", **named)
    return Iter(iterator, 50000)


def photos(row):
    contestant = Iter(photo_mxnet.iterator(row), len(listed()))
    contestant.rests = True
    return contestant


def prepare():
    """CIFAR-10 as PNG records: the one form in which ImageRecordIter takes it without loss."""
    if os.path.exists(scratch("cifar.idx")):
        return
    images, labels = cifar("nhwc")
    writer = mx.recordio.MXIndexedRecordIO(scratch("cifar.part.idx"), scratch("cifar.rec"), "w")
    for i, image in enumerate(images):
        header = mx.recordio.IRHeader(0, float(labels[i]), i, 0)
        writer.write_idx(i, mx.recordio.pack_img(header, image[:, :, ::-1], quality=1, img_fmt=".png"))
    writer.close()
    os.rename(scratch("cifar.part.idx"), scratch("cifar.idx"))


main("mxnet", {
    "ndarrayiter": lambda row: ndarrayiter(True),
    "ndarrayiter-ordered": lambda row: ndarrayiter(False),
    "gluon-rows": gluon_rows,
    "gluon-u8": lambda row: Gluon(row, images_of_nd()),
    "gluon": lambda row: Gluon(row, Views()),
    "gluon-pool2": lambda row: Gluon(row, Views(), thread_pool=True),
    "gluon-aug": lambda row: Gluon(row, images_of_nd(PaddedCrop(), transforms.RandomFlipLeftRight())),
    "record": record_iter,
    "ids": lambda row: ids_iter(),
    "ids-gluon": ids_gluon,
    "photos": photos,
    "records": lambda row: photo_mxnet.Records(False),
    "records-unpack": lambda row: photo_mxnet.Records(True),
    "records-unpack-warm": lambda row: photo_mxnet.Records(True),
    **step_mxnet.MAKE,
}, prepare)

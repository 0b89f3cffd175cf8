"""PyTorch: its DataLoader (per sample, vectorised by BatchSampler and by __getitems__), and batches made by hand."""
import numpy as np
import torch
from torch.utils.data import BatchSampler, DataLoader, Dataset, RandomSampler, TensorDataset

import photo_torch
import step_torch
from peer_common import BATCH, MEAN, STD, Contestant, cifar, main, normalised, review_ids, touch_address

MINUS, TIMES = torch.tensor(MEAN).view(3, 1, 1) * 255, 1 / (torch.tensor(STD).view(3, 1, 1) * 255)
MEANS, STDS = torch.tensor(MEAN).view(3, 1, 1), torch.tensor(STD).view(3, 1, 1)


class Tensors(Contestant):
    def touch(self, data):
        touch_address(data.data_ptr(), data.nbytes)

    def to_numpy(self, data):
        return np.array(data)


class Loader(Tensors):
    def __init__(self, row, dataset, **options):
        options = options or {"batch_size": BATCH, "shuffle": True}
        self.size = len(dataset)
        self.loader = DataLoader(dataset, num_workers=row.workers, persistent_workers=row.workers > 0, **options)

    def epoch(self):
        for data, labels in self.loader:
            yield data, labels, len(data)


class Samples(Dataset):
    """Map-style: an image at a time, by `transform` or normalised as the tutorials do."""

    def __init__(self, transform=None):
        self.images, self.labels = cifar()
        self.transform = transform

    def __len__(self):
        return len(self.images)

    def __getitem__(self, i):
        image = torch.from_numpy(self.images[i])
        if self.transform:
            return self.transform(image), int(self.labels[i])
        return image.float().div_(255).sub_(MEANS).div_(STDS), int(self.labels[i])


class Batches(Dataset):
    """A batch at a time, from a list of indices."""

    def __init__(self):
        images, labels = cifar()
        self.images, self.labels = torch.from_numpy(images), torch.from_numpy(labels)

    def __len__(self):
        return len(self.images)

    def __getitem__(self, rows):
        return self.images[rows].float().sub_(MINUS).mul_(TIMES), self.labels[rows]

    __getitems__ = __getitem__


class Hand(Tensors):
    """index_select, float, normalise, all in place; `augment` what comes out of it."""

    def __init__(self, augment=None):
        images, labels = cifar()
        self.images, self.labels, self.augment = torch.from_numpy(images), torch.from_numpy(labels), augment
        self.size = len(images)

    def epoch(self):
        permutation = torch.randperm(self.size)
        for i in range(0, self.size, BATCH):
            rows = permutation[i:i + BATCH]
            yield self.convert(rows), self.labels[rows], len(rows)

    def convert(self, rows):
        data = self.images.index_select(0, rows).float().sub_(MINUS).mul_(TIMES)
        return self.augment(data) if self.augment else data


class HandOut(Hand):
    """The same into buffers that are reused: nothing is allocated."""

    def __init__(self):
        super().__init__()
        self.pixels = torch.empty((BATCH,) + self.images.shape[1:], dtype=torch.uint8)
        self.out = torch.empty(self.pixels.shape)

    def convert(self, rows):
        pixels, out = self.pixels[:len(rows)], self.out[:len(rows)]
        torch.index_select(self.images, 0, rows, out=pixels)
        torch.sub(pixels, MINUS, out=out)
        return out.mul_(TIMES)


@torch.compile(dynamic=False)
def normalise_into(out, pixels):
    out.copy_((pixels.float() - MINUS) * TIMES)


class HandCompiled(HandOut):
    """index_select, which is faster than what the compiler makes of a gather, and one compiled pass after it."""

    def convert(self, rows):
        pixels, out = self.pixels[:len(rows)], self.out[:len(rows)]
        torch.index_select(self.images, 0, rows, out=pixels)
        normalise_into(out, pixels)
        return out


class Ids(Tensors):
    def __init__(self, data, labels):
        self.data, self.labels, self.size = data, labels, len(data)

    def epoch(self):
        permutation = torch.randperm(self.size)
        for i in range(0, self.size, BATCH):
            rows = permutation[i:i + BATCH]
            yield self.pick(rows), self.labels[rows], len(rows)

    def pick(self, rows):
        return self.data[rows]


class IdsOut(Ids):
    def __init__(self, data, labels):
        super().__init__(data, labels)
        self.out = torch.empty((BATCH,) + data.shape[1:], dtype=data.dtype)

    def pick(self, rows):
        return torch.index_select(self.data, 0, rows, out=self.out[:len(rows)])


def by_masks(images, pad=4):
    """The way of airbench: for each offset a copy of the rows that drew it, vertically and then horizontally."""
    n, offsets = len(images), range(2 * pad + 1)
    mirrored = (torch.rand(n) < .5).view(-1, 1, 1, 1)
    images = torch.nn.functional.pad(torch.where(mirrored, images.flip(-1), images), (pad,) * 4)
    tall, out = torch.empty(n, 3, 32, 32 + 2 * pad), torch.empty(n, 3, 32, 32)
    top, left = torch.randint(0, 2 * pad + 1, (2, n))
    for k in offsets:
        drew = top == k
        tall[drew] = images[drew, :, k:k + 32]
    for k in offsets:
        drew = left == k
        out[drew] = tall[drew, :, :, k:k + 32]
    return out


def by_gather(images, pad=4):
    """One gather; the mirroring is in the order of its columns."""
    n, range32 = len(images), torch.arange(32)
    images = torch.nn.functional.pad(images, (pad,) * 4)
    rows = torch.randint(0, 2 * pad + 1, (n, 1)) + range32
    columns = torch.where(torch.rand(n, 1) < .5, range32.flip(0), range32) + torch.randint(0, 2 * pad + 1, (n, 1))
    return images[torch.arange(n).view(n, 1, 1, 1), torch.arange(3).view(1, 3, 1, 1), rows.view(n, 1, 32, 1),
                  columns.view(n, 1, 1, 32)]


def v2(row):
    import torchvision.transforms.v2 as T
    steps = [T.RandomCrop(32, padding=4), T.RandomHorizontalFlip(), T.ToDtype(torch.float32, scale=True),
             T.Normalize(MEAN, STD)]
    return Loader(row, Samples(T.Compose(steps)))


def photos(row):
    loader = Loader(row, photo_torch.files(row))
    loader.rests = True
    return loader


def ready(row):
    images, labels = cifar()
    return Loader(row, TensorDataset(torch.from_numpy(normalised(images)), torch.from_numpy(labels)))


def sampler(row):
    batches = Batches()
    return Loader(row, batches, sampler=BatchSampler(RandomSampler(range(len(batches))), BATCH, False), batch_size=None)


def ids():
    return [torch.from_numpy(array) for array in review_ids()]


def threads(make):
    def with_threads(row):
        torch.set_num_threads(row.threads)
        return make(row)
    return with_threads


main("torch", {name: threads(make) for name, make in {
    "map": lambda row: Loader(row, Samples()),
    "rows": ready,
    "sampler": sampler,
    "getitems": lambda row: Loader(row, Batches(), batch_size=BATCH, shuffle=True, collate_fn=lambda batch: batch),
    "hand": lambda row: Hand(),
    "hand-out": lambda row: HandOut(),
    "hand-compiled": lambda row: HandCompiled(),
    "masks": lambda row: Hand(by_masks),
    "gather": lambda row: Hand(by_gather),
    "v2": v2,
    "ids-hand": lambda row: Ids(*ids()),
    "ids-out": lambda row: IdsOut(*ids()),
    "ids": lambda row: Loader(row, TensorDataset(*ids())),
    "io-noaa": photos,
    "io-aa": photos,
    "pil": photos,
    "resize": lambda row: photo_torch.Resized(),
    **step_torch.MAKE,
}.items()})

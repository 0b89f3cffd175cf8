"""Photos for the peers: their list, their packed forms, windows to cut out; and the records and images of R1 and Z1.

A check is made over charts instead (see draw_chart): pictures in which each pixel says where it lies and in which picture.
"""
import math
import os
import random
import struct
import sys
import tarfile

import numpy as np

from contestants import PHOTO_MEAN, PHOTO_STD
from peer_common import BATCH, DATA, Contestant, scratch

SET = "charts" if sys.argv[1:2] == ["check"] else "photos"
SIDE, SCALE, RATIO, TRIES = 224, (.08, 1.), (3 / 4, 4 / 3), 10
MEAN_255, STD_255 = [255 * m for m in PHOTO_MEAN], [255 * s for s in PHOTO_STD]
N_CHARTS, CHART_HEIGHT, CHART_WIDTH, CHART_NOISE = 40, 1100, 900, 43
N_STILLS, STILL_HEIGHT, STILL_WIDTH = 96, 533, 400
MAGIC = 0xced7230a  # of a RecordIO record


# ---- List ----------------------------------------------------------------------------------------------------------

def photo_names():
    """(class, name) of each photo; the parts of the set one after the other."""
    root = os.path.join(DATA, "clothing")
    parts = sorted(d for d in os.listdir(root) if os.path.isdir(os.path.join(root, d)))
    classes = sorted({c for part in parts for c in os.listdir(os.path.join(root, part))})
    return [(label, os.path.join(part, c, name)) for part in parts for label, c in enumerate(classes)
            if os.path.isdir(os.path.join(root, part, c))
            for name in sorted(os.listdir(os.path.join(root, part, c))) if name.endswith(".jpg")]


def root_of(name):
    return os.path.join(DATA, "clothing") if name == "photos" else scratch("charts")


def packed(ending, name=None):
    return scratch("%s.%s" % (name or SET, ending))


def listed(name=None):
    """(path, class) of all samples of an epoch."""
    with open(packed("lst", name)) as file:
        lines = [line.rstrip("\n").split("\t") for line in file]
    return [(os.path.join(root_of(name or SET), path), int(label)) for _, label, path in lines]


# ---- Packed forms --------------------------------------------------------------------------------------------------

def write_list(name, items):
    with open(packed("lst.part", name), "w") as file:
        for i, (label, path) in enumerate(items):
            file.write("%d\t%d\t%s\n" % (i, label, path))
    os.rename(packed("lst.part", name), packed("lst", name))


def contents(name):
    """(bytes, class) of the files of a list."""
    for path, label in listed(name):
        with open(path, "rb") as file:
            yield file.read(), label


def write_records(name, contents):
    """The bytes that MXNet's im2rec --pass-through writes, and its index."""
    with open(packed("rec", name), "wb") as records, open(packed("idx.part", name), "w") as index:
        for i, (content, label) in enumerate(contents):
            payload = struct.pack("<IfQQ", 0, label, i, 0) + content
            at = payload.find(struct.pack("<I", MAGIC))
            while at >= 0:  # MXNet would split such a record
                assert at % 4, "a record holds the magic number"
                at = payload.find(struct.pack("<I", MAGIC), at + 1)
            index.write("%d\t%d\n" % (i, records.tell()))
            records.write(struct.pack("<II", MAGIC, len(payload)) + payload + bytes(-len(payload) % 4))
    os.rename(packed("idx.part", name), packed("idx", name))


def write_tar(name):
    with tarfile.open(packed("tar.part", name), "w") as archive:
        for i, (path, label) in enumerate(listed(name)):
            archive.add(path, "%d/%06d.jpg" % (label, i))
    os.rename(packed("tar.part", name), packed("tar", name))


def draw_chart(i):
    """Red grows from left to right, green from top to bottom, blue says which chart it is, by its mean, under a noise that
    a resize with antialias takes away."""
    chart = np.empty((CHART_HEIGHT, CHART_WIDTH, 3))
    chart[:, :, 0] = (np.arange(CHART_WIDTH) + .5) / CHART_WIDTH * 255
    chart[:, :, 1] = ((np.arange(CHART_HEIGHT) + .5) / CHART_HEIGHT * 255)[:, None]
    noise = np.random.RandomState(i).uniform(-CHART_NOISE, CHART_NOISE, chart.shape[:2])
    chart[:, :, 2] = chart_blue(i) + noise - noise.mean()
    return np.rint(chart).clip(0, 255).astype(np.uint8)


def chart_blue(i):
    return 46 + 4 * i


def stills():
    """u8 [96, 533, 400, 3]: noise. What is in an image makes no difference to a resize."""
    return np.random.RandomState(1).randint(0, 256, (N_STILLS, STILL_HEIGHT, STILL_WIDTH, 3), np.uint8)


def prepare(draw=None):
    """Makes what is not there; draw(array, path) writes a JPEG: charts are drawn by the family that can."""
    if not os.path.exists(packed("lst", "photos")):
        write_list("photos", photo_names() * 4)  # so that an epoch lasts
    if draw and not os.path.exists(packed("lst", "charts")):
        os.makedirs(root_of("charts"), exist_ok=True)
        for i in range(N_CHARTS):
            draw(draw_chart(i), os.path.join(root_of("charts"), "%02d.jpg" % i))
        write_list("charts", [(i % 10, "%02d.jpg" % i) for i in range(N_CHARTS)] * 8)
    for name in ("photos", "charts"):
        if os.path.exists(packed("lst", name)):
            if not os.path.exists(packed("idx", name)):
                write_records(name, contents(name))
            if not os.path.exists(packed("tar", name)):
                write_tar(name)
    if not os.path.exists(packed("idx", "stills")):
        write_records("stills", ((still.tobytes(), 0) for still in stills()))
    for path, _ in listed("photos"):  # into the page cache
        with open(path, "rb") as file:
            file.read()


# ---- By hand -------------------------------------------------------------------------------------------------------

def draw_window(width, height):
    """left, top, width, height, as torchvision's RandomResizedCrop draws them."""
    for _ in range(TRIES):
        area = width * height * random.uniform(*SCALE)
        ratio = math.exp(random.uniform(math.log(RATIO[0]), math.log(RATIO[1])))
        w, h = round(math.sqrt(area * ratio)), round(math.sqrt(area / ratio))
        if 0 < w <= width and 0 < h <= height:
            return random.randint(0, width - w), random.randint(0, height - h), w, h
    w, h = width, height
    if width / height < RATIO[0]:
        h = round(width / RATIO[0])
    elif width / height > RATIO[1]:
        w = round(height * RATIO[1])
    return (width - w) // 2, (height - h) // 2, w, h


_TIMES, _MINUS = [1 / s for s in STD_255], [m / s for m, s in zip(MEAN_255, STD_255)]


def normalise_into(out, image):
    """u8 HWC to one row of f32 NCHW, a channel at a time."""
    for c in range(3):
        np.multiply(image[:, :, c], np.float32(_TIMES[c]), out=out[c])
        out[c] -= np.float32(_MINUS[c])


class Photos(Contestant):
    """Rests between two answers, see peer_common."""
    rests = True

    def __init__(self):
        self.files = listed()
        self.size = len(self.files)


class PhotosByHand(Photos):
    """load(path) answers a window of the photo as u8 [224, 224, 3]."""

    def __init__(self, load):
        super().__init__()
        self.load = load

    def epoch(self):
        random.shuffle(self.files)
        for i in range(0, self.size, BATCH):
            files = self.files[i:i + BATCH]
            data = np.empty((len(files), 3, SIDE, SIDE), np.float32)
            for row, (path, _) in zip(data, files):
                image = self.load(path)
                normalise_into(row, image[:, ::-1] if random.random() < .5 else image)
            yield data, np.array([label for _, label in files]), len(files)


class Stills(Contestant):
    """resize(image) of one image after the other; `images` in the form that resize takes."""

    def __init__(self, images, resize):
        self.images, self.resize, self.size = images, resize, len(images)

    def epoch(self):
        for i in range(0, self.size, BATCH):
            images = self.images[i:i + BATCH]
            yield [self.resize(image) for image in images], None, len(images)

    def touch(self, data):
        pass

    def to_numpy(self, data):
        return np.stack([np.asarray(image) for image in data])

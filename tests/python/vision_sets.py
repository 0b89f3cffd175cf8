"""Datasets as torchvision makes them, for the tests: of real files in ITER_DATA, else of random pixels.

torchvision reads CIFAR's Python version only, and checks its sums. So an object is made without its
constructor, and gets the attributes that the constructor would set."""

import gzip
import os
import unittest

try:
    import numpy as np
    import torch
    import torchvision
    from PIL import Image
    from torchvision import datasets
except ImportError as missing:
    raise unittest.SkipTest("no %s" % missing.name) from None
try:
    import libiter  # noqa: F401
except ImportError as missing:
    raise unittest.SkipTest(str(missing)) from None

ROOT = os.environ.get("ITER_DATA", "")


def _made(kind, data, targets):
    made = kind.__new__(kind)
    made.root, made.train, made.transform, made.target_transform, made.transforms = "", True, None, None, None
    made.data, made.targets = data, targets
    return made


def cifar(n=200, kind=datasets.CIFAR10, seed=0):
    """n images u8 [n, 32, 32, 3], in memory as planes, which is how torchvision has them."""
    path = os.path.join(ROOT, "cifar-10-batches-bin", "test_batch.bin")
    if os.path.exists(path) and n <= 10000:
        raw = np.fromfile(path, np.uint8, n * 3073).reshape(-1, 3073)
        labels, planes = raw[:, 0], np.ascontiguousarray(raw[:, 1:])
    else:
        draw = np.random.default_rng(seed)
        labels, planes = draw.integers(0, 10, n), draw.integers(0, 256, (n, 3072), dtype=np.uint8)
    return _made(kind, planes.reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1), [int(label) for label in labels])


def mnist(n=200, kind=datasets.MNIST):
    """n images u8 [n, 28, 28]."""
    path = os.path.join(ROOT, "mnist", "t10k-%s-ubyte.gz")
    if os.path.exists(path % "images-idx3"):
        with gzip.open(path % "images-idx3") as file:
            pixels = np.frombuffer(file.read()[16:], np.uint8).reshape(-1, 28, 28)[:n].copy()
        with gzip.open(path % "labels-idx1") as file:
            labels = np.frombuffer(file.read()[8:], np.uint8)[:n].copy()
    else:
        draw = np.random.default_rng(1)
        pixels, labels = draw.integers(0, 256, (n, 28, 28), dtype=np.uint8), draw.integers(0, 10, n, dtype=np.uint8)
    return _made(kind, torch.from_numpy(pixels), torch.from_numpy(labels).long())


def photo(draw, height, width):
    """A smooth picture with noise, so that codecs and filters have something to do."""
    y, x = np.mgrid[0:height, 0:width]
    waves = [np.sin(x / draw.uniform(3, 20) + draw.uniform(0, 6)) * np.cos(y / draw.uniform(3, 20)) for _ in range(3)]
    return Image.fromarray(
        (np.stack(waves, -1) * 100 + 128 + draw.normal(0, 8, (height, width, 3))).clip(0, 255).astype(np.uint8)
    )


def photos(folder, n=12, seed=2):
    """Photos of several sizes and kinds in three classes, with names that are awkward to sort and to write."""
    draw = np.random.default_rng(seed)
    names = [
        "b 1.jpg",
        "a.JPEG",
        "B.png",
        ".hidden.jpg",
        "sub/z.jpg",
        "sub/.more/q.png",
        'quote"?&=|.webp',
        "\u00e9t\u00e9.jpg",
        "10.jpg",
        "9.jpg",
    ]
    for c, kind in enumerate(["zebra", "Ant", ".dots"]):
        for i in range(n // 3):
            path = os.path.join(folder, kind, names[(i * 3 + c * 5) % len(names)])
            os.makedirs(os.path.dirname(path), exist_ok=True)
            image = photo(draw, int(draw.integers(60, 160)), int(draw.integers(60, 160)))
            more = {"quality": 90} if not path.lower().endswith("png") else {}
            (image.convert("L") if i == 1 else image).save(path, **more)
    return folder


__all__ = ["Image", "ROOT", "cifar", "datasets", "mnist", "np", "photo", "photos", "torch", "torchvision"]

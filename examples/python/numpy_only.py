"""numpy_only.py - trains a linear classifier with nothing but NumPy: on generated arrays, or on the files of a spec.

    python numpy_only.py [cifar10:DIR]
"""
import sys

import numpy as np

import libiter


def generated(n=4000, classes=10, seed=0):
    """u8 images, a pattern for each class under noise; and labels."""
    random = np.random.default_rng(seed)
    patterns = np.random.default_rng(99).integers(64, 192, (classes, 3, 32, 32))
    labels = random.integers(0, classes, n)
    images = patterns[labels] + random.normal(0, 40, (n, 3, 32, 32))
    return images.clip(0, 255).astype(np.uint8), labels


def loaders():
    chain = "normalize:mean=0.5,std=0.25 | to:f32,nchw"
    if len(sys.argv) > 1:
        train, test, layout = sys.argv[1], sys.argv[1] + "?split=test", None
    else:
        train, test, layout = generated(4000), generated(1000, seed=1), "NCHW"
    yield libiter.Loader(train, chain, layout=layout, batch_size=100, shuffle=True, seed=1, workers=1)
    yield libiter.Loader(test, chain, layout=layout, batch_size=100)


def scores(weights, images):
    return images.reshape(len(images), -1) @ weights  # a view of the loader's memory: nothing was copied


def accuracy(weights, loader):
    right = [(scores(weights, images).argmax(1) == labels).mean() for images, labels in loader]
    return float(np.mean(right))


train, test = loaders()
weights = np.zeros((3 * 32 * 32, 10), np.float32)
print("before: %.2f" % accuracy(weights, test))
for epoch in range(2):
    for images, labels in train:
        logits = scores(weights, images)
        chance = np.exp(logits - logits.max(1, keepdims=True))
        chance /= chance.sum(1, keepdims=True)
        chance[np.arange(len(labels)), labels] -= 1
        weights -= 1e-3 / len(labels) * (images.reshape(len(images), -1).T @ chance)
print("after: %.2f" % accuracy(weights, test))

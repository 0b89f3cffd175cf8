"""first_batch.py - the smallest loop: a dataset, a chain, batches. The README shows it.

    python first_batch.py [cifar10:DIR]
"""
import sys

import libiter

loader = libiter.Loader(sys.argv[1] if len(sys.argv) > 1 else "synthetic:cifar10",
                        "random-crop:size=32,pad=4 | random-flip | to:f32,nchw",
                        batch_size=64, shuffle=True, workers=2, seed=7)
for epoch in range(2):
    for images, labels in loader:  # float32 [64, 3, 32, 32], uint8 [64]
        brightness = images.mean()  # your training step
    print("epoch %d: %d batches, the last of %d images: %.1f" % (epoch, len(loader), len(labels), brightness))

"""notebook_profile.py - where does the time go? A few cells' worth: a table here, a trace for Perfetto.

    python notebook_profile.py [cifar10:DIR [TRACE.json]]
"""
import sys

import numpy as np

import libiter

spec = sys.argv[1] if len(sys.argv) > 1 else "synthetic:cifar10"
trace = sys.argv[2] if len(sys.argv) > 2 else ""  # "" = no file

# ---- The loop ----
loader = libiter.Loader(spec, "random-crop:size=32,pad=4 | to:f32,nchw", batch_size=64, shuffle=True, workers=1)
weights = np.random.default_rng(0).normal(size=(3072, 64)).astype(np.float32)


def train(images):
    with libiter.scope("forward"):
        hidden = images.reshape(len(images), -1) @ weights
    with libiter.scope("activation"):
        return np.maximum(hidden, 0)


# ---- Profile a hundred steps of it ----
with libiter.profile(trace) as p:
    for step, (images, labels) in enumerate(loader):
        train(images)
        if step == 99:
            break

# ---- next: the wait for a batch. user: our own scopes. ----
print(p.table(sort_by="total"))

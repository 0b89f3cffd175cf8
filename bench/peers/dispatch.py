"""What a loader in Python spends on a sample besides its bytes: rows of 8 floats, where copying is nothing, and rows of 1,000.

    python dispatch.py mxnet|torch      with the Python of that peer's environment; one line a row size, microseconds a sample

A sample has two fields, data and label. `item` is dataset[i] alone, `collate` putting 256 of them together, `loader` a DataLoader without workers, `copy` the same rows
stacked by NumPy.
"""
import sys
import time

import numpy as np

BATCH, ROWS, TURNS = 256, 20480, 7


def of_mxnet(data, label):
    import mxnet as mx
    from mxnet.gluon.data.dataloader import default_batchify_fn
    set_ = mx.gluon.data.ArrayDataset(mx.nd.array(data), mx.nd.array(label))
    return set_, mx.gluon.data.DataLoader(set_, BATCH), default_batchify_fn, mx.nd.waitall


def of_torch(data, label):
    import torch
    from torch.utils.data import DataLoader, TensorDataset, default_collate
    torch.set_num_threads(1)
    set_ = TensorDataset(torch.from_numpy(data), torch.from_numpy(label))
    return set_, DataLoader(set_, BATCH), default_collate, lambda: None


def microseconds(run, samples, wait):
    """Median over turns."""
    took = []
    for _ in range(TURNS):
        wait()
        start = time.perf_counter()
        run()
        wait()
        took.append((time.perf_counter() - start) / samples * 1e6)
    return sorted(took)[TURNS // 2]


def main(peer):
    label = np.zeros(ROWS, np.float32)
    for width in (8, 1000):
        data = np.random.rand(ROWS, width).astype(np.float32)
        set_, loader, collate, wait = {'mxnet': of_mxnet, 'torch': of_torch}[peer](data, label)
        few = [[set_[i] for i in range(b * BATCH, (b + 1) * BATCH)] for b in range(20)]
        rows = [[data[i] for i in range(b * BATCH, (b + 1) * BATCH)] for b in range(20)]
        print('%s, rows of %d f32: item %.2f collate %.2f loader %.2f copy %.2f us' % (
            peer, width, microseconds(lambda: [set_[i] for i in range(ROWS)], ROWS, wait),
            microseconds(lambda: [collate(f) for f in few], 20 * BATCH, wait), microseconds(lambda: [None for _ in loader], ROWS, wait),
            microseconds(lambda: [np.stack(r) for r in rows], 20 * BATCH, wait)), flush=True)


main(sys.argv[1])

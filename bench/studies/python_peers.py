#!/usr/bin/env python3
"""libiter in Python beside other loaders for Python, each with the same job, in turns.

    python_peers.py --iterbench FILE --data CIFAR_DIR [--only REGEX] [--pairs N] [--slice S] [--out FILE.md]
    python_peers.py serve NAME WORKERS CIFAR_DIR        # one of them: answers "run N" by "samples seconds"

The job: CIFAR-10 in memory, shuffled, a random 32x32 crop out of 4 pixels of zero padding, a random flip, normalised f32 NCHW,
batches of 64 as torch tensors (grain, SPDL: numpy). The consumer of all of them reads a byte of each cache line in C. Without workers both
sides have one core, with two workers both have two. An epoch's start belongs to its first batch. The interpreter needs numpy, torch,
torchvision, and grain and spdl for their rows; LIBITER_LIBRARY and PYTHONPATH say where libiter is.
"""
import argparse
import ctypes
import json
import multiprocessing
import os
import re
import shlex
import subprocess
import sys
import tempfile
import time

import numpy as np

BATCH, MEAN, STD = 64, (0.4914, 0.4822, 0.4465), (0.2470, 0.2435, 0.2616)
ROWS = [  # name, workers, in words
    ("torch", 0, "torchvision v2 transforms in a DataLoader, num_workers=0"),
    ("torch", 2, "the same, num_workers=2"),
    ("torch-pil", 0, "the same with PIL images, as torchvision.datasets.CIFAR10 gives them, num_workers=0"),
    ("torch-pil", 2, "the same, num_workers=2"),
    ("hand", 0, "torch by hand, a whole batch by one gather"),
    ("grain", 0, "grain: numpy per sample, no read threads"),
    ("grain", 2, "grain: mp_prefetch with 2 worker processes"),
    ("spdl", 2, "SPDL: numpy, a whole batch at once, in 2 threads"),
]
MINUS = np.float32(MEAN).reshape(3, 1, 1) * 255
TIMES = 1 / (np.float32(STD).reshape(3, 1, 1) * 255)


def cifar(folder):
    records = np.concatenate([np.fromfile(os.path.join(folder, "data_batch_%d.bin" % i), np.uint8) for i in range(1, 6)])
    records = records.reshape(-1, 3073)
    return np.ascontiguousarray(records[:, 1:].reshape(-1, 3, 32, 32)), records[:, 0].astype(np.int64)


def cut(image, random):
    """One sample by numpy."""
    y, x, flip = random.integers(0, 9), random.integers(0, 9), random.integers(0, 2)
    padded = np.zeros((3, 40, 40), np.float32)
    padded[:, 4:36, 4:36] = (image.astype(np.float32) - MINUS) * TIMES
    image = padded[:, y:y + 32, x:x + 32]
    return np.ascontiguousarray(image[:, :, ::-1] if flip else image)


class Samples:
    """What grain and torch index."""

    def __init__(self, images, labels, change=None):
        self.images, self.labels, self.change = images, labels, change

    def __len__(self):
        return len(self.images)

    def __getitem__(self, i):
        image = self.images[i]
        return (self.change(image) if self.change else image), int(self.labels[i])


# ---- The loaders: each gives an endless stream of (data, samples) ----


def libiter_stream(workers, folder):
    import libiter

    numbers = [";".join("%.4f" % x for x in row) for row in (MEAN, STD)]
    chain = "random-crop:size=32,pad=4 | random-flip | normalize:mean=%s,std=%s | to:f32,nchw" % tuple(numbers)
    loader = libiter.Loader("cifar10:" + folder, chain, batch_size=BATCH, shuffle=True, workers=workers, output="torch")
    while True:
        for images, labels in loader:
            yield images, len(labels)


def torch_stream(workers, folder, pil=False):
    import torch
    from torch.utils.data import DataLoader
    from torchvision.transforms import v2

    torch.set_num_threads(1)
    images, labels = cifar(folder)
    steps = [v2.RandomCrop(32, padding=4), v2.RandomHorizontalFlip()]
    if pil:
        from PIL import Image

        samples, first = images.transpose(0, 2, 3, 1).copy(), [Image.fromarray, *steps, v2.ToImage()]
    else:
        samples, first = torch.from_numpy(images), steps
    change = v2.Compose([*first, v2.ToDtype(torch.float32, scale=True), v2.Normalize(MEAN, STD)])
    loader = DataLoader(Samples(samples, labels, change), BATCH, shuffle=True, num_workers=workers, persistent_workers=workers > 0)
    while True:
        for data, label in loader:
            yield data, len(label)


def hand_stream(workers, folder):
    import torch

    torch.set_num_threads(1)
    images, labels = map(torch.from_numpy, cifar(folder))
    minus, times = torch.from_numpy(MINUS), torch.from_numpy(TIMES)
    along = torch.arange(32)
    while True:
        for rows in torch.randperm(len(images)).split(BATCH):
            n = len(rows)
            some = torch.nn.functional.pad(images.index_select(0, rows).float().sub_(minus).mul_(times), (4,) * 4)
            y = torch.randint(0, 9, (n, 1)) + along
            x = torch.where(torch.rand(n, 1) < 0.5, along.flip(0), along) + torch.randint(0, 9, (n, 1))
            at = torch.arange(n).view(n, 1, 1, 1), torch.arange(3).view(1, 3, 1, 1), y.view(n, 1, 32, 1), x.view(n, 1, 1, 32)
            yield some[at], len(labels[rows])


def grain_stream(workers, folder):
    import grain
    from absl import flags

    flags.FLAGS.mark_as_parsed()
    images, labels = cifar(folder)
    data = grain.MapDataset.source(Samples(images, labels)).seed(1).shuffle().repeat(None)
    data = data.random_map(lambda sample, random: (cut(sample[0], random), sample[1])).batch(BATCH)
    data = data.to_iter_dataset(grain.ReadOptions(num_threads=0 if not workers else 1, prefetch_buffer_size=0 if not workers else 16))
    if workers:
        data = data.mp_prefetch(grain.MultiprocessingOptions(num_workers=workers, per_worker_buffer_size=4))
    for some, label in data:
        yield some, len(label)


def spdl_stream(workers, folder):
    from spdl.pipeline import PipelineBuilder

    images, labels = cifar(folder)
    windows = np.lib.stride_tricks.sliding_window_view(np.pad(images, ((0, 0), (0, 0), (4, 4), (4, 4))), (32, 32), axis=(2, 3))
    random = np.random.default_rng(1)

    def indices():
        while True:
            order = random.permutation(len(images))
            yield from (order[i:i + BATCH] for i in range(0, len(order), BATCH))

    def make(rows):
        own = np.random.default_rng(rows[0])
        y, x = own.integers(0, 9, (2, len(rows)))
        some, flip = windows[rows, :, y, x], own.random(len(rows)) < 0.5
        some[flip] = some[flip, :, :, ::-1]
        out = some.astype(np.float32)
        out -= MINUS
        out *= TIMES
        return out, labels[rows]

    pipeline = PipelineBuilder().add_source(indices()).pipe(make, concurrency=workers).add_sink(4).build(num_threads=workers)
    with pipeline.auto_stop():
        for some, label in pipeline:
            yield some, len(label)


STREAMS = {"libiter": libiter_stream, "torch": torch_stream, "hand": hand_stream, "grain": grain_stream, "spdl": spdl_stream,
           "torch-pil": lambda workers, folder: torch_stream(workers, folder, True)}


# ---- One of them, behind the protocol ----


def serve(name, workers, folder):
    touch = ctypes.CDLL(os.environ["PYTHON_PEERS_TOUCH"]).iter_peer_touch
    touch.argtypes, touch.restype = (ctypes.c_void_p, ctypes.c_size_t), ctypes.c_uint
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    stream = STREAMS[name](workers, folder)
    data, _ = next(stream)
    assert tuple(data.shape) == (BATCH, 3, 32, 32) and "float32" in str(data.dtype) and abs(float(data.mean())) < 0.5, data
    del data
    for line in iter(sys.stdin.readline, ""):
        if line == "quit\n":
            break
        wanted, samples, begin = int(line.split()[1]), 0, time.perf_counter()
        for _ in range(wanted):
            data, n = next(stream)
            touch(data.data_ptr() if hasattr(data, "data_ptr") else data.__array_interface__["data"][0], data.nbytes)
            samples += n
            del data
        answers.write("%d %.9f\n" % (samples, time.perf_counter() - begin))
        answers.flush()
    for child in multiprocessing.active_children():
        child.kill()
    os._exit(0)


# ---- All of them ----


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--iterbench", required=True)
    parser.add_argument("--data", required=True)
    parser.add_argument("--only", default="")
    parser.add_argument("--pairs", type=int, default=15)
    parser.add_argument("--slice", type=float, default=0.25)
    parser.add_argument("--out")
    a = parser.parse_args()
    lines = [
        "| peer | workers | peer, samples/s | libiter, samples/s | libiter / peer | pairs |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    with tempfile.TemporaryDirectory() as folder:
        os.environ["PYTHON_PEERS_TOUCH"] = os.path.join(folder, "touch.so")
        source = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "peers", "touch.c")
        subprocess.run(["cc", "-O2", "-shared", "-fPIC", source, "-o", os.environ["PYTHON_PEERS_TOUCH"]], check=True)
        for name, workers, words in ROWS:
            if not re.search(a.only, "%s-%d" % (name, workers)):
                continue
            sides = []
            for side in (name, "libiter"):
                program = [sys.executable, os.path.abspath(__file__), "serve", side, str(workers), os.path.abspath(a.data)]
                sides.append(shlex.join(["exec", "taskset", "-c", "0,1" if workers else "0", *program]).replace("'exec'", "exec"))
            result = os.path.join(folder, "result.json")
            command = [a.iterbench, "versus", "--pairs", str(a.pairs), "--slice", str(a.slice), "--json", result]
            done = subprocess.run([*command, "--a", sides[0], "--b", sides[1]], check=False, capture_output=True, text=True)
            if done.returncode:
                lines.append("| %s | %d | failed: %s | | | |" % (words, workers, (done.stderr.strip().splitlines() or ["?"])[-1]))
            else:
                with open(result, encoding="utf-8") as file:
                    r = json.load(file)
                factor = "**%.3g** [%.3g, %.3g]" % (r["ratio"]["median"], r["ratio"]["low"], r["ratio"]["high"])
                numbers = (words, workers, r["a"]["samples_per_s"], r["b"]["samples_per_s"], factor, r["ratio"]["pairs"], r["ratio"]["dropped"])
                lines.append("| %s | %d | %.0f | %.0f | %s | %d (%d dropped) |" % numbers)
            print(lines[-1], flush=True)
    if a.out:
        with open(a.out, "w", encoding="utf-8") as file:
            file.write("\n".join(lines) + "\n")


if __name__ == "__main__":
    if sys.argv[1:2] == ["serve"]:
        serve(sys.argv[2], int(sys.argv[3]), sys.argv[4])
    else:
        main()

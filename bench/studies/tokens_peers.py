"""Batches of token windows: libiter against get_batch as nanoGPT has it, and a careful gather.

Usage: PYTHONPATH=python LIBITER_LIBRARY=build/release/libiter.so python tokens_peers.py FILE ROUNDS

FILE is u16 tokens. One process, one thread, batches of 64 x 1,024, inputs and targets. Contestants
alternate; rates are medians, ratios are medians over rounds of libiter's rate and theirs, by the
processor's time and by the clock. i64 is what nanoGPT's get_batch makes, i32 half of it.

    get_batch   a memmap, and for each of 64 drawn places two slices, cast to i64 and stacked by torch
    numpy       one gather of 64 windows of 1,025, then two casts into arrays that are used again
"""
import sys, time

import numpy as np
import torch

import libiter

T, B, BATCHES = 1024, 64, 150
path, rounds = sys.argv[1], int(sys.argv[2])
torch.set_num_threads(1)
rng = np.random.default_rng(2)


def get_batch(dtype):
    tokens = np.memmap(path, dtype=np.uint16, mode="r")
    places = torch.randint(len(tokens) - T, (B,))
    x = torch.stack([torch.from_numpy(tokens[i:i + T].astype(dtype)) for i in places])
    y = torch.stack([torch.from_numpy(tokens[i + 1:i + 1 + T].astype(dtype)) for i in places])
    return x, y


mapped = np.memmap(path, dtype=np.uint16, mode="r")
windows = np.lib.stride_tricks.sliding_window_view(mapped, T + 1)
outs = {d: (np.empty((B, T), d), np.empty((B, T), d)) for d in (np.int32, np.int64)}


def gather(dtype):
    gathered = windows[rng.integers(0, len(windows), B)]
    x, y = outs[dtype]
    np.copyto(x, gathered[:, :-1])
    np.copyto(y, gathered[:, 1:])
    return x, y


def loader(dtype, source):
    name = np.dtype(dtype).name
    return libiter.Loader("tokens:%s?length=%d" % (path, T), "cast:%s | cast:%s,field=label" % (name, name),
                          batch_size=B, shuffle=True, seed=1, workers=0, source=source, last_batch="discard")


def endless(make, *args):
    loaded = make(*args)
    while True:
        for batch in loaded:
            yield batch.data, batch.label


def contestants(dtype):
    memory, ring = endless(loader, dtype, "memory"), endless(loader, dtype, "ring")
    return {"libiter, in memory": lambda: next(memory), "libiter, ring": lambda: next(ring),
            "get_batch": lambda: get_batch(dtype), "numpy": lambda: gather(dtype)}


for dtype in np.int64, np.int32:
    rates = {name: ([], []) for name in contestants(dtype)}
    makers = contestants(dtype)
    for r in range(rounds + 1):
        for name, make in makers.items():
            start, cpu = time.perf_counter(), time.process_time()
            for _ in range(BATCHES):
                make()
            wall, used = time.perf_counter() - start, time.process_time() - cpu
            if r:
                rates[name][0].append(BATCHES * B * T / used)
                rates[name][1].append(BATCHES * B * T / wall)
    print("u16 to %s, %d rounds" % (np.dtype(dtype).name, rounds))
    for name, (cpu, wall) in rates.items():
        text = "  %-20s %7.0f M tokens/s, %7.0f a second of the processor" % (
            name, np.median(wall) / 1e6, np.median(cpu) / 1e6)
        for ours in "libiter, in memory", "libiter, ring":
            if not name.startswith("libiter"):
                text += "; %s %.1fx" % (ours, np.median(np.array(rates[ours][0]) / np.array(cpu)))
        print(text)

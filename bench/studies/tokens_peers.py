"""Batches of token windows: libiter against get_batch as nanoGPT has it, and a careful gather.

Usage: PYTHONPATH=python LIBITER_LIBRARY=build/release/libiter.so python tokens_peers.py FILE ROUNDS

FILE is u16 tokens. One process, one thread, batches of 64 x 1,024, inputs and targets. Contestants
alternate; rates are medians, ratios are medians over rounds of libiter's rate and theirs, by the
processor's time and by the clock. i64 is what nanoGPT's get_batch makes, i32 half of it.

    get_batch    a memmap, and for each of 64 drawn places two slices, cast to i64 and stacked by torch
    numpy        one gather of 64 windows of 1,025, then two casts into arrays that are used again
    torch        the same by torch: index a tensor of tokens by 64 x 1,025 places, two casts
    turboloader  TokenDataLoader over the file (i64 alone)
    grain        a random-access source of windows, shuffled, batched, two slices cast per row
    litdata      its TokensLoader over chunks of 2^20 tokens that its optimize() made, shuffled, batched
                 by its loader without workers; i64 by a cast
    megatron     its IndexedDataset over the same tokens as one document, get(0, offset, 1,025) per row

The last four take part if they are installed.
"""
import os, sys, tempfile, time, warnings

import numpy as np
import torch

import libiter

warnings.filterwarnings("ignore")
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


by_torch = torch.from_numpy(mapped.view(np.int16))  # torch indexes no u16
steps = torch.arange(T + 1)


def torch_gather(dtype):
    places = torch.randint(len(mapped) - T, (B, 1))
    gathered = by_torch[places + steps].to(torch.int32) & 0xffff
    if dtype == np.int64:
        gathered = gathered.to(torch.int64)
    return gathered[:, :-1].contiguous(), gathered[:, 1:].contiguous()


def forever(loader):
    while True:
        yield from loader


def turbo_batches(dtype):
    import turboloader
    return forever(turboloader.TokenDataLoader(path, T, B)) if dtype == np.int64 else None


def grain_batches(dtype):
    import grain

    class Windows:
        def __len__(self):
            return (len(mapped) - 1) // T

        def __getitem__(self, i):
            row = mapped[i * T:i * T + T + 1]
            return row[:-1].astype(dtype), row[1:].astype(dtype)

    set_ = grain.MapDataset.source(Windows()).shuffle(seed=1).batch(B).repeat(None)
    return iter(set_.to_iter_dataset(grain.ReadOptions(num_threads=0, prefetch_buffer_size=0)))


CHUNK = 1 << 20


def pieces(i):  # at the top level, because optimize() pickles it
    yield torch.from_numpy(mapped[i * CHUNK:(i + 1) * CHUNK].astype(np.int32)).to(torch.uint16)


def litdata_batches(dtype):
    import litdata
    folder = os.path.join(tempfile.gettempdir(), "litdata-tokens")
    if not os.path.exists(os.path.join(folder, "index.json")):
        litdata.optimize(fn=pieces, inputs=list(range(min(len(mapped) // CHUNK, 64))), output_dir=folder, num_workers=1,
                         chunk_size=CHUNK, item_loader=litdata.TokensLoader())
    set_ = litdata.StreamingDataset(folder, item_loader=litdata.TokensLoader(block_size=T + 1), shuffle=True)
    kind = torch.from_numpy(np.empty(0, dtype)).dtype

    def batches():
        for rows in forever(litdata.StreamingDataLoader(set_, batch_size=B, num_workers=0, drop_last=True)):
            yield rows[:, :-1].to(kind), rows[:, 1:].to(kind)
    return batches()


def megatron_batches(dtype):
    from megatron.core.datasets.indexed_dataset import DType, IndexedDataset, IndexedDatasetBuilder
    prefix = os.path.join(tempfile.gettempdir(), "megatron-tokens")
    if not os.path.exists(prefix + ".idx"):
        builder = IndexedDatasetBuilder(prefix + ".bin", dtype=np.uint16)
        builder.add_item(torch.from_numpy(mapped.astype(np.int32)))
        builder.end_document()
        builder.finalize(prefix + ".idx")
    set_ = IndexedDataset(prefix)
    places = np.random.default_rng(3)

    def batches():
        while True:
            x, y = np.empty((B, T), dtype), np.empty((B, T), dtype)
            for i, at in enumerate(places.integers(0, len(mapped) - T, B)):
                row = set_.get(0, int(at), T + 1)
                x[i], y[i] = row[:-1], row[1:]
            yield x, y
    return batches()


def contestants(dtype):
    made = {}
    for name, make in (("turboloader", turbo_batches), ("grain", grain_batches), ("litdata", litdata_batches),
                       ("megatron", megatron_batches)):
        try:
            batches = make(dtype)
            if batches:
                next(batches)
                made[name] = lambda batches=batches: next(batches)
        except Exception as error:
            print("  %s does not take part: %s" % (name, str(error)[:200]))
    memory, ring = endless(loader, dtype, "memory"), endless(loader, dtype, "ring")
    return {"libiter, in memory": lambda: next(memory), "libiter, ring": lambda: next(ring),
            "get_batch": lambda: get_batch(dtype), "numpy": lambda: gather(dtype),
            "torch": lambda: torch_gather(dtype), **made}


def main():
    for dtype in np.int64, np.int32:
        makers = contestants(dtype)
        rates = {name: ([], []) for name in makers}
        for r in range(rounds + 1):
            for name, make in makers.items():
                start, cpu = time.perf_counter(), time.process_time()
                n = BATCHES if name.startswith(("libiter", "numpy")) else BATCHES // 10
                for _ in range(n):
                    make()
                wall, used = time.perf_counter() - start, time.process_time() - cpu
                if r:
                    rates[name][0].append(n * B * T / used)
                    rates[name][1].append(n * B * T / wall)
        print("u16 to %s, %d rounds" % (np.dtype(dtype).name, rounds))
        for name, (cpu, wall) in rates.items():
            text = "  %-20s %7.0f M tokens/s, %7.0f a second of the processor" % (
                name, np.median(wall) / 1e6, np.median(cpu) / 1e6)
            for ours in "libiter, in memory", "libiter, ring":
                if not name.startswith("libiter"):
                    text += "; %s %.1fx" % (ours, np.median(np.array(rates[ours][0]) / np.array(cpu)))
            print(text)


if __name__ == "__main__":
    main()

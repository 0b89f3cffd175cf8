#!/usr/bin/env python3
"""PyTorch on the published CNN and GRU: epochs with its own DataLoader or over data that is resident, eager or compiled.

    gpu_torch.py cnn --data DIR --precision tf32 --feed loader --epochs 10 --seconds 40
    gpu_torch.py gru --data DIR --feed resident --compile
    gpu_torch.py cnn --feed resident --graph

DIR holds cifar-10-batches-bin's files, or ids-train.npy, labels-train.npy and the same for test; without --data there are
random numbers of the same shape. Settings are the published ones: batch 64; SGD 0.01 with momentum 0.9, or Adam 0.001;
pixels divided by 255 and nothing else; whole batches in a new order every epoch. PyTorch gets what it is known to like:
cudnn.benchmark, fused optimisers, the layout that is faster (tried before), no look at the loss before an epoch's end,
page-locked memory and persistent workers. --graph captures
a whole step, the optimiser's too, as one CUDA graph, which is the fastest that torch has for networks this small. Timed are
the epochs alone: not compiling, not the first steps.

Needs torch and numpy alone. Writes one JSON object to stdout, or to --json.
"""
import argparse, json, os, statistics, sys, time
import numpy as np
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, Dataset

BATCH, TRY_STEPS, WARM_STEPS = 64, 60, 30


class Cnn(nn.Module):
    def __init__(self):
        super().__init__()
        self.convolutions = nn.ModuleList(nn.Conv2d(i, o, 3, padding=1) for i, o in ((3, 50), (50, 50), (50, 100), (100, 100)))
        self.hidden, self.out = nn.Linear(6400, 512), nn.Linear(512, 10)

    def forward(self, x):
        for i in (0, 2):
            x = F.relu(self.convolutions[i](x))
            x = F.dropout(F.relu(F.max_pool2d(self.convolutions[i + 1](x), 2)), .25, self.training)
        return self.out(F.dropout(F.relu(self.hidden(x.flatten(1))), .5, self.training))


class Gru(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding, self.gru, self.out = nn.Embedding(30000, 125), nn.GRU(125, 100, batch_first=True), nn.Linear(100, 2)

    def forward(self, x):
        return self.out(self.gru(self.embedding(x))[0][:, -1])


class Images(Dataset):
    """A sample at a time, as torchvision's CIFAR10 with ToTensor() does it."""
    def __init__(self, x, y):
        self.x, self.y = x, y

    def __len__(self):
        return len(self.x)

    def __getitem__(self, i):
        return torch.from_numpy(self.x[i]).float().div_(255), int(self.y[i])


class Ids(Images):
    def __getitem__(self, i):
        return torch.from_numpy(self.x[i]).long(), int(self.y[i])


class Batched(Dataset):
    """The same by the batch: what a DataLoader does at best, with a sampler of index lists."""
    def __init__(self, one):
        self.one = one

    def __len__(self):
        return len(self.one)

    def __getitem__(self, indices):
        x = torch.from_numpy(self.one.x[indices])
        return (x.long() if isinstance(self.one, Ids) else x.float().div_(255)), torch.from_numpy(self.one.y[indices])


def read_cifar(folder, names):
    rows = np.concatenate([np.fromfile(os.path.join(folder, name), np.uint8).reshape(-1, 3073) for name in names])
    return rows[:, 1:].reshape(-1, 3, 32, 32).copy(), rows[:, 0].astype(np.int64)


def read_data(args):
    """Training and test arrays; test None where the data is made up."""
    random = np.random.default_rng(7)
    if args.network == 'cnn':
        if args.data:
            return (read_cifar(args.data, ['data_batch_%d.bin' % i for i in range(1, 6)]), read_cifar(args.data, ['test_batch.bin']))
        n = args.n or 50000
        return (random.integers(0, 256, (n, 3, 32, 32), np.uint8), random.integers(0, 10, n, np.int64)), None
    if args.data:
        return tuple((np.load(os.path.join(args.data, 'ids-%s.npy' % s)), np.load(os.path.join(args.data, 'labels-%s.npy' % s)).astype(np.int64))
                     for s in ('train', 'test'))
    n = args.n or 25000
    return (random.integers(0, 30000, (n, 150), np.int32), random.integers(0, 2, n, np.int64)), None


class Trainer:
    def __init__(self, args, channels_last, compiled, graph=False):
        torch.manual_seed(args.seed)
        self.device, self.half = torch.device(args.device), args.precision == 'f16'
        self.narrow = {'f16': torch.float16, 'bf16': torch.bfloat16}.get(args.precision)
        self.layout = torch.channels_last if channels_last else torch.contiguous_format
        self.images = args.network == 'cnn'
        self.model = (Cnn() if self.images else Gru()).to(self.device)
        if self.images:
            self.model = self.model.to(memory_format=self.layout)
        fused = dict(fused=True) if self.device.type == 'cuda' else {}
        self.optimizer = (torch.optim.SGD(self.model.parameters(), .01, momentum=.9, **fused) if self.images
                          else torch.optim.Adam(self.model.parameters(), 1e-3, capturable=graph, **fused))
        self.scaler = torch.amp.GradScaler(self.device.type, enabled=self.half)
        self.loss_of = torch.compile(self.loss, mode='reduce-overhead') if compiled else self.loss
        self.compiled, self.wants_graph, self.graph = compiled, graph, None
        if graph and self.half:
            raise SystemExit('gpu_torch.py: --graph is not for f16: GradScaler decides on the host')

    def narrowly(self):
        return torch.autocast(self.device.type, self.narrow or torch.bfloat16, enabled=self.narrow is not None)

    def loss(self, x, y):
        with self.narrowly():
            return F.cross_entropy(self.model(x).float(), y)

    def capture(self, x, y):
        """One step over fixed places as a graph, after some that choose algorithms and make the moments."""
        if self.images:
            x = x.contiguous(memory_format=self.layout)
        self.x, self.y = x.clone(memory_format=torch.preserve_format), y.clone()
        aside = torch.cuda.Stream()
        aside.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(aside):
            for _ in range(5):
                self.plain_step(self.x, self.y)
        torch.cuda.current_stream().wait_stream(aside)
        self.optimizer.zero_grad(set_to_none=True)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.loss_out = self.plain_step(self.x, self.y)

    def step(self, x, y):
        if not self.wants_graph:
            return self.plain_step(x, y)
        if self.graph is None:
            self.capture(x, y)
        self.x.copy_(x, non_blocking=True)
        self.y.copy_(y, non_blocking=True)
        self.graph.replay()
        return self.loss_out

    def plain_step(self, x, y):
        if self.images:
            x = x.contiguous(memory_format=self.layout)
        if self.compiled:
            torch.compiler.cudagraph_mark_step_begin()
        self.optimizer.zero_grad(set_to_none=True)
        loss = self.loss_of(x, y)
        self.scaler.scale(loss).backward()
        self.scaler.step(self.optimizer)
        self.scaler.update()
        return loss.detach()

    def accuracy(self, x, y):
        self.model.eval()
        right = 0
        with torch.no_grad(), self.narrowly():
            for i in range(0, len(x), 500):
                part = torch.from_numpy(x[i:i + 500]).to(self.device)
                part = part.float().div_(255) if self.images else part.long()
                right += (self.model(part).argmax(1).cpu().numpy() == y[i:i + 500]).sum()
        self.model.train()
        return float(right) / len(x)


class Resident:
    """The set on the device, in the form that the model takes; an epoch is a permutation and a gather a batch."""
    def __init__(self, x, y, device, images):
        x = torch.from_numpy(x).to(device)
        self.x, self.y = (x.float().div_(255) if images else x.long()), torch.from_numpy(y).to(device)

    def __iter__(self):
        order = torch.randperm(len(self.x), device=self.x.device)
        for i in range(0, len(order) - BATCH + 1, BATCH):
            rows = order[i:i + BATCH]
            yield self.x[rows], self.y[rows]


class Loaded:
    def __init__(self, args, x, y, device):
        one, self.device = (Images if args.network == 'cnn' else Ids)(x, y), device
        more = dict(num_workers=args.workers, pin_memory=device.type == 'cuda', persistent_workers=args.workers > 0)
        if args.workers > 0:
            more['prefetch_factor'] = 4
        if args.feed == 'loader':
            self.loader = DataLoader(one, BATCH, shuffle=True, drop_last=True, **more)
        else:
            order = torch.utils.data.BatchSampler(torch.utils.data.RandomSampler(one), BATCH, True)
            self.loader = DataLoader(Batched(one), batch_size=None, sampler=order, **more)

    def __iter__(self):
        for x, y in self.loader:
            yield x.to(self.device, non_blocking=True), y.to(self.device, non_blocking=True)


def wait(device):
    if device.type == 'cuda':
        torch.cuda.synchronize()


def rate_of(args, layout, batch):
    """Steps a second over one batch: which layout does this GPU like?"""
    trainer = Trainer(args, layout, False)
    for _ in range(TRY_STEPS // 3):
        trainer.step(*batch)
    wait(trainer.device)
    start = time.perf_counter()
    for _ in range(TRY_STEPS):
        trainer.step(*batch)
    wait(trainer.device)
    return TRY_STEPS / (time.perf_counter() - start)


def choose_layout(args, x, y, device):
    if args.network != 'cnn' or args.layout != 'auto' or device.type == 'cpu':
        return args.layout == 'nhwc'
    batch = torch.from_numpy(x[:BATCH]).to(device).float().div_(255), torch.from_numpy(y[:BATCH]).to(device)
    return rate_of(args, True, batch) > rate_of(args, False, batch)


def epochs(args, trainer, feed):
    """Seconds and mean loss of each epoch, as many as the time allows, at least two where they are asked for."""
    seconds, losses, begin = [], [], time.perf_counter()
    while len(seconds) < args.epochs:
        wait(trainer.device)
        start, total, n = time.perf_counter(), torch.zeros((), device=trainer.device), 0
        for x, y in feed:
            total += trainer.step(x, y)
            n += 1
            if n == args.limit_steps:
                break
        losses.append(float(total) / max(n, 1))  # waits
        seconds.append(time.perf_counter() - start)
        spent = time.perf_counter() - begin
        if len(seconds) >= 2 and spent + seconds[-1] > args.seconds:
            break
    return seconds, losses, n


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('network', choices=['cnn', 'gru'])
    parser.add_argument('--data')
    parser.add_argument('--generated', action='store_true', help='--data is made up: no accuracy is given')
    parser.add_argument('--n', type=int, help='of random samples')
    parser.add_argument('--feed', choices=['loader', 'loader-batched', 'resident'], default='loader')
    parser.add_argument('--compile', action='store_true')
    parser.add_argument('--graph', action='store_true', help='a whole step as one CUDA graph')
    parser.add_argument('--precision', choices=['f32', 'tf32', 'f16', 'bf16'], default='f32')
    parser.add_argument('--layout', choices=['auto', 'nchw', 'nhwc'], default='auto')
    parser.add_argument('--workers', type=int, default=8)
    parser.add_argument('--epochs', type=int)
    parser.add_argument('--seconds', type=float, default=1e9, help='begin no further epoch beyond these')
    parser.add_argument('--limit-steps', type=int, default=0)
    parser.add_argument('--device', default='cuda')
    parser.add_argument('--seed', type=int, default=0)
    parser.add_argument('--json')
    args = parser.parse_args()
    args.epochs = args.epochs or (10 if args.network == 'cnn' else 3)
    device = torch.device(args.device)
    torch.backends.cudnn.benchmark = True
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = args.precision != 'f32'
    (x, y), test = read_data(args)
    test = None if args.generated else test
    nhwc = choose_layout(args, x, y, device)
    trainer = Trainer(args, nhwc, args.compile, args.graph)
    feed = Resident(x, y, device, args.network == 'cnn') if args.feed == 'resident' else Loaded(args, x, y, device)
    start = time.perf_counter()
    for i, batch in enumerate(feed):  # compiles, tunes; workers are there afterwards
        trainer.step(*batch)
        if i == (args.limit_steps or WARM_STEPS):
            break
    wait(device)
    warm = time.perf_counter() - start
    if args.feed != 'resident':
        del batch
    seconds, losses, n = epochs(args, trainer, feed)
    whole = len(seconds) == args.epochs
    result = {
        'peer': 'torch %s' % torch.__version__, 'network': args.network, 'feed': args.feed, 'compiled': args.compile, 'graph': args.graph,
        'precision': args.precision, 'layout': 'nhwc' if nhwc else 'nchw', 'workers': 0 if args.feed == 'resident' else args.workers,
        'device': torch.cuda.get_device_name(device) if device.type == 'cuda' else 'cpu', 'batch': BATCH, 'steps_an_epoch': n,
        'epochs_asked': args.epochs, 'epochs_run': len(seconds), 'epoch_seconds': seconds, 'losses': losses, 'warm_seconds': warm,
        'seconds': sum(seconds) if whole else statistics.median(seconds) * args.epochs, 'scaled': not whole,
        'samples_per_s': n * BATCH / statistics.median(seconds),
        'test_accuracy': trainer.accuracy(*test) if test is not None and whole and not args.limit_steps else None,
        'real_data': test is not None}
    out = open(args.json, 'w', encoding='utf-8') if args.json else sys.stdout
    print(json.dumps(result), file=out)


if __name__ == '__main__':
    main()

"""ddp_torchrun.py - two processes train one model with DistributedDataParallel (gloo). Each loader gives its rank's
share of every batch; together they are the rows of a single process.

    torchrun --nproc-per-node 2 ddp_torchrun.py [cifar10:DIR]
    python ddp_torchrun.py [cifar10:DIR]         # starts both itself
"""
import os
import socket
import sys

import torch
import torch.distributed as dist
import torch.multiprocessing

import libiter


def train(spec):
    dist.init_process_group("gloo")
    rank, ranks = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(3072, 10))
    model = torch.nn.parallel.DistributedDataParallel(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    loader = libiter.Loader(spec, "random-flip | normalize:mean=0.5,std=0.25 | to:f32,nchw", output="torch",
                            batch_size=50, shuffle=True, seed=2, workers=1, rank=rank, ranks=ranks)
    mine = []
    for batch in loader:
        value = torch.nn.functional.cross_entropy(model(batch.data), batch.label.long())
        optimizer.zero_grad()
        value.backward()  # averages over the ranks
        optimizer.step()
        mine += batch.index.tolist()

    shares, states = [None] * ranks, [None] * ranks
    dist.all_gather_object(shares, mine)
    dist.all_gather_object(states, loader.state_dict())
    if rank == 0:
        seen = sorted(index for share in shares for index in share)
        once = seen == list(range(len(loader.dataset)))
        print("%d ranks, %s samples each; every sample once: %s" % (ranks, [len(share) for share in shares], once))
        print("state_dict() is the same on all ranks: %s" % all(state == states[0] for state in states))
    dist.destroy_process_group()


def spawned(rank, port, spec):
    os.environ.update(RANK=str(rank), WORLD_SIZE="2", MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    train(spec)


if __name__ == "__main__":
    torch.set_num_threads(1)
    spec = sys.argv[1] if len(sys.argv) > 1 else "synthetic:cifar10?n=5001"
    if "RANK" in os.environ:  # torchrun set it
        train(spec)
    else:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        torch.multiprocessing.spawn(spawned, (port, spec), 2)

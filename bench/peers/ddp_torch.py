"""PyTorch's DistributedDataParallel over gloo, one thread a rank: the published CNN and GRU on batches in memory.

    OMP_NUM_THREADS=1 torchrun --standalone --nproc-per-node 2 bench/peers/ddp_torch.py cnn|gru|gru-sparse [STEPS]

Batches are random numbers of the right shapes, made before: nothing is loaded. The global batch has 64 rows. Rank 0 prints the seconds
of the steps after five others.
"""
import sys
import time

import torch
import torch.distributed as dist
import torch.nn.functional as F
from networks_torch import Cnn, Gru
from torch import nn
from torch.nn.parallel import DistributedDataParallel

BATCH, KEPT = 64, 8


def main():
    kind, steps = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 50
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    torch.manual_seed(dist.get_rank())
    rows = BATCH // dist.get_world_size()
    if kind == "cnn":
        model = Cnn().to(memory_format=torch.channels_last)
        data = [torch.randn(rows, 3, 32, 32).contiguous(memory_format=torch.channels_last) for _ in range(KEPT)]
        optimizers = [torch.optim.SGD(model.parameters(), 0.01, momentum=0.9, foreach=True)]
    else:
        model = Gru()
        data = [torch.randint(0, 30000, (rows, 150)) for _ in range(KEPT)]
        if kind == "gru-sparse":
            model.embedding = nn.Embedding(30000, 125, sparse=True)
            rest = [p for name, p in model.named_parameters() if not name.startswith("embedding")]
            optimizers = [torch.optim.SparseAdam(model.embedding.parameters()), torch.optim.Adam(rest, fused=True)]
        else:
            optimizers = [torch.optim.Adam(model.parameters(), fused=True)]
    labels = [torch.randint(0, 2, (rows,)) for _ in range(KEPT)]
    ddp = DistributedDataParallel(model, gradient_as_bucket_view=True, static_graph=kind != "gru-sparse")
    for i in range(-5, steps):
        if i == 0:
            dist.barrier()
            begin = time.perf_counter()
        for optimizer in optimizers:
            optimizer.zero_grad(set_to_none=True)
        loss = F.cross_entropy(ddp(data[i % KEPT]), labels[i % KEPT])
        loss.backward()
        for optimizer in optimizers:
            optimizer.step()
        loss.item()
    if dist.get_rank() == 0:
        print(time.perf_counter() - begin)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()

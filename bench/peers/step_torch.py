"""PyTorch training: the published CNN and GRU by replayed batches, and the MLP's epochs by its loaders.

A name says which form: with "compiled" the model goes through torch.compile, with "fused" or "compiled" Adam is the fused
one, with "fused" SGD.
"""
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from networks_torch import Cnn, Gru
from peer_common import Epochs, Steps, cs224, step_data


def stepper(model, optimizer, loss_of):
    def step(x, y):
        optimizer.zero_grad(set_to_none=True)
        loss = loss_of(model(x), y)
        loss.backward()
        optimizer.step()
        return loss.item()
    return step


def compiled(row, model):
    return torch.compile(model) if "compiled" in row.name else model


def adam(row, model):
    return torch.optim.Adam(model.parameters(), 1e-3, fused="fused" in row.name or "compiled" in row.name)


def batches(model):
    return [[torch.from_numpy(array) for array in batch] for batch in step_data(model)]


def cnn(row):
    model, data = Cnn(), batches("cnn")
    if "nhwc" in row.name:
        model = model.to(memory_format=torch.channels_last)
        data = [(x.contiguous(memory_format=torch.channels_last), y) for x, y in data]
    optimizer = torch.optim.SGD(model.parameters(), .01, momentum=.9, fused="fused" in row.name)
    return Steps(stepper(compiled(row, model), optimizer, F.cross_entropy), data)


def gru(row):
    model = Gru()
    return Steps(stepper(compiled(row, model), adam(row, model), F.cross_entropy), batches("gru"))


def mlp(row):
    x, y = (torch.from_numpy(array) for array in cs224())
    model = nn.Sequential(nn.Linear(1000, 300), nn.ReLU(), nn.Linear(300, 100), nn.ReLU(), nn.Linear(100, 1))
    step = stepper(compiled(row, model), adam(row, model), F.mse_loss)
    if row.name.startswith("mlp-slices"):
        return Epochs(step, lambda: ((x[i:i + 256], y[i:i + 256]) for i in range(0, len(x), 256)), len(x))
    loader = DataLoader(TensorDataset(x, y), 256, num_workers=row.workers, persistent_workers=row.workers > 0)
    return Epochs(step, lambda: loader, len(x))


MAKE = {**dict.fromkeys(("cnn-nchw", "cnn-nhwc", "cnn-nhwc-fused", "cnn-nhwc-compiled", "cnn-nhwc-compiled-fused"), cnn),
        **dict.fromkeys(("gru", "gru-fused", "gru-compiled"), gru),
        **dict.fromkeys(("mlp-slices", "mlp-slices-fused", "mlp-slices-compiled", "mlp-loader"), mlp)}

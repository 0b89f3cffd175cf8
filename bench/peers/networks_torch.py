"""The published CNN and GRU in PyTorch."""
import torch.nn.functional as F
from torch import nn


class Cnn(nn.Module):
    def __init__(self):
        super().__init__()
        self.convolutions = nn.ModuleList(nn.Conv2d(i, o, 3, padding=1) for i, o in
                                          ((3, 50), (50, 50), (50, 100), (100, 100)))
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

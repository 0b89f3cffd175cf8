"""Trains a small network on CIFAR-10 with torch, on the CPU, in seconds.

    python torch_cifar.py                     # our DataLoader
    python torch_cifar.py --loader torch      # torch's own: the same loop, and the same batches but for chance

One line differs: which DataLoader is made. The set is torchvision's CIFAR10 if --data or the folder in ITER_DATA
holds it (as cifar-10-batches-py or cifar-10-batches-bin), else generated images of the same shape.
"""

from __future__ import annotations

import argparse
import os
import sys
import time

try:
    import numpy as np
    import torch
    import torch.utils.data
    import torchvision.transforms as T
    from torchvision.datasets import CIFAR10

    import libiter.torch
except ImportError as missing:
    print("skipped: %s" % missing)
    sys.exit(77)


class InMemory(CIFAR10):
    """torchvision's CIFAR10 over images that are in memory already."""

    def __init__(self, data: "np.ndarray", targets: "list[int]", transform: object) -> None:
        self.root, self.transform, self.target_transform = "", transform, None
        self.data, self.targets = data, targets


def from_binary(path: str, transform: object) -> CIFAR10:
    """The binary version: records of a label and 3,072 bytes."""
    raw = np.concatenate([np.fromfile(os.path.join(path, "data_batch_%d.bin" % i), np.uint8) for i in range(1, 6)])
    raw = raw.reshape(-1, 3073)
    return InMemory(raw[:, 1:].reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1), raw[:, 0].tolist(), transform)


def generated(transform: object, n: int = 10000) -> CIFAR10:
    """Noise, with a colour and a stripe that tell the class."""
    draw = np.random.default_rng(0)
    labels = draw.integers(0, 10, n)
    data = draw.integers(0, 120, (n, 32, 32, 3), dtype=np.uint8)
    for label in range(10):
        data[labels == label, :, :, label % 3] += np.uint8(40 + 8 * label)
        data[labels == label, 3 * label : 3 * label + 3] += np.uint8(60)
    return InMemory(data, labels.tolist(), transform)


def find_set(folder: str, transform: object) -> CIFAR10:
    if os.path.isdir(os.path.join(folder, "cifar-10-batches-py")):
        return CIFAR10(folder, train=True, transform=transform)
    if os.path.exists(os.path.join(folder, "cifar-10-batches-bin", "data_batch_5.bin")):
        return from_binary(os.path.join(folder, "cifar-10-batches-bin"), transform)
    print("no CIFAR-10 in %s: the images are generated" % (folder or "--data or ITER_DATA"))
    return generated(transform)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--loader", choices=["libiter", "torch"], default="libiter")
    parser.add_argument("--data", default=os.environ.get("ITER_DATA", ""), help="folder of the set")
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--samples", type=int, default=10000, help="how many of the set are used")
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()

    torch.manual_seed(args.seed)
    torch.set_num_threads(max(1, len(os.sched_getaffinity(0)) - args.workers))  # the other cores make batches
    mean, std = (0.4914, 0.4822, 0.4465), (0.247, 0.2435, 0.2616)
    augment = [T.RandomCrop(32, padding=4), T.RandomHorizontalFlip(), T.ToTensor(), T.Normalize(mean, std)]
    dataset = find_set(args.data, T.Compose(augment))
    part = torch.utils.data.Subset(dataset, range(min(args.samples, len(dataset))))

    DataLoader = libiter.torch.DataLoader if args.loader == "libiter" else torch.utils.data.DataLoader  # the one line
    loader = DataLoader(part, batch_size=128, shuffle=True, num_workers=args.workers, drop_last=True)
    if args.loader == "libiter":
        print(loader.why())

    model = torch.nn.Sequential(
        torch.nn.Conv2d(3, 16, 3, 2, 1), torch.nn.ReLU(), torch.nn.Conv2d(16, 32, 3, 2, 1), torch.nn.ReLU(),
        torch.nn.Conv2d(32, 64, 3, 2, 1), torch.nn.ReLU(), torch.nn.Flatten(), torch.nn.Linear(64 * 16, 10),
    )  # fmt: skip
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    for epoch in range(args.epochs):
        began, waited, loss_sum, right, n = time.perf_counter(), 0.0, 0.0, 0, 0
        asked = began
        for images, labels in loader:
            waited += time.perf_counter() - asked
            scores = model(images)
            loss = torch.nn.functional.cross_entropy(scores, labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            loss_sum, right, n = (
                loss_sum + loss.item() * len(labels),
                right + int((scores.argmax(1) == labels).sum()),
                n + len(labels),
            )
            asked = time.perf_counter()
        took = time.perf_counter() - began
        print(
            "epoch %d: loss %.3f, %.1f %% right, %.2f s, of which %.2f s waiting for batches"
            % (epoch, loss_sum / n, 100 * right / n, took, waited)
        )


if __name__ == "__main__":
    main()

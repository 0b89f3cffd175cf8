"""AWS's s3torchconnector in torch's DataLoader: a map dataset over files, an iterable one over tars that are streamed.

Options: workers.
"""
import random
import tarfile

import torch
from s3torchconnector import S3ClientConfig, S3IterableDataset, S3MapDataset

from remote_common import BATCH, BUCKET, SEED, main, same

torch.set_num_threads(1)


def read(item):
    return item.read()


def untar(item):
    with tarfile.open(fileobj=item, mode="r|") as tar:
        return [tar.extractfile(member).read() for member in tar if member.name.endswith(".jpg")]


def place(endpoint):
    return {"region": "us-east-1", "endpoint": endpoint, "s3client_config": S3ClientConfig(unsigned=True, force_path_style=True)}


def loader(dataset, options, **more):
    workers = options.get("workers", 0)
    if workers:
        more.update(num_workers=workers, persistent_workers=True, prefetch_factor=4 if "shuffle" in more else 2)
    return torch.utils.data.DataLoader(dataset, collate_fn=same, **more)


def raw(endpoint, options):
    made = loader(S3MapDataset.from_prefix(f"s3://{BUCKET}/raw/", transform=read, **place(endpoint)), options, batch_size=BATCH,
                  shuffle=True, generator=torch.Generator().manual_seed(SEED))
    return lambda: made


class Shuffled(torch.utils.data.IterableDataset):
    """Samples of shards, through a buffer of 1,000 as WebDataset's."""

    def __init__(self, shards):
        self.shards, self.draw = shards, random.Random(SEED)

    def __iter__(self):
        held = []
        for samples in self.shards:
            for one in samples:
                if len(held) < 1000:
                    held.append(one)
                    continue
                i = self.draw.randrange(1000)
                held[i], one = one, held[i]
                yield one
        self.draw.shuffle(held)
        yield from held


def shards(endpoint, options):
    made = loader(Shuffled(S3IterableDataset.from_prefix(f"s3://{BUCKET}/tar/", transform=untar, enable_sharding=True,
                                                         **place(endpoint))), options, batch_size=BATCH)
    return lambda: made


if __name__ == "__main__":
    main({"raw": raw, "shards": shards})

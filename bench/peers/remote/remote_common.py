"""The protocol of contestants: reads "epoch" or "check" and answers "SAMPLES BYTES SECONDS SUM".

    peer_x.py ENDPOINT KIND [NAME=NUMBER ...]

KIND is raw (a file a sample, in random order) or shards (each peer's own best way). An epoch is an iterator of
batches, a batch a list of bytes, or of whatever has a length and a buffer. SUM is the sum of the samples' CRC-32s,
which only "check" computes; else it is 0.
"""
import os
import random
import sys
import time
import zlib

BUCKET, BATCH, SEED = "bench", 64, 7
os.environ.update(AWS_ACCESS_KEY_ID="none", AWS_SECRET_ACCESS_KEY="none", AWS_DEFAULT_REGION="us-east-1",
                  AWS_REGION="us-east-1", AWS_EC2_METADATA_DISABLED="true")
_draw = random.Random(SEED)


def shuffled(items):
    items = list(items)
    _draw.shuffle(items)
    return items


def batches(items, n=BATCH):
    return (items[i:i + n] for i in range(0, len(items), n))


def regroup(samples, n=BATCH):
    """Batches of an iterator of samples."""
    group = []
    for one in samples:
        group.append(one)
        if len(group) == n:
            yield group
            group = []
    if group:
        yield group


def same(x):
    """A collate function that leaves the samples as they are."""
    return x


def main(makers):
    """makers[KIND](endpoint, options) is a function that begins an epoch."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what a library prints is no answer
    options = {name: int(value) for name, value in (word.split("=") for word in sys.argv[3:])}
    epoch = makers[sys.argv[2]](sys.argv[1], options)
    for line in iter(sys.stdin.readline, ""):
        check, n, n_bytes, total, began = line.strip() == "check", 0, 0, 0, time.perf_counter()
        for batch in epoch():
            n += len(batch)
            n_bytes += sum(map(len, batch))
            if check:
                total += sum(map(zlib.crc32, batch))
        answers.write("%d %d %.6f %d\n" % (n, n_bytes, time.perf_counter() - began, total))
        answers.flush()
    os._exit(0)  # some peers' threads and workers do not end by themselves

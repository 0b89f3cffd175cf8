#!/usr/bin/env python3
"""Two builds of iterbench beside each other, over everything that `iterbench serve` does: is a row slower than it was?

    two_builds.py OLD NEW [--data DIR] [--only REGEX] [--pairs N]

OLD and NEW are iterbench programs; a third, --iterbench, lets them take turns. Prints a line a row, as Markdown: new / old, with its interval. The rows are
bench/peers' workloads, and others on the same data, on tokens and on numbers that are made here; also past the page cache (--o-direct), and
from an nginx on loopback. One core without a worker; two cores with one, or with two threads for training. What bench/peers packed (`run.py`) is
needed for photos; where it or nginx is missing, their lines say so.
"""
import argparse
import json
import os
import random
import re
import shlex
import struct
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(os.path.dirname(HERE), "peers"), os.path.join(os.path.dirname(os.path.dirname(HERE)), "tests", "remote")]
import contestants  # noqa: E402
import field  # noqa: E402
import servers  # noqa: E402

CIFAR = '--loader %s --data "cifar10:$ITER_DATA/cifar-10-batches-bin" --chain "normalize | to:f32,nchw" --batch %d'
ARRAYS = '--loader ndarray --data "npy:$MADE/%s.npy?layout=%s" --chain "random-crop:size=224 | random-flip | %s" --batch 16'
MORE = [
    ("CIFAR-10 by the DataLoader, 64", CIFAR % ("dataloader", 64)),
    ("CIFAR-10, 1,024", CIFAR % ("ndarray", 1024)),
    ("CIFAR-10 in order, 64", CIFAR % ("ndarray", 64) + " --shuffle none"),
    ("CIFAR-10 as it is, 64", '--loader ndarray --data "cifar10:$ITER_DATA/cifar-10-batches-bin" --batch 64'),
    ("CIFAR-10 to f16 NHWC, 64", '--loader ndarray --data "cifar10:$ITER_DATA/cifar-10-batches-bin" --chain "normalize | to:f16,nhwc"'),
    ("CIFAR-10 cropped and mirrored to f32 NHWC, 64", '--loader ndarray --data "cifar10:$ITER_DATA/cifar-10-batches-bin" '
     '--chain "random-crop:size=32,pad=4 | random-flip | normalize | to:f32,nhwc"'),
    ("CIFAR-10 cropped and mirrored to u8 NHWC, 64", '--loader ndarray --data "cifar10:$ITER_DATA/cifar-10-batches-bin" '
     '--chain "random-crop:size=32,pad=4 | random-flip | to:u8,nhwc"'),
    ("MNIST to f32, 64", '--loader ndarray --data "mnist:$ITER_DATA/mnist" --chain "normalize | to:f32"'),
    ("MNIST as it is, 1,024", '--loader ndarray --data "mnist:$ITER_DATA/mnist" --batch 1024'),
    ("CIFAR-10 read by the ring, hot", CIFAR % ("dataloader", 64) + " --source ring --memory 32MiB"),
    ("CIFAR-10, block shuffle, pread", CIFAR % ("dataloader", 64) + " --source pread --shuffle block"),
    ("reviews, one file each, tokenised", '--loader dataloader --source pread --data "imdb:$ITER_DATA/aclImdb?index=$ITER_DATA/imdb_word_index.json"'),
    ("color-jitter of CIFAR-10", '--loader ndarray --data "cifar10:$ITER_DATA/cifar-10-batches-bin" --chain "to:layout=hwc | '
     'color-jitter:brightness=0.4,contrast=0.4,saturation=0.4,hue=0.1 | to:f32"'),
    ("arrays of 240x320, CHW, cropped and mirrored to f32 NCHW", ARRAYS % ("chw", "chw", "normalize | to:f32,nchw")),
    ("arrays of 240x320, CHW, cropped and mirrored to f32 NHWC", ARRAYS % ("chw", "chw", "normalize | to:f32,nhwc")),
    ("arrays of 240x320, HWC, cropped and mirrored to f32 NCHW", ARRAYS % ("hwc", "hwc", "normalize | to:f32,nchw")),
    ("arrays of 240x320, HWC, cropped and mirrored to f32 NHWC", ARRAYS % ("hwc", "hwc", "normalize | to:f32,nhwc")),
    ("arrays of 240x320, HWC, cropped and mirrored to u8 NHWC", ARRAYS % ("hwc", "hwc", "to:u8,nhwc")),
    ("records of photos, shuffled, as bytes", '--loader dataloader --source pread --ragged --data "recordio:$ITER_PEERS_SCRATCH/photos.rec?decode=none"'),
    ("photos made smaller: resize 64", '--loader dataloader --data "recordio:$ITER_PEERS_SCRATCH/photos.rec" --chain "resize:height=64,width=64 | to:f32"'),
    ("windows of 1,024 tokens", '--loader dataloader --data "tokens:$MADE/t.bin?length=1024&dtype=u16" --shuffle full'),
    ("windows of 1,024 tokens past the page cache", '--loader dataloader --o-direct --source ring --data "tokens:$MADE/t.bin?length=1024&dtype=u16"'),
    ("CIFAR-10 past the page cache, block shuffle", CIFAR % ("dataloader", 64) + " --o-direct --source ring --shuffle block --memory 32MiB"),
    ("records of photos past the page cache", '--loader dataloader --o-direct --source ring --ragged '
     '--data "recordio:$ITER_PEERS_SCRATCH/photos.rec?decode=none"'),
    ("photos past the page cache: resize 64", '--loader dataloader --o-direct --source ring --data "recordio:$ITER_PEERS_SCRATCH/photos.rec" '
     '--chain "resize:height=64,width=64 | to:f32"'),
    ("windows of 1,024 tokens from a URL", '--loader dataloader --source ring --data "tokens:$URL/t.bin?length=1024&dtype=u16"'),
    ("CIFAR-10 from a URL, block shuffle", '--loader dataloader --source ring --shuffle block --memory 32MiB --data "cifar10:$URL/cifar" '
     '--chain "normalize | to:f32,nchw"'),
    ("records of photos from a URL", '--loader dataloader --source ring --ragged --data "recordio:$URL/photos.rec?decode=none"'),
    ("csv of 32 numbers", '--loader dataloader --data "csv:$MADE/n.csv?label=1&header=no" --batch 256'),
]


def make(folder):
    numbers = random.Random(1)
    with open(os.path.join(folder, "t.bin"), "wb") as out:
        out.write(struct.pack("<4000000H", *(numbers.randrange(50000) for _ in range(4000000))))
    for layout, shape in (("chw", (3, 240, 320)), ("hwc", (240, 320, 3))):
        header = str({"descr": "|u1", "fortran_order": False, "shape": (600,) + shape}).ljust(117) + "\n"
        with open(os.path.join(folder, layout + ".npy"), "wb") as out:
            out.write(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode())
            for _ in range(600):
                out.write(numbers.randbytes(3 * 240 * 320))
    with open(os.path.join(folder, "n.csv"), "w") as out:
        for i in range(40000):
            out.write("%d," % (i % 10) + ",".join("%.6g" % numbers.gauss(0, 1) for _ in range(32)) + "\n")


def serve_files(place, made):
    """Starts an nginx over what is made here and the sets beside it. Returns its URL."""
    os.symlink(os.path.join(place.environment["ITER_DATA"], "cifar-10-batches-bin"), os.path.join(made, "cifar"))
    for name in ("photos.rec", "photos.idx"):
        os.symlink(os.path.join(place.scratch, name), os.path.join(made, name))
    os.chmod(made, 0o755)
    folder = os.path.join(made, "nginx")
    os.mkdir(folder)
    return "http://127.0.0.1:%d" % servers.start_nginx(folder, made)[0]


def rows():
    """Of (title, cores, arguments of serve)."""
    for w in contestants.WORKLOADS:
        trains = contestants.trains(w)
        for n in (0, 1):
            how = "--threads %d" % (n + 1) if trains else "--workers %d" % n
            yield "%s, %s" % (w.key, how[2:]), n + 1, "%s %s" % (contestants.arguments(w), how)
    for title, arguments in MORE:
        for n in (0, 1):
            yield "%s, workers %d" % (title, n), n + 1, "%s --workers %d" % (arguments, n)


def measure(place, old, new, cores, arguments, pairs, slice_s):
    sides = ['exec "%s" serve %s' % (os.path.abspath(program), arguments) for program in (old, new)]
    with tempfile.NamedTemporaryFile("r", suffix=".json") as out:
        command = '"$ITERBENCH" versus --a %s --b %s --pairs %d --slice %g --json %s' % (
            shlex.quote(sides[0]), shlex.quote(sides[1]), pairs, slice_s, out.name)
        done = place.shell(command, field.first_cores(cores), timeout=900)
        if done.returncode:
            return "failed: " + field.last_line(done.stderr)
        found = json.load(out)
        return found if found["ratio"]["median"] is not None else "no steady pair"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("old")
    parser.add_argument("new")
    field.add_arguments(parser)
    parser.add_argument("--pairs", type=int, default=15, help="pairs of slices to keep of each row (15)")
    arguments = parser.parse_args()
    place = field.Field(arguments)
    with tempfile.TemporaryDirectory() as made:
        place.environment["MADE"] = made
        make(made)
        if servers.NGINX:
            place.environment["URL"] = serve_files(place, made)
        print("| row | old, a second | new, a second | new / old | starts |\n| --- | --- | --- | --- | --- |", flush=True)
        for title, cores, serve in rows():
            if not re.search(arguments.only, title):
                continue
            slice_s = 2 if title.startswith("T-cnn") else 1.5 if title.startswith("J") else 1 if "page cache" in title else .25
            if "$URL" in serve and not servers.NGINX:
                r = "no nginx"
            else:
                r = measure(place, arguments.old, arguments.new, cores, serve, arguments.pairs, slice_s)
            if isinstance(r, str):
                print("| %s | %s | | | |" % (title, r), flush=True)
                continue
            print("| %s | %.0f | %.0f | %.3f [%.3f, %.3f] | %s |" % (
                title, r["a"]["samples_per_s"], r["b"]["samples_per_s"], r["ratio"]["median"], r["ratio"]["low"], r["ratio"]["high"],
                ", ".join("%.2f" % x for x in r["by_start"] if x)), flush=True)


if __name__ == "__main__":
    main()

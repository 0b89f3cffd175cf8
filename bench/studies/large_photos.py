#!/usr/bin/env python3
"""Crops of 224 from photos of 12 megapixels: the loader beside OpenCV's reduced decoding and Pillow's draft mode, one core.

    bench/studies/large_photos.py PHOTOS FOLDER [--build build/release] [--venvs DIR] [--pairs 7] [--only SET] [--out FILE]

PHOTOS is a folder of photos. Every 24th one is enlarged to 12 megapixels, with noise, and kept in FOLDER, as files and packed: plainly,
`--seekable`, and with copies for smaller sizes, too (`--scales`). DIR is what bench/peers/setup.sh made: opencv and pillow. Both sides are
live processes on one core that take turns (iterbench versus). The peers have the files in memory, draw windows as torchvision does, flip,
and write normalised f32 NCHW into one buffer; the loader reads records from the page cache. The peers' decoders make the photo 2, 4 or 8
times smaller as long as the window is no smaller than 224: OpenCV by IMREAD_REDUCED_COLOR, Pillow by draft(); "whole" decodes it as it is.
"""
import argparse
import glob
import json
import math
import os
import random
import subprocess
import sys
import tempfile
import time

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
SIDE, BATCH = 224, 8
SETS = {"plain": (), "seekable": ("--seekable",), "scales8": ("--seekable", "--scales", "8"), "scales48": ("--seekable", "--scales", "4,8")}
ROWS = (("plain", "exact"), ("plain", "auto"), ("plain", "fast"), ("seekable", "exact"), ("seekable", "auto"), ("seekable", "fast"),
        ("scales48", "auto"), ("scales8", "fast"), ("scales48", "fast"))
MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
CHAIN = "random-resized-crop:size=224,jpeg-scale=%s | random-flip | normalize | to:f32,nchw"


def make(photos, folder):
    import numpy
    from PIL import Image
    os.makedirs(os.path.join(folder, "large"), exist_ok=True)
    for i, path in enumerate(sorted(glob.glob(os.path.join(photos, "**", "*.jpg"), recursive=True))[::24]):
        image = Image.open(path).convert("RGB")
        factor = math.sqrt(12e6 / (image.width * image.height))
        large = numpy.asarray(image.resize((int(image.width * factor), int(image.height * factor)), Image.BICUBIC)).astype(numpy.int16)
        large += numpy.random.default_rng(i).normal(0, 4, large.shape[:2] + (1,)).astype(numpy.int16)
        Image.fromarray(large.clip(0, 255).astype(numpy.uint8)).save(os.path.join(folder, "large", "%03d.jpg" % i), quality=90)


def window(height, width):
    """torchvision's RandomResizedCrop.get_params()."""
    for _ in range(10):
        area = height * width * random.uniform(0.08, 1)
        aspect = math.exp(random.uniform(math.log(3 / 4), math.log(4 / 3)))
        w, h = round(math.sqrt(area * aspect)), round(math.sqrt(area / aspect))
        if 0 < w <= width and 0 < h <= height:
            return random.randint(0, height - h), random.randint(0, width - w), h, w
    side = min(height, width)
    return (height - side) // 2, (width - side) // 2, side, side


def scale_of(h, w):
    return max(s for s in (1, 2, 4, 8) if s == 1 or (h // s >= SIDE and w // s >= SIDE))


def opencv_rows(files, whole):
    import cv2
    cv2.setNumThreads(1)
    flags = {1: cv2.IMREAD_COLOR, 2: cv2.IMREAD_REDUCED_COLOR_2, 4: cv2.IMREAD_REDUCED_COLOR_4, 8: cv2.IMREAD_REDUCED_COLOR_8}

    def row(i):
        bytes_, (height, width) = files[i]
        y, x, h, w = window(height, width)
        s = 1 if whole else scale_of(h, w)
        image = cv2.imdecode(bytes_, flags[s])[y // s:(y + h) // s, x // s:(x + w) // s]
        return cv2.cvtColor(cv2.resize(image, (SIDE, SIDE), interpolation=cv2.INTER_AREA), cv2.COLOR_BGR2RGB)
    return row


def pillow_rows(files, whole):
    import io
    import numpy
    from PIL import Image

    def row(i):
        bytes_, (height, width) = files[i]
        y, x, h, w = window(height, width)
        s = 1 if whole else scale_of(h, w)
        image = Image.open(io.BytesIO(bytes_))
        if s > 1:
            image.draft("RGB", (width // s, height // s))
        return numpy.asarray(image.resize((SIDE, SIDE), Image.BILINEAR, box=(x / s, y / s, min((x + w) / s, image.width),
                                                                             min((y + h) / s, image.height))))
    return row


def serve(kind, folder):
    name, _, how = kind.partition("-")
    import numpy
    files = []
    for path in sorted(glob.glob(os.path.join(folder, "large", "*.jpg"))):
        with open(path, "rb") as file:
            data = file.read()
        at = 2
        while data[at + 1] != 0xc0:  # SOF0
            at += 2 + int.from_bytes(data[at + 2:at + 4], "big")
        size = int.from_bytes(data[at + 5:at + 7], "big"), int.from_bytes(data[at + 7:at + 9], "big")
        files.append((numpy.frombuffer(data, numpy.uint8) if name == "opencv" else data, size))
    row = (opencv_rows if name == "opencv" else pillow_rows)(files, how == "whole")
    factor = numpy.array([1 / (255 * s) for s in STD], numpy.float32)[:, None, None]
    offset = numpy.array([-m / s for m, s in zip(MEAN, STD)], numpy.float32)[:, None, None]
    out = numpy.empty((BATCH, 3, SIDE, SIDE), numpy.float32)
    order = []
    for line in sys.stdin:
        if line == "quit\n":
            break
        start = time.perf_counter()
        n = int(line.split()[1])
        for _ in range(n):
            for k in range(BATCH):
                if not order:
                    order = random.sample(range(len(files)), len(files))
                pixels = row(order.pop()).transpose(2, 0, 1)
                numpy.multiply(pixels[:, :, ::-1] if random.random() < 0.5 else pixels, factor, out=out[k])
                out[k] += offset
        print(n * BATCH, "%.9f" % (time.perf_counter() - start), flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("photos", nargs="?")
    parser.add_argument("folder", nargs="?")
    parser.add_argument("--build", default=os.path.join(ROOT, "build", "release"))
    parser.add_argument("--venvs", default=os.path.expanduser("~/.cache/iter-peers"))
    parser.add_argument("--pairs", type=int, default=7)
    parser.add_argument("--only", help="only sets whose name has this in it")
    parser.add_argument("--out", help="a file for the table")
    parser.add_argument("--make", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--serve", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.make:
        make(arguments.photos, arguments.folder)
        return
    if arguments.serve:
        serve(arguments.serve, arguments.photos)
        return
    folder = os.path.abspath(arguments.folder)
    python = {name: os.path.join(arguments.venvs, name, "bin", "python") for name in ("opencv", "pillow")}
    iterbench, iterpack = (os.path.join(arguments.build, *path) for path in (("bench", "iterbench"), ("tools", "iterpack", "iterpack")))
    large, listed = os.path.join(folder, "large"), os.path.join(folder, "large.lst")
    if not os.path.exists(listed):
        subprocess.run([python["pillow"], __file__, "--make", arguments.photos, folder], check=True)
        subprocess.run([iterpack, "list", large, listed, "--no-labels"], check=True)
    for name, how in SETS.items():
        if not os.path.exists(os.path.join(folder, name + ".rec")):
            subprocess.run([iterpack, "pack", listed, os.path.join(folder, name + ".rec"), "--root", large, *how], check=True)
    lines = ["| the loader | beside | ours: photos/s | other: photos/s | times as fast |", "| --- | --- | --- | --- | --- |"]
    print("\n".join(lines), flush=True)
    for ours, scale in ROWS:
        if arguments.only and arguments.only not in ours:
            continue
        kinds = ("opencv-whole", "pillow-whole") if scale == "exact" else ("opencv-reduced", "pillow-draft")
        a = "%s serve --loader dataloader --workers 0 --batch %d --data recordio:%s/%s.rec --chain '%s'" % (
            iterbench, BATCH, folder, ours, CHAIN % scale)
        for kind in kinds:
            b = "%s %s --serve %s %s" % (python[kind.split("-")[0]], os.path.abspath(__file__), kind, folder)
            with tempfile.NamedTemporaryFile() as file:
                subprocess.run(["taskset", "-c", "1", iterbench, "versus", "--a", b, "--b", a, "--pairs", str(arguments.pairs), "--slice", "2",
                                "--json", file.name], check=True, stdout=subprocess.DEVNULL)
                found = json.load(open(file.name, encoding="utf-8"))
            lines.append("| %s, jpeg-scale=%s | %s | %.0f | %.0f | %.2f [%.2f, %.2f] |" % (
                ours, scale, kind.replace("-", ", "), found["b"]["samples_per_s"], found["a"]["samples_per_s"], found["ratio"]["median"],
                found["ratio"]["low"], found["ratio"]["high"]))
            print(lines[-1], flush=True)
    if arguments.out:
        with open(arguments.out, "w", encoding="utf-8") as file:
            file.write("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""How far the pixels of jpeg-scale=auto and fast are from those of exact: PSNR over each image of a set, the same windows.

Usage: jpeg_scale.py DATA STAGE...   (with the package `libiter`; e.g. folder:photos random-resized-crop:size=64 resize:size=64)

Prints a row of a table per stage and value: how many images have other pixels, and of these the least PSNR, the one that 5 % are
below, and the median, in dB.
"""
import sys

import numpy

import libiter


def rows(data, stage):
    loader = libiter.Loader(data, chain=stage, batch_size=16, shuffle=False, epochs=1, workers=0, seed=3)
    return numpy.concatenate([numpy.array(batch[0]) for batch in loader]).astype(numpy.float64)


def main():
    data, stages = sys.argv[1], sys.argv[2:]
    print("| stage | jpeg-scale | other pixels | least | 5 % below | median |\n| --- | --- | --- | --- | --- | --- |")
    for stage in stages:
        exact = rows(data, stage)
        for value in ("auto", "fast"):
            error = ((rows(data, stage + ",jpeg-scale=" + value) - exact) ** 2).mean(axis=(1, 2, 3))
            share = (error > 0).mean()
            text = "| - | - | -"
            if share > 0:
                psnr = 10 * numpy.log10(255**2 / error[error > 0])
                text = "| %.1f | %.1f | %.1f" % (psnr.min(), numpy.percentile(psnr, 5), numpy.median(psnr))
            print("| %s | %s | %.0f %% %s |" % (stage, value, 100 * share, text), flush=True)


if __name__ == "__main__":
    main()

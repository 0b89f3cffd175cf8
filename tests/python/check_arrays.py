"""Images in arrays, from .npy files that numpy writes and from IDX files to dumped batches, against
Pillow and numpy.

Usage: check_arrays.py   with ITERBENCH in the environment; otherwise skipped (77)

The same pixels are stored as [N, H, W, C], as [N, C, H, W], in Fortran order, big-endian, and as
IDX of rank 4: each must give the same rows. Equal byte for byte: crops, flips, and bilinear resizes
(Pillow 13 or later; with older ones, one level apart). normalize: within 2 ulp of float32.
"""
import os, struct, subprocess, sys, tempfile

import philox

iterbench = os.environ.get("ITERBENCH")


def skip(reason):
    print("skipped:", reason)
    sys.exit(77)


if not iterbench:
    skip("ITERBENCH names no program")
try:
    import numpy as np
    import PIL
    from PIL import Image
except ImportError:
    skip("no numpy or no Pillow")

SEED, N, HEIGHT, WIDTH = 11, 30, 47, 61
PILLOW = 0 if int(PIL.__version__.split(".")[0]) >= 13 else 1
MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


def crop(a, at):  # pad=4, then a window drawn from what the padding leaves
    draws = philox.Draws(SEED, "random-crop", at)
    a = np.pad(a, ((4, 4), (4, 4)) + ((0, 0),) * (a.ndim - 2))
    y, x = draws.below(a.shape[0] - 40 + 1), draws.below(a.shape[1] - 40 + 1)
    return a[y:y + 40, x:x + 40]


def flip(a, at):
    return a[:, ::-1] if philox.Draws(SEED, "random-flip", at).chance(0.5) else a


def resize(a, at):
    return np.asarray(Image.fromarray(a).resize((32, 32), Image.BILINEAR))


def normalize(a, at):
    return (a.astype(np.float64) / 255 - MEAN) / STD


def planes(a, at):
    return a.transpose(2, 0, 1).astype(np.float32)


def one_plane(a, at):
    return a[None].astype(np.float32)


NORMALIZE = "normalize:mean=%s,std=%s" % (";".join(map(str, MEAN)), ";".join(map(str, STD)))
# Chain, its stages, and the tolerance: levels, or the share of a float.
COLOURS = [
    ("random-crop:size=40,pad=4 | random-flip", [crop, flip], 0),
    ("resize:32", [resize], PILLOW),
    ("random-crop:size=40,pad=4 | resize:32 | %s | to:f32,nchw" % NORMALIZE, [crop, resize, normalize, planes], 2**-22 + PILLOW / 50),
    ("%s | to:f32,nchw" % NORMALIZE, [normalize, planes], 2**-22),
]
GRAY = [
    ("random-crop:size=40,pad=4 | random-flip", [crop, flip], 0),
    ("random-crop:size=40,pad=4 | to:f32,nchw", [crop, one_plane], 0),
]


def put_idx(path, array):
    with open(path, "wb") as f:
        f.write(struct.pack(">BBBB%dI" % array.ndim, 0, 0, 0x08, array.ndim, *array.shape) + array.tobytes())


def dump(data, chain, out):
    done = subprocess.run([iterbench, "--loader", "dataloader", "--data", data, "--chain", chain, "--shuffle", "none", "--seed", str(SEED), "--batch", str(N),
                           "--dump", out, "--batches", "1"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if done.returncode != 0:
        raise SystemExit("iterbench %s, %s: %s" % (data, chain, done.stderr.strip()))
    return np.load(os.path.join(out, "data.npy"))


failed = 0
with tempfile.TemporaryDirectory() as folder:
    def path(name):
        return os.path.join(folder, name)

    draw = np.random.default_rng(3)
    soft = np.add.outer(np.add.outer(np.arange(N) * 9, np.arange(HEIGHT) * 3), np.arange(WIDTH) * 2)
    hwc = (np.stack([soft, soft * 2, 255 - soft], axis=-1) + draw.integers(0, 40, (N, HEIGHT, WIDTH, 3))).astype(np.uint8)
    gray = hwc[..., 1].copy()
    np.save(path("hwc.npy"), hwc)
    np.save(path("chw.npy"), hwc.transpose(0, 3, 1, 2).copy())
    np.save(path("fortran.npy"), np.asfortranarray(hwc))
    np.save(path("fortran_chw.npy"), np.asfortranarray(hwc.transpose(0, 3, 1, 2)))
    np.save(path("gray.npy"), gray)
    put_idx(path("hwc.idx"), hwc)
    put_idx(path("chw.idx"), hwc.transpose(0, 3, 1, 2).copy())
    sets = [("npy:%s?layout=hwc" % path("hwc.npy"), hwc, COLOURS), ("npy:%s?layout=chw" % path("chw.npy"), hwc, COLOURS),
            ("npy:%s?layout=hwc" % path("fortran.npy"), hwc, COLOURS), ("npy:%s?layout=chw" % path("fortran_chw.npy"), hwc, COLOURS),
            ("mnist:%s?layout=hwc" % path("hwc.idx"), hwc, COLOURS), ("mnist:%s?layout=chw" % path("chw.idx"), hwc, COLOURS),
            ("npy:%s?layout=hwc" % path("gray.npy"), gray, GRAY)]
    for data, pixels, chains in sets:
        for chain, stages, most in chains:
            want = []
            for at, a in enumerate(pixels):
                for stage in stages:
                    a = stage(a, at)
                want.append(a)
            want = np.stack(want).astype(np.float64)
            # resize needs HWC; crops and flips of planes give planes
            if "chw" in data.split("layout=")[1]:
                chain = "to:u8,hwc | " + chain if "resize" in chain else chain
                want = want.transpose(0, 3, 1, 2) if want.shape[-1] == 3 and "resize" not in chain else want
            got = dump(data, chain, path("dump")).astype(np.float64)
            apart = np.abs(got - want) / np.maximum(1, np.abs(want)) if most < 1 and most > 0 else np.abs(got - want)
            ok = got.shape == want.shape and apart.max() <= most
            print("%-40s %-110s most %g%s" % (os.path.basename(data), chain, apart.max() if got.shape == want.shape else -1, "" if ok else ", FAILED"))
            failed += not ok

    # Numbers, not pixels: every byte order and storage order of a table is the same table.
    table = draw.standard_normal((500, 33)).astype(np.float64)
    for name, array in (("c", table), ("big", table.astype(">f8")), ("fortran", np.asfortranarray(table)), ("both", np.asfortranarray(table.astype(">f8")))):
        np.save(path(name + ".npy"), array)
        got = dump("npy:" + path(name + ".npy"), "cast:f64", path("dump"))
        if got.tobytes() != table[:N].tobytes():
            print("npy:%s differs" % name)
            failed += 1
sys.exit(1 if failed else 0)

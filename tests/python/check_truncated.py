"""Pictures that end early, with truncated=accept, against Pillow under LOAD_TRUNCATED_IMAGES: each
golden picture cut at many places.

Usage: check_truncated.py   with ITERBENCH in the environment (built with JPEG and PNG); otherwise
skipped (77)

Equal byte for byte, whole and in parts; but versions of libjpeg-turbo smooth progressive pictures
differently, by at most SMOOTHING levels. If Pillow has nothing to show, it shows black; then
libiter fails the sample: a JPEG whose marker segment is cut, or that is cut before its pixels
begin. Every other sample that fails here is a fault, except for arithmetic coding.
"""
import io, os, subprocess, sys, tempfile

import philox

iterbench = os.environ.get("ITERBENCH")


def skip(reason):
    print("skipped:", reason)
    sys.exit(77)


if not iterbench:
    skip("ITERBENCH names no program")
try:
    import numpy as np
    from PIL import Image, ImageFile
except ImportError:
    skip("no numpy or no Pillow")
ImageFile.LOAD_TRUNCATED_IMAGES = True

SEED, HEIGHT, WIDTH, PART, SMOOTHING = 5, 45, 53, 20, 24
GOLDEN = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "golden", "images")
FILES = ["rgb444.jpg", "rgb422.jpg", "rgb420.jpg", "gray.jpg", "restart.jpg", "progressive.jpg", "cmyk.jpg",
         "rgb8.png", "g8.png", "p8.png", "p4.png", "rgba8.png", "i_rgb8.png", "i_p4.png"]


def by_pillow(data):  # None: it does not know the type, or fails on the rest
    try:
        return np.asarray(Image.open(io.BytesIO(data)).convert("RGB"))
    except OSError:
        return None


def dump(folder, n, chain, out, on_error="blank"):
    done = subprocess.run([iterbench, "--loader", "dataloader", "--data", "folder:%s?labels=no&truncated=accept" % folder, "--chain", chain,
                           "--shuffle", "none", "--seed", str(SEED), "--batch", str(n), "--dump", out, "--batches", "1", "--on-error", on_error, "--workers", "2"],
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if done.returncode != 0:
        if "this build is without" in done.stderr:
            skip(done.stderr.strip().splitlines()[-1])
        raise SystemExit("iterbench %s: %s" % (chain, done.stderr.strip()))
    return np.load(os.path.join(out, "data.npy"))


bad = 0
with tempfile.TemporaryDirectory() as top:
    for name in FILES:
        with open(os.path.join(GOLDEN, name), "rb") as f:
            whole = f.read()
        folder, out = os.path.join(top, name), os.path.join(top, "dump")
        os.makedirs(folder)
        with open(os.path.join(folder, name), "wb") as f:
            f.write(whole)
        dump(folder, 1, "center-crop:%d" % PART, out, "fail")  # a build that has its codec reads the whole file
        os.remove(os.path.join(folder, name))
        step = max(1, len(whole) // 400)
        cuts = list(range(20, len(whole), step))
        for i, cut in enumerate(cuts):
            with open(os.path.join(folder, "%05d%s" % (i, name[-4:])), "wb") as f:
                f.write(whole[:cut])
        want = [by_pillow(whole[:cut]) for cut in cuts]
        got = dump(folder, len(cuts), "center-crop:height=%d,width=%d" % (HEIGHT, WIDTH), out)
        parts = dump(folder, len(cuts), "random-crop:%d" % PART, out)
        count = dict.fromkeys("equal black unread differs part".split(), 0)
        for i, pixels in enumerate(want):
            if pixels is None:
                kind = "unread"
            elif not pixels.any():
                kind = "differs" if got[i].any() else "black"
            else:
                apart = np.abs(got[i].astype(int) - pixels).max()
                kind = "equal" if apart <= (SMOOTHING if name == "progressive.jpg" else 0) else "differs"
            count[kind] += 1
            if kind == "differs" and count[kind] <= 3:
                print(name, "cut after", cuts[i], "of", len(whole), "differs" if got[i].any() else "failed")
            draws = philox.Draws(SEED, "random-crop", i)
            y, x = draws.below(HEIGHT - PART + 1), draws.below(WIDTH - PART + 1)
            # a part above the damage decodes even if the whole fails; otherwise it is the cut of the whole
            if got[i].any() and not np.array_equal(parts[i], got[i][y:y + PART, x:x + PART]):
                count["part"] += 1
        print("%-18s %4d cuts: %s" % (name, len(cuts), ", ".join("%d %s" % (n, kind) for kind, n in count.items())))
        bad += count["differs"] + count["part"] + (count["equal"] == 0)
sys.exit(1 if bad else 0)

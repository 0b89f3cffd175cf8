"""Resizes, crops and colours of photos, from PNG files of different sizes to dumped batches,
against Pillow and numpy, and against torch and torchvision if they are installed.

Usage: check_images.py with ITERBENCH in the environment (built with PNG), and ITER_DATA with photos
in it; otherwise skipped (77)

Equal byte for byte: bilinear with antialias and bicubic (Pillow 13 or later; with older ones, one
level apart), colours (Pillow), crops, flips, erasing. Within one level: bilinear without antialias
(numpy, torch), area (numpy). Nearest takes the pixel under the centre. Random numbers come from a
Philox written from its definition, and sides from exp and log.
"""
import glob, math, os, subprocess, sys, tempfile

import philox

iterbench, data = os.environ.get("ITERBENCH"), os.environ.get("ITER_DATA")


def skip(reason):
    print("skipped:", reason)
    sys.exit(77)


if not iterbench:
    skip("ITERBENCH names no program")
try:
    import numpy as np
    import PIL
    from PIL import Image, ImageEnhance
except ImportError:
    skip("no numpy or no Pillow")
photos = sorted(glob.glob(os.path.join(data or "", "clothing", "**", "*.jp*g"), recursive=True))[::31][:20]
if not data or not photos:
    skip("ITER_DATA holds no photos (clothing/)")
try:
    import torch
except ImportError:
    torch = None
try:
    from torchvision.transforms import functional as tv
except ImportError:
    tv = None

SEED = 7
PILLOW = 0 if int(PIL.__version__.split(".")[0]) >= 13 else 1  # levels: before 13 passes could go in the other order


class Draws(philox.Draws):
    def __init__(self, name, position):
        super().__init__(SEED, name, position)

    def uniform(self, low=0.0, high=1.0):
        return low + (high - low) * ((self.u32() >> 8) / 2**24)

    def sides(self, share, ratio, area):  # as torchvision draws them: the second number is the one that ratio puts above
        part = area * self.uniform(*share)
        aspect = math.exp(self.uniform(math.log(ratio[0]), math.log(ratio[1])))
        return round(math.sqrt(part / aspect)), round(math.sqrt(part * aspect))


# ---- Stages: pixels [H, W, 3] and a position to pixels -------------------------------------------

def bilinear(height, width, how=Image.BILINEAR):
    return lambda a, at: np.asarray(Image.fromarray(a).resize((width, height), how))


def bicubic(height, width):
    return bilinear(height, width, Image.BICUBIC)


def lines(a, n_out, weights):  # along the first axis, in float64
    return np.tensordot(weights(a.shape[0], n_out), a.astype(np.float64), (1, 0))


def two_nearest(n_in, n_out):
    at = np.clip((np.arange(n_out) + 0.5) * n_in / n_out - 0.5, 0, n_in - 1)
    return np.maximum(1 - np.abs(np.arange(n_in)[None] - at[:, None]), 0)


def covered(n_in, n_out):
    low, high, x = np.arange(n_out)[:, None] * n_in / n_out, np.arange(1, n_out + 1)[:, None] * n_in / n_out, np.arange(n_in)[None]
    return np.maximum(np.minimum(x + 1, high) - np.maximum(x, low), 0) * n_out / n_in


def by_weights(weights, height, width):
    return lambda a, at: np.floor(lines(lines(a, height, weights).swapaxes(0, 1), width, weights).swapaxes(0, 1) + 0.5)


def nearest(height, width):
    return lambda a, at: a[(2 * np.arange(height) + 1) * a.shape[0] // (2 * height)][:, (2 * np.arange(width) + 1) * a.shape[1] // (2 * width)]


def by_torch(height, width, **options):
    return lambda a, at: torch.nn.functional.interpolate(torch.from_numpy(a.copy()).permute(2, 0, 1)[None].float(), (height, width),
                                                         **options)[0].permute(1, 2, 0).round().numpy()


def centre(size):
    def crop(a, at):
        y, x = (a.shape[0] - size) // 2, (a.shape[1] - size) // 2
        return a[y:y + size, x:x + size]
    return crop


def torchvision_centre(size):  # its functional.center_crop()
    def crop(a, at):
        y, x = int(round((a.shape[0] - size) / 2.0)), int(round((a.shape[1] - size) / 2.0))
        return a[y:y + size, x:x + size]
    return crop


def short(size, how=bilinear):
    def resize(a, at):
        height, width = a.shape[:2]
        height, width = (size, size * width // height) if height <= width else (size * height // width, size)
        return how(height, width)(a, at)
    return resize


def random_crop(size):
    def crop(a, at):
        draws = Draws("random-crop", at)
        y, x = draws.below(a.shape[0] - size + 1), draws.below(a.shape[1] - size + 1)
        return a[y:y + size, x:x + size]
    return crop


def resized_crop(size, scale=(0.08, 1.0), ratio=(3 / 4, 4 / 3), how=bilinear):
    def crop(a, at):
        draws, (height, width) = Draws("random-resized-crop", at), a.shape[:2]
        for _ in range(10):
            h, w = draws.sides(scale, ratio, height * width)
            if 0 < h <= height and 0 < w <= width:
                y, x = draws.below(height - h + 1), draws.below(width - w + 1)
                break
        else:
            h, w = height, width
            if width / height < ratio[0]:
                h = round(width / ratio[0])
            elif width / height > ratio[1]:
                w = round(height * ratio[1])
            y, x = (height - h) // 2, (width - w) // 2
        return how(size, size)(a[y:y + h, x:x + w], at)
    return crop


def erasing(p, scale=(0.02, 0.33), ratio=(0.3, 3.3), fill=0):
    def erase(a, at):
        draws, (height, width), a = Draws("random-erasing", at), a.shape[:2], a.copy()
        if draws.chance(p):
            for _ in range(10):
                w, h = draws.sides(scale, ratio, height * width)
                if 0 < h < height and 0 < w < width:
                    y, x = draws.below(height - h + 1), draws.below(width - w + 1)
                    a[y:y + h, x:x + w] = fill
                    break
        return a
    return erase


def flipped(a, at):
    return a[:, ::-1] if Draws("random-flip", at).chance(0.5) else a


def turned(image, by):  # torchvision's adjust_hue over Pillow's images
    h, s, v = image.convert("HSV").split()
    h = Image.fromarray(np.asarray(h) + np.array(by * 255).astype(np.int32).astype(np.uint8))
    return Image.merge("HSV", (h, s, v)).convert("RGB")


def jitter(amounts):
    def change(a, at):
        draws, order, image = Draws("color-jitter", at), [0, 1, 2, 3], Image.fromarray(a)
        for i in (3, 2, 1):
            k = draws.below(i + 1)
            order[i], order[k] = order[k], order[i]
        by = [float(np.float32(draws.uniform(max(0.0, 1 - x), 1 + x))) for x in amounts[:3]]
        by.append(float(np.float32(draws.uniform(-amounts[3], amounts[3]))))
        steps = [lambda m, f: ImageEnhance.Brightness(m).enhance(f), lambda m, f: ImageEnhance.Contrast(m).enhance(f),
                 lambda m, f: ImageEnhance.Color(m).enhance(f), turned]
        if tv:
            steps = [tv.adjust_brightness, tv.adjust_contrast, tv.adjust_saturation, tv.adjust_hue]
        for what in order:
            if amounts[what]:
                image = steps[what](image, by[what])
        return np.asarray(image)
    return change


def gray(a, at):
    return np.dstack([np.asarray(Image.fromarray(a).convert("L"))] * 3)


# Chain, its stages, levels apart at most.
CHAINS = [
    ("resize:224", [bilinear(224, 224)], PILLOW),
    ("resize:height=150,width=260", [bilinear(150, 260)], PILLOW),
    ("resize:height=600,width=37", [bilinear(600, 37)], PILLOW),
    ("resize:224,interpolation=bicubic", [bicubic(224, 224)], PILLOW),
    ("resize:height=600,width=37,interpolation=bicubic", [bicubic(600, 37)], PILLOW),
    ("resize-short:180,interpolation=bicubic | center-crop:160,rounding=torchvision", [short(180, bicubic), torchvision_centre(160)], PILLOW),
    ("random-resized-crop:224,interpolation=bicubic", [resized_crop(224, how=bicubic)], PILLOW),
    ("center-crop:201,rounding=torchvision", [torchvision_centre(201)], 0),
    ("resize:224,antialias=0", [by_weights(two_nearest, 224, 224)], 1),
    ("resize:height=150,width=700,antialias=0", [by_weights(two_nearest, 150, 700)], 1),
    ("resize:224,interpolation=area", [by_weights(covered, 224, 224)], 1),
    ("resize:height=97,width=64,interpolation=area", [by_weights(covered, 97, 64)], 1),
    ("resize:224,interpolation=nearest", [nearest(224, 224)], 0),
    ("resize:height=90,width=333,interpolation=nearest", [nearest(90, 333)], 0),
    ("resize-short:180 | center-crop:160", [short(180), centre(160)], PILLOW),
    ("center-crop:256", [centre(256)], 0),
    ("random-crop:200", [random_crop(200)], 0),
    ("random-resized-crop:224", [resized_crop(224)], PILLOW),
    ("random-resized-crop:64,scale=0.4;0.5,ratio=1;1 | random-flip", [resized_crop(64, (0.4, 0.5), (1, 1)), flipped], PILLOW),
    ("random-flip | random-resized-crop:96,scale=0.9;1,ratio=2;3", [flipped, resized_crop(96, (0.9, 1), (2, 3))], PILLOW),
    ("random-erasing:0.8,fill=9 | center-crop:200", [erasing(0.8, fill=9), centre(200)], 0),
    ("center-crop:200 | random-erasing:0.8,scale=0.1;0.6,ratio=0.5;2", [centre(200), erasing(0.8, (0.1, 0.6), (0.5, 2))], 0),
    ("center-crop:200 | color-jitter:0.4,0.4,0.4,0.1", [centre(200), jitter((0.4, 0.4, 0.4, 0.1))], 0),
    ("color-jitter:hue=0.5 | center-crop:200", [jitter((0, 0, 0, 0.5)), centre(200)], 0),
    ("color-jitter:contrast=2 | resize:99", [jitter((0, 2, 0, 0)), bilinear(99, 99)], PILLOW),
    ("color-jitter:1,1,1,0.5 | center-crop:100", [jitter((1, 1, 1, 0.5)), centre(100)], 0),
    ("grayscale | center-crop:200", [gray, centre(200)], 0),
]
if torch:
    CHAINS.append(("resize:224,antialias=0", [by_torch(224, 224, mode="bilinear", align_corners=False)], 1))


def dump(folder, chain, level, out):
    command = [iterbench, "--loader", "dataloader", "--data", "folder:" + folder, "--chain", chain, "--shuffle", "none", "--seed", str(SEED),
               "--batch", str(len(photos)), "--dump", out, "--batches", "1"]
    done = subprocess.run(command, env=dict(os.environ, ITER_CPU=level), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if done.returncode != 0:
        if "PNG" in done.stderr and "without" in done.stderr:
            skip(done.stderr.strip())
        raise SystemExit("iterbench %s: %s" % (chain, done.stderr.strip()))
    return np.load(os.path.join(out, "data.npy"))


failed = 0
with tempfile.TemporaryDirectory() as folder:
    pixels, files = [], os.path.join(folder, "photos")
    os.makedirs(os.path.join(files, "one"))
    for i, path in enumerate(photos):
        image = Image.open(path).convert("RGB")
        image = image.crop((0, 0, image.width - i % 7, image.height - i % 5))
        image.save(os.path.join(files, "one", "%04d.png" % i), compress_level=1)
        pixels.append(np.asarray(image))
    for chain, stages, most in CHAINS:
        want = []
        for at, a in enumerate(pixels):
            for stage in stages:
                a = stage(a, at)
            want.append(a)
        want = np.stack(want).astype(int)
        got = {level: dump(files, chain, level, os.path.join(folder, "dump")) for level in ("generic", "avx2", "avx512")}
        apart = np.abs(got["generic"].astype(int) - want) if got["generic"].shape == want.shape else np.array([999])
        same = all(got[level].tobytes() == got["generic"].tobytes() for level in got)
        print("%-70s most %3d, not equal %.4f %%%s" % (chain, apart.max(), 100 * (apart > 0).mean(), "" if same else ", LEVELS DIFFER"))
        failed += apart.max() > most or not same
sys.exit(1 if failed else 0)

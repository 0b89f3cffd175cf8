"""Dumps of every image, value and label stage, and of chains of them, against numpy.

Usage: check_transforms.py   with ITERBENCH in the environment, otherwise skipped (77)

A set in CIFAR-10's binary format and one in MNIST's are made here from numpy's own generator. Each
chain runs through `iterbench --dump` at every SIMD level, and here stage by stage in float64. The
random numbers come from a Philox written from its definition. Integers must be equal; f32 within 4
* 2^-24 * (|a x| + |b|); f16 and bf16 within one unit in the last place of the reference rounded
once.
"""
import os, struct, subprocess, sys, tempfile

from philox import Draws

iterbench = os.environ.get("ITERBENCH")
if not iterbench:
    print("skipped: ITERBENCH names no program")
    sys.exit(77)
try:
    import numpy as np
except ImportError:
    print("skipped: no numpy")
    sys.exit(77)

SEED, N, BATCH = 7, 24, 8


# ---- Stages in float64 over [C, H, W]. Beside the values v: a, x, b with v = a x + b, for the bound. 

class Image:
    def __init__(self, pixels, dtype):
        self.x, self.a, self.b, self.dtype = pixels.astype(np.float64), np.ones(pixels.shape), np.zeros(pixels.shape), dtype

    def map(self, function):
        self.x, self.a, self.b = (function(m) for m in (self.x, self.a, self.b))

    def affine(self, scale, bias):
        scale, bias = (np.broadcast_to(np.reshape(np.asarray(m, np.float64), (-1, 1, 1)), self.x.shape) for m in (scale, bias))
        self.a, self.b, self.dtype = self.a * scale, self.b * scale + bias, "f4"

    def value(self):
        return self.a * self.x + self.b

    def look_up(self, table):  # values are bytes, whatever made them
        self.x = table[self.value().astype(np.int64)].astype(np.float64)
        self.a, self.b = np.ones(self.x.shape), np.zeros(self.x.shape)

    def round(self, dtype):  # a cast that rounds: later stages see the rounded value
        self.x = nearest(self.value(), dtype)
        self.a, self.b, self.dtype = np.ones(self.x.shape), np.zeros(self.x.shape), dtype


def bf16(v):  # nearest even in the upper 16 bits of an f32 that was rounded to odd
    f = v.astype(np.float32)
    bits = f.view(np.uint32).copy()
    back = f.astype(np.float64)
    fix = (back != v) & (bits & 1 == 0)
    bits[fix & (np.abs(back) > np.abs(v))] -= 1
    bits[fix & (np.abs(back) < np.abs(v))] += 1
    bits = (bits + 0x7FFF + (bits >> 16 & 1)) & 0xFFFF0000
    return bits.astype(np.uint32).view(np.float32).astype(np.float64)


def nearest(v, dtype):
    if dtype == "bf16":
        return bf16(v)
    if dtype[0] == "f":
        return v.astype(dtype).astype(np.float64)
    info = np.iinfo(dtype)
    return np.clip(np.rint(v), info.min, info.max)


def pad(image, sides, mode, value):
    top, left, bottom, right = sides
    widths = ((0, 0), (top, bottom), (left, right))
    if mode != "constant":
        image.map(lambda m: np.pad(m, widths, mode))
        return
    fill = nearest(np.array([float(value)]), image.dtype)[0]
    image.x = np.pad(image.x, widths, constant_values=fill)
    image.a = np.pad(image.a, widths, constant_values=1)
    image.b = np.pad(image.b, widths, constant_values=0)


def numbers(text, absent):
    return [float(n) for n in text.split(";")] if text else [absent]


def cutout(image, o, draws):
    _, height, width = image.x.shape
    y, x, size = draws.below(height) - int(o["size"]) // 2, draws.below(width) - int(o["size"]) // 2, int(o["size"])
    rows, columns = slice(max(y, 0), max(y + size, 0)), slice(max(x, 0), max(x + size, 0))
    image.x, image.a, image.b = image.x.copy(), image.a.copy(), image.b.copy()
    image.x[:, rows, columns], image.a[:, rows, columns], image.b[:, rows, columns] = float(o.get("fill", 0)), 1, 0


def table_of(name, o):
    x = np.arange(256)
    if name == "posterize":
        return x & ~(2**(8 - int(o["bits"])) - 1)
    if name == "solarize":
        return np.where(x < int(o.get("threshold", 128)), x, 255 - x)
    if name == "invert":
        return 255 - x
    return np.minimum(np.floor(255.999 * float(o.get("gain", 1)) * (x / 255.0)**float(o["gamma"])), 255)


TYPES = {"u8": "u1", "i8": "i1", "u16": "u2", "i16": "i2", "u32": "u4", "i32": "i4", "u64": "u8", "i64": "i8", "f16": "f2", "bf16": "bf16",
         "f32": "f4", "f64": "f8"}
POSITIONAL = {"random-crop": ["size"], "center-crop": ["size"], "crop": ["y", "x", "height", "width"], "pad": ["all", "value"],
              "posterize": ["bits"], "random-posterize": ["bits", "p"], "solarize": ["threshold"], "random-solarize": ["threshold", "p"],
              "random-invert": ["p"], "gamma": ["gamma", "gain"], "random-flip": ["p"], "flip": ["axis"], "cutout": ["size"], "scale": ["factor", "bias"],
              "normalize": ["mean", "std"], "cast": ["dtype"], "to": ["dtype", "layout"]}


def apply(image, name, o, draws):
    _, height, width = image.x.shape
    mode = {"constant": "constant", "reflect": "reflect", "edge": "edge"}[o.get("mode", "constant")]
    window = int(o.get("size", o.get("height", 0))), int(o.get("size", o.get("width", 0)))
    if name == "random-crop":
        pad(image, [int(o.get("pad", 0))] * 4, mode, o.get("fill", 0))
        _, height, width = image.x.shape
        y, x = draws.below(height - window[0] + 1), draws.below(width - window[1] + 1)
        image.map(lambda m: m[:, y:y + window[0], x:x + window[1]])
    elif name == "center-crop":
        if o.get("rounding") == "torchvision":
            y, x = int(round((height - window[0]) / 2.0)), int(round((width - window[1]) / 2.0))
        else:
            y, x = (height - window[0]) // 2, (width - window[1]) // 2
        image.map(lambda m: m[:, y:y + window[0], x:x + window[1]])
    elif name == "crop":
        y, x = int(o["y"]), int(o["x"])
        image.map(lambda m: m[:, y:y + window[0], x:x + window[1]])
    elif name == "pad":
        pad(image, [int(o.get("all", 0)) + int(o.get(side, 0)) for side in ("top", "left", "bottom", "right")], mode, o.get("value", 0))
    elif name == "flip" or (name == "random-flip" and draws.chance(float(o.get("p", 0.5)))):
        image.map(lambda m: m[:, ::-1] if o.get("axis") == "vertical" else m[:, :, ::-1])
    elif name == "cutout":
        cutout(image, o, draws)
    elif name == "invert":  # arithmetic of bytes, which joins later arithmetic
        dtype = image.dtype
        image.affine(-1, 255)
        image.dtype = dtype
    elif name in ("posterize", "solarize", "gamma") or (name in ("random-posterize", "random-solarize", "random-invert") and
                                                        draws.chance(float(o.get("p", 0.5)))):
        image.look_up(table_of(name.replace("random-", ""), o))
    elif name == "scale":
        image.affine(float(o.get("factor", 1)), float(o.get("bias", 0)))
    elif name == "normalize":
        if image.dtype == "u1":
            image.affine(1 / 255, 0)
        image.affine(1, [-m for m in numbers(o.get("mean"), 0)])
        image.affine([1 / s for s in numbers(o.get("std"), 1)], 0)
    elif name in ("cast", "to") and o.get("dtype"):
        dtype = TYPES[o["dtype"]]
        if dtype in ("f4", "f8"):
            image.dtype = dtype
        else:
            image.round(dtype)


def run_numpy(pixels, chain, position):
    """The image of one sample, and its layout."""
    image, layout, seen = Image(pixels, "u1"), "CHW", {}
    for stage in chain.split("|"):
        name, _, arguments = stage.strip().partition(":")
        options, place = {}, 0
        for argument in filter(None, arguments.split(",")):
            if "=" in argument:
                key, value = argument.split("=")
            else:
                key, value, place = POSITIONAL[name][place], argument, place + 1
            options[key] = value
        apply(image, name, options, Draws(SEED, name, position, seen.get(name, 0)))
        seen[name] = seen.get(name, 0) + 1
        if options.get("layout"):
            layout = {"nchw": "CHW", "chw": "CHW"}.get(options["layout"], "HWC")
    return image, layout


# ---- Comparison ----------------------------------------------------------------------------------

def spacing(v, digits, lowest):  # distance to the next larger value of a float with so many digits
    _, exponent = np.frexp(np.abs(v))
    return np.ldexp(1.0, np.maximum(exponent - digits, lowest))


def compare(got, images, dtype):
    want = np.stack([image.value() for image in images])
    if dtype == "bf16":
        got = (got.astype(np.uint32) << 16).view(np.float32)
    got = got.astype(np.float64)
    if got.shape != want.shape:
        return "shape %s, not %s" % (got.shape, want.shape)
    if dtype in ("f4", "f8"):
        bound = np.stack([4 * 2.0**-24 * (np.abs(i.a * i.x) + np.abs(i.b)) for i in images])
    elif dtype in ("f2", "bf16"):
        want = nearest(want, dtype)
        bound = spacing(want, 11, -24) if dtype == "f2" else spacing(want, 8, -133)
    else:
        bound = np.zeros(want.shape)
    bad = np.abs(got - want) > bound
    if not bad.any():
        return None
    where = tuple(int(i) for i in np.argwhere(bad)[0])
    return "%d elements differ, first at %s: %r, not %r" % (bad.sum(), where, got[where], want[where])


def dump(data, chain, level, folder):
    command = [iterbench, "--loader", "dataloader", "--data", data, "--chain", chain, "--shuffle", "none", "--seed", str(SEED), "--batch", str(BATCH),
               "--dump", folder, "--batches", str(N // BATCH)]
    done = subprocess.run(command, env=dict(os.environ, ITER_CPU=level), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if done.returncode != 0:
        raise SystemExit("iterbench: %s" % done.stderr.strip())
    return {name: np.load(os.path.join(folder, name + ".npy")) for name in ("data", "label", "index")}


NORMALIZE = "normalize:mean=0.491;0.482;0.447,std=0.247;0.243;0.261"
COLOUR = [
    "random-crop:32,pad=4", "random-crop:size=28", "random-crop:height=20,width=25,pad=3,fill=99", "random-crop:32,pad=4,mode=reflect",
    "random-crop:32,pad=6,mode=edge", "center-crop:24", "center-crop:height=9,width=21", "center-crop:height=29,width=27,rounding=torchvision",
    "center-crop:height=25,width=26,rounding=torchvision", "crop:3,5,20,17", "pad:2", "pad:2,77",
    "pad:top=1,left=2,bottom=3,right=4,value=300", "pad:5,mode=reflect", "pad:40,mode=reflect", "pad:5,mode=edge", "flip", "flip:vertical",
    "random-flip", "random-flip:0.25,axis=vertical", "cutout:8", "cutout:9,fill=128", "scale:0.5,3", "scale:2 | cast:u8", NORMALIZE,
    "normalize:0.5,0.25", "cast:f64", "cast:i8", "cast:i64", "cast:f16", "cast:bf16", "to:f32,nhwc", "to:u8,hwc", "to:f16,chw",
    "random-crop:32,pad=4 | random-flip | " + NORMALIZE + " | to:f32,nchw",
    "random-crop:32,pad=4 | random-flip | " + NORMALIZE + " | to:f32,nhwc",
    "random-crop:32,pad=4,mode=reflect | random-flip | cutout:8 | " + NORMALIZE + " | to:f16,nchw",
    "random-crop:32,pad=4 | cutout:8,fill=20 | random-flip | cutout:8 | " + NORMALIZE + " | to:bf16,nhwc",
    NORMALIZE + " | random-crop:32,pad=4 | random-flip", NORMALIZE + " | pad:2,value=0.5 | scale:2,1 | cutout:5,fill=-3",
    "scale:0.5 | cast:u8 | scale:0.25,1 | pad:1,value=9", "flip | flip:vertical | center-crop:31 | pad:3,value=5 | random-crop:30 | to:u8,nhwc",
    "random-flip | random-flip | random-flip:axis=vertical",
    "posterize:4", "solarize:100", "invert", "gamma:0.5", "gamma:2.2,1.5 | cast:i32", "random-posterize:3", "random-solarize:90,0.7", "random-invert",
    "random-crop:32,pad=4,fill=9 | random-flip | solarize:77 | invert | " + NORMALIZE + " | to:f32,nchw",
    "random-crop:32,pad=4,fill=200 | random-solarize:77 | random-posterize:3 | " + NORMALIZE + " | to:f16,nhwc",
    "random-invert | random-crop:28 | gamma:0.7 | cutout:8,fill=30 | posterize:5 | to:u8,nhwc",
]
GREY = ["normalize:0.1307,0.3081 | to:f32,nchw", "random-crop:28,pad=2 | random-flip", "cutout:7 | cast:i16", "to:f32,nhwc", "pad:2", "invert | random-solarize | pad:1,7 | cast:f32"]


def make_sets(folder):
    random = np.random.default_rng(11)
    colour, labels = random.integers(0, 256, (N, 3, 32, 32), dtype=np.uint8), random.integers(0, 10, N, dtype=np.uint8)
    grey = random.integers(0, 256, (N, 28, 28), dtype=np.uint8)
    with open(os.path.join(folder, "batch.bin"), "wb") as file:
        for i in range(N):
            file.write(bytes([labels[i]]) + colour[i].tobytes())
    with open(os.path.join(folder, "train-images-idx3-ubyte"), "wb") as file:
        file.write(struct.pack(">IIII", 0x803, N, 28, 28) + grey.tobytes())
    with open(os.path.join(folder, "train-labels-idx1-ubyte"), "wb") as file:
        file.write(struct.pack(">II", 0x801, N) + labels.tobytes())
    return {"cifar10:" + os.path.join(folder, "batch.bin"): (colour, COLOUR), "mnist:" + folder: (grey[:, None], GREY)}, labels


def check_chain(data, pixels, chain, folder):
    dumps = {level: dump(data, chain, level, folder) for level in ("generic", "avx2", "avx512")}
    got = dumps["generic"]["data"]
    if list(dumps["generic"]["index"]) != list(range(N)):
        return "index is not in order"
    for level in dumps:
        if dumps[level]["data"].tobytes() != got.tobytes():
            return "%s gives other bits than generic" % level
    results = [run_numpy(pixels[i], chain, i) for i in range(N)]
    if results[0][1] == "HWC":
        got = got.transpose(0, 3, 1, 2)
    images = [image for image, _ in results]
    if pixels.shape[1] == 1 and got.ndim == 3:
        got = got[:, None]
    return compare(got, images, images[0].dtype)


def check_labels(data, labels, folder):
    classes = dump(data, "one-hot:10", "generic", folder)["label"]
    if classes.dtype != np.float32 or not np.array_equal(classes, np.eye(10, dtype=np.float32)[labels]):
        return "one-hot:10 differs"
    cast = dump(data, "cast:i64,field=label", "generic", folder)["label"]
    if cast.dtype != np.int64 or not np.array_equal(cast, labels.astype(np.int64)):
        return "cast:i64,field=label differs"
    return None


failed = 0
with tempfile.TemporaryDirectory() as folder:
    sets, labels = make_sets(folder)
    out = os.path.join(folder, "dump")
    for data, (pixels, chains) in sets.items():
        for chain in chains:
            problem = check_chain(data, pixels, chain, out)
            if problem:
                failed += 1
                print("%s \"%s\": %s" % (data.partition(":")[0], chain, problem))
        print("%d chains over %s" % (len(chains), data.partition(":")[0]))
        problem = check_labels(data, labels, out)
        if problem:
            failed += 1
            print(problem)
sys.exit(1 if failed else 0)

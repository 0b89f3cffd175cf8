"""Small JPEGs and PNGs of every kind, and Pillow's pixels of them, for test_decode_jpeg.c and
test_decode_png.c.

Usage: python images.py FOLDER   (needs Pillow 11 or later; with OpenCV also 4:4:0 and 4:1:1)

NAME.jpg or NAME.png is the file. Beside it NAME.ppm or NAME.pgm has the pixels that a decoder must
give: RGB; NAME.gray.pgm if one channel is requested; NAME.up.ppm turned by EXIF. PNGs are written
here, since Pillow writes neither interlacing nor every depth. If Pillow reads one with 8 bits, its
pixels are compared with what was written.
"""
import io
import os
import random
import struct
import sys
import zlib

from PIL import Image, ImageOps

folder = sys.argv[1]
HEIGHT, WIDTH = 45, 53
draw = random.Random(7)


def put(name, data):
    with open(os.path.join(folder, name), "wb") as f:
        f.write(data)


def put_pixels(name, image):
    kind = b"P6" if image.mode == "RGB" else b"P5"
    put(name + (".ppm" if image.mode == "RGB" else ".pgm"), b"%s\n%d %d\n255\n" % (kind, image.width, image.height) + image.tobytes())


def picture(height=HEIGHT, width=WIDTH, channels=3):
    """Slopes, an edge and noise."""
    out = bytearray()
    for y in range(height):
        for x in range(width):
            for c in range(channels):
                v = (x * (3 + c) + y * (5 - c)) // 2 + draw.randrange(30) + (90 if x + 2 * y > 70 and c != 1 else 0)
                out.append(v % 256 if c == 2 else min(v, 255))
    return bytes(out)


# ---- JPEG ----

def jpeg(name, image, gray=True, **options):
    stream = io.BytesIO()
    image.save(stream, "JPEG", **options)
    jpeg_bytes(name, stream.getvalue(), gray)


def jpeg_bytes(name, data, gray=True):
    put(name + ".jpg", data)
    put_pixels(name, Image.open(io.BytesIO(data)).convert("RGB"))
    if gray:
        one = Image.open(io.BytesIO(data))
        one.draft("L", one.size)
        put_pixels(name + ".gray", one.convert("L"))


rgb = Image.frombytes("RGB", (WIDTH, HEIGHT), picture())
for subsampling in ("4:4:4", "4:2:2", "4:2:0"):
    jpeg("rgb" + subsampling.replace(":", ""), rgb, quality=85, subsampling=subsampling)
jpeg("progressive", rgb, quality=80, subsampling="4:2:0", progressive=True)
jpeg("restart", rgb, quality=80, subsampling="4:2:0", restart_marker_blocks=2)
jpeg("restart1", rgb, quality=80, subsampling="4:2:0", restart_marker_blocks=1, gray=False)
jpeg("restart3", rgb, quality=80, subsampling="4:2:0", restart_marker_blocks=3, gray=False)  # across rows
jpeg("restart_row", rgb, quality=80, subsampling="4:2:2", restart_marker_rows=1, gray=False)
jpeg("restart_rows", rgb, quality=80, subsampling="4:4:4", restart_marker_rows=2, gray=False)
# arithmetic.jpg is `jpegtran -arithmetic rgb420.jpg`: other bytes, the same pixels
jpeg("one", Image.frombytes("RGB", (1, 1), b"\x10\x80\xf0"), quality=90)
gray = Image.frombytes("L", (WIDTH, HEIGHT), picture(channels=1))
jpeg("gray", gray, quality=90)
jpeg("restart_gray", gray, quality=80, restart_marker_rows=1, gray=False)
jpeg("asrgb", rgb, quality=90, keep_rgb=True, gray=False)
stream = io.BytesIO()
Image.frombytes("CMYK", (WIDTH, HEIGHT), picture(channels=4)).save(stream, "JPEG", quality=90)
cmyk = stream.getvalue()
adobe = cmyk.index(b"Adobe")
jpeg_bytes("cmyk", cmyk, gray=False)
jpeg_bytes("ycck", cmyk[:adobe + 11] + b"\x02" + cmyk[adobe + 12:], gray=False)  # the same bytes, said to be YCCK
try:
    import cv2
    import numpy
    bgr = numpy.asarray(rgb)[:, :, ::-1]
    for name, factor in (("rgb440", cv2.IMWRITE_JPEG_SAMPLING_FACTOR_440), ("rgb411", cv2.IMWRITE_JPEG_SAMPLING_FACTOR_411)):
        jpeg_bytes(name, cv2.imencode(".jpg", bgr, [cv2.IMWRITE_JPEG_QUALITY, 85, cv2.IMWRITE_JPEG_SAMPLING_FACTOR, factor])[1].tobytes())
except ImportError:
    print("no OpenCV: no 4:4:0, no 4:1:1")
turned = Image.frombytes("RGB", (29, 21), picture(21, 29))
for orientation in range(1, 9):
    for endian in ("<", ">"):
        if endian == ">" and orientation != 6:
            continue
        tiff = (b"II*\0" if endian == "<" else b"MM\0*") + struct.pack(endian + "IH", 8, 2)
        tiff += struct.pack(endian + "HHII", 0x0100, 4, 1, 29)  # some other tag first
        tiff += struct.pack(endian + "HHIHHI", 0x0112, 3, 1, orientation, 0, 0)
        stream = io.BytesIO()
        turned.save(stream, "JPEG", quality=90, subsampling="4:2:0", exif=b"Exif\0\0" + tiff)
        name = "exif%d%s" % (orientation, "be" if endian == ">" else "")
        put(name + ".jpg", stream.getvalue())
        put_pixels(name + ".up", ImageOps.exif_transpose(Image.open(io.BytesIO(stream.getvalue()))).convert("RGB"))


# ---- PNG ----

def chunk(kind, data):
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def rows(samples, width, height, channels, depth, xs, ys):
    """Filtered rows of the pixels at xs x ys: filter 0, 1 and 2 in turn."""
    out, before = b"", None
    step = max(1, channels * depth // 8)
    for n, y in enumerate(ys):
        values = [samples[(y * width + x) * channels + c] for x in xs for c in range(channels)]
        if depth == 16:
            row = b"".join(struct.pack(">H", v) for v in values)
        else:
            bits = "".join(format(v, "0%db" % depth) for v in values)
            bits += "0" * (-len(bits) % 8)
            row = bytes(int(bits[i:i + 8], 2) for i in range(0, len(bits), 8))
        kind = n % 3
        if kind == 1:
            coded = bytes((v - (row[i - step] if i >= step else 0)) % 256 for i, v in enumerate(row))
        elif kind == 2:
            coded = bytes((v - (before[i] if before else 0)) % 256 for i, v in enumerate(row))
        else:
            coded = row
        out += bytes([kind]) + coded
        before = row
    return out


ADAM7 = ((0, 8, 0, 8), (4, 8, 0, 8), (0, 4, 4, 8), (2, 4, 0, 4), (0, 2, 2, 4), (1, 2, 0, 2), (0, 1, 1, 2))


def png(name, color, depth, interlace=False, palette=None, more=(), height=HEIGHT, width=WIDTH, orientation=0):
    channels = {0: 1, 2: 3, 3: 1, 4: 2, 6: 4}[color]
    base = picture(height, width, channels)
    if color == 3:
        samples = [v % len(palette) for v in base]
    elif depth == 16:
        samples = [v * 256 + (v * 7 + 200) % 256 for v in base]
    else:
        samples = [v >> (8 - depth) for v in base]
    raw = b""
    if interlace:
        for x0, dx, y0, dy in ADAM7:
            xs, ys = range(x0, width, dx), range(y0, height, dy)
            if len(xs) and len(ys):
                raw += rows(samples, width, height, channels, depth, xs, ys)
    else:
        raw = rows(samples, width, height, channels, depth, range(width), range(height))
    data = b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, depth, color, 0, 0, int(interlace)))
    if palette:
        data += chunk(b"PLTE", b"".join(bytes(p) for p in palette))
    for kind, body in more:
        data += chunk(kind, body)
    packed = zlib.compress(raw, 9)
    half = len(packed) // 2
    data += chunk(b"IDAT", packed[:half]) + chunk(b"IDAT", packed[half:]) + chunk(b"IEND", b"")
    put(name + ".png", data)
    # the values in 8 bits
    pixels = bytearray()
    for i in range(width * height):
        s = samples[i * channels:(i + 1) * channels]
        if color == 3:
            pixels += bytes(palette[s[0]])
            continue
        s = [v >> 8 for v in s] if depth == 16 else [v * 255 // ((1 << depth) - 1) for v in s]
        pixels += bytes([s[0]] * 3 if color in (0, 4) else s[:3])
    image = Image.frombytes("RGB", (width, height), bytes(pixels))
    read = Image.open(io.BytesIO(data))
    if not read.mode.startswith("I"):
        assert read.convert("RGB").tobytes() == image.tobytes(), name
    if orientation:
        put_pixels(name + ".up", ImageOps.exif_transpose(read).convert("RGB"))
        return
    put_pixels(name, image)
    put_pixels(name + ".gray", image.convert("L"))


colors = [(draw.randrange(256), draw.randrange(256), draw.randrange(256)) for _ in range(256)]
for depth in (1, 2, 4, 8, 16):
    png("g%d" % depth, 0, depth)
for depth in (1, 2, 4, 8):
    png("p%d" % depth, 3, depth, palette=colors[:1 << depth])
for depth in (8, 16):
    png("rgb%d" % depth, 2, depth)
    png("ga%d" % depth, 4, depth)
    png("rgba%d" % depth, 6, depth)
png("palpha", 3, 8, palette=colors[:200], more=[(b"tRNS", bytes(range(200)))])
png("rgbkey", 2, 8, more=[(b"tRNS", struct.pack(">HHH", 1, 2, 3))])
png("i_rgb8", 2, 8, interlace=True)
png("i_p4", 3, 4, interlace=True, palette=colors[:16])
png("i_g1", 0, 1, interlace=True)
png("i_rgba16", 6, 16, interlace=True)
png("i_small", 2, 8, interlace=True, height=3, width=2)
png("chunks", 2, 8, more=[(b"gAMA", struct.pack(">I", 45455)), (b"iCCP", b"x\0\0" + zlib.compress(b"none")), (b"tEXt", b"Comment\0words")])
png("turned6", 2, 8, height=21, width=29, orientation=6,
    more=[(b"eXIf", b"MM\0*" + struct.pack(">IHHHIHH", 8, 1, 0x0112, 3, 1, 6, 0) + b"\0\0\0\0")])

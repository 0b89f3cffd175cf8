"""The numbers that tests/unit/test_format_synthetic.c expects, from an independent Philox 4x32-10 and Python's own math.

Run: python3 synthetic.py. The generator is checked first against the published known answers.
"""
import math

M32 = 0xFFFFFFFF


def philox(counter, key):
    c, (k0, k1) = list(counter), key
    for _ in range(10):
        p0, p1 = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
        c = [(p1 >> 32) ^ c[1] ^ k0, p1 & M32, (p0 >> 32) ^ c[3] ^ k1, p0 & M32]
        k0, k1 = (k0 + 0x9E3779B9) & M32, (k1 + 0xBB67AE85) & M32
    return c


assert philox([0] * 4, [0] * 2) == [0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8]
assert philox([M32] * 4, [M32] * 2) == [0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD]


def key_of(seed, stage, occurrence):
    h = 0xCBF29CE484222325
    for b in f"{stage}#{occurrence}".encode():
        h = (h ^ b) * 0x100000001B3 & (1 << 64) - 1
    h ^= seed
    return [h & M32, h >> 32]


def words(seed, stage, field, index, n):
    key, out, draw = key_of(seed, stage, field), [], 0
    while len(out) < n:
        out += philox([draw, index & M32, index >> 32, 0], key)
        draw += 1
    return out[:n]


def row_bytes(seed, index, n):
    return b"".join(w.to_bytes(4, "little") for w in words(seed, "synthetic", 0, index, (n + 3) // 4))[:n]


def normals(seed, stage, field, index, n):
    w, out = words(seed, stage, field, index, n), []
    for a, b in zip(w[::2], w[1::2]):
        r = math.sqrt(-2 * math.log((2 * a + 1) * 2.0**-33))
        out += [r * math.cos(2 * math.pi * b / 2**32), r * math.sin(2 * math.pi * b / 2**32)]
    return out


def below(stream, n):
    """Lemire's bounded number from 32-bit words, with rejection."""
    while True:
        p = next(stream) * n
        if p & M32 >= (1 << 32) % n:
            return p >> 32


def label(seed, index, n):
    return below(iter(words(seed, "synthetic", 1, index, 64)), n)


def tokens(seed, index, maxlen=150):
    stream = iter(words(seed, "synthetic", 0, index, 1024))
    length = 20 + below(stream, maxlen - 20 + 1)
    return [1] + [4 + below(stream, 29996) for _ in range(length - 1)]


def f32(x):
    import struct
    return struct.unpack("<f", struct.pack("<f", x))[0]


def target(seed, index):
    x = [f32(v) for v in normals(seed, "synthetic", 0, index, 1000)]
    w0 = [f32(v) for v in normals(seed, "synthetic-weights", 0, 0, 1000)]
    w1 = [f32(v) for v in normals(seed, "synthetic-weights", 0, 1, 1000)]
    return math.fsum(a * b + c for a, b, c in zip(w1, x, w0))


def fnv(data):
    h = 0xCBF29CE484222325
    for b in data:
        h = (h ^ b) * 0x100000001B3 & (1 << 64) - 1
    return h


for seed, index in ((0, 0), (0, 49999), (7, 5_000_000_000)):
    r = row_bytes(seed, index, 3072)
    print(f"cifar10 seed {seed} index {index}: first {list(r[:8])} last {list(r[-4:])} fnv {fnv(r):#018x} "
          f"label {label(seed, index, 10)} of 100: {label(seed, index, 100)}")
print("mnist seed 3 index 12: fnv", hex(fnv(row_bytes(3, 12, 784))))
print("normals seed 1 index 2:", ", ".join(f"{v:.17g}" for v in normals(1, "synthetic", 0, 2, 10)))
t = tokens(5, 11)
print("tokens seed 5 index 11: length", len(t), t[:6], "sum", sum(t))
print("target seed 0 index 0, 89999:", repr(target(0, 0)), repr(target(0, 89999)))

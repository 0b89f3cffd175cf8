#!/usr/bin/env python3
"""Writes philox4x32_10.h and permutation_vectors.h beside itself.

philox4x32-10.json has the published known answers of Random123 (first word first). The permutations
are computed here from the description at the head of iter/core/permutation.c, one index at a time,
in Python's integers: an implementation that shares nothing with the C one but that text. Before it
writes anything it checks its own Philox against the published answers.
"""
import json
import os

FOLDER = os.path.dirname(os.path.abspath(__file__))
M32, M64 = 2**32 - 1, 2**64 - 1


def philox(counter, key):
    c, k = list(counter), list(key)
    for _ in range(10):
        p0, p1 = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
        c = [(p1 >> 32) ^ c[1] ^ k[0], p1 & M32, (p0 >> 32) ^ c[3] ^ k[1], p0 & M32]
        k = [(k[0] + 0x9E3779B9) & M32, (k[1] + 0xBB67AE85) & M32]
    return c


class Stream:
    """The words of (key, epoch, position)."""

    def __init__(self, key, epoch, position=0):
        self.key = (key & M32, key >> 32)
        self.counter = [0, position & M32, position >> 32, epoch]
        self.words = []

    def u32(self):
        if not self.words:
            self.words = philox(self.counter, self.key)
            self.counter[0] += 1
        return self.words.pop(0)

    def u64(self):
        low = self.u32()
        return low | self.u32() << 32

    def below(self, n):
        """Lemire's: the top of draw * n, drawn again while the bottom is below 2^w mod n."""
        bits, draw = (32, self.u32) if n <= M32 else (64, self.u64)
        while True:
            product = draw() * n
            if product % 2**bits >= 2**bits % n:
                return product >> bits


def table(key, epoch, n):
    stream, out = Stream(key, epoch), list(range(n))
    for i in range(n - 1, 0, -1):
        j = stream.below(i + 1)
        out[i], out[j] = out[j], out[i]
    return out


class Network:
    def __init__(self, key, epoch, n):
        stream = Stream(key, epoch)
        self.n, self.bits = n, (n - 1).bit_length()
        self.right = (self.bits + 1) // 2
        self.left = self.bits - self.right
        self.offset = stream.u64()
        self.rounds = [(stream.u64(), stream.u64()) for _ in range(8)]

    def f(self, round_number, half):
        multiply, add = self.rounds[round_number]
        if self.bits > 32:
            return ((multiply * half + add) & M64) >> 32
        return (multiply >> 16 & 0xFFFF) * half + ((multiply & 0xFFFF) * half >> 16) + add

    def image(self, x):
        while True:
            x = (x + self.offset) % 2**self.bits
            left, right = x >> self.right, x % 2**self.right
            for r in range(0, 8, 2):
                left ^= self.f(r, right) % 2**self.left
                right ^= self.f(r + 1, left) % 2**self.right
            x = left << self.right | right
            if x < self.n:
                return x


def write_philox():
    with open(os.path.join(FOLDER, "philox4x32-10.json")) as file:
        rows = json.load(file)["rows"]
    lines = ["/* Made from philox4x32-10.json by make_tables.py: published known answers. */",
             "static const struct {", "    uint32_t counter[4], key[2], out[4];", "} philox_rows[] = {"]
    for row in rows:
        counter, key, out = ([int(word, 16) for word in row[name]] for name in ("counter", "key", "out"))
        assert philox(counter, key) == out
        text = ", ".join("{" + ", ".join(f"0x{word:08x}" for word in words) + "}" for words in (counter, key, out))
        lines.append("    {" + text + "},")
    with open(os.path.join(FOLDER, "philox4x32_10.h"), "w") as file:
        file.write("\n".join(lines + ["};", ""]))


def write_permutations():
    cases = [(0, 0, 2), (42, 0, 10), (42, 1, 10), (7, 3, 1000), (7, 3, 4096), (1, 0, 4097), (1, 1, 4097), (2, 0, 8192),
             (42, 5, 50000), (42, 6, 50000), (3, 9, 60000), (9, 2**32 - 1, 65536), (9, 0, 65537), (2**64 - 1, 1, 1281167),
             (11, 0, 2**32), (11, 0, 2**32 + 1), (5, 77, 10**12), (6, 2, 2**62 + 3)]
    lines = ["/* Made by make_tables.py: images of `position` and the next seven (n in all if n < 8). */",
             "static const struct {", "    uint64_t key, n, position;", "    uint32_t epoch;", "    uint64_t out[8];",
             "} permutation_rows[] = {"]
    for key, epoch, n in cases:
        whole = table(key, epoch, n) if n <= 4096 else None
        network = None if whole else Network(key, epoch, n)
        for position in sorted({0, max(0, n // 3 * 2 - 3), max(0, n - 8)}):
            count = min(8, n - position)
            out = [whole[position + i] if whole else network.image(position + i) for i in range(count)]
            numbers = ", ".join(f"{value}u" for value in out)
            lines.append(f"    {{{key}u, {n}u, {position}u, {epoch}u, {{{numbers}}}}},")
    with open(os.path.join(FOLDER, "permutation_vectors.h"), "w") as file:
        file.write("\n".join(lines + ["};", ""]))


write_philox()
write_permutations()

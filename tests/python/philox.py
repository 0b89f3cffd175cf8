"""The library's random numbers, from the definitions.

Philox 4x32-10 (Salmon and others, 2011), key = seed ^ FNV-1a-64("name#occurrence")."""
M32 = 0xFFFFFFFF


def philox(counter, key):
    c, k = list(counter), list(key)
    for _ in range(10):
        p0, p1 = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
        c = [(p1 >> 32) ^ c[1] ^ k[0], p1 & M32, (p0 >> 32) ^ c[3] ^ k[1], p0 & M32]
        k = [(k[0] + 0x9E3779B9) & M32, (k[1] + 0xBB67AE85) & M32]
    return c


class Draws:
    def __init__(self, seed, name, position, occurrence=0, epoch=0):
        key = 0xCBF29CE484222325
        for byte in ("%s#%d" % (name, occurrence)).encode():
            key = (key ^ byte) * 0x100000001B3 % 2**64
        key ^= seed
        self.key, self.where, self.block, self.words = (key & M32, key >> 32), (position & M32, position >> 32, epoch), 0, []

    def u32(self):
        if not self.words:
            self.words = philox((self.block,) + self.where, self.key)
            self.block += 1
        return self.words.pop(0)

    def below(self, n):  # Lemire 2019
        while True:
            product = self.u32() * n
            if product % 2**32 >= 2**32 % n:
                return product >> 32

    def chance(self, p):
        return self.u32() < p * 2**32

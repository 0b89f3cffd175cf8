"""How files at URLs are asked for: large ranges, many at once, and none twice; and blocks that a disk has."""
import collections
import os
import random
import shutil
import struct
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import servers  # noqa: E402
from test_remote import BENCH, ENV, hash_of, usable  # noqa: E402

MIB = 1 << 20
WORKERS = ("0", "1", "2", "8")
N = 1233  # records


def write_records(path, n, seed):
    """Raw pictures of 115 x 115 x 3 in MXNet's records, with an index."""
    draw = random.Random(seed)
    pool = draw.randbytes(MIB).translate(bytes(i & 0x7F for i in range(256)))
    pixels = 115 * 115 * 3
    with open(path, "wb") as rec, open(path.removesuffix(".rec") + ".idx", "w", encoding="ascii") as idx:
        for i in range(n):
            idx.write(f"{i}\t{rec.tell()}\n")
            at = draw.randrange(MIB - pixels)
            rec.write(struct.pack("<IIIfQQ", 0xCED7230A, pixels + 24, 0, i % 1000, i, 0))
            rec.write(pool[at:at + pixels] + bytes(-pixels % 4))


@unittest.skipUnless(usable(), "this build reads no URLs")
class Blocks(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.mkdtemp(prefix="iter-blocks-")
        cls.addClassCleanup(shutil.rmtree, cls.folder, ignore_errors=True)
        cls.files = os.path.join(cls.folder, "files")
        os.mkdir(cls.files)
        write_records(os.path.join(cls.files, "a.rec"), 700, 1)
        write_records(os.path.join(cls.files, "b.rec"), N - 700, 2)
        cls.log = os.path.join(cls.folder, "log")
        cls.port = servers.start_faulty(cls.files, cls.log)
        cls.bytes = sum(os.path.getsize(os.path.join(cls.files, n)) for n in ("a.rec", "b.rec"))

    def spec(self, plan="ok", more=""):
        base = f"http://127.0.0.1:{self.port}/{plan}"
        return f"recordio:{base}/{{a,b}}.rec?raw=115x115x3{more}"

    def local(self, *args):
        found = hash_of(f"recordio:{self.files}/{{a,b}}.rec?raw=115x115x3", *args)
        self.assertRegex(found, "^[0-9a-f]+$")
        return found

    def ranges(self):
        """(file, first, last, how many at once) of the requests for records since the last call."""
        with open(self.log, encoding="utf-8") as log:
            all_ = [(n, int(a), int(b), int(c)) for n, a, b, c in (line.split() for line in log)]
        os.truncate(self.log, 0)
        return [r for r in all_ if r[0].endswith(".rec")]

    def requests(self, command, *args):
        """The ranges that a command of iterbench asks for; `serve` delivers 77 batches, an epoch."""
        self.ranges()
        done = subprocess.run((BENCH, command, "--loader", "dataloader", "--source", "ring", "--data", self.spec("slow-30"))
                              + args, input=f"run {N // 16}\n", text=True, capture_output=True, timeout=240, env=ENV)
        self.assertEqual(done.returncode, 0, done.stderr)
        return self.ranges()

    def check(self, args, least, at_once):
        """Hashes are those of the files here. Ranges have 1 to 8 MiB, except for `least` where a file ends. Each is asked for
        once, and once more at most: ahead, for the next epoch."""
        local = self.local(*args)
        opening = {r[:3] for r in self.requests("plan", *args)}
        for workers in WORKERS:
            args_ = ("--workers", workers) + args
            self.assertEqual(hash_of(self.spec(), "--source", "ring", *args_), local)
            ranges = [r for r in self.requests("serve", *args_) if r[:3] not in opening]
            counts = collections.Counter(r[:3] for r in ranges)
            sizes = [b - a + 1 for _, a, b in counts]
            self.assertLessEqual(max(sizes), 8 * MIB)
            self.assertLessEqual(sum(n < MIB for n in sizes), least, sizes)
            self.assertGreaterEqual(sum(sizes), 0.99 * self.bytes)
            self.assertLess(sum(sizes), 1.05 * self.bytes, "windows overlap")
            self.assertLessEqual(max(counts.values()), 2, counts)
            self.assertGreaterEqual(max(r[3] for r in ranges), at_once, f"{workers} workers")

    def test_block_shuffle(self):
        """Blocks of 4 MB; two ends of files, where a piece is halved."""
        self.check(("--sampler", "block:block=100,buffer=4", "--batch", "16"), 8, 4)

    def test_in_order(self):
        self.check(("--shuffle", "none", "--batch", "16"), 8, 8)

    def test_little_memory(self):
        """No room for a group of blocks: rows are asked for one by one, and are right."""
        args = ("--sampler", "block:block=100,buffer=4", "--batch", "4", "--memory", "12MiB")
        local = self.local(*args)
        self.assertEqual(hash_of(self.spec(), "--workers", "1", *args), local)

    def test_faults(self):
        """Windows that are cut, refused or reset are asked for again."""
        for plan in ("cut-3", "busy-4+reset-5"):
            for args in (("--sampler", "block:block=100,buffer=4"), ("--shuffle", "none")):
                args += ("--batch", "16")
                self.assertEqual(hash_of(self.spec(plan), "--source", "ring", "--workers", "2", *args), self.local(*args), plan)

    def make_cold(self, cache):
        """Drops the blocks from the page cache, if their file system can."""
        for root, _, names in os.walk(cache):
            for name in names:
                fd = os.open(os.path.join(root, name), os.O_RDONLY)
                os.fsync(fd)
                os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
                os.close(fd)

    def test_cold_cache(self):
        for args in (("--shuffle", "full"), ("--sampler", "block:block=100,buffer=4"), ("--shuffle", "none")):
            args += ("--batch", "16")
            local = self.local(*args)
            with tempfile.TemporaryDirectory(dir=self.folder) as cache:
                spec = self.spec(more=f"&cache={cache}")
                self.assertEqual(hash_of(spec, "--source", "ring", "--workers", "2", *args), local)
                for workers in WORKERS:
                    self.make_cold(cache)
                    self.ranges()
                    self.assertEqual(hash_of(spec, "--source", "ring", "--workers", workers, *args), local)
                    self.assertEqual([r for r in self.ranges() if r[1] > 0], [], "a kept block was asked for")
                blocks = sorted(os.path.join(root, name) for root, _, names in os.walk(cache) for name in names
                                if root != cache)
                self.assertGreaterEqual(len(blocks), self.bytes // MIB)
                for workers in ("0", "2"):  # a bit of some blocks is wrong, others are gone, all are cold
                    for i, path in enumerate(blocks):
                        if i % 5 == 0 and os.path.exists(path):
                            os.unlink(path)
                        elif i % 5 == 1 and os.path.exists(path):
                            with open(path, "r+b") as block:
                                block.seek(os.path.getsize(path) * 3 // 4)
                                byte = block.read(1)
                                block.seek(-1, 1)
                                block.write(bytes([byte[0] ^ 16]))
                    self.make_cold(cache)
                    self.assertEqual(hash_of(spec, "--source", "ring", "--workers", workers, *args), local, "after damage")
                    self.assertGreater(len(self.ranges()), 0)


if __name__ == "__main__":
    unittest.main()

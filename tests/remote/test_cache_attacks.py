"""What others do to a cache's folder: links, FIFOs, damage. Right bytes come, nothing hangs, and nothing outside is written."""
import os
import re
import shutil
import tempfile
import unittest

import test_lies

SIZE = "&cache-size=100M"


def no_index(send, method, head):
    if ".idx" not in head.split("\r\n")[0]:
        return False
    send(b"HTTP/1.1 404 x\r\nContent-Length: 0\r\n\r\n")
    return True


class Attacks(unittest.TestCase):
    def setUp(self):
        self.server = test_lies.Liar({"x": no_index})
        self.addCleanup(self.server.close)
        self.folder = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.folder)
        self.cache = os.path.join(self.folder, "cache")
        path = os.path.join(self.folder, "x.bin")
        with open(path, "wb") as out:
            out.write(test_lies.BODY)
        self.local = re.search(r"(?m)^hash +(\w+)", test_lies.run(f"tokens:{path}?length=64")[1])[1]

    def read(self, more=SIZE, cache=None):
        status, text, _ = test_lies.run(f"tokens:http://127.0.0.1:{self.server.port}/x/x.bin?length=64&deadline=2&cache={cache or self.cache}" + more)
        return status, text

    def right(self, more=SIZE):
        status, text = self.read(more)
        self.assertEqual(status, 0, text)
        self.assertIn(self.local, text)

    def block(self):
        found = [os.path.join(root, name) for root, _, names in os.walk(self.cache) for name in names if root != self.cache]
        self.assertEqual(len(found), 1)
        return found[0]

    def test_blocks(self):
        self.right()
        path = self.block()
        self.assertEqual((os.stat(path).st_mode & 0o777, os.stat(self.cache).st_mode & 0o777), (0o600, 0o700))
        with open(path, "rb") as block:
            whole = block.read()

        def damaged(text):
            def make(name, _):
                with open(name, "wb") as out:
                    out.write(text)
            return make

        def flip(at):
            return damaged(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1:])

        def link(name, outside):
            with open(outside, "wb") as out:
                out.write(whole)
            os.symlink(outside, name)

        strange = [("FIFO", lambda name, _: os.mkfifo(name)), ("folder", lambda name, _: os.mkdir(name)), ("link", link),
                   ("long", damaged(whole + b"x"))]
        cases = [(what + more, make, more) for what, make in strange for more in ("", ".part")] + [
            (what, make, "") for what, make in (
                ("empty", damaged(b"")), ("short", damaged(whole[:-1])), ("half a head", damaged(whole[:50])), ("magic", flip(0)),
                ("sum", flip(9)), ("sums", flip(100)), ("first byte", flip(len(whole) - len(test_lies.BODY))),
                ("last byte", flip(len(whole) - 1)))]

        def check(case):
            what, make, more = case
            outside, cache = os.path.join(self.folder, what + " outside"), os.path.join(self.folder, what)
            name = path.replace(self.cache, cache)
            shutil.copytree(self.cache, cache)
            os.unlink(name)
            make(name + more, outside)
            status, text = self.read(cache=cache)
            if status or self.local not in text:
                return text
            if what.startswith("link"):
                with open(outside, "rb") as file:
                    return None if file.read() == whole else "a file outside was written to"
            return None

        test_lies.each(self, cases, check)

    def test_folder(self):
        victim = os.path.join(self.folder, "victim")
        for name in ("users", "bytes"):
            shutil.rmtree(self.cache, ignore_errors=True)
            os.mkdir(self.cache, 0o700)
            with open(victim, "w", encoding="ascii") as out:
                out.write("precious, and longer than 8 bytes")
            os.symlink(victim, os.path.join(self.cache, name))
            status, text = self.read()
            self.assertGreater(status, 0)
            self.assertRegex(text, "cache: " + re.escape(self.cache))
            with open(victim, encoding="ascii") as file:
                self.assertEqual(file.read(), "precious, and longer than 8 bytes")
        shutil.rmtree(self.cache)
        with open(self.cache, "w", encoding="ascii"):
            pass
        status, text = self.read()
        self.assertRegex(text, "cache: .*Not a directory")
        os.unlink(self.cache)
        if os.geteuid() != 0:
            os.mkdir(self.cache, 0o500)
            self.assertRegex(self.read()[1], "cache: .*Permission denied")

    def test_size(self):
        status, text = self.read("&cache-size=1M")
        self.assertGreater(status, 0)
        self.assertRegex(text, r"cache-size: 1000000 bytes hold no block, which takes \d{7}")

    def test_two_limits(self):
        """The folder of a large cache is opened with a small limit: what is there stays readable, and nothing is added."""
        self.right()
        self.right("&cache-size=1200000")
        self.right()

    def test_another_version(self):
        self.right()
        n = len(self.server.heads)
        self.right()
        self.assertFalse(any(head.startswith("GET") and "range: bytes=0-99999" in head.lower() for head in self.server.heads[n:]))

        def other(send, method, head):
            if not no_index(send, method, head):
                test_lies.honest(lambda text: send(text.replace(b'"one"', b'"two"')), method, head, body=test_lies.BODY[::-1])
            return True

        self.server.lies["x"] = other
        status, text = self.read()
        self.assertEqual(status, 0, text)
        self.assertNotIn(self.local, text)


if __name__ == "__main__":
    unittest.main(verbosity=2)

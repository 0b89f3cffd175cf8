"""A loader that lives longer than the modules of a program ends without a word: JAX keeps compiled functions, and
they keep the program's globals."""
import subprocess
import sys
import unittest

try:
    import jax
except ImportError:
    jax = None

PROGRAM = """
import jax, libiter
loader = libiter.Loader("synthetic:cifar10?n=100", "to:f32", batch_size=4, output="jax", workers=1)
dataset = libiter.Dataset("synthetic:cifar10?n=100")
step = jax.jit(lambda x: x * loader.batch_size + len(dataset))
for images, labels in loader:
    step(images)
%s
"""


@unittest.skipIf(jax is None, "jax is not installed")
class LateEnd(unittest.TestCase):
    def check(self, last, code):
        done = subprocess.run([sys.executable, "-c", PROGRAM % last], capture_output=True, text=True, timeout=120)
        self.assertEqual(done.returncode, code, done.stderr)
        self.assertNotIn("ignored", done.stderr)

    def test_end(self):
        self.check("", 0)

    def test_exception(self):
        self.check("1 / 0", 1)


if __name__ == "__main__":
    unittest.main()

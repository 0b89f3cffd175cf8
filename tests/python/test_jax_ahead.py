"""JAX runs behind the loop and holds the batches of steps that have not run; the loader waits for them."""
import unittest

import numpy as np

import libiter

try:
    import jax
    import jax.numpy as jnp
except ImportError:
    jax = None


@unittest.skipIf(jax is None, "jax is not installed")
class Ahead(unittest.TestCase):
    def test_a_loop_that_never_waits(self):
        rows = np.arange(600 * 4, dtype=np.float32).reshape(600, 4)

        @jax.jit
        def slow(total, x):
            big = jnp.ones((400, 400)) * x[0, 0]
            for _ in range(8):
                big = big @ jnp.eye(400)
            return total + x.sum() + 0 * big[0, 0]

        total, steps = jnp.float32(0), 0
        for (batch,) in libiter.Loader(rows, batch_size=20, output="jax"):
            total = slow(total, batch)
            steps += 1
        self.assertEqual(steps, 30)
        self.assertAlmostEqual(float(total) / float(rows.sum(dtype=np.float64)), 1, places=5)

    def test_batches_that_the_program_keeps(self):
        with self.assertRaisesRegex(libiter.WrongState, "copy=True"):
            list(libiter.Loader(np.ones((100, 2), np.float32), batch_size=2, output="jax"))


if __name__ == "__main__":
    unittest.main()

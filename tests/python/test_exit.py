"""Small programs that end in every way: the exit status is right, nothing crashes, nothing hangs. The programs are in
exit_programs.py; bench/studies/python_exits.py runs a thousand of them."""
from __future__ import annotations

import os
import tempfile
import unittest

import exit_programs


class Ends(unittest.TestCase):
    def test_each(self):
        with tempfile.TemporaryDirectory() as folder:
            file = exit_programs.make_file(os.path.join(folder, "batch.bin"))
            for name in exit_programs.NAMES:
                for seed in range(3 if name == "ctrl_c" else 1):
                    with self.subTest(name=name, seed=seed):
                        wrong, _ = exit_programs.run(name, seed, file)
                        self.assertEqual(wrong, "")


if __name__ == "__main__":
    unittest.main()

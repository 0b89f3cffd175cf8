"""docs/python.md: its table of options is Loader's signature, and its programs run in order."""
import contextlib
import inspect
import io
import os
import re
import tempfile
import unittest

import numpy as np

import libiter

ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", ".."))


def document():
    with open(os.path.join(ROOT, "docs", "python.md"), encoding="utf-8") as file:
        return file.read()


class Options(unittest.TestCase):
    def setUp(self):
        self.rows = re.search(r"\| option \| default \|.*?\n\n", document(), re.S).group().strip().splitlines()[2:]
        kinds = inspect.Parameter
        parameters = inspect.signature(libiter.Loader).parameters.values()
        self.options = {p.name: p.default for p in parameters if p.kind is kinds.KEYWORD_ONLY}

    def test_every_option_is_in_the_table(self):
        named = [name for row in self.rows for name in re.findall(r"`(\w+)`", row.split("|")[1])]
        self.assertEqual(sorted(named), sorted(self.options))

    def test_defaults(self):
        for row in self.rows:
            names, default = re.findall(r"`(\w+)`", row.split("|")[1]), row.split("|")[2].strip()
            if len(names) == 1:
                shown = default.strip('"') if default.startswith('"') else default
                self.assertEqual(shown, str(self.options[names[0]]), names[0])

    def test_help_names_every_option(self):
        for name in self.options:
            self.assertRegex(libiter.Loader.__doc__, r"\b%s\b" % name)


class Programs(unittest.TestCase):
    def test_they_run_one_after_another(self):
        blocks = re.findall(r"```python\n(.*?)```", document(), re.S)
        self.assertGreater(len(blocks), 4)
        names = {"np": np}
        here = os.getcwd()
        with tempfile.TemporaryDirectory() as folder:
            os.chdir(folder)  # profile.json goes there
            try:
                for block in blocks:
                    block = block.replace("cifar10:data/cifar-10-batches-bin", "synthetic:cifar10?n=2000")
                    with contextlib.redirect_stdout(io.StringIO()):
                        exec(compile(block, "docs/python.md", "exec"), names)  # pylint: disable=exec-used
            finally:
                os.chdir(here)


if __name__ == "__main__":
    unittest.main()

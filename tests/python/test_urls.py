"""Batches of files at a URL are those of the files, over a server of this machine (tests/remote/faulty_server.py)."""
from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import unittest
import unittest.mock

import numpy as np
from support import ROOT, cifar_records

import libiter

SERVER = os.path.join(ROOT, "tests", "remote", "faulty_server.py")


class UrlsTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        cifar_records(300).tofile(os.path.join(self.folder, "batch.bin"))
        server = subprocess.Popen([sys.executable, SERVER, self.folder], stdout=subprocess.PIPE)
        self.addCleanup(server.stdout.close)
        self.addCleanup(server.wait)
        self.addCleanup(server.terminate)
        no_proxy = unittest.mock.patch.dict(os.environ, no_proxy="127.0.0.1")
        no_proxy.start()
        self.addCleanup(no_proxy.stop)
        self.url = "http://127.0.0.1:%d" % int(server.stdout.readline())

    def batches(self, spec, **options):
        """All batches of an epoch, as copies."""
        try:
            loader = libiter.Loader(spec, batch_size=32, shuffle=True, seed=5, copy=True, **options)
        except libiter.Unsupported as reason:
            self.skipTest(str(reason))
        with loader:
            return [(images, labels) for images, labels in loader]

    def test_same_as_files(self):
        expected = self.batches("cifar10:%s/batch.bin" % self.folder)
        self.assertEqual(len(expected), 10)
        for workers in (0, 2):
            for source in ("auto", "ring"):
                got = self.batches("cifar10:%s/ok/batch.bin" % self.url, workers=workers, source=source)
                self.assertEqual(len(got), len(expected))
                for (images, labels), (wanted, wanted_labels) in zip(got, expected):
                    np.testing.assert_array_equal(images, wanted)
                    np.testing.assert_array_equal(labels, wanted_labels)

    def test_reason(self):
        """A server's refusal comes out with the URL and its words."""
        self.batches("cifar10:%s/ok/batch.bin" % self.url)
        with self.assertRaises(OSError) as failed:
            for _ in libiter.Loader("cifar10:%s/denied/batch.bin" % self.url, batch_size=32, source="ring"):
                pass
        self.assertIn("%s/denied/batch.bin" % self.url, str(failed.exception))
        self.assertIn("HTTP 403", str(failed.exception))


if __name__ == "__main__":
    unittest.main()

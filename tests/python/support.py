"""What several tests of the Python package need."""
from __future__ import annotations

import contextlib
import gc
import importlib
import os
import subprocess
import sys
import tempfile
import time
import unittest

import numpy as np

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.join(HERE, "..", "..")


def needs(module):
    """A decorator: the test is skipped, visibly, without a module."""
    try:
        importlib.import_module(module)
    except ImportError as reason:
        return unittest.skip("%s: %s" % (module, reason))
    return lambda test: test


def arrays(count=100, width=3):
    """(data f32 [count, width], label i64 [count]), where each value says its row."""
    data = np.arange(count, dtype=np.float32)[:, None] * 10 + np.arange(width, dtype=np.float32)
    return data, np.arange(count, dtype=np.int64) + 1000


def indices_of(loader):
    """The indices of an epoch's rows, in order."""
    return [int(i) for batch in loader for i in batch.index]


def cifar_records(count):
    """Records of CIFAR-10's form: label 7 i mod 10, pixel j (31 i + 7 j + j // 256) mod 256."""
    j = np.arange(3072)
    pixels = (31 * np.arange(count)[:, None] + (7 * j + j // 256)[None]) % 256
    labels = (7 * np.arange(count) % 10)[:, None]
    return np.concatenate([labels, pixels], axis=1).astype(np.uint8)


@contextlib.contextmanager
def cifar_file(count=70):
    """A file of such records; gives its spec."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "batch.bin")
        cifar_records(count).tofile(path)
        yield "cifar10:" + path


def python(script, *arguments, code=0, limit=60):
    """Runs a script in a new process; returns what it wrote to stdout."""
    done = subprocess.run(
        [sys.executable, "-c", script, *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        timeout=limit,
        cwd=HERE,
    )
    if done.returncode != code:
        raise AssertionError("exit status %d: %s" % (done.returncode, done.stderr.decode()[-3000:]))
    return done.stdout.decode()


def eventually(condition, limit=20.0):
    """Waits for something that another thread does; returns whether it happened."""
    until = time.monotonic() + limit
    while not condition():
        if time.monotonic() > until:
            return False
        gc.collect()
        time.sleep(0.005)
    return True

"""The programs that the wheel holds, as commands: each replaces this process by the program of its name."""

from __future__ import annotations

import os
import sys
from typing import NoReturn


def _run(name: str) -> NoReturn:
    program = os.path.join(os.path.dirname(os.path.abspath(__file__)), "bin", name)
    try:
        os.execv(program, [name, *sys.argv[1:]])
    except OSError as error:
        sys.exit(f"{name}: {program}: {error.strerror}. Only a wheel holds the program (`make wheel`).")


def iterbench() -> NoReturn:
    """Measures loaders, and says what limits a run: `iterbench --help`."""
    _run("iterbench")


def iterpack() -> NoReturn:
    """Packs images into MXNet's RecordIO: `iterpack --help`."""
    _run("iterpack")

"""What hatchling asks while it builds the wheel: which systems it is for."""

from __future__ import annotations

import os

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class PlatformHook(BuildHookInterface):
    """Gives the wheel its tag: any Python, and the platform that scripts/wheel.sh compiled for."""

    def initialize(self, version, build_data):
        if version == "editable":  # runs with LIBITER_LIBRARY or an installed library
            return
        if not os.path.exists(os.path.join(self.root, "libiter", "lib", "libiter.so")):
            raise RuntimeError("libiter/lib/libiter.so: the wheel needs the library. Please run `make wheel`.")
        build_data["pure_python"] = False
        build_data["tag"] = "py3-none-" + os.environ["LIBITER_PLATFORM"]

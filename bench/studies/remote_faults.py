#!/usr/bin/env python3
"""Servers that refuse, and servers that are far away and err: how near the library comes to their bounds.

    bench/studies/remote_faults.py [--seconds 20] [--only throttled|far]

throttled   a server grants so many requests a second, and refuses the others at once (503). What was granted,
            against what it would grant; and the share of requests that it refused. Reads of 16 KiB.
far         answers begin after 100 ms; without faults, with each 50th request refused, and with each 50th answer
            cut off by a reset. Bytes a second against the bound: requests in flight x size / latency.

The server is tests/remote/range_server.c, which is compiled here; its own counts are used. The first 3 s are not
counted for `far` (2 s: the number in flight grows), 5 s for `throttled`. Each row is a fresh process and loader.

Needs the package (PYTHONPATH=python LIBITER_LIBRARY=build/release/libiter.so) and a C compiler (CC).
"""
import argparse
import os
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
SERVER = os.path.join(HERE, "..", "..", "tests", "remote", "range_server.c")
IN_FLIGHT, LATENCY_MS = 64, 100


class Server:
    def __init__(self, program, file, **how):
        args = [f"{name}={value}" for name, value in how.items() if value]
        self.process = subprocess.Popen([program, file, *args], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.url = f"http://127.0.0.1:{self.process.stdout.readline().strip()}/t.bin"

    def counts(self):
        """Answers granted, refused, reset, so far."""
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        return [int(word) for word in self.process.stdout.readline().split()]

    def stop(self):
        self.process.stdin.close()
        self.process.wait()


def read(url, length, skip_s, seconds):
    """Runs a loader that takes tokens of 4 bytes; returns seconds and samples after skip_s. It fails if a sample does."""
    import libiter
    spec = f"tokens:{url}?length={length}&dtype=i32&connections={IN_FLIGHT}"
    loader = libiter.Loader(spec, batch_size=16, shuffle=True, workers=1, source="ring", prefetch=16,
                            epochs=0, seed=1)
    begin, n, since = time.monotonic(), 0, None
    while True:
        for _ in loader:
            now = time.monotonic()
            if since is None and now - begin >= skip_s:
                since, n = now, 0
                yield "begin"
            n += 16
            if since is not None and now - since >= seconds:
                yield now - since, n
                return


def run(server, length, skip_s, seconds):
    at = read(server.url, length, skip_s, seconds)
    next(at)
    before = server.counts()
    took, n = next(at)
    return took, n, [b - a for a, b in zip(before, server.counts())]


def throttled(program, file, seconds):
    print("| granted a second | read a second | of it | refused |\n| --- | --- | --- | --- |")
    for grants in (1042, 4167):
        server = Server(program, file, grants=grants)
        took, _, (granted, refused, _) = run(server, 4096, 5, seconds)
        server.stop()
        print(f"| {grants} | {granted / took:.0f} | {granted / took / grants:.3f} | {refused / (granted + refused):.1%} |",
              flush=True)


def far(program, file, seconds):
    print("| size | faults | MB/s | of the bound | refused or reset |\n| --- | --- | --- | --- | --- |")
    for length in (4096, 65536):
        bound = IN_FLIGHT * 4 * length / (LATENCY_MS / 1000)
        for name, how in (("none", {}), ("503", {"busy": 50}), ("reset half way", {"reset": 50})):
            server = Server(program, file, latency=LATENCY_MS, **how)
            took, n, (granted, refused, reset) = run(server, length, 3, seconds)
            server.stop()
            rate = n * 4 * length / took
            print(f"| {4 * length >> 10} KiB | {name} | {rate / 1e6:.1f} | {rate / bound:.3f} of {bound / 1e6:.1f} | "
                  f"{(refused + reset) / (granted + refused + reset):.1%} |", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=20)
    parser.add_argument("--only", choices=("throttled", "far"))
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="iter-remote-") as folder:
        program, file = os.path.join(folder, "server"), os.path.join(folder, "t.bin")
        subprocess.run([os.environ.get("CC", "cc"), "-O2", "-D_GNU_SOURCE", "-o", program, SERVER, "-lpthread"], check=True)
        with open(file, "wb") as out:
            for _ in range(256):
                out.write(os.urandom(1 << 20))
        for name, study in (("throttled", throttled), ("far", far)):
            if args.only in (None, name):
                study(program, file, args.seconds)
                print()


if __name__ == "__main__":
    sys.exit(main())

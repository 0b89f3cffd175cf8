"""Processes that read sets at URLs beside each other: all bytes are right, and nothing hangs."""
import os
import signal
import subprocess
import sys
import tempfile
import time
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import test_remote  # noqa: E402

HERE = os.path.dirname(os.path.abspath(__file__))
LIBRARY = os.environ.get("ITER_LIBRARY") or os.path.join(
    os.path.dirname(os.path.dirname(os.environ["ITERBENCH"])), "libiter.so")
ROUNDS = 2


def run(*args, **env):
    more = dict(test_remote.ENV, LIBITER_LIBRARY=LIBRARY, PYTHONPATH=os.path.join(test_remote.SOURCE, "python"),
                PYTHONWARNINGS="ignore", **env)
    return subprocess.run([sys.executable, *args], capture_output=True, text=True, env=more, timeout=240)


class Fork(unittest.TestCase):
    def need_library(self):
        if os.environ.get("ITER_SHARED") == "0" or not os.path.exists(LIBRARY):
            self.skipTest("there is no shared library")
        tried = run("-c", "import libiter")
        if "runtime does not come first" in tried.stderr or "No module named 'numpy'" in tried.stderr:
            self.skipTest(tried.stderr.strip().splitlines()[-1])

    def same(self, base, rounds=ROUNDS, length=64, **env):
        """What all processes read from `base` is what is read from files."""
        self.need_library()
        spec = "tokens:{}/tokens.bin?length=%d" % length
        local = run(os.path.join(HERE, "fork_program.py"), spec.format(test_remote.sets().files), "1").stdout.split()
        self.assertEqual(local, local[:1] * 5)
        with tempfile.TemporaryDirectory() as cache:
            for more in ("", f"&cache={cache}")[:rounds]:
                done = run(os.path.join(HERE, "fork_program.py"), spec.format(base) + more, str(rounds), **env)
                self.assertEqual(done.returncode, 0, done.stderr)
                self.assertEqual(done.stdout.split(), local[:1] * (5 * rounds), more)

    def test_ranks_share(self):
        """Ranks of one machine have one copy of a set that is loaded; the second rank reads nothing."""
        self.need_library()
        s = test_remote.sets()
        if not s.http:
            self.skipTest("no nginx, or no openssl")
        lines = {}
        for base in (s.files, f"http://127.0.0.1:{s.http}"):
            done = run(os.path.join(HERE, "ranks_program.py"), f"tokens:{base}/tokens.bin?length=64")
            self.assertEqual(done.returncode, 0, done.stderr)
            lines[base] = [line.split(maxsplit=2) for line in done.stdout.splitlines()]
        here, there = lines.values()
        self.assertEqual([line[1:] for line in here], [line[1:] for line in there])
        self.assertGreater(int(there[0][0]), 0)
        self.assertEqual(there[1][0], "0")

    def test_http(self):
        s = test_remote.sets()
        if not s.http:
            self.skipTest("no nginx, or no openssl")
        self.same(f"http://127.0.0.1:{s.http}")

    def test_https(self):
        s = test_remote.sets()
        if not s.https:
            self.skipTest("no nginx, or no openssl")
        self.same(f"https://127.0.0.1:{s.https}", SSL_CERT_FILE=os.path.join(s.folder, "ca.pem"))

    def test_s3(self):
        s = test_remote.sets()
        if not s.s3:
            self.skipTest("moto and boto3 are not installed")
        self.same("s3://sets", 1, 512, **s.s3_env())  # moto is slow

    def test_claim_of_a_stopped_process(self):
        """A process that is stopped while it fetches blocks does not stop those that share its cache."""
        s = test_remote.sets()
        spec = "tokens:{}/stopped.bin?length=1000"
        with open(os.path.join(s.files, "stopped.bin"), "wb") as out:
            out.write(bytes(i * 31 + (i >> 8) & 255 for i in range(1500000)))
        local = test_remote.hash_of(spec.format(s.files), "--batch", "16")
        with tempfile.TemporaryDirectory() as cache:
            slow = spec.format(f"http://127.0.0.1:{s.faulty}/slow-3000") + f"&cache={cache}"
            stopped = subprocess.Popen([test_remote.BENCH, "fetch", "--data", slow], env=test_remote.ENV,
                                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            parts = []
            while not parts:
                self.assertIsNone(stopped.poll())
                time.sleep(0.01)
                parts = [os.path.join(root, name) for root, _, names in os.walk(cache) for name in names
                         if name.endswith(".part")]
            stopped.send_signal(signal.SIGSTOP)
            try:
                self.assertEqual(test_remote.hash_of(slow, "--batch", "16", "--source", "ring"), local)
            finally:
                stopped.kill()
                stopped.wait()


if __name__ == "__main__":
    unittest.main(verbosity=2)

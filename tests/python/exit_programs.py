"""Small programs that use a loader and end in some way: `exit_programs.py NAME SEED`. test_exit.py and
bench/studies/python_exits.py run them with run().

Each prints "ready" when the driver may send its signal, and "end SECONDS" (of the monotonic clock, which processes
share) when its own work is done: what comes after that is the cost of ending.
"""
from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import threading
import time

LIMIT = 30  # seconds after which a program hangs


def end():
    sys.stdout.write("end %.6f\n" % time.monotonic())
    sys.stdout.flush()


def ready():
    sys.stdout.write("ready\n")
    sys.stdout.flush()


class Slow:
    """A dataset in Python whose get() takes `seconds`; the first `quick` samples take none."""

    def __init__(self, np, seconds, quick=0, busy=False):
        self.np, self.seconds, self.quick, self.busy = np, seconds, quick, busy

    def __len__(self):
        return 4096

    def get(self, indices):
        if int(indices[-1]) >= self.quick and self.seconds:
            if self.busy:
                until = time.monotonic() + self.seconds
                while time.monotonic() < until:
                    pass
            else:
                time.sleep(self.seconds)
        return self.np.asarray(indices, self.np.int64)


class Rest:
    """What is left of a loader's epoch: a `for` over the loader itself would begin the next one."""

    def __init__(self, loader):
        self.loader = loader

    def __iter__(self):
        return self

    def __next__(self):
        return next(self.loader)


class LateEnd:
    """Something that takes a while when the interpreter, which ends, drops it."""

    def __del__(self, sleep=time.sleep, write=os.write, clock=time.monotonic):
        sleep(0.2)
        write(1, b"end %.6f\n" % clock())


class Programs:
    """One method is one program. `kinds` are the loaders that it may use."""

    def __init__(self, seed):
        import numpy as np

        import libiter

        self.np, self.libiter, self.random = np, libiter, random.Random(seed)

    def loader(self, kind=None, **options):
        """A loader over arrays, files or a Python object, with some number of workers."""
        kind = kind or self.random.choice(["arrays", "files", "python"])
        options.setdefault("workers", self.random.choice([0, 1, 2, 4]))
        options.setdefault("shuffle", self.random.choice([True, False]))
        if kind == "arrays":
            data = self.np.arange(4096 * 16, dtype=self.np.float32).reshape(4096, 16)
            return self.libiter.Loader((data, self.np.arange(4096)), batch_size=64, **options)
        if kind == "files":
            chain = self.random.choice([None, "random-flip | to:f32,nchw"])
            return self.libiter.Loader("cifar10:" + os.environ["EXIT_FILE"], chain, batch_size=64, **options)
        return self.libiter.Loader(Slow(self.np, self.random.choice([0, 0.0002])), batch_size=64, **options)

    def some(self, loader):
        """A few batches, and one that is held."""
        held = None
        for number, batch in enumerate(loader):
            held = batch
            if number == self.random.randrange(1, 30):
                break
        return held

    # -- the ends --

    def nothing(self):
        """No loader: what the end of the interpreter takes by itself."""
        end()

    def normal(self):
        loader = self.loader()
        for _ in range(2):
            for _ in loader:
                pass
        end()

    def middle(self):
        """The end of the program in the middle of an epoch, with a batch held by a global name."""
        global kept
        kept = (self.loader(), self.some(self.loader()))
        next(iter(kept[0]))
        end()

    def sys_exit(self):
        for _ in self.loader():
            end()
            sys.exit(3)

    def exception(self):
        for _ in self.loader():
            end()
            raise ValueError("planned")

    def os_exit(self):
        for _ in self.loader():
            end()
            os._exit(5)

    def ctrl_c(self):
        """The driver sends SIGINT at any moment."""
        ready()
        loader = self.loader()
        while True:
            for _ in loader:
                pass

    def ctrl_c_blocked(self):
        """SIGINT during a next() that waits for a get() of a minute."""
        loader = self.loader_of_slow(60)
        ready()
        try:
            next(iter(loader))
        except KeyboardInterrupt:
            end()
            raise

    def loader_of_slow(self, seconds, **options):
        options.setdefault("workers", self.random.choice([1, 2, 4]))
        return self.libiter.Loader(Slow(self.np, seconds, 16), batch_size=64, **options)

    def get_sleeps(self):
        """The program ends while get() sleeps in workers."""
        loader = self.loader_of_slow(60)
        time.sleep(self.random.random() * 0.02)
        end()
        return loader

    def get_returns(self):
        """The program ends, and get() returns at about that time."""
        loader = self.loader_of_slow(self.random.random() * 0.6)
        time.sleep(self.random.random() * 0.02)
        end()
        return loader

    def get_computes(self):
        """The same, with a get() that holds the GIL by turns."""
        loader = self.libiter.Loader(Slow(self.np, 0.4, 16, True), batch_size=64, workers=2)
        time.sleep(self.random.random() * 0.02)
        end()
        return loader

    def get_returns_late(self):
        """get() returns, and asks for the GIL, when the interpreter is being taken down."""
        loader = self.loader_of_slow(0.3 + self.random.random() * 0.3)
        sys.modules["late_end"] = LateEnd()
        return loader

    def fork(self):
        """A fork in the middle: the child gets a clear error, and the parent goes on."""
        loader = self.loader()
        seen = sum(len(batch.index) for batch, _ in zip(loader, range(self.random.randrange(1, 9))))
        at = loader.position[1]
        child = os.fork()
        if child == 0:
            try:
                for _ in loader:
                    pass
            except self.libiter.WrongState as reason:
                if "fork" in str(reason):
                    sys.exit(7)  # with the interpreter's whole end
            os._exit(8)
        _, status = os.waitpid(child, 0)
        assert os.WEXITSTATUS(status) == 7, status
        rest = sum(len(batch.index) for batch in Rest(loader))
        assert at + rest == 4096 and seen <= at, (seen, at, rest)
        end()

    def fork_again(self):
        """A forked child drops the parent's loader and makes its own."""
        loader = self.loader()
        held = next(iter(loader))
        child = os.fork()
        if child == 0:
            loader.close()
            del held
            with self.loader() as own:
                rows = sum(len(batch.index) for batch in own)
            sys.exit(7 if rows == 4096 else 8)
        _, status = os.waitpid(child, 0)
        assert os.WEXITSTATUS(status) == 7, status
        next(loader)
        end()

    def fork_exits(self):
        """A forked child that does nothing with the loader ends as usual."""
        loader = self.loader()
        next(iter(loader))
        child = os.fork()
        if child == 0:
            sys.exit(7)
        _, status = os.waitpid(child, 0)
        assert os.WEXITSTATUS(status) == 7, status
        next(loader)
        end()

    def spawn(self):
        import multiprocessing

        loader = self.loader()
        next(iter(loader))
        process = multiprocessing.get_context("spawn").Process(target=spawned)
        process.start()
        for _ in range(5):
            next(loader)
        process.join()
        assert process.exitcode == 0, process.exitcode
        end()

    def daemon(self):
        """Daemon threads iterate for ever while the program ends."""
        for _ in range(2):
            loader = self.loader()
            threading.Thread(target=for_ever, args=(loader,), daemon=True).start()
        time.sleep(self.random.random() * 0.05)
        end()

    def daemon_blocked(self):
        """A daemon thread waits in next() while the program ends."""
        loader = self.loader_of_slow(60)
        threading.Thread(target=for_ever, args=(loader,), daemon=True).start()
        time.sleep(self.random.random() * 0.05)
        end()

    def thread(self):
        """A thread that is no daemon iterates after the main thread ended."""

        def work(loader):
            rows = 0
            for _ in range(3):
                rows += sum(len(batch.index) for batch in loader)
            end()
            if rows != 3 * 4096:
                os._exit(9)

        threading.Thread(target=work, args=(self.loader(),)).start()

    def cell(self):
        """A notebook's cell that runs again: a name gets a new loader in the middle of the old one's epoch."""
        space = {"self": self}
        for _ in range(5):
            exec("loader = self.loader(); batch = next(iter(loader)); later = self.some(loader)", space)
        end()

    def atexit_before(self):
        """A function of atexit that runs after loaders were stopped gets an error, not a wait."""
        end()

    def cycle(self):
        """The loader is part of a circle of references, collected at the very end."""

        class Trainer:
            pass

        trainer = Trainer()
        trainer.me, trainer.loader = trainer, self.loader()
        trainer.iterator = iter(trainer.loader)
        trainer.batch = next(trainer.iterator)
        sys.modules["trainer_of_this_test"] = trainer
        end()


def for_ever(loader):
    while True:
        for _ in loader:
            pass


def spawned():
    programs = Programs(1)
    assert sum(len(batch.index) for batch in programs.loader()) == 4096


def late():
    """For atexit_before."""
    try:
        next(iter(LATE[0]))
    except Exception as reason:
        if "libiter" in type(reason).__module__:
            return
        print(repr(reason), file=sys.stderr)
    os._exit(9)


LATE = []

EXPECTED = {"sys_exit": 3, "exception": 1, "os_exit": 5, "ctrl_c": -signal.SIGINT, "ctrl_c_blocked": -signal.SIGINT}
NAMES = [name for name, value in vars(Programs).items()
         if callable(value) and name not in ("__init__", "loader", "loader_of_slow", "some")]
QUIET = {"exception", "ctrl_c", "ctrl_c_blocked", "daemon", "daemon_blocked"}  # they may write to stderr


def run(name, seed, file, delay=None):
    """Runs a program. Returns (what was wrong or "", seconds from the end of its work to its end)."""
    environment = dict(os.environ, EXIT_FILE=file, PYTHONDONTWRITEBYTECODE="1", PYTHONFAULTHANDLER="1")
    environment["PYTHONWARNINGS"] = "ignore::DeprecationWarning"  # Python 3.12 warns of fork() beside threads
    command = [sys.executable, os.path.abspath(__file__), name, str(seed)]
    process = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    sent = None
    try:
        if name.startswith("ctrl_c"):
            process.stdout.readline()
            time.sleep(random.Random(seed).random() * 0.3 if delay is None else delay)
            sent = time.monotonic()
            process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=LIMIT)
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGABRT)  # faulthandler prints where each thread is
        out, err = process.communicate()
        return "hangs: " + err[-3000:], float(LIMIT)
    over = time.monotonic()
    stamps = [float(line.split()[1]) for line in out.splitlines() if line.startswith("end ")]
    begin = sent if sent is not None else stamps[-1] if stamps else over
    wrong = ""
    if process.returncode != EXPECTED.get(name, 0):
        wrong = "exit status %d, expected %d: %s" % (process.returncode, EXPECTED.get(name, 0), err[-3000:])
    elif sent is None and not stamps:
        wrong = "it ended before its work was done"
    elif name == "ctrl_c_blocked" and stamps[-1] - sent > 0.3:
        wrong = "Ctrl-C was noticed after %.3f s" % (stamps[-1] - sent)
    elif err and name not in QUIET:
        wrong = "wrote to stderr: " + err[-3000:]
    if name == "ctrl_c_blocked" and stamps:
        return wrong, stamps[-1] - sent  # how long Ctrl-C took to be noticed
    return wrong, over - begin


def make_file(path, records=4096):
    """A file of CIFAR-10's form."""
    with open(path, "wb") as file:
        file.write(b"".join(bytes([i % 10]) + bytes([i % 251]) * 3072 for i in range(records)))
    return path


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background job would ignore it
    if sys.argv[1] == "atexit_before":
        import atexit

        atexit.register(late)  # before libiter's own, so it runs after it
    programs = Programs(int(sys.argv[2]))
    if sys.argv[1] == "atexit_before":
        LATE.append(programs.loader(workers=2))
    result = getattr(programs, sys.argv[1])()  # a global name: the loader lives until the interpreter's end

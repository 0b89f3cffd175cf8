"""A program that forks while it reads a set, for test_fork.py.

Usage: fork_program.py SPEC ROUNDS. In each round, 4 children of fork() read an epoch by loaders of their own over the
parent's dataset, and samples one by one, while the parent reads on, and other threads of the parent read samples. In the
last round the children are made by multiprocessing. Prints the hash of each epoch, a line each.
"""
import hashlib
import multiprocessing
import os
import signal
import sys
import threading

import libiter

CHILDREN, LIMIT_S = 4, 200


def epoch(data):
    """The hash of an epoch: indices and bytes, in order."""
    made = hashlib.sha256()
    with libiter.Loader(data, batch_size=16, workers=2, source="ring", shuffle=True, seed=3) as loader:
        for batch in loader:
            made.update(batch.index.tobytes())
            for field in batch:
                made.update(field.tobytes())
    return made.hexdigest()


def tell(data):
    os.write(1, (epoch(data) + "\n").encode())  # in one piece, among other processes' lines


def one(data, index):
    return b"".join(array.tobytes() for array in data[index].values())


def check(data, samples):
    signal.alarm(LIMIT_S)  # a child that hangs is killed
    for i, bytes_ in enumerate(samples):
        assert one(data, i) == bytes_, i
    tell(data)


def child(data, samples):
    code = 1
    try:
        check(data, samples)
        code = 0
    finally:
        os._exit(code)


def main():
    data, rounds = libiter.Dataset(sys.argv[1]), int(sys.argv[2])
    samples = [one(data, i) for i in range(6)]
    over = threading.Event()

    def read_on():
        while not over.wait(0.002):
            for i, bytes_ in enumerate(samples):
                assert one(data, i) == bytes_, i

    threads = [threading.Thread(target=read_on) for _ in range(2)]
    for thread in threads:
        thread.start()
    failed = 0
    loader = libiter.Loader(data, batch_size=16, workers=2, source="ring", shuffle=True, seed=3)
    batches = iter(loader)
    for r in range(rounds):
        next(batches)
        if r < rounds - 1:
            pids = []
            for _ in range(CHILDREN):
                pid = os.fork()
                if pid == 0:
                    child(data, samples)
                pids.append(pid)
                next(batches)
            tell(data)
            failed += sum(os.waitpid(pid, 0)[1] != 0 for pid in pids)
        else:
            fork = multiprocessing.get_context("fork")
            children = [fork.Process(target=check, args=(data, samples)) for _ in range(CHILDREN)]
            for one_child in children:
                one_child.start()
            tell(data)
            for one_child in children:
                one_child.join()
                failed += one_child.exitcode != 0
    over.set()
    for thread in threads:
        thread.join()
    loader.close()
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())

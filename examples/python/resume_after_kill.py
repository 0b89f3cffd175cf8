"""resume_after_kill.py - a run that is killed in mid-epoch, and another process that continues it, with another
number of workers. At the end it has seen the same rows, and has the same weights, as a run that was never killed.

    python resume_after_kill.py [cifar10:DIR]
"""
import os
import pickle
import signal
import subprocess
import sys
import tempfile
import zlib

import numpy as np

import libiter

CHAIN = "random-crop:size=32,pad=4 | random-flip | to:f32,nchw"
EPOCHS, SAVE_EVERY, KILL_AT = 2, 10, 97


def run(spec, checkpoint, workers, kill):
    """Trains from the checkpoint, if there is one; returns weights and a checksum of each batch's rows."""
    loader = libiter.Loader(spec, CHAIN, batch_size=256, shuffle=True, seed=11, epochs=EPOCHS, workers=workers)
    weights, sums = np.zeros(3 * 32 * 32, np.float64), []
    if os.path.exists(checkpoint):
        with open(checkpoint, "rb") as file:
            weights, sums, position = pickle.load(file)
        loader.load_state_dict(position)
        print("continues after batch %d with %d workers" % (len(sums), workers), flush=True)
    for _ in range(loader.epoch, EPOCHS):
        for batch in loader:
            weights = 0.9 * weights + batch.data.reshape(len(batch.data), -1).mean(0)  # your training step
            sums.append(zlib.crc32(batch.data.tobytes() + batch.index.tobytes()))
            if len(sums) % SAVE_EVERY == 0:
                with open(checkpoint + ".new", "wb") as file:
                    pickle.dump((weights, sums, loader.state_dict()), file)
                os.replace(checkpoint + ".new", checkpoint)  # a kill leaves the old one or the new one
            if kill and len(sums) == KILL_AT:
                print("killed after batch %d" % len(sums), flush=True)
                os.kill(os.getpid(), signal.SIGKILL)
    return weights, sums


def child(spec, folder, name, *arguments):
    """The same program in a process of its own; returns how it ended."""
    checkpoint = os.path.join(folder, name)
    return subprocess.run([sys.executable, __file__, spec, checkpoint, *arguments], check=False).returncode


def result(folder, name):
    with open(os.path.join(folder, name + ".end"), "rb") as file:
        return pickle.load(file)


def main():
    spec = sys.argv[1] if len(sys.argv) > 1 else "synthetic:cifar10?n=20000"
    if len(sys.argv) > 2:  # a child
        checkpoint, workers, kill = sys.argv[2], int(sys.argv[3]), sys.argv[4] == "kill"
        end = run(spec, checkpoint, workers, kill)
        with open(checkpoint + ".end", "wb") as file:
            pickle.dump(end, file)
        return
    with tempfile.TemporaryDirectory() as folder:
        assert child(spec, folder, "whole", "0", "live") == 0
        assert child(spec, folder, "cut", "2", "kill") == -signal.SIGKILL
        assert child(spec, folder, "cut", "1", "live") == 0
        (weights, sums), (weights_cut, sums_cut) = result(folder, "whole"), result(folder, "cut")
    assert sums == sums_cut, "the rows differ"
    assert weights.tobytes() == weights_cut.tobytes(), "the weights differ"
    print("%d batches; rows and weights are those of a run that was never killed, bit for bit" % len(sums))


main()

"""Other tools can open a checkpoint, and it contains the network: a perceptron trained by
train_mnist is read back and run with numpy over the test set, which must give the accuracy that
the program printed.

Run it as  ITER_LIBRARY=build/dev/libiter.so python3 check_safetensors.py : train_mnist must be beside
the library. The `safetensors` package opens the file if it is installed, and 15 lines of numpy always
do. Exit 0 passed, 1 failed, 77 skipped.
"""
import json
import os
import struct
import subprocess
import sys
import tempfile


def skip(reason):
    print("skipped:", reason)
    sys.exit(77)


try:
    import numpy as np
except ImportError:
    skip("numpy is not installed")
program = os.path.join(os.path.dirname(os.environ.get("ITER_LIBRARY", "")), "examples", "train_mnist")
if not os.access(program, os.X_OK):
    skip("train_mnist is not built beside ITER_LIBRARY")


def read_plainly(path):
    """By the format's specification: 8 bytes of length, JSON, values."""
    raw = open(path, "rb").read()
    (size,) = struct.unpack("<Q", raw[:8])
    header = json.loads(raw[8:8 + size])
    assert (8 + size) % 64 == 0, "values are not aligned"
    texts = header.pop("__metadata__")
    types = {"F32": "<f4", "F64": "<f8", "U8": "u1"}
    tensors = {}
    for name, entry in header.items():
        begin, end = entry["data_offsets"]
        values = np.frombuffer(raw[8 + size + begin:8 + size + end], types[entry["dtype"]])
        tensors[name] = values.reshape(entry["shape"])
    return tensors, texts


def write_idx(path, array):
    with open(path, "wb") as out:
        out.write(struct.pack(">BBBB", 0, 0, 8, array.ndim) + struct.pack(">%dI" % array.ndim, *array.shape) + array.tobytes())


def run(folder):
    """Made-up digits: the class decides where the image is bright; much noise is added."""
    random = np.random.default_rng(1)
    sets = {}
    for split, n in (("train", 640), ("t10k", 333)):
        labels = random.integers(0, 10, n, dtype=np.uint8)
        images = random.integers(0, 200, (n, 28, 28), dtype=np.uint8)
        for image, label in zip(images, labels):
            image[label * 2:label * 2 + 8, 5:20] += 55
        write_idx(os.path.join(folder, split + "-images-idx3-ubyte"), images)
        write_idx(os.path.join(folder, split + "-labels-idx1-ubyte"), labels)
        sets[split] = images, labels
    result = subprocess.run([program, "--data", "mnist:%s?split=train" % folder, "--epochs", "20", "--checkpoint", folder, "--json", "-"],
                            stdout=subprocess.PIPE, check=True, stderr=subprocess.DEVNULL)
    return sets, json.loads(result.stdout)


with tempfile.TemporaryDirectory() as folder:
    sets, said = run(folder)
    path = os.path.join(folder, "train_mnist.safetensors")
    tensors, texts = read_plainly(path)
    assert texts["iter.checkpoint"] == "1" and texts["iter.steps"] == "200" and texts["iter.real"] == "f32", texts
    shapes = {name: tensor.shape for name, tensor in tensors.items() if name != "loader.position"}
    assert shapes == {"dense0.weight": (128, 784), "dense0.bias": (128,), "dense1.weight": (64, 128), "dense1.bias": (64,),
                      "dense2.weight": (10, 64), "dense2.bias": (10,)}, shapes
    assert tensors["loader.position"].dtype == np.uint8 and tensors["loader.position"].ndim == 1
    images, labels = sets["t10k"]
    x = images.reshape(len(images), 784).astype(np.float32) / 255
    for layer in range(3):
        x = x @ tensors["dense%d.weight" % layer].T + tensors["dense%d.bias" % layer]
        x = np.maximum(x, 0) if layer < 2 else x
    accuracy = float((x.argmax(axis=1) == labels).mean())
    # A row may lie on the edge between two classes, where the last bit of a sum decides.
    assert abs(accuracy - said["test_accuracy"]) < 1.5 / len(labels), (accuracy, said["test_accuracy"])
    assert accuracy > 0.3, "nothing was learned, so nothing is compared: %g" % accuracy
    print("accuracy by numpy %.4f, as stated %.4f" % (accuracy, said["test_accuracy"]))
    try:
        from safetensors import safe_open
        from safetensors.numpy import load_file
    except ImportError:
        print("note: the safetensors package is not installed, the file was read by numpy alone")
    else:
        theirs = load_file(path)
        assert set(theirs) == set(tensors)
        assert all(theirs[name].dtype == tensors[name].dtype and np.array_equal(theirs[name], tensors[name]) for name in theirs)
        with safe_open(path, "numpy") as opened:
            assert opened.metadata() == texts
        print("the safetensors package reads the same")

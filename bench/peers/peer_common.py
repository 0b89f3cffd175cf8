"""What every peer program shares: the data, the consumer, the protocol.

    peer_x.py prepare WORKLOAD.. makes the files that this family's contestants need for them, once
    peer_x.py serve NAME         answers "run N" by "samples seconds" on stdout, until "quit"
    peer_x.py check NAME         takes some batches apart and says as one line of JSON whether they are right

A contestant is an object with `size` (samples of an epoch), `epoch()` (a fresh iteration: yields (data, labels, n) with
n samples; labels may be None) and `touch(data)` (its consumer: waits for the batch where it is made asynchronously and
reads a byte of each cache line). `close_early` says whether an iteration may be left before its end, `rests` whether
what it makes ahead takes so long that the other side would feel it: then an answer waits until that is done.

How time is taken: an epoch's start (its shuffle, its iterator, the first batch) may cost as much as the rest, and falls
into few of the short slices that a comparison is made of. A median of slices would not hold it. So the time of starts is
taken apart, and each answer bears the share of the median start that its samples are of an epoch.
"""
import ctypes
import json
import os
import statistics
import sys
import time
from itertools import islice

import numpy as np

import contestants
from contestants import MEAN, STD

DATA, SCRATCH = os.environ["ITER_DATA"], os.environ["ITER_PEERS_SCRATCH"]
BATCH = 64
MAX_LENGTH, START, OOV, SHIFT, WORDS = 150, 1, 2, 3, 30000
PUNCTUATION = '!"#$%&()*+,-./:;<=>?@[\\]^_`{|}~\t\n'


# ---- Data ----------------------------------------------------------------------------------------------------------

def cifar(layout="nchw"):
    """u8 images and int64 labels of the train set."""
    folder = os.path.join(DATA, "cifar-10-batches-bin")
    records = np.concatenate([np.fromfile(os.path.join(folder, "data_batch_%d.bin" % i), np.uint8) for i in range(1, 6)])
    records = records.reshape(-1, 3073)
    images = records[:, 1:].reshape(-1, 3, 32, 32)
    if layout == "nhwc":
        images = images.transpose(0, 2, 3, 1)
    return np.ascontiguousarray(images), records[:, 0].astype(np.int64)


def per_channel(numbers):
    return np.float32(numbers).reshape(1, 3, 1, 1)


def normalised(images):
    """NCHW u8 to f32, the set at once."""
    out = images.astype(np.float32)
    out /= 255
    out -= per_channel(MEAN)
    out /= per_channel(STD)
    return out


def scratch(name):
    return os.path.join(SCRATCH, name)


def review_texts():
    """The train reviews in the order of their file names (neg, then pos), and their labels."""
    texts, labels = [], []
    for label, kind in enumerate(("neg", "pos")):
        folder = os.path.join(DATA, "aclImdb", "train", kind)
        for name in sorted(os.listdir(folder)):
            with open(os.path.join(folder, name), encoding="utf-8") as file:
                texts.append(file.read())
            labels.append(label)
    return texts, np.array(labels, np.int64)


def word_ranks():
    with open(os.path.join(DATA, "imdb_word_index.json"), encoding="utf-8") as file:
        return json.load(file)


def tokenise(texts, ids_of_words, table=str.maketrans({c: " " for c in PUNCTUATION})):
    """The last 150 of start mark and ids, zeros behind a short review."""
    out, get = np.zeros((len(texts), MAX_LENGTH), np.int32), ids_of_words.get
    for row, text in zip(out, texts):
        ids = ([START] + [get(word, OOV) for word in text.lower().translate(table).split()])[-MAX_LENGTH:]
        row[:len(ids)] = ids
    return out


def vocabulary():
    return {word: rank + SHIFT for word, rank in word_ranks().items() if rank + SHIFT < WORDS}


def review_ids():
    """int32 [25000, 150] and int64 labels; tokenised once and kept in the scratch folder."""
    if not os.path.exists(scratch("imdb_labels.npy")):
        texts, labels = review_texts()
        np.save(scratch("imdb_ids.npy"), tokenise(texts, vocabulary()))
        np.save(scratch("imdb_labels.npy"), labels)
    return np.load(scratch("imdb_ids.npy")), np.load(scratch("imdb_labels.npy"))


def order(n):
    """The slices of a fresh permutation of n."""
    permutation = np.random.permutation(n)
    return (permutation[i:i + BATCH] for i in range(0, n, BATCH))


# ---- Consumer ------------------------------------------------------------------------------------------------------

_touch = ctypes.CDLL(scratch("touch.so")).iter_peer_touch
_touch.argtypes, _touch.restype = (ctypes.c_void_p, ctypes.c_size_t), ctypes.c_uint


def touch_address(address, n_bytes):
    _touch(address, n_bytes)


_touch_bytes = ctypes.CDLL(scratch("touch.so")).iter_peer_touch
_touch_bytes.argtypes, _touch_bytes.restype = (ctypes.c_char_p, ctypes.c_size_t), ctypes.c_uint


def touch_bytes(some):
    _touch_bytes(some, len(some))


def touch_buffer(array, char=ctypes.c_char * 0):
    """Of a writable, C-contiguous array: the cheapest way from it to its address."""
    _touch(char.from_buffer(array), array.nbytes)


def touch_array(array):
    """Of any dense array, also one that is read-only."""
    _touch(array.__array_interface__["data"][0], array.nbytes)


class Contestant:
    size = 50000
    close_early = True
    rests = False

    def epoch(self):
        raise NotImplementedError

    def touch(self, data):
        touch_buffer(data)

    def to_numpy(self, data):
        return np.array(data)


# ---- Training ------------------------------------------------------------------------------------------------------

HELD = 5  # batches that are replayed, as many as libiter's loader has slots


def step_data(model):
    """Batches of the train set: f32 NCHW images (x / 255), or int64 ids [64, 150]; int64 labels."""
    if model == "cnn":
        images, labels = cifar()
        data = images[:HELD * BATCH].astype(np.float32) / 255
    else:
        ids, labels = review_ids()
        some = np.random.RandomState(7).permutation(len(ids))[:HELD * BATCH]
        data, labels = ids[some].astype(np.int64), labels[some]
    return [(data[i:i + BATCH], labels[i:i + BATCH]) for i in range(0, HELD * BATCH, BATCH)]


def cs224():
    """90,000 rows of 1,000 normal numbers, and a linear function of them."""
    random = np.random.RandomState(43)
    x = random.standard_normal((90000, 1000)).astype(np.float32)
    return x, (x @ random.standard_normal((1000, 1)).astype(np.float32) * .1 + .5).astype(np.float32)


class Steps(Contestant):
    """Training steps over batches that are there: step(data, labels) answers the loss."""
    size = 100 * BATCH

    def __init__(self, step, batches):
        self.step, self.batches, self.losses = step, batches, []

    def epoch(self):
        for i in range(self.size // BATCH):
            data, labels = self.batches[i % len(self.batches)]
            self.losses.append(self.step(data, labels))
            yield None, None, BATCH

    def touch(self, data):
        pass


class Epochs(Steps):
    """Whole epochs: what a loader delivers is trained on."""

    def __init__(self, step, loader, size):
        super().__init__(step, None)
        self.loader, self.size = loader, size

    def epoch(self):
        for data, labels in self.loader():
            self.losses.append(self.step(data, labels))
            yield None, None, len(data)


# ---- Protocol ------------------------------------------------------------------------------------------------------

class Run:
    """The endless sequence of a contestant's epochs, and what their starts cost."""

    def __init__(self, contestant):
        self.contestant, self.starts, self.stream = contestant, [], None

    def start(self):
        """Begins an epoch, takes its first batch; the samples of that."""
        began = time.perf_counter()
        self.stream = self.consumed()
        n = next(self.stream)
        self.starts.append(time.perf_counter() - began)
        return n

    def consumed(self):
        touch = self.contestant.touch
        for data, _, n in self.contestant.epoch():
            touch(data)
            yield n

    def warm_up(self, n_epochs=3):
        """Some epochs begun: compiles, allocates, starts workers. What the first one cost is not counted."""
        for _ in range(n_epochs):
            self.start()
            for _ in islice(self.stream, 8 if self.contestant.close_early else None):
                pass
            self.stream.close()
            self.stream = None
        del self.starts[0]

    def take(self, n_batches):
        left, samples, apart, began = n_batches, 0, 0.0, time.perf_counter()
        while left > 0:
            if self.stream is None:
                samples += self.start()
                apart += self.starts[-1]
                left -= 1
            for n in islice(self.stream, left):
                samples += n
                left -= 1
            if left > 0:
                self.stream = None
        seconds = time.perf_counter() - began - apart
        return samples, seconds + statistics.median(self.starts) * samples / self.contestant.size


def cpu_seconds():
    """Of this process and of its children that live."""
    ticks = 0
    for task in os.listdir("/proc/self/task"):
        with open("/proc/self/task/%s/children" % task) as file:
            children = file.read().split()
        for child in children:
            try:
                with open("/proc/%s/stat" % child) as file:
                    ticks += sum(map(int, file.read().rsplit(")", 1)[1].split()[11:13]))
            except OSError:  # it has just ended
                pass
    return time.process_time() + ticks / os.sysconf("SC_CLK_TCK")


def rest(poll_s=.02, at_most_s=3):
    """Until this process has hardly worked for two polls."""
    until, before, quiet = time.perf_counter() + at_most_s, cpu_seconds(), 0
    while quiet < 2 and time.perf_counter() < until:
        time.sleep(poll_s)
        now = cpu_seconds()
        quiet, before = quiet + 1 if now - before < poll_s / 10 else 0, now


def serve(contestant, answers):
    run = Run(contestant)
    run.warm_up()
    for line in iter(sys.stdin.readline, ""):
        words = line.split()
        if words == ["quit"]:
            break
        if len(words) != 2 or words[0] != "run":
            raise SystemExit("knows 'run N' and 'quit', not %r" % line)
        answer = "%d %.9f\n" % run.take(int(words[1]))
        if contestant.rests:
            rest()
        answers.write(answer)
        answers.flush()


# ---- Program ------------------------------------------------------------------------------------------------------

def photo_files():
    import peer_photos
    peer_photos.prepare()


def main(family, make, prepare=lambda: None, prepare_photos=photo_files):
    """make[NAME](row) is the contestant of that name."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what a library prints does not belong into the answers
    if sys.argv[1] == "prepare":
        wanted = set(sys.argv[2:])
        if wanted & contestants.OF_PHOTOS:
            prepare_photos()
        if wanted - contestants.OF_PHOTOS:
            prepare()
        return
    row = contestants.find(family, sys.argv[2])
    name = row.name if row.name in make else row.name.rsplit("-", 1)[0]
    contestant = make[name](row)
    if sys.argv[1] == "serve":
        serve(contestant, answers)
    else:
        from peer_check import check
        answers.write(json.dumps(check(row, contestant)) + "\n")
        answers.flush()

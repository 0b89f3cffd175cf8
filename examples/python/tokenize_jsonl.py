"""tokenize_jsonl.py - rows that a trained tokenizer makes: lines of JSON to the tokens of Hugging Face's tokenizers.

    python tokenize_jsonl.py [FILE.jsonl]    without a file it writes a small one

Opening finds where each line begins. get() reads its lines and tokenizes them together. The tokenizer is a byte-level BPE
that is trained on the first lines, so nothing is downloaded; Tokenizer.from_file() loads one of your own.
"""
import json
import os
import sys
import tempfile

import numpy as np

try:
    from tokenizers import ByteLevelBPETokenizer
except ImportError:
    print("skipped: this example needs the package tokenizers")
    sys.exit(0)

import libiter

LENGTH, PAD = 48, 0


class Lines:
    """Row i: the tokens of line i, filled up with PAD, and how many there are."""

    fields = {"data": ("i32", (LENGTH,)), "n_tokens": ("i32", ())}

    def __init__(self, path):
        self.file = os.open(path, os.O_RDONLY)
        with open(path, "rb") as file:
            self.ends = np.cumsum([len(line) for line in file])
        self.tokenizer = ByteLevelBPETokenizer()
        first = [self.text(index) for index in range(min(len(self), 1000))]
        self.tokenizer.train_from_iterator(first, vocab_size=500, special_tokens=["<pad>"], show_progress=False)

    def __len__(self):
        return len(self.ends)

    def text(self, index):
        begin = int(self.ends[index - 1]) if index else 0
        return json.loads(os.pread(self.file, int(self.ends[index]) - begin, begin))["text"]

    def get(self, indices, seeds):
        rows = np.full((len(indices), LENGTH), PAD, np.int32)
        lengths = np.zeros(len(indices), np.int32)
        texts = [self.text(index) for index in indices]
        for i, encoding in enumerate(self.tokenizer.encode_batch(texts)):
            ids = encoding.ids[:LENGTH]
            rows[i, : len(ids)] = ids
            lengths[i] = len(ids)
        return rows, lengths


def write_lines(path):
    nouns, verbs = ["loader", "batch", "worker", "sample"], ["reads", "waits for", "fills", "counts"]
    with open(path, "w", encoding="utf-8") as file:
        for i in range(400):
            text = "The %s %s the %s number %d." % (nouns[i % 4], verbs[i // 4 % 4], nouns[i // 16 % 4], i)
            file.write(json.dumps({"id": i, "text": text}) + "\n")


with tempfile.TemporaryDirectory() as folder:
    path = sys.argv[1] if len(sys.argv) > 1 else os.path.join(folder, "lines.jsonl")
    if len(sys.argv) == 1:
        write_lines(path)
    lines = Lines(path)
    n = n_tokens = n_back = n_cut = 0
    with libiter.Loader(lines, batch_size=16, shuffle=True, workers=2, seed=1) as loader:
        for batch in loader:
            for row, length, index in zip(batch.data, batch.n_tokens, batch.index):
                n += 1
                n_tokens += int(length)
                n_cut += length == LENGTH
                n_back += lines.tokenizer.decode(row[:length].tolist()) == lines.text(int(index))
    print("%d lines, %d tokens, %d lines cut at %d" % (n, n_tokens, n_cut, LENGTH))
    print("%d of the other %d lines come back from their tokens" % (n_back, n - n_cut))

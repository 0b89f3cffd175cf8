#!/usr/bin/env python3
"""Texts to ids against Python itself: every code point, adversarial strings, and all 50,000 real
reviews if ITER_DATA has them.

The C side is the test program backend_text, run as a filter. It is beside the library that
ITER_LIBRARY names, or is named by ITER_BACKEND_TEXT.
"""

import array
import hashlib
import json
import os
import random
import struct
import subprocess
import sys
import tempfile
import threading
import unicodedata

BLANKS = str.maketrans({c: " " for c in "!\"#$%&()*+,-./:;<=>?@[\\]^_`{|}~\t\n"})
SOURCE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
MD5 = "de4e601a5b2b70600c41569659a0afb0"  # of the 25,000 x 150 ids of the training reviews
SUM = 4473629556

failures = 0


def fail(text):
    global failures
    failures += 1
    if failures <= 20:
        print(text)


def find_program():
    named = os.environ.get("ITER_BACKEND_TEXT")
    library = os.environ.get("ITER_LIBRARY", "")
    beside = os.path.join(os.path.dirname(library), "tests", "backend_text")
    program = named or beside
    return program if os.path.exists(program) else None


def words(text):
    return text.lower().translate(BLANKS).split()


class Rule:
    """The rule in Python, and the same as arguments for the program."""

    def __init__(self, num_words=30000, index_from=3, start=1, oov=2, maxlen=150, pad=0, side="last", pad_side="post"):
        self.__dict__.update(locals())
        del self.__dict__["self"]

    def arguments(self):
        return [f"{key}={value}" for key, value in self.__dict__.items()]

    def ids(self, index, text):
        ids = [] if self.start < 0 else [self.start]
        for word in words(text):
            rank = index.get(word)
            known = rank is not None and (self.num_words == 0 or rank + self.index_from < self.num_words)
            ids.append(rank + self.index_from if known else self.oov)
        ids = [i for i in ids if i >= 0]
        if self.maxlen:
            ids = ids[-self.maxlen :] if self.side == "last" else ids[: self.maxlen]
            fill = [self.pad] * (self.maxlen - len(ids))
            ids = ids + fill if self.pad_side == "post" else fill + ids
        return ids


def ask(program, index, rule, texts, *more):
    """Bytes to the program's result: an array of ids, or a message."""
    with tempfile.NamedTemporaryFile("w", suffix=".json", encoding="ascii") as file:
        json.dump(index, file)
        file.flush()
        command = [program, "--serve", file.name, *rule.arguments(), *more]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:

            def feed():
                for text in texts:
                    process.stdin.write(struct.pack("<I", len(text)) + text)
                process.stdin.close()

            feeder = threading.Thread(target=feed)
            feeder.start()
            for _ in texts:
                (n,) = struct.unpack("<i", process.stdout.read(4))
                if n < 0:
                    (n,) = struct.unpack("<I", process.stdout.read(4))
                    yield process.stdout.read(n).decode()
                else:
                    ids = array.array("i")
                    ids.frombytes(process.stdout.read(4 * n))
                    yield ids
            feeder.join()


def compare(program, what, rule, texts, *more):
    """Every word gets an id of its own, so that equal ids are equal words."""
    index = {}
    for text in texts:
        for word in words(text):
            index.setdefault(word, len(index))
    raw = [text.encode() for text in texts]
    for text, ids in zip(texts, ask(program, index, rule, raw, *more)):
        want = rule.ids(index, text)
        if isinstance(ids, str) or ids.tolist() != want:
            fail(f"{what}: {text[:80]!a}: {ids if isinstance(ids, str) else ids.tolist()[:20]}, not {want[:20]}")


def check_code_points(program):
    """Lower case, white space, cased and case-ignorable of each, alone and in the middle."""
    with open(os.path.join(SOURCE, "loaders", "text", "text_unicode.h"), encoding="ascii") as header:
        if f'"{unicodedata.unidata_version}"' not in header.read():
            print(f"not compared: this Python has Unicode {unicodedata.unidata_version}, the table another")
            return False
    rule = Rule(num_words=0, start=-1, maxlen=0)
    codes = [c for c in range(0x20000) if not 0xD800 <= c < 0xE000]
    codes += range(0x20000, 0xE0000, 97)
    codes += range(0xE0000, 0xE1000)
    codes += range(0xE1000, 0x110000, 997)
    codes += [0x10FFFF]
    for at in range(0, len(codes), 1 << 15):
        texts = []
        for code in codes[at : at + (1 << 15)]:
            c = chr(code)
            texts.append(f"x{c}y {c} a\u03a3{c} a\u03a3{c}b a{c}\u03a3 {c}\u03a3")
        compare(program, f"code points from U+{codes[at]:04X}", rule, texts)
    return True


def random_text(draw):
    pieces = "a b Z É \u03a3 \u03a3 \u03c3 \u0130 ' . : - , \u0301 \u00ad \u2019 \u00a0 \u0085 \u3000 \u1680 \u2028 \u212a \U00010400 \U0001f600 \u02b0 \u0345 \0 \x1c 1".split(" ")
    pieces += [" ", " ", "\t", "\n", "\r", "the ", "word", "<br />"]
    return "".join(draw.choice(pieces) for _ in range(draw.choice((3, 10, 70, 300, 2000))))


def check_random(program):
    draw = random.Random(7)
    for rule in (
        Rule(num_words=0, maxlen=0, start=-1), Rule(num_words=0), Rule(num_words=20, maxlen=20, side="first"),
        Rule(maxlen=33, pad_side="pre", oov=-1, num_words=15), Rule(maxlen=5, start=-1, pad=-4, index_from=0), Rule(maxlen=1), Rule(maxlen=1, side="first"),
    ):
        texts = [random_text(draw) for _ in range(700)]
        compare(program, f"random, {' '.join(rule.arguments())}", rule, texts)
        compare(program, f"random, plain, {' '.join(rule.arguments())}", rule, texts, "way=plain")


def check_invalid(program):
    draw = random.Random(8)
    texts = []
    for _ in range(3000):
        data = bytearray(random_text(draw).encode())
        for _ in range(draw.choice((1, 2, 5))):
            data[draw.randrange(len(data))] = draw.randrange(256)
        texts.append(bytes(data[: draw.randrange(1, len(data) + 1)]))
    rule = Rule(num_words=0, maxlen=10, start=-1)
    for data, ids in zip(texts, ask(program, {"a": 1}, rule, texts)):
        try:
            want = rule.ids({"a": 1}, data.decode())
            if isinstance(ids, str) or ids.tolist() != want:
                fail(f"changed bytes: {data[:80]}: {ids}, not {want}")
        except UnicodeDecodeError as error:
            wanted = f"invalid UTF-8 at byte {error.start} "
            if not isinstance(ids, str) or wanted not in ids:
                fail(f"changed bytes: {data[:80]}: {ids}, not \"{wanted}\"")


def load_reviews(folder):
    reviews = []
    for label in ("neg", "pos"):
        path = os.path.join(folder, label)
        for name in sorted(os.listdir(path), key=os.fsencode):
            with open(os.path.join(path, name), "rb") as file:
                reviews.append(file.read())
    return reviews


def check_reviews(program, data):
    with open(os.path.join(data, "imdb_word_index.json"), encoding="utf-8") as file:
        index = json.load(file)
    for split in ("train", "test"):
        reviews = load_reviews(os.path.join(data, "aclImdb", split))
        for rule in (Rule(), Rule(num_words=0, maxlen=0, side="first")):
            digest, total = hashlib.md5(), 0
            published = split == "train" and rule.maxlen
            some = reviews if published else reviews[::4]
            for review, ids in zip(some, ask(program, index, rule, some)):
                want = rule.ids(index, review.decode())
                if isinstance(ids, str) or ids.tolist() != want:
                    fail(f"{split}, {' '.join(rule.arguments())}: {review[:80]}: not as Python has it")
                digest.update(ids.tobytes())
                total += sum(ids)
            if published and (digest.hexdigest(), total) != (MD5, SUM):
                fail(f"train: md5 {digest.hexdigest()}, sum {total}; not {MD5}, {SUM}")
            print(f"{split}, {' '.join(rule.arguments())}: {len(some)} reviews")


def main():
    program = find_program()
    if not program:
        print("skipped: no backend_text beside ITER_LIBRARY, and ITER_BACKEND_TEXT names none")
        return 77
    complete = check_code_points(program)
    check_random(program)
    check_invalid(program)
    data = os.environ.get("ITER_DATA")
    if data and os.path.isdir(os.path.join(data, "aclImdb")):
        check_reviews(program, data)
    else:
        print("no real reviews: ITER_DATA has no aclImdb")
    if failures:
        print(f"{failures} differences")
        return 1
    return 0 if complete or data else 77


if __name__ == "__main__":
    sys.exit(main())

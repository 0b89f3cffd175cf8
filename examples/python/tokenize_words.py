"""tokenize_words.py - text files to a Megatron set of word ids, one document a file, for train_lm and pack.

    python tokenize_words.py data/imdb-words data/aclImdb

writes train.idx, train.bin, test.idx, test.bin and words.txt from data/aclImdb/train/*/*.txt and .../test/*/*.txt. A word is
a run of letters and apostrophes, in small letters, or any other character that is no space. Id 0 is padding, 1 begins a
document, 2 is a word that is not on the list; then come the most frequent words of the training files.

    --words N       length of the list (8,192, with these three)
    --documents N, --test-documents N   so many of a split, spread evenly over its files; default all
    --only NAME     only files in folders of this name, such as pos
    --list FILE     words.txt of another set, whose ids this one then has
"""
import argparse
import collections
import os
import re
import struct

PAD, BEGIN, UNKNOWN = 0, 1, 2
WORD = re.compile(r"[a-z']+|[^\sa-z']")
U16 = 8  # the code of the type in an index


def files_of(folder, split, only, n):
    paths = []
    for path, _, names in os.walk(os.path.join(folder, split)):
        if only is None or os.path.basename(path) == only:
            paths += [os.path.join(path, name) for name in names if name.endswith(".txt") and path != os.path.join(folder, split)]
    paths.sort()
    n = min(n or len(paths), len(paths))
    return [paths[i * len(paths) // n] for i in range(n)]


def words_of(path):
    with open(path, encoding="utf-8", errors="replace") as file:
        return WORD.findall(file.read().replace("<br />", " ").lower())


def write_set(prefix, documents):
    """Both files at once; documents are lists of ids."""
    sizes = []
    with open(prefix + ".bin", "wb") as tokens:
        for ids in documents:
            tokens.write(struct.pack("<%dH" % len(ids), *ids))
            sizes.append(len(ids))
    n = len(sizes)
    places = [0]
    for size in sizes:
        places.append(places[-1] + 2 * size)
    with open(prefix + ".idx", "wb") as index:
        index.write(b"MMIDIDX\0\0" + struct.pack("<QBQQ", 1, U16, n, n + 1))
        index.write(struct.pack("<%di" % n, *sizes))
        index.write(struct.pack("<%dq" % n, *places[:-1]))
        index.write(struct.pack("<%dq" % (n + 1), *range(n + 1)))
    return sizes


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("out")
    parser.add_argument("folder")
    parser.add_argument("--words", type=int, default=8192)
    parser.add_argument("--documents", type=int)
    parser.add_argument("--test-documents", type=int)
    parser.add_argument("--only")
    parser.add_argument("--list", help="words.txt of another set, instead of a list of its own")
    options = parser.parse_args()
    if not 4 <= options.words <= 65536:
        parser.error("--words: expected 4 to 65536")
    os.makedirs(options.out, exist_ok=True)
    numbers = {"train": options.documents, "test": options.test_documents}
    splits = {split: files_of(options.folder, split, options.only, n) for split, n in numbers.items()}
    if not splits["train"]:
        parser.error("%s: no text files in train/*/" % options.folder)
    if options.list:
        with open(options.list, encoding="utf-8") as file:
            words = file.read().split("\n")[3:-1]
    else:
        counts = collections.Counter(word for path in splits["train"] for word in words_of(path))
        ranked = sorted(counts, key=lambda word: (-counts[word], word))
        words = ranked[: options.words - 3]
    ids = {word: i + 3 for i, word in enumerate(words)}
    with open(os.path.join(options.out, "words.txt"), "w", encoding="utf-8") as file:
        file.write("\n".join(["<pad>", "<begin>", "<unknown>"] + words) + "\n")
    for split, paths in splits.items():
        documents = ([BEGIN] + [ids.get(word, UNKNOWN) for word in words_of(path)] for path in paths)
        sizes = write_set(os.path.join(options.out, split), documents)
        print("%s: %d documents, %d tokens, the longest has %d" % (split, len(sizes), sum(sizes), max(sizes, default=0)))


main()

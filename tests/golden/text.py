#!/usr/bin/env python3
"""Writes tests/golden/text.h: texts with the ids that Python's own lower(), translate() and split() give them.

    python3 tests/golden/text.py > tests/golden/text.h
"""

import json
import zlib

BLANKS = str.maketrans({c: " " for c in "!\"#$%&()*+,-./:;<=>?@[\\]^_`{|}~\t\n"})

TEXTS = [
    "", " ", "a", "A", "The THE the", "it's It'S IT'S", "a-b_c.d,e", "<br /><br />end", "tab\tnew\nline\rreturn", "\x0b\x0c\x1c\x1d\x1e\x1f|",
    "a\0b A\0B a\0 \0", "\x7f \x01 \x08", "x" * 15, "x" * 16, "x" * 17, "X" * 200, ("word " * 40).strip(),
    # white space beyond ASCII
    "a\x85b\xa0c\u1680d\u2000e\u200af\u2028g\u2029h\u202fi\u205fj\u3000k", "a\u200bb \ufeffc",  # the last two are not white space
    "\xa0", "\u3000\u3000", "a" * 62 + "\u3000" + "b", "a" * 63 + "\u3000" + "b", "a" * 61 + "\u3000" + "b", "\u3000" * 70,
    # letters
    "\xc9CLAIR \xe9clair", "\u0130stanbul i\u0307stanbul \u0130", "\u212aelvin \u212b", "\u1e9e \xdf", "\u01c5 \u01c4 \u01c6", "\u10a0 \u2d00 \u13a0 \uab70",
    "\U00010400 \U00010428", "\U0001e900\U0001e922", "\u0410\u0411\u0412 \u0430\u0431\u0432", "\uff21\uff22", "\U0001f600 ok", "\u2126 \u03c9",
    # the final sigma
    "\u03a3", "a\u03a3", "A\u03a3 b", "\u03a3a", "a\u03a3b", "a\u03a3.", "a\u03a3.b", "a\u03a3'b", "a.\u03a3", "a.\u03a3.b", "a\u03a3\u0301", "a\u03a3\u0301b", "a\u03a3-b", "a\u03a3,b",
    "a\u0301\u03a3 b", "1\u03a3", "a1\u03a3", "a\u03a3\u03a3", "\u03a3\u03a3", "\u039f\u0394\u03a5\u03a3\u03a3\u0395\u03a5\u03a3", "a\u03a3:::b", "a\u03a3::: b", "a^`\u03a3", "a\xad\u03a3\xadb",
    "\u1d43\u03a3", "\u02b0\u03a3\u02b0", "a\u03a3\U0001d7ce", "a\u03a3\U00010400", "a" * 62 + "\u03a3" + "b", "a" * 62 + "\u03a3." + " b", "a" * 63 + "\u03a3" + "b",
    "x " * 31 + "a\u03a3" + "'" * 70 + "b", "x" + "." * 70 + "\u03a3",
]


def words(text):
    return text.lower().translate(BLANKS).split()


def literal(data):
    out = ""
    for byte in data:
        plain = 0x20 <= byte < 0x7F and chr(byte) not in '"\\?'
        out += chr(byte) if plain else f"\\{byte:03o}"
    return out


def string(data, indent):
    """C string literals, a few lines of them."""
    parts = [literal(data[i : i + 40]) for i in range(0, len(data), 40)] or [""]
    return ("\n" + indent).join(f'"{part}"' for part in parts)


def main():
    rank = {}
    for text in TEXTS:
        for word in words(text):
            if zlib.crc32(word.encode()) % 6:  # the others stay unknown
                rank.setdefault(word, len(rank))
    print("/*\n * text.h - texts and their ids: rank + 3, or 2 if a word has no rank.\n * Written by tests/golden/text.py. Do not edit.\n */")
    print("#ifndef TESTS_GOLDEN_TEXT_H\n#define TESTS_GOLDEN_TEXT_H\n\n#include <stddef.h>\n#include <stdint.h>\n\n/* clang-format off */\n")
    index = json.dumps(rank).encode()
    print(f"static const char golden_index[] =\n    {string(index, '    ')};\n")
    print(f"static const struct golden_text {{\n    const char *text;\n    size_t size;\n    int64_t n;\n    int32_t ids[{max(len(words(t)) for t in TEXTS)}];\n}} golden_texts[] = {{")
    for text in TEXTS:
        ids = [rank[word] + 3 if word in rank else 2 for word in words(text)]
        data = text.encode()
        shown = ", ".join(map(str, ids)) or "0"
        print(f"    {{{string(data, '     ')},\n     {len(data)}, {len(ids)}, {{{shown}}}}},")
    print("};\n\n/* clang-format on */\n\n#endif")


if __name__ == "__main__":
    main()

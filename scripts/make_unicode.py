#!/usr/bin/env python3
"""Writes loaders/text/text_unicode.h: what str.lower() and str.split() know about every code point.

    python3 scripts/make_unicode.py > loaders/text/text_unicode.h

Everything is asked of the interpreter that runs this, so the table follows its Unicode version, which the header names. Whether a
code point is cased or case-ignorable has no function in the standard library; the answer is read off the one place where str.lower()
uses it, the rule of the final sigma.
"""

import sys
import unicodedata

LOW, MID = 5, 5  # bits of a code point that index a block of records, and a block of blocks

SPACE, CASED, IGNORABLE = 1, 2, 4


def record(code):
    """(distance to the lower-case letter, flags) of a code point."""
    if 0xD800 <= code < 0xE000:
        return (0, 0)  # cannot come out of valid UTF-8
    char = chr(code)
    lower = char.lower()
    if len(lower) == 1:
        delta = ord(lower) - code
    else:  # the only one that grows; text_tokens.c spells it out
        assert code == 0x130 and lower == "i\u0307", hex(code)
        delta = 0
    final, small = "\u03c2", "\u03c3"
    cased = ("A\u03a3" + char).lower()[1] == small
    ignorable = not cased and ("A\u03a3" + char + "A").lower()[1] == small
    assert cased or ("A\u03a3" + char).lower()[1] == final
    return (delta, SPACE * char.isspace() + CASED * cased + IGNORABLE * ignorable)


def blocks(values, bits):
    """Cuts values into blocks of 1 << bits; returns the place of each and the distinct ones."""
    seen = {}
    index = []
    for i in range(0, len(values), 1 << bits):
        index.append(seen.setdefault(tuple(values[i : i + (1 << bits)]), len(seen)))
    return index, [value for block in seen for value in block]


def table(ctype, name, values):
    print(f"\nstatic const {ctype} {name}[{len(values)}] = {{")
    line = "   "
    for value in values:
        word = f" {value},"
        if len(line) + len(word) > 100:
            print(line)
            line = "   "
        line += word
    print(line)
    print("};")


def main():
    records = {}
    codes = [records.setdefault(record(code), len(records)) for code in range(0x110000)]
    low_index, low = blocks(codes, LOW)
    top, mid = blocks(low_index, MID)
    assert len(records) < 256 and max(top) < 256 and max(low_index) < 65536

    print(f"""/*
 * text_unicode.h - lower case, white space and what the final sigma looks at, for every code point.
 *
 * Written by scripts/make_unicode.py from Unicode {unicodedata.unidata_version}, as Python {sys.version_info[0]}.{sys.version_info[1]} has it. Do not edit.
 */
#ifndef ITER_LOADERS_TEXT_TEXT_UNICODE_H
#define ITER_LOADERS_TEXT_TEXT_UNICODE_H

#include <stdint.h>

/* clang-format off */

#define ITER_TEXT_UNICODE_VERSION "{unicodedata.unidata_version}"

enum {{ ITER_TEXT_SPACE = {SPACE}, ITER_TEXT_CASED = {CASED}, ITER_TEXT_IGNORABLE = {IGNORABLE} }};

typedef struct text_record {{
    int32_t delta; /* to the lower-case letter */
    uint8_t flags;
}} text_record;

static const text_record text_records[{len(records)}] = {{""")
    for delta, flags in records:
        print(f"    {{{delta}, {flags}}},")
    print("};")
    table("uint8_t", "text_low", low)
    table("uint16_t", "text_mid", mid)
    table("uint8_t", "text_top", top)
    print(f"""
/* The record of a code point below 0x110000. */
static inline const text_record *text_lookup(uint32_t code) {{
    const uint32_t mid = text_top[code >> {LOW + MID}] * {1 << MID}u + (code >> {LOW} & {(1 << MID) - 1});
    return &text_records[text_low[text_mid[mid] * {1 << LOW}u + (code & {(1 << LOW) - 1})]];
}}

/* clang-format on */

#endif""")


if __name__ == "__main__":
    main()

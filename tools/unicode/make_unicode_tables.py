#!/usr/bin/env python3
"""Writes src/unicode/tables.inc and src/tokenizer/regex/case_folding.inc.

    python3 -m venv build/unicode && build/unicode/bin/pip install unicodedata2==16.0.0
    build/unicode/bin/python tools/unicode/make_unicode_tables.py

Categories, decompositions and combining classes come from the PyPI package `unicodedata2`, which has the tables of one
version of Unicode whatever Python runs it; case comes from Python itself (3.11 or later: Unicode 14), and letters that
are newer are listed here. Tokenizers follow the tables of the libraries that tokenizer.json was written for, and those
are of several versions of Unicode; what is newer than a library's tables is listed here, too. --check compares.
"""
import argparse
import sys
from pathlib import Path

import unicodedata2

ROOT = Path(__file__).resolve().parent.parent.parent
VERSION = "16.0.0"
CATEGORIES = ("Cn Lu Ll Lt Lm Lo Mn Mc Me Nd Nl No Pc Pd Ps Pe Pi Pf Po Sm Sc Sk So Zs Zl Zp Cc Cf Cs Co").split()
COUNT = 0x110000
UPPER = 0x40000  # From here on there is next to nothing.

# Characters that were given a combining class, a decomposition or a composition after Unicode 9. The library's normal
# forms do not know them, and so nothing composes across them either.
LATER_THAN_9 = [
    (0x07fd, 0x07fd), (0x0897, 0x089f), (0x08ca, 0x08d3), (0x09fe, 0x09fe), (0x0c3c, 0x0c3c), (0x0d3b, 0x0d3c),
    (0x0eba, 0x0eba), (0x1715, 0x1715), (0x1abf, 0x1ace), (0x1df6, 0x1dfa), (0x32ff, 0x32ff), (0xa7f1, 0xa7f4),
    (0xa82c, 0xa82c), (0xab69, 0xab69), (0x105c9, 0x105c9), (0x105d2, 0x105d2), (0x105da, 0x105da), (0x105e4, 0x105e4),
    (0x10781, 0x10785), (0x10787, 0x107b0), (0x107b2, 0x107ba), (0x10d24, 0x10d27), (0x10d69, 0x10d6d),
    (0x10eab, 0x10eac), (0x10efc, 0x10eff), (0x10f46, 0x10f50), (0x10f82, 0x10f85), (0x11070, 0x11070),
    (0x1133b, 0x1133b), (0x11383, 0x11383), (0x11385, 0x11385), (0x1138e, 0x1138e), (0x11391, 0x11391),
    (0x113b8, 0x113bb), (0x113c2, 0x113c2), (0x113c5, 0x113c5), (0x113c7, 0x113c9), (0x113ce, 0x113d0),
    (0x113e1, 0x113e2), (0x1145e, 0x1145e), (0x11839, 0x1183a), (0x11930, 0x11930), (0x11938, 0x11938),
    (0x1193d, 0x1193e), (0x11943, 0x11943), (0x119e0, 0x119e0), (0x11a34, 0x11a34), (0x11a47, 0x11a47),
    (0x11a99, 0x11a99), (0x11d42, 0x11d42), (0x11d44, 0x11d45), (0x11d97, 0x11d97), (0x11f41, 0x11f42),
    (0x1611e, 0x16129), (0x1612f, 0x1612f), (0x16d63, 0x16d63), (0x16d67, 0x16d6a), (0x16ff0, 0x16ff1),
    (0x1ccd6, 0x1ccf9), (0x1e030, 0x1e06d), (0x1e08f, 0x1e08f), (0x1e130, 0x1e136), (0x1e2ae, 0x1e2ae),
    (0x1e2ec, 0x1e2ef), (0x1e4ec, 0x1e4ef), (0x1e5ee, 0x1e5ef), (0x1f16c, 0x1f16c), (0x1fbf0, 0x1fbf9),
]
# Marks that are newer than Unicode 9, and two that are marks no longer.
LATER_MARKS = [
    (0x07fd, 0x07fd), (0x0897, 0x089f), (0x08ca, 0x08d3), (0x09fe, 0x09fe), (0x0afa, 0x0aff), (0x0b55, 0x0b55),
    (0x0c04, 0x0c04), (0x0c3c, 0x0c3c), (0x0cf3, 0x0cf3), (0x0d00, 0x0d00), (0x0d3b, 0x0d3c), (0x0d81, 0x0d81),
    (0x0eba, 0x0eba), (0x0ece, 0x0ece), (0x1715, 0x1715), (0x180f, 0x180f), (0x1abf, 0x1add), (0x1ae0, 0x1aeb),
    (0x1cf7, 0x1cf7), (0x1df6, 0x1dfa), (0xa82c, 0xa82c), (0xa8ff, 0xa8ff), (0x10d24, 0x10d27), (0x10d69, 0x10d6d),
    (0x10eab, 0x10eac), (0x10efa, 0x10eff), (0x10f46, 0x10f50), (0x10f82, 0x10f85), (0x11070, 0x11070),
    (0x11073, 0x11074), (0x110c2, 0x110c2), (0x11145, 0x11146), (0x111c9, 0x111c9), (0x111ce, 0x111cf),
    (0x11241, 0x11241), (0x1133b, 0x1133b), (0x113b8, 0x113e2), (0x1145e, 0x1145e), (0x1182c, 0x1183a),
    (0x11930, 0x11943), (0x119d1, 0x119e4), (0x11a01, 0x11a0a), (0x11a33, 0x11a3e), (0x11a47, 0x11a47),
    (0x11a51, 0x11a5b), (0x11a8a, 0x11a99), (0x11b60, 0x11b67), (0x11d31, 0x11d47), (0x11d8a, 0x11d97),
    (0x11ef3, 0x11ef6), (0x11f00, 0x11f03), (0x11f34, 0x11f42), (0x11f5a, 0x11f5a), (0x13440, 0x13440),
    (0x13447, 0x13455), (0x1611e, 0x1612f), (0x16f4f, 0x16f4f), (0x16f7f, 0x16f87), (0x16fe4, 0x16fe4),
    (0x16ff0, 0x16ff1), (0x1cf00, 0x1cf46), (0x1e08f, 0x1e08f), (0x1e130, 0x1e136), (0x1e2ae, 0x1e2ae),
    (0x1e2ec, 0x1e2ef), (0x1e4ec, 0x1e4ef), (0x1e5ee, 0x1e5ef), (0x1e6e3, 0x1e6f5),
]
FORMER_MARKS = [0x1cf2, 0x1cf3]
# Punctuation that is newer than Unicode 8, and two that are punctuation no longer.
LATER_PUNCTUATION = [
    (0x061d, 0x061d), (0x09fd, 0x09fd), (0x0a76, 0x0a76), (0x0c77, 0x0c77), (0x0c84, 0x0c84), (0x1b4e, 0x1b4f),
    (0x1b7d, 0x1b7f), (0x2e43, 0x2e4f), (0x2e52, 0x2e5d), (0x10d6e, 0x10d6e), (0x10ead, 0x10ead), (0x10ed0, 0x10ed8),
    (0x10f55, 0x10f59), (0x10f86, 0x10f89), (0x113d4, 0x113d8), (0x1144b, 0x1144f), (0x1145a, 0x1145b),
    (0x1145d, 0x1145d), (0x11660, 0x1166c), (0x116b9, 0x116b9), (0x1183b, 0x1183b), (0x11944, 0x11946),
    (0x119e2, 0x119e2), (0x11a3f, 0x11a46), (0x11a9a, 0x11a9c), (0x11a9e, 0x11aa2), (0x11b00, 0x11b09),
    (0x11be1, 0x11be1), (0x11c41, 0x11c45), (0x11c70, 0x11c71), (0x11ef7, 0x11ef8), (0x11f43, 0x11f4f),
    (0x11fff, 0x11fff), (0x12ff1, 0x12ff2), (0x16d6d, 0x16d6f), (0x16e97, 0x16e9a), (0x16fe2, 0x16fe2),
    (0x1e5ff, 0x1e5ff), (0x1e95e, 0x1e95f),
]
FORMER_PUNCTUATION = [0x166d, 0x111c9]
# Alphabetic, but no letters by their category: circled and squared letters. And the two joiners.
OTHER_WORD = [(0x24b6, 0x24e9), (0x1f130, 0x1f149), (0x1f150, 0x1f169), (0x1f170, 0x1f189), (0x200c, 0x200d)]
# Upper case letters that Unicode 16 and 17 added: the first, the last and the lower case of the first.
LOWER_16 = [(0x1c89, 0x1c89, 0x1c8a), (0xa7cb, 0xa7cb, 0x0264), (0xa7cc, 0xa7cc, 0xa7cd), (0xa7da, 0xa7da, 0xa7db),
            (0xa7dc, 0xa7dc, 0x019b), (0x10d50, 0x10d65, 0x10d70)]
LOWER_17 = [(0xa7ce, 0xa7ce, 0xa7cf), (0xa7d2, 0xa7d2, 0xa7d3), (0xa7d4, 0xa7d4, 0xa7d5), (0x16ea0, 0x16eb8, 0x16ebb)]


def is_in(ranges, c):
    return any(first <= c <= last for first, last in ranges)


def category(c):
    return unicodedata2.category(chr(c))


def properties(c):
    """A byte: the category's number, and three bits."""
    name = category(c)
    mark = c >= 0x300 and (c in FORMER_MARKS or (name[0] == "M" and not is_in(LATER_MARKS, c)))
    if c < 0x80:
        punctuation = 0x20 < c < 0x7f and not chr(c).isalnum()
    else:
        punctuation = c in FORMER_PUNCTUATION or (name[0] == "P" and not is_in(LATER_PUNCTUATION, c))
    word = name[0] in "LM" or name in ("Nd", "Nl", "Pc") or is_in(OTHER_WORD, c)
    return CATEGORIES.index(name) | punctuation << 5 | mark << 6 | word << 7


def utf16(c):
    return [c] if c < 0x10000 else [0xd800 + ((c - 0x10000) >> 10), 0xdc00 + (c & 0x3ff)]


def normalization():
    """Per character its combining class, or 256 plus the place of its decomposition, and the decompositions."""
    values, pool, places, pairs = [0] * COUNT, [], {}, []
    for c in range(COUNT):
        if 0xac00 <= c < 0xac00 + 11172 or is_in(LATER_THAN_9, c):
            continue  # Hangul syllables are decomposed by arithmetic.
        values[c] = unicodedata2.combining(chr(c))
        mapping = unicodedata2.decomposition(chr(c)).split()
        if not mapping:
            continue
        compatible = mapping[0].startswith("<")
        parts = [int(part, 16) for part in mapping[compatible:]]
        assert not (compatible and values[c]), hex(c)
        assert not any(is_in(LATER_THAN_9, part) for part in parts), hex(c)
        text = [unit for part in parts for unit in utf16(part)]
        units = (len(text) | compatible << 8, *text)  # Its length and its kind, and then the text.
        if units not in places:
            places[units] = len(pool)
            pool.extend(units)
        values[c] = 256 + places[units]
        if not compatible and len(parts) == 2 and unicodedata2.normalize("NFC", chr(c)) == chr(c):
            pairs.append((parts[1], parts[0], c))
    assert 256 + len(pool) < 0x10000
    return values, pool, sorted(pairs)


def trie(values):
    """The smallest two-level table of the first planes: the shift, the blocks' numbers and the blocks. And the ranges
    of what is above it and not zero."""
    end = max(c for c in range(UPPER) if values[c] != 0) + 1
    upper = []
    for c in range(UPPER, COUNT):
        if upper and upper[-1][1] == c - 1 and upper[-1][2] == values[c]:
            upper[-1][1] = c
        elif values[c] != 0:
            upper.append([c, c, values[c]])
    best = None
    width = 1 if max(values) < 256 else 2
    for shift in range(4, 9):
        size, places, index, blocks = 1 << shift, {}, [], []
        for at in range(0, -(-end // size) * size, size):
            block = tuple(values[at:at + size])
            if block not in places:
                places[block] = len(places)
                blocks.extend(block)
            index.append(places[block])
        total = len(blocks) * width + len(index) * (1 if max(index) < 256 else 2)
        if best is None or total < best[0]:
            best = total, shift, index, blocks
    return *best[1:], upper


def case_runs(mapping):
    """{first, last, stride, target of the first} of a sorted list of pairs."""
    runs = []
    for c, to in sorted(mapping.items()):
        if runs and to - c == runs[-1][3] - runs[-1][0]:
            first, last, stride, target = runs[-1]
            if c - last in (1, 2) and (stride in (0, c - last)):
                runs[-1] = (first, c, c - last, target)
                continue
        runs.append((c, c, 0, to))
    return [(first, last, max(stride, 1), target) for first, last, stride, target in runs]


def lower_case(later):
    mapping = {c: ord(chr(c).lower()) for c in range(COUNT) if len(chr(c).lower()) == 1 and chr(c).lower() != chr(c)}
    for first, last, lower in LOWER_16 + LOWER_17:
        for c in range(first, last + 1):
            mapping.pop(c, None)  # A newer Python knows some of them.
    for first, last, lower in later:
        mapping.update({c: lower + c - first for c in range(first, last + 1)})
    return mapping


def case_folding():
    """Characters that differ in case only have one target: the lower case of the upper case."""
    lower = lower_case(LOWER_16)
    upper_of_later = {small: big for big, small in lower.items() if any(a <= big <= b for a, b, _ in LOWER_16)}

    def upper(c):
        if c in upper_of_later:
            return upper_of_later[c]
        for text in (chr(c).upper(), chr(c).title()):
            if len(text) == 1:
                return ord(text)
        return c

    newest = {c for first, last, low in LOWER_17 for c in (*range(first, last + 1), *range(low, low + last - first + 1))}
    folds = {}
    for c in range(COUNT):
        # The Turkish letters i differ from i in more than case.
        target = c if c in (0x130, 0x131) or c in newest else lower.get(upper(c), upper(c))
        folds[c] = target
    return {c: target for c, target in folds.items() if target != c}


def array(kind, name, values, per_line=24):
    lines = [",".join(str(value) for value in values[at:at + per_line]) for at in range(0, len(values), per_line)]
    return f"inline constexpr {kind} {name}[] = {{\n" + ",\n".join(lines) + "};\n"


def rows(kind, name, values):
    texts = ["{" + ",".join(hex(value) for value in row) + "}" for row in values]
    lines = [",".join(texts[at:at + 6]) for at in range(0, len(texts), 6)]
    return f"inline constexpr {kind} {name}[] = {{\n" + ",\n".join(lines) + "};\n"


def trie_text(name, values):
    shift, index, blocks, upper = trie(values)
    kinds = ["uint8_t" if max(part) < 256 else "uint16_t" for part in (index, blocks)]
    size = sum(len(part) * (1 if kind == "uint8_t" else 2) for part, kind in zip((index, blocks), kinds))
    return (f"inline constexpr unsigned k{name}Shift = {shift};\n" + array(kinds[0], f"k{name}Index", index, 60) +
            array(kinds[1], f"k{name}Blocks", blocks, 60) +
            (rows("UpperRange", f"k{name}Upper", upper) if upper else ""), size + 12 * len(upper))


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--check", action="store_true", help="write nothing; fail if the files are not up to date")
    arguments = parser.parse_args()
    if unicodedata2.unidata_version != VERSION:
        sys.exit(f"unicodedata2 has Unicode {unicodedata2.unidata_version}; install unicodedata2=={VERSION}")
    head = (f"// Made by tools/unicode/make_unicode_tables.py from Unicode {VERSION} (PyPI package unicodedata2 {VERSION}); "
            "do not edit.\n")
    property_text, property_bytes = trie_text("Property", [properties(c) for c in range(COUNT)])
    values, pool, pairs = normalization()
    form_text, form_bytes = trie_text("Decomposition", values)
    lower = case_runs(lower_case(LOWER_16 + LOWER_17))
    tables = (head + f'inline constexpr char kUnicodeVersion[] = "{VERSION}";\n' + property_text + form_text +
              array("uint16_t", "kDecompositionPool", pool, 40) + rows("CompositionPair", "kCompositions", pairs) +
              rows("CaseRun", "kLowerCase", lower))
    folding = head + rows("CaseRun", "kCaseFolding", case_runs(case_folding()))
    size = property_bytes + form_bytes + 2 * len(pool) + 12 * len(pairs) + 16 * len(lower)
    print(f"{size} bytes of tables: properties {property_bytes}, decompositions {form_bytes + 2 * len(pool)}, "
          f"compositions {12 * len(pairs)}, lower case {16 * len(lower)}")
    for path, text in ((ROOT / "src/unicode/tables.inc", tables),
                       (ROOT / "src/tokenizer/regex/case_folding.inc", folding)):
        if arguments.check:
            if not path.exists() or path.read_text() != text:
                sys.exit(f"{path} is not what this script makes")
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)


if __name__ == "__main__":
    main()

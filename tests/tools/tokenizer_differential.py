#!/usr/bin/env python3
"""Compares `tandem tokenize` with the Hugging Face `tokenizers` library on random strings.

    python3 -m venv venv && venv/bin/pip install tokenizers
    venv/bin/python tests/tools/tokenizer_differential.py build/release/tandem TOKENIZER… [--count 20000] [--seed 1]

TOKENIZER is a tokenizer.json, a tokenizer.json.gz or a folder with one of them. Each string is encoded with and without
special tokens by both; ids and decoded text must be the same. Exit status 1 if anything differs.
--code-points also sends every Unicode scalar value, alone and between letters, digits and marks: that finds tables of
another Unicode version (such differences are listed by code point).
"""
import argparse
import gzip
import json
import os
import random
import subprocess
import sys
import unicodedata

from tokenizers import Tokenizer

WORDS = ("the of and to in is was it's I'LL don't we've they're 'S 'ſ 'T x's hello World iPhone15Pro snake_case "
         "camelCase foo.bar() https://example.com/a?b=c&d=e 3.14159 1,000,000 2024-11-05 naïve café Zürich straße "
         "Привет мир Ελληνικά עברית العربية हिन्दी ภาษาไทย 日本語 こんにちは 中文字符 한국어 Việt Cửa "
         "😀 👩‍👩‍👧 🇫🇷 ½ ² Ⅷ ٣ १२ ﬁ ℌ Å").split()
SPACES = [" ", "  ", "   ", "\n", "\n\n", "\r\n", "\t", "\u00a0", "\u3000", "\u2028", "\u0085", "\u180e", "\u200b",
          " \n ", "\u000b", "\u000c", "\u001c", "\u1680", "        ", "\n \n"]
RANGES = [(0x20, 0x7f), (0x00, 0x20), (0xa0, 0x250), (0x300, 0x370), (0x370, 0x530), (0x590, 0x700), (0x900, 0xa00),
          (0xe00, 0xe80), (0x1100, 0x1200), (0x1e00, 0x2000), (0x2000, 0x2100), (0x2100, 0x2300), (0x3040, 0x3100),
          (0x4e00, 0x9fa6), (0xac00, 0xd7a4), (0xf900, 0xfb00), (0xfb00, 0xfe00), (0xfff0, 0x10000),
          (0x1d15e, 0x1d200), (0x1f300, 0x1f650), (0x20000, 0x20100), (0x2f800, 0x2fa20)]


def random_character(rng):
    low, high = rng.choice(RANGES)
    return chr(rng.randrange(low, high))


def random_text(rng, specials):
    parts = []
    for _ in range(rng.randrange(0, 12)):
        kind = rng.random()
        if kind < 0.3:
            parts.append(rng.choice(WORDS))
        elif kind < 0.5:
            parts.append(rng.choice(SPACES))
        elif kind < 0.6 and specials:
            parts.append(rng.choice(specials))
        elif kind < 0.63 and specials:
            token = rng.choice(specials)
            parts.append(token[:rng.randrange(0, len(token) + 1)])
        elif kind < 0.7:
            parts.append(str(rng.randrange(0, 10 ** rng.randrange(1, 12))))
        elif kind < 0.75:
            parts.append(rng.choice("abc !\n'") * rng.randrange(1, 90))
        elif kind < 0.82:
            parts.append(rng.choice("aeoAEOcnsuy가각ᄀ") + "".join(
                chr(rng.randrange(0x300, 0x34f)) for _ in range(rng.randrange(1, 5))))
        else:
            parts.append("".join(random_character(rng) for _ in range(rng.randrange(1, 8))))
        if rng.random() < 0.4:
            parts.append(" ")
    text = "".join(parts)
    if rng.random() < 0.1:
        text = unicodedata.normalize("NFD", text)
    return text


def code_point_texts():
    texts = []
    for code in range(0x110000):
        if 0xd800 <= code < 0xe000:
            continue
        c = chr(code)
        texts.append(f"a{c}b 1{c}2 .{c}. {c} \n{c}{c}{c}\u0301e{c}\u0327")
    return texts


def find_tokenizer(path):
    if os.path.isdir(path):
        for name in ("tokenizer.json", "tokenizer.json.gz"):
            if os.path.exists(os.path.join(path, name)):
                return os.path.join(path, name)
    return path


def load_library(path):
    opener = gzip.open if path.endswith(".gz") else open
    with opener(path, "rt", encoding="utf-8") as file:
        tokenizer = Tokenizer.from_str(file.read())
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return tokenizer


def run_tandem(tandem, path, texts, special):
    lines = "".join(json.dumps({"text": text}) + "\n" for text in texts)
    command = [tandem, "tokenize", path, "--jsonl"] + (["--special"] if special else [])
    result = subprocess.run(command, input=lines.encode(), stdout=subprocess.PIPE, check=True)
    return [json.loads(line) for line in result.stdout.decode().split("\n") if line]


def compare(tandem, path, texts, name, shown):
    library = load_library(path)
    differences = []
    for special in (False, True):
        ours = run_tandem(tandem, path, texts, special)
        if len(ours) != len(texts):
            sys.exit(f"{path}: {len(ours)} answers to {len(texts)} texts")
        theirs = library.encode_batch(texts, add_special_tokens=special)
        for text, our, their in zip(texts, ours, theirs):
            decoded = library.decode(their.ids, skip_special_tokens=False)
            if our["ids"] != their.ids or our["decoded"] != decoded:
                differences.append((text, our, their.ids, decoded))
    print(f"{path}: {name}: {2 * len(texts)} compared, {len(differences)} differ")
    for text, our, ids, decoded in differences[:shown]:
        print(f"  text    {text!r}\n  tandem  {our['ids']} {our['decoded']!r}\n  library {ids} {decoded!r}")
    return differences


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tandem")
    parser.add_argument("tokenizers", nargs="+")
    parser.add_argument("--count", type=int, default=20000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--show", type=int, default=5)
    parser.add_argument("--code-points", action="store_true")
    arguments = parser.parse_args()
    failed = False
    for path in map(find_tokenizer, arguments.tokenizers):
        rng = random.Random(arguments.seed)
        specials = [token.content for token in load_library(path).get_added_tokens_decoder().values()]
        texts = [random_text(rng, specials) for _ in range(arguments.count)]
        failed |= bool(compare(arguments.tandem, path, texts, "random", arguments.show))
        if arguments.code_points:
            differences = compare(arguments.tandem, path, code_point_texts(), "code points", 0)
            codes = sorted({ord(text[1]) for text, _, _, _ in differences})
            print("  code points:", " ".join(f"{code:04X}" for code in codes) or "none")
            failed |= bool(codes)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())

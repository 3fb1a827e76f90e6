#!/usr/bin/env python3
"""Random texts through `tandem tokenize` and through the PyPI `tokenizers` library: ids and decoded texts must be equal.

    python3 -m venv build/tokenizers && build/tokenizers/bin/pip install tokenizers
    build/tokenizers/bin/python tests/tokenizer/differential_tokenizer.py build/release/tandem

For every vocabulary of ../shared/golden/tokenizers (or those named by --vocabularies), --count texts (100,000 by
default): encoded with and without special tokens, decoded with and without them, and as many lists of random ids
decoded. Then the same, with fewer texts, for small tokenizers that have each normalizer, pre-tokenizer, decoder,
behavior and flag in turn. --seed selects other texts. Exits with 77 (skipped) if the library or the vocabularies are
missing.
"""
import argparse
import gzip
import json
import random
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
import differential_tokenizer_cases as cases

ROOT = Path(__file__).resolve().parents[2]
SKIPPED = 77
SHOWN = 3


def ours(program, path, lines, *flags):
    """The program's answers to the lines: a list of (ids, decoded), or the message of the first error."""
    text = "".join(json.dumps(line) + "\n" for line in lines)
    done = subprocess.run([program, "tokenize", path, "--jsonl", *flags], input=text.encode(), capture_output=True)
    if done.returncode != 0:
        return done.stderr.decode(errors="replace").strip()
    return [(answer["ids"], answer["decoded"]) for answer in map(json.loads, done.stdout.splitlines())]


def compare(name, what, inputs, expected, got):
    if isinstance(got, str):
        print(f"{name}: {what}: tandem says: {got}")
        return 1
    different = [i for i in range(len(inputs)) if expected[i] != got[i]]
    for i in different[:SHOWN]:
        print(f"{name}: {what}: {json.dumps(inputs[i])}\n    library {expected[i]}\n    tandem  {got[i]}")
    if different:
        print(f"{name}: {what}: {len(different)} of {len(inputs)} differ")
    return len(different)


def panics(call, item):
    try:
        call([item])
        return False
    except BaseException as error:  # The library's panics are not Exceptions.
        if isinstance(error, KeyboardInterrupt):
            raise
        return True


def without_panics(name, call, items):
    """The items that the library can process: some of its parts have bugs that end in a panic."""
    if not panics(lambda _: call(items), None):
        return items
    kept = [item for item in items if not panics(call, item)]
    print(f"{name}: the library panics on {len(items) - len(kept)} of {len(items)}, which are left out")
    return kept


def check(program, name, tokenizer, path, texts, id_lists):
    """The number of differences."""
    texts = without_panics(name, lambda t: [tokenizer.decode(e.ids) for e in tokenizer.encode_batch(t)], texts)
    id_lists = without_panics(name, tokenizer.decode_batch, id_lists)
    lines = [{"text": text} for text in texts]
    plain = [encoding.ids for encoding in tokenizer.encode_batch(texts, add_special_tokens=False)]
    special = [encoding.ids for encoding in tokenizer.encode_batch(texts, add_special_tokens=True)]
    differences = compare(name, "encode", texts,
                          list(zip(plain, tokenizer.decode_batch(plain, skip_special_tokens=False))),
                          ours(program, path, lines))
    differences += compare(name, "encode with special tokens", texts,
                           list(zip(special, tokenizer.decode_batch(special, skip_special_tokens=True))),
                           ours(program, path, lines, "--special", "--skip-special"))
    lines = [{"ids": ids} for ids in id_lists]
    for skip in (False, True):
        expected = list(zip(id_lists, tokenizer.decode_batch(id_lists, skip_special_tokens=skip)))
        flags = ["--skip-special"] if skip else []
        differences += compare(name, "decode", id_lists, expected, ours(program, path, lines, *flags))
    return differences


def random_ids(rng, count, size):
    return [[rng.randrange(size) for _ in range(rng.randrange(1, 12))] for _ in range(count)]


def check_vocabulary(tokenizers, program, folder, count, rng):
    path = folder / "tokenizer.json"
    if not path.exists():
        path = folder / "tokenizer.json.gz"
    text = gzip.open(path, "rt", encoding="utf-8").read() if path.suffix == ".gz" else path.read_text(encoding="utf-8")
    tokenizer = tokenizers.Tokenizer.from_str(text)
    added = [token["content"] for token in json.loads(text)["added_tokens"]]
    texts = [cases.random_text(rng, added) for _ in range(count)]
    return check(program, folder.name, tokenizer, path, texts,
                 random_ids(rng, count, tokenizer.get_vocab_size(with_added_tokens=True)))


def check_small(tokenizers, program, count, rng):
    differences = 0
    total = 0
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "tokenizer.json"
        for name, config, texts in (
                *((name, config, cases.fixed_texts()) for name, config in cases.character_tokenizers()),
                *((name, config, ["", " ", "a", " a"]) for name, config in cases.small_tokenizers())):
            path.write_text(json.dumps(config), encoding="utf-8")
            try:
                tokenizer = tokenizers.Tokenizer.from_str(json.dumps(config))
            except Exception as error:
                sys.exit(f"{name}: the library refuses it: {error}")
            added = [token["content"] for token in config["added_tokens"]]
            texts = texts + [cases.random_text(rng, added) for _ in range(count)]
            differences += check(program, name, tokenizer, path, texts,
                                 random_ids(rng, count, tokenizer.get_vocab_size(with_added_tokens=True)))
            total += 1
    print(f"{total} small tokenizers: {differences} differences")
    return differences


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("program", help="the command line tool, build/release/tandem")
    parser.add_argument("--count", type=int, default=100_000, help="texts per vocabulary")
    parser.add_argument("--small-count", type=int, default=500, help="texts per small tokenizer")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--vocabularies", nargs="*", help="folders' names; none: all")
    parser.add_argument("--only-small", action="store_true", help="the small tokenizers only")
    arguments = parser.parse_args()
    try:
        import tokenizers
    except ImportError:
        print("skipped: the Python package `tokenizers` is not installed (see the top of this file)")
        sys.exit(SKIPPED)
    differences = check_small(tokenizers, arguments.program, arguments.small_count, random.Random(arguments.seed))
    if not arguments.only_small:
        golden = ROOT / "../shared/golden/tokenizers"
        if not golden.exists():
            print(f"skipped: there are no vocabularies in {golden}")
            sys.exit(SKIPPED if differences == 0 else 1)
        for folder in sorted(golden.iterdir()):
            if arguments.vocabularies and folder.name not in arguments.vocabularies:
                continue
            found = check_vocabulary(tokenizers, arguments.program, folder, arguments.count,
                                     random.Random(f"{arguments.seed} {folder.name}"))
            print(f"{folder.name}: {arguments.count} texts, {found} differences", flush=True)
            differences += found
    sys.exit(1 if differences else 0)


if __name__ == "__main__":
    main()

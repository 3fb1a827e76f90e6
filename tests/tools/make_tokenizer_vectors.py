#!/usr/bin/env python3
"""Makes tests/data/text/library_vectors.json: small tokenizers that use each supported option, and the output of
the Hugging Face `tokenizers` library for some texts.

    python3 -m venv venv && venv/bin/pip install tokenizers==0.23.3
    venv/bin/python tests/tools/make_tokenizer_vectors.py > tests/data/text/library_vectors.json
"""
import json
import random
import sys

import tokenizers
from tokenizers import Tokenizer


def alphabet():
    printable = [*range(0x21, 0x7f), *range(0xa1, 0xad), *range(0xae, 0x100)]
    others = [byte for byte in range(256) if byte not in printable]
    return {**{byte: chr(byte) for byte in printable}, **{byte: chr(256 + i) for i, byte in enumerate(others)}}


ALPHABET = alphabet()
BYTE_LEVEL = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False}
LLAMA3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+"
          r"|\s+(?!\S)|\s+")


def written(text):
    return "".join(ALPHABET[byte] for byte in text.encode())


def bpe(words, missing=(), pairs=True, **options):
    """A vocabulary of all bytes (but `missing`), and merges that build each word from left to right."""
    vocab = {ALPHABET[byte]: None for byte in range(256) if byte not in missing}
    merges = []
    for word in words:
        symbols = written(word)
        for i in range(1, len(symbols)):
            merge = [symbols[:i], symbols[i]]
            if merge not in merges:
                merges.append(merge)
                vocab[symbols[:i + 1]] = None
    for token in options.pop("extra", []):
        vocab[token] = None
    model = {"type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": None,
             "end_of_word_suffix": None, "fuse_unk": False, "byte_fallback": False, "ignore_merges": False,
             "vocab": {token: i for i, token in enumerate(vocab)},
             "merges": merges if pairs else [" ".join(merge) for merge in merges]}
    return {**model, **options}


def added(content, **flags):
    token = {"id": 0, "content": content, "single_word": False, "lstrip": False, "rstrip": False, "normalized": False,
             "special": False}
    return {**token, **flags}


def tokenizer(model, pre=BYTE_LEVEL, normalizer=None, added_tokens=(), post=None):
    if isinstance(pre, list):
        pre = {"type": "Sequence", "pretokenizers": pre}
    return {"version": "1.0", "truncation": None, "padding": None, "added_tokens": list(added_tokens),
            "normalizer": normalizer, "pre_tokenizer": pre, "post_processor": post,
            "decoder": BYTE_LEVEL, "model": model}


def split(pattern, behavior="Isolated", invert=False, kind="Regex"):
    return {"type": "Split", "pattern": {kind: pattern}, "behavior": behavior, "invert": invert}


def cases():
    common = ["the", " the", "ing", "  ", "12", "é", " a", "a-", "-b", "\n\n", "½", "123", "ab", "he"]
    flags = [added("<a>"), added("<ab>", special=True), added("<l>", lstrip=True), added("<r>", rstrip=True),
             added("<lr>", lstrip=True, rstrip=True, special=True), added("word", single_word=True),
             added("e\u0301x", normalized=True), added("  ", normalized=True), added("<", normalized=True),
             added("é!", special=True), added("<a>", special=True), added("the", special=True, normalized=True)]
    nfc = {"type": "NFC"}
    yield "added tokens", tokenizer(bpe(common), [split(LLAMA3), BYTE_LEVEL], nfc, flags)
    yield "added tokens without a normalizer", tokenizer(bpe(common), [split(LLAMA3), BYTE_LEVEL], None, flags)
    yield "normalizer sequence", tokenizer(bpe(common, pairs=False), BYTE_LEVEL,
                                           {"type": "Sequence", "normalizers": [nfc, nfc]})
    for behavior in ("Removed", "Isolated", "MergedWithPrevious", "MergedWithNext", "Contiguous"):
        for invert in (False, True):
            yield f"split {behavior} {invert}", tokenizer(
                bpe(common), [split(r"\s|-", behavior, invert), split("a", behavior, invert, "String"), BYTE_LEVEL])
    yield "empty matches", tokenizer(bpe(common), [split("b*"), BYTE_LEVEL])
    yield "lines", tokenizer(bpe(common), [split(r"^\s*|$", "Isolated"), BYTE_LEVEL])
    yield "classes", tokenizer(bpe(common), [split(r"[\w&]+|[^\S\r\n]+|\d|\W\h|[\x{2d}\u0021]|\p{^L}", "Isolated"),
                                             BYTE_LEVEL])
    yield "look-behind", tokenizer(bpe(common), [split(r"(?<=\p{Lu})\p{Ll}+|(?<!a)b|(?>a|ab)c?", "Isolated"), BYTE_LEVEL])
    for prefix in (False, True):
        for regex in (False, True):
            yield f"byte level {prefix} {regex}", tokenizer(
                bpe(common), {**BYTE_LEVEL, "add_prefix_space": prefix, "use_regex": regex}, nfc, flags)
    yield "prefix space after a split", tokenizer(
        bpe(common), [split("-"), {**BYTE_LEVEL, "add_prefix_space": True, "use_regex": True}])
    for individual in (False, True):
        yield f"digits {individual}", tokenizer(
            bpe(common), [{"type": "Digits", "individual_digits": individual}, {**BYTE_LEVEL, "use_regex": True}])
    missing = [*b"xyz-", 0xc3]
    yield "bytes without a token", tokenizer(bpe(["the", "he"], missing))
    for fuse in (False, True):
        yield f"unknown token {fuse}", tokenizer(
            bpe(["the", "he"], missing, extra=["<unk>"], unk_token="<unk>", fuse_unk=fuse), BYTE_LEVEL, None,
            [added("<unk>", special=True)])
    for ignore in (False, True):
        yield f"ignore merges {ignore}", tokenizer(
            bpe(common, extra=[written(" thing"), written("the the")], ignore_merges=ignore),
            [split(r" ?\w+( the)?"), BYTE_LEVEL])
    template = {"type": "TemplateProcessing",
                "single": [{"SpecialToken": {"id": "<bos>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}},
                           {"SpecialToken": {"id": "<eos>", "type_id": 0}}],
                "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}}],
                "special_tokens": {"<bos>": {"id": "<bos>", "ids": [3, 4], "tokens": ["$", "%"]},
                                   "<eos>": {"id": "<eos>", "ids": [5], "tokens": ["&"]}}}
    yield "template", tokenizer(bpe(common), post=template)
    yield "template in a sequence", tokenizer(bpe(common), post={"type": "Sequence", "processors": [BYTE_LEVEL, template]})


PARTS = ["the", " the", "he", "thing", " ", "  ", "\n", "\r\n", "\t", "a", "b", "ab", "aab", "abc", "-", "--", "word",
         "words", "sword", " word ", "<a>", "<ab>", "<l>", " <l> ", "<r>", "<r>  ", " \n<lr>\t ", "<", "e\u0301x", "é!",
         "éx", "x", "xyz", "12", "123456", "½", "Ⅷ", "٣", "'s", "'ſ", "'LL", "Á", "ẞ", "日本", "ภาษา", "हिन्दी", "😀",
         "\u0000", "\uffff", "\u180e", "\u200b", "\u2028", "\u0085", "\u00a0", "e\u0323\u0301", "\U0001d15f", "!", "&",
         "_", "ⓐ", "AbC", "f", "F0"]


def main():
    rng = random.Random(3)
    result = []
    for name, spec in cases():
        library = Tokenizer.from_str(json.dumps(spec))
        vectors = []
        texts = ["", " ", "the thing is - the the word-a aa-b", "<a><ab><l> <r>  <lr> <"]
        while len(texts) < 36:
            texts.append("".join(rng.choice(PARTS) for _ in range(rng.randrange(1, 9))))
        texts.append("".join(rng.choice("abthe") for _ in range(200)))
        for text in texts:
            ids = library.encode(text, add_special_tokens=False).ids
            special = library.encode(text).ids
            vectors.append({"text": text, "ids": ids, "ids_with_special": special,
                            "decoded": library.decode(ids, skip_special_tokens=False),
                            "decoded_skip_special": library.decode(special, skip_special_tokens=True)})
        result.append({"name": name, "tokenizer": spec, "vectors": vectors})
    json.dump({"tokenizers": tokenizers.__version__, "cases": result}, sys.stdout, separators=(",", ":"))
    print()


if __name__ == "__main__":
    main()

"""Texts and small tokenizers for differential_tokenizer.py."""
import itertools

WORDS = ("the of and to in is that it was for on are as with his they I at be this have from or one had by word but not "
         "don't I'm we'll THEY'RE it's 'S 'tis l'ete rock'n'roll naïve café straße Straße ŒUVRE ﬁn İstanbul ÅNGSTRÖM "
         "Hello, World! e.g. U.S.A. 3.14159 1,000,000 2024-01-31 user@example.com https://a.b/c?d=e&f=1#g x_y-z "
         "CamelCaseWord snake_case_word SCREAMING kebab-case IPv6 C++20 a1b2c3 0xFF 1e-5 'ſ 'Ll 'rE ½ Ⅷ ٣٤ 一二三").split()
CODE = ["def f(x):\n    return x ** 2\n", "for (int i = 0; i < n; ++i) {", "\tif (a && !b) return;\n", "}\n\n", "=> {",
        "/* c */", "// c\n", "#include <x.h>\n", "\"s\\n\"", "a[i] += b->c;", "<div class=\"x\">", "</p>", "SELECT * FROM t;",
        "    ", "\t\t", "{{ x }}", "lambda: 0", "::std::", "...", "!=", "==="]
SPACES = [" ", "  ", "   ", "\n", "\n\n", "\r\n", "\t", " \n", "\n ", "\u00a0", "\u3000", "\u2003", "\u200b", "\u2028",
          "\u0085", "\u000b", "\u180e", "\ufeff", "\u202f", "\u1680", "        "]
EMOJI = ["😀", "👍🏽", "👨‍👩‍👧", "🇩🇪", "❤️", "🏳️‍🌈", "☃", "✅", "1️⃣", "🫠"]
MARKS = ["\u0301", "\u0300", "\u0323", "\u0308", "\u0327", "\u20dd", "\u3099", "\u093c", "\u0e38", "\u0f71", "\u0653",
         "\u1dc4", "\ufe0f", "\u0345", "\u0338"]
# Characters that normal forms, case mappings or classes treat specially, or that Unicode added late.
RARE = ["\u212b", "\u2126", "\ufb01", "\uff21", "\u1e9e", "\u0130", "\u0131", "\u017f", "\u03c2", "\u0390", "\u1f80",
        "\u0958", "\u0344", "\u2000", "\u00bd", "\u2460", "\u3392", "\uac01", "\u1100\u1161\u11a8", "\u1100", "\u0ddd",
        "\u1c89", "\ua7cb", "\ua7dc", "\U00010d50", "\U0001e030", "\U00011f02", "\U000323af", "\U0002ebf0", "\u0cf3",
        "\u0897", "\U00016ea0", "\U0001d7d8", "\U0001f16c", "\u32ff", "\U00011938", "\ufdfa", "\u0149", "\ufffd",
        "\uffff", "\ufffe", "\U0010ffff", "\0", "\x01", "\x7f", "\x8f", "\ue000", "\u24b6", "\u2166", "\u0661", "\u200d",
        "\u00ad", "\u2060", "\U000e0041", "\u0e33", "\uf900", "\U0002f800", "\u2adc", "\u1b06", "\u05d3\u05bc", "\ufb33",
        "<0x41>", "<0xE2>", "▁", "▁▁", "Ġ", "Ċ", "<unk>", "</w>", "</s>", "<s>"]
SCRIPTS = [(0x20, 0x7e), (0xa0, 0x24f), (0x370, 0x3ff), (0x400, 0x52f), (0x590, 0x5f4), (0x600, 0x6ff), (0x900, 0x97f),
           (0xe00, 0xe5b), (0x1e00, 0x1fff), (0x2000, 0x206f), (0x2070, 0x218f), (0x2190, 0x23ff), (0x3041, 0x30ff),
           (0x4e00, 0x9fff), (0xac00, 0xd7a3), (0x1f300, 0x1faff), (0x1d400, 0x1d7ff), (0x300, 0x36f), (0xfb00, 0xfdff),
           (0xff00, 0xffef), (0x20000, 0x2a6df), (0, 0x10ffff)]


def random_character(rng):
    first, last = rng.choice(SCRIPTS)
    while True:
        code = rng.randint(first, last)
        if not 0xD800 <= code <= 0xDFFF:
            return chr(code)


def run_of_script(rng):
    first, last = rng.choice(SCRIPTS)
    codes = (rng.randint(first, last) for _ in range(rng.randrange(1, 10)))
    return "".join(chr(code) for code in codes if not 0xD800 <= code <= 0xDFFF)


def random_text(rng, added):
    parts = []
    for _ in range(rng.choice((1, 2, 3, 5, 8, 13))):
        kind = rng.random()
        if kind < 0.30:
            parts.append(rng.choice(WORDS) + rng.choice(("", " ", " ", " ")))
        elif kind < 0.38:
            parts.append(rng.choice(CODE))
        elif kind < 0.48:
            parts.append(rng.choice(SPACES) * rng.choice((1, 1, 2, 3, 17, 40)))
        elif kind < 0.60:
            parts.append(run_of_script(rng))
        elif kind < 0.66:
            parts.append(rng.choice(EMOJI))
        elif kind < 0.72:
            parts.append(random_character(rng) + "".join(rng.choice(MARKS) for _ in range(rng.randrange(1, 4))))
        elif kind < 0.80 and added:
            parts.append(rng.choice(("", " ", "\n")) + rng.choice(added) + rng.choice(("", " ", "a", "\n ")))
        elif kind < 0.86:
            parts.append("".join(rng.choice("0123456789") for _ in range(rng.randrange(1, 9))))
        elif kind < 0.96:
            parts.append(rng.choice(RARE))
        else:
            parts.append("".join(rng.choice("aeiou tns'.,!?-_()<>|") for _ in range(rng.randrange(1, 80))))
    return "".join(parts)


def fixed_texts():
    """Every character that is not a surrogate (of the last planes, a sample), with something between them."""
    texts = []
    codes = [code for code in range(0x110000) if not 0xD800 <= code <= 0xDFFF and (code < 0x30000 or code % 997 == 0)]
    for i in range(0, len(codes), 64):
        texts.append(" ".join(chr(code) for code in codes[i:i + 64]))
    return texts


def byte_level_alphabet():
    kept = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = (byte for byte in range(256) if byte not in kept)
    return {byte: chr(byte) for byte in kept} | {byte: chr(256 + i) for i, byte in enumerate(others)}


def token(content, special=False, **flags):
    return {"id": 0, "content": content, "single_word": False, "lstrip": False, "rstrip": False,
            "normalized": not special, "special": special} | flags


ADDED = [token("<s>", True), token("</s>", True), token("<|a|>", True, lstrip=True), token("<|b|>", rstrip=True),
         token("word", single_word=True), token("Straße"), token("é", normalized=False), token("  ", normalized=False),
         token("<|c|>", True, lstrip=True, rstrip=True, single_word=True)]
LETTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.,'!?-_ ▁éüßи日本語\n"
MERGED = ["th", "the", "in", "ing", "an", "and", "er", "▁t", "▁th", "▁the", "▁a", "▁▁", "▁▁▁▁", "on", "or", "ll", "'s",
          "he", "ha", "日本", "wo", "wor", "word", "00", "12", "▁'", "é.", "  "]


def merges_of(vocab):
    return [[t[:i], t[i:]] for t in vocab for i in range(1, len(t)) if t[:i] in vocab and t[i:] in vocab]


def bpe(byte_fallback=True, **changes):
    tokens = ["<unk>", "<s>", "</s>"] + [f"<0x{byte:02X}>" for byte in range(256)] + list(LETTERS) + MERGED
    vocab = {t: i for i, t in enumerate(tokens)}
    return {"type": "BPE", "dropout": None, "unk_token": "<unk>", "continuing_subword_prefix": None,
            "end_of_word_suffix": None, "fuse_unk": True, "byte_fallback": byte_fallback, "ignore_merges": False,
            "vocab": vocab, "merges": merges_of(vocab)} | changes


def byte_level_bpe(**changes):
    alphabet = byte_level_alphabet()
    tokens = ["<unk>", "<s>", "</s>"] + list(alphabet.values())
    tokens += ["Ġt", "Ġth", "th", "the", "Ġthe", "in", "ing", "ĠĠ", "ĊĊ", "Ġa", "an", "and", "Ã©", "æĹ", "æĹ¥", "ðŁ", "'s"]
    vocab = {t: i for i, t in enumerate(tokens)}
    merges = [" ".join(pair) for pair in merges_of(vocab)]
    return {"type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": "", "end_of_word_suffix": "",
            "fuse_unk": False, "byte_fallback": False, "vocab": vocab, "merges": merges} | changes


def unigram(byte_fallback=False, unk_id=0):
    tokens = ["<unk>", "<s>", "</s>"] + [f"<0x{byte:02X}>" for byte in range(256)] * byte_fallback
    tokens += [letter for letter in LETTERS if letter not in "qQzZи"] + MERGED + ["a▁", "<unk", "ab", "abc", "xx"]
    scores = [0.0, 0.0, 0.0] + [-1.5 - (i * 37 % 101) / 10 for i in range(len(tokens) - 3)]
    return {"type": "Unigram", "unk_id": unk_id, "vocab": [[t, s] for t, s in zip(tokens, scores)],
            "byte_fallback": byte_fallback}


def sequence(kind, steps):
    return {"type": "Sequence", {"n": "normalizers", "p": "pretokenizers", "d": "decoders", "o": "processors"}[kind]: steps}


def tokenizer(model, normalizer=None, pre_tokenizer=None, decoder=None, post_processor=None, added=ADDED):
    return {"version": "1.0", "truncation": None, "padding": None, "added_tokens": added, "normalizer": normalizer,
            "pre_tokenizer": pre_tokenizer, "post_processor": post_processor, "decoder": decoder, "model": model}


REPLACE = {"type": "Replace", "pattern": {"String": " "}, "content": "▁"}
PREPEND = {"type": "Prepend", "prepend": "▁"}
BACK = {"type": "Replace", "pattern": {"String": "▁"}, "content": " "}
FALLBACK = {"type": "ByteFallback"}
FUSE = {"type": "Fuse"}
LLAMA_DECODER = sequence("d", [BACK, FALLBACK, FUSE, {"type": "Strip", "content": " ", "start": 1, "stop": 0}])
BYTE_LEVEL = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
BEHAVIORS = ["Removed", "Isolated", "MergedWithPrevious", "MergedWithNext", "Contiguous"]


def metaspace(scheme="always", split=True, **more):
    return {"type": "Metaspace", "replacement": "▁", "prepend_scheme": scheme, "split": split} | more


def template(before, after):
    piece = lambda name: {"SpecialToken": {"id": name, "type_id": 0}}
    single = [*map(piece, before), {"Sequence": {"id": "A", "type_id": 0}}, *map(piece, after)]
    return {"type": "TemplateProcessing", "single": single, "pair": single + [{"Sequence": {"id": "B", "type_id": 1}}],
            "special_tokens": {name: {"id": name, "ids": [i], "tokens": [name]} for i, name in
                               ((1, "<s>"), (2, "</s>")) if name in before + after}}


def normalizers():
    for name in ("NFC", "NFD", "NFKC", "NFKD", "Lowercase", "StripAccents", "Nmt", "ByteLevel"):
        yield name, {"type": name}
    for left, right in itertools.product((False, True), repeat=2):
        yield f"Strip {left} {right}", {"type": "Strip", "strip_left": left, "strip_right": right}
    yield "Prepend", PREPEND
    yield "Replace", REPLACE
    yield "Replace by nothing", {"type": "Replace", "pattern": {"String": "th"}, "content": ""}
    yield "Replace Regex", {"type": "Replace", "pattern": {"Regex": " {2,}"}, "content": "▁"}
    yield "Replace classes", {"type": "Replace", "pattern": {"Regex": r"\p{N}+|\p{M}|[^\s\p{L}]"}, "content": "#"}
    yield "llama", sequence("n", [PREPEND, REPLACE])
    yield "several", sequence("n", [{"type": "NFKD"}, {"type": "StripAccents"}, {"type": "Lowercase"},
                                    sequence("n", [{"type": "Strip", "strip_left": True, "strip_right": True}]), REPLACE])


def pre_tokenizers():
    for behavior, invert in itertools.product(BEHAVIORS, (False, True)):
        yield f"Split {behavior} {invert}", {"type": "Split", "pattern": {"Regex": r"\s+|[,.]"}, "behavior": behavior,
                                             "invert": invert}
        yield f"Split text {behavior} {invert}", {"type": "Split", "pattern": {"String": " "}, "behavior": behavior,
                                                  "invert": invert}
    for scheme, split in itertools.product(("always", "first", "never"), (False, True)):
        yield f"Metaspace {scheme} {split}", metaspace(scheme, split)
        yield f"Punctuation, Metaspace {scheme} {split}", sequence("p", [{"type": "Punctuation"}, metaspace(scheme, split)])
    yield "old Metaspace", {"type": "Metaspace", "replacement": "▁", "add_prefix_space": True}
    yield "WhitespaceSplit, Metaspace first", sequence("p", [{"type": "WhitespaceSplit"}, metaspace("first")])
    for behavior in BEHAVIORS:
        yield f"Punctuation {behavior}", {"type": "Punctuation", "behavior": behavior}
    for individual in (False, True):
        yield f"Digits {individual}", {"type": "Digits", "individual_digits": individual}
    yield "Whitespace", {"type": "Whitespace"}
    yield "WhitespaceSplit", {"type": "WhitespaceSplit"}
    yield "CharDelimiterSplit", {"type": "CharDelimiterSplit", "delimiter": "n"}
    yield "ByteLevel, then Digits", sequence("p", [BYTE_LEVEL, {"type": "Digits", "individual_digits": True}])
    yield "ByteLevel twice", sequence("p", [BYTE_LEVEL, BYTE_LEVEL])


def decoders():
    yield "none", None
    yield "ByteLevel", {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True}
    yield "Fuse", FUSE
    yield "ByteFallback", FALLBACK
    yield "llama", LLAMA_DECODER
    yield "gemma", sequence("d", [BACK, FALLBACK, FUSE])
    yield "Replace fused", sequence("d", [FALLBACK, FUSE, BACK])
    yield "Replace fused, long", sequence("d", [FUSE, {"type": "Replace", "pattern": {"String": "the▁t"}, "content": "<>"}])
    yield "Replace Regex fused", sequence("d", [FUSE, {"type": "Replace", "pattern": {"Regex": "[▁a]+"}, "content": "+"}])
    yield "Replace Regex", {"type": "Replace", "pattern": {"Regex": "[▁a]+"}, "content": "+"}
    yield "ByteFallback fused", sequence("d", [FUSE, FALLBACK])
    yield "ByteLevel fused", sequence("d", [FUSE, BYTE_LEVEL, BACK])
    yield "Strip", sequence("d", [BACK, {"type": "Strip", "content": " ", "start": 2, "stop": 0}])
    yield "Strip fused", sequence("d", [BACK, FUSE, {"type": "Strip", "content": " ", "start": 2, "stop": 0}])
    for scheme in ("always", "first", "never"):
        yield f"Metaspace {scheme}", metaspace(scheme)
        yield f"Metaspace {scheme}, fused", sequence("d", [FUSE, metaspace(scheme)])
    yield "BPEDecoder", {"type": "BPEDecoder", "suffix": "▁"}


def character_tokenizers():
    """Pairs of a name and a tokenizer.json that depend on each character's properties."""
    for name, step in normalizers():
        yield f"normalizer {name}", tokenizer(bpe(), step, None, LLAMA_DECODER)
    for step in ({"type": "Punctuation"}, {"type": "Digits", "individual_digits": True}, {"type": "Whitespace"},
                 {"type": "WhitespaceSplit"}):
        yield f"pre-tokenizer {step['type']}", tokenizer(bpe(), None, sequence("p", [step, metaspace()]), LLAMA_DECODER)
    yield "GPT-2", tokenizer(byte_level_bpe(), None, BYTE_LEVEL, BYTE_LEVEL)
    for known in ("Lu", "Ll", "Lt", "Lm", "Lo", "L", "M", "N", "Nd"):
        split = {"type": "Split", "pattern": {"Regex": rf"\p{{{known}}}"}, "behavior": "Isolated", "invert": False}
        yield f"\\p{{{known}}}", tokenizer(bpe(), None, sequence("p", [split, metaspace()]), LLAMA_DECODER)


def small_tokenizers():
    """Pairs of a name and a tokenizer.json."""
    llama = sequence("n", [PREPEND, REPLACE])
    for name, step in normalizers():
        yield f"BPE, normalizer {name}", tokenizer(bpe(), step, None, LLAMA_DECODER)
        yield f"byte level, normalizer {name}", tokenizer(byte_level_bpe(), step, BYTE_LEVEL, BYTE_LEVEL)
    for name, step in pre_tokenizers():
        yield f"BPE, pre-tokenizer {name}", tokenizer(bpe(), None, step, LLAMA_DECODER)
        yield f"Unigram, pre-tokenizer {name}", tokenizer(unigram(), None, step, metaspace())
        yield f"byte level, {name} first", tokenizer(byte_level_bpe(), None, sequence("p", [step, BYTE_LEVEL]), BYTE_LEVEL)
    for name, step in decoders():
        yield f"BPE, decoder {name}", tokenizer(bpe(), llama, None, step)
        yield f"byte level, decoder {name}", tokenizer(byte_level_bpe(), None, BYTE_LEVEL, step)
        yield f"Unigram, decoder {name}", tokenizer(unigram(True), None, metaspace(), step)
    for fallback, fuse, unk in itertools.product((False, True), (False, True), (None, "<unk>")):
        model = bpe(fallback, fuse_unk=fuse, unk_token=unk)
        yield f"BPE {fallback} {fuse} {unk}", tokenizer(model, llama, None, LLAMA_DECODER)
    # Some bytes have no token, so some characters fall back and some do not.
    model = bpe(True, fuse_unk=False)
    model["vocab"] = {t: i for t, i in model["vocab"].items() if not t.startswith("<0xE") or t == "<0xE2>"}
    yield "BPE without some bytes", tokenizer(model, llama, None, LLAMA_DECODER)
    yield "BPE, ignore_merges", tokenizer(bpe(ignore_merges=True), None, metaspace(), LLAMA_DECODER)
    yield "byte level, ignore_merges", tokenizer(byte_level_bpe(ignore_merges=True, vocab=byte_level_bpe()["vocab"] |
                                                                {"Ġword": 290, "hello": 291}), None, BYTE_LEVEL, BYTE_LEVEL)
    yield "Unigram with bytes", tokenizer(unigram(True), llama, None, LLAMA_DECODER)
    yield "Unigram, other unk", tokenizer(unigram(unk_id=1), None, metaspace(), metaspace())
    for before, after in (([], []), (["<s>"], []), (["<s>"], ["</s>"]), (["<s>", "<s>"], ["</s>", "<s>"])):
        yield f"template {before} {after}", tokenizer(bpe(), llama, None, LLAMA_DECODER, template(before, after))
    yield "template in a sequence", tokenizer(bpe(), llama, None, LLAMA_DECODER,
                                              sequence("o", [BYTE_LEVEL, template(["<s>"], [])]))
    yield "no added tokens", tokenizer(bpe(), llama, None, LLAMA_DECODER, added=[])

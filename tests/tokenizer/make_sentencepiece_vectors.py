#!/usr/bin/env python3
"""Makes tests/data/text/sentencepiece_*.model and sentencepiece_vectors.json with the PyPI `sentencepiece` package.

    python3 -m venv build/sentencepiece && build/sentencepiece/bin/pip install sentencepiece
    build/sentencepiece/bin/python tests/tokenizer/make_sentencepiece_vectors.py
"""
import json
import tempfile
from pathlib import Path

import sentencepiece

ROOT = Path(__file__).resolve().parents[2]
OUT = ROOT / "tests/data/text"
# U+00C4 to "Ae", U+2126 to U+03A9, two characters to one, and one to nothing.
RULES = "C4\t41 65\n2126\t3A9\n61 30A\tE5\nAD\t\n3000\t20\n"
TEXTS = ["", " ", "a", "Hello world", "  two  spaces  ", "tokenizers and templates", "naïve Äpfel a\u030a \u2126\u00ad.",
         "日本語 and emoji 😀", "line\nbreaks\n\nand\ttabs", "the graph of the model", "x" * 40, "1234567890", "▁ is a space",
         "<s> is not control here", "user<sep>defined <sep> token", "\u3000wide\u3000space", "quantization, calibration!",
         "trailing space ", "The quick brown fox jumps over the lazy dog.", "ñandú übermäßig", "\0 NUL \uffff"]
MODELS = {
    "bpe": dict(model_type="bpe", vocab_size=600, byte_fallback=True, normalization_rule_name="identity",
                remove_extra_whitespaces=False, user_defined_symbols=["<sep>"]),
    "unigram": dict(model_type="unigram", vocab_size=400, user_defined_symbols=["<sep>"]),
    "unigram_bytes": dict(model_type="unigram", vocab_size=600, byte_fallback=True, normalization_rule_name="identity",
                          add_dummy_prefix=False),
}


def main():
    vectors = {}
    with tempfile.TemporaryDirectory() as folder:
        corpus = Path(folder) / "corpus.txt"
        corpus.write_text("\n".join(path.read_text() for path in sorted(ROOT.glob("docs/*.md"))))
        rules = Path(folder) / "rules.tsv"
        rules.write_text(RULES)
        for name, options in MODELS.items():
            if "normalization_rule_name" not in options:
                options = options | {"normalization_rule_tsv": str(rules)}
            sentencepiece.SentencePieceTrainer.train(input=str(corpus), model_prefix=f"{folder}/{name}",
                                                     character_coverage=0.999, minloglevel=2, **options)
            model = (Path(folder) / f"{name}.model").read_bytes()
            (OUT / f"sentencepiece_{name}.model").write_bytes(model)
            processor = sentencepiece.SentencePieceProcessor(model_proto=model)
            vectors[name] = [{"text": text, "ids": processor.encode(text), "decoded": processor.decode(processor.encode(text))}
                             for text in TEXTS]
    (OUT / "sentencepiece_vectors.json").write_text(
        json.dumps({"sentencepiece": sentencepiece.__version__, "models": vectors}, indent=1) + "\n")


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""Makes tests/data/text/pipeline_vectors.json: what the PyPI `tokenizers` library gives for the small tokenizers of
differential_tokenizer_cases.py.

    python3 -m venv build/tokenizers && build/tokenizers/bin/pip install tokenizers
    build/tokenizers/bin/python tests/tokenizer/make_pipeline_vectors.py
"""
import json
import sys
from pathlib import Path

import tokenizers

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/tokenizer"))
import differential_tokenizer_cases as cases

TEXTS = ["", " a", "the word the   words, and  <s>12½</s> !", "naïve É\u0301 İstanbul Straße ﬁn", "日本語 😀\n\n▁▁x <|a|> <|b|> y",
         "it's  <|c|> the\tthing.. ", "<0x41> qz \u0323\u0301 <unk>"]


def main():
    models, known, result = [], {}, []
    for name, config in cases.small_tokenizers():
        tokenizer = tokenizers.Tokenizer.from_str(json.dumps(config))
        model = json.dumps(config["model"])
        if model not in known:
            known[model] = len(models)
            models.append(config["model"])
        vectors = []
        for text in TEXTS:
            ids = tokenizer.encode(text, add_special_tokens=False).ids
            special = tokenizer.encode(text, add_special_tokens=True).ids
            vectors.append({"text": text, "ids": ids, "ids_with_special": special,
                            "decoded": tokenizer.decode(ids, skip_special_tokens=False),
                            "decoded_skip_special": tokenizer.decode(special, skip_special_tokens=True)})
        result.append({"name": name, "tokenizer": {key: value for key, value in config.items() if value and key != "added_tokens"} |
                       {"model": known[model]}, "added_tokens": bool(config["added_tokens"]), "vectors": vectors})
    out = {"tokenizers": tokenizers.__version__, "models": models, "added_tokens": cases.ADDED, "cases": result}
    (ROOT / "tests/data/text/pipeline_vectors.json").write_text(json.dumps(out, ensure_ascii=False, separators=(",", ":")) + "\n")


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""Writes what a version of tandem computes with the files here: make_expected.py TANDEM v1 [v1_mixed ...]

Only for a file that was just added. The expectations of an old file never change.
"""

import json
import re
import struct
import subprocess
import sys
import tempfile
from pathlib import Path

PROMPT = [142, 187, 174, 204, 268, 257, 108]
TEXT = "Once upon a time, naïve ☂.<|im_end|>"


def logits(tandem, file, tokens):
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "logits.npy"
        ids = ",".join(map(str, tokens))
        subprocess.run([tandem, "logits", file, "--tokens", ids, "--out", out], check=True)
        data = out.read_bytes()
    start = 10 + struct.unpack("<H", data[8:10])[0]
    rows, cols = map(int, re.search(rb"\((\d+), (\d+)\)", data).groups())
    values = struct.unpack(f"<{rows * cols}f", data[start:])
    return [values[r * cols : (r + 1) * cols] for r in range(rows)]


def main():
    tandem, names = sys.argv[1], sys.argv[2:]
    folder = Path(__file__).parent
    for name in names:
        file = folder / f"{name}.tdm"
        tokens = list(PROMPT)
        for _ in range(16):
            last = logits(tandem, file, tokens)[-1]
            tokens.append(max(range(len(last)), key=last.__getitem__))
        line = subprocess.run(
            [tandem, "tokenize", file, "--jsonl"],
            input=json.dumps({"text": TEXT}),
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        expected = {
            "prompt": PROMPT,
            "greedy": tokens[len(PROMPT) :],
            "logits": [round(value, 5) for row in logits(tandem, file, PROMPT) for value in row],
            "text": TEXT,
            "text_ids": json.loads(line)["ids"],
        }
        (folder / f"{name}.json").write_text(json.dumps(expected) + "\n")


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""Gives a checkpoint the outlier channels that large language models have, without changing what it computes.

    bench/outlier_model.py CHECKPOINT OUT [--channels 6] [--factor 32] [--seed 7]

In every layer a few channels of each normed hidden state and of the gated product before `down_proj` are multiplied by
`factor`, and the columns of the matrices that read them are divided by it. The factor is a power of two, so that no
mantissa changes: a float model computes the same, and rounding to integers becomes as hard as it is in large models.
For measuring what an activation format costs (docs/quantization.md).

Expects Llama's tensor names (also Mistral's, Qwen's, SmolLM's), bf16 or f32 safetensors. Needs Python 3 and nothing else.
"""
import argparse
import json
import random
import shutil
import struct
import sys
from pathlib import Path

# What is scaled up, and the matrices that read it. Norms are vectors; up_proj's rows are the channels that it computes.
CHANNELS = {
    "input_layernorm": ["self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"],
    "post_attention_layernorm": ["mlp.gate_proj", "mlp.up_proj"],
    "mlp.up_proj": ["mlp.down_proj"],
}
# Bytes of a number, struct letter of its bits, bits of its mantissa.
KINDS = {"BF16": (2, "H", 7), "F32": (4, "I", 23)}


class Checkpoint:
    """All tensors of a folder's safetensors, as mutable bytes."""

    def __init__(self, folder: Path):
        self.files, self.tensors = {}, {}
        for path in sorted(folder.glob("*.safetensors")):
            data = bytearray(path.read_bytes())
            (length,) = struct.unpack_from("<Q", data)
            for name, tensor in json.loads(data[8 : 8 + length]).items():
                if name != "__metadata__":
                    self.tensors[name] = (path.name, 8 + length + tensor["data_offsets"][0], tensor)
            self.files[path.name] = data

    def shape(self, name: str) -> list[int]:
        return self.tensors[name][2]["shape"]

    def scale(self, name: str, indices: list[int], power: int):
        """Multiplies these numbers of a tensor by a power of two."""
        file, begin, tensor = self.tensors[name]
        if tensor["dtype"] not in KINDS:
            sys.exit(f"{name} is {tensor['dtype']}; this takes {' and '.join(KINDS)}")
        size, letter, mantissa = KINDS[tensor["dtype"]]
        bits = memoryview(self.files[file])[begin : begin + size * count(tensor["shape"])]
        for index in indices:
            (word,) = struct.unpack_from("<" + letter, bits, index * size)
            exponent = word >> mantissa & 255
            if exponent == 0:
                continue  # Zero or denormal.
            if not 1 <= exponent + power <= 254:
                sys.exit(f"{name}: a number leaves the range of floats; take a smaller factor")
            struct.pack_into("<" + letter, bits, index * size, word + (power << mantissa))


def count(shape: list[int]) -> int:
    total = 1
    for length in shape:
        total *= length
    return total


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checkpoint", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--channels", type=int, default=6, help="channels of each input that are scaled up")
    parser.add_argument("--factor", type=int, default=32, help="a power of two")
    parser.add_argument("--seed", type=int, default=7)
    args = parser.parse_args()
    power = args.factor.bit_length() - 1
    if args.factor < 1 or args.factor != 1 << power:
        parser.error("--factor must be a power of two")
    rng = random.Random(args.seed)
    weights = Checkpoint(args.checkpoint)
    layer = 0
    while f"model.layers.{layer}.input_layernorm.weight" in weights.tensors:
        for source, readers in CHANNELS.items():
            name = f"model.layers.{layer}.{source}.weight"
            width, *row = weights.shape(name)
            row = count(row)
            for channel in rng.sample(range(width), args.channels):
                weights.scale(name, list(range(channel * row, (channel + 1) * row)), power)
                for reader in readers:
                    rows, cols = weights.shape(f"model.layers.{layer}.{reader}.weight")
                    weights.scale(f"model.layers.{layer}.{reader}.weight", [r * cols + channel for r in range(rows)],
                                  -power)
        layer += 1
    if layer == 0:
        sys.exit(f"{args.checkpoint}: no model.layers.0.input_layernorm.weight in its safetensors")
    args.out.mkdir(parents=True, exist_ok=True)
    for path in args.checkpoint.iterdir():
        if path.is_file() and path.name not in weights.files:
            shutil.copyfile(path, args.out / path.name)
    for name, data in weights.files.items():
        (args.out / name).write_bytes(data)
    print(f"{args.out}: {layer} layers, {args.channels} channels of each input {args.factor} times as large")


if __name__ == "__main__":
    main()

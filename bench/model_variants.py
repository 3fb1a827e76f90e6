#!/usr/bin/env python3
"""Makes variants of a checkpoint that are harder to quantize, for measuring transforms (docs/quantization.md).

    bench/model_variants.py CHECKPOINT OUT KIND [--channels 6] [--factor 40] [--seed 7]

| kind | what it does | float logits |
| --- | --- | --- |
| norms | some channels of each normed hidden state times `factor` (in the norm), the columns that read them divided by it | equal |
| pairs | some channels of v and up times `factor`, the columns of o and down that read them divided by it | equal |
| residual | norms folded, then the residual stream rotated so that its strongest directions are single channels | equal |
| all | residual, then pairs, then norms | equal |
| keys | k gets a bias: `factor` times a key's usual size in some rotary pairs of each head | others: compare with itself |

Expects Llama's tensor names, bf16 or f32 safetensors. Needs numpy.
"""
import argparse
import json
import shutil
import struct
from pathlib import Path

import numpy as np

READERS = {
    "input_layernorm": ["self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"],
    "post_attention_layernorm": ["mlp.gate_proj", "mlp.up_proj"],
}
WRITERS = ["self_attn.o_proj", "mlp.down_proj"]


def load(folder: Path) -> dict[str, np.ndarray]:
    tensors = {}
    for path in sorted(folder.glob("*.safetensors")):
        data = path.read_bytes()
        (length,) = struct.unpack_from("<Q", data)
        for name, info in json.loads(data[8 : 8 + length]).items():
            if name == "__metadata__":
                continue
            begin, end = (8 + length + at for at in info["data_offsets"])
            if info["dtype"] == "BF16":
                values = (np.frombuffer(data[begin:end], "<u2").astype("<u4") << 16).view("<f4")
            elif info["dtype"] == "F32":
                values = np.frombuffer(data[begin:end], "<f4")
            else:
                raise SystemExit(f"{name} is {info['dtype']}; this takes BF16 and F32")
            tensors[name] = values.reshape(info["shape"]).astype(np.float64)
    return tensors


def save(folder: Path, tensors: dict[str, np.ndarray]):
    header, blobs, at = {}, [], 0
    for name, values in tensors.items():
        blob = np.ascontiguousarray(values, "<f4").tobytes()
        header[name] = {"dtype": "F32", "shape": list(values.shape), "data_offsets": [at, at + len(blob)]}
        blobs.append(blob)
        at += len(blob)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    (folder / "model.safetensors").write_bytes(struct.pack("<Q", len(text)) + text + b"".join(blobs))


class Model:
    def __init__(self, folder: Path):
        self.config = json.loads((folder / "config.json").read_text())
        self.tensors = load(folder)
        self.layers = self.config["num_hidden_layers"]
        self.heads = self.config["num_attention_heads"]
        self.kv_heads = self.config.get("num_key_value_heads", self.heads)
        self.head_dim = self.config.get("head_dim") or self.config["hidden_size"] // self.heads

    def at(self, layer: int, part: str) -> np.ndarray:
        return self.tensors[f"model.layers.{layer}.{part}.weight"]

    def spike_norms(self, rng, channels: int, factor: float):
        for layer in range(self.layers):
            for norm, readers in READERS.items():
                weight = self.at(layer, norm)
                chosen = rng.permutation(len(weight))[:channels]
                weight[chosen] *= factor
                for reader in readers:
                    self.at(layer, reader)[:, chosen] /= factor

    def spike_pairs(self, rng, channels: int, factor: float):
        group = self.heads // self.kv_heads
        for layer in range(self.layers):
            v, o = self.at(layer, "self_attn.v_proj"), self.at(layer, "self_attn.o_proj")
            for row in rng.permutation(len(v))[:channels]:
                v[row] *= factor
                head, channel = divmod(row, self.head_dim)
                for query in range(head * group, (head + 1) * group):
                    o[:, query * self.head_dim + channel] /= factor
            up, down = self.at(layer, "mlp.up_proj"), self.at(layer, "mlp.down_proj")
            chosen = rng.permutation(len(up))[:channels]
            up[chosen] *= factor
            down[:, chosen] /= factor

    def concentrate_residual(self, rng, channels: int):
        """Reflections that turn the embedding's strongest directions into single channels."""
        for layer in range(self.layers):
            for norm, readers in READERS.items():
                weight = self.at(layer, norm)
                for reader in readers:
                    self.at(layer, reader)[:] *= weight
                weight[:] = 1.0
        embedding, final = self.tensors["model.embed_tokens.weight"], self.tensors["model.norm.weight"]
        head = self.tensors.get("lm_head.weight", embedding) * final
        final[:] = 1.0
        self.config["tie_word_embeddings"] = False
        written = [self.at(layer, writer).T for layer in range(self.layers) for writer in WRITERS]
        moments = sum(m.T @ m for m in [embedding, *written])
        _, vectors = np.linalg.eigh(moments)
        rotation = np.eye(len(final))
        for i, axis in enumerate(rng.permutation(len(final))[:channels]):
            direction = vectors[:, -1 - i] @ rotation
            direction[axis] -= 1.0
            length = np.linalg.norm(direction)
            if length > 1e-9:
                direction /= length
                rotation -= 2.0 * np.outer(rotation @ direction, direction)
        self.tensors["model.embed_tokens.weight"] = embedding @ rotation
        self.tensors["lm_head.weight"] = head @ rotation
        for layer in range(self.layers):
            for reader in sum(READERS.values(), []):
                self.at(layer, reader)[:] = self.at(layer, reader) @ rotation
            for writer in WRITERS:
                self.at(layer, writer)[:] = rotation.T @ self.at(layer, writer)

    def add_key_bias(self, rng, pairs: int, factor: float, keep_queries: bool):
        self.config["attention_bias"] = True
        half = self.head_dim // 2
        for layer in range(self.layers):
            prefix = f"model.layers.{layer}.self_attn."
            norm, k = self.at(layer, "input_layernorm"), self.at(layer, "self_attn.k_proj")
            size = np.sqrt(np.mean(np.sum((k * norm) ** 2, axis=1)))
            bias = np.zeros(len(k))
            for head in range(self.kv_heads):
                for pair in rng.permutation(half)[:pairs]:
                    angle = rng.uniform(0, 2 * np.pi)
                    bias[head * self.head_dim + pair] = factor * size * np.cos(angle)
                    bias[head * self.head_dim + pair + half] = factor * size * np.sin(angle)
            # What large biases do to the scores is small in real models, because queries hardly use these channels.
            q = self.at(layer, "self_attn.q_proj")
            group = self.heads // self.kv_heads
            for row in [] if keep_queries else np.nonzero(bias)[0]:
                head, channel = divmod(row, self.head_dim)
                for query in range(head * group, (head + 1) * group):
                    q[query * self.head_dim + channel] /= factor
            for name, rows in [("q", len(q)), ("v", len(k)), ("o", k.shape[1])]:
                self.tensors[f"{prefix}{name}_proj.bias"] = np.zeros(rows)
            self.tensors[f"{prefix}k_proj.bias"] = bias


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checkpoint", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("kind", choices=["norms", "pairs", "residual", "all", "keys"])
    parser.add_argument("--channels", type=int, default=6)
    parser.add_argument("--factor", type=float, default=40.0)
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--keep-queries", action="store_true",
                        help="keys: queries use the channels with a bias as before; by default `factor` times less")
    args = parser.parse_args()
    rng = np.random.default_rng(args.seed)
    model = Model(args.checkpoint)
    if args.kind in ("residual", "all"):
        model.concentrate_residual(rng, args.channels)
    if args.kind in ("pairs", "all"):
        model.spike_pairs(rng, args.channels, args.factor)
    if args.kind in ("norms", "all"):
        model.spike_norms(rng, args.channels, args.factor)
    if args.kind == "keys":
        model.add_key_bias(rng, args.channels, args.factor, args.keep_queries)
    model.config["dtype"] = "float32"
    model.config.pop("torch_dtype", None)
    args.out.mkdir(parents=True, exist_ok=True)
    for path in args.checkpoint.iterdir():
        if path.suffix == ".json" and "index" not in path.name:
            shutil.copyfile(path, args.out / path.name)
    (args.out / "config.json").write_text(json.dumps(model.config, indent=2))
    save(args.out, model.tensors)


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""Makes the GGUF files here with llama.cpp's own Python library: pip install gguf==0.19.0 numpy; python3 make_gguf.py

blocks.gguf       a tensor of each type that can be read, and what that library decodes it to (NAME.expected)
smollm2_f16.gguf  golden/smollm2 (f16) with a sentencepiece vocabulary: 256 bytes and a few pieces
qwen2_5_bf16.gguf golden/qwen2_5 (bf16) with a byte-level vocabulary
"""
import json
from pathlib import Path

import gguf
import numpy as np
from gguf import GGMLQuantizationType as Type

HERE = Path(__file__).resolve().parent
GOLDEN = HERE.parent / "golden"


def make_blocks():
    rng = np.random.default_rng(7)
    writer = gguf.GGUFWriter(HERE / "blocks.gguf", "llama")
    for kind in (Type.F32, Type.F16, Type.BF16, Type.Q8_0, Type.Q4_0, Type.Q6_K):
        block, size = gguf.GGML_QUANT_SIZES[kind]
        if kind == Type.Q6_K:  # The library cannot write it: any bytes are a block, but for a scale that is a number.
            data = rng.integers(0, 256, (3, 2 * size), dtype=np.uint8)
            for row in data:
                for b in range(2):
                    row[b * size + 208 : b * size + 210] = np.frombuffer(np.float16(rng.normal()).tobytes(), np.uint8)
        elif kind in (Type.F32, Type.F16):
            data = rng.normal(size=(3, 512)).astype(np.float32 if kind == Type.F32 else np.float16)
        else:
            data = gguf.quants.quantize(rng.normal(size=(3, 512)).astype(np.float32), kind)
        expected = data.astype(np.float32) if kind in (Type.F32, Type.F16) else gguf.quants.dequantize(data, kind)
        raw = None if kind in (Type.F32, Type.F16) else kind
        writer.add_tensor(kind.name, data, raw_dtype=raw)
        writer.add_tensor(kind.name + ".expected", expected.astype(np.float32))
    finish(writer)


def finish(writer):
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def read_safetensors(path):
    data = path.read_bytes()
    size = int.from_bytes(data[:8], "little")
    for name, entry in json.loads(data[8 : 8 + size]).items():
        if name == "__metadata__":
            continue
        begin, end = entry["data_offsets"]
        raw = data[8 + size + begin : 8 + size + end]
        kind = {"F32": np.float32, "F16": np.float16, "BF16": np.uint16}[entry["dtype"]]
        yield name, entry["dtype"], np.frombuffer(raw, kind).reshape(entry["shape"])


def interleave(rows, heads):
    """What llama.cpp's converter does to q and k of Llama models."""
    return rows.reshape(heads, 2, rows.shape[0] // heads // 2, -1).swapaxes(1, 2).reshape(rows.shape)


def make_model(family, arch, output, add_vocabulary):
    config = json.loads((GOLDEN / family / "config.json").read_text())
    heads, layers = config["num_attention_heads"], config["num_hidden_layers"]
    kv_heads = config["num_key_value_heads"]
    writer = gguf.GGUFWriter(HERE / output, gguf.MODEL_ARCH_NAMES[arch])
    writer.add_context_length(config["max_position_embeddings"])
    writer.add_embedding_length(config["hidden_size"])
    writer.add_block_count(layers)
    writer.add_feed_forward_length(config["intermediate_size"])
    writer.add_head_count(heads)
    writer.add_head_count_kv(kv_heads)
    writer.add_rope_freq_base(config["rope_theta"])
    writer.add_layer_norm_rms_eps(config["rms_norm_eps"])
    writer.add_vocab_size(config["vocab_size"])
    add_vocabulary(writer, config["vocab_size"])
    names = gguf.get_tensor_name_map(arch, layers)
    for name, dtype, data in read_safetensors(GOLDEN / family / "model.safetensors"):
        if arch == gguf.MODEL_ARCH.LLAMA and name.endswith("q_proj.weight"):
            data = interleave(data, heads)
        if arch == gguf.MODEL_ARCH.LLAMA and name.endswith("k_proj.weight"):
            data = interleave(data, kv_heads)
        new_name = names.get_name(name, try_suffixes=(".weight", ".bias"))
        # One-dimensional tensors are F32, as the converter has them.
        if dtype == "BF16" and data.ndim == 1:
            data = (data.astype(np.uint32) << 16).view(np.float32)
        elif dtype == "F16" and data.ndim == 1:
            data = data.astype(np.float32)
        if data.dtype == np.uint16:
            writer.add_tensor(new_name, data.view(np.uint8), raw_dtype=Type.BF16)
        else:
            writer.add_tensor(new_name, data)
    finish(writer)


def add_sentencepiece(writer, size):
    tokens, scores, types = ["<unk>", "<s>", "</s>"], [0.0, 0.0, 0.0], [2, 3, 3]
    for byte in range(256):
        tokens.append(f"<0x{byte:02X}>")
        scores.append(0.0)
        types.append(6)
    pieces = ["th", "▁the", "he", "▁t", "▁", "t", "h", "e", "c", "a", "é", "▁ca", "at"]
    for i, piece in enumerate(pieces):
        tokens.append(piece)
        scores.append(-float(i))
        types.append(1)
    assert len(tokens) == size
    writer.add_tokenizer_model("llama")
    writer.add_tokenizer_pre("default")
    writer.add_token_list(tokens)
    writer.add_token_scores(scores)
    writer.add_token_types(types)
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_unk_token_id(0)
    writer.add_chat_template("{% for m in messages %}[{{ m.role }}] {{ m.content }}\n{% endfor %}")


def byte_characters():
    """GPT-2's printable stand-ins for bytes."""
    shown = [*range(33, 127), *range(161, 173), *range(174, 256)]
    free = iter(range(256, 512))
    return [chr(b) if b in shown else chr(next(free)) for b in range(256)]


def add_byte_level(writer, size):
    tokens = byte_characters()
    merges = ["t h", "th e", "Ġ the", "a t", "c at", "Ġ cat"]
    tokens += [merge.replace(" ", "") for merge in merges]
    types = [1] * len(tokens)
    for special in ("<|endoftext|>", "<|im_start|>", "<|im_end|>"):
        tokens.append(special)
        types.append(3)
    tokens.append("<think>")
    types.append(4)
    while len(tokens) < size:
        tokens.append(f"[PAD{len(tokens)}]")
        types.append(5)
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("qwen2")
    writer.add_token_list(tokens)
    writer.add_token_types(types)
    writer.add_token_merges(merges)
    writer.add_eos_token_id(tokens.index("<|im_end|>"))
    writer.add_pad_token_id(tokens.index("<|endoftext|>"))
    writer.add_bos_token_id(tokens.index("<|endoftext|>"))
    writer.add_add_bos_token(False)
    writer.add_chat_template("{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}")


if __name__ == "__main__":
    make_blocks()
    make_model("smollm2", gguf.MODEL_ARCH.LLAMA, "smollm2_f16.gguf", add_sentencepiece)
    make_model("qwen2_5", gguf.MODEL_ARCH.QWEN2, "qwen2_5_bf16.gguf", add_byte_level)

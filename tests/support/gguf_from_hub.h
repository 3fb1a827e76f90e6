// A hub's checkpoint as llama.cpp's converter writes it: its names, its order of rows, its norms.
#pragma once

#include <algorithm>
#include <cmath>
#include <numbers>
#include <string>
#include <vector>

#include "base/half.h"
#include "checkpoint/checkpoint.h"
#include "support/gguf_writer.h"

namespace tandem::test {

// Numbers in a type, and their values when read back.
struct EncodedRow {
  std::string bytes;
  std::vector<float> values;
};

inline EncodedRow encode_numbers(const std::vector<float>& values, uint32_t type) {
  EncodedRow out;
  if (type == kGgufF32 || type == kGgufF16 || type == kGgufBF16) {
    for (const float value : values) {
      if (type == kGgufF32) {
        GgufWriter::put(out.bytes, value);
        out.values.push_back(value);
        continue;
      }
      const uint16_t half = type == kGgufF16 ? f16_from_f32(value) : bf16_from_f32(value);
      GgufWriter::put(out.bytes, half);
      out.values.push_back(type == kGgufF16 ? f32_from_f16(half) : f32_from_bf16(half));
    }
    return out;
  }
  for (size_t begin = 0; begin + 32 <= values.size(); begin += 32) {
    float largest = 0.0f;
    for (size_t i = 0; i < 32; ++i) largest = std::max(largest, std::abs(values[begin + i]));
    const uint16_t half = f16_from_f32(largest / (type == kGgufQ8_0 ? 127.0f : 7.0f));
    const float scale = f32_from_f16(half);
    std::vector<int> q(32);
    for (size_t i = 0; i < 32; ++i) {
      const int limit = type == kGgufQ8_0 ? 127 : 7;
      q[i] = scale == 0.0f ? 0 : std::clamp(static_cast<int>(std::lround(values[begin + i] / scale)), -limit, limit);
      out.values.push_back(scale * static_cast<float>(q[i]));
    }
    GgufWriter::put(out.bytes, half);
    if (type == kGgufQ8_0) {
      for (const int v : q) out.bytes += static_cast<char>(v);
    } else {
      for (size_t i = 0; i < 16; ++i) out.bytes += static_cast<char>((q[i] + 8) | (q[i + 16] + 8) << 4);
    }
  }
  return out;
}

// Whether a matrix of this many columns can have this type; llama.cpp falls back to another one if not.
inline uint32_t type_for(const std::vector<int64_t>& shape, uint32_t type) {
  if (shape.size() < 2) return kGgufF32;
  const bool blocks = type == kGgufQ8_0 || type == kGgufQ4_0;
  return blocks && shape[1] % 32 != 0 ? kGgufF32 : type;
}

inline std::string gguf_name(std::string name, bool branch_norms) {
  const auto replace = [&](std::string_view from, std::string_view to) {
    const size_t at = name.find(from);
    if (at != std::string::npos) name.replace(at, from.size(), to);
  };
  replace("model.embed_tokens.", "token_embd.");
  replace("lm_head.", "output.");
  replace("model.norm.", "output_norm.");
  replace("model.layers.", "blk.");
  replace("input_layernorm", "attn_norm");
  replace("self_attn.q_norm", "attn_q_norm");
  replace("self_attn.k_norm", "attn_k_norm");
  replace("self_attn.q_proj", "attn_q");
  replace("self_attn.k_proj", "attn_k");
  replace("self_attn.v_proj", "attn_v");
  replace("self_attn.o_proj", "attn_output");
  replace("mlp.gate_proj", "ffn_gate");
  replace("mlp.up_proj", "ffn_up");
  replace("mlp.down_proj", "ffn_down");
  replace("pre_feedforward_layernorm", "ffn_norm");
  replace("post_feedforward_layernorm", "post_ffw_norm");
  replace("post_attention_layernorm", branch_norms ? "post_attention_norm" : "ffn_norm");
  return name;
}

inline std::vector<float> interleave_heads(const std::vector<float>& rows, int64_t count, int64_t heads) {
  const int64_t cols = static_cast<int64_t>(rows.size()) / count, size = count / heads;
  std::vector<float> out(rows.size());
  for (int64_t r = 0; r < count; ++r) {
    const int64_t head = r / size, i = r % size, to = head * size + (i % (size / 2)) * 2 + i / (size / 2);
    std::copy_n(rows.begin() + r * cols, cols, out.begin() + to * cols);
  }
  return out;
}

// The divisor of each frequency in Llama 3's scaling.
inline std::vector<float> llama3_factors(const ModelConfig& config) {
  std::vector<float> factors;
  const auto original = static_cast<double>(*config.rope.original_max_position_embeddings);
  for (int64_t i = 0; i < config.head_dim / 2; ++i) {
    const double wavelength =
        2.0 * std::numbers::pi *
        std::pow(config.rope.theta, 2.0 * static_cast<double>(i) / static_cast<double>(config.head_dim));
    const double low = original / *config.rope.low_freq_factor, high = original / *config.rope.high_freq_factor;
    double factor = 1.0;
    if (wavelength > low) {
      factor = *config.rope.factor;
    } else if (wavelength >= high) {
      const double smooth = (original / wavelength - *config.rope.low_freq_factor) /
                            (*config.rope.high_freq_factor - *config.rope.low_freq_factor);
      factor = 1.0 / ((1.0 - smooth) / *config.rope.factor + smooth);
    }
    factors.push_back(static_cast<float>(factor));
  }
  return factors;
}

// Keys and tensors of a whole model, for more to be added. `arch` as GGUF calls it; matrices in `type`, or if `decoded`
// as F32 numbers that were in `type`.
inline GgufWriter gguf_from_hub(const Checkpoint& hub, const std::string& arch, uint32_t type, bool decoded = false) {
  const ModelConfig& config = hub.config();
  const bool is_gemma = arch.starts_with("gemma"), branch_norms = arch == "gemma2" || arch == "gemma3";
  GgufWriter writer;
  const auto u32 = [&](const std::string& key, int64_t value) {
    writer.u32(arch + "." + key, static_cast<uint32_t>(value));
  };
  const auto f32 = [&](const std::string& key, double value) {
    writer.f32(arch + "." + key, static_cast<float>(value));
  };
  writer.text("general.architecture", arch);
  u32("block_count", config.num_layers);
  u32("embedding_length", config.hidden_size);
  u32("context_length", config.max_position_embeddings);
  u32("feed_forward_length", config.intermediate_size);
  u32("attention.head_count", config.num_heads);
  u32("attention.head_count_kv", config.num_kv_heads);
  u32("rope.dimension_count", config.head_dim);
  f32("rope.freq_base", config.rope.theta);
  f32("attention.layer_norm_rms_epsilon", config.norm_eps);
  if (config.head_dim_given) {
    u32("attention.key_length", config.head_dim);
    u32("attention.value_length", config.head_dim);
  }
  if (config.attn_logit_softcapping) f32("attn_logit_softcapping", *config.attn_logit_softcapping);
  if (config.final_logit_softcapping) f32("final_logit_softcapping", *config.final_logit_softcapping);
  if (branch_norms) u32("attention.sliding_window", *config.sliding_window);
  if (arch == "gemma3") u32("attention.sliding_window_pattern", config.sliding_window_pattern.value_or(6));
  if (config.rope.type == "llama3") {
    const auto factors = llama3_factors(config);
    writer.tensor("rope_freqs.weight", {static_cast<int64_t>(factors.size())}, kGgufF32,
                  encode_numbers(factors, kGgufF32).bytes);
  }
  for (const std::string& name : hub.names()) {
    const auto view = *hub.tensor(name);
    std::vector<float> values = *read_tensor_f32(view);
    if (arch == "llama" && name.find(".q_proj.") != std::string::npos) {
      values = interleave_heads(values, view.shape[0], config.num_heads);
    }
    if (arch == "llama" && name.find(".k_proj.") != std::string::npos) {
      values = interleave_heads(values, view.shape[0], config.num_kv_heads);
    }
    if (is_gemma && name.ends_with("norm.weight")) {
      for (float& value : values) value += 1.0f;
    }
    const uint32_t own_type = type_for(view.shape, type);
    EncodedRow encoded = encode_numbers(values, own_type);
    if (decoded) encoded = encode_numbers(encoded.values, kGgufF32);
    writer.tensor(gguf_name(name, branch_norms), view.shape, decoded ? uint32_t{kGgufF32} : own_type, encoded.bytes);
  }
  return writer;
}

}  // namespace tandem::test

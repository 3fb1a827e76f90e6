// Meta's folders made from a hub checkpoint, and comparing checkpoints. Shared by the tests of torch files.
#pragma once

#include <algorithm>
#include <functional>
#include <string>
#include <vector>

#include "base/half.h"
#include "base/json.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/support.h"
#include "support/torch_writer.h"

namespace tandem::test {

inline void expect_error(const fs::path& path, ErrorCode code, std::string_view says, CheckpointOptions options = {}) {
  const auto checkpoint = Checkpoint::open(path, options);
  ASSERT_FALSE(checkpoint.ok()) << says;
  EXPECT_EQ(checkpoint.error().code, code) << checkpoint.error().message;
  EXPECT_NE(checkpoint.error().message.find(says), std::string::npos) << checkpoint.error().message;
}

// Compares every weight of `wanted` by name, shape and value, whole and in odd runs of rows.
inline void expect_same_weights(const Checkpoint& got, const Checkpoint& wanted) {
  EXPECT_EQ(got.names(), wanted.names());
  for (const std::string& name : wanted.names()) {
    const auto a = got.tensor(name), b = wanted.tensor(name);
    ASSERT_TRUE(a.ok() && b.ok()) << name;
    ASSERT_EQ(a->shape, b->shape) << name;
    const auto values = *read_tensor_f32(*b);
    EXPECT_EQ(*read_tensor_f32(*a), values) << name;
    const int64_t rows = tensor_rows(*a), size = tensor_row_size(*a);
    for (int64_t begin = 0; begin < rows; begin += 7) {
      const int64_t count = std::min<int64_t>(7, rows - begin);
      std::vector<float> part(static_cast<size_t>(count * size));
      ASSERT_TRUE(read_rows_f32(*a, begin, count, part).ok());
      EXPECT_TRUE(std::equal(part.begin(), part.end(), values.begin() + begin * size)) << name << " row " << begin;
      got.release_rows(*a, begin, count);  // Affects memory only: later reads return the same.
    }
    got.release(*a);
    EXPECT_EQ(*read_tensor_f32(*a), values) << name;
  }
}

using Matrix = std::vector<float>;

inline std::string float_bytes(const Matrix& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float)};
}

inline std::string half_bytes(const Matrix& values, bool bf16) {
  std::string bytes;
  for (const float value : values) {
    const uint16_t half = bf16 ? bf16_from_f32(value) : f16_from_f32(value);
    bytes.append(reinterpret_cast<const char*>(&half), 2);
  }
  return bytes;
}

// The rows of each head as Meta orders them.
inline Matrix interleave(const Matrix& rows, int64_t count, int64_t heads) {
  const int64_t cols = static_cast<int64_t>(rows.size()) / count, size = count / heads;
  Matrix out(rows.size());
  for (int64_t r = 0; r < count; ++r) {
    const int64_t head = r / size, i = r % size, to = head * size + (i % (size / 2)) * 2 + i / (size / 2);
    std::copy_n(rows.begin() + r * cols, cols, out.begin() + to * cols);
  }
  return out;
}

inline Matrix cut_rows(const Matrix& m, int64_t rows, int64_t part, int64_t parts) {
  const int64_t size = static_cast<int64_t>(m.size()) / rows * (rows / parts);
  return {m.begin() + part * size, m.begin() + (part + 1) * size};
}

inline Matrix cut_cols(const Matrix& m, int64_t cols, int64_t part, int64_t parts) {
  Matrix out;
  for (size_t r = 0; r < m.size() / static_cast<size_t>(cols); ++r) {
    const auto row = m.begin() + static_cast<int64_t>(r) * cols;
    out.insert(out.end(), row + part * (cols / parts), row + (part + 1) * (cols / parts));
  }
  return out;
}

// A hub checkpoint of the Llama family in Meta's names, in this many parts.
struct MetaModel {
  const Checkpoint& hub;
  int64_t parts = 1;
  bool embedding_by_rows = false;  // As Llama 3 splits it.
  bool share_lm_head = false;      // The LM head shares the embedding's storage.
  std::string storage = "FloatStorage";

  std::string write(int64_t part, const std::function<void(std::string&, TorchTensorSpec&)>& edit = {}) const {
    TorchWriter writer;
    std::vector<std::pair<std::string, std::string>> items;
    const auto add = [&](std::string name, const std::string& from, char cut, int64_t heads = 0) {
      const auto view = *hub.tensor(from);
      Matrix values = *read_tensor_f32(view);
      std::vector<int64_t> shape = view.shape;
      if (heads > 0) values = interleave(values, shape[0], heads);
      if (cut == 'r') values = cut_rows(values, shape[0], part, parts), shape[0] /= parts;
      if (cut == 'c') values = cut_cols(values, shape[1], part, parts), shape[1] /= parts;
      TorchTensorSpec spec{.shape = shape, .data = float_bytes(values), .storage = storage};
      if (storage != "FloatStorage") spec.data = half_bytes(values, storage == "BFloat16Storage");
      if (name == "tok_embeddings.weight" || (name == "output.weight" && share_lm_head)) spec.key = "embedding";
      if (edit) edit(name, spec);
      if (!name.empty()) items.push_back({name, writer.tensor(spec)});
    };
    const ModelConfig& config = hub.config();
    const bool tied = !hub.has("lm_head.weight");
    add("tok_embeddings.weight", "model.embed_tokens.weight", embedding_by_rows ? 'r' : 'c');
    add("norm.weight", "model.norm.weight", ' ');
    if (!tied) add("output.weight", "lm_head.weight", 'r');
    if (tied && share_lm_head) add("output.weight", "model.embed_tokens.weight", embedding_by_rows ? 'r' : 'c');
    for (int64_t i = 0; i < config.num_layers; ++i) {
      const std::string to = "layers." + std::to_string(i) + ".", from = "model.layers." + std::to_string(i) + ".";
      add(to + "attention.wq.weight", from + "self_attn.q_proj.weight", 'r', config.num_heads);
      add(to + "attention.wk.weight", from + "self_attn.k_proj.weight", 'r', config.num_kv_heads);
      add(to + "attention.wv.weight", from + "self_attn.v_proj.weight", 'r');
      add(to + "attention.wo.weight", from + "self_attn.o_proj.weight", 'c');
      add(to + "feed_forward.w1.weight", from + "mlp.gate_proj.weight", 'r');
      add(to + "feed_forward.w2.weight", from + "mlp.down_proj.weight", 'c');
      add(to + "feed_forward.w3.weight", from + "mlp.up_proj.weight", 'r');
      add(to + "attention_norm.weight", from + "input_layernorm.weight", ' ');
      add(to + "ffn_norm.weight", from + "post_attention_layernorm.weight", ' ');
    }
    items.push_back({"rope.freqs", writer.tensor({{2}, std::string(8, '\0')})});
    return writer.finish(TorchWriter::dict(items));
  }

  Json params() const {
    const ModelConfig& config = hub.config();
    return {{"dim", config.hidden_size},
            {"n_layers", config.num_layers},
            {"n_heads", config.num_heads},
            {"n_kv_heads", config.num_kv_heads},
            {"vocab_size", -1},
            {"multiple_of", 32},
            {"norm_eps", config.norm_eps},
            {"rope_theta", config.rope.theta}};
  }

  void save(const TempFolder& folder) const {
    folder.write("params.json", params().dump());
    for (int64_t part = 0; part < parts; ++part) {
      folder.write("consolidated.0" + std::to_string(part) + ".pth", write(part));
    }
  }
};

}  // namespace tandem::test

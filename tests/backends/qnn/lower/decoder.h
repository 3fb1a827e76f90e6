// A decoder layer as the compiler's passes leave it for HTP, small, built by hand: grouped heads, norms of queries and
// keys, rotary embedding, a cache that is only read, gated MLP, LM head.
#pragma once

#include <string>
#include <vector>

#include "backends/qnn/lower/lower_support.h"

namespace tandem::qnn::test {

struct DecoderShape {
  int64_t tokens = 4;
  int64_t context = 32;
  int64_t layers = 1;
  int64_t hidden = 64;
  int64_t heads = 4;
  int64_t kv_heads = 2;
  int64_t head_dim = 32;
  int64_t ffn = 96;
  int64_t vocabulary = 128;
  WeightFormat format = WeightFormat::kLpbq4;
  bool embeds = true;   // Tokens in; otherwise a hidden state.
  bool traced = false;  // The residual after each layer is an output too.
};

inline std::vector<float> causal_mask(const DecoderShape& shape, int64_t past) {
  std::vector<float> mask;
  for (int64_t n = 0; n < shape.tokens; ++n) {
    for (int64_t j = 0; j < shape.context + shape.tokens; ++j) {
      const bool visible = j < shape.context ? j < past : j - shape.context <= n;
      mask.push_back(visible ? 0.0f : -100.0f);
    }
  }
  return mask;
}

class DecoderMaker : public GraphMaker {
 public:
  explicit DecoderMaker(const DecoderShape& shape, uint32_t seed = 1)
      : GraphMaker(shape.tokens, shape.context, seed), s(shape) {
    constexpr int32_t kPast = 11;
    std::vector<int32_t> places, ids;
    for (int32_t n = 0; n < s.tokens; ++n) {
      places.push_back(kPast + n);
      ids.push_back((37 * n + 5) % static_cast<int32_t>(s.vocabulary));
    }
    const auto positions = indices("positions", places);
    const auto mask = input("mask", {s.tokens, s.context + s.tokens});
    io.floats["mask"] = causal_mask(s, kPast);
    const auto frequency = vector("inverse_frequency", s.head_dim / 2, 0.01f, 1.0f);
    cos_ = graph.add({.name = "cos", .shape = {s.tokens, s.head_dim / 2}});
    sin_ = graph.add({.name = "sin", .shape = {s.tokens, s.head_dim / 2}});
    graph.ops.push_back({ir::OpKind::kRopeTable, {positions, frequency}, {cos_, sin_}, {}});
    mask_ = mask;
    ir::TensorId x = 0;
    if (s.embeds) {
      x = op(ir::OpKind::kEmbedding, "embedding.out",
             {indices("tokens", ids), weight("embedding", s.vocabulary, s.hidden, s.format)}, {s.tokens, s.hidden});
    } else {
      x = input("hidden", {s.tokens, s.hidden});
    }
    for (int64_t layer = 0; layer < s.layers; ++layer)
      x = decoder_layer("layers." + std::to_string(layer) + ".", layer, x);
    // Tied: the LM head's weight is the table.
    const auto normed = norm("final_norm", x, s.hidden, s.hidden);
    op(ir::OpKind::kLinear, "logits", {normed, weight("embedding", s.vocabulary, s.hidden, s.format)},
       {s.tokens, s.vocabulary}, {}, ir::TensorRole::kOutput);
  }

 private:
  ir::TensorId norm(const std::string& name, ir::TensorId x, int64_t width, int64_t group) {
    return op(ir::OpKind::kRmsNorm, name + ".out", {x, vector(name, group, 0.5f, 1.5f)}, {s.tokens, width},
              {.eps = 1e-6f});
  }
  ir::TensorId linear(const std::string& name, ir::TensorId x, int64_t rows, int64_t cols) {
    return op(ir::OpKind::kLinear, name + ".out", {x, weight(name, rows, cols, s.format)}, {s.tokens, rows});
  }
  ir::TensorId rope(const std::string& name, ir::TensorId x, int64_t heads) {
    return op(ir::OpKind::kRope, name + ".rope", {x, cos_, sin_}, {s.tokens, heads * s.head_dim},
              {.head_dim = s.head_dim});
  }
  ir::TensorId appended(const std::string& name, int64_t layer, ir::TensorId rows) {
    const std::string number = "." + std::to_string(layer);
    const auto cache =
        input(name + "_cache" + number, {s.kv_heads, s.context, s.head_dim}, -2, 2, ir::TensorRole::kState);
    const auto fresh = op(ir::OpKind::kSplitHeads, name + "_new" + number, {rows}, {s.kv_heads, s.tokens, s.head_dim},
                          {.head_dim = s.head_dim}, ir::TensorRole::kOutput);
    return op(ir::OpKind::kAppendRows, name + "_all" + number, {cache, fresh},
              {s.kv_heads, s.context + s.tokens, s.head_dim});
  }

  ir::TensorId decoder_layer(const std::string& at, int64_t layer, ir::TensorId x) {
    const int64_t q_width = s.heads * s.head_dim, kv_width = s.kv_heads * s.head_dim, seen = s.context + s.tokens;
    const auto attended = norm(at + "attention.norm", x, s.hidden, s.hidden);
    auto q = linear(at + "attention.q", attended, q_width, s.hidden);
    auto k = linear(at + "attention.k", attended, kv_width, s.hidden);
    const auto v = linear(at + "attention.v", attended, kv_width, s.hidden);
    q = rope(at + "attention.q", norm(at + "attention.q_norm", q, q_width, s.head_dim), s.heads);
    k = rope(at + "attention.k", norm(at + "attention.k_norm", k, kv_width, s.head_dim), s.kv_heads);
    const auto queries = op(ir::OpKind::kSplitHeads, at + "attention.q.heads", {q}, {s.heads, s.tokens, s.head_dim},
                            {.head_dim = s.head_dim});
    const auto keys = appended("k", layer, k);
    const auto values = appended("v", layer, v);
    const auto scores = op(ir::OpKind::kMatMul, at + "attention.scores", {queries, keys}, {s.heads, s.tokens, seen},
                           {.transpose_b = true});
    const auto masked = op(ir::OpKind::kAddMask, at + "attention.masked", {scores, mask_}, {s.heads, s.tokens, seen});
    const auto probabilities = op(ir::OpKind::kSoftmax, at + "attention.probs", {masked}, {s.heads, s.tokens, seen},
                                  {.factor = 1.0f / std::sqrt(static_cast<float>(s.head_dim))});
    const auto mixed =
        op(ir::OpKind::kMatMul, at + "attention.mixed", {probabilities, values}, {s.heads, s.tokens, s.head_dim});
    const auto joined = op(ir::OpKind::kJoinHeads, at + "attention.joined", {mixed}, {s.tokens, q_width});
    const auto o = linear(at + "attention.o", joined, s.hidden, q_width);
    const auto middle = op(ir::OpKind::kAdd, at + "attention.residual", {x, o}, {s.tokens, s.hidden});
    const auto before = norm(at + "mlp.norm", middle, s.hidden, s.hidden);
    const auto gate = linear(at + "mlp.gate", before, s.ffn, s.hidden);
    const auto up = linear(at + "mlp.up", before, s.ffn, s.hidden);
    const auto sigmoid = op(ir::OpKind::kSigmoid, at + "mlp.sigmoid", {gate}, {s.tokens, s.ffn});
    const auto bent = op(ir::OpKind::kMul, at + "mlp.act", {gate, sigmoid}, {s.tokens, s.ffn});
    const auto product = op(ir::OpKind::kMul, at + "mlp.product", {bent, up}, {s.tokens, s.ffn});
    const auto down = linear(at + "mlp.down", product, s.hidden, s.ffn);
    return op(ir::OpKind::kAdd, at + "mlp.residual", {middle, down}, {s.tokens, s.hidden}, {},
              s.traced ? ir::TensorRole::kOutput : ir::TensorRole::kActivation);
  }

  DecoderShape s;
  ir::TensorId cos_ = 0, sin_ = 0, mask_ = 0;
};

}  // namespace tandem::qnn::test

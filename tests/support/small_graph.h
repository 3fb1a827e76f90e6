// A small but complete method, for tests of graphs and files: an embedding, one layer of attention with its cache, a
// quantized linear layer and an LM head, with a mask and logits of any dtype.
#pragma once

#include <string>

#include "ir/graph.h"

namespace tandem::test {

struct SmallGraphOptions {
  std::string name = "decode";
  int64_t tokens = 2;
  int64_t context = 8;
  DType kv = DType::kF32;
  ir::Tensor mask = {.name = "mask", .role = ir::TensorRole::kInput, .dtype = DType::kF32};
  ir::Tensor logits = {.name = "logits", .role = ir::TensorRole::kOutput, .dtype = DType::kF32};
};

inline constexpr int64_t kSmallVocab = 24;
inline constexpr int64_t kSmallWidth = 16;
inline constexpr int64_t kSmallHeadDim = 4;  // 4 query heads, 2 key heads.

inline ir::Graph small_graph(const SmallGraphOptions& options = {}) {
  using ir::EncodingKind;
  using ir::OpAttributes;
  using ir::OpKind;
  using ir::TensorId;
  using ir::TensorRole;
  constexpr int64_t kKvHeads = 2;
  ir::Graph g;
  g.name = options.name;
  g.tokens = options.tokens;
  g.context = options.context;
  const auto rows = [&](const char* name, int64_t width) { return g.add({.name = name, .shape = {g.tokens, width}}); };
  const auto input = [&](const char* name) {
    return g.add({.name = name, .role = TensorRole::kInput, .dtype = DType::kI32, .shape = {g.tokens}});
  };
  const auto vector = [&](const char* name, int64_t length) {
    return g.add({.name = name, .role = TensorRole::kVector, .shape = {length}});
  };
  const auto weight = [&](const char* name, int64_t out, int64_t in, WeightFormat format, int block) {
    return g.add({.name = name, .role = TensorRole::kWeight, .shape = {out, in}, .format = format, .block = block});
  };
  const auto op = [&](OpKind kind, std::vector<TensorId> inputs, std::vector<TensorId> outputs,
                      const OpAttributes& attributes = {}) {
    g.ops.push_back({kind, inputs, outputs, attributes});
  };

  const TensorId tokens = input("tokens"), positions = input("positions");
  ir::Tensor mask = options.mask, logits = options.logits;
  mask.shape = {g.tokens, g.context};
  logits.shape = {g.tokens, kSmallVocab};
  const TensorId mask_in = g.add(mask), logits_out = g.add(logits);
  std::vector<TensorId> caches, scales;
  for (const char* name : {"k_cache.0", "v_cache.0"}) {
    ir::Tensor cache{.name = name, .role = TensorRole::kState, .dtype = options.kv};
    cache.shape = {kKvHeads, g.context, kSmallHeadDim};
    if (options.kv == DType::kU8) cache.encoding.kind = EncodingKind::kDynamicPerRow;
    caches.push_back(g.add(cache));
    if (options.kv != DType::kU8) continue;
    scales.push_back(
        g.add({.name = std::string(name) + ".scales", .role = TensorRole::kState, .shape = {kKvHeads, g.context, 2}}));
  }

  const TensorId table = weight("embedding", kSmallVocab, kSmallWidth, WeightFormat::kI8, 0);
  const TensorId norm = vector("layers.0.norm", kSmallWidth), frequency = vector("rope.frequency", 2);
  const TensorId bias = vector("layers.0.q.bias", kSmallWidth);
  const TensorId wq = weight("layers.0.q", kSmallWidth, kSmallWidth, WeightFormat::kLpbq4, 16);
  const TensorId wk = weight("layers.0.k", kKvHeads * kSmallHeadDim, kSmallWidth, WeightFormat::kF32, 0);
  const TensorId head = weight("head", kSmallVocab, kSmallWidth, WeightFormat::kF16, 0);

  const TensorId x = rows("x", kSmallWidth), h = rows("h", kSmallWidth), q = rows("q", kSmallWidth);
  const TensorId k = rows("k", kKvHeads * kSmallHeadDim), cos = rows("cos", 2), sin = rows("sin", 2);
  const TensorId q_turned = rows("q_turned", kSmallWidth), k_turned = rows("k_turned", kKvHeads * kSmallHeadDim);
  const TensorId mask_f32 = rows("mask_f32", g.context), mixed = rows("mixed", kSmallWidth);
  const TensorId y = rows("y", kSmallWidth), scores = rows("scores", kSmallVocab);

  const OpAttributes heads{.head_dim = kSmallHeadDim};
  op(OpKind::kEmbedding, {tokens, table}, {x});
  op(OpKind::kRopeTable, {positions, frequency}, {cos, sin});
  op(OpKind::kMaskToFloat, {mask_in}, {mask_f32});
  op(OpKind::kRmsNorm, {x, norm}, {h}, {.eps = 1e-6f});
  op(OpKind::kLinear, {h, wq, bias}, {q}, {.quantize_input = true});
  op(OpKind::kLinear, {h, wk}, {k});
  op(OpKind::kRope, {q, cos, sin}, {q_turned}, heads);
  op(OpKind::kRope, {k, cos, sin}, {k_turned}, heads);
  const auto with = [](std::vector<TensorId> list, std::vector<TensorId> more) {
    list.insert(list.end(), more.begin(), more.end());
    return list;
  };
  const bool scaled = !scales.empty();
  op(OpKind::kStoreKv, with({k_turned, positions, caches[0]}, scaled ? std::vector{scales[0]} : scales), {}, heads);
  op(OpKind::kStoreKv, with({k, positions, caches[1]}, scaled ? std::vector{scales[1]} : scales), {}, heads);
  op(OpKind::kAttention, with({q_turned, caches[0], caches[1], mask_f32, positions}, scales), {mixed},
     {.factor = 0.5f, .head_dim = kSmallHeadDim});
  op(OpKind::kAdd, {x, mixed}, {y});
  op(OpKind::kLinear, {y, head}, {scores});
  op(OpKind::kConvert, {scores}, {logits_out});
  // The names are those of files from before purposes were stored.
  const Status named = ir::set_purposes_from_names(g);
  if (!named.ok()) g.tensors.clear();  // No test passes with such a graph.
  return g;
}

}  // namespace tandem::test

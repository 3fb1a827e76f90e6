// A model with every default resolved: what the builder draws, and where each number comes from in the checkpoint.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "checkpoint/checkpoint.h"
#include "ir/purpose.h"
#include "models/family.h"
#include "tandem/status.h"

namespace tandem {

// Rows [row_begin, row_begin + rows) of a checkpoint tensor.
struct SourcePiece {
  std::string tensor;
  int64_t row_begin = 0;
  int64_t rows = 0;
};

// A weight matrix by its canonical name ("layers.3.mlp.down"), as pieces of the checkpoint stacked vertically.
struct WeightSource {
  std::string name;
  int64_t rows = 0;
  int64_t cols = 0;
  std::vector<SourcePiece> pieces;
  ir::Purpose purpose = {};  // Whose weight it is: a layer's, the embedding's, the LM head's.
};

// A vector: a piece of a tensor, or (rotary frequencies) computed numbers.
struct VectorSource {
  std::string name = {};
  int64_t length = 0;
  std::string tensor = {};  // Empty: see `values`.
  int64_t begin = 0;
  std::vector<float> values = {};
  ir::Purpose purpose = {};
};

struct RopeTable {
  std::vector<float> inverse_frequency;  // One per rotated pair.
  float factor = 1.0f;                   // Multiplied with cos and sin.
  // Sequences of more than `limit` tokens use these instead, at all positions. Empty: the length makes no difference.
  std::vector<float> long_inverse_frequency = {};
  int64_t limit = 0;
};

struct LayerPlan {
  int rope_table = 0;  // Index into rope_tables, or -1: no rotary embedding.
  int64_t window = 0;  // 0: all positions.
};

struct ModelPlan {
  const FamilySpec* family = nullptr;
  std::string architecture;
  int64_t vocab_size = 0;
  int64_t hidden_size = 0;
  int64_t intermediate_size = 0;
  int64_t heads = 0;
  int64_t kv_heads = 0;
  int64_t head_dim = 0;
  int64_t max_positions = 0;
  float norm_eps = 0.0f;
  Activation activation = Activation::kSilu;
  bool qkv_bias = false;
  bool o_bias = false;
  bool mlp_bias = false;
  bool tied = false;
  bool rope_interleaved = false;
  int64_t codegen_blocks = 0;  // QkvKind::kBlocked
  float attention_scale = 0.0f;
  float attention_softcap = 0.0f;
  float embedding_factor = 1.0f;
  float residual_factor = 1.0f;
  float logits_factor = 1.0f;
  float logits_softcap = 0.0f;
  std::vector<RopeTable> rope_tables;
  std::vector<LayerPlan> layers;
  std::vector<WeightSource> weights;
  std::vector<VectorSource> vectors;
  int64_t parameters = 0;
  std::vector<std::string> warnings;  // For the user: what was ignored.

  const WeightSource* find_weight(std::string_view name) const;
  const VectorSource* find_vector(std::string_view name) const;
};

// Resolves the plan and checks that the checkpoint has every tensor in the right shape, and no unused ones. Models that
// no family or the builder supports are refused by name.
Result<ModelPlan> plan_model(const Checkpoint& checkpoint);

}  // namespace tandem

#include "models/tensor_sources.h"

#include <unordered_set>

#include "base/error.h"
#include "base/format.h"

namespace tandem {
namespace {

// Tensors that some exporters add and no forward pass needs.
bool is_ignorable(std::string_view name) {
  return name.ends_with(".rotary_emb.inv_freq") || name.ends_with(".attn.masked_bias") ||
         name.ends_with(".attn.causal_mask") || name.ends_with(".attn.bias");
}

class SourceCollector {
 public:
  SourceCollector(const Checkpoint& checkpoint, ModelPlan& plan)
      : checkpoint_(checkpoint), plan_(plan), family_(plan.family) {}

  Status run() {
    TANDEM_TRY(collect_sources());
    return check_all_used();
  }

 private:
  Result<TensorView> view(const std::string& name, const std::vector<int64_t>& shape) {
    TANDEM_ASSIGN(TensorView tensor, checkpoint_.tensor(name));
    if (tensor.shape != shape) {
      return corrupt("tensor \"{}\" has shape [{}], and config.json asks for [{}]", name, str_join(tensor.shape, ", "),
                     str_join(shape, ", "));
    }
    if (used_.insert(name).second) plan_.parameters += tensor_rows(tensor) * tensor_row_size(tensor);
    return tensor;
  }

  Status add_weight(std::string name, const std::string& tensor, int64_t row_begin, int64_t rows, int64_t total_rows,
                    int64_t cols) {
    TANDEM_TRY(view(tensor, {total_rows, cols}).status());
    plan_.weights.push_back({std::move(name), rows, cols, {{tensor, row_begin, rows}}, purpose_});
    return ok_status();
  }

  Status add_vector(std::string name, const std::string& tensor, int64_t begin, int64_t length, int64_t total) {
    TANDEM_TRY(view(tensor, {total}).status());
    plan_.vectors.push_back(
        {.name = std::move(name), .length = length, .tensor = tensor, .begin = begin, .purpose = purpose_});
    return ok_status();
  }

  // A linear layer `from` (without ".weight"), whole.
  Status add_linear(const std::string& name, const std::string& from, int64_t rows, int64_t cols, bool with_bias) {
    TANDEM_TRY(add_weight(name, from + ".weight", 0, rows, rows, cols));
    if (with_bias) TANDEM_TRY(add_vector(name + ".bias", from + ".bias", 0, rows, rows));
    return ok_status();
  }

  // Parts of one fused linear layer, in row order.
  Status add_fused(const std::string& from, std::span<const std::pair<std::string, int64_t>> parts, int64_t cols,
                   bool with_bias) {
    int64_t total = 0;
    for (const auto& [name, rows] : parts) total += rows;
    int64_t begin = 0;
    for (const auto& [name, rows] : parts) {
      TANDEM_TRY(add_weight(name, from + ".weight", begin, rows, total, cols));
      if (with_bias) TANDEM_TRY(add_vector(name + ".bias", from + ".bias", begin, rows, total));
      begin += rows;
    }
    return ok_status();
  }

  // CodeGen's projections, laid out for training on several machines: one block per machine, with the rows of q, v and
  // k.
  Status add_blocked(const std::string& from, const std::string& prefix, int64_t rows, int64_t cols) {
    const int64_t blocks = plan_.codegen_blocks;
    TANDEM_TRY(view(from + ".weight", {3 * rows, cols}).status());
    constexpr const char* kOrder[] = {"q", "v", "k"};
    for (int64_t part = 0; part < 3; ++part) {
      WeightSource source{prefix + kOrder[part], rows, cols, {}, purpose_};
      for (int64_t block = 0; block < blocks; ++block) {
        source.pieces.push_back({from + ".weight", (3 * block + part) * (rows / blocks), rows / blocks});
      }
      plan_.weights.push_back(std::move(source));
    }
    return ok_status();
  }

  Status add_norm(const std::string& name, const std::string& from, int64_t length) {
    TANDEM_TRY(add_vector(name, from + ".weight", 0, length, length));
    if (family_->norm == NormKind::kLayer) TANDEM_TRY(add_vector(name + ".bias", from + ".bias", 0, length, length));
    return ok_status();
  }

  Status collect_layer(int64_t i) {
    purpose_ = {.layer = static_cast<int32_t>(i)};
    const TensorNames& names = family_->names;
    const auto tensor = [&](std::string_view pattern) {
      std::string text;
      const FormatValue layer(i);
      append_values(text, pattern, {&layer, 1});
      return text;
    };
    const auto name = [&](std::string_view part) { return str_format("layers.{}.{}", i, part); };
    const int64_t hidden = plan_.hidden_size, ffn = plan_.intermediate_size;
    const int64_t q_rows = plan_.heads * plan_.head_dim, kv_rows = plan_.kv_heads * plan_.head_dim;

    TANDEM_TRY(add_norm(name("attention.norm"), tensor(names.attention_norm), hidden));
    if (family_->qkv == QkvKind::kFused) {
      const std::pair<std::string, int64_t> parts[] = {
          {name("attention.q"), q_rows}, {name("attention.k"), kv_rows}, {name("attention.v"), kv_rows}};
      TANDEM_TRY(add_fused(tensor(names.qkv), parts, hidden, plan_.qkv_bias));
    } else if (family_->qkv == QkvKind::kBlocked) {
      TANDEM_TRY(add_blocked(tensor(names.qkv), name("attention."), q_rows, hidden));
    } else {
      TANDEM_TRY(add_linear(name("attention.q"), tensor(names.q), q_rows, hidden, plan_.qkv_bias));
      TANDEM_TRY(add_linear(name("attention.k"), tensor(names.k), kv_rows, hidden, plan_.qkv_bias));
      TANDEM_TRY(add_linear(name("attention.v"), tensor(names.v), kv_rows, hidden, plan_.qkv_bias));
    }
    if (family_->qk_norm) {
      TANDEM_TRY(add_norm(name("attention.q_norm"), tensor(names.q_norm), plan_.head_dim));
      TANDEM_TRY(add_norm(name("attention.k_norm"), tensor(names.k_norm), plan_.head_dim));
    }
    TANDEM_TRY(add_linear(name("attention.o"), tensor(names.o), hidden, q_rows, plan_.o_bias));
    if (!names.post_attention_norm.empty()) {
      TANDEM_TRY(add_norm(name("attention.post_norm"), tensor(names.post_attention_norm), hidden));
    }
    if (family_->block == BlockKind::kSequential) {
      TANDEM_TRY(add_norm(name("mlp.norm"), tensor(names.mlp_norm), hidden));
    }
    if (family_->mlp == MlpKind::kGatedFused) {
      const std::pair<std::string, int64_t> parts[] = {{name("mlp.gate"), ffn}, {name("mlp.up"), ffn}};
      TANDEM_TRY(add_fused(tensor(names.gate_up), parts, hidden, plan_.mlp_bias));
    } else {
      if (family_->mlp == MlpKind::kGated) {
        TANDEM_TRY(add_linear(name("mlp.gate"), tensor(names.gate), ffn, hidden, plan_.mlp_bias));
      }
      TANDEM_TRY(add_linear(name("mlp.up"), tensor(names.up), ffn, hidden, plan_.mlp_bias));
    }
    TANDEM_TRY(add_linear(name("mlp.down"), tensor(names.down), hidden, ffn, plan_.mlp_bias));
    if (!names.post_mlp_norm.empty()) {
      TANDEM_TRY(add_norm(name("mlp.post_norm"), tensor(names.post_mlp_norm), hidden));
    }
    return ok_status();
  }

  Status collect_sources() {
    const TensorNames& names = family_->names;
    const std::string embedding(names.embedding), lm_head(names.lm_head);
    purpose_ = {.kind = ir::PurposeKind::kEmbedding};
    TANDEM_TRY(add_weight("embedding", embedding, 0, plan_.vocab_size, plan_.vocab_size, plan_.hidden_size));
    for (int64_t i = 0; i < static_cast<int64_t>(plan_.layers.size()); ++i) TANDEM_TRY(collect_layer(i));
    purpose_ = {.kind = ir::PurposeKind::kFinalNorm};
    TANDEM_TRY(add_norm("final_norm", std::string(names.final_norm), plan_.hidden_size));
    purpose_ = {.kind = ir::PurposeKind::kLmHead};
    // A tied model reads its LM head from the embedding, even if a file has both.
    const std::string lm_head_tensor = plan_.tied ? embedding : lm_head + ".weight";
    TANDEM_TRY(add_weight("head", lm_head_tensor, 0, plan_.vocab_size, plan_.vocab_size, plan_.hidden_size));
    if (plan_.tied) used_.insert(lm_head + ".weight");
    if (family_->lm_head_bias) {
      TANDEM_TRY(add_vector("head.bias", lm_head + ".bias", 0, plan_.vocab_size, plan_.vocab_size));
    }
    return ok_status();
  }

  // A tensor that nothing reads would mean that we compute a different model.
  Status check_all_used() const {
    for (const std::string& name : checkpoint_.names()) {
      if (!used_.contains(name) && !is_ignorable(name)) {
        return unsupported(
            "the checkpoint has the tensor \"{}\", which {} models do not use; it is not a plain {} "
            "checkpoint",
            name, family_->name, plan_.architecture);
      }
    }
    return ok_status();
  }

  const Checkpoint& checkpoint_;
  ModelPlan& plan_;
  const FamilySpec* family_;
  ir::Purpose purpose_;  // Of what is being collected.
  std::unordered_set<std::string> used_;
};

}  // namespace

Status collect_sources(const Checkpoint& checkpoint, ModelPlan& plan) {
  return SourceCollector(checkpoint, plan).run();
}

}  // namespace tandem

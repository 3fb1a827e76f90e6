// Variants of the graphs of an NPU's file. All compute the same; they differ in speed. The defaults were fastest by the
// vendor's estimates (docs/performance.md has the measurements).
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "backends/qnn/compile/npu_targets.h"
#include "compiler/passes/attention_form.h"
#include "models/builder.h"
#include "models/model_plan.h"
#include "quant/recipe.h"
#include "tandem/status.h"

namespace tandem {

struct GraphVariant {
  AttentionForms attention;
  // Output channels of a weight that the NPU fetches at a time where methods share weights.
  int weight_tile_channels = 64;
  // The mask is added inside the softmax instead of by an op of its own.
  bool fold_mask = false;

  bool operator==(const GraphVariant&) const = default;

  std::string to_json() const;
  static Result<GraphVariant> from_json(std::string_view text);
};

GraphVariant choose_graph_variant(const NpuTarget& target, const ModelPlan& plan, const Recipe& recipe,
                                  std::span<const MethodShape> methods);

// "attention gqa+kv (decode), sha+k (prefill_128); weights by 256 channels"
std::string describe(const GraphVariant& variant, std::span<const MethodShape> methods, bool shares_weights);

// Applies the user's choice. Refuses forms that cannot share a cache.
Status apply_attention_options(const std::optional<AttentionForm>& decode, const std::optional<AttentionForm>& prefill,
                               std::span<const MethodShape> methods, GraphVariant& variant);

}  // namespace tandem

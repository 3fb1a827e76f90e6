#include "weights/transform_rules.h"

#include <bit>

#include "base/format.h"

namespace tandem {
namespace {

// Why the residual stream of a model cannot be rotated; "" if it can.
std::string_view residual_obstacle(const FamilySpec& family) {
  // A LayerNorm subtracts the mean, which a rotation changes.
  if (family.norm == NormKind::kLayer) return "its LayerNorms are no RMS norms";
  // Their weights are applied after the branch's last matrix, channel by channel.
  if (!family.names.post_attention_norm.empty() || !family.names.post_mlp_norm.empty()) {
    return "the branches of its layers have norms at their ends";
  }
  return {};
}

}  // namespace

Transforms applicable_transforms(const ModelPlan& plan, const Transforms& transforms, std::vector<std::string>& notes) {
  const FamilySpec& family = *plan.family;
  Transforms applied = transforms;
  const auto leave_out = [&](bool& flag, std::string_view what, std::string_view why) {
    if (!flag || why.empty()) return;
    flag = false;
    notes.push_back(str_format("recipe: {} is left out for this model of the family {}: {}", what, family.name, why));
  };
  leave_out(applied.rotate_residual, "the rotation r1", residual_obstacle(family));
  leave_out(applied.equalize_norms, "equalizing \"norms\"",
            family.norm == NormKind::kLayer ? "its LayerNorms have biases" : "");
  leave_out(applied.equalize_norms, "equalizing \"norms\"",
            applied.rotate_residual ? "the rotation r1 needs norms without weights" : "");
  leave_out(applied.equalize_mlp, "equalizing \"mlp\"",
            family.mlp == MlpKind::kPlain ? "its MLPs have no gate and are not linear in \"up\"" : "");
  leave_out(applied.equalize_keys, "equalizing \"keys\"",
            family.qk_norm && family.norm == NormKind::kLayer ? "keys go through a LayerNorm" : "");
  leave_out(applied.rotate_keys, "the rotation r3",
            std::has_single_bit(static_cast<uint64_t>(plan.head_dim)) ? "" : "its head size is no power of two");
  applied.fold_norms = applied.fold_norms || applied.rotate_residual || applied.equalize_norms;
  return applied;
}

}  // namespace tandem

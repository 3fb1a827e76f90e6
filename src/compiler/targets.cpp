#include "compiler/targets.h"

#include <string>

#include "base/error.h"

namespace tandem {

std::span<const Target> targets() {
  static const std::vector<Target> kTargets = {
      {.name = "cpu",
       .backend = "cpu",
       .description = "any x86-64 or 64-bit ARM processor; kernels are chosen when the file is loaded",
       .weight_formats = {WeightFormat::kF32, WeightFormat::kF16, WeightFormat::kBF16, WeightFormat::kI8,
                          WeightFormat::kLpbq4},
       .kv_dtypes = {DType::kF32, DType::kF16, DType::kU8},
       .updates_cache_in_place = true},
  };
  return kTargets;
}

Result<const Target*> find_target(std::string_view name) {
  std::string known;
  for (const Target& target : targets()) {
    if (target.name == name) return &target;
    known += (known.empty() ? "" : ", ") + std::string(target.name);
  }
  return invalid_argument("target \"{}\" is unknown; these are known: {}", name, known);
}

}  // namespace tandem

#include "compiler/targets.h"

#include <string>

#include "base/error.h"

namespace tandem {
namespace {

struct Soc {
  std::string_view name;
  std::string_view description;
  uint32_t model = 0;
  int arch = 0;
};

// docs/targets.md has where these come from.
constexpr Soc kSocs[] = {
    {"sm8450", "Snapdragon 8 Gen 1", 36, 69}, {"sm8475", "Snapdragon 8+ Gen 1", 42, 69},
    {"sm8550", "Snapdragon 8 Gen 2", 43, 73}, {"sm8650", "Snapdragon 8 Gen 3", 57, 75},
    {"sm8750", "Snapdragon 8 Elite", 69, 79}, {"sm8850", "Snapdragon 8 Elite Gen 5", 87, 81},
};

// What the architectures can do.
constexpr int kSharingFrom = 73;     // Weights shared between the graphs of a context.
constexpr int kWideMatmulFrom = 73;  // 16-bit x 16-bit products, which 16-bit keys and values need.

Target npu(const Soc& soc) {
  Target target;
  target.name = soc.name;
  target.backend = "qnn";
  target.description = soc.description;
  target.weight_formats = {WeightFormat::kF16, WeightFormat::kI8, WeightFormat::kLpbq4};
  target.kv_dtypes = {DType::kU8, DType::kF16};
  if (soc.arch >= kWideMatmulFrom) target.kv_dtypes.push_back(DType::kU16);
  target.soc_model = soc.model;
  target.arch = soc.arch;
  target.vtcm_mb = 8;
  target.shares_weights = soc.arch >= kSharingFrom;
  return target;
}

}  // namespace

std::span<const Target> targets() {
  static const std::vector<Target> kTargets = [] {
    std::vector<Target> list;
    Target cpu;
    cpu.name = cpu.backend = "cpu";
    cpu.description = "any x86-64 or 64-bit ARM processor; kernels are chosen when the file is loaded";
    cpu.weight_formats = {WeightFormat::kF32, WeightFormat::kF16, WeightFormat::kBF16, WeightFormat::kI8,
                          WeightFormat::kLpbq4};
    cpu.kv_dtypes = {DType::kF32, DType::kF16, DType::kU8};
    cpu.updates_cache_in_place = true;
    list.push_back(std::move(cpu));
    for (const Soc& soc : kSocs) list.push_back(npu(soc));
    return list;
  }();
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

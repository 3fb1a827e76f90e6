#include "backends/qnn/compile/npu_targets.h"

#include <algorithm>
#include <iterator>

namespace tandem {
namespace {

struct Soc {
  std::string_view name;
  std::string_view description;
  uint32_t model = 0;
  int arch = 0;
  int vtcm_mb = 8;
};

// docs/targets.md has where these come from.
constexpr Soc kSocs[] = {
    {"sm8350", "Snapdragon 888", 30, 68, 4},
    {"sm8450", "Snapdragon 8 Gen 1", 36, 69},
    {"sm8475", "Snapdragon 8+ Gen 1", 42, 69},
    {"sm8550", "Snapdragon 8 Gen 2", 43, 73},
    {"sm8635", "Snapdragon 8s Gen 3", 68, 73},
    {"sm8650", "Snapdragon 8 Gen 3", 57, 75},
    {"sm8750", "Snapdragon 8 Elite", 69, 79},
    {"sm8845", "Snapdragon 8 Gen 5", 97, 81},
    {"sm8850", "Snapdragon 8 Elite Gen 5", 87, 81},
    {"sc8280x", "Snapdragon 8cx Gen 3", 37, 68},
    {"sc8380xp", "Snapdragon X Elite", 60, 73},
    {"sc8480xp", "Snapdragon X2 Elite", 88, 81},
    {"qcs6490", "QCS6490", 93, 68, 2},
    {"qcs9100", "QCS9100", 77, 73},
    {"sa8255", "Snapdragon Cockpit SA8255", 52, 73},
    {"sa8295", "Snapdragon Cockpit SA8295", 39, 68},
    {"sa8540", "Snapdragon Ride SA8540", 62, 68},
    {"sa8797", "Snapdragon Ride Elite SA8797", 72, 81, 16},
    {"ssg2115p", "Snapdragon for glasses, SSG2115P", 46, 73, 2},
    {"sxr2230p", "Snapdragon XR2 Gen 2", 53, 69},
    {"sxr2330p", "Snapdragon for headsets, SXR2330P", 75, 79},
};

// What the architectures can do.
constexpr int kSharingFrom = 73;      // Weights shared between the graphs of a context.
constexpr int kInt16MatmulFrom = 73;  // 16-bit x 16-bit products, which 16-bit keys and values need.
constexpr int kLpbqFrom = 69;

// What the library's simulator knows. QNN 2.51 has no other.
constexpr std::string_view kSimulated[] = {"sa8540", "sa8255", "qcs9100", "sa8797"};

// V68 can do no LPBQ, so V69's relative is the other neighbour.
std::string_view simulated_for(int arch) {
  if (arch <= 68) return "sa8540";
  return arch <= 75 ? "sa8255" : "sa8797";
}

}  // namespace

NpuTarget make_npu_target(uint32_t soc_model, int arch, int vtcm_mb) {
  NpuTarget target;
  target.backend = "qnn";
  target.weight_formats = {WeightFormat::kF16, WeightFormat::kI8};
  if (arch >= kLpbqFrom) target.weight_formats.push_back(WeightFormat::kLpbq4);
  target.kv_dtypes = {DType::kU8, DType::kF16};
  if (arch >= kInt16MatmulFrom) target.kv_dtypes.push_back(DType::kU16);
  target.soc_model = soc_model;
  target.arch = arch;
  target.vtcm_mb = vtcm_mb;
  target.shares_weights = arch >= kSharingFrom;
  const auto is_it = [&](std::string_view name) {
    return std::ranges::any_of(kSocs, [&](const Soc& soc) { return soc.name == name && soc.model == soc_model; });
  };
  target.is_simulated = std::ranges::any_of(kSimulated, is_it);
  return target;
}

std::span<const NpuTarget> npu_targets() {
  static const std::vector<NpuTarget> kTargets = [] {
    std::vector<NpuTarget> list;
    for (const Soc& soc : kSocs) {
      list.push_back(make_npu_target(soc.model, soc.arch, soc.vtcm_mb));
      list.back().name = soc.name;
      list.back().description = soc.description;
    }
    return list;
  }();
  return kTargets;
}

const NpuTarget& npu_target(std::string_view name) { return *std::ranges::find(npu_targets(), name, &NpuTarget::name); }

const NpuTarget& estimated_as(const NpuTarget& target) {
  return target.is_simulated ? target : npu_target(simulated_for(target.arch));
}

}  // namespace tandem

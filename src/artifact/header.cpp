#include "artifact/header.h"

#include <array>

namespace tandem {

std::string_view weight_layout_name(WeightLayout layout) {
  constexpr std::array<std::string_view, kWeightLayoutCount> kNames = {"panel16", "rows"};
  return kNames[static_cast<size_t>(layout)];
}

}  // namespace tandem

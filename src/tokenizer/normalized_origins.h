// Whose words the parts of a normalized text are.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "base/origin.h"
#include "tokenizer/normalizer.h"

namespace tandem {

// `normalized` is what `normalizer` makes of `text`, whose parts have these origins. Where it cannot be told which part
// something comes from, it counts as the strictest of them all.
std::vector<OriginSpan> normalized_origins(const Normalizer& normalizer, std::string_view text,
                                           std::span<const OriginSpan> origins, std::string_view normalized,
                                           WorkBudget& budget);

}  // namespace tandem

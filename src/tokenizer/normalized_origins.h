// The origins of the parts of a normalized text.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "base/origin.h"
#include "tokenizer/normalizer.h"

namespace tandem {

// `normalized` is the result of `normalizer` for `text`, whose parts have these origins. An ambiguous origin becomes
// the strictest of them all.
std::vector<OriginSpan> normalized_origins(const Normalizer& normalizer, std::string_view text,
                                           std::span<const OriginSpan> origins, std::string_view normalized,
                                           WorkBudget& budget);

}  // namespace tandem

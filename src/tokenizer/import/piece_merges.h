// Merges for vocabularies that have none: where a piece has a rank, any two pieces that concatenate to it are a merge
// of that rank.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "tandem/status.h"
#include "tokenizer/tokenizer_spec.h"

namespace tandem {

struct PieceRank {
  std::string_view text;
  uint32_t id;
  uint32_t rank;
};

Result<std::vector<BpeMerge>> merges_of_pieces(std::span<const PieceRank> pieces);

}  // namespace tandem

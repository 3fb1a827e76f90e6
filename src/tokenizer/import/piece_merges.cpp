#include "tokenizer/import/piece_merges.h"

#include <unordered_map>

#include "base/error.h"

namespace tandem {
namespace {

// Finding the two parts of a piece takes time quadratic in its length. Real vocabularies need about 10 million steps.
constexpr uint64_t kMaxWork = 2'000'000'000;

}  // namespace

Result<std::vector<BpeMerge>> merges_of_pieces(std::span<const PieceRank> pieces) {
  uint64_t work = 0;
  std::unordered_map<std::string_view, uint32_t> ids;
  ids.reserve(pieces.size());
  for (const PieceRank& piece : pieces) {
    ids.emplace(piece.text, piece.id);
    work += uint64_t{piece.text.size()} * piece.text.size();
  }
  if (work > kMaxWork) return unsupported("the tokenizer's vocabulary has too many long tokens");
  std::vector<BpeMerge> merges;
  for (const PieceRank& piece : pieces) {
    for (size_t cut = 1; cut < piece.text.size(); ++cut) {
      const auto left = ids.find(piece.text.substr(0, cut));
      if (left == ids.end()) continue;
      const auto right = ids.find(piece.text.substr(cut));
      if (right == ids.end()) continue;
      merges.push_back({left->second, right->second, piece.id, piece.rank});
    }
  }
  return merges;
}

}  // namespace tandem

#include "tokenizer/import/ranked_merges.h"

namespace tandem {

std::optional<MergePair> split_merge(std::string_view line) {
  const size_t space = line.find(' ');
  if (space == std::string_view::npos || line.find(' ', space + 1) != std::string_view::npos) return std::nullopt;
  return MergePair{line.substr(0, space), line.substr(space + 1)};
}

std::optional<std::string> append_merge(const MergePair& pair, const TokenIds& ids, TokenizerSpec& spec) {
  const std::string joined = std::string(pair.left).append(pair.right);
  BpeMerge merge{};
  merge.rank = static_cast<uint32_t>(spec.merges.size());
  for (const auto& [token, id] : {std::pair{pair.left, &merge.left}, std::pair{pair.right, &merge.right},
                                  std::pair{std::string_view(joined), &merge.merged}}) {
    const auto found = ids.find(token);
    if (found == ids.end()) return std::string(token);
    *id = found->second;
  }
  spec.merges.push_back(merge);
  return std::nullopt;
}

}  // namespace tandem

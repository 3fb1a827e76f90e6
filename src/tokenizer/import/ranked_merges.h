// Merges in the order of their ranks, as tokenizer.json, merges.txt and GGUF list them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>

#include "tokenizer/tokenizer_spec.h"

namespace tandem {

using TokenIds = std::unordered_map<std::string_view, uint32_t>;

struct MergePair {
  std::string_view left;
  std::string_view right;
};

// The tokens of "left right"; nothing if the line is not two tokens with a space between them.
std::optional<MergePair> split_merge(std::string_view line);
// Appends the merge, ranked after those before it. Returns the first of its tokens that the vocabulary lacks, and then
// appends nothing.
std::optional<std::string> append_merge(const MergePair& pair, const TokenIds& ids, TokenizerSpec& spec);

}  // namespace tandem

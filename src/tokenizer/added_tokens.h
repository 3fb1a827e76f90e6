// Finds added tokens in a text: leftmost, then longest, before anything else reads the text.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "tandem/status.h"
#include "tokenizer/token_rules.h"
#include "tokenizer/tokenizer_blob.h"
#include "tokenizer/work_budget.h"

namespace tandem {

// A run of text, or an added token.
struct TextSection {
  std::string_view text;
  std::optional<uint32_t> token;
};

class AddedTokenMatcher {
 public:
  AddedTokenMatcher() = default;
  // `normalized` picks one of the blob's two lists.
  AddedTokenMatcher(const TokenizerBlob& blob, bool normalized);

  bool empty() const { return count_ == 0; }
  // Splits valid UTF-8 into sections, appended to `sections`. Empty runs of text are omitted. Tokens that `rules`
  // refuse are text, as if they did not exist there. kResourceExhausted if added tokens begin at so many positions, and
  // share such long prefixes, that the budget runs out.
  Status split(const TokenizerBlob& blob, std::string_view text, WorkBudget& budget, std::vector<TextSection>& sections,
               const SectionRules* rules = nullptr) const;

 private:
  struct Range {
    uint32_t begin = 0;
    uint32_t end = 0;
  };

  // The token to use among those that begin at `at`.
  std::optional<AddedRecord> longest_at(const TokenizerBlob& blob, std::string_view text, size_t at,
                                        const SectionRules* rules, uint64_t& work) const;

  bool normalized_ = false;
  size_t count_ = 0;
  std::array<Range, 256> by_first_byte_{};
};

}  // namespace tandem

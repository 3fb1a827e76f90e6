// Changes to a text before it is split into words: normal forms, replacements, prefixes.
#pragma once

#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tandem/status.h"
#include "tokenizer/chars_map.h"
#include "tokenizer/regex.h"
#include "tokenizer/tokenizer_spec.h"
#include "tokenizer/work_budget.h"

namespace tandem {

// The compiled steps. Immutable and shared by threads.
class Normalizer {
 public:
  static Result<Normalizer> create(std::span<const NormalizerStep> steps);

  bool empty() const { return steps_.empty(); }
  // The normalized form of valid UTF-8. Fails when a pattern exceeds its budget, or when the text grows too large.
  Result<std::string> normalize(std::string_view text, WorkBudget& budget) const;
  // The same, but returns the text itself if a quick check shows that nothing would change; else writes to `kept`.
  Result<std::string_view> normalize(std::string_view text, std::deque<std::string>& kept, WorkBudget& budget) const;
  // The form of a part of a text: steps that act on the text's beginning or end act only on its first or last part.
  Result<std::string> normalize_part(std::string_view text, bool is_first, bool is_last, WorkBudget& budget) const;

 private:
  struct Step {
    NormalizerKind kind;
    uint32_t options;
    std::string pattern;
    std::string content;
    std::optional<Regex> regex;
    std::shared_ptr<const CharsMap> chars_map;
  };

  static Status apply(const Step& step, std::string& text, size_t limit, WorkBudget& budget);

  std::vector<Step> steps_;
  bool only_nfc_ = true;
};

// `text` with all matches of `regex` replaced. Fails if the result would exceed `limit` bytes.
Result<std::string> replace_matches(const Regex& regex, std::string_view text, std::string_view content, size_t limit,
                                    WorkBudget& budget);
std::string replace_literal(std::string_view text, std::string_view pattern, std::string_view content);

}  // namespace tandem

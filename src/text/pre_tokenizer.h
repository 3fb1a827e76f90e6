// Cuts a text into the pieces that the model sees one by one ("words").
#pragma once

#include <deque>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tandem/status.h"
#include "text/regex.h"
#include "text/tokenizer_spec.h"

namespace tandem {

// The compiled steps. Immutable; each call to the tokenizer has a PreTokenizerRun of its own.
class PreTokenizer {
 public:
  static Result<PreTokenizer> create(const std::vector<PreTokenizerStep>& steps);

 private:
  friend class PreTokenizerRun;
  struct Step {
    PreTokenizerKind kind;
    SplitBehavior behavior;
    bool invert;
    std::optional<Regex> regex;
    std::optional<Regex> wide_regex;  // For texts with characters newer than PCRE2's tables; absent if it is the same.
  };
  std::vector<Step> steps_;
};

class PreTokenizerRun {
 public:
  explicit PreTokenizerRun(const PreTokenizer& pre_tokenizer);

  // The words of `text` (valid UTF-8). They point into `text` or into strings that this object keeps as long as it
  // lives; the list itself is good until the next call.
  Result<const std::vector<std::string_view>*> split(std::string_view text);

 private:
  struct Piece {
    size_t begin;
    size_t end;
    bool is_match;
  };

  Status split_piece(size_t step, std::string_view text, std::vector<std::string_view>& out);
  Status find_pieces(size_t step, std::string_view text);
  void emit(SplitBehavior behavior, std::string_view text, std::vector<std::string_view>& out);
  RegexMatcher& matcher(size_t step);

  const PreTokenizer& pre_tokenizer_;
  std::vector<std::optional<RegexMatcher>> matchers_;
  std::vector<std::optional<RegexMatcher>> wide_matchers_;
  bool wide_ = false;  // Whether the text needs them.
  std::vector<std::string_view> words_;
  std::vector<std::string_view> next_;
  std::vector<Piece> pieces_;
  std::deque<std::string> prefixed_;
};

}  // namespace tandem

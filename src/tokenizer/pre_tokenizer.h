// Splits a text into the pieces that the model encodes one by one ("words").
#pragma once

#include <deque>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tandem/status.h"
#include "tokenizer/regex.h"
#include "tokenizer/split_patterns.h"
#include "tokenizer/tokenizer_spec.h"
#include "tokenizer/work_budget.h"

namespace tandem {

// The compiled steps. Immutable; each call to the tokenizer has its own PreTokenizerRun.
class PreTokenizer {
 public:
  // Regular expressions are compiled; in files from before compilation they must be among the known patterns.
  static Result<PreTokenizer> create(std::span<const PreTokenizerStep> steps);

 private:
  friend class PreTokenizerRun;
  struct Step {
    PreTokenizerKind kind{};
    SplitBehavior behavior{};
    bool invert = false;
    PrependScheme scheme{};  // Metaspace.
    bool split = false;      // Metaspace.
    bool is_plain = false;   // A regular expression whose matches are the words.
    std::string pattern;
    std::optional<KnownPattern> known;
    std::optional<Regex> regex;
  };
  std::vector<Step> steps_;
};

class PreTokenizerRun {
 public:
  // Both must outlive it.
  PreTokenizerRun(const PreTokenizer& pre_tokenizer, WorkBudget& budget);

  // The words of `text` (valid UTF-8). They point into `text` or into strings that live as long as this object; the
  // list itself is valid until the next call. `at_start` says that `text` begins the caller's input, which matters to
  // Metaspace's scheme "first".
  Result<const std::vector<std::string_view>*> split(std::string_view text, bool at_start);

 private:
  struct Piece {
    size_t begin;
    size_t end;
    bool is_match;
  };
  using Step = PreTokenizer::Step;

  Error too_long() const;
  Status split_piece(size_t index, std::string_view text, bool at_start);
  Status find_pieces(size_t index, std::string_view text);
  template <typename IsMatch>
  void find_characters(std::string_view text, IsMatch&& is_match);
  void find_words(std::string_view text);
  Result<std::string_view> keep(std::string word);
  void emit(SplitBehavior behavior, std::string_view text);
  RegexMatcher& matcher(size_t index);

  const PreTokenizer& pre_tokenizer_;
  WorkBudget& budget_;
  std::vector<std::optional<RegexMatcher>> matchers_;
  std::vector<std::string_view> words_;
  std::vector<std::string_view> next_;
  std::vector<Piece> pieces_;
  std::deque<std::string> kept_;  // Words that do not occur in the text literally.
};

}  // namespace tandem

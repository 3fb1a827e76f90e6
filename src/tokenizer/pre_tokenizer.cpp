#include "tokenizer/pre_tokenizer.h"

#include <algorithm>

#include "base/error.h"
#include "tokenizer/byte_level.h"
#include "tokenizer/normalizer.h"
#include "unicode/properties.h"
#include "unicode/utf8.h"

namespace tandem {
namespace {

constexpr int kMaxByteLevels = 4;

}  // namespace

Result<PreTokenizer> PreTokenizer::create(std::span<const PreTokenizerStep> steps) {
  PreTokenizer result;
  int byte_levels = 0;
  for (const PreTokenizerStep& step : steps) {
    // Each can double the text.
    if (step.kind == PreTokenizerKind::kByteLevel && ++byte_levels > kMaxByteLevels) {
      return unsupported("the tokenizer has more than {} ByteLevel pre-tokenizers", kMaxByteLevels);
    }
    Step compiled;
    compiled.kind = step.kind;
    if (!step.is_compiled && !is_valid_utf8(step.pattern)) {
      return corrupt("a pattern of the tokenizer is not valid UTF-8");
    }
    if (step.kind == PreTokenizerKind::kMetaspace) {
      if ((step.options & 0xff) > static_cast<uint32_t>(PrependScheme::kNever) || step.pattern.empty() ||
          next_utf8(step.pattern).length != step.pattern.size()) {
        return corrupt("the tokenizer's Metaspace has options that this build does not know");
      }
      compiled.scheme = static_cast<PrependScheme>(step.options & 0xff);
      compiled.split = (step.options & 0x100) != 0;
      compiled.pattern = step.pattern;
      if (compiled.split) {
        TANDEM_ASSIGN(compiled.regex, Regex::literal(step.pattern));
      }
      compiled.behavior = SplitBehavior::kMergedWithNext;
      result.steps_.push_back(std::move(compiled));
      continue;
    }
    if ((step.options & 0xff) > static_cast<uint32_t>(SplitBehavior::kContiguous)) {
      return corrupt("the tokenizer has a split that this build does not know");
    }
    compiled.behavior = static_cast<SplitBehavior>(step.options & 0xff);
    compiled.invert = (step.options & 0x100) != 0;
    if (step.kind == PreTokenizerKind::kSplitRegex) {
      const bool matches = compiled.invert ? compiled.behavior == SplitBehavior::kRemoved
                                           : compiled.behavior == SplitBehavior::kIsolated;
      // The known patterns match the entire text, so both ways of splitting give the matches.
      if (matches && !step.is_compiled) compiled.known = find_known_pattern(step.pattern);
      if (!compiled.known) {
        TANDEM_ASSIGN(compiled.regex, load_step_regex(step.pattern, step.is_compiled));
      }
      compiled.is_plain = matches;
    } else if (step.kind == PreTokenizerKind::kSplitLiteral) {
      TANDEM_ASSIGN(compiled.regex, Regex::literal(step.pattern));
    }
    result.steps_.push_back(std::move(compiled));
  }
  return result;
}

PreTokenizerRun::PreTokenizerRun(const PreTokenizer& pre_tokenizer, WorkBudget& budget)
    : pre_tokenizer_(pre_tokenizer), budget_(budget), matchers_(pre_tokenizer.steps_.size()) {}

RegexMatcher& PreTokenizerRun::matcher(size_t index) {
  std::optional<RegexMatcher>& slot = matchers_[index];
  if (!slot) slot.emplace(*pre_tokenizer_.steps_[index].regex);
  return *slot;
}

Error PreTokenizerRun::too_long() const {
  return resource_exhausted("the tokenizer's {} pre-tokenizers take too long on this text",
                            pre_tokenizer_.steps_.size());
}

Result<std::string_view> PreTokenizerRun::keep(std::string word) {
  if (!budget_.keep(word.size())) return too_long();
  return std::string_view(kept_.emplace_back(std::move(word)));
}

Result<const std::vector<std::string_view>*> PreTokenizerRun::split(std::string_view text, bool at_start) {
  words_.clear();
  if (!text.empty()) words_.push_back(text);
  for (size_t step = 0; step < pre_tokenizer_.steps_.size(); ++step) {
    next_.clear();
    bool is_first = at_start;
    for (const std::string_view word : words_) {
      if (!budget_.spend(word.size() + 1)) return too_long();
      TANDEM_TRY(split_piece(step, word, is_first));
      is_first = false;
    }
    // What was at the start still is, unless it was removed. A changed copy (a prefix, other letters) is in `kept_`.
    if (at_start && !words_.empty() && !next_.empty()) {
      const bool cut = next_[0].data() > words_[0].data() && next_[0].data() < words_[0].data() + words_[0].size();
      at_start = !cut;
    }
    std::swap(words_, next_);
  }
  return &words_;
}

Status PreTokenizerRun::split_piece(size_t index, std::string_view text, bool at_start) {
  const Step& step = pre_tokenizer_.steps_[index];
  if (step.known) {
    split_by_known_pattern(*step.known, text, next_);
    return ok_status();
  }
  if (step.is_plain) return matcher(index).split(text, budget_, !step.invert, next_);
  if (step.kind == PreTokenizerKind::kAddPrefixSpace) {
    if (text[0] != ' ') {
      TANDEM_ASSIGN(text, keep(std::string(" ").append(text)));
    }
    next_.push_back(text);
    return ok_status();
  }
  if (step.kind == PreTokenizerKind::kByteLevel) {
    TANDEM_ASSIGN(text, keep(byte_level_from_bytes(text)));
    next_.push_back(text);
    return ok_status();
  }
  if (step.kind == PreTokenizerKind::kMetaspace) {
    std::string changed = replace_literal(text, " ", step.pattern);
    const bool prepend = step.scheme == PrependScheme::kAlways || (step.scheme == PrependScheme::kFirst && at_start);
    if (prepend && changed.compare(0, step.pattern.size(), step.pattern) != 0) changed.insert(0, step.pattern);
    TANDEM_ASSIGN(text, keep(std::move(changed)));
    if (!step.split) {
      next_.push_back(text);
      return ok_status();
    }
  }
  pieces_.clear();
  TANDEM_TRY(find_pieces(index, text));
  if (step.invert) {
    for (Piece& piece : pieces_) piece.is_match = !piece.is_match;
  }
  emit(step.behavior, text);
  return ok_status();
}

template <typename IsMatch>
void PreTokenizerRun::find_characters(std::string_view text, IsMatch&& is_match) {
  size_t done = 0;
  for (size_t at = 0; at < text.size();) {
    const Utf8Sequence sequence = next_valid_utf8(text.substr(at));
    if (is_match(sequence.code_point)) {
      if (done < at) pieces_.push_back({done, at, false});
      pieces_.push_back({at, at + sequence.length, true});
      done = at + sequence.length;
    }
    at += sequence.length;
  }
  if (done < text.size()) pieces_.push_back({done, text.size(), false});
}

// Keeps the matches of \w+|[^\w\s]+.
void PreTokenizerRun::find_words(std::string_view text) {
  enum { kSpace, kWord, kSign } run = kSpace;
  for (size_t at = 0; at < text.size();) {
    const Utf8Sequence sequence = next_valid_utf8(text.substr(at));
    const auto kind = is_word_character(sequence.code_point) ? kWord
                      : is_white_space(sequence.code_point)  ? kSpace
                                                             : kSign;
    if (kind == run && !pieces_.empty()) {
      pieces_.back().end += sequence.length;
    } else {
      pieces_.push_back({at, at + sequence.length, kind == kSpace});
    }
    run = kind;
    at += sequence.length;
  }
}

Status PreTokenizerRun::find_pieces(size_t index, std::string_view text) {
  const Step& step = pre_tokenizer_.steps_[index];
  switch (step.kind) {
    case PreTokenizerKind::kDigits: find_characters(text, is_numeric); return ok_status();
    case PreTokenizerKind::kPunctuation: find_characters(text, is_punctuation); return ok_status();
    case PreTokenizerKind::kWhitespaceSplit: find_characters(text, is_white_space); return ok_status();
    case PreTokenizerKind::kWhitespace: find_words(text); return ok_status();
    default: break;
  }
  RegexMatcher& matches = matcher(index);
  matches.start(text, budget_);
  size_t done = 0;
  while (true) {
    TANDEM_ASSIGN(const std::optional<RegexMatch> match, matches.next());
    if (!match) break;
    if (done < match->begin) pieces_.push_back({done, match->begin, false});
    pieces_.push_back({match->begin, match->end, true});
    done = match->end;
  }
  if (done < text.size()) pieces_.push_back({done, text.size(), false});
  return ok_status();
}

void PreTokenizerRun::emit(SplitBehavior behavior, std::string_view text) {
  const auto add = [&](size_t begin, size_t end) {
    if (begin < end) next_.push_back(text.substr(begin, end - begin));
  };
  // Pieces that belong together are adjacent, so a run of them is one span of the text.
  size_t i = 0;
  switch (behavior) {
    case SplitBehavior::kIsolated:
      for (const Piece& piece : pieces_) add(piece.begin, piece.end);
      break;
    case SplitBehavior::kRemoved:
      for (const Piece& piece : pieces_) {
        if (!piece.is_match) add(piece.begin, piece.end);
      }
      break;
    case SplitBehavior::kContiguous:
      while (i < pieces_.size()) {
        size_t last = i;
        while (last + 1 < pieces_.size() && pieces_[last + 1].is_match == pieces_[i].is_match) ++last;
        add(pieces_[i].begin, pieces_[last].end);
        i = last + 1;
      }
      break;
    case SplitBehavior::kMergedWithPrevious:
      // A match joins what is before it, unless that is a match too.
      while (i < pieces_.size()) {
        const size_t last = !pieces_[i].is_match && i + 1 < pieces_.size() && pieces_[i + 1].is_match ? i + 1 : i;
        add(pieces_[i].begin, pieces_[last].end);
        i = last + 1;
      }
      break;
    case SplitBehavior::kMergedWithNext:
      // Of several matches in a row, the last one joins what is after it.
      while (i < pieces_.size()) {
        const size_t last = pieces_[i].is_match && i + 1 < pieces_.size() && !pieces_[i + 1].is_match ? i + 1 : i;
        add(pieces_[i].begin, pieces_[last].end);
        i = last + 1;
      }
      break;
  }
}

}  // namespace tandem

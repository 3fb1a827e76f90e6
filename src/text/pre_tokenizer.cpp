#include "text/pre_tokenizer.h"

#include <algorithm>

#include "base/error.h"
#include "text/unicode.h"
#include "text/unicode_additions.h"
#include "text/utf8.h"

namespace tandem {

Result<PreTokenizer> PreTokenizer::create(const std::vector<PreTokenizerStep>& steps) {
  PreTokenizer result;
  for (const PreTokenizerStep& step : steps) {
    Step compiled{step.kind, step.behavior, step.invert, std::nullopt, std::nullopt};
    if (step.kind == PreTokenizerKind::kSplitRegex) {
      TANDEM_ASSIGN(const std::string pattern, translate_oniguruma(step.pattern));
      TANDEM_ASSIGN(compiled.regex, Regex::compile(pattern));
      TANDEM_ASSIGN(const std::string wide_pattern, translate_oniguruma(step.pattern, /*with_additions=*/true));
      if (wide_pattern != pattern) {
        TANDEM_ASSIGN(compiled.wide_regex, Regex::compile(wide_pattern));
      }
    } else if (step.kind == PreTokenizerKind::kSplitLiteral) {
      if (!is_valid_utf8(step.pattern)) return corrupt("a pattern of the tokenizer is not valid UTF-8");
      TANDEM_ASSIGN(compiled.regex, Regex::compile(escape_regex(step.pattern)));
    }
    result.steps_.push_back(std::move(compiled));
  }
  return result;
}

PreTokenizerRun::PreTokenizerRun(const PreTokenizer& pre_tokenizer)
    : pre_tokenizer_(pre_tokenizer),
      matchers_(pre_tokenizer.steps_.size()),
      wide_matchers_(pre_tokenizer.steps_.size()) {}

RegexMatcher& PreTokenizerRun::matcher(size_t index) {
  const PreTokenizer::Step& step = pre_tokenizer_.steps_[index];
  const bool wide = wide_ && step.wide_regex;
  std::optional<RegexMatcher>& slot = (wide ? wide_matchers_ : matchers_)[index];
  if (!slot) slot.emplace(wide ? *step.wide_regex : *step.regex);
  return *slot;
}

Result<const std::vector<std::string_view>*> PreTokenizerRun::split(std::string_view text) {
  words_.clear();
  wide_ = has_unicode_additions(text);
  if (!text.empty()) words_.push_back(text);
  for (size_t step = 0; step < pre_tokenizer_.steps_.size(); ++step) {
    next_.clear();
    for (const std::string_view word : words_) TANDEM_TRY(split_piece(step, word, next_));
    std::swap(words_, next_);
  }
  return &words_;
}

Status PreTokenizerRun::split_piece(size_t index, std::string_view text, std::vector<std::string_view>& out) {
  const PreTokenizer::Step& step = pre_tokenizer_.steps_[index];
  if (step.kind == PreTokenizerKind::kAddPrefixSpace) {
    if (text[0] == ' ') {
      out.push_back(text);
    } else {
      out.push_back(prefixed_.emplace_back(std::string(" ").append(text)));
    }
    return ok_status();
  }
  if (step.regex && step.behavior == SplitBehavior::kIsolated) {  // The usual case, without the list of pieces.
    RegexMatcher& matches = matcher(index);
    matches.start(text);
    size_t done = 0;
    while (true) {
      TANDEM_ASSIGN(const std::optional<RegexMatch> match, matches.next());
      if (!match) break;
      if (done < match->begin) out.push_back(text.substr(done, match->begin - done));
      if (match->begin < match->end) out.push_back(text.substr(match->begin, match->end - match->begin));
      done = match->end;
    }
    if (done < text.size()) out.push_back(text.substr(done));
    return ok_status();
  }
  pieces_.clear();
  TANDEM_TRY(find_pieces(index, text));
  if (step.invert) {
    for (Piece& piece : pieces_) piece.is_match = !piece.is_match;
  }
  emit(step.behavior, text, out);
  return ok_status();
}

Status PreTokenizerRun::find_pieces(size_t index, std::string_view text) {
  size_t done = 0;
  const auto add_match = [&](size_t begin, size_t end) {
    if (done < begin) pieces_.push_back({done, begin, false});
    pieces_.push_back({begin, end, true});
    done = end;
  };
  if (pre_tokenizer_.steps_[index].regex) {
    RegexMatcher& matches = matcher(index);
    matches.start(text);
    while (true) {
      TANDEM_ASSIGN(const std::optional<RegexMatch> match, matches.next());
      if (!match) break;
      add_match(match->begin, match->end);
    }
  } else {
    for (size_t at = 0; at < text.size();) {
      const Utf8Sequence sequence = next_valid_utf8(text.substr(at));
      if (is_numeric(sequence.code_point)) add_match(at, at + sequence.length);
      at += sequence.length;
    }
  }
  if (done < text.size()) pieces_.push_back({done, text.size(), false});
  return ok_status();
}

void PreTokenizerRun::emit(SplitBehavior behavior, std::string_view text, std::vector<std::string_view>& out) {
  const auto add = [&](size_t begin, size_t end) {
    if (begin < end) out.push_back(text.substr(begin, end - begin));
  };
  // Pieces that belong together are next to each other, so a run of them is one span of the text.
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

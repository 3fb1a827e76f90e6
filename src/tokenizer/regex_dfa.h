// A deterministic automaton over the classes of a pattern's characters, built ahead of time.
//
// It finds the match that trying alternatives in order would find: a state is an ordered list of the instructions that
// a match may be at. Conditions on the previous and the next character are part of the transitions: each is taken once
// the class of the next character (or the end of the text) is known, and says whether a match ends before that
// character.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "tokenizer/char_classes.h"
#include "unicode/utf8.h"

namespace tandem {

class RegexDfa {
 public:
  // A transition in a file: the next state, and this bit if a match ends before the character. State 0 is a dead end.
  static constexpr uint16_t kEndsMatch = 0x8000;

  RegexDfa() = default;
  // `table` has a row per state: a transition for each class, and one for the end of the text. `starts` has the states
  // in which a match begins: a single one, or one per class of the previous character and one for the text's beginning.
  RegexDfa(const std::vector<uint16_t>& table, const std::vector<uint16_t>& starts, uint32_t class_count)
      : stride_(class_count + 1) {
    const auto expanded = [&](uint16_t transition) {
      const uint32_t row = (transition & (kEndsMatch - 1u)) * stride_;
      return (row << 1) | (transition >= kEndsMatch ? 1u : 0u);
    };
    table_.reserve(table.size());
    for (const uint16_t transition : table) table_.push_back(expanded(transition));
    for (const uint16_t start : starts) starts_.push_back(expanded(start));
  }

  bool empty() const { return table_.empty(); }

  static constexpr size_t kNoMatch = SIZE_MAX;
  // The end of the match that begins at `begin`, or kNoMatch. Adds the number of bytes read to `work`.
  size_t match(const CharClasses& classes, std::string_view text, size_t begin, uint64_t& work) const;

 private:
  uint32_t start(const CharClasses& classes, std::string_view text, size_t begin) const {
    if (starts_.size() == 1) return starts_[0];
    if (begin == 0) return starts_.back();
    size_t at = begin - 1;
    while (at > 0 && (static_cast<uint8_t>(text[at]) & 0xc0) == 0x80) --at;
    return starts_[classes.of(next_valid_utf8(text.substr(at)).code_point)];
  }

  uint32_t stride_ = 0;
  // Where the next state's row begins, times two, plus one if a match ends here.
  std::vector<uint32_t> table_;
  std::vector<uint32_t> starts_;
};

inline size_t RegexDfa::match(const CharClasses& classes, std::string_view text, size_t begin, uint64_t& work) const {
  const uint32_t* const table = table_.data();
  const size_t size = text.size();
  size_t end = kNoMatch;
  size_t at = begin;
  uint32_t current = start(classes, text, begin);
  while (at < size) {
    const auto byte = static_cast<uint8_t>(text[at]);
    uint32_t char_class;
    size_t length = 1;
    if (byte < 0x80) {
      char_class = classes.of_ascii(byte);
    } else {
      const Utf8Sequence sequence = next_valid_utf8(text.substr(at));
      char_class = classes.of(sequence.code_point);
      length = sequence.length;
    }
    const uint32_t next = table[(current >> 1) + char_class];
    if ((next & 1) != 0) end = at;
    at += length;
    if (next == current) {
      // A run, such as letters: the branch predictor expects it to continue, and no look-up waits for the previous one.
      const uint32_t* const row = table + (current >> 1);
      const size_t from = at;
      while (at < size && static_cast<uint8_t>(text[at]) < 0x80 &&
             row[classes.of_ascii(static_cast<uint8_t>(text[at]))] == current) {
        ++at;
      }
      if (at != from && (current & 1) != 0) end = at - 1;
      continue;
    }
    if (next < 2) {
      work += at - begin;
      return end;
    }
    current = next;
  }
  if ((table[(current >> 1) + stride_ - 1] & 1) != 0) end = at;
  work += at - begin + 1;
  return end;
}

}  // namespace tandem

#include "tokenizer/added_tokens.h"

#include <algorithm>

#include "base/error.h"
#include "unicode/properties.h"
#include "unicode/utf8.h"

namespace tandem {
namespace {

// Each reads a record and a byte of its token, anywhere in the file.
constexpr uint64_t kWorkPerComparison = 4;

// The first byte of the character that ends just before `end`.
size_t previous_character(std::string_view text, size_t end) {
  size_t at = end - 1;
  while (at > 0 && (static_cast<uint8_t>(text[at]) & 0xc0) == 0x80) --at;
  return at;
}

bool ends_with_word(std::string_view text) {
  return !text.empty() && is_word_character(next_utf8(text.substr(previous_character(text, text.size()))).code_point);
}

bool starts_with_word(std::string_view text) { return !text.empty() && is_word_character(next_utf8(text).code_point); }

// Where the white space that ends at `end` begins, not before `least`.
size_t white_space_before(std::string_view text, size_t end, size_t least) {
  while (end > least) {
    const size_t at = previous_character(text, end);
    if (!is_white_space(next_utf8(text.substr(at)).code_point)) break;
    end = at;
  }
  return std::max(end, least);
}

size_t white_space_after(std::string_view text, size_t begin) {
  while (begin < text.size()) {
    const Utf8Sequence sequence = next_utf8(text.substr(begin));
    if (!is_white_space(sequence.code_point)) break;
    begin += sequence.length;
  }
  return begin;
}

}  // namespace

AddedTokenMatcher::AddedTokenMatcher(const TokenizerBlob& blob, bool normalized)
    : normalized_(normalized), count_(blob.added_count(normalized)) {
  for (uint32_t i = 0; i < count_; ++i) {
    Range& range = by_first_byte_[static_cast<uint8_t>(blob.added_token(normalized, i).content[0])];
    if (range.begin == range.end) range.begin = i;
    range.end = i + 1;
  }
}

std::optional<AddedRecord> AddedTokenMatcher::longest_at(const TokenizerBlob& blob, std::string_view whole, size_t at,
                                                         const SectionRules* rules, uint64_t& work) const {
  const std::string_view text = whole.substr(at);
  auto [begin, end] = by_first_byte_[static_cast<uint8_t>(text[0])];
  std::optional<AddedRecord> best;
  // All records in [begin, end) share their first `depth` bytes with the text; the shortest comes first.
  for (size_t depth = 1; begin < end; ++depth) {
    const AddedRecord first = blob.added_token(normalized_, begin);
    if (first.content.size() == depth) {
      if (rules == nullptr || !rules->refuses(first.id, at, at + depth)) best = first;
      ++begin;
    }
    if (depth >= text.size()) break;
    const auto wanted = static_cast<uint8_t>(text[depth]);
    const auto lower_bound = [&](uint32_t low, uint32_t high, unsigned byte) {
      while (low < high) {
        work += kWorkPerComparison;
        const uint32_t middle = low + (high - low) / 2;
        const std::string_view content = blob.added_token(normalized_, middle).content;
        const bool less = depth >= content.size() || static_cast<uint8_t>(content[depth]) < byte;
        if (less) {
          low = middle + 1;
        } else {
          high = middle;
        }
      }
      return low;
    };
    begin = lower_bound(begin, end, wanted);
    end = lower_bound(begin, end, wanted + 1u);
  }
  return best;
}

Status AddedTokenMatcher::split(const TokenizerBlob& blob, std::string_view text, WorkBudget& budget,
                                std::vector<TextSection>& sections, const SectionRules* rules) const {
  size_t done = 0;       // Everything before is in a section.
  size_t blank_end = 0;  // The end of the white space examined last.
  if (count_ > 0) {
    for (size_t at = 0; at < text.size();) {
      const Range& range = by_first_byte_[static_cast<uint8_t>(text[at])];
      std::optional<AddedRecord> found;
      if (range.begin != range.end) {
        uint64_t work = 1;
        found = longest_at(blob, text, at, rules, work);
        if (!budget.spend(work)) {
          return resource_exhausted("the tokenizer's {} added tokens take too long to find in this text", count_);
        }
      }
      if (!found) {
        ++at;
        continue;
      }
      size_t begin = at;
      size_t end = at + found->content.size();
      at = end;
      if ((found->flags & kAddedSingleWord) != 0 &&
          (ends_with_word(text.substr(0, begin)) || starts_with_word(text.substr(end)))) {
        continue;
      }
      if ((found->flags & kAddedLstrip) != 0) begin = white_space_before(text, begin, std::min(done, begin));
      if ((found->flags & kAddedRstrip) != 0) {
        // A token that is itself white space begins inside what the last one swallowed: do not examine that again.
        blank_end = white_space_after(text, std::max(end, blank_end));
        end = std::max(end, blank_end);
      }
      if (done < begin) sections.push_back({text.substr(done, begin - done), std::nullopt});
      sections.push_back({text.substr(begin, end - begin), found->id});
      done = end;
    }
  }
  if (done < text.size()) sections.push_back({text.substr(done), std::nullopt});
  return ok_status();
}

}  // namespace tandem

#include "tokenizer/normalizer.h"

#include "base/error.h"
#include "tokenizer/byte_level.h"
#include "unicode/properties.h"
#include "unicode/utf8.h"

namespace tandem {
namespace {

Error too_long() { return resource_exhausted("the tokenizer's normalizers make the text far too long"); }

std::string_view strip(std::string_view text, uint32_t sides) {
  while ((sides & kStripLeft) != 0 && !text.empty()) {
    const Utf8Sequence first = next_valid_utf8(text);
    if (!is_white_space(first.code_point)) break;
    text.remove_prefix(first.length);
  }
  while ((sides & kStripRight) != 0 && !text.empty()) {
    size_t at = text.size() - 1;
    while (at > 0 && (static_cast<uint8_t>(text[at]) & 0xc0) == 0x80) --at;
    if (!is_white_space(next_valid_utf8(text.substr(at)).code_point)) break;
    text.remove_suffix(text.size() - at);
  }
  return text;
}

// Calls map(code point, out) for each character.
template <typename Map>
std::string map_characters(std::string_view text, Map&& map) {
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    const Utf8Sequence sequence = next_valid_utf8(text);
    map(sequence.code_point, out);
    text.remove_prefix(sequence.length);
  }
  return out;
}

void map_nmt(char32_t c, std::string& out) {
  if ((c >= 1 && c <= 8) || c == 0xb || (c >= 0xe && c <= 0x1f) || c == 0x7f || c == 0x8f || c == 0x9f) return;
  const bool is_space = c == 9 || c == 0xa || c == 0xc || c == 0xd || c == 0x1680 || (c >= 0x200b && c <= 0x200f) ||
                        c == 0x2028 || c == 0x2029 || c == 0x2581 || c == 0xfeff || c == 0xfffd;
  append_utf8(out, is_space ? U' ' : c);
}

void map_without_marks(char32_t c, std::string& out) {
  if (!is_combining_mark(c)) append_utf8(out, c);
}

}  // namespace

Result<std::string> replace_matches(const Regex& regex, std::string_view text, std::string_view content, size_t limit,
                                    WorkBudget& budget) {
  std::string out;
  out.reserve(text.size());
  RegexMatcher matcher(regex);
  matcher.start(text, budget);
  size_t done = 0;
  while (!text.empty()) {
    TANDEM_ASSIGN(const std::optional<RegexMatch> match, matcher.next());
    if (!match) break;
    out.append(text, done, match->begin - done).append(content);
    done = match->end;
    if (out.size() > limit) return too_long();
  }
  out.append(text, done);
  return out;
}

std::string replace_literal(std::string_view text, std::string_view pattern, std::string_view content) {
  std::string out;
  out.reserve(text.size() + text.size() / 4);
  size_t done = 0;
  for (size_t at; !pattern.empty() && (at = text.find(pattern, done)) != std::string_view::npos;) {
    out.append(text, done, at - done).append(content);
    done = at + pattern.size();
  }
  out.append(text, done);
  return out;
}

Result<Normalizer> Normalizer::create(std::span<const NormalizerStep> steps) {
  Normalizer result;
  for (const NormalizerStep& step : steps) {
    Step compiled{step.kind, step.options, step.pattern, step.content, std::nullopt, nullptr};
    if (!is_valid_utf8(step.content)) return corrupt("a normalizer of the tokenizer puts in what is not valid UTF-8");
    switch (step.kind) {
      case NormalizerKind::kReplaceRegex: {
        TANDEM_ASSIGN(compiled.regex, load_step_regex(step.pattern, step.is_compiled));
        compiled.pattern.clear();
        break;
      }
      case NormalizerKind::kReplaceLiteral: {
        TANDEM_ASSIGN(compiled.regex, Regex::literal(step.pattern));
        break;
      }
      case NormalizerKind::kCharsMap: {
        TANDEM_ASSIGN(CharsMap map, CharsMap::create(step.pattern));
        compiled.chars_map = std::make_shared<const CharsMap>(std::move(map));
        compiled.pattern.clear();
        break;
      }
      default: break;
    }
    result.only_nfc_ &= step.kind == NormalizerKind::kNfc;
    result.steps_.push_back(std::move(compiled));
  }
  return result;
}

Result<std::string> Normalizer::normalize(std::string_view text, WorkBudget& budget) const {
  std::string result(text);
  for (const Step& step : steps_) {
    // Both a step's input and its output are charged, and each must stay within the size limit.
    const size_t limit = budget.left() / WorkBudget::kWorkPerKeptByte;
    if (!budget.spend(result.size())) return too_long();
    TANDEM_TRY(apply(step, result, limit, budget));
    if (result.size() > limit || !budget.spend(result.size())) return too_long();
  }
  return result;
}

Result<std::string_view> Normalizer::normalize(std::string_view text, std::deque<std::string>& kept,
                                               WorkBudget& budget) const {
  if (steps_.empty() || (only_nfc_ && is_quickly_nfc(text))) return text;
  TANDEM_ASSIGN(std::string normalized, normalize(text, budget));
  if (!budget.keep(normalized.size())) return too_long();
  return std::string_view(kept.emplace_back(std::move(normalized)));
}

Result<std::string> Normalizer::normalize_part(std::string_view text, bool is_first, bool is_last,
                                               WorkBudget& budget) const {
  std::string result(text);
  for (const Step& step : steps_) {
    if (step.kind == NormalizerKind::kPrepend && !is_first) continue;
    const size_t limit = budget.left() / WorkBudget::kWorkPerKeptByte;
    if (!budget.spend(result.size())) return too_long();
    if (step.kind == NormalizerKind::kStrip) {
      const uint32_t sides = (is_first ? kStripLeft : 0) | (is_last ? kStripRight : 0);
      result = std::string(strip(result, step.options & sides));
      continue;
    }
    TANDEM_TRY(apply(step, result, limit, budget));
    if (result.size() > limit || !budget.spend(result.size())) return too_long();
  }
  return result;
}

Status Normalizer::apply(const Step& step, std::string& text, size_t limit, WorkBudget& budget) {
  switch (step.kind) {
    case NormalizerKind::kNfc:
      if (!is_quickly_nfc(text)) text = normal_form(text, NormalForm::kNfc);
      break;
    case NormalizerKind::kNfd: text = normal_form(text, NormalForm::kNfd); break;
    case NormalizerKind::kNfkc: text = normal_form(text, NormalForm::kNfkc); break;
    case NormalizerKind::kNfkd: text = normal_form(text, NormalForm::kNfkd); break;
    case NormalizerKind::kReplaceLiteral:
    case NormalizerKind::kReplaceRegex: {
      TANDEM_ASSIGN(text, replace_matches(*step.regex, text, step.content, limit, budget));
      break;
    }
    case NormalizerKind::kPrepend:
      if (step.content.size() > limit) return too_long();
      if (!text.empty()) text.insert(0, step.content);
      break;
    case NormalizerKind::kStrip: text = std::string(strip(text, step.options)); break;
    case NormalizerKind::kLowercase: text = lower_case(text); break;
    case NormalizerKind::kStripAccents: text = map_characters(text, map_without_marks); break;
    case NormalizerKind::kNmt: text = map_characters(text, map_nmt); break;
    case NormalizerKind::kByteLevel: text = byte_level_from_bytes(text); break;
    case NormalizerKind::kCharsMap: text = step.chars_map->apply(text, limit); break;
  }
  return ok_status();
}

}  // namespace tandem

#include "tokenizer/normalized_origins.h"

#include <algorithm>
#include <optional>

#include "tokenizer/token_rules.h"

namespace tandem {
namespace {

// A text split wherever its origin changes, including the template's parts.
std::vector<OriginSpan> cut(size_t size, std::span<const OriginSpan> origins) {
  std::vector<OriginSpan> parts;
  size_t done = 0;
  for (const OriginSpan& span : origins) {
    if (done < span.begin) parts.push_back({done, span.begin, Origin::kTemplate});
    parts.push_back(span);
    done = span.end;
  }
  if (done < size) parts.push_back({done, size, Origin::kTemplate});
  return parts;
}

// Each part normalized alone, if that gives the same text: then no part changed another.
std::optional<std::vector<OriginSpan>> part_by_part(const Normalizer& normalizer, std::string_view text,
                                                    const std::vector<OriginSpan>& parts, std::string_view normalized,
                                                    WorkBudget& budget) {
  std::vector<OriginSpan> spans;
  size_t done = 0;
  for (size_t i = 0; i < parts.size(); ++i) {
    const auto [begin, end, origin] = parts[i];
    const auto alone =
        normalizer.normalize_part(text.substr(begin, end - begin), i == 0, i + 1 == parts.size(), budget);
    if (!alone.ok() || normalized.substr(done, alone->size()) != *alone) return std::nullopt;
    if (origin != Origin::kTemplate && !alone->empty()) spans.push_back({done, done + alone->size(), origin});
    done += alone->size();
  }
  if (done != normalized.size()) return std::nullopt;
  return spans;
}

// Moves each cut to before the last ASCII character that precedes it, because marks could compose with that character.
// Nothing composes across the start of an ASCII character.
std::vector<OriginSpan> widened(std::string_view text, const std::vector<OriginSpan>& parts) {
  std::vector<OriginSpan> wide;
  size_t scanned = 0, last_ascii = 0;
  for (const OriginSpan& part : parts) {
    for (; scanned < part.begin; ++scanned) {
      if (static_cast<uint8_t>(text[scanned]) < 0x80) last_ascii = scanned;
    }
    const bool composes = part.begin > 0 && static_cast<uint8_t>(text[part.begin]) >= 0x80;
    size_t begin = composes ? last_ascii : part.begin;
    Origin origin = part.origin;
    while (!wide.empty() && wide.back().end > begin) {
      origin = stricter(origin, wide.back().origin);
      if (wide.back().begin < begin) {
        wide.back().end = begin;
        break;
      }
      begin = std::min(begin, wide.back().begin);
      wide.pop_back();
    }
    wide.push_back({begin, part.end, origin});
  }
  return wide;
}

}  // namespace

std::vector<OriginSpan> normalized_origins(const Normalizer& normalizer, std::string_view text,
                                           std::span<const OriginSpan> origins, std::string_view normalized,
                                           WorkBudget& budget) {
  if (origins.empty() || normalized.empty()) return {};
  if (text.data() == normalized.data()) return {origins.begin(), origins.end()};  // Nothing changed.
  const std::vector<OriginSpan> parts = cut(text.size(), origins);
  if (parts.size() > 1) {
    if (auto spans = part_by_part(normalizer, text, parts, normalized, budget)) return *std::move(spans);
    if (auto spans = part_by_part(normalizer, text, widened(text, parts), normalized, budget)) {
      return *std::move(spans);
    }
  }
  return {{0, normalized.size(), strictest_origin(origins, 0, text.size())}};
}

}  // namespace tandem

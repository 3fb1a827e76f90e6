#include "tokenizer/token_rules.h"

#include <algorithm>

#include "base/find_text.h"

namespace tandem {
namespace {

bool is_letter_or_digit(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || static_cast<uint8_t>(c) >= 0x80;
}

bool is_ascii_punctuation(char c) { return c > ' ' && c < 0x7f && !is_letter_or_digit(c); }

// Templates concatenate such tokens from parts: '<|' + role + '|>'.
bool is_bracketed(std::string_view text) {
  return (text.starts_with("<|") && text.ends_with("|>")) || (text.starts_with("<｜") && text.ends_with("｜>"));
}

// Looks for many texts in the sources. Where that would take long, all of them count as found: this is safe, and no
// genuine file needs it.
class SourceSearch {
 public:
  explicit SourceSearch(std::string_view sources) : sources_(sources) {}
  bool has(std::string_view text) {
    constexpr uint64_t kMaxWork = uint64_t{64} << 20;
    work_ += sources_.size();
    return work_ > kMaxWork || find_text(sources_, text) != std::string_view::npos;
  }

 private:
  std::string_view sources_;
  uint64_t work_ = 0;
};

}  // namespace

ControlTokens::ControlTokens(const TokenizerBlob& blob, std::string_view sources) {
  SourceSearch search(sources);
  for (const bool normalized : {false, true}) {
    for (size_t i = 0; i < blob.added_count(normalized); ++i) {
      const uint32_t id = blob.added_token(normalized, i).id;
      const TokenView token = blob.token(id);
      if ((token.flags & kTokenSpecial) != 0 || std::ranges::none_of(token.bytes, is_letter_or_digit) ||
          std::ranges::none_of(token.bytes, is_ascii_punctuation)) {
        continue;
      }
      if (is_bracketed(token.bytes) || search.has(token.bytes)) ids_.push_back(id);
    }
  }
  std::ranges::sort(ids_);
}

bool ControlTokens::contains(uint32_t id) const { return std::ranges::binary_search(ids_, id); }

bool TokenRules::refuses(uint32_t id, Origin origin) const {
  if (origin == Origin::kTemplate) return false;
  if ((blob_->token(id).flags & kTokenSpecial) != 0) return true;
  return origin == Origin::kData && control_ != nullptr && control_->contains(id);
}

bool TokenRules::refuses_any(std::span<const int32_t> ids, Origin origin) const {
  return std::ranges::any_of(ids, [&](int32_t id) { return refuses(static_cast<uint32_t>(id), origin); });
}

Origin strictest_origin(std::span<const OriginSpan> spans, size_t begin, size_t end) {
  Origin origin = Origin::kTemplate;
  auto span = std::ranges::upper_bound(spans, begin, {}, &OriginSpan::end);
  for (; span != spans.end() && span->begin < end && origin != Origin::kData; ++span) {
    origin = stricter(origin, span->origin);
  }
  return origin;
}

std::vector<OriginSpan> clip_origins(std::span<const OriginSpan> spans, size_t begin, size_t end) {
  std::vector<OriginSpan> clipped;
  auto span = std::ranges::upper_bound(spans, begin, {}, &OriginSpan::end);
  for (; span != spans.end() && span->begin < end; ++span) {
    clipped.push_back({std::max(span->begin, begin) - begin, std::min(span->end, end) - begin, span->origin});
  }
  return clipped;
}

}  // namespace tandem

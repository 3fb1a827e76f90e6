#include "chat/jinja/marked_text.h"

#include <algorithm>

#include "chat/jinja/unicode.h"

namespace tandem::jinja {

MarkedText::MarkedText(const MarkedText& other)
    : bytes_(other.bytes_),
      spans_(other.spans_ ? std::make_unique<std::vector<OriginSpan>>(*other.spans_) : nullptr),
      whole_(other.whole_) {}

MarkedText& MarkedText::operator=(const MarkedText& other) { return *this = MarkedText(other); }

Origin MarkedText::strictest() const {
  if (spans_ == nullptr) return whole_;
  Origin origin = Origin::kTemplate;
  for (const OriginSpan& span : *spans_) origin = stricter(origin, span.origin);
  return origin;
}

std::vector<OriginSpan> MarkedText::spans() const {
  if (spans_ != nullptr) return *spans_;
  if (whole_ == Origin::kTemplate || bytes_.empty()) return {};
  return {{0, bytes_.size(), whole_}};
}

// Marks bytes that were just appended.
void MarkedText::mark(size_t begin, size_t end, Origin origin) {
  if (spans_ == nullptr) {
    if (begin == 0) whole_ = origin;
    if (origin == whole_) return;
    spans_ = std::make_unique<std::vector<OriginSpan>>();
    if (whole_ != Origin::kTemplate) spans_->push_back({0, begin, whole_});
  }
  if (origin == Origin::kTemplate) return;
  if (!spans_->empty() && spans_->back().end == begin && spans_->back().origin == origin) {
    spans_->back().end = end;
  } else {
    spans_->push_back({begin, end, origin});
  }
}

void MarkedText::append(std::string_view bytes, Origin origin) {
  if (bytes.empty()) return;
  const size_t begin = bytes_.size();
  bytes_.append(bytes);
  mark(begin, bytes_.size(), origin);
}

void MarkedText::append(const MarkedText& other) { append_part(other, other.bytes_); }

void MarkedText::append_part(const MarkedText& other, std::string_view view) {
  if (other.spans_ == nullptr) return append(view, other.whole_);
  if (view.empty()) return;
  size_t at = static_cast<size_t>(view.data() - other.bytes_.data());
  const size_t end = at + view.size();
  const auto append_to = [&](size_t stop, Origin origin) {
    append(std::string_view(other.bytes_).substr(at, stop - at), origin);
    at = stop;
  };
  auto span = std::ranges::upper_bound(*other.spans_, at, {}, &OriginSpan::end);
  for (; span != other.spans_->end() && span->begin < end; ++span) {
    if (at < span->begin) append_to(span->begin, Origin::kTemplate);
    append_to(std::min(span->end, end), span->origin);
  }
  if (at < end) append_to(end, Origin::kTemplate);
}

MarkedText MarkedText::part(std::string_view view) const {
  MarkedText made;
  made.append_part(*this, view);
  return made;
}

Origin OriginCursor::at(size_t offset) {
  if (text_.spans_ == nullptr) return text_.whole_;
  const std::vector<OriginSpan>& spans = *text_.spans_;
  while (next_ < spans.size() && spans[next_].end <= offset) ++next_;
  return next_ < spans.size() && spans[next_].begin <= offset ? spans[next_].origin : Origin::kTemplate;
}

MarkedText convert_characters(const MarkedText& text, std::u32string (*convert)(std::u32string_view)) {
  constexpr size_t kMaxSpans = 16;  // Each costs a conversion of everything before it.
  const std::u32string before = to_code_points(text.bytes());
  const std::u32string after = convert(before);
  const std::vector<OriginSpan> spans = text.spans();
  const bool one_to_one = before.size() == after.size();  // No conversion drops characters.
  if (text.is_uniform() || (!one_to_one && spans.size() > kMaxSpans)) return {to_utf8(after), text.strictest()};
  // How many characters a prefix becomes does not depend on what follows it. Called with increasing numbers of bytes.
  size_t counted_bytes = 0, count = 0;
  const auto converted = [&](size_t bytes) {
    count += count_code_points(std::string_view(text.bytes()).substr(counted_bytes, bytes - counted_bytes));
    counted_bytes = bytes;
    return one_to_one ? count : convert(std::u32string_view(before).substr(0, count)).size();
  };
  MarkedText made;
  size_t done = 0;
  const auto append_to = [&](size_t end, Origin origin) {
    made.append(to_utf8(std::u32string_view(after).substr(done, end - done)), origin);
    done = end;
  };
  for (const OriginSpan& span : spans) {
    append_to(converted(span.begin), Origin::kTemplate);
    append_to(converted(span.end), span.origin);
  }
  append_to(after.size(), Origin::kTemplate);
  return made;
}

}  // namespace tandem::jinja

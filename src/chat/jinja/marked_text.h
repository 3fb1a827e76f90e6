// Text that remembers the origin of its bytes. A template's result may become control tokens only where the template
// wrote it itself, so every string of a rendering carries this, through everything that the template does with it.
//
// An operation that keeps track appends parts of MarkedTexts to another. One that does not makes a plain std::string,
// all of which counts as data (Value::string, Runtime::string): forgetting an operation is safe.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/origin.h"

namespace tandem::jinja {

class MarkedText {
 public:
  MarkedText() = default;
  MarkedText(std::string bytes, Origin origin) : bytes_(std::move(bytes)), whole_(origin) {}
  MarkedText(const MarkedText& other);
  MarkedText& operator=(const MarkedText& other);
  MarkedText(MarkedText&&) = default;
  MarkedText& operator=(MarkedText&&) = default;
  ~MarkedText() = default;

  const std::string& bytes() const { return bytes_; }
  size_t size() const { return bytes_.size(); }
  bool empty() const { return bytes_.empty(); }
  std::string take() && { return std::move(bytes_); }

  // Nothing but the template's own text.
  bool is_own() const { return spans_ == nullptr && whole_ == Origin::kTemplate; }
  // All bytes have the same origin.
  bool is_uniform() const { return spans_ == nullptr; }
  // The least trusted origin of any byte.
  Origin strictest() const;
  std::vector<OriginSpan> spans() const;
  size_t mark_bytes() const { return spans_ ? spans_->capacity() * sizeof(OriginSpan) : 0; }
  // The bytes that it takes in memory.
  size_t memory() const { return bytes_.capacity() + mark_bytes(); }

  void append(std::string_view bytes, Origin origin);
  void append_own(std::string_view bytes) { append(bytes, Origin::kTemplate); }
  void append(const MarkedText& other);
  // `view` is a part of other.bytes().
  void append_part(const MarkedText& other, std::string_view view);
  MarkedText part(std::string_view view) const;

 private:
  friend class OriginCursor;
  void mark(size_t begin, size_t end, Origin origin);

  std::string bytes_;
  std::unique_ptr<std::vector<OriginSpan>> spans_;  // Null: all bytes are of `whole_`.
  Origin whole_ = Origin::kTemplate;
};

// The origin of one byte after another.
class OriginCursor {
 public:
  explicit OriginCursor(const MarkedText& text) : text_(text) {}
  // `offset` never decreases from call to call.
  Origin at(size_t offset);

 private:
  const MarkedText& text_;
  size_t next_ = 0;
};

// Applies a function to `text` that maps each character to one or more, such as upper case.
MarkedText convert_characters(const MarkedText& text, std::u32string (*convert)(std::u32string_view));

}  // namespace tandem::jinja

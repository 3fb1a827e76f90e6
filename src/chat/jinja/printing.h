// Values as text: str(), repr() and JSON, exactly as Python writes them.
#pragma once

#include <string>

#include "chat/jinja/runtime.h"

namespace tandem::jinja {

// The content of a value keeps its origin; quotes, brackets and the like are the engine's own.
Result<MarkedText> to_str(Runtime& rt, const Value& value);
Result<MarkedText> to_repr(Runtime& rt, const Value& value);
// Appends; cheaper than to_str for strings.
Status append_str(Runtime& rt, MarkedText& out, const Value& value);
std::string float_text(double number);                        // "1.0", "1e+16", "nan"
void append_quoted(MarkedText& out, const MarkedText& text);  // 'text', as repr() of a str.
std::string quoted(std::string_view text);                    // The same, for messages.

struct JsonFormat {
  std::optional<MarkedText> indent;  // The indentation of one level.
  MarkedText item_separator = MarkedText(", ", Origin::kTemplate);
  MarkedText key_separator = MarkedText(": ", Origin::kTemplate);
  bool ensure_ascii = false;
  bool sort_keys = false;
};
Result<MarkedText> to_json(Runtime& rt, const Value& value, const JsonFormat& format);

}  // namespace tandem::jinja

// Values as text: str(), repr() and JSON, to the character as Python writes them.
#pragma once

#include <string>

#include "text/jinja/runtime.h"

namespace tandem::jinja {

Result<std::string> to_str(Runtime& rt, const Value& value);
Result<std::string> to_repr(Runtime& rt, const Value& value);
// Appends; cheaper than to_str for strings.
Status append_str(Runtime& rt, std::string& out, const Value& value);
std::string float_text(double number);                        // "1.0", "1e+16", "nan"
void append_quoted(std::string& out, std::string_view text);  // 'text', as repr() of a str.

struct JsonFormat {
  std::optional<std::string> indent;  // What one level is indented by.
  std::string item_separator = ", ";
  std::string key_separator = ": ";
  bool ensure_ascii = false;
  bool sort_keys = false;
};
Result<std::string> to_json(Runtime& rt, const Value& value, const JsonFormat& format);

}  // namespace tandem::jinja

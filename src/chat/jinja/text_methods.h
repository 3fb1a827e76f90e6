// What string methods and filters share.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "chat/jinja/runtime.h"

namespace tandem::jinja {

// strip() as a value, charged by what it removed.
Result<Value> stripped(Runtime& rt, const MarkedText& text, const std::string* chars, bool left, bool right,
                       bool is_markup);

// At most `count` times; negative: all.
Result<MarkedText> replace_text(Runtime& rt, const MarkedText& text, std::string_view from, const MarkedText& to,
                                int64_t count);
// The results are views into `text`.
Result<std::vector<std::string_view>> split_lines(Runtime& rt, std::string_view text, bool keep_ends);

enum class Side { kLeft, kRight, kBoth };  // Where the text stands.
Result<MarkedText> pad_text(Runtime& rt, const MarkedText& text, int64_t width, const MarkedText& fill, Side side);

// Methods of strings, and of dicts, lists, loops and cyclers; null: no method has this name.
Native find_text_method(std::string_view name);
Native find_split_method(std::string_view name);  // Of those, the ones that return parts.
Native find_container_method(Kind kind, std::string_view name);

}  // namespace tandem::jinja

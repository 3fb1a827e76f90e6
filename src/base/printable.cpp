#include "base/printable.h"

#include <algorithm>
#include <cstdint>

#include "base/format.h"

namespace tandem {
namespace {

constexpr size_t kMaxWord = 240;
constexpr size_t kMaxMessage = 1000;
constexpr std::string_view kEllipsis = "\u2026";

struct Character {
  char32_t code_point = 0;
  size_t bytes = 1;
  bool valid = false;
};

bool is_continuation(char byte) { return (static_cast<uint8_t>(byte) & 0xc0) == 0x80; }

// The first character of `text`, which must not be empty; a byte that begins none is not valid.
Character first_character(std::string_view text) {
  const auto lead = static_cast<uint8_t>(text[0]);
  if (lead < 0x80) return {lead, 1, true};
  const size_t bytes = lead >= 0xf0 && lead < 0xf5 ? 4 : lead >= 0xe0 && lead < 0xf0 ? 3 : lead >= 0xc2 ? 2 : 0;
  if (bytes == 0 || lead >= 0xf5 || text.size() < bytes) return {};
  char32_t code_point = lead & (0x7fu >> bytes);
  for (size_t i = 1; i < bytes; ++i) {
    if (!is_continuation(text[i])) return {};
    code_point = (code_point << 6) | (static_cast<uint8_t>(text[i]) & 0x3f);
  }
  constexpr char32_t kLeast[] = {0, 0, 0x80, 0x800, 0x10000};
  const bool surrogate = code_point >= 0xd800 && code_point <= 0xdfff;
  if (code_point < kLeast[bytes] || code_point > 0x10ffff || surrogate) return {};
  return {code_point, bytes, true};
}

bool is_unsafe(char32_t c) {
  return c < 0x20 || (c >= 0x7f && c < 0xa0) || c == 0x2028 || c == 0x2029 || (c >= 0x202a && c <= 0x202e) ||
         (c >= 0x2066 && c <= 0x2069);
}

void append_escape(std::string& out, char32_t c) {
  switch (c) {
    case '\n': out += "\\n"; return;
    case '\t': out += "\\t"; return;
    case '\r': out += "\\r"; return;
    default: break;
  }
  const auto number = static_cast<uint32_t>(c);
  out += c < 0x80 ? str_format("\\x{:02x}", number) : str_format("\\u{{{:x}}}", number);
}

std::string escaped(std::string_view text, bool keep_lines) {
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    const Character c = first_character(text);
    if (!c.valid) {
      append_format(out, "\\x{:02x}", static_cast<uint8_t>(text[0]));
    } else if (is_unsafe(c.code_point) && !(keep_lines && (c.code_point == '\n' || c.code_point == '\t'))) {
      append_escape(out, c.code_point);
    } else {
      out += text.substr(0, c.bytes);
    }
    text.remove_prefix(c.bytes);
  }
  return out;
}

}  // namespace

std::string printable(std::string_view text) { return escaped(text, false); }
std::string printable_lines(std::string_view text) { return escaped(text, true); }

std::string shortened(std::string_view text, size_t limit) {
  if (text.size() <= limit) return std::string(text);
  const size_t kept = limit - kEllipsis.size();
  size_t head = kept - kept / 3, tail = text.size() - kept / 3;
  while (head > 0 && is_continuation(text[head])) --head;
  while (tail < text.size() && is_continuation(text[tail])) ++tail;
  return str_format("{}{}{}", text.substr(0, head), kEllipsis, text.substr(tail));
}

std::string printable_message(std::string_view text) {
  const std::string whole = printable(text);
  std::string out;
  for (std::string_view rest = whole; !rest.empty();) {
    const size_t end = std::min(rest.find(' '), rest.size());
    out += shortened(rest.substr(0, end), kMaxWord);
    const size_t next = std::min(rest.find_first_not_of(' ', end), rest.size());
    out += rest.substr(end, next - end);
    rest.remove_prefix(next);
  }
  return shortened(out, kMaxMessage);
}

std::string printable_json(std::string_view json) {
  std::string out;
  out.reserve(json.size());
  while (!json.empty()) {
    const Character c = first_character(json);
    // Below 0x20 there are only the newlines between values: JSON itself escapes them inside strings.
    if (c.valid && c.code_point >= 0x7f && is_unsafe(c.code_point)) {
      append_format(out, "\\u{:04x}", static_cast<uint32_t>(c.code_point));
    } else {
      out += json.substr(0, c.bytes);
    }
    json.remove_prefix(c.bytes);
  }
  return out;
}

}  // namespace tandem

#include "chat/jinja/text_methods.h"

#include <algorithm>

#include "base/error.h"
#include "base/find_text.h"
#include "chat/jinja/operators.h"
#include "chat/jinja/printing.h"
#include "chat/jinja/unicode.h"

namespace tandem::jinja {

Result<MarkedText> replace_text(Runtime& rt, const MarkedText& marked, std::string_view from, const MarkedText& to,
                                int64_t count) {
  const std::string_view text = marked.bytes();
  TANDEM_TRY(rt.reserve_memory(text.size()));
  MarkedText out;
  size_t at = 0;
  for (; count != 0; --count) {
    TANDEM_TRY(rt.step());
    TANDEM_TRY(rt.grow(out, to.size()));
    if (from.empty()) {  // Before each character, and at the end.
      if (at > text.size()) break;
      out.append(to);
      if (at == text.size()) return out;
      const size_t length = byte_offset(text.substr(at), 1);
      out.append_part(marked, text.substr(at, length));
      at += length;
      continue;
    }
    const size_t found = find_text(text, from, at);
    if (found == std::string_view::npos) break;
    out.append_part(marked, text.substr(at, found - at));
    out.append(to);
    at = found + from.size();
  }
  out.append_part(marked, text.substr(std::min(at, text.size())));
  return out;
}

Result<Value> stripped(Runtime& rt, const MarkedText& text, const std::string* chars, bool left, bool right,
                       bool is_markup) {
  if (chars != nullptr) TANDEM_TRY(rt.step(static_cast<int64_t>(chars->size())));  // The characters are sorted.
  const std::string_view kept = strip(text.bytes(), chars, left, right);
  TANDEM_TRY(rt.scan(text.size() - kept.size()));
  return rt.string(text.part(kept), is_markup);
}

Result<std::vector<std::string_view>> split_lines(Runtime& rt, std::string_view text, bool keep_ends) {
  std::vector<std::string_view> lines;
  TANDEM_TRY(rt.reserve_memory(text.size()));
  TANDEM_TRY(rt.scan(text.size()));
  size_t start = 0;
  for (size_t i = 0; i < text.size();) {
    const size_t size = byte_offset(text.substr(i), 1);
    const char32_t c = to_code_points(text.substr(i, size))[0];
    size_t next = i + size;
    if (is_line_break(c)) {
      if (c == '\r' && next < text.size() && text[next] == '\n') ++next;
      lines.push_back(text.substr(start, (keep_ends ? next : i) - start));
      start = next;
      TANDEM_TRY(rt.step());
    }
    i = next;
  }
  if (start < text.size()) lines.push_back(text.substr(start));
  return lines;
}

Result<MarkedText> pad_text(Runtime& rt, const MarkedText& text, int64_t width, const MarkedText& fill, Side side) {
  const auto size = static_cast<int64_t>(count_code_points(text.bytes()));
  if (count_code_points(fill.bytes()) != 1)
    return invalid_argument("the fill character must be exactly one character long");
  const int64_t total = std::max<int64_t>(width - size, 0);
  TANDEM_TRY(rt.reserve_memory(static_cast<size_t>(total), fill.size()));
  TANDEM_TRY(rt.step(total / 4));
  // As Python centers: the odd one goes left if both the padding and the width are odd.
  int64_t left = side == Side::kLeft ? 0 : side == Side::kRight ? total : total / 2 + (total & width & 1);
  MarkedText out;
  for (int64_t i = 0; i < left; ++i) out.append(fill);
  out.append(text);
  for (int64_t i = left; i < total; ++i) out.append(fill);
  return out;
}

namespace {

template <std::u32string (*convert)(std::u32string_view)>
Result<Value> change_case_method(Runtime& rt, const Value& self, Args& args) {
  TANDEM_TRY(bind("this method", args, {}, 0).status());
  TANDEM_TRY(rt.reserve_memory(self.text().size(), 12));
  TANDEM_TRY(rt.step(static_cast<int64_t>(self.text().size())));
  return rt.string(convert_characters(self.marked(), convert), self.is_markup());
}

std::u32string swapped(std::u32string_view text) {
  std::u32string out;
  for (const char32_t c : text) out += is_upper(c) ? lower({&c, 1}) : upper({&c, 1});
  return out;
}

template <bool left, bool right>
Result<Value> strip_method(Runtime& rt, const Value& self, Args& args) {
  TANDEM_ASSIGN(const Bound bound, bind("strip", args, {"chars"}, 0));
  TANDEM_TRY(rt.reserve_memory(self.text().size()));
  if (!bound.has(0) || bound[0].is_none()) {
    return stripped(rt, self.marked(), nullptr, left, right, self.is_markup());
  }
  TANDEM_ASSIGN(const std::string chars, bound.text(0, ""));
  return stripped(rt, self.marked(), &chars, left, right, self.is_markup());
}

Result<Value> replace_method(Runtime& rt, const Value& self, Args& args) {
  TANDEM_ASSIGN(const Bound bound, bind("replace", args, {"old", "new", "count"}, 2));
  TANDEM_ASSIGN(const std::string from, bound.text(0, ""));
  TANDEM_ASSIGN(const MarkedText to, bound.marked(1, ""));
  TANDEM_ASSIGN(const int64_t count, bound.integer(2, -1));
  TANDEM_ASSIGN(MarkedText text, replace_text(rt, self.marked(), from, to, count));
  return rt.string(std::move(text), self.is_markup());
}

// The part of the text selected by the optional start and end arguments.
Result<std::optional<std::string_view>> window(Runtime& rt, const Value& self, const Bound& bound, size_t first) {
  std::string_view text = self.text();
  if (!bound.has(first) && !bound.has(first + 1)) return std::optional(text);
  TANDEM_TRY(rt.scan(text.size()));
  const auto size = static_cast<int64_t>(self.length());
  const auto place = [&](size_t i, int64_t fallback) -> Result<int64_t> {
    if (!bound.has(i) || bound[i].is_none()) return fallback;
    TANDEM_ASSIGN(const int64_t index, bound.integer(i, fallback));
    return index < 0 ? std::max<int64_t>(index + size, 0) : index;
  };
  TANDEM_ASSIGN(const int64_t start, place(first, 0));
  TANDEM_ASSIGN(int64_t end, place(first + 1, size));
  end = std::min(end, size);
  if (start > end) return std::optional<std::string_view>();
  const size_t from = byte_offset(text, static_cast<size_t>(start));
  text.remove_prefix(from);
  return std::optional(text.substr(0, byte_offset(text, static_cast<size_t>(end - start))));
}

template <bool start>
Result<Value> affix(Runtime& rt, const Value& self, Args& args) {
  TANDEM_ASSIGN(const Bound bound, bind(start ? "startswith" : "endswith", args, {"prefix", "start", "end"}, 1));
  TANDEM_ASSIGN(const auto text, window(rt, self, bound, 1));
  const auto matches = [&](const Value& v) {
    return text && (start ? text->starts_with(v.text()) : text->ends_with(v.text()));
  };
  if (bound[0].is_string()) return Value::boolean(matches(bound[0]));
  if (bound[0].is_undefined()) return undefined_error(bound[0]);
  if (!bound[0].is(Kind::kTuple)) {
    return invalid_argument("{} first arg must be str or a tuple of str, not {}", start ? "startswith" : "endswith",
                            type_name(bound[0]));
  }
  for (const Value& item : bound[0].items()) {
    if (!item.is_string()) return invalid_argument("a tuple of str is needed here, not of {}", type_name(item));
    TANDEM_TRY(rt.step(1 + static_cast<int64_t>(item.text().size() / 64)));
    if (matches(item)) return Value::boolean(true);
  }
  return Value::boolean(false);
}

enum class Search { kFind, kRfind, kIndex, kRindex, kCount };

template <Search kind>
Result<Value> search(Runtime& rt, const Value& self, Args& args) {
  TANDEM_ASSIGN(const Bound bound, bind("find", args, {"sub", "start", "end"}, 1));
  TANDEM_ASSIGN(const std::string sub, bound.text(0, ""));
  TANDEM_ASSIGN(const auto part, window(rt, self, bound, 1));
  TANDEM_TRY(rt.step(static_cast<int64_t>(self.text().size() / 16)));
  if (kind == Search::kCount) {
    if (!part) return Value::integer(0);
    if (sub.empty()) return Value::integer(static_cast<int64_t>(count_code_points(*part)) + 1);
    int64_t count = 0;
    for (size_t at = 0; (at = find_text(*part, sub, at)) != std::string_view::npos; at += sub.size()) ++count;
    return Value::integer(count);
  }
  const bool from_end = kind == Search::kRfind || kind == Search::kRindex;
  const size_t at = !part ? std::string_view::npos : from_end ? find_last_text(*part, sub) : find_text(*part, sub);
  if (at == std::string_view::npos) {
    if (kind == Search::kIndex || kind == Search::kRindex) return invalid_argument("substring not found");
    return Value::integer(-1);
  }
  const auto before = static_cast<size_t>(part->data() - self.text().data()) + at;
  return Value::integer(static_cast<int64_t>(count_code_points(std::string_view(self.text()).substr(0, before))));
}

Result<Value> join_method(Runtime& rt, const Value& self, Args& args) {
  TANDEM_ASSIGN(const Bound bound, bind("join", args, {"iterable"}, 1));
  if (bound[0].is_undefined()) return rt.string(MarkedText());
  TANDEM_ASSIGN(const std::vector<Value> items, iterate(rt, bound[0]));
  MarkedText text;
  for (size_t i = 0; i < items.size(); ++i) {
    if (!items[i].is_string()) {
      return invalid_argument("sequence item {}: expected str instance, {} found", i, type_name(items[i]));
    }
    TANDEM_TRY(rt.step());
    if (i > 0) TANDEM_TRY(append_str(rt, text, self));
    TANDEM_TRY(append_str(rt, text, items[i]));
  }
  return rt.string(std::move(text));
}

Result<Value> format_method(Runtime& rt, const Value& self, Args& args) {
  TANDEM_ASSIGN(MarkedText text, format_braces(rt, self.marked(), args));
  return rt.string(std::move(text));
}

template <Side side>
Result<Value> justify(Runtime& rt, const Value& self, Args& args) {
  TANDEM_ASSIGN(const Bound bound, bind("ljust", args, {"width", "fillchar"}, 1));
  TANDEM_ASSIGN(const int64_t width, bound.integer(0, 0));
  TANDEM_ASSIGN(const MarkedText fill, bound.marked(1, " "));
  TANDEM_ASSIGN(MarkedText padded, pad_text(rt, self.marked(), width, fill, side));
  return rt.string(std::move(padded));
}

Result<Value> zero_fill(Runtime& rt, const Value& self, Args& args) {
  TANDEM_ASSIGN(const Bound bound, bind("zfill", args, {"width"}, 1));
  TANDEM_ASSIGN(const int64_t width, bound.integer(0, 0));
  const std::string_view text = self.text();
  const bool sign = !text.empty() && (text[0] == '+' || text[0] == '-');
  const MarkedText digits = self.marked().part(text.substr(sign ? 1 : 0));
  TANDEM_ASSIGN(const MarkedText padded,
                pad_text(rt, digits, width - (sign ? 1 : 0), MarkedText("0", Origin::kTemplate), Side::kRight));
  MarkedText filled = self.marked().part(text.substr(0, sign ? 1 : 0));
  filled.append(padded);
  return rt.string(std::move(filled));
}

template <bool (*holds)(char32_t)>
Result<Value> all_are(Runtime& rt, const Value& self, Args& args) {
  TANDEM_TRY(bind("this method", args, {}, 0).status());
  TANDEM_TRY(rt.reserve_memory(self.text().size(), 4));
  TANDEM_TRY(rt.scan(self.text().size()));
  const std::u32string text = to_code_points(self.text());
  return Value::boolean(!text.empty() && std::ranges::all_of(text, holds));
}

bool alnum(char32_t c) { return is_alpha(c) || is_digit(c); }
bool ascii(char32_t c) { return c < 0x80; }

template <bool wants_upper>
Result<Value> cased(Runtime& rt, const Value& self, Args& args) {
  TANDEM_ASSIGN(const bool holds, call_test(rt, wants_upper ? "upper" : "lower", self, args));
  return Value::boolean(holds);
}

template <bool prefix>
Result<Value> remove_affix(Runtime& rt, const Value& self, Args& args) {
  TANDEM_ASSIGN(const Bound bound, bind(prefix ? "removeprefix" : "removesuffix", args, {"affix"}, 1));
  TANDEM_ASSIGN(const std::string part, bound.text(0, ""));
  std::string_view text = self.text();
  if (prefix && text.starts_with(part)) text.remove_prefix(part.size());
  if (!prefix && text.ends_with(part)) text.remove_suffix(part.size());
  return rt.part(self, text, self.is_markup());
}

}  // namespace

Native find_text_method(std::string_view name) {
  static constexpr std::pair<std::string_view, Native> kMethods[] = {
      {"upper", change_case_method<upper>},
      {"lower", change_case_method<lower>},
      {"casefold", change_case_method<lower>},
      {"title", change_case_method<title>},
      {"capitalize", change_case_method<capitalize>},
      {"swapcase", change_case_method<swapped>},
      {"strip", strip_method<true, true>},
      {"lstrip", strip_method<true, false>},
      {"rstrip", strip_method<false, true>},
      {"replace", replace_method},
      {"startswith", affix<true>},
      {"endswith", affix<false>},
      {"find", search<Search::kFind>},
      {"rfind", search<Search::kRfind>},
      {"index", search<Search::kIndex>},
      {"rindex", search<Search::kRindex>},
      {"count", search<Search::kCount>},
      {"join", join_method},
      {"format", format_method},
      {"ljust", justify<Side::kLeft>},
      {"rjust", justify<Side::kRight>},
      {"center", justify<Side::kBoth>},
      {"zfill", zero_fill},
      {"isdigit", all_are<is_digit>},
      {"isdecimal", all_are<is_digit>},
      {"isnumeric", all_are<is_digit>},
      {"isalpha", all_are<is_alpha>},
      {"isalnum", all_are<alnum>},
      {"isascii", all_are<ascii>},
      {"isspace", all_are<is_space>},
      {"isupper", cased<true>},
      {"islower", cased<false>},
      {"removeprefix", remove_affix<true>},
      {"removesuffix", remove_affix<false>},
  };
  for (const auto& [key, method] : kMethods) {
    if (key == name) return method;
  }
  return find_split_method(name);
}

}  // namespace tandem::jinja

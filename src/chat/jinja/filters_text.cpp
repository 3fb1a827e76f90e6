#include <algorithm>

#include "base/error.h"
#include "base/format.h"
#include "chat/jinja/filters.h"
#include "chat/jinja/operators.h"
#include "chat/jinja/printing.h"
#include "chat/jinja/text_methods.h"
#include "chat/jinja/unicode.h"

namespace tandem::jinja {
namespace {

template <std::u32string (*convert)(std::u32string_view)>
Result<Value> change_case(Runtime& rt, const Value& value, Args& args) {
  TANDEM_TRY(bind("this filter", args, {}, 0).status());
  TANDEM_ASSIGN(const MarkedText text, to_str(rt, value));
  TANDEM_TRY(rt.reserve_memory(text.size(), 12));
  TANDEM_TRY(rt.step(static_cast<int64_t>(text.size())));
  return rt.string(convert_characters(text, convert), value.is_markup());
}

// Words begin after white space and opening brackets, but not after an apostrophe, unlike str.title().
std::u32string title_words(std::u32string_view text) {
  const auto separates = [](char32_t c) {
    return is_space(c) || std::u32string_view(U"-({[<").find(c) != std::u32string_view::npos;
  };
  std::u32string out;
  for (size_t i = 0; i < text.size();) {
    size_t end = i;
    while (end < text.size() && separates(text[end]) == separates(text[i])) ++end;
    const std::u32string_view word = text.substr(i, end - i);
    out += upper(word.substr(0, 1));
    out += lower(word.substr(1));
    i = end;
  }
  return out;
}

Result<Value> trim(Runtime& rt, const Value& value, Args& args) {
  TANDEM_ASSIGN(const Bound bound, bind("trim", args, {"chars"}, 0));
  TANDEM_ASSIGN(const MarkedText text, to_str(rt, value));
  if (!bound.has(0) || bound[0].is_none()) return stripped(rt, text, nullptr, true, true, value.is_markup());
  TANDEM_ASSIGN(const std::string chars, bound.text(0, ""));
  return stripped(rt, text, &chars, true, true, value.is_markup());
}

Result<Value> replace(Runtime& rt, const Value& value, Args& args) {
  TANDEM_ASSIGN(const Bound bound, bind("replace", args, {"old", "new", "count"}, 2));
  TANDEM_ASSIGN(const MarkedText text, to_str(rt, value));
  TANDEM_ASSIGN(const MarkedText from, to_str(rt, bound[0]));
  TANDEM_ASSIGN(const MarkedText to, to_str(rt, bound[1]));
  int64_t count = -1;
  if (!bound[2].is_none()) {
    TANDEM_ASSIGN(count, bound.integer(2, -1));
  }
  TANDEM_ASSIGN(MarkedText replaced, replace_text(rt, text, from.bytes(), to, count));
  return rt.string(std::move(replaced));
}

Result<Value> indent(Runtime& rt, const Value& value, Args& args) {
  TANDEM_ASSIGN(const Bound bound, bind("indent", args, {"width", "first", "blank"}, 0));
  if (!value.is_string()) {
    if (value.is_undefined()) return undefined_error(value);
    return invalid_argument("indent needs a str, not {}", type_name(value));
  }
  MarkedText by;
  if (bound.has(0) && bound[0].is_string()) {
    by = bound[0].marked();
  } else {
    TANDEM_ASSIGN(const int64_t width, bound.integer(0, 4));
    TANDEM_TRY(rt.reserve_memory(static_cast<size_t>(std::max<int64_t>(width, 0))));
    by.append_own(std::string(static_cast<size_t>(std::max<int64_t>(width, 0)), ' '));
  }
  MarkedText padded = value.marked();
  padded.append_own("\n");  // An empty line at the end counts.
  TANDEM_ASSIGN(const std::vector<std::string_view> lines, split_lines(rt, padded.bytes(), false));
  TANDEM_TRY(rt.reserve_memory(lines.size(), by.memory() + 2 * sizeof(OriginSpan)));
  MarkedText out;
  if (bound.flag(1, false)) out.append(by);
  for (size_t i = 0; i < lines.size(); ++i) {
    if (i > 0) {
      const std::string_view line_break(lines[i - 1].data() + lines[i - 1].size(), 1);
      out.append("\n", padded.part(line_break).strictest());
      if (bound.flag(2, false) || !lines[i].empty()) out.append(by);
    }
    out.append_part(padded, lines[i]);
  }
  return rt.string(std::move(out), value.is_markup());
}

Result<Value> center(Runtime& rt, const Value& value, Args& args) {
  TANDEM_ASSIGN(const Bound bound, bind("center", args, {"width"}, 0));
  TANDEM_ASSIGN(const int64_t width, bound.integer(0, 80));
  TANDEM_ASSIGN(const MarkedText text, to_str(rt, value));
  TANDEM_ASSIGN(MarkedText padded, pad_text(rt, text, width, MarkedText(" ", Origin::kTemplate), Side::kBoth));
  return rt.string(std::move(padded));
}

Result<Value> escape(Runtime& rt, const Value& value, Args& args) {
  TANDEM_TRY(bind("escape", args, {}, 0).status());
  if (value.is_markup()) return value;
  TANDEM_ASSIGN(const MarkedText text, to_str(rt, value));
  TANDEM_TRY(rt.reserve_memory(text.size(), 5));
  TANDEM_TRY(rt.scan(text.size()));
  return rt.string(escape_html(text), true);
}

Result<Value> force_escape(Runtime& rt, const Value& value, Args& args) {
  TANDEM_TRY(bind("forceescape", args, {}, 0).status());
  TANDEM_ASSIGN(const MarkedText text, to_str(rt, value));
  TANDEM_TRY(rt.reserve_memory(text.size(), 5));
  TANDEM_TRY(rt.scan(text.size()));
  return rt.string(escape_html(text), true);
}

Result<Value> mark_safe(Runtime& rt, const Value& value, Args& args) {
  TANDEM_TRY(bind("safe", args, {}, 0).status());
  TANDEM_ASSIGN(MarkedText text, to_str(rt, value));
  return rt.string(std::move(text), true);
}

Result<Value> as_string(Runtime& rt, const Value& value, Args& args) {
  TANDEM_TRY(bind("string", args, {}, 0).status());
  if (value.is_string()) return value;
  TANDEM_ASSIGN(MarkedText text, to_str(rt, value));
  return rt.string(std::move(text));
}

Result<Value> format(Runtime& rt, const Value& value, Args& args) {
  if (!args.positional.empty() && !args.named.empty()) {
    return invalid_argument("format cannot take both positional and named arguments");
  }
  TANDEM_ASSIGN(const MarkedText text, to_str(rt, value));
  Value values;
  if (!args.named.empty()) {
    auto dict = std::make_shared<DictObject>(rt.meter());
    for (auto& [name, item] : args.named) dict->set(rt.string(name), std::move(item));
    TANDEM_ASSIGN(values, rt.dict(std::move(dict)));
  } else {
    TANDEM_ASSIGN(values, rt.tuple(std::move(args.positional)));
  }
  TANDEM_ASSIGN(MarkedText formatted, format_percent(rt, text, values));
  return rt.string(std::move(formatted));
}

Result<Value> truncate(Runtime& rt, const Value& value, Args& args) {
  TANDEM_ASSIGN(const Bound bound, bind("truncate", args, {"length", "killwords", "end", "leeway"}, 0));
  TANDEM_ASSIGN(const int64_t length, bound.integer(0, 255));
  TANDEM_ASSIGN(const MarkedText end, bound.marked(2, "..."));
  int64_t leeway = 5;
  if (!bound[3].is_none()) {
    TANDEM_ASSIGN(leeway, bound.integer(3, 5));
  }
  const auto end_length = static_cast<int64_t>(count_code_points(end.bytes()));
  if (length < end_length || leeway < 0) return invalid_argument("truncate needs a length of at least its end's");
  TANDEM_ASSIGN(const int64_t size, length_of(value));
  if (size <= length || size - length <= leeway) return value;
  if (!value.is_string()) return invalid_argument("a {} cannot be truncated", type_name(value));
  TANDEM_TRY(rt.scan(value.text().size()));
  std::string_view kept = value.text();
  kept = kept.substr(0, byte_offset(kept, static_cast<size_t>(length - end_length)));
  if (!bound.flag(1, false)) kept = kept.substr(0, kept.rfind(' '));
  MarkedText shortened = value.marked().part(kept);
  shortened.append(end);
  return rt.string(std::move(shortened), value.is_markup());
}

Result<Value> word_count(Runtime& rt, const Value& value, Args& args) {
  TANDEM_TRY(bind("wordcount", args, {}, 0).status());
  TANDEM_ASSIGN(const MarkedText text, to_str(rt, value));
  TANDEM_TRY(rt.reserve_memory(text.size(), 4));
  TANDEM_TRY(rt.step(static_cast<int64_t>(text.size() / 2)));
  int64_t count = 0;
  bool inside = false;
  for (const char32_t c : to_code_points(text.bytes())) {
    if (is_word(c) && !inside) ++count;
    inside = is_word(c);
  }
  return Value::integer(count);
}

Result<Value> url_encode(Runtime& rt, const Value& value, Args& args) {
  TANDEM_TRY(bind("urlencode", args, {}, 0).status());
  if (value.is_dict() || value.is_list_like()) return unsupported("urlencode is only supported for texts");
  TANDEM_ASSIGN(const MarkedText text, to_str(rt, value));
  TANDEM_TRY(rt.reserve_memory(text.size(), 3));
  TANDEM_TRY(rt.step(static_cast<int64_t>(text.size())));
  MarkedText out;
  OriginCursor cursor(text);
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text.bytes()[i];
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                       std::string_view("_.-~/").find(c) != std::string_view::npos;
    out.append(plain ? std::string(1, c) : str_format("%{:02X}", static_cast<uint8_t>(c)), cursor.at(i));
  }
  return rt.string(std::move(out));
}

Result<Value> tojson(Runtime& rt, const Value& value, Args& args) {
  TANDEM_ASSIGN(const Bound bound, bind("tojson", args, {"ensure_ascii", "indent", "separators", "sort_keys"}, 0));
  JsonFormat json;
  json.ensure_ascii = bound.flag(0, false);
  json.sort_keys = bound.flag(3, false);
  if (bound.has(1) && !bound[1].is_none()) {
    if (bound[1].is_string()) {
      json.indent = bound[1].marked();
    } else {
      TANDEM_ASSIGN(const int64_t width, bound.integer(1, 0));
      if (width > 1000) return invalid_argument("tojson(indent={}) is too much", width);
      json.indent.emplace(std::string(static_cast<size_t>(std::max<int64_t>(width, 0)), ' '), Origin::kTemplate);
    }
    json.item_separator = MarkedText(",", Origin::kTemplate);
  }
  if (bound.has(2) && !bound[2].is_none()) {
    const Value& pair = bound[2];
    if (!pair.is_list_like() || pair.items().size() != 2 || !pair.items()[0].is_string() ||
        !pair.items()[1].is_string()) {
      return invalid_argument("tojson(separators=…) needs two strings");
    }
    json.item_separator = pair.items()[0].marked();
    json.key_separator = pair.items()[1].marked();
  }
  TANDEM_ASSIGN(MarkedText text, to_json(rt, value, json));
  return rt.string(std::move(text));
}

}  // namespace

std::span<const NamedFilter> text_filters() {
  static constexpr NamedFilter kFilters[] = {
      {"upper", change_case<upper>},
      {"lower", change_case<lower>},
      {"title", change_case<title_words>},
      {"capitalize", change_case<capitalize>},
      {"trim", trim},
      {"replace", replace},
      {"indent", indent},
      {"center", center},
      {"escape", escape},
      {"e", escape},
      {"forceescape", force_escape},
      {"safe", mark_safe},
      {"string", as_string},
      {"format", format},
      {"truncate", truncate},
      {"wordcount", word_count},
      {"urlencode", url_encode},
      {"tojson", tojson},
  };
  return kFilters;
}

}  // namespace tandem::jinja

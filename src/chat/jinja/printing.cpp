#include "chat/jinja/printing.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "base/error.h"
#include "base/format.h"
#include "chat/jinja/evaluator.h"
#include "chat/jinja/unicode.h"

namespace tandem::jinja {
namespace {

class Printer {
 public:
  Printer(Runtime& rt, MarkedText& out) : rt_(rt), out_(out) {}

  Status repr(const Value& value) {
    TANDEM_TRY(rt_.step());
    TANDEM_TRY(rt_.grow(out_, 0));
    switch (value.kind()) {
      case Kind::kUndefined: return own("Undefined");
      case Kind::kNone: return scalar("None", value);
      case Kind::kBool: return scalar(value.as_bool() ? "True" : "False", value);
      case Kind::kInt: return scalar(std::to_string(value.as_int()), value);
      case Kind::kFloat: return scalar(float_text(value.as_real()), value);
      case Kind::kString: return string(value);
      case Kind::kList: return list(value.items(), "[", "]");
      case Kind::kTuple: return list(value.items(), "(", value.items().size() == 1 ? ",)" : ")");
      case Kind::kView: {
        const auto& view = value.as<ViewObject>();
        out_.append_own(view.what);
        out_.append_own("(");
        return list(view.items, "[", "])");
      }
      case Kind::kDict: return dict(value.dict());
      case Kind::kRange: {
        const auto& range = value.as<RangeObject>();
        const std::string text = range.step == 1 ? str_format("range({}, {})", range.start, range.stop)
                                                 : str_format("range({}, {}, {})", range.start, range.stop, range.step);
        out_.append(text, range.origin);
        return ok_status();
      }
      case Kind::kLoop: {
        const auto& loop = value.as<LoopObject>();
        return own(str_format("<LoopContext {}/{}>", loop.index + 1, loop.items.size()));
      }
      case Kind::kMacro: return own(str_format("<Macro {}>", quoted(value.as<MacroObject>().name)));
      case Kind::kNamespace: return names(value.as<NamespaceObject>());
      default: return own(str_format("<{} object>", type_name(value)));
    }
  }

 private:
  Status own(std::string_view text) {
    out_.append_own(text);
    return ok_status();
  }
  Status scalar(std::string_view text, const Value& value) {
    out_.append(text, value.origin());
    return ok_status();
  }

  Status string(const Value& value) {
    TANDEM_TRY(rt_.step(static_cast<int64_t>(value.text().size() / 8)));
    if (value.is_markup()) out_.append_own("Markup(");
    append_quoted(out_, value.marked());
    if (value.is_markup()) out_.append_own(")");
    return ok_status();
  }

  Status list(const std::vector<Value>& items, std::string_view open, std::string_view close) {
    out_.append_own(open);
    for (size_t i = 0; i < items.size(); ++i) {
      if (i > 0) out_.append_own(", ");
      TANDEM_TRY(repr(items[i]));
    }
    out_.append_own(close);
    return ok_status();
  }

  Status dict(const DictObject& dict) {
    out_.append_own("{");
    bool first = true;
    for (const auto& [key, value] : dict.items) {
      if (!first) out_.append_own(", ");
      first = false;
      TANDEM_TRY(repr(key));
      out_.append_own(": ");
      TANDEM_TRY(repr(value));
    }
    out_.append_own("}");
    return ok_status();
  }

  // A namespace may contain itself, so its content is not shown.
  Status names(const NamespaceObject& ns) {
    out_.append_own("<Namespace {");
    for (size_t i = 0; i < ns.attributes.size(); ++i) {
      if (i > 0) out_.append_own(", ");
      out_.append(quoted(ns.attributes[i].first), Origin::kData);  // May come from a dict that was passed in.
      out_.append_own(": ");
      const Value& value = ns.attributes[i].second;
      if (value.depth() > 0) {
        out_.append_own("…");
      } else {
        TANDEM_TRY(repr(value));
      }
    }
    out_.append_own("}>");
    return ok_status();
  }

  Runtime& rt_;
  MarkedText& out_;
};

class JsonPrinter {
 public:
  JsonPrinter(Runtime& rt, const JsonFormat& format, MarkedText& out) : rt_(rt), format_(format), out_(out) {}

  Status print(const Value& value, int level) {
    TANDEM_TRY(rt_.step());
    TANDEM_TRY(rt_.grow(out_, 0));
    switch (value.kind()) {
      case Kind::kNone: return scalar("null", value);
      case Kind::kBool: return scalar(value.as_bool() ? "true" : "false", value);
      case Kind::kInt: return scalar(std::to_string(value.as_int()), value);
      case Kind::kFloat: return scalar(number(value.as_real()), value);
      case Kind::kString: return string(value.marked());
      case Kind::kList:
      case Kind::kTuple: return list(value.items(), level);
      case Kind::kDict: return dict(value.dict(), level);
      default: return invalid_argument("Object of type {} is not JSON serializable", type_name(value));
    }
  }

 private:
  static std::string number(double d) {
    if (std::isnan(d)) return "NaN";
    if (std::isinf(d)) return d > 0 ? "Infinity" : "-Infinity";
    return float_text(d);
  }

  Status scalar(std::string_view text, const Value& value) {
    out_.append(text, value.origin());
    return ok_status();
  }

  Status string(const MarkedText& text) {
    TANDEM_TRY(rt_.step(static_cast<int64_t>(text.size() / 8)));
    if (format_.ensure_ascii) TANDEM_TRY(rt_.scan(text.size()));
    out_.append_own("\"");
    if (text.is_uniform()) {
      out_.append(escaped(text.bytes()), text.strictest());
    } else {  // Escaping covers all bytes of a character, so the parts of a text can be escaped one by one.
      size_t done = 0;
      const auto append_to = [&](size_t end, Origin origin) {
        out_.append(escaped(std::string_view(text.bytes()).substr(done, end - done)), origin);
        done = end;
      };
      for (const OriginSpan& span : text.spans()) {
        append_to(span.begin, Origin::kTemplate);
        append_to(span.end, span.origin);
      }
      append_to(text.size(), Origin::kTemplate);
    }
    out_.append_own("\"");
    return ok_status();
  }

  std::string escaped(std::string_view text) const {
    std::string out;
    out.reserve(text.size());
    if (format_.ensure_ascii) {
      for (const char32_t c : to_code_points(text)) append_escaped(out, c);
      return out;
    }
    for (const char c : text) {
      if (static_cast<uint8_t>(c) >= 0x80 || c == 0x7f) {
        out += c;
      } else {
        append_escaped(out, static_cast<char32_t>(c));
      }
    }
    return out;
  }

  static void append_escaped(std::string& out, char32_t c) {
    const std::string_view simple = "\"\"\\\\\nn\rr\tt\ff\bb";
    for (size_t i = 0; i < simple.size(); i += 2) {
      if (c == static_cast<char32_t>(simple[i])) {
        out += '\\';
        out += simple[i + 1];
        return;
      }
    }
    if (c >= 0x20 && c < 0x80) {
      out += static_cast<char>(c);
    } else if (c < 0x10000) {
      out += str_format("\\u{:04x}", static_cast<uint32_t>(c));
    } else {
      const uint32_t rest = static_cast<uint32_t>(c) - 0x10000;
      out += str_format("\\u{:04x}\\u{:04x}", 0xd800 + (rest >> 10), 0xdc00 + (rest & 0x3ff));
    }
  }

  void new_line(int level) {
    if (!format_.indent) return;
    out_.append_own("\n");
    for (int i = 0; i < level; ++i) out_.append(*format_.indent);
  }

  Status list(const std::vector<Value>& items, int level) {
    if (items.empty()) {
      out_.append_own("[]");
      return ok_status();
    }
    out_.append_own("[");
    for (size_t i = 0; i < items.size(); ++i) {
      if (i > 0) out_.append(format_.item_separator);
      new_line(level + 1);
      TANDEM_TRY(print(items[i], level + 1));
    }
    new_line(level);
    out_.append_own("]");
    return ok_status();
  }

  Status key(const Value& value) {
    switch (value.kind()) {
      case Kind::kString: return string(value.marked());
      case Kind::kNone: return scalar("\"null\"", value);
      case Kind::kBool: return scalar(value.as_bool() ? "\"true\"" : "\"false\"", value);
      case Kind::kInt: return scalar('"' + std::to_string(value.as_int()) + '"', value);
      case Kind::kFloat: return scalar('"' + number(value.as_real()) + '"', value);
      default: return invalid_argument("keys must be str, int, float, bool or None, not {}", type_name(value));
    }
  }

  Status dict(const DictObject& dict, int level) {
    if (dict.items.empty()) {
      out_.append_own("{}");
      return ok_status();
    }
    std::vector<const std::pair<Value, Value>*> items;
    for (const auto& item : dict.items) items.push_back(&item);
    if (format_.sort_keys) {
      const bool strings = std::ranges::all_of(items, [](const auto* item) { return item->first.is_string(); });
      if (!strings) return unsupported("tojson(sort_keys=true) needs keys that are strings");
      std::ranges::stable_sort(items, [](const auto* a, const auto* b) { return a->first.text() < b->first.text(); });
    }
    out_.append_own("{");
    for (size_t i = 0; i < items.size(); ++i) {
      if (i > 0) out_.append(format_.item_separator);
      new_line(level + 1);
      TANDEM_TRY(key(items[i]->first));
      out_.append(format_.key_separator);
      TANDEM_TRY(print(items[i]->second, level + 1));
    }
    new_line(level);
    out_.append_own("}");
    return ok_status();
  }

  Runtime& rt_;
  const JsonFormat& format_;
  MarkedText& out_;
};

}  // namespace

namespace {

// A character between quotes.
void append_in_quotes(std::string& out, char32_t c, char quote) {
  if (c == static_cast<char32_t>(quote) || c == '\\') {
    out += '\\';
    out += static_cast<char>(c);
  } else if (c == '\n') {
    out += "\\n";
  } else if (c == '\r') {
    out += "\\r";
  } else if (c == '\t') {
    out += "\\t";
  } else if (is_printable(c)) {
    append_code_point(out, c);
  } else if (c < 0x100) {
    out += str_format("\\x{:02x}", static_cast<uint32_t>(c));
  } else if (c < 0x10000) {
    out += str_format("\\u{:04x}", static_cast<uint32_t>(c));
  } else {
    out += str_format("\\U{:08x}", static_cast<uint32_t>(c));
  }
}

}  // namespace

void append_quoted(MarkedText& out, const MarkedText& text) {
  const std::string_view bytes = text.bytes();
  const bool double_quotes = bytes.find('\'') != std::string_view::npos && bytes.find('"') == std::string_view::npos;
  const char quote = double_quotes ? '"' : '\'';
  out.append_own({&quote, 1});
  OriginCursor cursor(text);
  size_t offset = 0;
  std::string run;  // A run of one origin.
  Origin origin = cursor.at(0);
  for (const char32_t c : to_code_points(bytes)) {
    if (const Origin now = cursor.at(offset); now != origin) {
      out.append(run, origin);
      run.clear();
      origin = now;
    }
    append_in_quotes(run, c, quote);
    offset += c < 0x80 ? 1 : c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
  }
  out.append(run, origin);
  out.append_own({&quote, 1});
}

std::string quoted(std::string_view text) {
  MarkedText out;
  append_quoted(out, MarkedText(std::string(text), Origin::kTemplate));
  return std::move(out).take();
}

// The shortest digits that read back as the same number, in Python's form: an exponent below 1e-4 and from 1e16 on.
std::string float_text(double number) {
  if (std::isnan(number)) return "nan";
  if (std::isinf(number)) return number > 0 ? "inf" : "-inf";
  char buffer[64];
  const auto [end, error] = std::to_chars(buffer, buffer + sizeof(buffer), number, std::chars_format::scientific);
  if (error != std::errc()) return "nan";
  std::string_view text(buffer, static_cast<size_t>(end - buffer));
  std::string sign;
  if (text.starts_with('-')) {
    sign = "-";
    text.remove_prefix(1);
  }
  const size_t e = text.find('e');
  std::string digits(text.substr(0, e));
  std::erase(digits, '.');
  const int exponent = std::atoi(std::string(text.substr(e + 1)).c_str());
  const auto count = static_cast<int>(digits.size());
  if (exponent < -4 || exponent >= 16) {
    std::string mantissa = digits.substr(0, 1);
    if (count > 1) mantissa.append(1, '.').append(digits, 1);
    return str_format("{}{}e{}{:02}", sign, mantissa, exponent < 0 ? "-" : "+", std::abs(exponent));
  }
  if (exponent < 0) return sign + "0." + std::string(static_cast<size_t>(-exponent - 1), '0') + digits;
  if (count <= exponent + 1) return sign + digits + std::string(static_cast<size_t>(exponent + 1 - count), '0') + ".0";
  const auto whole = static_cast<size_t>(exponent + 1);
  return sign + digits.substr(0, whole) + "." + digits.substr(whole);
}

Status append_str(Runtime& rt, MarkedText& out, const Value& value) {
  if (value.is_undefined()) return ok_status();
  if (value.is_string()) {
    TANDEM_TRY(rt.grow(out, value.text().size()));
    out.append(value.marked());
    return ok_status();
  }
  return Printer(rt, out).repr(value);
}

Result<MarkedText> to_str(Runtime& rt, const Value& value) {
  MarkedText out;
  TANDEM_TRY(append_str(rt, out, value));
  return out;
}

Result<MarkedText> to_repr(Runtime& rt, const Value& value) {
  MarkedText out;
  TANDEM_TRY(Printer(rt, out).repr(value));
  return out;
}

Result<MarkedText> to_json(Runtime& rt, const Value& value, const JsonFormat& format) {
  MarkedText out;
  TANDEM_TRY(JsonPrinter(rt, format, out).print(value, 0));
  return out;
}

}  // namespace tandem::jinja

// A Jinja template, run as transformers runs chat templates: a small engine of our own.
//
//   TANDEM_ASSIGN(auto parsed, jinja::Template::parse("{% for m in messages %}{{ m.content }}{% endfor %}"));
//   TANDEM_ASSIGN(auto variables, jinja::parse_json_value(R"({"messages": []})", "the variables"));
//   TANDEM_ASSIGN(std::string text, parsed.render(variables));
//
// It has no access to anything but its variables, and its time, memory, depth and output are bounded: templates come
// with models from anywhere. Differences from Jinja2: include, import, extends and block are refused, integers have 64
// bits, and lists and dicts cannot be changed (transformers' sandbox refuses that too).
#pragma once

#include <ctime>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "chat/jinja/value.h"
#include "tandem/status.h"

namespace tandem::jinja {

struct Limits {
  int64_t steps = 20'000'000;         // Evaluated nodes, iterations and 64-byte pieces of text; about a second.
  int depth = 400;                    // Nested nodes, through macros and loops; 400 KB of stack.
  size_t output = size_t{32} << 20;   // Bytes.
  size_t memory = size_t{128} << 20;  // Bytes held by all values of a rendering at a time.
};
inline constexpr size_t kMaxTemplateBytes = size_t{2} << 20;

struct RenderOptions {
  Limits limits = {};
  std::optional<std::tm> now = {};  // For strftime_now; unset: the local time.
};

struct ParsedTemplate;

// Immutable: any number of threads may render it.
class Template {
 public:
  static Result<Template> parse(std::string_view source);
  // `variables` is a dict. A template's raise_exception('…') gives exactly its message.
  Result<std::string> render(const Value& variables, const RenderOptions& options = {}) const;
  // The same text, with the parts that came from the variables marked (except Value::literal).
  Result<MarkedText> render_marked(const Value& variables, const RenderOptions& options = {}) const;

 private:
  std::shared_ptr<const ParsedTemplate> parsed_;
};

// Whether all of it is valid UTF-8: the engine accepts no other text.
bool is_valid_text(std::string_view text);

// JSON as a value; objects keep their order. `what` names the source in errors. `origin` applies to all strings in it,
// keys too.
Result<Value> parse_json_value(std::string_view text, std::string_view what, Origin origin = Origin::kData);

// "2025-07-04T09:05:03", also with a space, without the time, or with a fraction or zone (which are ignored).
Result<std::tm> parse_iso_time(std::string_view text);

}  // namespace tandem::jinja

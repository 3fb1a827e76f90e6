// Any bytes as a chat template: parsed, and rendered with some messages under small limits. Nothing may crash, hang or
// leak, and what is rendered is valid UTF-8 of bounded size, with sound marks of where its parts came from.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "chat/jinja/template.h"

namespace {

constexpr std::string_view kVariables = R"({
  "messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Grüße \n 日本"},
               {"role": "assistant", "content": "Hi", "tool_calls": [{"function": {"name": "f", "arguments": {"a": [1, 2.5, null]}}}]}],
  "tools": [{"name": "f", "parameters": {"b": 1, "a": {"x": [true, "y"]}}}],
  "bos_token": "<s>", "eos_token": "</s>", "add_generation_prompt": true, "n": 7, "s": "Hello, World"})";

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  namespace jinja = tandem::jinja;
  static const auto variables = jinja::parse_json_value(kVariables, "the fuzzer's variables");
  if (!variables.ok()) std::abort();
  const auto parsed = jinja::Template::parse({reinterpret_cast<const char*>(data), size});
  if (!parsed.ok()) {
    if (parsed.error().message.empty()) std::abort();
    return 0;
  }
  jinja::RenderOptions options;
  options.limits.steps = 200'000;
  options.limits.output = size_t{1} << 20;
  options.limits.memory = size_t{8} << 20;
  options.now = *jinja::parse_iso_time("2025-07-04T09:05:03");
  const auto text = parsed->render_marked(*variables, options);
  if (!text.ok()) return 0;
  if (text->size() > options.limits.output || !jinja::is_valid_text(text->bytes())) std::abort();
  // The origins are in order, inside the text, in whole characters.
  size_t last_end = 0;
  for (const tandem::OriginSpan& span : text->spans()) {
    if (span.begin < last_end || span.begin >= span.end || span.end > text->size()) std::abort();
    if (!jinja::is_valid_text(std::string_view(text->bytes()).substr(span.begin, span.end - span.begin))) std::abort();
    last_end = span.end;
  }
  return 0;
}

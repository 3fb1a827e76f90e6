// Shorthands for rendering in tests.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <string_view>

#include "chat/jinja/template.h"

namespace tandem::jinja {

// The rendering, or "error: …".
inline std::string render(std::string_view source, std::string_view variables = "{}",
                          const RenderOptions& options = {}) {
  const auto parsed = Template::parse(source);
  if (!parsed.ok()) return "error: " + parsed.error().message;
  const auto values = parse_json_value(variables, "variables");
  if (!values.ok()) return "error: " + values.error().message;
  const auto text = parsed->render(*values, options);
  return text.ok() ? *text : "error: " + text.error().message;
}

inline bool fails(std::string_view source, std::string_view variables = "{}") {
  return render(source, variables).starts_with("error: ");
}

}  // namespace tandem::jinja

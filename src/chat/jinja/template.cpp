#include "chat/jinja/template.h"

#include "base/error.h"
#include "chat/jinja/evaluator.h"
#include "chat/jinja/parser.h"
#include "chat/jinja/unicode.h"

namespace tandem::jinja {

bool is_valid_text(std::string_view text) { return find_invalid_utf8(text) == std::string_view::npos; }

struct ParsedTemplate {
  Body body;
};

Result<Template> Template::parse(std::string_view source) {
  if (source.size() > kMaxTemplateBytes) {
    return resource_exhausted("the template has {} bytes, and {} is the most there can be", source.size(),
                              kMaxTemplateBytes);
  }
  TANDEM_ASSIGN(std::vector<Token> tokens, tokenize(source));
  auto parsed = std::make_shared<ParsedTemplate>();
  TANDEM_ASSIGN(parsed->body, Parser(std::move(tokens)).parse());
  Template made;
  made.parsed_ = std::move(parsed);
  return made;
}

Result<std::string> Template::render(const Value& variables, const RenderOptions& options) const {
  TANDEM_ASSIGN(MarkedText text, render_marked(variables, options));
  return std::move(text).take();
}

Result<MarkedText> Template::render_marked(const Value& variables, const RenderOptions& options) const {
  if (!variables.is_dict()) return invalid_argument("the variables of a template should be an object");
  Evaluator evaluator(options);
  return evaluator.render(parsed_->body, variables);
}

}  // namespace tandem::jinja

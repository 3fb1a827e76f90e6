#include "text/chat_template.h"

#include <algorithm>
#include <vector>

#include "base/error.h"

namespace tandem {
namespace {

class ChatMl final : public ChatTemplate {
 public:
  Result<std::string> render(std::span<const Message> messages, bool add_generation_prompt) const override {
    std::string text;
    for (const Message& message : messages) {
      text.append("<|im_start|>").append(message.role).append("\n");
      text.append(message.content).append("<|im_end|>\n");
    }
    if (add_generation_prompt) text.append("<|im_start|>assistant\n");
    return text;
  }
};

// ChatML templates come in many spellings: ' or ", message.role or message['role'], literals in one piece or added up,
// white space trimmed by hand or not at all. They are compared in a plain form: the list of tags and texts, after
// Jinja's white-space rules as transformers sets them (trim_blocks, lstrip_blocks), each expression without spaces and
// with its literals joined.
class PlainForm {
 public:
  explicit PlainForm(std::string_view source) : source_(source) {}

  // Empty if the source is not well-formed.
  std::vector<std::string> run() {
    while (at_ < source_.size()) {
      const size_t open = next_tag();
      std::string_view text = source_.substr(at_, open - at_);
      if (open < source_.size()) trim_end(text, open);
      if (strip_start_) {
        text.remove_prefix(std::min(text.find_first_not_of(kSpaces), text.size()));
      } else if (drop_newline_ && text.substr(0, 1) == "\n") {
        text.remove_prefix(1);
      }
      if (!text.empty()) add_item("text:", text);
      strip_start_ = drop_newline_ = false;
      at_ = open;
      if (at_ < source_.size() && !read_tag()) return {};
    }
    return std::move(items_);
  }

 private:
  static constexpr std::string_view kSpaces = " \t\r\n";

  void add_item(std::string_view kind, std::string_view content) {
    std::string& item = items_.emplace_back(kind);
    item.append(content);
  }

  // What the tag at `open` takes away from the text before it.
  void trim_end(std::string_view& text, size_t open) const {
    const auto trimmed = [&](std::string_view spaces) { return text.substr(0, text.find_last_not_of(spaces) + 1); };
    if (source_.substr(open + 2, 1) == "-") {
      text = trimmed(kSpaces);
    } else if (source_[open + 1] == '%') {  // lstrip_blocks: only from the start of a line.
      const std::string_view rest = trimmed(" \t");
      if (rest.empty() ? at_ == 0 : rest.back() == '\n') text = rest;
    }
  }

  size_t next_tag() const {
    for (size_t i = at_; i + 1 < source_.size(); ++i) {
      if (source_[i] == '{' && (source_[i + 1] == '{' || source_[i + 1] == '%' || source_[i + 1] == '#')) return i;
    }
    return source_.size();
  }

  bool read_tag() {
    const char kind = source_[at_ + 1];
    if (kind == '#') return false;
    const std::string_view close = kind == '{' ? "}}" : "%}";
    at_ += 2;
    if (at_ < source_.size() && source_[at_] == '-') ++at_;
    std::string code;
    if (!read_code(close, code)) return false;
    add_item(kind == '{' ? "expression:" : "statement:", code);
    drop_newline_ = kind == '%' && !strip_start_;
    return true;
  }

  bool read_code(std::string_view close, std::string& code) {
    while (at_ < source_.size()) {
      if (source_[at_] == '-' && source_.substr(at_ + 1, 2) == close) {
        strip_start_ = true;
        at_ += 3;
        break;
      }
      if (source_.substr(at_, 2) == close) {
        at_ += 2;
        break;
      }
      const char c = source_[at_];
      if (c == '\'' || c == '"') {
        if (!read_literal(c, code)) return false;
      } else {
        // Spaces stay between words only.
        if (c != ' ' && c != '\n' && c != '\t' && c != '\r') {
          code.push_back(c);
        } else if (!code.empty() && code.back() != ' ') {
          code.push_back(' ');
        }
        ++at_;
      }
      if (at_ >= source_.size()) return false;
    }
    code = joined(code);
    return true;
  }

  // A literal as 'text', its escapes undone.
  bool read_literal(char quote, std::string& code) {
    code.push_back('\'');
    for (++at_; at_ < source_.size() && source_[at_] != quote; ++at_) {
      char c = source_[at_];
      if (c == '\\') {
        if (++at_ >= source_.size()) return false;
        c = source_[at_] == 'n' ? '\n' : source_[at_];
        if (c != '\n' && c != '\'' && c != '"' && c != '\\') return false;
      }
      if (c == '\'') return false;  // Would be read as the literal's end; no ChatML template has it.
      code.push_back(c);
    }
    if (at_ >= source_.size()) return false;
    ++at_;
    code.push_back('\'');
    return true;
  }

  static void replace_all(std::string& text, std::string_view from, std::string_view to) {
    std::string result;
    size_t done = 0;
    for (size_t at = text.find(from); at != std::string::npos; at = text.find(from, done)) {
      result.append(text, done, at - done).append(to);
      done = at + from.size();
    }
    result.append(text, done, std::string::npos);
    text = std::move(result);
  }

  static std::string joined(std::string code) {
    while (!code.empty() && code.back() == ' ') code.pop_back();
    replace_all(code, "message['role']", "message.role");
    replace_all(code, "message['content']", "message.content");
    replace_all(code, " + ", "+");
    replace_all(code, "+ ", "+");
    replace_all(code, " +", "+");
    replace_all(code, "'+'", "");
    if (code.size() > 1 && code.front() == '(' && code.back() == ')' && code.find('(', 1) == std::string::npos) {
      code = code.substr(1, code.size() - 2);
    }
    return code;
  }

  std::string_view source_;
  size_t at_ = 0;
  bool strip_start_ = false;
  bool drop_newline_ = false;
  std::vector<std::string> items_;
};

}  // namespace

std::unique_ptr<ChatTemplate> make_chatml_template() { return std::make_unique<ChatMl>(); }

bool is_chatml_template(std::string_view jinja_source) {
  constexpr size_t kMaxSource = 4096;  // Longer ones do more.
  if (jinja_source.size() > kMaxSource) return false;
  std::vector<std::string> items = PlainForm(jinja_source).run();
  // Older templates begin by giving add_generation_prompt its default, which is what an absent variable means anyway.
  const std::vector<std::string> preamble = {"statement:if not add_generation_prompt is defined",
                                             "statement:set add_generation_prompt = false", "statement:endif"};
  if (items.size() > preamble.size() && std::equal(preamble.begin(), preamble.end(), items.begin())) {
    items.erase(items.begin(), items.begin() + static_cast<ptrdiff_t>(preamble.size()));
  }
  const std::vector<std::string> chatml = {
      "statement:for message in messages",
      "expression:'<|im_start|>'+message.role+'\n'+message.content+'<|im_end|>\n'",
      "statement:endfor",
      "statement:if add_generation_prompt",
      "expression:'<|im_start|>assistant\n'",
      "statement:endif",
  };
  return items == chatml;
}

Result<std::unique_ptr<ChatTemplate>> make_chat_template(std::string_view jinja_source,
                                                         bool vocabulary_has_chatml_tokens) {
  if (jinja_source.empty()) {
    if (vocabulary_has_chatml_tokens) return make_chatml_template();
    return not_found(
        "the model has no chat template and no ChatML tokens in its vocabulary; use --no-template to give it the "
        "prompt as it is");
  }
  if (is_chatml_template(jinja_source)) return make_chatml_template();
  return unsupported(
      "the model's chat template is not ChatML, the only one built in yet; use --no-template to give it the prompt as "
      "it is");
}

}  // namespace tandem

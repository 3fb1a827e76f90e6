// tandem template: renders messages with a chat template.
#include <CLI/CLI.hpp>
#include <filesystem>
#include <memory>

#include "artifact/reader.h"
#include "base/error.h"
#include "base/mapped_file.h"
#include "chat/chat_template.h"
#include "checkpoint/checkpoint.h"
#include "cli/commands.h"
#include "cli/input.h"
#include "cli/load_tokenizer.h"

namespace tandem {
namespace template_command {

namespace fs = std::filesystem;
using jinja::Value;

constexpr uint64_t kMaxMessages = kMaxInput;

struct Options {
  std::string source;
  std::string messages;
  std::string variables;
  bool add_generation_prompt = false;
};

// A file's text; "-" is standard input.
Result<std::string> read_input(const std::string& path, uint64_t limit) {
  return path == "-" ? read_stdin(limit) : read_text_file(path, limit);
}

// The template of a folder needs no weights, and no config.json.
Result<TokenizerConfig> read_tokenizer_config(const fs::path& folder) {
  TokenizerConfig config;
  std::error_code error;
  const fs::path file = folder / "tokenizer_config.json";
  if (fs::exists(file, error)) {
    TANDEM_ASSIGN(const std::string text, read_text_file(file, kMaxMessages));
    TANDEM_ASSIGN(config, TokenizerConfig::parse(text, file.string()));
  }
  if (fs::exists(folder / "chat_template.jinja", error)) {
    TANDEM_ASSIGN(config.chat_template, read_text_file(folder / "chat_template.jinja", jinja::kMaxTemplateBytes));
  }
  return config;
}

Result<std::unique_ptr<ChatTemplate>> load_template(const std::string& source) {
  std::error_code error;
  if (source != "-" && looks_like_artifact(source)) {
    TANDEM_ASSIGN(const Artifact artifact, Artifact::open(source));
    const TextInfo& text = artifact.header().text;
    const ChatTemplateSource chat = {text.chat_template, text.tool_template, text.bos_token, text.eos_token,
                                     text.special_tokens};
    if (!chat.text.empty() || !text.has_tokenizer) return make_chat_template(chat, nullptr);
    TANDEM_ASSIGN(const Tokenizer tokenizer, load_tokenizer(source));
    return make_chat_template(chat, &tokenizer);
  }
  if (source != "-" && fs::is_directory(source, error)) {
    TANDEM_ASSIGN(const TokenizerConfig config, read_tokenizer_config(source));
    if (config.chat_template) return make_chat_template(chat_template_source(config), nullptr);
    const auto tokenizer = load_tokenizer(source);
    return make_chat_template(chat_template_source(config), tokenizer.ok() ? &*tokenizer : nullptr);
  }
  if (fs::path(source).extension() == ".gguf") {
    TANDEM_ASSIGN(const Checkpoint checkpoint, Checkpoint::open(source));
    return make_chat_template(chat_template_source(checkpoint.tokenizer_config()), nullptr);
  }
  ChatTemplateSource chat;
  TANDEM_ASSIGN(chat.text, read_input(source, jinja::kMaxTemplateBytes));
  TANDEM_ASSIGN(ChatTemplate made, ChatTemplate::create(chat));
  return std::make_unique<ChatTemplate>(std::move(made));
}

Result<std::string> render(const Options& o) {
  if ((o.source == "-") + (o.messages == "-") + (o.variables == "-") > 1) {
    return invalid_argument("only one of the template, the messages and the variables can come from standard input");
  }
  TANDEM_ASSIGN(const auto chat, load_template(o.source));
  TANDEM_ASSIGN(const std::string messages_text, read_input(o.messages, kMaxMessages));
  TANDEM_ASSIGN(Value messages, jinja::parse_json_value(messages_text, o.messages));
  if (messages.is_dict()) {  // {"messages": […]}, as servers accept it.
    const Value* list = messages.dict().find("messages");
    if (list != nullptr) messages = Value(*list);
  }
  if (!messages.is(jinja::Kind::kList)) return invalid_argument("{}: should be a list of messages", o.messages);
  Value variables;
  if (!o.variables.empty()) {
    TANDEM_ASSIGN(const std::string text, read_input(o.variables, kMaxMessages));
    TANDEM_ASSIGN(variables, jinja::parse_json_value(text, o.variables));
    if (!variables.is_dict()) return invalid_argument("{}: should be a JSON object", o.variables);
  }
  return chat->render(messages, o.add_generation_prompt, variables);
}

void run(const Options& o) {
  const std::string text = value_or_fail(render(o));
  show_data(text);
}

}  // namespace template_command

void add_template_command(CLI::App& app) {
  using namespace template_command;
  auto o = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand("template", "Show what a chat template makes of messages");
  command
      ->add_option("TEMPLATE", o->source,
                   "A template's file, a checkpoint folder or a compiled file; -: standard input")
      ->required();
  command
      ->add_option("--messages", o->messages,
                   R"(A JSON file with messages: [{"role": "user", "content": "Hi"}, …]; -: standard input)")
      ->required();
  command->add_flag("--add-generation-prompt", o->add_generation_prompt, "Up to where the model's answer begins");
  command->add_option("--vars", o->variables,
                      "A JSON file with an object of variables: bos_token, eos_token, tools, documents, any other, and "
                      "now, the ISO time that strftime_now uses; -: standard input");
  command->footer(
      "Examples:\n  tandem template checkpoint/ --messages chat.json --add-generation-prompt\n"
      "  echo '[{\"role\": \"user\", \"content\": \"Hi\"}]' | tandem template chat.jinja --messages - --vars "
      "vars.json\n"
      "The text is printed as it is, without a newline at the end; only on a terminal are control characters but\n"
      "newlines and tabs shown as text (\\x1b). A template that refuses the messages says why on\n"
      "standard error, and the exit status is 1.");
  command->callback([o] { run(*o); });
}

}  // namespace tandem

// tandem tokenize: text to token ids and back, for inspecting a vocabulary and for comparing tokenizers.

#include <CLI/CLI.hpp>
#include <memory>
#include <string>

#include "base/error.h"
#include "base/format.h"
#include "base/json.h"
#include "cli/commands.h"
#include "cli/input.h"
#include "cli/load_tokenizer.h"
#include "tokenizer/token_rules.h"

namespace tandem {
namespace tokenize_command {

struct TokenizeOptions {
  std::string model;
  std::string prompt;
  bool jsonl = false;
  bool special = false;
  bool skip_special = false;
  bool no_parse_special = false;
};

Result<std::vector<int32_t>> encode(const Tokenizer& tokenizer, const std::string& text,
                                    const TokenizeOptions& options) {
  const OriginSpan all{0, text.size(), Origin::kData};
  EncodeOptions encoding{.add_special = options.special};
  if (!options.no_parse_special) return tokenizer.encode(text, encoding);
  const ControlTokens control = tokenizer.control_tokens("");
  encoding.origins = {&all, 1};
  encoding.control = &control;
  return tokenizer.encode(text, encoding);
}

// ASCII only: many readers treat U+2028 and the like as the end of a line.
std::string json_text(const std::string& text) {
  return Json(text).dump(-1, ' ', /*ensure_ascii=*/true, Json::error_handler_t::replace);
}

// One line of output for one line of input: a text, or ids to decode.
Result<std::string> tokenize_line(const Tokenizer& tokenizer, const std::string& line, const TokenizeOptions& options) {
  TANDEM_ASSIGN(const Json input, parse_json(line, "bad input"));
  TANDEM_ASSIGN(const std::optional<std::string> text, json_string(input, "text"));
  std::vector<int32_t> ids;
  if (text) {
    TANDEM_ASSIGN(ids, encode(tokenizer, *text, options));
  } else {
    if (!input.is_object() || !input.contains("ids")) {
      return invalid_argument("it is not an object with a string \"text\" or with a list \"ids\"");
    }
    TANDEM_ASSIGN(const std::vector<int64_t> numbers, json_ints(input, "ids"));
    for (const int64_t id : numbers) {
      if (id < INT32_MIN || id > INT32_MAX) return invalid_argument("the id {} is too large", id);
      ids.push_back(static_cast<int32_t>(id));
    }
  }
  return str_format("{{\"ids\":[{}],\"decoded\":{}}}\n", str_join(ids, ","),
                    json_text(tokenizer.decode(ids, options.skip_special)));
}

void tokenize_lines(const Tokenizer& tokenizer, const TokenizeOptions& options) {
  LineReader lines;
  for (size_t number = 1;; ++number) {
    const std::optional<std::string> line = value_or_fail(lines.next());
    if (!line) return;
    Result<std::string> output = tokenize_line(tokenizer, *line, options);
    if (!output.ok()) fail(with_context(std::move(output).error(), "line {} of the input", number));
    write_stdout(*output);
    // The sender may be waiting for this answer before it sends the next line.
    if (!lines.has_line()) flush_stdout();
    if (output_failed()) return;
  }
}

void run_tokenize(const TokenizeOptions& options, bool has_prompt) {
  if (options.jsonl == has_prompt) {
    refuse("tokenize needs either -p TEXT or --jsonl, with lines {\"text\": …} on the input");
  }
  const Result<Tokenizer> tokenizer = load_tokenizer(options.model);
  if (!tokenizer.ok()) fail(tokenizer.error());
  if (options.jsonl) {
    tokenize_lines(*tokenizer, options);
    return;
  }
  const Result<std::vector<int32_t>> ids = encode(*tokenizer, options.prompt, options);
  if (!ids.ok()) fail(ids.error());
  write_stdout(str_format("{}\n", str_join(*ids, " ")));
}

}  // namespace tokenize_command

void add_tokenize_command(CLI::App& app) {
  using namespace tokenize_command;
  auto options = std::make_shared<TokenizeOptions>();
  CLI::App* command = app.add_subcommand("tokenize", "Show the token ids of a text");
  command
      ->add_option("MODEL", options->model,
                   "Checkpoint folder, tokenizer file (tokenizer.json, tokenizer.model, …) or compiled file")
      ->required();
  CLI::Option* prompt = command->add_option("-p,--prompt", options->prompt, "The text; its ids go on one line");
  command->add_flag("--jsonl", options->jsonl,
                    R"(Read lines {"text": …} or {"ids": […]} and write lines {"ids": […], "decoded": …}, in order)");
  command->add_flag("--special", options->special,
                    "Add what the tokenizer puts around a text, such as <|begin_of_text|>");
  command->add_flag(
      "--no-parse-special", options->no_parse_special,
      "The text of special tokens is ordinary text; `run` and `chat` also take that of other tokens so which "
      "the chat template names");
  command->add_flag("--skip-special", options->skip_special, "Leave special tokens out of what is decoded");
  command->footer(
      "Examples:\n  tandem tokenize checkpoint/ -p \"Once upon a time\"\n"
      "  echo '{\"text\": \"Hello\"}' | tandem tokenize tokenizer.json --jsonl --special");
  command->callback([options, prompt] { run_tokenize(*options, prompt->count() > 0); });
}

}  // namespace tandem

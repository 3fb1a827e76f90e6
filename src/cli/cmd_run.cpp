// tandem run: one prompt, one answer.
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <memory>

#include "base/error.h"
#include "base/format.h"
#include "base/json.h"
#include "cli/commands.h"
#include "cli/generation_flags.h"
#include "cli/input.h"
#include "cli/interrupt.h"

namespace tandem {
namespace run_command {

struct Options {
  std::string file;
  std::string prompt;
  bool json = false;
  bool quiet = false;
  GenerationFlags generation;
};

std::string read_prompt(const Options& o, bool given) {
  if (given) return o.prompt;
  if (isatty(STDIN_FILENO) == 1) refuse("no prompt; give one with -p TEXT or on standard input");
  return value_or_fail(read_stdin());
}

void report_json(const GenerateResult& r, uint64_t seed) {
  const Json json = {{"text", r.text},
                     {"reasoning", r.reasoning},
                     {"tokens", r.tokens},
                     {"finish", finish_reason_name(r.finish)},
                     {"prompt_tokens", r.prompt_tokens},
                     {"prompt_seconds", r.prompt_seconds},
                     {"first_token_seconds", r.first_token_seconds},
                     {"decode_seconds", r.decode_seconds},
                     {"seed", seed}};
  show_json(json);
}

void run(const Options& o, bool prompt_given) {
  o.generation.check();
  const std::string prompt = read_prompt(o, prompt_given);
  if (prompt.empty()) refuse("the prompt is empty; give some text with -p");
  const auto engine = value_or_fail(Engine::load(o.file, o.generation.engine.options()));
  const auto session = value_or_fail(engine->new_session());
  GenerateOptions options = o.generation.apply(*engine);
  watch_interrupts();
  on_interrupt([](void* s) { static_cast<Session*>(s)->cancel(); }, session.get());

  AnswerPrinter printer(o.generation.show_reasoning());
  const auto stream = [&](std::string_view piece) {
    if (interrupted()) return false;  // Even if the signal arrived before there was anything to cancel.
    return o.json || printer.answer(piece);
  };
  options.on_reasoning = [&](std::string_view piece) {
    if (interrupted()) return false;
    return o.json || printer.reasoning(piece);
  };
  const auto generate = [&]() -> Result<GenerateResult> {
    if (!o.generation.no_template) {
      std::vector<Message> messages;
      if (!o.generation.system.empty()) messages.push_back({"system", o.generation.system});
      messages.push_back({"user", prompt});
      return session->generate_chat(messages, options, stream);
    }
    TANDEM_ASSIGN(const std::vector<int32_t> tokens, o.generation.encode(*engine, prompt, true));
    return session->generate(tokens, options, stream);
  };
  const auto result = generate();
  on_interrupt(nullptr, nullptr);
  printer.finish();
  check_output();
  if (!result.ok()) {
    if (printer.printed()) write_stdout("\n");
    fail(result.error());
  }
  if (o.json) {
    report_json(*result, options.sampler.seed);
  } else {
    write_stdout("\n");
    check_output();
    if (!o.quiet) write_stderr(str_format("\n[{}; seed {}]\n", describe(*result), options.sampler.seed));
  }
  if (result->finish == FinishReason::kCancelled && interrupted()) throw CLI::RuntimeError(interrupt_exit_code());
}

}  // namespace run_command

void add_run_command(CLI::App& app) {
  using namespace run_command;
  auto o = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand("run", "Answer one prompt");
  command->footer(
      "Example:\n  tandem run demo.tdm -p \"Tell me a story about a fox named Leo.\" --seed 7\n"
      "The answer goes to standard output, the statistics to standard error. On a terminal, control characters in the\n"
      "answer are shown as text (\\x1b); a pipe or a file gets it byte for byte.\n"
      "Exit status: 0 there is an answer, 1 there is none, 2 the options make no sense, 130, 143 or 129 stopped by\n"
      "Ctrl-C, SIGTERM or SIGHUP; what was generated until then is printed.");
  command->add_option("FILE", o->file, "A compiled file")->required();
  CLI::Option* prompt = command->add_option("-p,--prompt", o->prompt, "The prompt; default: standard input");
  command->add_flag("--json", o->json, "One JSON object at the end instead of a stream of text");
  command->add_flag("-q,--quiet", o->quiet, "No statistics");
  o->generation.add_to(*command);
  command->callback([o, prompt] { run(*o, prompt->count() > 0); });
}

}  // namespace tandem

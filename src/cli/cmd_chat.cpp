// tandem chat: a conversation.
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <iostream>
#include <memory>

#include "base/error.h"
#include "base/json.h"
#include "cli/commands.h"
#include "cli/generation_flags.h"
#include "cli/interrupt.h"

namespace tandem {
namespace {

struct Options {
  std::string file;
  bool quiet = false;
  GenerationFlags generation;
};

constexpr const char* kHelp =
    "/reset  forget the conversation\n/exit   leave (also Ctrl-D)\n/help   this text\nCtrl-C stops an answer.\n";

// What one line of the user's gives: an answer in the conversation, or, without a template, how the text goes on.
Result<GenerateResult> generate(const Engine& engine, Session& session, std::vector<Message>& messages,
                                const std::string& line, const GenerateOptions& options, const GenerationFlags& flags,
                                const StreamCallback& stream) {
  if (!flags.no_template) {
    messages.push_back({"user", line});
    return session.generate_chat(messages, options, stream);
  }
  TANDEM_ASSIGN(const std::vector<int32_t> tokens, flags.encode(engine, line, session.tokens().empty()));
  return session.generate(tokens, options, stream);
}

// One turn: what was said and answered is added to the conversation; a failed turn leaves it as it was.
void answer(const Engine& engine, Session& session, std::vector<Message>& messages, const std::string& line,
            GenerateOptions options, const Options& o) {
  const size_t before = messages.size();
  AnswerPrinter printer(o.generation.show_reasoning());
  options.on_reasoning = [&](std::string_view piece) { return printer.reasoning(piece); };
  on_interrupt([](void* s) { static_cast<Session*>(s)->cancel(); }, &session);
  const auto result = generate(engine, session, messages, line, options, o.generation,
                               [&](std::string_view piece) { return printer.answer(piece); });
  on_interrupt(nullptr, nullptr);
  clear_interrupt();
  printer.finish();
  if (!result.ok()) {
    messages.resize(before);
    fmt::print(stderr, "error: {}\n", result.error().message);
    if (result.error().code == ErrorCode::kResourceExhausted) fmt::print(stderr, "/reset starts a new conversation\n");
    return;
  }
  std::fputc('\n', stdout);
  std::fflush(stdout);
  if (!o.generation.no_template) {
    messages.push_back({"assistant", result->text});
    if (!result->reasoning.empty()) messages.back().fields = dump_json({{"reasoning_content", result->reasoning}});
  }
  if (!o.quiet) fmt::print(stderr, "[{}]\n", describe(*result));
}

void run(const Options& o) {
  const auto engine = value_or_fail(Engine::load(o.file, o.generation.engine.options()));
  const auto session = value_or_fail(engine->new_session());
  GenerateOptions options = o.generation.apply(*engine);
  const bool terminal = isatty(STDIN_FILENO) == 1;
  if (terminal) fmt::print(stderr, "{}", kHelp);
  watch_interrupts();
  std::vector<Message> messages;
  const auto reset = [&] {
    messages.clear();
    if (o.generation.no_template) ok_or_fail(session->rewind(0));
    if (!o.generation.system.empty()) messages.push_back({"system", o.generation.system});
  };
  reset();
  if (!o.generation.no_template) {
    // A template that cannot be used, or takes no system message, says so before anything is typed.
    std::vector<Message> first = messages;
    first.push_back({"user", "hello"});
    ok_or_fail(engine->render_chat(first, true, options.template_variables).status());
  }
  std::string line;
  for (;;) {
    if (terminal) {
      fmt::print(stderr, "> ");
      std::fflush(stderr);
    }
    if (!std::getline(std::cin, line)) break;
    if (line.empty()) continue;
    if (line == "/exit" || line == "/quit") break;
    if (line == "/help") {
      fmt::print(stderr, "{}", kHelp);
    } else if (line == "/reset") {
      reset();
    } else if (line[0] == '/' && line.find(' ') == std::string::npos) {
      fmt::print(stderr, "unknown command {}; /help lists them\n", line);
    } else {
      answer(*engine, *session, messages, line, options, o);
      ++options.sampler.seed;  // Another one each turn, still the same for the same --seed.
    }
  }
  if (terminal) fmt::print(stderr, "\n");
  if (interrupted()) throw CLI::RuntimeError(130);
}

}  // namespace

void add_chat_command(CLI::App& app) {
  auto o = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand("chat", "Have a conversation");
  command->footer("Example:\n  tandem chat demo.tdm\n" + std::string(kHelp));
  command->add_option("FILE", o->file, "A compiled file")->required();
  command->add_flag("-q,--quiet", o->quiet, "No figures");
  o->generation.add_to(*command);
  command->callback([o] { run(*o); });
}

}  // namespace tandem

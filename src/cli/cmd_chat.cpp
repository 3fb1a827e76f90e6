// tandem chat: a conversation.
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <iostream>
#include <memory>

#include "base/error.h"
#include "cli/commands.h"
#include "cli/generation_flags.h"
#include "cli/interrupt.h"

namespace tandem {
namespace {

struct Options {
  std::string file;
  std::string system;
  bool quiet = false;
  GenerationFlags generation;
};

constexpr const char* kHelp =
    "/reset  forget the conversation\n/exit   leave (also Ctrl-D)\n/help   this text\nCtrl-C stops an answer.\n";

// One turn: what was said and answered is added to the conversation; a failed turn leaves it as it was.
void answer(Session& session, std::vector<Message>& messages, const std::string& line, const GenerateOptions& options,
            bool quiet) {
  messages.push_back({"user", line});
  on_interrupt([](void* s) { static_cast<Session*>(s)->cancel(); }, &session);
  const auto result = session.generate_chat(messages, options, [](std::string_view piece) {
    return std::fwrite(piece.data(), 1, piece.size(), stdout) == piece.size() && std::fflush(stdout) == 0;
  });
  on_interrupt(nullptr, nullptr);
  clear_interrupt();
  if (!result.ok()) {
    messages.pop_back();
    fmt::print(stderr, "error: {}\n", result.error().message);
    if (result.error().code == ErrorCode::kResourceExhausted) fmt::print(stderr, "/reset starts a new conversation\n");
    return;
  }
  std::fputc('\n', stdout);
  std::fflush(stdout);
  messages.push_back({"assistant", result->text});
  if (!quiet) fmt::print(stderr, "[{}]\n", describe(*result));
}

void run(const Options& o) {
  const auto engine = value_or_fail(Engine::load(o.file, o.generation.engine.options()));
  const auto session = value_or_fail(engine->new_session());
  GenerateOptions options = o.generation.apply(*engine);
  ok_or_fail(engine->render_chat(std::vector<Message>{{"user", "hello"}}, true).status());
  const bool terminal = isatty(STDIN_FILENO) == 1;
  if (terminal) fmt::print(stderr, "{}", kHelp);
  watch_interrupts();
  std::vector<Message> messages;
  const auto reset = [&] {
    messages.clear();
    if (!o.system.empty()) messages.push_back({"system", o.system});
  };
  reset();
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
      answer(*session, messages, line, options, o.quiet);
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
  command->add_option("--system", o->system, "A system message before the conversation");
  command->add_flag("-q,--quiet", o->quiet, "No figures");
  o->generation.add_to(*command);
  command->callback([o] { run(*o); });
}

}  // namespace tandem

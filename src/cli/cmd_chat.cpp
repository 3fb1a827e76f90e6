// tandem chat: a conversation.
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <memory>

#include "base/error.h"
#include "base/json.h"
#include "cli/commands.h"
#include "cli/generation_flags.h"
#include "cli/input.h"
#include "cli/interrupt.h"

namespace tandem {
namespace chat_command {

struct Options {
  std::string file;
  bool quiet = false;
  GenerationFlags generation;
};

constexpr const char* kHelp =
    "/reset  forget the conversation\n/exit   leave (also Ctrl-D)\n/help   this text\n"
    "Ctrl-C stops an answer, and at the prompt the program.\n";

// The result of one line of input: an answer in the conversation, or, without a template, a continuation of the text.
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
  // The flag counts too: the signal may arrive before there is anything to cancel.
  options.on_reasoning = [&](std::string_view piece) { return !interrupted() && printer.reasoning(piece); };
  on_interrupt([](void* s) { static_cast<Session*>(s)->cancel(); }, &session);
  const auto result = generate(engine, session, messages, line, options, o.generation,
                               [&](std::string_view piece) { return !interrupted() && printer.answer(piece); });
  on_interrupt(nullptr, nullptr);
  session.clear_cancel();  // A signal between the call's end and here is not for the next turn.
  clear_interrupt();
  printer.finish();
  check_output();
  if (!result.ok()) {
    messages.resize(before);
    note_error(result.error().message);
    if (result.error().code == ErrorCode::kResourceExhausted) note_line("/reset starts a new conversation");
    return;
  }
  write_stdout("\n");
  check_output();
  if (!o.generation.no_template) {
    messages.push_back({"assistant", result->text});
    if (!result->reasoning.empty()) messages.back().fields = dump_json({{"reasoning_content", result->reasoning}});
  }
  if (!o.quiet) note("[{}]", describe(*result));
}

void run(const Options& o) {
  o.generation.check();
  const auto engine = value_or_fail(Engine::load(o.file, o.generation.engine.options()));
  const auto session = value_or_fail(engine->new_session());
  GenerateOptions options = o.generation.apply(*engine);
  const bool terminal = isatty(STDIN_FILENO) == 1;
  if (terminal) write_stderr(kHelp);
  watch_interrupts();
  std::vector<Message> messages;
  const auto reset = [&] {
    messages.clear();
    if (o.generation.no_template) ok_or_fail(session->rewind(0));
    if (!o.generation.system.empty()) messages.push_back({"system", o.generation.system});
  };
  reset();
  if (!o.generation.no_template) {
    // Report a template that is unusable or accepts no system message before anything is typed.
    std::vector<Message> first = messages;
    first.push_back({"user", "hello"});
    ok_or_fail(engine->render_chat(first, true, options.template_variables).status());
  }
  LineReader lines;
  while (!terminated()) {
    if (terminal) write_stderr("> ");
    const std::optional<std::string> read = value_or_fail(lines.next());
    if (!read) break;
    const std::string& line = *read;
    if (line.empty()) continue;
    if (line == "/exit" || line == "/quit") break;
    if (line == "/help") {
      write_stderr(kHelp);
    } else if (line == "/reset") {
      reset();
    } else if (line[0] == '/' && line.find(' ') == std::string::npos) {
      note("unknown command {}; /help lists them", line);
    } else {
      answer(*engine, *session, messages, line, options, o);
      ++options.sampler.seed;  // A different one each turn, but the same for the same --seed.
    }
  }
  if (terminal) write_stderr("\n");
  if (interrupted()) throw CLI::RuntimeError(interrupt_exit_code());
}

}  // namespace chat_command

void add_chat_command(CLI::App& app) {
  using namespace chat_command;
  auto o = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand("chat", "Have a conversation");
  command->footer("Example:\n  tandem chat demo.tdm\n" + std::string(kHelp) +
                  "SIGTERM and SIGHUP stop an answer and the program (exit status 143, 129). On a terminal, control\n"
                  "characters in an answer are shown as text (\\x1b); a pipe or a file gets it byte for byte.");
  command->add_option("FILE", o->file, "A compiled file")->required();
  command->add_flag("-q,--quiet", o->quiet, "No statistics");
  o->generation.add_to(*command);
  command->callback([o] { run(*o); });
}

}  // namespace tandem

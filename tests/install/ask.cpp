// ask FILE PROMPT: prints a few greedy tokens of an answer.
#include <tandem/engine.h>
#include <tandem/mapping_guard.h>
#include <tandem/probe.h>

#include <cstdio>
#include <vector>

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  if (!tandem::guard_file_mappings().ok()) return 1;
  tandem::EngineOptions options;
  options.log = [](tandem::LogLevel level, std::string_view message) {
    std::fprintf(stderr, "%s: %.*s\n", tandem::log_level_name(level), static_cast<int>(message.size()), message.data());
  };
  const auto report = tandem::probe(argv[1], options);
  if (!report.ok() || !report->usable) {
    std::fprintf(stderr, "%s\n", report.ok() ? report->to_json().c_str() : report.error().message.c_str());
    return 1;
  }
  const auto engine = tandem::Engine::load(argv[1], options);
  if (!engine.ok()) {
    std::fprintf(stderr, "%s: %s\n", tandem::error_code_name(engine.error().code), engine.error().message.c_str());
    return 1;
  }
  const auto session = (*engine)->new_session();
  if (!session.ok()) return 1;
  tandem::GenerateOptions generate;
  generate.max_new_tokens = 16;
  const std::vector<tandem::Message> messages = {{"user", argv[2]}};
  const auto result = (*session)->generate_chat(messages, generate, {});
  if (!result.ok()) return 1;
  std::printf("%s\n%s %s\n", result->text.c_str(), tandem::mode_name((*engine)->mode()),
              tandem::finish_reason_name(result->finish));
  return 0;
}

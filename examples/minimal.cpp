// The smallest program that talks to a model: it links only the run time, nothing of the compiler.
//
//   build/release/examples/minimal demo.tdm "Tell me a story about a fox named Leo."
#include <cstdio>
#include <vector>

#include "tandem/engine.h"

int main(int argc, char** argv) {
  if (argc != 3) {
    std::fprintf(stderr, "usage: %s FILE PROMPT\n", argv[0]);
    return 2;
  }
  const auto engine = tandem::Engine::load(argv[1]);
  if (!engine.ok()) {
    std::fprintf(stderr, "error: %s\n", engine.error().message.c_str());
    return 1;
  }
  const auto session = (*engine)->new_session();
  if (!session.ok()) {
    std::fprintf(stderr, "error: %s\n", session.error().message.c_str());
    return 1;
  }
  const std::vector<tandem::Message> messages = {{"user", argv[2]}};
  const auto result = (*session)->generate_chat(messages, (*engine)->default_options(), [](std::string_view piece) {
    std::fwrite(piece.data(), 1, piece.size(), stdout);
    return true;  // false would stop
  });
  if (!result.ok()) {
    std::fprintf(stderr, "error: %s\n", result.error().message.c_str());
    return 1;
  }
  std::printf("\n[%zu tokens, finished: %s]\n", result->tokens.size(), tandem::finish_reason_name(result->finish));
  return 0;
}

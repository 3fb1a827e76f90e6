// compile_and_ask CHECKPOINT FILE [NPU]: the compiler and the run time in one process; a file for an NPU is made for
// its emulator, by the worker that was installed.
#include <tandem/compile.h>
#include <tandem/engine.h>

#include <cstdio>
#include <vector>

int main(int argc, char** argv) {
  if (argc != 3 && argc != 4) return 2;
  tandem::CompileModelOptions compile;
  if (argc == 4) {
    compile.target = argv[3];
    compile.context = 64;
    compile.decode_only = true;
    compile.backend = {{"emulator", "true"}};
    compile.calibration.samples = 1;
    compile.calibration.length = 16;
  }
  const auto model = tandem::compile_model(argv[1], argv[2], compile);
  if (!model.ok()) {
    std::fprintf(stderr, "%s\n", model.error().message.c_str());
    return 1;
  }
  const auto engine = tandem::Engine::load(argv[2]);
  if (!engine.ok()) {
    std::fprintf(stderr, "%s\n", engine.error().message.c_str());
    return 1;
  }
  const auto tokens = (*engine)->encode("Once upon a time", true);
  const auto session = (*engine)->new_session();
  if (!tokens.ok() || !session.ok() || model->context != (*engine)->context()) return 1;
  tandem::GenerateOptions options;
  options.max_new_tokens = 4;
  const auto result = (*session)->generate(*tokens, options, {});
  if (!result.ok() || result->tokens.size() != 4) return 1;
  std::printf("%s\n", result->text.c_str());
  return 0;
}

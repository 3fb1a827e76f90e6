// compile CHECKPOINT FILE: stops one compile, then lets one run to its end.
#include <tandem/compile.h>

#include <cstdio>

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  if (!tandem::guard_compiler_mappings().ok()) return 1;
  tandem::CompileModelOptions options;
  options.recipe = "w8";
  options.context = 256;
  options.prefill = {16};
  options.kv = "u9";
  const auto refused = tandem::compile_model(argv[1], argv[2], options);
  if (refused.ok() || refused.error().message.find("`kv`") == std::string::npos) {
    std::fprintf(stderr, "\"u9\" is no form of KV caches, and this was said: %s\n", refused.error().message.c_str());
    return 1;
  }
  options.kv = "fp16";
  options.stop = [] { return true; };
  const auto stopped = tandem::compile_model(argv[1], argv[2], options);
  if (stopped.ok() || stopped.error().code != tandem::ErrorCode::kCancelled || std::filesystem::exists(argv[2])) {
    std::fprintf(stderr, "a compile that was stopped said: %s\n", stopped.error().message.c_str());
    return 1;
  }
  options.stop = {};
  uint64_t done = 0, total = 0;
  options.progress = [&](const tandem::CompileProgress& progress) { done = progress.done, total = progress.total; };
  const auto model = tandem::compile_model(argv[1], argv[2], options);
  if (!model.ok()) {
    std::fprintf(stderr, "%s: %s\n", tandem::error_code_name(model.error().code), model.error().message.c_str());
    return 1;
  }
  if (total == 0 || done != total) {
    std::fprintf(stderr, "the last progress was %llu of %llu\n", static_cast<unsigned long long>(done),
                 static_cast<unsigned long long>(total));
    return 1;
  }
  std::printf("%llu bytes, context %lld, %zu methods\n", static_cast<unsigned long long>(model->file_bytes),
              static_cast<long long>(model->context), model->methods.size());
  return 0;
}

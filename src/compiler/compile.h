// A checkpoint becomes one file.
//
//   CompileOptions options;
//   options.recipe = *Recipe::load("w4");
//   TANDEM_ASSIGN(const CompileReport report, compile("models/demo", "demo.tdm", options));
//
// Memory stays at a few chunks of rows, whatever the model's size: weights are mapped, quantized and written a chunk at
// a time. A compile that was stopped leaves FILE.work/ and no FILE; the same call again goes on from there.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "base/progress.h"
#include "compiler/passes/passes.h"
#include "quant/recipe.h"
#include "tandem/status.h"

namespace tandem {

struct CompileOptions {
  std::string target = "cpu";
  std::vector<int64_t> prefill = {32, 128};  // Tokens per call of the prefill methods; empty for mode kv.
  int64_t context = 0;                       // Positions; 0: the model's own, up to kDefaultContext.
  Recipe recipe;
  int threads = 0;  // 0: all cores.
  std::string config_name = "config.json";
  ProgressCallback progress;
  StopCallback stop;
  DumpCallback dump_ir;
};
inline constexpr int64_t kDefaultContext = 4096;

struct CompileReport {
  uint64_t file_size = 0;
  uint64_t weight_bytes = 0;
  int64_t parameters = 0;
  int64_t context = 0;
  std::vector<std::string> methods;
  double sqnr_db = 0.0;        // Of all quantized weights together; infinity if nothing was lost.
  size_t segments_reused = 0;  // That an earlier run had finished.
  std::vector<std::string> warnings;
};

Result<CompileReport> compile(const std::filesystem::path& checkpoint, const std::filesystem::path& output,
                              const CompileOptions& options);

}  // namespace tandem

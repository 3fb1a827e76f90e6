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
#include <optional>
#include <string>
#include <vector>

#include "base/log.h"
#include "base/progress.h"
#include "compiler/estimate_report.h"
#include "compiler/passes/passes.h"
#include "compiler/targets.h"
#include "quant/observer.h"
#include "quant/recipe.h"
#include "tandem/backend_options.h"
#include "tandem/status.h"

namespace tandem {

// What static encodings are made from, for NPUs. For a CPU only the text and its length count, and only with a recipe
// that leaves activations open.
struct CalibrationOptions {
  std::filesystem::path file = {};  // A text, or JSON with conversations; empty: a short text of our own.
  std::string prompt = {};          // Instead of a file.
  int64_t samples = 4;
  int64_t length = 128;                       // Tokens of a sample.
  RangeMethod method = RangeMethod::kMinMax;  // Of activations. Keys and values in u8 take kMse unless it is given.
  bool method_given = false;
  std::filesystem::path import_encodings = {};  // Instead of calibrating.
  std::filesystem::path export_encodings = {};
  std::filesystem::path report = {};  // An HTML page.
};

struct CompileOptions {
  std::string target = std::string(default_target());
  // Tokens per call of the prefill methods; empty for mode kv. These adapt, unless prefill_exact: lengths beyond the
  // context are left out, and those that the back end would rather not have: on an NPU, where each is a graph to
  // be compiled, lengths beyond 128.
  std::vector<int64_t> prefill = {32, 128, 512};
  bool prefill_exact = false;
  int64_t context = 0;  // Positions; 0: the model's own, up to kDefaultContext.
  Recipe recipe;
  std::optional<KvFormat> kv;                   // Instead of the recipe's.
  std::optional<ActivationFormat> activations;  // The same; the recipe's rules still win.
  std::optional<WeightSpec> head = {};          // The same.
  std::optional<int> rescore = {};
  CalibrationOptions calibration;
  // Of the target's back end, by name: those that `tandem compile --help` shows for its targets. One that the target's
  // back end does not have is refused.
  BackendOptions backend = {};
  int threads = 0;  // 0: all cores.
  std::string config_name = "config.json";
  // Replaces an output that is there already although it is no compiled file, or is a symbolic link (which goes; what
  // it points to stays). Files that are read are never replaced.
  bool force = false;
  std::vector<std::filesystem::path> other_inputs = {};  // Files that were read for these options: the recipe's.
  ProgressCallback progress;
  StopCallback stop;
  DumpCallback dump_ir;
  Log log = {};  // What a vendor's library says on the way. CompileReport::warnings are about the file.
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
  KvFormat kv = KvFormat::kFp16;
  bool one_weight_set = true;   // Shared by all methods.
  int64_t rounding_layers = 0;  // Linear layers of a CPU's file that round their input,
  int64_t int16_layers = 0;     // and those among them that do to 16 bits.
  int64_t rescored = 0;         // Logits that the CPU computes again, of an NPU's file.
  // Layers whose activations the recipe left open, and what the output of each keeps with int8.
  struct OpenLayer {
    std::string name;
    double sqnr_db = 0.0;
  };
  std::vector<OpenLayer> open_layers;
  struct Stage {
    std::string name;
    double seconds = 0.0;
  };
  std::vector<Stage> stages;        // What took how long, of NPU compiles.
  std::vector<std::string> shards;  // "layers.0-8: 219 MB"
  size_t variants_compiled = 0;     // By NpuOptions::tune_graphs.
  std::string graphs;               // "attention gqa+kv (decode), sha+k (prefill_128)", of NPU compiles.
  std::optional<EstimateReport> estimates;
  std::vector<std::string> warnings;
};

Result<CompileReport> compile(const std::filesystem::path& checkpoint, const std::filesystem::path& output,
                              const CompileOptions& options);

}  // namespace tandem

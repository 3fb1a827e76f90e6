// Compiles a checkpoint into one file.
//
//   CompileOptions options;
//   options.recipe = *Recipe::load("w4");
//   TANDEM_ASSIGN(const CompileReport report, compile("models/demo", "demo.tdm", options));
//
// Memory stays at a few chunks of rows, whatever the model's size: weights are mapped, quantized and written a chunk at
// a time. A stopped compile leaves FILE.work/ and no FILE; the same call resumes from there.
#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/log.h"
#include "base/progress.h"
#include "compiler/estimate_report.h"
#include "compiler/passes/passes.h"
#include "compiler/targets.h"
#include "compiler/tuning/tuned_weight.h"
#include "quant/observer.h"
#include "quant/recipe.h"
#include "tandem/backend_options.h"
#include "tandem/status.h"

namespace tandem {

// What static encodings are calibrated with, for NPUs. For a CPU only the text and its length matter, and only with a
// recipe that leaves activations open.
struct CalibrationOptions {
  std::filesystem::path file = {};  // A text, or JSON with conversations; empty: the model writes some itself.
  std::string task = {};            // The file is an evaluation task's (tasks/task.h).
  std::string prompt = {};          // Instead of a file.
  // At most. Of a large model, fewer tokens than by default are enough to take a minute (calibration_input.h).
  int64_t samples = 32;
  int64_t length = 512;                       // Tokens of a sample.
  RangeMethod method = RangeMethod::kMinMax;  // For activations. Keys and values in u8 use kMse unless it is given.
  bool method_given = false;
  std::filesystem::path import_encodings = {};  // Instead of calibrating.
  std::filesystem::path export_encodings = {};
  std::filesystem::path report = {};  // An HTML page.
};

// How much work goes into choosing quantized weights (docs/quantization.md).
enum class Tune {
  kNone,  // Without data: the smallest error of the weights.
  kFast,  // Error feedback over calibration samples.
  kFull,  // The same with more samples and more rounds.
};
Result<Tune> parse_tune(std::string_view name);  // "none", "fast", "full"
std::string_view tune_name(Tune tune);

struct CompileOptions {
  // One, or several separated by commas: the file then has a program for each, in that order. An option that only some
  // of the targets obey is for those.
  std::string target = std::string(default_target());
  // Tokens per call of the prefill methods; empty for mode kv. Unless prefill_exact, lengths beyond the context are
  // omitted, and so are those beyond the back end's default: 128 on an NPU, where each is a graph to compile.
  std::vector<int64_t> prefill = {32, 128, 512};
  bool prefill_exact = false;
  int64_t context = 0;  // Positions; 0: the model's, up to kDefaultContext.
  Recipe recipe = *recipe_preset("w4");
  std::optional<KvFormat> kv;                   // Instead of the recipe's.
  std::optional<ActivationFormat> activations;  // The same; the recipe's rules still win.
  std::optional<WeightSpec> head = {};          // The same.
  std::optional<int> rescore = {};
  CalibrationOptions calibration;
  Tune tune = Tune::kNone;
  // The compiler chooses the formats of the layers' weights, with so many bits per weight on average.
  std::optional<double> bits = {};
  // Options of the target's back end, by name, as `tandem compile --help` shows them for its targets. One that the
  // back end does not have is refused.
  BackendOptions backend = {};
  int threads = 0;  // 0: all cores.
  std::string config_name = "config.json";
  // Replaces an existing output even if it is not a compiled file, or is a symbolic link (the link is removed; its
  // target stays). Files that are read are never replaced.
  bool force = false;
  std::vector<std::filesystem::path> other_inputs = {};  // Files that were read for these options: the recipe's.
  ProgressCallback progress;
  StopCallback stop;
  DumpCallback dump_ir;
  // Set by compile() for each of several targets: the others in the file, and that calibration is for one of them.
  std::vector<std::string> other_targets = {};
  bool calibration_is_optional = false;
  Log log = {};  // Messages of the vendor's library. CompileReport::warnings are about the file.
};
inline constexpr int64_t kDefaultContext = 4096;

struct CompileReport {
  std::string target;
  uint64_t file_size = 0;
  uint64_t weight_bytes = 0;
  int64_t parameters = 0;
  int64_t context = 0;
  std::vector<std::string> methods;
  double sqnr_db = 0.0;        // Of all quantized weights together; infinity if nothing was lost.
  size_t segments_reused = 0;  // Finished by an earlier run.
  KvFormat kv = KvFormat::kFp16;
  bool one_weight_set = true;   // Shared by all methods.
  int64_t rounding_layers = 0;  // Linear layers of a CPU's file that quantize their input,
  int64_t int16_layers = 0;     // and those among them that quantize it to int16.
  int64_t rescored = 0;         // Logits that the CPU recomputes, for an NPU's file.
  // Layers whose activations the recipe left open, with each output's SQNR for int8.
  struct OpenLayer {
    std::string name;
    double sqnr_db = 0.0;
  };
  std::vector<OpenLayer> open_layers;
  std::vector<TunedWeight> tuned;  // In the order they were tuned.
  // With CompileOptions::bits: what they are on average, and by weight the divergence (nats per token) that rounding it
  // to its format is predicted to add.
  double bits = 0.0;
  std::map<std::string, double> sensitivities;
  struct Stage {
    std::string name;
    double seconds = 0.0;
    uint64_t peak_bytes = 0;  // The most memory that the process had until the stage's end.
  };
  std::vector<Stage> stages;        // Of calibration, and of NPU compiles.
  std::string calibration;          // "16384 tokens in 32 samples, sampled from the model"; empty: nothing was read.
  std::vector<std::string> shards;  // "layers.0-8: 219 MB"
  size_t variants_compiled = 0;     // By NpuOptions::tune_graphs.
  std::string graphs;               // "attention gqa+kv (decode), sha+k (prefill_128)", of NPU compiles.
  std::optional<EstimateReport> estimates;
  std::vector<std::string> warnings;
  // Of a file for several targets: the report of each. The fields above are then the first one's, but for the file's
  // size and the warnings.
  std::vector<CompileReport> programs = {};
  uint64_t program_bytes = 0;  // The segments that a program uses,
  uint64_t shared_bytes = 0;   // and what of them is stored for an earlier one.
};

Result<CompileReport> compile(const std::filesystem::path& checkpoint, const std::filesystem::path& output,
                              const CompileOptions& options);

}  // namespace tandem

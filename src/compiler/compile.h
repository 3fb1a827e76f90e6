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

#include "backends/qnn/compile/estimate_report.h"
#include "base/log.h"
#include "base/progress.h"
#include "compiler/passes/passes.h"
#include "quant/observer.h"
#include "quant/recipe.h"
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

struct NpuOptions {
  bool emulator = false;      // For the vendor's x86 library, which loads no shared weights.
  bool share_weights = true;  // False: each method has its own copy.
  // Of decode and of prefill methods; nothing: what is fastest by the vendor's estimates.
  std::optional<AttentionForm> decode_attention = {};
  std::optional<AttentionForm> prefill_attention = {};
  bool estimate = false;                     // The vendor's compiler simulates the methods (CompileReport::estimates).
  std::filesystem::path estimate_json = {};  // Where that is written to; needs `estimate`.
  bool tune_graphs = false;                  // Variants of a layer are compiled, and the fastest is taken.
  std::filesystem::path tune_cache = {};     // Where tuning keeps what it found; empty: the user's cache folder.
  bool trace = false;                        // Hidden states after each layer become outputs, for measurements.
  int shards = 0;                            // 0: as many as sizes ask for.
  int jobs = 0;                              // Shards that are compiled at a time; 0: as cores and memory allow.
  uint64_t memory = 0;         // Bytes that all of it may take; 0: kDefaultNpuMemory, or less where there is less.
  std::string libraries = {};  // Where Qualcomm's libraries are; "" searches.
  std::filesystem::path worker = {};  // tandem-qnn-worker; empty: beside this program.
};
inline constexpr uint64_t kDefaultNpuMemory = uint64_t{7} << 30;

struct CompileOptions {
  std::string target = "cpu";
  // Tokens per call of the prefill methods; empty for mode kv. These adapt, unless prefill_exact: lengths beyond the
  // context are left out, and on an NPU, where each is a graph to be compiled, lengths beyond 128.
  std::vector<int64_t> prefill = {32, 128, 512};
  bool prefill_exact = false;
  int64_t context = 0;  // Positions; 0: the model's own, up to kDefaultContext.
  Recipe recipe;
  std::optional<KvFormat> kv;                   // Instead of the recipe's.
  std::optional<ActivationFormat> activations;  // The same; the recipe's rules still win.
  std::optional<WeightSpec> head = {};          // The same.
  std::optional<int> rescore = {};
  CalibrationOptions calibration;
  NpuOptions npu;
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

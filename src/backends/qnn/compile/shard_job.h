// One shard of an NPU's file, compiled in a process of its own: a crash inside the vendor's library costs only this
// shard, and its memory is freed when it ends.
//
// The process gets a job as JSON, opens the checkpoint itself, quantizes the weights of its layers, and writes the
// binary and a result as JSON.
#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "backends/interface/estimate.h"
#include "backends/qnn/compile/graph_variant.h"
#include "backends/qnn/compile/shard_plan.h"
#include "compiler/passes/passes.h"
#include "models/builder.h"
#include "quant/quantize.h"
#include "tandem/log.h"
#include "tandem/status.h"

namespace tandem {

// How the methods of an NPU's file are made. Parent and worker make the same graphs from it.
struct StaticMethods {
  std::vector<MethodShape> shapes;
  bool f16 = false;  // Else integers, with the encodings of a table.
  GraphVariant variant;
  bool trace = false;
  bool embedding_on_host = false;
};
// The methods, followed by one of a single row that the LM head is extracted from.
Result<std::vector<ir::Graph>> build_static_methods(const ModelPlan& plan, const Recipe& recipe,
                                                    const StaticMethods& methods, const EncodingTable& encodings,
                                                    const DumpCallback& dump);

struct ShardJob {
  std::filesystem::path checkpoint;
  std::string config_name;
  std::string recipe;               // JSON
  std::filesystem::path encodings;  // Empty: none are needed.
  std::filesystem::path tuned;      // The folder with the tuned weights; empty: the recipe alone decides.
  StaticMethods methods;
  ShardRange shard;
  uint64_t source = 0;  // hash_shard_source(): the worker refuses a checkpoint other than the one that was hashed.
  uint32_t soc_model = 0;
  int arch = 0;
  int vtcm_mb = 0;
  int hvx_threads = 0;  // 0: the library's choice.
  int optimization_level = 3;
  bool weight_sharing = false;
  bool estimate = false;  // Asks for ShardResult::GraphResult::estimate.
  std::string libraries;
  LogLevel log_level = LogLevel::kError;  // The finest that the library should log.
  int threads = 1;
  std::filesystem::path output;  // Empty: only the estimates are wanted.

  std::string to_json() const;
  static Result<ShardJob> from_json(std::string_view text);
};

struct ShardResult {
  struct GraphResult {
    std::string name;
    uint64_t nodes = 0;
    double build_seconds = 0.0;
    double finalize_seconds = 0.0;
    std::optional<Estimate> estimate = {};
  };
  uint64_t size = 0;
  uint64_t hash = 0;
  uint64_t spill_fill_bytes = 0;
  uint64_t peak_memory = 0;
  double seconds = 0.0;
  std::string core_version;
  std::string backend_version;
  std::string build_id;
  std::vector<GraphResult> graphs;
  QuantizationReport report;

  std::string to_json() const;
  static Result<ShardResult> from_json(std::string_view text);
};

// "layers.0-8: 219 MB; 31.5 s (prefill_128 21.2 s, decode 9.8 s); 2600 MB of memory"
std::string describe_shard(const std::string& name, const ShardResult& result);

// Exit status of a worker whose job can never succeed: a weight that is NaN, a shape that cannot be lowered.
inline constexpr int kWorkerRefused = 3;

// A worker's output is a stage in each line, or a message for the log: "!warning: this is slow".
std::string log_line(LogLevel level, std::string_view message);
struct LogLine {
  LogLevel level = LogLevel::kError;
  std::string_view message;
};
// Nothing, if the line is a stage.
std::optional<LogLine> parse_log_line(std::string_view line);

// In the worker. `stage` is called with the stage that begins.
Result<ShardResult> run_shard_job(const ShardJob& job, const std::function<void(std::string_view stage)>& stage);

}  // namespace tandem

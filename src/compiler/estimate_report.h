// The vendor's compiler's estimates of a file's methods, added up over shards and over the calls of a prompt.
//
// Nothing here is measured: the compiler simulates its own schedule (docs/performance.md, "Estimates"). The sums
// exclude what happens between the graphs: the CPU's embedding, the cache's rows, the calls.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "artifact/header.h"
#include "backends/interface/estimate.h"
#include "base/json.h"
#include "tandem/status.h"

namespace tandem {

// One call of a method, or of the LM head.
struct MethodEstimate {
  struct Shard {
    std::string name;
    Estimate estimate;
  };
  std::string name;
  int64_t tokens = 1;
  Estimate total;
  std::vector<Shard> shards;
};

// The rate of streaming weights, which a decode step cannot exceed.
struct StreamingRate {
  double bytes_per_us = 0.0;
  bool of_head = false;  // As the LM head of this model does; else as measured for the architecture.
};

struct EstimateReport {
  std::string target;     // The compile's target,
  std::string simulated;  // and the target that was simulated: the same, or a relative.
  uint32_t soc_model = 0;
  int arch = 0;
  int vtcm_mb = 0;
  double arch_bytes_per_us = 0.0;  // The architecture's rate of streaming weights; 0: not known.
  int64_t context = 0;
  std::vector<MethodEstimate> methods;  // By tokens; the first is decode. Without the LM head.
  MethodEstimate lm_head;

  bool of_relative() const { return simulated != target; }
  // A relative of the target's own architecture runs the same instructions; another one does not.
  int target_arch = 0;
  bool of_other_arch() const { return arch != target_arch; }

  // Decode of all shards and the LM head: one token.
  double us_per_token() const;
  double tokens_per_second() const;
  uint64_t bytes_per_token() const;
  // The calls that the run time makes for a prompt, and one call of the LM head.
  double first_token_us(int64_t prompt) const;
  // The prompts that a report shows: 128, 512, 1024 as far as the context goes, or one of the whole context.
  std::vector<int64_t> shown_prompts() const;

  StreamingRate streaming_rate() const;
  // The share of it that an estimate's reads reach.
  double share_of_streaming_rate(const Estimate& estimate) const;

  Json to_json() const;
  // For the file: totals of each method ("estimate.decode.us"), and values derived from them.
  std::vector<Metric> metrics() const;
};

// Ops without a cost by type: "8 RotaryEmbedding (layers.0.attention.k.rope, …), 1 Softmax (layers.0.attention.p)".
std::string describe_uncosted(std::span<const std::string> ops);

// "sa8255 (SoC 52, Hexagon V73, 8 MB of VTCM)", or that it is a relative, and of which target.
std::string describe_simulated(const EstimateReport& report);

// Whether a file is one that --estimate-json wrote.
bool is_estimate_file(const std::filesystem::path& path);

// ---- From a file ----

// The metrics that metrics() stored.
struct StoredEstimate {
  struct Method {
    std::string name;
    Estimate estimate;  // Its uncosted_ops are empty:
    uint64_t uncosted_ops = 0;
  };
  uint32_t soc_model = 0;
  double tokens_per_second = 0.0;
  uint64_t bytes_per_token = 0;
  std::vector<Method> methods;
  std::vector<std::pair<int64_t, double>> first_token_us;  // By the prompt's tokens.
};
// Nothing if the file has none. Metrics that no compile writes are ignored.
std::optional<StoredEstimate> stored_estimate(std::span<const Metric> metrics);
bool is_estimate_metric(const Metric& metric);

}  // namespace tandem

// Lowering: static graphs of the IR to graphs of one QNN context, finalized and ready to be serialized or run.
//
// Requirements: every activation is u16 with an encoding, or all are f16; attention is in its expanded form
// (ir/graph.h); caches are read only. The QNN graph's inputs and outputs are the IR's inputs, states and outputs, with
// the same names. What cannot be lowered is refused with the op and the tensor.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "backends/qnn/api/context.h"
#include "backends/qnn/api/graph.h"
#include "ir/graph.h"
#include "numerics/weight_matrix.h"
#include "tandem/status.h"

namespace tandem::qnn {

// The source of constants. Each is loaded once, however many graphs and ops use it.
class LoweringWeights {
 public:
  virtual ~LoweringWeights() = default;
  virtual Result<WeightMatrix> matrix(const ir::Tensor& weight) const = 0;  // In weight.format and weight.block.
  virtual Result<std::vector<float>> vector(std::string_view name) const = 0;
};

struct LoweringOptions {
  int optimization_level = 3;  // 2 or 3.
  int hvx_threads = 0;         // 0: the library's choice.
  // Output channels of a weight that one transfer to VTCM has, where graphs share weights; 0: the library's 64.
  int weight_tile_channels = 0;
  bool estimate = false;  // Lets the library simulate the finalized graphs (LoweredGraph::estimate).
  // What begins now: "weight layers.0.mlp.up", "ops of decode", "finalize decode".
  std::function<void(std::string_view stage)> progress = {};
  // Polled between weights and between graphs; true ends the lowering with kCancelled. The library itself cannot be
  // interrupted.
  std::function<bool()> stop = {};
};

struct NamedGraph {
  std::string name;  // Unique in the context.
  const ir::Graph* graph = nullptr;
};

struct LoweredGraph {
  std::string name;
  size_t nodes = 0;
  double build_seconds = 0;  // Constants and ops, without the time that LoweringWeights took.
  double finalize_seconds = 0;
  std::optional<Estimate> estimate = {};    // If it was asked for, and the library knows the chip's speed.
  std::shared_ptr<const Graph> graph = {};  // Runs as long as the context has not been freed.
};

// Adds all graphs to the context and finalizes them. After a failure the context has graphs that are not finished: drop
// it.
Result<std::vector<LoweredGraph>> lower_graphs(const std::shared_ptr<const Context>& context,
                                               std::span<const NamedGraph> graphs, const LoweringWeights& weights,
                                               const LoweringOptions& options = {});

}  // namespace tandem::qnn

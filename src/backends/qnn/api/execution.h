// Execution: a finalized graph with buffers for its inputs and outputs. Sizes are checked here, since the library
// checks none. run() allocates nothing.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "backends/qnn/api/graph.h"
#include "tandem/status.h"

namespace tandem::qnn {

class Execution {
 public:
  static Result<Execution> create(std::shared_ptr<const Graph> graph);

  const Graph& graph() const { return *graph_; }
  std::optional<size_t> find_input(std::string_view name) const;
  std::optional<size_t> find_output(std::string_view name) const;

  // By place in graph().inputs() and outputs(). The buffer must have exactly the tensor's bytes and stay until the last
  // run().
  Status set_input(size_t index, std::span<const uint8_t> buffer);
  Status set_output(size_t index, std::span<uint8_t> buffer);

  // Every buffer must be set, and no output may lie in another buffer: the graph runs on several threads, and a value
  // could be overwritten before it is read.
  Status run();

 private:
  explicit Execution(std::shared_ptr<const Graph> graph) : graph_(std::move(graph)) {}
  Status check_buffers() const;

  std::shared_ptr<const Graph> graph_;
  std::vector<abi::Tensor> inputs_;
  std::vector<abi::Tensor> outputs_;
  bool checked_ = false;  // Since a buffer was set last.
};

}  // namespace tandem::qnn

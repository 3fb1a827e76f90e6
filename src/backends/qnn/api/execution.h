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
#include "backends/qnn/api/shared_memory.h"
#include "tandem/status.h"

namespace tandem::qnn {

class Execution {
 public:
  static Result<Execution> create(std::shared_ptr<const Graph> graph);

  const Graph& graph() const { return *graph_; }
  std::optional<size_t> find_input(std::string_view name) const;
  std::optional<size_t> find_output(std::string_view name) const;

  // By index into graph().inputs() and outputs(). The buffer must have exactly the tensor's bytes and stay until the
  // last run().
  // With `shared`, which says that the buffer is known to the graph's context, it is not copied to the device and back.
  Status set_input(size_t index, std::span<const uint8_t> buffer, std::shared_ptr<const SharedTensor> shared = nullptr);
  Status set_output(size_t index, std::span<uint8_t> buffer, std::shared_ptr<const SharedTensor> shared = nullptr);

  // Every buffer must be set, and no output may lie in another buffer: the graph runs on several threads, and a value
  // could be overwritten before it is read.
  Status run();

 private:
  explicit Execution(std::shared_ptr<const Graph> graph) : graph_(std::move(graph)) {}
  Status check_buffers() const;

  // The tensors as the library expects them, and the address of each one's bytes, however they are passed.
  struct Side {
    std::vector<abi::Tensor> tensors;
    std::vector<std::span<const uint8_t>> buffers;
    std::vector<std::shared_ptr<const SharedTensor>> shared;
  };
  static Side make_side(const std::vector<TensorInfo>& infos, TensorKind kind);
  Status set_buffer(const std::vector<TensorInfo>& infos, Side& side, size_t index, std::span<const uint8_t> buffer,
                    std::shared_ptr<const SharedTensor> shared);

  std::shared_ptr<const Graph> graph_;
  Side inputs_;
  Side outputs_;
  bool checked_ = false;  // Since a buffer was set last.
};

}  // namespace tandem::qnn

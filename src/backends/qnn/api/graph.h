// Graph: tensors and ops of one method, built and finalized here or retrieved from a loaded context. execution.h runs
// it.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_set>
#include <variant>
#include <vector>

#include "backends/interface/estimate.h"
#include "backends/qnn/api/binary_info.h"
#include "backends/qnn/api/context.h"
#include "backends/qnn/api/tensor_builder.h"
#include "tandem/status.h"

namespace tandem::qnn {

// A tensor of a graph that is being built.
struct TensorRef {
  uint32_t index = 0;
};

// Parameters that are tensors, such as axes or a permutation.
struct U32Values {
  Shape shape;
  std::vector<uint32_t> values;
};
struct I32Values {
  Shape shape;
  std::vector<int32_t> values;
};

struct NodeParam {
  std::string name;
  std::variant<uint32_t, int32_t, float, bool, U32Values, I32Values> value;
};

struct NodeSpec {
  std::string name;  // Unique in the graph.
  std::string type;  // QNN's name of the op, such as "MatMul".
  std::vector<TensorRef> inputs;
  std::vector<TensorRef> outputs;
  std::vector<NodeParam> params = {};
};

// An option of the vendor's compiler, by its name in the compiler's log. Unknown names are silently ignored.
struct CompilerOption {
  std::string name;
  uint32_t value = 0;
};

class Graph {
 public:
  struct Options {
    int optimization_level =
        3;                 // 2 or 3. The library's level 1 gives numbers that are wrong and change from run to run.
    int vtcm_mb = 0;       // 0: what the device has.
    bool float16 = false;  // Floats are computed in fp16. For graphs with float tensors.
    int hvx_threads = 0;   // 0: the library's choice.
    std::vector<CompilerOption> compiler_options = {};
  };
  static Result<std::shared_ptr<Graph>> create(std::shared_ptr<const Context> context, std::string name,
                                               const Options& options);
  static Result<std::shared_ptr<Graph>> create(std::shared_ptr<const Context> context, std::string name) {
    return create(std::move(context), std::move(name), Options());
  }
  // `info` describes the graph in the binary that `context` was loaded from.
  static Result<std::shared_ptr<Graph>> retrieve(std::shared_ptr<const Context> context, const GraphInfo& info);
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;

  // The library copies constants and their scales: `spec` and what it borrows may go away.
  Result<TensorRef> add_tensor(const TensorSpec& spec);
  // Tensors first, and ops in the order they run. The op is validated for the device; one that is rejected is not
  // added, because the library would accept it in the graph, and compute something wrong. A failure leaves the graph
  // usable.
  Status add_node(const NodeSpec& spec);
  // Compiles. Seconds to minutes.
  Status finalize();
  // The same, and lets the library simulate what it compiled. Nothing for chips that it has no simulation of.
  Result<std::optional<Estimate>> finalize_with_estimate();

  const std::string& name() const { return name_; }
  bool finalized() const { return state_ == State::kFinalized; }
  const std::vector<TensorInfo>& inputs() const { return inputs_; }
  const std::vector<TensorInfo>& outputs() const { return outputs_; }
  size_t node_count() const { return node_names_.size(); }
  const std::shared_ptr<const Context>& context() const { return context_; }
  const abi::CoreTable& core() const { return context_->core(); }
  abi::Handle handle() const { return handle_; }
  // Held while the graph runs: a graph has one set of buffers inside, and takes one caller at a time.
  std::mutex& execute_mutex() const { return execute_mutex_; }

 private:
  enum class State { kBuilding, kFinalized, kFailed };
  // A tensor as the library sees it, with all that it points to. Stays where it is.
  struct Stored {
    std::string name;
    Shape shape;
    std::vector<ScaleOffset> scale_offsets;
    std::vector<uint8_t> multipliers;
    std::vector<uint8_t> data;  // Of small constants, until finalize().
    abi::BlockwiseExpansion expansion = {};
    abi::Tensor tensor = {};
    bool produced = false;  // By an op that was added.
  };

  Graph(std::shared_ptr<const Context> context, std::string name)
      : context_(std::move(context)), name_(std::move(name)) {}

  static void fill(const TensorSpec& spec, Stored& stored);
  Status finalize(abi::Handle profile);
  Status check_node(const NodeSpec& spec) const;
  Status make_params(const NodeSpec& spec, std::vector<abi::Param>& params);

  std::shared_ptr<const Context> context_;
  std::string name_;
  abi::Handle handle_ = nullptr;  // Belongs to the context.
  State state_ = State::kBuilding;
  std::deque<Stored> tensors_;
  std::unordered_set<std::string> tensor_names_;
  std::unordered_set<std::string> node_names_;
  std::vector<TensorInfo> inputs_;
  std::vector<TensorInfo> outputs_;
  mutable std::mutex execute_mutex_;
};

}  // namespace tandem::qnn

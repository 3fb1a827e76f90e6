// Emitter: adds tensors and nodes to a QNN graph, names the nodes after their outputs, and translates an IR tensor's
// dtype and encoding to QNN's.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "backends/qnn/api/graph.h"
#include "backends/qnn/api/tensor_builder.h"
#include "ir/graph.h"
#include "tandem/status.h"

namespace tandem::qnn {

struct TensorType {
  DataType dtype = DataType::kFixedU16;
  std::optional<ScaleOffset> encoding;

  bool is_float() const { return !encoding.has_value(); }
};

// Activations, inputs, outputs and states. Refuses what no static graph has, such as f32.
Result<TensorType> type_of(const ir::Tensor& tensor);
// IR: value = scale * (q - zero_point). QNN: value = scale * (q + offset).
inline ScaleOffset scale_offset(const ir::Encoding& encoding) { return {encoding.scale, -encoding.zero_point}; }
// A dimension of a verified graph.
inline uint32_t dim(int64_t value) { return static_cast<uint32_t>(value); }

class Emitter {
 public:
  explicit Emitter(std::shared_ptr<Graph> graph) : graph_(std::move(graph)) {}

  Result<TensorRef> add(const TensorSpec& spec);
  Result<TensorRef> add(TensorKind kind, std::string name, const TensorType& type, Shape shape) {
    return add(make_tensor(kind, std::move(name), type.dtype, std::move(shape), type.encoding));
  }
  // One output: the node is named after it.
  Status node(std::string_view type, std::vector<TensorRef> inputs, TensorRef output,
              std::vector<NodeParam> params = {});

  const std::shared_ptr<Graph>& graph() const { return graph_; }

 private:
  std::shared_ptr<Graph> graph_;
  std::unordered_map<uint32_t, std::string> names_;  // By TensorRef::index.
};

}  // namespace tandem::qnn

// GraphLowering: one IR graph to one QNN graph, op by op. Ops are in lower_linear.cpp, lower_norm.cpp,
// lower_attention.cpp and lower_elementwise.cpp.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "backends/qnn/lower/constants.h"
#include "backends/qnn/lower/emitter.h"
#include "backends/qnn/lower/lower.h"
#include "backends/qnn/lower/values.h"
#include "ir/graph.h"
#include "tandem/status.h"

namespace tandem::qnn {

class GraphLowering {
 public:
  // `graph` is verified and outlives this; `target` is empty.
  GraphLowering(const ir::Graph& graph, std::shared_ptr<Graph> target, VectorCache& vectors)
      : graph_(graph), emitter_(std::move(target)), values_(graph, emitter_), vectors_(vectors) {}
  GraphLowering(const GraphLowering&) = delete;
  GraphLowering& operator=(const GraphLowering&) = delete;

  const std::shared_ptr<Graph>& target() const { return emitter_.graph(); }

  // The matrices that must be added with add_matrix() before lower().
  std::vector<MatrixUse> matrix_uses() const;
  Status add_matrix(const TensorSpec& spec);
  // Inputs and ops.
  Status lower();

 private:
  using TensorId = ir::TensorId;

  Status check_support() const;
  Status lower_op();

  // lower_linear.cpp
  Status linear();
  Status embedding();
  // lower_norm.cpp
  Status rms_norm();
  Status layer_norm();
  Status layer_norm_fixed(const TensorType& type, const std::vector<float>& gamma, const std::vector<float>& beta);
  // lower_attention.cpp
  Status rope_table();
  Status rope();
  Status rope_by_parts(int64_t heads);
  Status hadamard();
  Status split_heads();
  Status join_heads();
  Status append_rows();
  Status matmul();
  Status add_mask();
  Status softmax();
  Status masked_softmax();
  Layout score_layout() const;
  std::vector<NodeParam> softmax_params(const Layout& layout) const;
  // lower_elementwise.cpp
  Status binary(std::string_view type);
  Status unary(std::string_view type);
  Status scale();
  Status softcap();
  Status add_vector();
  Status concat();
  Status slice();
  Status convert();

  // ---- Helpers; all refer to op_ ----

  TensorId in_id(size_t i = 0) const { return op_->inputs[i]; }
  TensorId out_id(size_t i = 0) const { return op_->outputs[i]; }
  const ir::Tensor& in(size_t i = 0) const { return graph_.at(in_id(i)); }
  const ir::Tensor& out(size_t i = 0) const { return graph_.at(out_id(i)); }
  int64_t width(const ir::Tensor& tensor) const { return tensor.shape.back(); }
  Result<const std::vector<float>*> vector(size_t i) { return vectors_.get(in(i)); }
  abi::Version htp_version() const {
    return emitter_.graph()->context()->device()->backend()->library()->htp_version();
  }
  // A tensor between two nodes of one op.
  Result<TensorRef> between(std::string_view suffix, const TensorType& type, Shape shape);
  // A constant of this graph, made once for each name.
  Result<TensorRef> constant(const TensorSpec& spec);
  Result<TensorRef> matrix(const MatrixUse& use) const;
  // Another dtype or encoding, if the two differ. The result is in one of the layouts that `from` has.
  Status reencode(TensorId from, TensorId to, const Layout& layout);

  const ir::Graph& graph_;
  Emitter emitter_;
  Values values_;
  VectorCache& vectors_;
  std::map<std::string, TensorRef, std::less<>> constants_;
  const ir::Op* op_ = nullptr;
};

}  // namespace tandem::qnn

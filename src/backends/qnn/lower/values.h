// Values: which QNN tensors hold the values of each IR tensor, and in what layout.
//
// A value may exist in several layouts; others are made on demand by Reshape and Transpose, which keep quantized values
// and encoding. So a rope, which HTP computes head by head, is followed by no layout op when its reader wants heads.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "backends/qnn/lower/emitter.h"
#include "ir/graph.h"
#include "tandem/status.h"

namespace tandem::qnn {

// The order of the numbers in memory, and a shape over them. `heads` 1: [rows, width], row by row. `heads` h: h parts
// of each row apart, [h, rows, width / h]. One row is the same either way and counts as 1.
struct Layout {
  uint32_t heads = 1;
  Shape shape;

  bool operator==(const Layout&) const = default;
};

class Values {
 public:
  // Both must outlive this.
  Values(const ir::Graph& graph, Emitter& emitter) : graph_(graph), emitter_(emitter), forms_(graph.tensors.size()) {}

  // Inputs and states become inputs of the QNN graph. One that no op reads is refused: both graphs have the same inputs
  // and outputs.
  Status add_inputs();

  // Layouts of an IR tensor [N, W] or [H, N, D].
  Layout io_layout(ir::TensorId id) const;             // As graph input or output: [1, 1, N, W], [1, H, N, D].
  Layout rows(ir::TensorId id) const;                  // [1, 1, N, W]
  Layout split(ir::TensorId id, int64_t heads) const;  // [1, N, heads, W / heads], row by row.
  Layout heads(ir::TensorId id, int64_t heads) const;  // [1, heads, N, W / heads], head by head.
  // [1, groups, heads / groups * N, W / heads], head by head: what several heads multiply with one matrix.
  Layout grouped(ir::TensorId id, int64_t heads, int64_t groups) const;
  // An existing layout with this last dimension; the I/O layout if there is none.
  Layout with_last(ir::TensorId id, int64_t last) const;
  // A layout that both have, or the I/O layout.
  Layout common(ir::TensorId a, ir::TensorId b) const;
  bool has(ir::TensorId id, const Layout& layout) const;

  // The value in this layout, made if it is not there.
  Result<TensorRef> get(ir::TensorId id, const Layout& layout);
  // A new tensor in this layout, for an op to write.
  Result<TensorRef> define(ir::TensorId id, const Layout& layout);
  // `to` has the numbers and the encoding of `from`, and so its tensors.
  Status alias(ir::TensorId to, ir::TensorId from);
  // Called after the op that writes `id`: makes an output of the graph available in the I/O layout.
  Status finish(ir::TensorId id);

 private:
  struct Form {
    Layout layout;
    TensorRef ref;
  };
  // [rows, width] of the tensor, whatever its rank.
  int64_t row_count(ir::TensorId id) const;
  int64_t width(ir::TensorId id) const;
  Layout layout(ir::TensorId id, int64_t heads, Shape shape) const;
  Shape index_shape(ir::TensorId id) const;
  Result<TensorRef> make(ir::TensorId id, const Layout& layout, TensorRef from, bool transposes);

  const ir::Graph& graph_;
  Emitter& emitter_;
  std::vector<std::vector<Form>> forms_;  // By TensorId.
};

}  // namespace tandem::qnn

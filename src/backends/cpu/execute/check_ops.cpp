#include "backends/cpu/execute/check_ops.h"

#include "base/error.h"
#include "ir/op_table.h"

namespace tandem::cpu {
namespace {

using ir::OpKind;
using ir::Tensor;
using ir::TensorRole;

Status not_float(const ir::Graph& graph, const Tensor& t) {
  return unsupported("method \"{}\" computes \"{}\" as {}, which the CPU does not do; compile it with `target` cpu",
                     graph.name, t.name, dtype_name(t.dtype));
}

}  // namespace

Status check_ops(const ir::Graph& graph) {
  for (const ir::Op& op : graph.ops) {
    if (!op_info(op.kind).is_dynamic()) {
      return unsupported("method \"{}\" has the op {}, which the CPU does not run; compile it with `target` cpu",
                         graph.name, op_kind_name(op.kind));
    }
    for (const ir::TensorId id : op.inputs) {
      const Tensor& t = graph.at(id);
      const bool is_numbers = t.role == TensorRole::kActivation || t.role == TensorRole::kOutput ||
                              (t.role == TensorRole::kInput && t.dtype != DType::kI32);
      if (is_numbers && t.dtype != DType::kF32 && op.kind != OpKind::kMaskToFloat) return not_float(graph, t);
    }
    for (const ir::TensorId id : op.outputs) {
      const Tensor& t = graph.at(id);
      if (t.shape.size() != 2) {
        return unsupported(
            "method \"{}\" has heads apart in \"{}\", which the CPU does not do; compile it with `target` cpu",
            graph.name, t.name);
      }
      if (t.dtype != DType::kF32 && op.kind != OpKind::kConvert) return not_float(graph, t);
    }
  }
  return ok_status();
}

}  // namespace tandem::cpu

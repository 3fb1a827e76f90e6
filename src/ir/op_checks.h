// What the verifier asks of an op's tensors. All of it speaks of one op of one graph.
#pragma once

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "ir/graph.h"
#include "tandem/status.h"

namespace tandem::ir {

class OpChecks {
 public:
  explicit OpChecks(const Graph& graph, const Op* op = nullptr) : graph_(graph), op_(op) {}

 protected:
  const Tensor& in(size_t i) const { return graph_.at(op_->inputs[i]); }
  const Tensor& out(size_t i) const { return graph_.at(op_->outputs[i]); }

  Status arity(size_t min_inputs, size_t max_inputs, size_t outputs) const {
    if (op_->inputs.size() < min_inputs || op_->inputs.size() > max_inputs || op_->outputs.size() != outputs) {
      return corrupt("has {} inputs and {} outputs", op_->inputs.size(), op_->outputs.size());
    }
    return ok_status();
  }

  // Numbers that ops compute with: floats, or integers with one encoding.
  Status numbers(const Tensor& t) const {
    if (t.role == TensorRole::kWeight || t.role == TensorRole::kState || t.role == TensorRole::kVector) {
      return corrupt("\"{}\" should be an activation", t.name);
    }
    const bool is_float = t.dtype == DType::kF32 || t.dtype == DType::kF16;
    const bool is_encoded =
        (t.dtype == DType::kU16 || t.dtype == DType::kU8) && t.encoding.kind == EncodingKind::kPerTensor;
    if (!is_float && !is_encoded) return corrupt("\"{}\" is no numbers to compute with", t.name);
    return ok_status();
  }

  // An activation [tokens, width]; width 0 means any.
  Status rows(const Tensor& t, int64_t width = 0) const {
    TANDEM_TRY(numbers(t));
    if (t.shape.size() != 2 || t.shape[0] != graph_.tokens) {
      return corrupt("\"{}\" should be [{}, width]", t.name, graph_.tokens);
    }
    if (width != 0 && t.shape[1] != width) {
      return corrupt("\"{}\" is {} wide and should be {}", t.name, t.shape[1], width);
    }
    return ok_status();
  }

  // An activation [heads, rows, width]; 0 means any.
  Status heads(const Tensor& t, int64_t head_count, int64_t row_count, int64_t width) const {
    TANDEM_TRY(numbers(t));
    const bool fits = t.shape.size() == 3 && (head_count == 0 || t.shape[0] == head_count) &&
                      (row_count == 0 || t.shape[1] == row_count) && (width == 0 || t.shape[2] == width);
    if (!fits) return corrupt("\"{}\" should be [{}, {}, {}]", t.name, head_count, row_count, width);
    return ok_status();
  }

  Status vector(const Tensor& t, int64_t length) const {
    if (t.role != TensorRole::kVector || (length != 0 && t.shape[0] != length)) {
      return corrupt("\"{}\" should be a vector of {}", t.name, length);
    }
    return ok_status();
  }

  Status weight(const Tensor& t, int64_t rows_wanted, int64_t cols) const {
    if (t.role != TensorRole::kWeight || (rows_wanted != 0 && t.shape[0] != rows_wanted) ||
        (cols != 0 && t.shape[1] != cols)) {
      return corrupt("\"{}\" should be a weight of [{}, {}]", t.name, rows_wanted, cols);
    }
    return ok_status();
  }

  Status indices(const Tensor& t) const {
    if (t.role != TensorRole::kInput || t.dtype != DType::kI32 || t.shape.size() != 1 || t.shape[0] != graph_.tokens) {
      return corrupt("\"{}\" should be an input of i32 [{}]", t.name, graph_.tokens);
    }
    return ok_status();
  }

  // A KV cache [kv heads, slots, head_dim], with its scales [kv heads, slots, 2] where its dtype is u8. There are as
  // many slots as the context has positions, or fewer, but `least`.
  Status cache(const Tensor& t, const Tensor* scales, int64_t head_dim, int64_t least) const {
    if (t.role != TensorRole::kState || t.shape.size() != 3 || t.shape[1] > graph_.context ||
        t.shape[1] < std::min(least, graph_.context) || t.shape[2] != head_dim) {
      return corrupt("\"{}\" should be a state of [heads, {}, {}]", t.name, std::min(least, graph_.context), head_dim);
    }
    if (scales != nullptr && (scales->role != TensorRole::kState || scales->dtype != DType::kF32 ||
                              scales->shape != std::vector<int64_t>{t.shape[0], t.shape[1], 2})) {
      return corrupt("\"{}\" should be the f32 scales of \"{}\"", scales->name, t.name);
    }
    if (t.dtype == DType::kU8) {
      if (t.encoding.kind != EncodingKind::kDynamicPerRow || scales == nullptr) {
        return corrupt("the u8 cache \"{}\" needs scales per row", t.name);
      }
      return ok_status();
    }
    if (t.dtype != DType::kF32 && t.dtype != DType::kF16) {
      return unsupported("\"{}\" has dtype {}; caches are f32, f16 or u8", t.name, dtype_name(t.dtype));
    }
    return ok_status();
  }

  Status head_dim_divides(const Tensor& t) const {
    const int64_t head_dim = op_->attributes.head_dim;
    if (head_dim < 1 || t.shape[1] % head_dim != 0) {
      return corrupt("a width of {} is no multiple of the head size {}", t.shape[1], head_dim);
    }
    return ok_status();
  }

  Status finite_attributes() const {
    const OpAttributes& a = op_->attributes;
    if (!std::isfinite(a.eps) || !std::isfinite(a.weight_offset) || !std::isfinite(a.factor) ||
        !std::isfinite(a.softcap) || a.eps < 0.0f || a.softcap < 0.0f || a.window < 0) {
      return corrupt("has an attribute that is no usable number");
    }
    return ok_status();
  }

  Status same_rows(size_t inputs) const {
    TANDEM_TRY(arity(inputs, inputs, 1));
    for (size_t i = 0; i < inputs; ++i) TANDEM_TRY(rows(in(i), in(0).shape.back()));
    return rows(out(0), in(0).shape.back());
  }

  Status same_heads(size_t inputs) const {
    TANDEM_TRY(arity(inputs, inputs, 1));
    TANDEM_TRY(heads(in(0), 0, graph_.tokens, 0));
    for (size_t i = 1; i < inputs; ++i) TANDEM_TRY(heads(in(i), in(0).shape[0], in(0).shape[1], in(0).shape[2]));
    return heads(out(0), in(0).shape[0], in(0).shape[1], in(0).shape[2]);
  }

  const Graph& graph_;
  const Op* op_;
};

// Ops of the form with fixed graphs.
Status verify_static_op(const Graph& graph, const Op& op);

}  // namespace tandem::ir

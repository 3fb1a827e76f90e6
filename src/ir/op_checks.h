// The verifier's checks of an op's tensors, for one op of one graph.
#pragma once

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "ir/graph.h"
#include "ir/op_table.h"
#include "tandem/status.h"

namespace tandem::ir {

class OpChecks {
 public:
  explicit OpChecks(const Graph& graph, const Op* op = nullptr) : graph_(graph), op_(op) {}

 protected:
  const Tensor& in(size_t i) const { return graph_.at(op_->inputs[i]); }
  const Tensor& out(size_t i) const { return graph_.at(op_->outputs[i]); }

  // The number of inputs and outputs, and the kind of each input (op_table.h). Shapes are left to the op's own checks.
  Status signature() const {
    const OpInfo& info = op_info(op_->kind);
    const size_t inputs = op_->inputs.size();
    if (inputs < info.min_inputs() || inputs > info.max_inputs() || op_->outputs.size() != info.outputs) {
      return corrupt("has {} inputs and {} outputs", inputs, op_->outputs.size());
    }
    for (size_t i = 0; i < inputs; ++i) TANDEM_TRY(input_kind(in(i), info.input(i)));
    if (op_->attributes.on_host && !info.may_run_on_host) return corrupt("is left to the CPU, and is a device's");
    return ok_status();
  }

  Status input_kind(const Tensor& t, InputKind kind) const {
    switch (kind) {
      case InputKind::kNumbers: return numbers(t);
      case InputKind::kNumbersOrCache: return t.role == TensorRole::kState ? ok_status() : numbers(t);
      case InputKind::kIndices: return indices(t);
      case InputKind::kMask: TANDEM_TRY(numbers(t)); return of_role(t, TensorRole::kInput, "a mask, an input");
      case InputKind::kEncodedMask: return of_role(t, TensorRole::kInput, "a mask, an input");
      case InputKind::kWeight: return of_role(t, TensorRole::kWeight, "a weight");
      case InputKind::kVector: return of_role(t, TensorRole::kVector, "a vector");
      case InputKind::kCache: return of_role(t, TensorRole::kState, "a state");
      case InputKind::kCacheScales: return of_role(t, TensorRole::kState, "a state with the scales of a cache");
    }
    return corrupt("reads something unknown");
  }

  static Status of_role(const Tensor& t, TensorRole role, const char* what) {
    if (t.role != role) return corrupt("\"{}\" should be {}", t.name, what);
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

  static Status vector(const Tensor& t, int64_t length) {
    if (t.shape[0] != length) return corrupt("\"{}\" should be a vector of {}", t.name, length);
    return ok_status();
  }

  Status indices(const Tensor& t) const {
    if (t.role != TensorRole::kInput || t.dtype != DType::kI32 || t.shape.size() != 1 || t.shape[0] != graph_.tokens) {
      return corrupt("\"{}\" should be an input of i32 [{}]", t.name, graph_.tokens);
    }
    return ok_status();
  }

  // A KV cache [kv heads, slots, head_dim], with its scales [kv heads, slots, 2] where its dtype is u8. It has at most
  // as many slots as the context has positions, and at least `least`.
  Status cache(const Tensor& t, const Tensor* scales, int64_t head_dim, int64_t least) const {
    if (t.shape.size() != 3 || t.shape[1] > graph_.context || t.shape[1] < std::min(least, graph_.context) ||
        t.shape[2] != head_dim) {
      return corrupt("\"{}\" should be a state of [heads, {}, {}]", t.name, std::min(least, graph_.context), head_dim);
    }
    if (scales != nullptr &&
        (scales->dtype != DType::kF32 || scales->shape != std::vector<int64_t>{t.shape[0], t.shape[1], 2})) {
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

  // All inputs and the output have one width.
  Status same_rows() const {
    for (size_t i = 0; i < op_->inputs.size(); ++i) TANDEM_TRY(rows(in(i), in(0).shape.back()));
    return rows(out(0), in(0).shape.back());
  }

  Status same_heads() const {
    TANDEM_TRY(heads(in(0), 0, graph_.tokens, 0));
    for (size_t i = 1; i < op_->inputs.size(); ++i)
      TANDEM_TRY(heads(in(i), in(0).shape[0], in(0).shape[1], in(0).shape[2]));
    return heads(out(0), in(0).shape[0], in(0).shape[1], in(0).shape[2]);
  }

  const Graph& graph_;
  const Op* op_;
};

// An op of fixed graphs whose signature has been checked.
Status verify_static_op(const Graph& graph, const Op& op);

}  // namespace tandem::ir

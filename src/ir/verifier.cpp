#include "ir/verifier.h"

#include <algorithm>
#include <cmath>
#include <unordered_set>

#include "base/error.h"
#include "ir/fake_quant.h"
#include "ir/verify_rescore.h"
#include "ir/verify_tensor.h"

namespace tandem::ir {
namespace {

// A thousand layers take half of these. Planners may be quadratic in them.
constexpr size_t kMaxTensors = 1u << 16, kMaxOps = 1u << 16;
constexpr size_t kMaxConcat = 256;

class Verifier {
 public:
  explicit Verifier(const Graph& graph) : graph_(graph), written_(graph.tensors.size(), false) {}

  Status run() {
    if (graph_.tokens < 1 || graph_.context < graph_.tokens) {
      return corrupt("graph \"{}\": {} tokens per call do not fit a context of {}", graph_.name, graph_.tokens,
                     graph_.context);
    }
    if (graph_.tokens > kMaxDim || graph_.context > kMaxDim) return corrupt("graph \"{}\" is too large", graph_.name);
    if (graph_.tensors.size() > kMaxTensors || graph_.ops.size() > kMaxOps) {
      return corrupt("graph \"{}\" has too many tensors or ops", graph_.name);
    }
    std::unordered_set<std::string_view> names;
    for (size_t i = 0; i < graph_.tensors.size(); ++i) {
      if (graph_.tensors[i].name.empty()) return corrupt("graph \"{}\" has a tensor with no name", graph_.name);
      TANDEM_TRY(verify_tensor(graph_.tensors[i]));
      if (!names.insert(graph_.tensors[i].name).second) {
        return corrupt("graph \"{}\" has two tensors named \"{}\"", graph_.name, graph_.tensors[i].name);
      }
      const TensorRole role = graph_.tensors[i].role;
      written_[i] = role != TensorRole::kActivation && role != TensorRole::kOutput;
    }
    for (size_t i = 0; i < graph_.ops.size(); ++i) {
      if (Status status = check_op(graph_.ops[i]); !status.ok()) {
        return with_context(std::move(status).error(), "graph \"{}\", op {} ({})", graph_.name, i,
                            op_kind_name(graph_.ops[i].kind));
      }
    }
    for (size_t i = 0; i < graph_.tensors.size(); ++i) {
      if (graph_.tensors[i].role == TensorRole::kOutput && !written_[i]) {
        return corrupt("graph \"{}\": nothing writes the output \"{}\"", graph_.name, graph_.tensors[i].name);
      }
    }
    return ok_status();
  }

 private:
  // ---- Helpers that read op_ ----

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

  Status check_op(const Op& op) {
    op_ = &op;
    if (static_cast<int>(op.kind) >= kOpKindCount) return corrupt("is of an unknown kind");
    const auto count = static_cast<TensorId>(graph_.tensors.size());
    for (const TensorId id : op.inputs) {
      if (id < 0 || id >= count) return corrupt("reads tensor {}, which does not exist", id);
      if (!written_[static_cast<size_t>(id)]) return corrupt("reads \"{}\" before it is written", graph_.at(id).name);
    }
    for (const TensorId id : op.outputs) {
      if (id < 0 || id >= count) return corrupt("writes tensor {}, which does not exist", id);
      if (written_[static_cast<size_t>(id)]) {
        return corrupt("writes \"{}\", which is not its to write", graph_.at(id).name);
      }
      written_[static_cast<size_t>(id)] = true;
    }
    TANDEM_TRY(finite_attributes());
    return check_kind();
  }

  Status check_kind() const {
    const OpAttributes& a = op_->attributes;
    switch (op_->kind) {
      case OpKind::kEmbedding:
        TANDEM_TRY(arity(2, 2, 1));
        TANDEM_TRY(indices(in(0)));
        TANDEM_TRY(weight(in(1), 0, 0));
        return rows(out(0), in(1).shape[1]);
      case OpKind::kLinear:
        TANDEM_TRY(arity(2, 3, 1));
        TANDEM_TRY(rows(in(0)));
        TANDEM_TRY(weight(in(1), 0, in(0).shape[1]));
        if (op_->inputs.size() == 3) TANDEM_TRY(vector(in(2), in(1).shape[0]));
        // Integer weights want integers: an input that has an encoding, or one that is rounded on the way.
        if (is_quantized(in(1).format) ? a.quantize_input == (in(0).encoding.kind == EncodingKind::kPerTensor)
                                       : a.quantize_input) {
          return corrupt("\"{}\" is {}, which does not go with its activations", in(1).name,
                         weight_format_name(in(1).format));
        }
        if (a.wide_input && !a.quantize_input) return corrupt("rounds its input to 16 bits and does not round it");
        return rows(out(0), in(1).shape[0]);
      case OpKind::kRmsNorm:
        TANDEM_TRY(arity(2, 2, 1));
        TANDEM_TRY(rows(in(0)));
        TANDEM_TRY(vector(in(1), 0));
        if (in(0).shape[1] % in(1).shape[0] != 0) return corrupt("\"{}\" does not divide the row", in(1).name);
        return rows(out(0), in(0).shape[1]);
      case OpKind::kLayerNorm:
        TANDEM_TRY(arity(3, 3, 1));
        TANDEM_TRY(rows(in(0)));
        TANDEM_TRY(vector(in(1), in(0).shape[1]));
        TANDEM_TRY(vector(in(2), in(0).shape[1]));
        return rows(out(0), in(0).shape[1]);
      case OpKind::kAdd:
        if (!op_->inputs.empty() && in(0).shape.size() == 3) return same_heads(2);
        return same_rows(2);
      case OpKind::kMul:
      case OpKind::kSiluMul:
      case OpKind::kGeluTanhMul: return same_rows(2);
      case OpKind::kScale:
      case OpKind::kSilu:
      case OpKind::kGeluTanh: return same_rows(1);
      case OpKind::kSoftcap:
        if (!(a.factor > 0.0f)) return corrupt("has a cap of {}", a.factor);
        if (op_->inputs.size() == 1 && in(0).shape.size() == 3) return same_heads(1);
        return same_rows(1);
      case OpKind::kRopeTable:
        TANDEM_TRY(arity(2, 3, 2));
        TANDEM_TRY(indices(in(0)));
        TANDEM_TRY(vector(in(1), 0));
        if (op_->inputs.size() == 3) TANDEM_TRY(vector(in(2), in(1).shape[0]));
        TANDEM_TRY(rows(out(0), in(1).shape[0]));
        return rows(out(1), in(1).shape[0]);
      case OpKind::kRope:
        TANDEM_TRY(arity(3, 3, 1));
        TANDEM_TRY(rows(in(0)));
        TANDEM_TRY(rows(in(1)));
        TANDEM_TRY(rows(in(2), in(1).shape[1]));
        TANDEM_TRY(head_dim_divides(in(0)));
        if (2 * in(1).shape[1] > a.head_dim) return corrupt("rotates more than a head has");
        return rows(out(0), in(0).shape[1]);
      case OpKind::kStoreKv:
        TANDEM_TRY(arity(3, 4, 0));
        TANDEM_TRY(rows(in(0)));
        TANDEM_TRY(indices(in(1)));
        TANDEM_TRY(head_dim_divides(in(0)));
        TANDEM_TRY(cache(in(2), op_->inputs.size() == 4 ? &in(3) : nullptr, a.head_dim, graph_.tokens));
        if (in(2).shape[0] * a.head_dim != in(0).shape[1]) {
          return corrupt("\"{}\" and \"{}\" have different heads", in(0).name, in(2).name);
        }
        return ok_status();
      case OpKind::kAttention:
      case OpKind::kCodeAttention: {
        const bool codes = op_->kind == OpKind::kCodeAttention;
        TANDEM_TRY(arity(codes ? 7 : 5, 7, 1));
        if (op_->inputs.size() == 6) return corrupt("has scales for one cache of two");
        TANDEM_TRY(rows(in(0)));
        TANDEM_TRY(head_dim_divides(in(0)));
        const bool scaled = op_->inputs.size() == 7;
        // What one call stores must leave what it sees.
        const bool is_ring = a.window > 0 && a.window < graph_.context;
        const int64_t least = is_ring ? a.window + graph_.tokens - 1 : graph_.context;
        TANDEM_TRY(cache(in(1), scaled ? &in(5) : nullptr, a.head_dim, least));
        TANDEM_TRY(cache(in(2), scaled ? &in(6) : nullptr, a.head_dim, least));
        if (in(1).shape[1] != in(2).shape[1]) return corrupt("has keys and values of different lengths");
        if (codes && a.head_dim > kMaxByteHead) {
          return corrupt("has heads of {} entries, and codes are for {} at most", a.head_dim, kMaxByteHead);
        }
        TANDEM_TRY(rows(in(3), graph_.context));
        TANDEM_TRY(indices(in(4)));
        if (in(1).shape[0] != in(2).shape[0] || (in(0).shape[1] / a.head_dim) % in(1).shape[0] != 0) {
          return corrupt("{} query heads cannot share {} key heads", in(0).shape[1] / a.head_dim, in(1).shape[0]);
        }
        return rows(out(0), in(0).shape[1]);
      }
      case OpKind::kMaskToFloat: {
        TANDEM_TRY(arity(1, 1, 1));
        const Tensor& mask = in(0);
        if (mask.role != TensorRole::kInput || mask.shape != std::vector<int64_t>{graph_.tokens, graph_.context}) {
          return corrupt("\"{}\" should be an input of [{}, {}]", mask.name, graph_.tokens, graph_.context);
        }
        const bool known = mask.dtype == DType::kF32 || mask.dtype == DType::kF16 || mask.dtype == DType::kU16 ||
                           mask.dtype == DType::kU8;
        const bool encoded = dtype_is_float(mask.dtype) || mask.encoding.kind == EncodingKind::kPerTensor;
        if (!known || !encoded) return corrupt("\"{}\" is a mask of dtype {}", mask.name, dtype_name(mask.dtype));
        if (!dtype_is_float(mask.dtype) && mask.encoding.zero_point == 0) {
          return corrupt("\"{}\" has one code for visible and masked", mask.name);
        }
        return rows(out(0), graph_.context);
      }
      case OpKind::kConvert: {
        TANDEM_TRY(arity(1, 1, 1));
        TANDEM_TRY(rows(in(0)));
        const Tensor& to = out(0);
        const bool known =
            to.dtype == DType::kF32 || to.dtype == DType::kF16 ||
            ((to.dtype == DType::kU16 || to.dtype == DType::kU8) && to.encoding.kind == EncodingKind::kPerTensor);
        if (!known || to.shape != in(0).shape) return corrupt("cannot give \"{}\"", to.name);
        return ok_status();
      }
      default: return check_static_kind();
    }
  }

  // ---- Ops of the form with fixed graphs ----

  Status check_static_kind() const {
    const OpAttributes& a = op_->attributes;
    switch (op_->kind) {
      case OpKind::kSplitHeads:
        TANDEM_TRY(arity(1, 1, 1));
        TANDEM_TRY(rows(in(0)));
        TANDEM_TRY(head_dim_divides(in(0)));
        return heads(out(0), in(0).shape[1] / a.head_dim, graph_.tokens, a.head_dim);
      case OpKind::kJoinHeads:
        TANDEM_TRY(arity(1, 1, 1));
        TANDEM_TRY(heads(in(0), 0, graph_.tokens, 0));
        return rows(out(0), in(0).shape[0] * in(0).shape[2]);
      case OpKind::kAppendRows: return append_rows();
      case OpKind::kMatMul: return matmul();
      case OpKind::kAddMask:
      case OpKind::kMaskedSoftmax: {
        TANDEM_TRY(arity(2, 2, 1));
        TANDEM_TRY(heads(in(0), 0, graph_.tokens, 0));
        const Tensor& mask = in(1);
        TANDEM_TRY(numbers(mask));
        if (mask.role != TensorRole::kInput || mask.shape != std::vector<int64_t>{graph_.tokens, in(0).shape[2]}) {
          return corrupt("\"{}\" should be an input of [{}, {}]", mask.name, graph_.tokens, in(0).shape[2]);
        }
        return heads(out(0), in(0).shape[0], in(0).shape[1], in(0).shape[2]);
      }
      case OpKind::kSoftmax: return same_heads(1);
      case OpKind::kSigmoid: return same_rows(1);
      case OpKind::kAddVector:
        TANDEM_TRY(arity(2, 2, 1));
        TANDEM_TRY(rows(in(0)));
        TANDEM_TRY(vector(in(1), in(0).shape[1]));
        return rows(out(0), in(0).shape[1]);
      case OpKind::kConcat: return concat();
      case OpKind::kSlice: return slice();
      case OpKind::kRescore: return verify_rescore(graph_, *op_);
      default: return corrupt("is of an unknown kind");
    }
  }

  Status concat() const {
    TANDEM_TRY(arity(1, kMaxConcat, 1));
    const bool by_heads = in(0).shape.size() == 3;
    int64_t width = 0;
    for (size_t i = 0; i < op_->inputs.size(); ++i) {
      TANDEM_TRY(by_heads ? heads(in(i), in(0).shape[0], graph_.tokens, 0) : rows(in(i)));
      width += in(i).shape.back();
    }
    return by_heads ? heads(out(0), in(0).shape[0], graph_.tokens, width) : rows(out(0), width);
  }

  // Along the width, or the heads. Never along the tokens: each row stays a row.
  Status slice() const {
    TANDEM_TRY(arity(1, 1, 1));
    const Tensor &whole = in(0), &part = out(0);
    TANDEM_TRY(whole.shape.size() == 3 ? heads(whole, 0, graph_.tokens, 0) : rows(whole));
    TANDEM_TRY(whole.shape.size() == 3 ? heads(part, 0, graph_.tokens, 0) : rows(part));
    const int32_t axis = op_->attributes.axis;
    const int64_t begin = op_->attributes.begin, tokens_axis = whole.shape.size() == 3 ? 1 : 0;
    if (axis < 0 || axis >= static_cast<int64_t>(whole.shape.size()) || axis == tokens_axis) {
      return corrupt("slices \"{}\" along axis {}", whole.name, axis);
    }
    const auto at = static_cast<size_t>(axis);
    std::vector<int64_t> wanted = whole.shape;
    wanted[at] = part.shape[at];
    if (part.shape != wanted || begin < 0 || part.shape[at] > whole.shape[at] ||
        begin > whole.shape[at] - part.shape[at]) {
      return corrupt("\"{}\" is no part of \"{}\" that begins at {}", part.name, whole.name, begin);
    }
    return ok_status();
  }

  // A cache that the graph only reads.
  Status fixed_cache(const Tensor& cache) const {
    const bool is_float = cache.dtype == DType::kF32 || cache.dtype == DType::kF16;
    if (cache.role != TensorRole::kState || cache.shape.size() != 3 || cache.shape[1] != graph_.context ||
        (!is_float && cache.encoding.kind != EncodingKind::kPerTensor)) {
      return corrupt("\"{}\" should be a state of [heads, {}, size] with one encoding", cache.name, graph_.context);
    }
    return ok_status();
  }

  Status append_rows() const {
    TANDEM_TRY(arity(2, 2, 1));
    const Tensor &cache = in(0), &added = in(1), &all = out(0);
    TANDEM_TRY(fixed_cache(cache));
    TANDEM_TRY(heads(added, cache.shape[0], graph_.tokens, cache.shape[2]));
    TANDEM_TRY(heads(all, cache.shape[0], graph_.context + graph_.tokens, cache.shape[2]));
    if (cache.dtype != added.dtype || cache.dtype != all.dtype || cache.encoding != added.encoding ||
        cache.encoding != all.encoding) {
      return corrupt("\"{}\" and \"{}\" are not of one dtype and encoding", cache.name, added.name);
    }
    return ok_status();
  }

  Status matmul() const {
    TANDEM_TRY(arity(2, 2, 1));
    const Tensor &left = in(0), &right = in(1);
    TANDEM_TRY(heads(left, 0, graph_.tokens, 0));
    if (right.role == TensorRole::kState) {
      TANDEM_TRY(fixed_cache(right));
    } else {
      TANDEM_TRY(heads(right, 0, 0, 0));
    }
    const bool transposed = op_->attributes.transpose_b;
    if (right.shape[transposed ? 2 : 1] != left.shape[2] || left.shape[0] % right.shape[0] != 0) {
      return corrupt("\"{}\" and \"{}\" cannot be multiplied", left.name, right.name);
    }
    return heads(out(0), left.shape[0], graph_.tokens, right.shape[transposed ? 1 : 2]);
  }

  const Graph& graph_;
  std::vector<bool> written_;
  const Op* op_ = nullptr;
};

}  // namespace

Status verify(const Graph& graph) { return Verifier(graph).run(); }

}  // namespace tandem::ir

#include "ir/verifier.h"

#include <algorithm>
#include <cmath>
#include <unordered_set>

#include "base/error.h"
#include "ir/op_checks.h"
#include "ir/verify_tensor.h"
#include "numerics/fake_quant.h"

namespace tandem::ir {
namespace {

// A thousand layers take half of these. Planners may be quadratic in them.
constexpr size_t kMaxTensors = 1u << 16, kMaxOps = 1u << 16;

class Verifier : private OpChecks {
 public:
  explicit Verifier(const Graph& graph) : OpChecks(graph), written_(graph.tensors.size(), false) {}

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
        if (a.int16_input && !a.quantize_input) return corrupt("rounds its input to 16 bits and does not round it");
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
      case OpKind::kQuantizedAttention: {
        const bool codes = op_->kind == OpKind::kQuantizedAttention;
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
      default: return verify_static_op(graph_, *op_);
    }
  }

  std::vector<bool> written_;
};

}  // namespace

Status verify(const Graph& graph) { return Verifier(graph).run(); }

}  // namespace tandem::ir

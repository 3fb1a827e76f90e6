#include "ir/verifier.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <set>
#include <tuple>
#include <unordered_set>

#include "base/error.h"
#include "ir/op_checks.h"
#include "ir/verify_tensor.h"
#include "numerics/fake_quant.h"

namespace tandem::ir {
namespace {

// A thousand layers need half of this. Planners may be quadratic in it.
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
    TANDEM_TRY(check_tensors());
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
  Status check_tensors() {
    std::unordered_set<std::string_view> names;
    std::set<std::tuple<PurposeKind, int32_t, int32_t, int64_t>> purposes;
    for (size_t i = 0; i < graph_.tensors.size(); ++i) {
      const Tensor& t = graph_.tensors[i];
      if (t.name.empty()) return corrupt("graph \"{}\" has a tensor with no name", graph_.name);
      TANDEM_TRY(verify_tensor(t));
      if (!names.insert(t.name).second) {
        return corrupt("graph \"{}\" has two tensors named \"{}\"", graph_.name, t.name);
      }
      const Purpose& p = t.purpose;
      if (is_unique(p.kind) && !purposes.insert({p.kind, p.layer, p.kv_head, p.limit}).second) {
        return corrupt("graph \"{}\" has two tensors for one purpose, {}: \"{}\" and another", graph_.name,
                       purpose_kind_name(p.kind), t.name);
      }
      written_[i] = t.role != TensorRole::kActivation && t.role != TensorRole::kOutput;
    }
    return ok_status();
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
    TANDEM_TRY(signature());
    return check_kind();
  }

  Status check_kind() const {
    switch (op_->kind) {
      case OpKind::kEmbedding: return rows(out(0), in(1).shape[1]);
      case OpKind::kLinear: return check_linear();
      case OpKind::kRmsNorm:
        TANDEM_TRY(rows(in(0)));
        if (in(0).shape[1] % in(1).shape[0] != 0) return corrupt("\"{}\" does not divide the row", in(1).name);
        return rows(out(0), in(0).shape[1]);
      case OpKind::kLayerNorm:
        TANDEM_TRY(rows(in(0)));
        TANDEM_TRY(vector(in(1), in(0).shape[1]));
        TANDEM_TRY(vector(in(2), in(0).shape[1]));
        return rows(out(0), in(0).shape[1]);
      case OpKind::kSoftcap:
        if (!(op_->attributes.factor > 0.0f)) return corrupt("has a cap of {}", op_->attributes.factor);
        return in(0).shape.size() == 3 ? same_heads() : same_rows();
      case OpKind::kAdd: return in(0).shape.size() == 3 ? same_heads() : same_rows();
      case OpKind::kMul:
      case OpKind::kSiluMul:
      case OpKind::kGeluTanhMul:
      case OpKind::kScale:
      case OpKind::kSilu:
      case OpKind::kGeluTanh:
      case OpKind::kSigmoid: return same_rows();
      case OpKind::kRopeTable:
        if (op_->inputs.size() == 3) TANDEM_TRY(vector(in(2), in(1).shape[0]));
        TANDEM_TRY(rows(out(0), in(1).shape[0]));
        return rows(out(1), in(1).shape[0]);
      case OpKind::kRope: return check_rope();
      case OpKind::kHadamard: return check_hadamard();
      case OpKind::kStoreKv: return check_store_kv();
      case OpKind::kAttention:
      case OpKind::kQuantizedAttention: return check_attention();
      case OpKind::kMaskToFloat: return check_mask_to_float();
      case OpKind::kConvert: return check_convert();
      case OpKind::kSplitHeads:
      case OpKind::kJoinHeads:
      case OpKind::kAppendRows:
      case OpKind::kMatMul:
      case OpKind::kAddMask:
      case OpKind::kSoftmax:
      case OpKind::kAddVector:
      case OpKind::kConcat:
      case OpKind::kSlice:
      case OpKind::kMaskedSoftmax:
      case OpKind::kRescore: return verify_static_op(graph_, *op_);
    }
    return corrupt("is of an unknown kind");
  }

  Status check_linear() const {
    const OpAttributes& a = op_->attributes;
    const Tensor& weight = in(1);
    TANDEM_TRY(rows(in(0)));
    if (weight.shape[1] != in(0).shape[1]) {
      return corrupt("\"{}\" should be a weight of {} columns", weight.name, in(0).shape[1]);
    }
    if (op_->inputs.size() == 3) TANDEM_TRY(vector(in(2), weight.shape[0]));
    // Integer weights need an integer input: one with an encoding, or one that the op quantizes.
    if (is_quantized(weight.format) ? a.quantize_input == (in(0).encoding.kind == EncodingKind::kPerTensor)
                                    : a.quantize_input) {
      return corrupt("\"{}\" is {}, which does not go with its activations", weight.name,
                     weight_format_name(weight.format));
    }
    if (a.int16_input && !a.quantize_input) return corrupt("rounds its input to 16 bits and does not round it");
    return rows(out(0), weight.shape[0]);
  }

  Status check_rope() const {
    TANDEM_TRY(rows(in(0)));
    TANDEM_TRY(rows(in(1)));
    TANDEM_TRY(rows(in(2), in(1).shape[1]));
    TANDEM_TRY(head_dim_divides(in(0)));
    if (2 * in(1).shape[1] > op_->attributes.head_dim) return corrupt("rotates more than a head has");
    return rows(out(0), in(0).shape[1]);
  }

  Status check_hadamard() const {
    TANDEM_TRY(rows(in(0)));
    TANDEM_TRY(head_dim_divides(in(0)));
    const auto size = static_cast<uint64_t>(op_->attributes.head_dim);
    if (!std::has_single_bit(size)) return corrupt("rotates heads of {}, which is no power of two", size);
    return rows(out(0), in(0).shape[1]);
  }

  Status check_store_kv() const {
    const int64_t head_dim = op_->attributes.head_dim;
    TANDEM_TRY(rows(in(0)));
    TANDEM_TRY(head_dim_divides(in(0)));
    TANDEM_TRY(cache(in(2), op_->inputs.size() == 4 ? &in(3) : nullptr, head_dim, graph_.tokens));
    if (in(2).shape[0] * head_dim != in(0).shape[1]) {
      return corrupt("\"{}\" and \"{}\" have different heads", in(0).name, in(2).name);
    }
    return ok_status();
  }

  Status check_attention() const {
    const OpAttributes& a = op_->attributes;
    if (op_->inputs.size() == 6) return corrupt("has scales for one cache of two");
    TANDEM_TRY(rows(in(0)));
    TANDEM_TRY(head_dim_divides(in(0)));
    const bool scaled = op_->inputs.size() == 7;
    // A call must not overwrite slots that it reads.
    const bool is_ring = a.window > 0 && a.window < graph_.context;
    const int64_t least = is_ring ? a.window + graph_.tokens - 1 : graph_.context;
    TANDEM_TRY(cache(in(1), scaled ? &in(5) : nullptr, a.head_dim, least));
    TANDEM_TRY(cache(in(2), scaled ? &in(6) : nullptr, a.head_dim, least));
    if (in(1).shape[1] != in(2).shape[1]) return corrupt("has keys and values of different lengths");
    if (op_->kind == OpKind::kQuantizedAttention && a.head_dim > kMaxByteHead) {
      return corrupt("has heads of {} entries, and quantized ones have {} at most", a.head_dim, kMaxByteHead);
    }
    TANDEM_TRY(rows(in(3), graph_.context));
    if (in(1).shape[0] != in(2).shape[0] || (in(0).shape[1] / a.head_dim) % in(1).shape[0] != 0) {
      return corrupt("{} query heads cannot share {} key heads", in(0).shape[1] / a.head_dim, in(1).shape[0]);
    }
    return rows(out(0), in(0).shape[1]);
  }

  Status check_mask_to_float() const {
    const Tensor& mask = in(0);
    if (mask.shape != std::vector<int64_t>{graph_.tokens, graph_.context}) {
      return corrupt("\"{}\" should be an input of [{}, {}]", mask.name, graph_.tokens, graph_.context);
    }
    const bool known =
        mask.dtype == DType::kF32 || mask.dtype == DType::kF16 || mask.dtype == DType::kU16 || mask.dtype == DType::kU8;
    const bool encoded = dtype_is_float(mask.dtype) || mask.encoding.kind == EncodingKind::kPerTensor;
    if (!known || !encoded) return corrupt("\"{}\" is a mask of dtype {}", mask.name, dtype_name(mask.dtype));
    if (!dtype_is_float(mask.dtype) && mask.encoding.zero_point == 0) {
      return corrupt("\"{}\" has one number for visible and masked", mask.name);
    }
    return rows(out(0), graph_.context);
  }

  Status check_convert() const {
    TANDEM_TRY(rows(in(0)));
    const Tensor& to = out(0);
    const bool known =
        to.dtype == DType::kF32 || to.dtype == DType::kF16 ||
        ((to.dtype == DType::kU16 || to.dtype == DType::kU8) && to.encoding.kind == EncodingKind::kPerTensor);
    if (!known || to.shape != in(0).shape) return corrupt("cannot give \"{}\"", to.name);
    return ok_status();
  }

  std::vector<bool> written_;
};

}  // namespace

Status verify(const Graph& graph) { return Verifier(graph).run(); }

}  // namespace tandem::ir

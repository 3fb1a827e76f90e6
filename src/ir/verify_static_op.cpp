#include "base/try.h"
#include "ir/op_checks.h"
#include "ir/verify_rescore.h"

namespace tandem::ir {
namespace {

class StaticOp : private OpChecks {
 public:
  StaticOp(const Graph& graph, const Op& op) : OpChecks(graph, &op) {}

  Status run() const {
    const OpAttributes& a = op_->attributes;
    switch (op_->kind) {
      case OpKind::kSplitHeads:
        TANDEM_TRY(rows(in(0)));
        TANDEM_TRY(head_dim_divides(in(0)));
        return heads(out(0), in(0).shape[1] / a.head_dim, graph_.tokens, a.head_dim);
      case OpKind::kJoinHeads:
        TANDEM_TRY(heads(in(0), 0, graph_.tokens, 0));
        return rows(out(0), in(0).shape[0] * in(0).shape[2]);
      case OpKind::kAppendRows: return append_rows();
      case OpKind::kMatMul: return matmul();
      case OpKind::kAddMask:
      case OpKind::kMaskedSoftmax: {
        TANDEM_TRY(heads(in(0), 0, graph_.tokens, 0));
        const Tensor& mask = in(1);
        if (mask.shape != std::vector<int64_t>{graph_.tokens, in(0).shape[2]}) {
          return corrupt("\"{}\" should be an input of [{}, {}]", mask.name, graph_.tokens, in(0).shape[2]);
        }
        return heads(out(0), in(0).shape[0], in(0).shape[1], in(0).shape[2]);
      }
      case OpKind::kSoftmax: return same_heads();
      case OpKind::kAddVector:
        TANDEM_TRY(rows(in(0)));
        TANDEM_TRY(vector(in(1), in(0).shape[1]));
        return rows(out(0), in(0).shape[1]);
      case OpKind::kConcat: return concat();
      case OpKind::kSlice: return slice();
      case OpKind::kRescore: return verify_rescore(graph_, *op_);
      case OpKind::kEmbedding:
      case OpKind::kLinear:
      case OpKind::kRmsNorm:
      case OpKind::kLayerNorm:
      case OpKind::kAdd:
      case OpKind::kMul:
      case OpKind::kScale:
      case OpKind::kSilu:
      case OpKind::kGeluTanh:
      case OpKind::kSiluMul:
      case OpKind::kGeluTanhMul:
      case OpKind::kSoftcap:
      case OpKind::kRopeTable:
      case OpKind::kRope:
      case OpKind::kStoreKv:
      case OpKind::kAttention:
      case OpKind::kMaskToFloat:
      case OpKind::kConvert:
      case OpKind::kSigmoid:
      case OpKind::kQuantizedAttention:
      case OpKind::kHadamard: break;  // The verifier's own (verifier.cpp).
    }
    return corrupt("is of an unknown kind");
  }

 private:
  Status concat() const {
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
    if (cache.shape.size() != 3 || cache.shape[1] != graph_.context ||
        (!is_float && cache.encoding.kind != EncodingKind::kPerTensor)) {
      return corrupt("\"{}\" should be a state of [heads, {}, size] with one encoding", cache.name, graph_.context);
    }
    return ok_status();
  }

  Status append_rows() const {
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
};

}  // namespace

Status verify_static_op(const Graph& graph, const Op& op) { return StaticOp(graph, op).run(); }

}  // namespace tandem::ir

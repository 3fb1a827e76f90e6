#include "base/error.h"
#include "compiler/passes/passes.h"

namespace tandem {
namespace {

// What the lowest value of an integer mask adds to a score. Back ends treat it as -infinity where they can; for one
// that adds it unchanged, it must exceed any real difference of scores and still leave fine steps near 0.
constexpr float kMaskDepth = 100.0f;

}  // namespace

Status set_io_dtypes(ir::Graph& graph, const PassContext& context) {
  for (ir::Tensor& tensor : graph.tensors) {
    if (tensor.purpose.kind == ir::PurposeKind::kMask) {
      tensor.dtype = context.recipe.mask;
      if (!dtype_is_float(tensor.dtype)) {
        const auto top = static_cast<int32_t>(dtype_max(tensor.dtype));
        tensor.encoding = {ir::EncodingKind::kPerTensor, kMaskDepth / static_cast<float>(top), top};
      }
    } else if (tensor.purpose.kind == ir::PurposeKind::kLogits) {
      tensor.dtype = context.recipe.logits;
      if (!dtype_is_float(tensor.dtype)) {
        if (context.logits_encoding.kind != ir::EncodingKind::kPerTensor) {
          return internal_error("integer logits without a calibrated range");
        }
        tensor.encoding = context.logits_encoding;
      }
    }
  }
  return ok_status();
}

}  // namespace tandem

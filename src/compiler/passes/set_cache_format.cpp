#include <map>

#include "base/error.h"
#include "compiler/passes/passes.h"
#include "numerics/fake_quant.h"

namespace tandem {

Status set_cache_format(ir::Graph& graph, const PassContext& context) {
  const DType dtype = kv_dtype(context.recipe.kv);
  std::map<ir::TensorId, ir::TensorId> scales;  // Of a u8 cache.
  const size_t count = graph.tensors.size();
  for (size_t i = 0; i < count; ++i) {
    ir::Tensor& cache = graph.tensors[i];
    if (cache.role != ir::TensorRole::kState) continue;
    cache.dtype = dtype;
    if (dtype != DType::kU8) continue;
    if (cache.shape[2] > kMaxByteHead) {
      return unsupported("this model's heads have {} entries; keys and values in u8 need {} at most: take `kv` fp16",
                         cache.shape[2], kMaxByteHead);
    }
    cache.encoding = {ir::EncodingKind::kDynamicPerRow, 1.0f, 0};
    ir::Tensor beside = {.name = cache.name + ".scales",
                         .role = ir::TensorRole::kState,
                         .shape = {cache.shape[0], cache.shape[1], 2},
                         .purpose = cache.purpose};
    beside.purpose.kind = ir::is_keys(cache.purpose) ? ir::PurposeKind::kKeyScales : ir::PurposeKind::kValueScales;
    scales[static_cast<ir::TensorId>(i)] = graph.add(std::move(beside));
  }
  for (ir::Op& op : graph.ops) {
    if (scales.empty()) break;
    if (op.kind == ir::OpKind::kStoreKv) {
      op.inputs.push_back(scales.at(op.inputs[2]));
    } else if (op.kind == ir::OpKind::kAttention) {
      op.kind = ir::OpKind::kQuantizedAttention;
      const ir::TensorId k = op.inputs[1], v = op.inputs[2];
      op.inputs.push_back(scales.at(k));
      op.inputs.push_back(scales.at(v));
    }
  }
  return ok_status();
}

}  // namespace tandem

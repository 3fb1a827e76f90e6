#include "ir/verify_tensor.h"

#include <cmath>

#include "base/checked.h"
#include "base/error.h"

namespace tandem::ir {
namespace {

constexpr uint64_t kMaxElements = uint64_t{1} << 40;

}  // namespace

Status verify_tensor(const Tensor& t) {
  if (static_cast<int>(t.role) >= kTensorRoleCount || static_cast<int>(t.dtype) >= kDTypeCount ||
      static_cast<int>(t.encoding.kind) >= kEncodingKindCount || static_cast<int>(t.format) >= kWeightFormatCount) {
    return corrupt("tensor \"{}\" has an unknown role, dtype, encoding or format", t.name);
  }
  if (Status status = verify_purpose(t.purpose, t.role); !status.ok()) {
    return corrupt("tensor \"{}\" {}", t.name, status.error().message);
  }
  if (t.shape.empty() || t.shape.size() > 4) {
    return corrupt("tensor \"{}\" has {} dimensions, and 1 to 4 are possible", t.name, t.shape.size());
  }
  for (const int64_t dim : t.shape) {
    if (dim < 1 || dim > kMaxDim) return corrupt("tensor \"{}\" has a dimension of {}", t.name, dim);
  }
  const auto count = element_count(t.shape);
  if (!count || *count > kMaxElements) return corrupt("tensor \"{}\" is too large", t.name);
  if (t.dtype == DType::kI4) return corrupt("tensor \"{}\" has the weight-only dtype i4", t.name);
  if (t.encoding.kind == EncodingKind::kPerTensor) {
    if (dtype_is_float(t.dtype)) return corrupt("tensor \"{}\" is a float with an integer encoding", t.name);
    if (!(t.encoding.scale > 0.0f) || !std::isfinite(t.encoding.scale)) {
      return corrupt("tensor \"{}\" has an encoding scale of {}", t.name, t.encoding.scale);
    }
    if (t.encoding.zero_point < dtype_min(t.dtype) || t.encoding.zero_point > dtype_max(t.dtype)) {
      return corrupt("tensor \"{}\" has a zero point of {}, outside its dtype", t.name, t.encoding.zero_point);
    }
  }
  if (t.role == TensorRole::kWeight) {
    if (t.shape.size() != 2) return corrupt("weight \"{}\" is not a matrix", t.name);
    const bool needs_block = t.format == WeightFormat::kLpbq4;
    if (needs_block ? (t.block != 16 && t.block != 32 && t.block != 64) : t.block != 0) {
      return corrupt("weight \"{}\" has a block of {}", t.name, t.block);
    }
  }
  if (t.role == TensorRole::kVector && (t.shape.size() != 1 || t.dtype != DType::kF32)) {
    return corrupt("vector \"{}\" is not a row of f32", t.name);
  }
  return ok_status();
}

}  // namespace tandem::ir

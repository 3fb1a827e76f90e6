#include "backends/qnn/lower/emitter.h"

#include <utility>

#include "base/error.h"
#include "base/format.h"

namespace tandem::qnn {

Result<TensorType> type_of(const ir::Tensor& tensor) {
  TensorType type;
  switch (tensor.dtype) {
    case DType::kF16: type.dtype = DataType::kFloat16; break;
    case DType::kI32: type.dtype = DataType::kInt32; break;
    case DType::kU8: type.dtype = DataType::kFixedU8; break;
    case DType::kU16: type.dtype = DataType::kFixedU16; break;
    case DType::kF32:
    case DType::kBF16:
    case DType::kI8:
    case DType::kI16:
    case DType::kI64:
    case DType::kI4:
      return unsupported("tensor \"{}\" is {}; HTP graphs are made of u16 or u8 with encodings, f16, and i32 indices",
                         tensor.name, dtype_name(tensor.dtype));
  }
  if (!is_fixed_point(type.dtype)) return type;
  if (tensor.encoding.kind != ir::EncodingKind::kPerTensor) {
    return unsupported("tensor \"{}\" is {} and has no encoding of its own; calibrate the model first", tensor.name,
                       dtype_name(tensor.dtype));
  }
  type.encoding = scale_offset(tensor.encoding);
  return type;
}

Result<TensorRef> Emitter::add(const TensorSpec& spec) {
  TANDEM_ASSIGN(const TensorRef ref, graph_->add_tensor(spec));
  names_.emplace(ref.index, spec.name);
  return ref;
}

Status Emitter::node(std::string_view type, std::vector<TensorRef> inputs, TensorRef output,
                     std::vector<NodeParam> params) {
  NodeSpec spec;
  spec.name = str_format("{}:{}", names_.at(output.index), type);
  spec.type = type;
  spec.inputs = std::move(inputs);
  spec.outputs = {output};
  spec.params = std::move(params);
  return graph_->add_node(spec);
}

}  // namespace tandem::qnn

#include "base/error.h"
#include "compiler/passes/passes.h"

namespace tandem {
namespace {

// The table's name for a cache is that of the rows that are written to it.
std::string table_name(const ir::Tensor& tensor) {
  std::string name = tensor.name;
  if (tensor.role == ir::TensorRole::kState) name.replace(name.find("_cache"), 6, "_new");
  return name;
}

Status encode_tensor(ir::Tensor& tensor, const StaticForm& form) {
  if (form.numbers == StaticForm::Numbers::kFloat16) {
    tensor.dtype = DType::kF16;
    return ok_status();
  }
  const TensorEncoding* found = form.encodings->find(table_name(tensor));
  if (found == nullptr) {
    return invalid_argument("the encodings have no entry for \"{}\"; calibrate this model anew, without --encodings",
                            tensor.name);
  }
  tensor.dtype = found->dtype;
  tensor.encoding = found->encoding;
  return ok_status();
}

}  // namespace

Status set_encodings(ir::Graph& graph, const PassContext& context) {
  const StaticForm& form = *context.form;
  if (form.numbers == StaticForm::Numbers::kFloat32) return ok_status();
  for (ir::Tensor& tensor : graph.tensors) {
    switch (tensor.role) {
      case ir::TensorRole::kVector: break;
      case ir::TensorRole::kWeight: {
        const std::string whole = tensor.name.substr(0, tensor.name.find('['));
        const WeightSpec spec = context.recipe.spec_for(whole);
        tensor.format = spec.format;
        tensor.block = spec.format == WeightFormat::kLpbq4 ? spec.block : 0;
        break;
      }
      default:
        if (tensor.dtype != DType::kI32) TANDEM_TRY(encode_tensor(tensor, form));
        break;
    }
  }
  return ok_status();
}

}  // namespace tandem

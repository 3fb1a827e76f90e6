#include "base/error.h"
#include "base/format.h"
#include "compiler/passes/passes.h"

namespace tandem {
namespace {

bool is_kv(const ir::Tensor& tensor) { return ir::is_keys(tensor.purpose) || ir::is_values(tensor.purpose); }

// The name of a tensor's entry in the table. A cache shares that of the rows written to it, and all heads of a layer
// share one; so do all masks. Parts of a tensor use the whole tensor's.
std::string table_name(const ir::Tensor& tensor) {
  const ir::Purpose& purpose = tensor.purpose;
  if (ir::is_mask(purpose)) return "mask";
  if (is_kv(tensor)) {
    const bool is_all = purpose.kind == ir::PurposeKind::kAllKeys || purpose.kind == ir::PurposeKind::kAllValues;
    return str_format("{}_{}.{}", ir::is_keys(purpose) ? 'k' : 'v', is_all ? "all" : "new", purpose.layer);
  }
  return tensor.part_of.empty() ? tensor.name : tensor.part_of;
}

// Encodings may come from a file made for another compile, or by hand.
Status check_encoding(const ir::Tensor& tensor, std::string_view name, const TensorEncoding& e, KvFormat kv) {
  if (!is_kv(tensor) && e.dtype != DType::kU16) {
    return invalid_argument("the encodings have \"{}\" in {}, and all but keys and values are u16", name,
                            dtype_name(e.dtype));
  }
  if (is_kv(tensor) && e.dtype != kv_dtype(kv)) {
    return invalid_argument("the encodings have keys and values (\"{}\") in {}, not {}; use `kv` {}, or calibrate anew",
                            name, dtype_name(e.dtype), kv_format_name(kv), dtype_name(e.dtype));
  }
  // The NPU's product of 16-bit with 8-bit numbers is exact only with the zero point in the middle.
  if (e.dtype == DType::kU8 && e.encoding.zero_point != 128) {
    return invalid_argument("the encodings have \"{}\" around {}, and keys and values in u8 need 128; calibrate anew",
                            name, e.encoding.zero_point);
  }
  return ok_status();
}

Status encode_tensor(ir::Tensor& tensor, const StaticForm& form, KvFormat kv) {
  if (form.numbers == StaticForm::Numbers::kFloat16) {
    tensor.dtype = DType::kF16;
    return ok_status();
  }
  const std::string name = table_name(tensor);
  const TensorEncoding* found = form.encodings->find(name);
  if (found == nullptr) {
    return invalid_argument(
        "the encodings have no entry for \"{}\"; calibrate this model anew, without `calibration.import_encodings`",
        tensor.name);
  }
  TANDEM_TRY(check_encoding(tensor, name, *found, kv));
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
      case ir::TensorRole::kWeight: set_weight_format(tensor, context.recipe.spec_for(tensor.name)); break;
      case ir::TensorRole::kActivation:
      case ir::TensorRole::kInput:
      case ir::TensorRole::kOutput:
      case ir::TensorRole::kState:
        if (tensor.dtype != DType::kI32) TANDEM_TRY(encode_tensor(tensor, form, context.recipe.kv));
        break;
    }
  }
  return ok_status();
}

}  // namespace tandem

#include "backends/interface/method_inputs.h"
#include "base/error.h"
#include "compiler/passes/passes.h"
#include "weights/sliced_weights.h"

namespace tandem {
namespace {

// The table's name for a cache is that of the rows that are written to it, and all masks are one. Pieces of a tensor
// have the whole tensor's encoding (expand_attention.cpp names them).
std::string table_name(const ir::Tensor& tensor) {
  std::string name = tensor.name;
  if (tensor.role == ir::TensorRole::kInput && ir::is_mask_name(name)) return "mask";
  if (tensor.role == ir::TensorRole::kState) name.replace(name.find("_cache"), 6, "_new");
  name.resize(std::min(name.find('@'), name.size()));
  const bool is_kv = name.starts_with("k_") || name.starts_with("v_");
  const size_t layer = name.find('.'), head = is_kv ? name.find('.', layer + 1) : std::string::npos;
  if (head != std::string::npos) name.resize(head);  // "k_new.3.0" is a part of "k_new.3".
  return name;
}

// Encodings may come from a file that somebody made for another compile, or by hand.
Status check_encoding(std::string_view name, const TensorEncoding& e, KvFormat kv) {
  const bool is_kv = name.starts_with("k_") || name.starts_with("v_");
  if (!is_kv && e.dtype != DType::kU16) {
    return invalid_argument("the encodings have \"{}\" in {}, and all but keys and values are u16", name,
                            dtype_name(e.dtype));
  }
  if (is_kv && e.dtype != kv_dtype(kv)) {
    return invalid_argument("the encodings have keys and values (\"{}\") in {}, not {}; use `kv` {}, or calibrate anew",
                            name, dtype_name(e.dtype), kv_format_name(kv), dtype_name(e.dtype));
  }
  // The NPU's product of 16-bit with 8-bit numbers is exact around the middle code only.
  if (e.dtype == DType::kU8 && e.encoding.zero_point != 128) {
    return invalid_argument(
        "the encodings have \"{}\" around code {}, and keys and values in u8 need 128; calibrate anew", name,
        e.encoding.zero_point);
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
  TANDEM_TRY(check_encoding(name, *found, kv));
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
      case ir::TensorRole::kWeight:
        set_weight_format(tensor, context.recipe.spec_for(parse_slice(tensor.name).whole));
        break;
      default:
        if (tensor.dtype != DType::kI32) TANDEM_TRY(encode_tensor(tensor, form, context.recipe.kv));
        break;
    }
  }
  return ok_status();
}

}  // namespace tandem

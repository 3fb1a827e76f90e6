#include "backends/interface/method_inputs.h"

#include "base/error.h"
#include "base/format.h"

namespace tandem::ir {
namespace {

Status check_indices(const Graph& graph, TensorId id) {
  const Tensor& t = graph.at(id);
  if (t.dtype == DType::kI32 && t.shape == std::vector<int64_t>{graph.tokens}) return ok_status();
  return unsupported("method \"{}\": the input \"{}\" is not i32 [{}]", graph.name, t.name, graph.tokens);
}

Status check_mask(const Graph& graph, MethodInputs& inputs, MaskInput& mask) {
  const Tensor& t = graph.at(mask.id);
  const bool fits = t.shape == std::vector<int64_t>{graph.tokens, graph.context} ||
                    t.shape == std::vector<int64_t>{graph.tokens, graph.context + graph.tokens};
  if (!fits || (inputs.mask_columns != 0 && inputs.mask_columns != t.shape[1])) {
    return corrupt("method \"{}\" has a mask that does not cover its context", graph.name);
  }
  inputs.mask_columns = t.shape[1];
  mask.values = mask_values(t.dtype, t.encoding);
  // Where the call's own rows follow the slots, the mask is added as it is, and the difference of two infinities
  // would be NaN.
  if (t.shape[1] > graph.context && dtype_is_float(t.dtype)) mask.values = finite_mask_values(t.dtype);
  return ok_status();
}

}  // namespace

std::string window_mask_name(int64_t window) { return str_format("window_mask.{}", window); }
std::string rope_rows_name(int64_t limit) { return str_format("rope_rows.{}", limit); }

Result<MethodInputs> MethodInputs::read(const Graph& graph) {
  MethodInputs inputs;
  for (size_t i = 0; i < graph.tensors.size(); ++i) {
    const Tensor& t = graph.tensors[i];
    const auto id = static_cast<TensorId>(i);
    if (t.role != TensorRole::kInput) continue;
    if (t.purpose.kind == PurposeKind::kTokens) {
      inputs.tokens = id;
    } else if (t.purpose.kind == PurposeKind::kPositions) {
      inputs.positions = id;
    } else if (is_mask(t.purpose)) {
      inputs.masks.push_back({id, t.purpose.limit, {}});
    } else if (t.purpose.kind == PurposeKind::kRopeRows && inputs.rope_rows < 0) {
      inputs.rope_rows = id;
      inputs.rope_limit = t.purpose.limit;
    } else {
      return unsupported("method \"{}\" wants the input \"{}\", which this run time does not know; use a newer tandem",
                         graph.name, t.name);
    }
  }
  if (inputs.tokens < 0 || inputs.positions < 0 || inputs.masks.empty()) {
    return corrupt("method \"{}\" lacks one of tokens, positions and mask", graph.name);
  }
  TANDEM_TRY(check_indices(graph, inputs.tokens));
  TANDEM_TRY(check_indices(graph, inputs.positions));
  if (inputs.rope_rows >= 0) TANDEM_TRY(check_indices(graph, inputs.rope_rows));
  for (MaskInput& mask : inputs.masks) TANDEM_TRY(check_mask(graph, inputs, mask));
  return inputs;
}

void fill_inputs(const Graph& graph, const MethodInputs& inputs, const CallTokens& call, const Bindings& bindings) {
  const auto buffer = [&](TensorId id) { return bindings.data[static_cast<size_t>(id)]; };
  auto* const tokens = static_cast<int32_t*>(buffer(inputs.tokens));
  auto* const positions = static_cast<int32_t*>(buffer(inputs.positions));
  auto* const rope_rows = inputs.rope_rows < 0 ? nullptr : static_cast<int32_t*>(buffer(inputs.rope_rows));
  const auto count = static_cast<int64_t>(call.tokens.size());
  for (int64_t i = 0; i < graph.tokens; ++i) {
    const bool real = i < count;
    tokens[i] = real ? call.tokens[static_cast<size_t>(i)] : 0;
    positions[i] = real ? static_cast<int32_t>(call.position + i) : -1;
    if (rope_rows == nullptr) continue;
    rope_rows[i] = real ? static_cast<int32_t>(call.position + i + (call.is_long ? graph.context : 0)) : 0;
  }
  for (const MaskInput& mask : inputs.masks) {
    const MaskShape shape{graph.tokens, inputs.mask_columns, graph.context, call.position, count, mask.window};
    fill_mask(graph.at(mask.id).dtype, shape, mask.values, buffer(mask.id));
  }
}

}  // namespace tandem::ir

#include "ir/printer.h"

#include "base/format.h"
#include "base/printable.h"

namespace tandem::ir {
namespace {

// "f32[32, 256]", "u16[1, 512] scale=0.0015 zero=65535", "lpbq4/32[768, 256]"
std::string type_of(const Tensor& t) {
  std::string type;
  if (t.role == TensorRole::kWeight) {
    type = weight_format_name(t.format);
    if (t.block != 0) type += str_format("/{}", t.block);
  } else {
    type = dtype_name(t.dtype);
  }
  type += str_format("[{}]", str_join(t.shape, ", "));
  if (t.encoding.kind == EncodingKind::kPerTensor) {
    type += str_format(" scale={:.6g} zero={}", t.encoding.scale, t.encoding.zero_point);
  } else if (t.encoding.kind == EncodingKind::kDynamicPerRow) {
    type += " scale per row";
  }
  return type;
}

std::string attributes_of(const OpAttributes& a) {
  const OpAttributes none;
  std::string text;
  if (a.eps != none.eps) text += str_format(" eps={:g}", a.eps);
  if (a.weight_offset != none.weight_offset) text += str_format(" weight_offset={:g}", a.weight_offset);
  if (a.factor != none.factor) text += str_format(" factor={:.8g}", a.factor);
  if (a.softcap != none.softcap) text += str_format(" softcap={:g}", a.softcap);
  if (a.head_dim != none.head_dim) text += str_format(" head_dim={}", a.head_dim);
  if (a.interleaved) text += " interleaved";
  if (a.window != none.window) text += str_format(" window={}", a.window);
  if (a.quantize_input) text += a.int16_input ? " quantize_input=int16" : " quantize_input";
  if (a.transpose_b) text += " transpose_b";
  if (a.on_host) text += " on_host";
  if (a.axis != none.axis) text += str_format(" axis={}", a.axis);
  if (a.begin != none.begin) text += str_format(" begin={}", a.begin);
  if (a.candidates != 0) text += str_format(" candidates={}", a.candidates);
  return text;
}

}  // namespace

std::string to_text(const Graph& graph) {
  std::string text = str_format("graph {} tokens={} context={}\n", printable(graph.name), graph.tokens, graph.context);
  for (const Tensor& t : graph.tensors) {
    if (t.role == TensorRole::kActivation) continue;
    text += str_format("  {:6} %{}: {}\n", tensor_role_name(t.role), printable(t.name), type_of(t));
  }
  for (const Op& op : graph.ops) {
    std::string outputs, inputs;
    for (const TensorId id : op.outputs) {
      outputs +=
          str_format("{}%{}: {}", outputs.empty() ? "" : ", ", printable(graph.at(id).name), type_of(graph.at(id)));
    }
    for (const TensorId id : op.inputs) {
      inputs += str_format("{}%{}", inputs.empty() ? "" : ", ", printable(graph.at(id).name));
    }
    text += str_format("  {}{}{}({}){}\n", outputs, outputs.empty() ? "" : " = ", op_kind_name(op.kind), inputs,
                       attributes_of(op.attributes));
  }
  return text;
}

}  // namespace tandem::ir

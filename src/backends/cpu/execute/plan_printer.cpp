#include "backends/cpu/execute/plan_printer.h"

#include "base/format.h"
#include "base/printable.h"

namespace tandem::cpu {
namespace {

std::string_view step_kind_name(Step::Kind kind) {
  switch (kind) {
    case Step::Kind::kRows: return "rows";
    case Step::Kind::kLinear: return "linear";
    case Step::Kind::kAttention: return "attention";
    case Step::Kind::kMask: return "mask";
  }
  return "unknown";
}

// An op by what it writes: its outputs, or the cache that it stores to.
std::string op_text(const ir::Graph& graph, const ir::Op& op) {
  const ir::TensorId written = op.outputs.empty() ? op.inputs[2] : op.outputs[0];
  return str_format("{}({})", op_kind_name(op.kind), printable(graph.at(written).name));
}

std::string step_text(const ir::Graph& graph, const Step& step) {
  std::string text(step_kind_name(step.kind));
  if (step.tail) text += ", tail";
  if (step.gated) text += ", gated";
  if (step.added >= 0) text += str_format(", adds %{}", printable(graph.at(step.added).name));
  text += ":";
  const char* separator = " ";
  for (const uint32_t index : step.ops) {
    text += separator + op_text(graph, graph.ops[index]);
    separator = ", ";
  }
  if (step.quantizes >= 0) {
    const ir::Op& layer = graph.ops[static_cast<size_t>(step.quantizes)];
    text += str_format("{}quantize for {}", separator, printable(graph.at(layer.inputs[1]).name));
  }
  return text;
}

std::string buffer_text(const ir::Graph& graph, const Buffer& buffer) {
  switch (buffer.kind) {
    case Buffer::Kind::kNone: return "nowhere";
    case Buffer::Kind::kArena: return str_format("arena+{}", buffer.offset);
    case Buffer::Kind::kBinding: return str_format("%{}", printable(graph.at(buffer.binding).name));
    case Buffer::Kind::kConstant: return "file";
    case Buffer::Kind::kLocal: return str_format("local+{}", buffer.offset);
  }
  return "unknown";
}

}  // namespace

std::string to_text(const MethodPlan& plan) {
  const ir::Graph& graph = *plan.graph;
  std::string text;
  for (const Step& step : plan.steps) text += step_text(graph, step) + "\n";
  text += "buffers:";
  const char* separator = " ";
  for (size_t i = 0; i < graph.tensors.size(); ++i) {
    if (graph.tensors[i].role != ir::TensorRole::kActivation) continue;
    text += str_format("{}{} {}", separator, printable(graph.tensors[i].name), buffer_text(graph, plan.buffers[i]));
    separator = ", ";
  }
  text += "\n";
  if (plan.lm_head_step >= 0) text += str_format("lm head: step {}\n", plan.lm_head_step);
  return text;
}

}  // namespace tandem::cpu

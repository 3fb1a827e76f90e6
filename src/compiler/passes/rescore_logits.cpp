#include <algorithm>

#include "base/error.h"
#include "compiler/passes/passes.h"

namespace tandem {
namespace {

ir::Op* writer_of(ir::Graph& graph, ir::TensorId id) {
  const auto found = std::ranges::find_if(
      graph.ops, [&](const ir::Op& op) { return std::ranges::find(op.outputs, id) != op.outputs.end(); });
  return found == graph.ops.end() ? nullptr : &*found;
}

}  // namespace

Status rescore_logits(ir::Graph& graph, const PassContext& context) {
  const int64_t candidates = context.recipe.rescore.value_or(0);
  // Calibration observes the logits of the float model.
  if (candidates == 0 || context.form->numbers != StaticForm::Numbers::kEncoded) return ok_status();
  const auto logits = graph.find(ir::PurposeKind::kLogits), table = graph.find(ir::PurposeKind::kEmbedding);
  if (!logits || !table) return internal_error("the graph has no logits, or no embedding to rescore them with");
  ir::Op rescore = {ir::OpKind::kRescore, {}, {*logits}, {.on_host = true, .candidates = candidates}};
  rescore.attributes.candidates = std::min(candidates, graph.at(*logits).shape[1]);
  // From the logits back to the LM head: the CPU applies the ops that follow its product to the candidates.
  ir::Op* op = writer_of(graph, *logits);
  for (; op != nullptr && op->kind != ir::OpKind::kLinear; op = writer_of(graph, op->inputs[0])) {
    if (op->kind == ir::OpKind::kScale) {
      rescore.attributes.factor *= op->attributes.factor;
    } else if (op->kind == ir::OpKind::kSoftcap && rescore.attributes.factor == 1.0f) {
      rescore.attributes.softcap = op->attributes.factor;
    } else {
      return internal_error("the logits cannot be rescored: the LM head is followed by {}", ir::op_kind_name(op->kind));
    }
  }
  if (op == nullptr || op->inputs.size() != 2) return internal_error("there is no head to rescore, or one with a bias");
  const ir::TensorId x = op->inputs[0];
  ir::Tensor coarse = graph.at(*logits);
  coarse.name = "head.coarse";
  coarse.role = ir::TensorRole::kActivation;
  coarse.purpose = {.kind = ir::PurposeKind::kLmHead};
  const ir::TensorId coarse_id = graph.add(std::move(coarse));
  writer_of(graph, *logits)->outputs[0] = coarse_id;
  rescore.inputs = {coarse_id, x, *table};
  graph.ops.push_back(std::move(rescore));
  return ok_status();
}

}  // namespace tandem

#include "ir/verify_rescore.h"

#include "base/error.h"

namespace tandem::ir {
namespace {

// An activation or an output, [tokens, width].
Status check_rows(const Graph& graph, const Tensor& t) {
  const bool is_computed = t.role == TensorRole::kActivation || t.role == TensorRole::kOutput;
  const bool is_numbers =
      t.dtype == DType::kF32 || t.dtype == DType::kF16 || t.encoding.kind == EncodingKind::kPerTensor;
  if (!is_computed || !is_numbers || t.shape.size() != 2 || t.shape[0] != graph.tokens) {
    return corrupt("\"{}\" should be computed numbers of [{}, width]", t.name, graph.tokens);
  }
  return ok_status();
}

}  // namespace

Status verify_rescore(const Graph& graph, const Op& op) {
  const Tensor &coarse = graph.at(op.inputs[0]), &x = graph.at(op.inputs[1]), &table = graph.at(op.inputs[2]);
  const Tensor& logits = graph.at(op.outputs[0]);
  for (const Tensor* tensor : {&coarse, &x, &logits}) TANDEM_TRY(check_rows(graph, *tensor));
  if (table.shape != std::vector<int64_t>{coarse.shape[1], x.shape[1]}) {
    return corrupt("\"{}\" should be a weight of [{}, {}]", table.name, coarse.shape[1], x.shape[1]);
  }
  if (logits.shape != coarse.shape || logits.dtype != coarse.dtype || logits.encoding != coarse.encoding) {
    return corrupt("\"{}\" and \"{}\" are not of one shape, dtype and encoding", coarse.name, logits.name);
  }
  if (op.attributes.candidates < 1 || op.attributes.candidates > logits.shape[1]) {
    return corrupt("rescores {} of {} logits", op.attributes.candidates, logits.shape[1]);
  }
  if (!op.attributes.on_host) return corrupt("is left to a device, and is the CPU's");
  return ok_status();
}

}  // namespace tandem::ir

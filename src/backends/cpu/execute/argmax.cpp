// The argmax of the logits without storing the logits, for greedy decoding: tasks compute a few panels of the LM head
// at a time in their own scratch, apply the ops that follow it, and keep the maximum. A logit does not depend on
// neighbouring panels, so the token is exactly the one that the whole row would give.
#include <algorithm>
#include <limits>
#include <mutex>

#include "backends/cpu/execute/step_runner.h"
#include "backends/interface/io_conversion.h"

namespace tandem::cpu {
namespace {

using ir::Op;
using ir::OpKind;
using ir::TensorId;
using ir::TensorRole;

struct Maximum {
  float value = -std::numeric_limits<float>::infinity();
  int64_t index = -1;

  // Never takes NaN, nor -infinity.
  void join(const Maximum& other) {
    if (other.value > value || (other.value == value && other.index < index)) *this = other;
  }
};

bool may_follow(OpKind kind) { return kind == OpKind::kScale || kind == OpKind::kSoftcap || kind == OpKind::kConvert; }

}  // namespace

// Elementwise ops may follow the LM head, up to the only output; anything else needs the whole row.
void find_lm_head(MethodPlan& plan) {
  const ir::Graph& graph = *plan.graph;
  size_t head = graph.ops.size();
  while (head > 0 && may_follow(graph.ops[head - 1].kind)) --head;
  if (head == 0 || graph.ops[--head].kind != OpKind::kLinear) return;
  const auto step = std::ranges::find_if(plan.steps, [&](const Step& s) {
    return s.kind == Step::Kind::kLinear && s.tail && s.ops.size() == 1 && s.ops[0] == head;
  });
  if (step == plan.steps.end()) return;
  std::vector<uint32_t> behind;
  TensorId last = graph.ops[head].outputs[0];
  for (size_t i = head + 1; i < graph.ops.size(); ++i) {
    if (graph.at(last).role != TensorRole::kActivation || graph.ops[i].inputs[0] != last) return;
    last = graph.ops[i].outputs[0];
    const bool keeps = graph.ops[i].kind == OpKind::kConvert && graph.at(last).dtype == DType::kF32;
    if (!keeps) behind.push_back(static_cast<uint32_t>(i));
  }
  const ir::Tensor& logits = graph.at(last);
  if (logits.role != TensorRole::kOutput || logits.purpose.kind != ir::PurposeKind::kLogits) return;
  if (logits.shape.back() > std::numeric_limits<int32_t>::max()) return;
  plan.lm_head_step = step - plan.steps.begin();
  plan.lm_head_ops = std::move(behind);
  plan.scratch = std::max(plan.scratch, plan.linear_scratch + uint64_t{kHeadRows} * sizeof(float));
}

int32_t StepRunner::argmax_token(Rows rows) {
  const Op& head = graph_.ops[plan_.steps[static_cast<size_t>(plan_.lm_head_step)].ops[0]];
  const PackedMatrix& matrix = weight_of(head);
  const QuantizedRows input = quantized(head, rows.count);
  const int64_t panels = matrix.panels(), tasks = linear_tasks(panels, matrix.cols, rows.count);
  Maximum maximum;
  std::mutex joining;
  pool_.run(tasks, [&](int64_t task, int thread) {
    auto* const y = reinterpret_cast<float*>(scratch(thread) + plan_.linear_scratch);
    Maximum mine;
    const int64_t end = panels * (task + 1) / tasks;
    for (int64_t begin = panels * task / tasks; begin < end; begin += kHeadPanels) {
      const int64_t to = std::min(begin + kHeadPanels, end), first = begin * kPanelRows;
      const int64_t count = std::min(to * kPanelRows, matrix.rows) - first;
      linear_panels(head, begin, to, rows, input, thread, y, count);
      for (const uint32_t index : plan_.lm_head_ops) {
        const Op& op = graph_.ops[index];
        const ir::Tensor& out = graph_.at(op.outputs[0]);
        switch (op.kind) {
          case OpKind::kScale: kernels_.scale(y, op.attributes.factor, count, y); break;
          case OpKind::kSoftcap: kernels_.softcap(y, op.attributes.factor, count, y); break;
          case OpKind::kConvert: ir::round_row(out.dtype, out.encoding, y, count); break;
          case OpKind::kEmbedding:
          case OpKind::kLinear:
          case OpKind::kRmsNorm:
          case OpKind::kLayerNorm:
          case OpKind::kAdd:
          case OpKind::kMul:
          case OpKind::kSilu:
          case OpKind::kGeluTanh:
          case OpKind::kSiluMul:
          case OpKind::kGeluTanhMul:
          case OpKind::kRopeTable:
          case OpKind::kRope:
          case OpKind::kStoreKv:
          case OpKind::kAttention:
          case OpKind::kMaskToFloat:
          case OpKind::kSplitHeads:
          case OpKind::kJoinHeads:
          case OpKind::kAppendRows:
          case OpKind::kMatMul:
          case OpKind::kAddMask:
          case OpKind::kSoftmax:
          case OpKind::kSigmoid:
          case OpKind::kAddVector:
          case OpKind::kConcat:
          case OpKind::kQuantizedAttention:
          case OpKind::kSlice:
          case OpKind::kMaskedSoftmax:
          case OpKind::kRescore:
          case OpKind::kHadamard: break;  // find_lm_head() lets none of them through.
        }
      }
      const int64_t index = kernels_.argmax(y, count);
      mine.join({y[index], first + index});
    }
    const std::lock_guard lock(joining);
    maximum.join(mine);
  });
  return static_cast<int32_t>(maximum.index);
}

}  // namespace tandem::cpu

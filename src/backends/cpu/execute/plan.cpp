#include "backends/cpu/execute/plan.h"

#include <algorithm>
#include <optional>

#include "backends/cpu/execute/check_ops.h"
#include "backends/cpu/execute/int16_linear.h"
#include "base/checked.h"
#include "base/error.h"
#include "ir/op_table.h"
#include "weight_layout/bind_matrix.h"

namespace tandem::cpu {
namespace {

using ir::Op;
using ir::OpKind;
using ir::Tensor;
using ir::TensorId;
using ir::TensorRole;

constexpr uint64_t kAlign = 64;
// More than any real model needs; a file that asks for more is broken.
constexpr uint64_t kMaxArena = uint64_t{1} << 38;

class Planner {
 public:
  Planner(const ir::Graph& graph, const Artifact& artifact, const KernelTable& kernels)
      : graph_(graph), artifact_(artifact), kernels_(kernels) {
    plan_.graph = &graph;
    plan_.buffers.resize(graph.tensors.size());
    plan_.matrices.resize(graph.tensors.size());
  }

  Result<MethodPlan> run() {
    TANDEM_TRY(check_ops(graph_));
    TANDEM_TRY(find_keys());
    TANDEM_TRY(bind_outside());
    alias_buffers();
    group_ops();
    TANDEM_TRY(allocate_activations());
    TANDEM_TRY(add_scratch());
    find_lm_head(plan_);
    find_hidden_step(plan_);
    return std::move(plan_);
  }

 private:
  Buffer& buffer(TensorId id) { return plan_.buffers[static_cast<size_t>(id)]; }

  Status find_keys() {
    plan_.is_keys.assign(graph_.tensors.size(), false);
    for (const Op& op : graph_.ops) {
      if (is_attention(op.kind)) plan_.is_keys[static_cast<size_t>(op.inputs[1])] = true;
    }
    for (const Op& op : graph_.ops) {
      if (!is_attention(op.kind)) continue;
      const Tensor &keys = graph_.at(op.inputs[1]), &values = graph_.at(op.inputs[2]);
      if (plan_.is_keys[static_cast<size_t>(op.inputs[2])]) {
        return unsupported("method \"{}\" has \"{}\" for keys and for values, which the CPU does not run", graph_.name,
                           values.name);
      }
      if (keys.dtype != values.dtype) {
        return unsupported("method \"{}\" has keys in {} and values in {}; the CPU runs them in one and the same",
                           graph_.name, dtype_name(keys.dtype), dtype_name(values.dtype));
      }
    }
    return ok_status();
  }

  Status bind_outside() {
    for (size_t i = 0; i < graph_.tensors.size(); ++i) {
      const Tensor& t = graph_.tensors[i];
      Buffer& p = plan_.buffers[i];
      switch (t.role) {
        case TensorRole::kInput:
        case TensorRole::kOutput:
        case TensorRole::kState:
          p.kind = Buffer::Kind::kBinding;
          p.binding = static_cast<TensorId>(i);
          if (t.purpose.kind == ir::PurposeKind::kPositions && t.dtype == DType::kI32 &&
              t.shape == std::vector<int64_t>{graph_.tokens}) {
            plan_.positions = p.binding;
          }
          break;
        case TensorRole::kVector: {
          const VectorEntry* entry = artifact_.find_vector(t.name);
          if (entry == nullptr) return corrupt("the vector \"{}\" is absent", t.name);
          p.kind = Buffer::Kind::kConstant;
          p.constant = reinterpret_cast<const float*>(artifact_.bytes(entry->data).data());
          break;
        }
        case TensorRole::kWeight: {
          const WeightEntry* entry = artifact_.find_weight(t.name);
          if (entry == nullptr) return corrupt("the weight \"{}\" is absent", t.name);
          TANDEM_ASSIGN(plan_.matrices[i], bind_matrix(*entry, artifact_));
          break;
        }
        case TensorRole::kActivation: break;
      }
    }
    return ok_status();
  }

  // How many ops read each tensor.
  std::vector<int> count_uses() const {
    std::vector<int> uses(graph_.tensors.size(), 0);
    for (const Op& op : graph_.ops) {
      for (const TensorId id : op.inputs) ++uses[static_cast<size_t>(id)];
    }
    return uses;
  }

  // Conversions from f32 to f32 copy nothing: the two tensors share a buffer.
  void alias_buffers() {
    const std::vector<int> uses = count_uses();
    for (const Op& op : graph_.ops) {
      if (op.kind == OpKind::kMaskToFloat && graph_.at(op.inputs[0]).dtype == DType::kF32 &&
          graph_.at(op.outputs[0]).role == TensorRole::kActivation) {
        buffer(op.outputs[0]) = buffer(op.inputs[0]);
      }
      if (op.kind == OpKind::kConvert && graph_.at(op.outputs[0]).dtype == DType::kF32 &&
          graph_.at(op.inputs[0]).role == TensorRole::kActivation &&
          graph_.at(op.outputs[0]).role == TensorRole::kOutput && uses[static_cast<size_t>(op.inputs[0])] == 1) {
        buffer(op.inputs[0]) = buffer(op.outputs[0]);
      }
    }
  }

  bool is_alias(const Op& op) const {
    const bool converts = op.kind == OpKind::kMaskToFloat || op.kind == OpKind::kConvert;
    if (!converts) return false;
    const Buffer& from = plan_.buffers[static_cast<size_t>(op.inputs[0])];
    const Buffer& to = plan_.buffers[static_cast<size_t>(op.outputs[0])];
    return from.kind == Buffer::Kind::kBinding && to.kind == Buffer::Kind::kBinding && from.binding == to.binding;
  }

  // Whether op i is the product of the outputs of the last step's two layers, which no other op reads.
  bool closes_gate(size_t i, const std::vector<int>& uses) const {
    const Op& op = graph_.ops[i];
    if ((op.kind != OpKind::kSiluMul && op.kind != OpKind::kGeluTanhMul) || plan_.steps.empty()) return false;
    const Step& last = plan_.steps.back();
    if (last.kind != Step::Kind::kLinear || last.gated || last.ops.size() != 2 || last.ops[1] + 1 != i) return false;
    const Op &gate = graph_.ops[last.ops[0]], &up = graph_.ops[last.ops[1]];
    const auto only_here = [&](TensorId id) {
      return graph_.at(id).role == TensorRole::kActivation && uses[static_cast<size_t>(id)] == 1;
    };
    return op.inputs[0] == gate.outputs[0] && op.inputs[1] == up.outputs[0] && only_here(op.inputs[0]) &&
           only_here(op.inputs[1]);
  }

  // What op i adds to the output of the layer before it, if no other op reads that output; or -1.
  TensorId added_to_linear(size_t i, const std::vector<int>& uses) const {
    const Op& op = graph_.ops[i];
    if (op.kind != OpKind::kAdd || plan_.steps.empty()) return -1;
    const Step& last = plan_.steps.back();
    if (last.kind != Step::Kind::kLinear || last.ops.size() != 1 || last.ops[0] + 1 != i) return -1;
    const TensorId output = graph_.ops[last.ops[0]].outputs[0];
    if (graph_.at(output).role != TensorRole::kActivation || uses[static_cast<size_t>(output)] != 1) return -1;
    return op.inputs[0] == output ? op.inputs[1] : op.inputs[1] == output ? op.inputs[0] : -1;
  }

  bool joins_linear(size_t i) const {
    if (plan_.steps.empty() || i == 0) return false;
    const Op &op = graph_.ops[i], &before = graph_.ops[i - 1];
    const Step& last = plan_.steps.back();
    return last.kind == Step::Kind::kLinear && !last.gated && last.added < 0 && last.ops.back() + 1 == i &&
           before.inputs[0] == op.inputs[0] && before.attributes.quantize_input == op.attributes.quantize_input &&
           before.attributes.int16_input == op.attributes.int16_input;
  }

  // Elements that a row-wise op computes for a row. A sine costs about as much as 16 elements of other work.
  int64_t row_cost(const Op& op) const {
    const int64_t width = graph_.at(op.kind == OpKind::kStoreKv ? op.inputs[0] : op.outputs[0]).shape.back();
    return op.kind == OpKind::kRopeTable ? 16 * width : width;
  }

  // The row-wise step under construction, or a new one.
  Step& row_step(bool tail) {
    const bool fits = !plan_.steps.empty() && plan_.steps.back().kind == Step::Kind::kRows &&
                      plan_.steps.back().tail == tail && plan_.steps.back().quantizes < 0;
    if (!fits) plan_.steps.push_back({Step::Kind::kRows, {}, tail});
    return plan_.steps.back();
  }

  void group_ops() {
    const std::vector<int> uses = count_uses();
    size_t tail_begin = 0;  // After the last op that looks across tokens.
    for (size_t i = 0; i < graph_.ops.size(); ++i) {
      const OpKind kind = graph_.ops[i].kind;
      // A mask is converted for all rows of a call at once.
      if (op_info(kind).looks_across_tokens || kind == OpKind::kMaskToFloat) tail_begin = i + 1;
    }
    for (size_t i = 0; i < graph_.ops.size(); ++i) {
      const Op& op = graph_.ops[i];
      const auto index = static_cast<uint32_t>(i);
      const bool tail = i >= tail_begin;
      if (is_alias(op)) continue;
      if (is_attention(op.kind) || op.kind == OpKind::kMaskToFloat) {
        plan_.steps.push_back({is_attention(op.kind) ? Step::Kind::kAttention : Step::Kind::kMask, {index}, tail});
      } else if (op.kind == OpKind::kLinear) {
        if (joins_linear(i)) {
          plan_.steps.back().ops.push_back(index);
          continue;
        }
        if (op.attributes.quantize_input) {
          Step& step = row_step(tail);
          step.quantizes = index;
          step.row_cost += graph_.at(op.inputs[0]).shape[1];
        }
        plan_.steps.push_back({Step::Kind::kLinear, {index}, tail});
      } else if (closes_gate(i, uses)) {
        plan_.steps.back().ops.push_back(index);
        plan_.steps.back().gated = true;
      } else if (const TensorId added = added_to_linear(i, uses); added >= 0) {
        plan_.steps.back().ops.push_back(index);
        plan_.steps.back().added = added;
      } else {
        Step& step = row_step(tail);
        step.ops.push_back(index);
        step.row_cost += row_cost(op);
      }
    }
  }

  // By tensor, the last step that reads it. A layer with quantized input reads what the previous step has quantized.
  std::vector<size_t> find_last_uses() const {
    std::vector<size_t> last_use(graph_.tensors.size(), 0);
    for (size_t i = 0; i < plan_.steps.size(); ++i) {
      const Step& step = plan_.steps[i];
      for (const uint32_t index : step.ops) {
        const Op& op = graph_.ops[index];
        const bool reads_quantized = op.kind == OpKind::kLinear && op.attributes.quantize_input;
        for (size_t k = reads_quantized ? 1 : 0; k < op.inputs.size(); ++k) {
          last_use[static_cast<size_t>(op.inputs[k])] = i;
        }
      }
      if (step.quantizes >= 0) {
        last_use[static_cast<size_t>(graph_.ops[static_cast<size_t>(step.quantizes)].inputs[0])] = i;
      }
    }
    return last_use;
  }

  // Whether the output of an op may overwrite `old`, whose last use is in the same step: a thread has then read an
  // element before it writes the new one. Not a linear layer's input, all of which every thread reads.
  bool may_overwrite_input(const Step& step, uint32_t op, TensorId old, TensorId output) const {
    if (graph_.at(old).shape != graph_.at(output).shape) return false;
    if (step.kind == Step::Kind::kLinear) return old == step.added && graph_.ops[step.ops[0]].inputs[0] != old;
    if (step.kind != Step::Kind::kRows || graph_.ops[op].kind == OpKind::kConvert) return false;
    if (step.quantizes >= 0 && graph_.ops[static_cast<size_t>(step.quantizes)].inputs[0] == old) return false;
    return std::ranges::none_of(
        step.ops, [&](uint32_t other) { return other > op && std::ranges::count(graph_.ops[other].inputs, old) > 0; });
  }

  // First fit by live range: an activation takes the lowest offset that is free from the step that writes it to the
  // last that reads it. Ranges are in steps, not ops, because threads run different ops of a step at the same time.
  Status allocate_activations() {
    struct Live {
      uint64_t offset, size;
      size_t last;
      TensorId tensor;
    };
    const std::vector<size_t> last_use = find_last_uses();
    std::vector<Live> live;  // Sorted by offset.
    for (size_t i = 0; i < plan_.steps.size(); ++i) {
      std::erase_if(live, [&](const Live& l) { return l.last < i; });
      const Step& step = plan_.steps[i];
      uint64_t local_bytes = 0;
      for (const uint32_t op : step.ops) {
        // A gate and its other layer are computed in a task's scratch; a layer's output that is added to is never
        // stored.
        if ((step.gated || step.added >= 0) && op != step.ops.back()) continue;
        for (const TensorId id : graph_.ops[op].outputs) {
          if (buffer(id).kind != Buffer::Kind::kNone) continue;
          if (step.kind == Step::Kind::kRows && last_use[static_cast<size_t>(id)] <= i) {
            buffer(id).kind = Buffer::Kind::kLocal;
            buffer(id).offset = local_bytes;
            local_bytes += round_up(static_cast<uint64_t>(kRowsTogether * graph_.at(id).shape.back()) * 4, kAlign);
            plan_.group_quantized_offset = std::max(plan_.group_quantized_offset, local_bytes);
            continue;
          }
          // Reuse the buffer of an input with its last use here: it is in the CPU's cache already.
          const auto successor = std::ranges::find_if(
              live, [&](const Live& l) { return l.last == i && may_overwrite_input(step, op, l.tensor, id); });
          if (successor != live.end()) {
            buffer(id) = buffer(successor->tensor);
            successor->tensor = id;
            successor->last = last_use[static_cast<size_t>(id)];
            continue;
          }
          const uint64_t size =
              round_up(static_cast<uint64_t>(ir::element_count_of(graph_.at(id))) * sizeof(float), kAlign);
          uint64_t offset = 0;
          auto at = live.begin();
          for (; at != live.end() && offset + size > at->offset; ++at) offset = at->offset + at->size;
          live.insert(at, {offset, size, std::max(last_use[static_cast<size_t>(id)], i), id});
          buffer(id).kind = Buffer::Kind::kArena;
          buffer(id).offset = offset;
          plan_.arena_bytes = std::max(plan_.arena_bytes, offset + size);
          if (plan_.arena_bytes > kMaxArena) return corrupt("method \"{}\" needs too much memory", graph_.name);
        }
      }
    }
    return ok_status();
  }

  uint64_t reserve(uint64_t bytes) {
    const uint64_t offset = plan_.arena_bytes;
    plan_.arena_bytes += round_up(bytes, kAlign);
    return offset;
  }

  // A call may have fewer rows than the graph, and then another layout.
  void reserve_quantized(int64_t most_rows, int64_t cols) {
    int64_t plain = 0, arranged = 0;
    for (int64_t rows = 1; rows <= most_rows && cols > 0; ++rows) {
      if (const QuantizedLayout* order = kernels_.quantized_layout(rows); order != nullptr) {
        arranged = std::max(arranged, (rows + order->group - 1) / order->group * order->group_bytes(cols));
      } else {
        plain = rows * cols;
      }
    }
    plan_.quantized_offset = reserve(static_cast<uint64_t>(plain));
    plan_.scales_offset = reserve(static_cast<uint64_t>(most_rows) * sizeof(float));
    plan_.arranged_offset = reserve(static_cast<uint64_t>(arranged));
    const int64_t group = arranged > 0 ? kMaxLayoutGroup * cols : 0;
    plan_.scratch = std::max(plan_.scratch, plan_.group_quantized_offset + static_cast<uint64_t>(group));
  }

  Status add_scratch() {
    int64_t widest = 0;
    bool has_window = false;
    const auto tokens = static_cast<uint64_t>(graph_.tokens);
    uint64_t quantized_rows = tokens;
    for (const Op& op : graph_.ops) {
      if (op.kind == OpKind::kLinear) {
        const PackedMatrix& matrix = plan_.matrices[static_cast<size_t>(op.inputs[1])];
        const bool int16 = op.attributes.int16_input;
        if (op.attributes.quantize_input) widest = std::max(widest, matrix.padded_cols());
        if (int16) quantized_rows = 2 * tokens;
        plan_.linear_scratch =
            std::max(plan_.linear_scratch, int16 ? int16_linear_scratch(kernels_, matrix, graph_.tokens)
                                                 : kernels_.linear_scratch_bytes(matrix, graph_.tokens));
      } else if (is_attention(op.kind)) {
        const int64_t dim = op.attributes.head_dim;
        const int64_t group = graph_.at(op.inputs[0]).shape[1] / dim / graph_.at(op.inputs[1]).shape[0];
        const int64_t rows = std::min(graph_.tokens, kAttentionTokens);
        plan_.scratch = std::max(plan_.scratch, kernels_.attention_scratch_floats(rows, group, dim) * sizeof(float));
        has_window = has_window || op.attributes.window > 0;
      }
    }
    reserve_quantized(static_cast<int64_t>(quantized_rows), widest);
    plan_.mask_end_offset = reserve(tokens * sizeof(int64_t));
    plan_.plain_slots_offset = reserve(tokens * sizeof(int64_t));
    if (has_window) {
      plan_.window_mask_offset = reserve(tokens * static_cast<uint64_t>(graph_.context) * sizeof(float));
    }
    plan_.linear_scratch = round_up(plan_.linear_scratch, kAlign);
    const bool gated = std::any_of(plan_.steps.begin(), plan_.steps.end(), [](const Step& s) { return s.gated; });
    if (gated) plan_.gate_scratch = std::max<uint64_t>(kGateFloats, tokens * kPanelRows) * sizeof(float);
    plan_.scratch = round_up(std::max(plan_.scratch, plan_.linear_scratch + 2 * plan_.gate_scratch), kAlign);
    if (plan_.arena_bytes > kMaxArena) return corrupt("method \"{}\" needs too much memory", graph_.name);
    return ok_status();
  }

  const ir::Graph& graph_;
  const Artifact& artifact_;
  const KernelTable& kernels_;
  MethodPlan plan_;
};

}  // namespace

void find_hidden_step(MethodPlan& plan) {
  const ir::Graph& graph = *plan.graph;
  plan.steps_to_hidden = plan.steps.size();
  const auto writes_hidden = [&](uint32_t op) {
    return std::ranges::any_of(graph.ops[op].outputs, [&](TensorId id) {
      return graph.at(id).role == TensorRole::kOutput && graph.at(id).purpose.kind == ir::PurposeKind::kFinalNorm;
    });
  };
  // Rows of steps in the tail are computed only if the caller reads them: they write nothing that a later call needs.
  for (size_t i = 0; i < plan.steps.size(); ++i) {
    if (plan.steps[i].tail && std::ranges::any_of(plan.steps[i].ops, writes_hidden)) plan.steps_to_hidden = i + 1;
  }
}

Result<MethodPlan> make_plan(const ir::Graph& graph, const Artifact& artifact, const KernelTable& kernels) {
  return Planner(graph, artifact, kernels).run();
}

}  // namespace tandem::cpu

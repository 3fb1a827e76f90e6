#include "backends/cpu/execute/step_runner.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>

#include "backends/cpu/execute/int16_linear.h"
#include "backends/interface/io_conversion.h"
#include "base/error.h"

namespace tandem::cpu {
namespace {

using ir::Op;
using ir::OpKind;
using ir::TensorId;
using ir::TensorRole;

// Below this many multiplications, about ten microseconds, the caller computes alone: waking another thread costs more.
constexpr int64_t kLinearWorthSharing = 1 << 18;
// Tasks per thread in a loop, so that a thread that falls behind leaves its share to the others.
constexpr int64_t kTasksPerThread = 8;
// Rows of a gate's product that are prefetched for writing.
constexpr int64_t kRowsAhead = 8;
// From this many slots on, an attention task takes the larger number of tokens.
constexpr int64_t kLongContext = 2048;

// One past the last slot of a mask's row that is not -infinity. Most of a long row is masked, so it is checked in whole
// blocks; the compiler vectorizes the inner loop.
int64_t visible_end(const float* row, int64_t end) {
  constexpr float kMasked = -std::numeric_limits<float>::infinity();
  constexpr int64_t kBlock = 64;
  while (end >= kBlock) {
    int visible = 0;
    for (int64_t i = end - kBlock; i < end; ++i) visible |= row[i] != kMasked;
    if (visible != 0) break;
    end -= kBlock;
  }
  while (end > 0 && row[end - 1] == kMasked) --end;
  return end;
}

// The number of leading slots of a mask's row that are 0.
int64_t plain_beginning(const float* row, int64_t end) {
  constexpr int64_t kBlock = 64;
  int64_t at = 0;
  for (; at + kBlock <= end; at += kBlock) {
    int other = 0;
    for (int64_t i = at; i < at + kBlock; ++i) other |= row[i] != 0.0f;
    if (other != 0) break;
  }
  while (at < end && row[at] == 0.0f) ++at;
  return at;
}

}  // namespace

void* StepRunner::memory(TensorId id) const {
  const Buffer& buffer = plan_.buffers[static_cast<size_t>(id)];
  switch (buffer.kind) {
    case Buffer::Kind::kArena: return arena_ + buffer.offset;
    case Buffer::Kind::kBinding: return bindings_.data[static_cast<size_t>(buffer.binding)];
    case Buffer::Kind::kConstant: return const_cast<float*>(buffer.constant);
    case Buffer::Kind::kLocal:
    case Buffer::Kind::kNone: return nullptr;
  }
  return nullptr;
}

Status StepRunner::check_bindings() {
  if (bindings_.data.size() != graph_.tensors.size()) return internal_error("bindings of another method");
  for (size_t i = 0; i < graph_.tensors.size(); ++i) {
    const TensorRole role = graph_.tensors[i].role;
    const bool outside = role == TensorRole::kInput || role == TensorRole::kOutput || role == TensorRole::kState;
    if (outside && bindings_.data[i] == nullptr) return internal_error("\"{}\" is not bound", graph_.tensors[i].name);
  }
  return ok_status();
}

Status StepRunner::run() {
  TANDEM_TRY(check_bindings());
  // Padding comes last and has position -1: nothing of it is computed.
  active_ = graph_.tokens;
  if (plan_.positions >= 0) {
    const int32_t* positions = indices(plan_.positions);
    active_ = std::find_if(positions, positions + graph_.tokens, [](int32_t p) { return p < 0; }) - positions;
  }
  if (bindings_.first_row < 0 || bindings_.rows < 0 || bindings_.first_row + bindings_.rows > active_) {
    return invalid_argument("rows {} to {} are asked for, and {} tokens are given", bindings_.first_row,
                            bindings_.first_row + bindings_.rows, active_);
  }
  if (bindings_.argmax != nullptr && (plan_.lm_head_step < 0 || bindings_.rows != 1)) {
    return internal_error("method \"{}\" is asked for the argmax of {} rows", graph_.name, bindings_.rows);
  }
  const size_t count = bindings_.reads_logits ? plan_.steps.size() : plan_.steps_to_hidden;
  for (const Step& step : std::span(plan_.steps).first(count)) {
    const Rows rows = step.tail ? Rows{bindings_.first_row, bindings_.rows} : Rows{0, active_};
    if (rows.count == 0) continue;
    if (bindings_.argmax != nullptr && &step == &plan_.steps[static_cast<size_t>(plan_.lm_head_step)]) {
      *bindings_.argmax = argmax_token(rows);
      break;
    }
    TANDEM_TRY(run_step(step, rows));
  }
  return ok_status();
}

Status StepRunner::run_step(const Step& step, Rows rows) {
  switch (step.kind) {
    case Step::Kind::kRows:
      TANDEM_TRY(check_rows(step, rows));
      run_rows(step, rows);
      return ok_status();
    case Step::Kind::kLinear: linear(step, rows); return ok_status();
    case Step::Kind::kAttention: attention(graph_.ops[step.ops[0]], rows); return ok_status();
    case Step::Kind::kMask: return mask_to_float(graph_.ops[step.ops[0]]);
  }
  return ok_status();
}

QuantizedRows StepRunner::quantized(const Op& op, int64_t rows) const {
  QuantizedRows input;
  if (!op.attributes.quantize_input) return input;
  input.stride = weight_of(op).padded_cols();
  input.scales = reinterpret_cast<const float*>(arena_ + plan_.scales_offset);
  if (kernels_.quantized_layout(rows * rows_per_token(op)) != nullptr) {
    input.arranged = arena_ + plan_.arranged_offset;
  } else {
    input.values = reinterpret_cast<const int8_t*>(arena_ + plan_.quantized_offset);
  }
  return input;
}

void StepRunner::linear_panels(const Op& op, int64_t begin, int64_t end, Rows rows, const QuantizedRows& input,
                               int thread, float* y, int64_t y_stride, const float* added) {
  const PackedMatrix& matrix = plan_.matrices[static_cast<size_t>(op.inputs[1])];
  LinearTask work;
  work.weight = &matrix;
  work.panel_begin = begin;
  work.panel_end = end;
  work.tokens = rows.count;
  work.x = op.attributes.quantize_input ? nullptr : floats(op.inputs[0], rows);
  work.x_stride = matrix.cols;
  work.quantized = input;
  work.bias = op.inputs.size() == 3 ? floats(op.inputs[2]) : nullptr;
  work.y = y - begin * kPanelRows;  // Rows of other panels are not touched.
  work.added = added == nullptr ? nullptr : added - begin * kPanelRows;
  work.y_stride = y_stride;
  work.scratch = scratch(thread);
  op.attributes.int16_input ? int16_linear(kernels_, work) : kernels_.linear(work);
}

int64_t StepRunner::linear_tasks(int64_t panels, int64_t cols, int64_t rows) const {
  if (panels * kPanelRows * cols * rows < kLinearWorthSharing) return 1;
  return std::min<int64_t>(panels, pool_.size() * kTasksPerThread);
}

void StepRunner::linear(const Step& step, Rows rows) {
  const Op& first = graph_.ops[step.ops[0]];
  const QuantizedRows input = quantized(first, rows.count);
  if (step.gated) {
    gated_linear(step, rows, input);
    return;
  }
  const Op& last = graph_.ops[step.ops.back()];
  const float* const added = step.added < 0 ? nullptr : floats(step.added, rows);
  const std::span layers(step.ops.data(), step.ops.size() - (added == nullptr ? 0 : 1));
  // Tasks are runs of panels over all the matrices of the step.
  int64_t panels = 0;
  for (const uint32_t index : layers) panels += weight_of(graph_.ops[index]).panels();
  const int64_t tasks = linear_tasks(panels, weight_of(first).cols, rows.count);
  pool_.run(tasks, [&](int64_t task, int thread) {
    int64_t begin = panels * task / tasks, end = panels * (task + 1) / tasks;
    for (const uint32_t index : layers) {
      const Op& op = graph_.ops[index];
      const int64_t there = weight_of(op).panels(), here = std::min(end, there);
      if (begin < here) {
        const int64_t row = begin * kPanelRows;
        float* const y = floats((added == nullptr ? op : last).outputs[0], rows) + row;
        linear_panels(op, begin, here, rows, input, thread, y, weight_of(op).rows,
                      added == nullptr ? nullptr : added + row);
      }
      begin = std::max<int64_t>(0, begin - there);
      end -= there;
      if (end <= 0) break;
    }
  });
}

// act(gate) * up: a task computes both for a run of panels, in its own memory, and then the product.
void StepRunner::gated_linear(const Step& step, Rows rows, const QuantizedRows& input) {
  const Op &gate = graph_.ops[step.ops[0]], &up = graph_.ops[step.ops[1]], &product = graph_.ops[step.ops[2]];
  const int64_t width = weight_of(gate).rows, panels = weight_of(gate).panels();
  const bool alone = 2 * width * weight_of(gate).cols * rows.count < kLinearWorthSharing;
  const int64_t most_panels = std::max<int64_t>(kGateFloats / (kPanelRows * rows.count), 1);
  const int64_t least_tasks = (panels + most_panels - 1) / most_panels;
  const int64_t wanted = std::min<int64_t>(panels, pool_.size() * kTasksPerThread);
  const int64_t tasks = alone ? least_tasks : std::max(wanted, least_tasks);
  const auto multiply = product.kind == OpKind::kSiluMul ? kernels_.silu_mul : kernels_.gelu_tanh_mul;
  float* y = floats(product.outputs[0], rows);
  const auto run_task = [&](int64_t task, int thread) {
    const int64_t begin = panels * task / tasks, end = panels * (task + 1) / tasks, stride = (end - begin) * kPanelRows;
    auto* const a = reinterpret_cast<float*>(scratch(thread) + plan_.linear_scratch);
    auto* const b = reinterpret_cast<float*>(scratch(thread) + plan_.linear_scratch + plan_.gate_scratch);
    linear_panels(gate, begin, end, rows, input, thread, a, stride);
    linear_panels(up, begin, end, rows, input, thread, b, stride);
    const int64_t from = begin * kPanelRows, count = std::min(end * kPanelRows, width) - from;
    for (int64_t n = 0; n < rows.count; ++n) {
      // Too far apart for a CPU to prefetch them by itself.
      const float* const ahead = y + std::min(n + kRowsAhead, rows.count - 1) * width + from;
      for (int64_t i = 0; i < count; i += 16) __builtin_prefetch(ahead + i, 1);
      multiply(a + n * stride, b + n * stride, count, y + n * width + from);
    }
  };
  if (alone) {
    for (int64_t task = 0; task < tasks; ++task) run_task(task, 0);
  } else {
    pool_.run(tasks, run_task);
  }
}

KvHead StepRunner::kv_head(TensorId cache, TensorId scales, int64_t head) const {
  const ir::Tensor& tensor = graph_.at(cache);
  const int64_t slots = tensor.shape[1], dim = tensor.shape[2];
  KvHead kv;
  kv.dtype = tensor.dtype;
  kv.slots = slots;
  kv.data = static_cast<uint8_t*>(memory(cache)) + dtype_bytes(tensor.dtype, static_cast<size_t>(head * slots * dim));
  if (scales >= 0) kv.scale_and_min = floats(scales) + head * slots * 2;
  return kv;
}

Status StepRunner::mask_to_float(const Op& op) {
  return ir::mask_to_float(graph_.at(op.inputs[0]), memory(op.inputs[0]), floats(op.outputs[0]));
}

void StepRunner::find_mask_ends(const float* mask) {
  auto* ends = reinterpret_cast<int64_t*>(arena_ + plan_.mask_end_offset);
  auto* plain = reinterpret_cast<int64_t*>(arena_ + plan_.plain_slots_offset);
  for (int64_t n = 0; n < active_; ++n) {
    const float* row = mask + n * graph_.context;
    ends[n] = visible_end(row, graph_.context);
    plain[n] = plain_beginning(row, ends[n]);
  }
}

// The mask of the rows by slot: the cache of a layer with a window may hold the last positions only, position p in slot
// p modulo the slots.
void StepRunner::fill_window_mask(const Op& op, Rows rows) {
  const int64_t window = op.attributes.window, slots = graph_.at(op.inputs[1]).shape[1];
  const WindowMask wanted{window, slots, op.inputs[3], rows.begin, rows.count};
  if (wanted == window_mask_of_) return;
  window_mask_of_ = wanted;
  const float* mask = floats(op.inputs[3]);
  const int32_t* positions = indices(op.inputs[4]);
  auto* windowed = reinterpret_cast<float*>(arena_ + plan_.window_mask_offset);
  for (int64_t n = rows.begin; n < rows.begin + rows.count; ++n) {
    float* row = windowed + n * slots;
    std::fill_n(row, slots, -std::numeric_limits<float>::infinity());
    for (int64_t j = std::max<int64_t>(positions[n] - window + 1, 0); j <= positions[n]; ++j) {
      row[j % slots] = mask[n * graph_.context + j];
    }
  }
}

void StepRunner::attention(const Op& op, Rows rows) {
  const ir::OpAttributes& a = op.attributes;
  const int64_t dim = a.head_dim, width = graph_.at(op.inputs[0]).shape[1];
  const int64_t kv_heads = graph_.at(op.inputs[1]).shape[0], group = width / dim / kv_heads;
  const float* mask = floats(op.inputs[3]);
  if (mask_ends_of_ != op.inputs[3]) {
    find_mask_ends(mask);
    mask_ends_of_ = op.inputs[3];
  }
  const auto* ends = reinterpret_cast<const int64_t*>(arena_ + plan_.mask_end_offset);
  const int64_t slots = graph_.at(op.inputs[1]).shape[1];
  if (a.window > 0) {
    fill_window_mask(op, rows);
    mask = reinterpret_cast<const float*>(arena_ + plan_.window_mask_offset);
  }
  const bool scaled = op.inputs.size() == 7;
  const int64_t last_end = ends[rows.begin + rows.count - 1];
  const int64_t together = last_end > kLongContext ? kAttentionTokens : kAttentionTokens / 2;
  const int64_t blocks = (rows.count + together - 1) / together;
  // The last blocks see the most slots: they run first, so that no thread is left with a long one at the end.
  pool_.run(kv_heads * blocks, [&](int64_t task, int thread) {
    const int64_t head = task % kv_heads, block = blocks - 1 - task / kv_heads;
    const int64_t begin = rows.begin + block * together;
    const int64_t count = std::min(together, rows.begin + rows.count - begin);
    AttentionTask work;
    work.q = floats(op.inputs[0]) + begin * width + head * group * dim;
    work.q_stride = width;
    work.out = floats(op.outputs[0]) + begin * width + head * group * dim;
    work.out_stride = width;
    work.tokens = count;
    work.group = group;
    work.dim = dim;
    work.k = kv_head(op.inputs[1], scaled ? op.inputs[5] : -1, head);
    work.v = kv_head(op.inputs[2], scaled ? op.inputs[6] : -1, head);
    work.slots = std::min(*std::max_element(ends + begin, ends + begin + count), slots);
    if (a.window > 0) {
      const int64_t oldest = std::max<int64_t>(indices(op.inputs[4])[begin] - a.window + 1, 0);
      work.first_tile = oldest % slots / kAttentionTile;
    }
    work.mask = mask + begin * slots;
    work.mask_stride = slots;
    if (a.window == 0) work.plain_slots = reinterpret_cast<const int64_t*>(arena_ + plan_.plain_slots_offset) + begin;
    work.quantized = op.kind == OpKind::kQuantizedAttention;
    work.scale = a.factor;
    work.softcap = a.softcap;
    work.scratch = reinterpret_cast<float*>(scratch(thread));
    kernels_.attention(work);
  });
}

}  // namespace tandem::cpu

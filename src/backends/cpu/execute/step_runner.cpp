#include "backends/cpu/execute/step_runner.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "backends/cpu/execute/wide_linear.h"
#include "base/error.h"
#include "ir/border.h"

namespace tandem::cpu {
namespace {

using ir::Op;
using ir::OpKind;
using ir::TensorId;
using ir::TensorRole;

// Work below this is done by the caller alone: waking another thread costs more. Both are about ten microseconds on one
// core; element-wise work is counted in elements, linear layers in multiplications.
constexpr int64_t kWorthSharing = 1 << 15;
constexpr int64_t kLinearWorthSharing = 1 << 18;
// Tasks per thread in a loop, so that a thread that falls behind leaves its share to the others.
constexpr int64_t kTasksPerThread = 4;

// One past the last slot of a mask's row that is not -infinity. Most of a long row is masked, so whole blocks of it are
// looked at at once; the compiler makes vector code of the inner loop.
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

}  // namespace

template <typename Body>
void StepRunner::each_part(Rows rows, int64_t elements, Body&& body) {
  const int64_t parts = elements < kWorthSharing ? 1 : std::min<int64_t>(rows.count, pool_.size());
  pool_.run(parts, [&](int64_t part, int) {
    const int64_t begin = rows.count * part / parts, end = rows.count * (part + 1) / parts;
    if (begin < end) body(Rows{rows.begin + begin, end - begin});
  });
}

void* StepRunner::memory(TensorId id) const {
  const Place& place = plan_.places[static_cast<size_t>(id)];
  switch (place.kind) {
    case Place::Kind::kArena: return arena_ + place.offset;
    case Place::Kind::kBinding: return bindings_.data[static_cast<size_t>(place.binding)];
    case Place::Kind::kConstant: return const_cast<float*>(place.constant);
    case Place::Kind::kNone: return nullptr;
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
  for (const Step& step : plan_.steps) {
    const Rows rows = step.tail ? Rows{bindings_.first_row, bindings_.rows} : Rows{0, active_};
    if (rows.count == 0) continue;
    TANDEM_TRY(run_step(step, rows));
  }
  return ok_status();
}

Status StepRunner::run_step(const Step& step, Rows rows) {
  const Op& op = graph_.ops[step.ops[0]];
  switch (step.kind) {
    case OpKind::kEmbedding: return embedding(op, rows);
    case OpKind::kLinear: linear(step, rows); return ok_status();
    case OpKind::kRmsNorm:
    case OpKind::kLayerNorm: norm(op, rows); return ok_status();
    case OpKind::kAdd:
    case OpKind::kMul:
    case OpKind::kScale:
    case OpKind::kSilu:
    case OpKind::kGeluTanh:
    case OpKind::kSiluMul:
    case OpKind::kGeluTanhMul:
    case OpKind::kSoftcap: elementwise(op, rows); return ok_status();
    case OpKind::kRopeTable: rope_table(op, rows); return ok_status();
    case OpKind::kRope: rope(op, rows); return ok_status();
    case OpKind::kStoreKv: return store_kv(op, rows);
    case OpKind::kAttention: attention(op, rows); return ok_status();
    case OpKind::kMaskToFloat: return mask_to_float(op);
    case OpKind::kConvert: convert(op, rows); return ok_status();
    default: return internal_error("the CPU does not know op {}", op_kind_name(step.kind));  // plan.cpp refuses them.
  }
}

Status StepRunner::embedding(const Op& op, Rows rows) {
  const PackedMatrix& table = plan_.matrices[static_cast<size_t>(op.inputs[1])];
  const int32_t* tokens = indices(op.inputs[0]);
  for (int64_t n = rows.begin; n < rows.begin + rows.count; ++n) {
    if (tokens[n] < 0 || tokens[n] >= table.rows) {
      return invalid_argument("token {} is not in the vocabulary of {}", tokens[n], table.rows);
    }
    unpack_row(table, tokens[n], floats(op.outputs[0]) + n * table.cols);
  }
  return ok_status();
}

void StepRunner::quantize_input(const Op& op, Rows rows) {
  const int64_t cols = graph_.at(op.inputs[0]).shape[1];
  const int64_t stride = plan_.matrices[static_cast<size_t>(op.inputs[1])].padded_cols();
  auto* codes = reinterpret_cast<int8_t*>(arena_ + plan_.codes_offset);
  auto* scales = reinterpret_cast<float*>(arena_ + plan_.scales_offset);
  each_part(rows, rows.count * cols, [&](Rows part) {
    const bool wide = op.attributes.wide_input;
    const int64_t first = (part.begin - rows.begin) * (wide ? 2 : 1);  // Codes are kept for the rows of this call only.
    (wide ? kernels_.quantize_rows_wide : kernels_.quantize_rows)(floats(op.inputs[0], part), cols, part.count, cols,
                                                                  codes + first * stride, stride, scales + first);
  });
}

void StepRunner::linear(const Step& step, Rows rows) {
  const Op& first = graph_.ops[step.ops[0]];
  const bool quantized = first.attributes.quantize_input;
  if (quantized) quantize_input(first, rows);

  // Tasks are runs of panels over all the matrices of the step.
  int64_t panels = 0;
  for (const uint32_t index : step.ops) {
    panels += plan_.matrices[static_cast<size_t>(graph_.ops[index].inputs[1])].panels();
  }
  const int64_t cols = graph_.at(first.inputs[0]).shape[1];
  const bool alone = panels * kPanelRows * cols * rows.count < kLinearWorthSharing;
  const int64_t tasks = alone ? 1 : std::min<int64_t>(panels, pool_.size() * kTasksPerThread);
  pool_.run(tasks, [&](int64_t task, int thread) {
    int64_t begin = panels * task / tasks, end = panels * (task + 1) / tasks;
    for (const uint32_t index : step.ops) {
      const Op& op = graph_.ops[index];
      const PackedMatrix& matrix = plan_.matrices[static_cast<size_t>(op.inputs[1])];
      const int64_t here = std::min(end, matrix.panels());
      if (begin < here) {
        LinearTask work;
        work.weight = &matrix;
        work.panel_begin = begin;
        work.panel_end = here;
        work.tokens = rows.count;
        work.x = floats(op.inputs[0], rows);
        work.x_stride = cols;
        if (quantized) {
          work.quantized = {reinterpret_cast<const int8_t*>(arena_ + plan_.codes_offset), matrix.padded_cols(),
                            reinterpret_cast<const float*>(arena_ + plan_.scales_offset)};
        }
        work.bias = op.inputs.size() == 3 ? floats(op.inputs[2]) : nullptr;
        work.y = floats(op.outputs[0], rows);
        work.y_stride = matrix.rows;
        work.scratch = scratch(thread);
        op.attributes.wide_input ? wide_linear(kernels_, work) : kernels_.linear(work);
      }
      begin = std::max<int64_t>(0, begin - matrix.panels());
      end -= matrix.panels();
      if (end <= 0) break;
    }
  });
}

void StepRunner::norm(const Op& op, Rows rows) {
  const int64_t width = graph_.at(op.inputs[0]).shape[1], group = graph_.at(op.inputs[1]).shape[0];
  const float* weight = floats(op.inputs[1]);
  const ir::OpAttributes& a = op.attributes;
  each_part(rows, rows.count * width, [&](Rows part) {
    const float* x = floats(op.inputs[0], part);
    float* y = floats(op.outputs[0], part);
    if (op.kind == OpKind::kLayerNorm) {
      kernels_.layer_norm(x, part.count, width, weight, floats(op.inputs[2]), a.eps, y);
    } else {
      kernels_.rms_norm(x, part.count * (width / group), group, weight, a.weight_offset, a.eps, y);
    }
  });
}

void StepRunner::elementwise(const Op& op, Rows rows) {
  const int64_t width = graph_.at(op.inputs[0]).shape[1], count = rows.count * width;
  const float* a = floats(op.inputs[0], rows);
  const float* b = op.inputs.size() > 1 ? floats(op.inputs[1], rows) : nullptr;
  float* y = floats(op.outputs[0], rows);
  const float factor = op.attributes.factor;
  const int64_t tasks = count < kWorthSharing ? 1 : pool_.size();
  pool_.run(tasks, [&](int64_t task, int) {
    const int64_t at = count * task / tasks, part = count * (task + 1) / tasks - at;
    switch (op.kind) {
      case OpKind::kAdd: kernels_.add(a + at, b + at, part, y + at); break;
      case OpKind::kMul: kernels_.mul(a + at, b + at, part, y + at); break;
      case OpKind::kScale: kernels_.scale(a + at, factor, part, y + at); break;
      case OpKind::kSilu: kernels_.silu(a + at, part, y + at); break;
      case OpKind::kGeluTanh: kernels_.gelu_tanh(a + at, part, y + at); break;
      case OpKind::kSiluMul: kernels_.silu_mul(a + at, b + at, part, y + at); break;
      case OpKind::kGeluTanhMul: kernels_.gelu_tanh_mul(a + at, b + at, part, y + at); break;
      default: kernels_.softcap(a + at, factor, part, y + at); break;
    }
  });
}

void StepRunner::rope_table(const Op& op, Rows rows) {
  const int64_t half = graph_.at(op.inputs[1]).shape[0];
  const float* frequency = floats(op.inputs[1]);
  const int32_t* positions = indices(op.inputs[0]);
  const float* long_frequency = op.inputs.size() == 3 ? floats(op.inputs[2]) : nullptr;
  float* cos = floats(op.outputs[0]);
  float* sin = floats(op.outputs[1]);
  // A sine costs about as much as 16 elements of other work.
  each_part(rows, rows.count * half * 16, [&](Rows part) {
    for (int64_t n = part.begin; n < part.begin + part.count; ++n) {
      const bool is_long = long_frequency != nullptr && positions[n] >= graph_.context;
      const auto position = static_cast<float>(is_long ? positions[n] - graph_.context : positions[n]);
      for (int64_t i = 0; i < half; ++i) {
        const float angle = position * (is_long ? long_frequency : frequency)[i];
        cos[n * half + i] = std::cos(angle) * op.attributes.factor;
        sin[n * half + i] = std::sin(angle) * op.attributes.factor;
      }
    }
  });
}

void StepRunner::rope(const Op& op, Rows rows) {
  const int64_t width = graph_.at(op.inputs[0]).shape[1], half = graph_.at(op.inputs[1]).shape[1];
  const int64_t dim = op.attributes.head_dim;
  const float* x = floats(op.inputs[0]);
  float* y = floats(op.outputs[0]);
  each_part(rows, rows.count * width, [&](Rows part) {
    for (int64_t n = part.begin; n < part.begin + part.count; ++n) {
      std::copy_n(x + n * width, width, y + n * width);
      kernels_.rope(y + n * width, width / dim, dim, half, floats(op.inputs[1]) + n * half,
                    floats(op.inputs[2]) + n * half, op.attributes.interleaved);
    }
  });
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

Status StepRunner::store_kv(const Op& op, Rows rows) {
  const int64_t width = graph_.at(op.inputs[0]).shape[1], dim = op.attributes.head_dim;
  const float* x = floats(op.inputs[0]);
  const int32_t* positions = indices(op.inputs[1]);
  for (int64_t n = rows.begin; n < rows.begin + rows.count; ++n) {
    if (positions[n] >= graph_.context) {
      return invalid_argument("position {} is beyond the context of {}", positions[n], graph_.context);
    }
  }
  const int64_t heads = width / dim, slots = graph_.at(op.inputs[2]).shape[1];
  const auto store = plan_.is_keys[static_cast<size_t>(op.inputs[2])] ? kernels_.store_key : kernels_.store_value;
  const auto store_head = [&](int64_t h) {
    const KvHead head = kv_head(op.inputs[2], op.inputs.size() == 4 ? op.inputs[3] : -1, h);
    for (int64_t n = rows.begin; n < rows.begin + rows.count; ++n) {
      store(x + n * width + h * dim, dim, positions[n] % slots, head);
    }
  };
  if (rows.count * width < kWorthSharing) {
    for (int64_t h = 0; h < heads; ++h) store_head(h);
  } else {
    pool_.run(heads, [&](int64_t h, int) { store_head(h); });
  }
  return ok_status();
}

Status StepRunner::mask_to_float(const Op& op) {
  return ir::mask_to_float(graph_.at(op.inputs[0]), memory(op.inputs[0]), floats(op.outputs[0]));
}

void StepRunner::find_mask_ends(const float* mask) {
  auto* ends = reinterpret_cast<int64_t*>(arena_ + plan_.mask_end_offset);
  for (int64_t n = 0; n < active_; ++n) ends[n] = visible_end(mask + n * graph_.context, graph_.context);
}

// The mask of the rows by slot: a cache of a layer with a window may hold the last positions only, each in the slot of
// its number modulo the slots.
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
  const int64_t blocks = (rows.count + kAttentionTokens - 1) / kAttentionTokens;
  // The last blocks see the most slots: they go first, so that no thread is left with a long one at the end.
  pool_.run(kv_heads * blocks, [&](int64_t task, int thread) {
    const int64_t head = task % kv_heads, block = blocks - 1 - task / kv_heads;
    const int64_t begin = rows.begin + block * kAttentionTokens;
    const int64_t count = std::min(kAttentionTokens, rows.begin + rows.count - begin);
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
    work.scale = a.factor;
    work.softcap = a.softcap;
    work.scratch = reinterpret_cast<float*>(scratch(thread));
    kernels_.attention(work);
  });
}

void StepRunner::convert(const Op& op, Rows rows) {
  const ir::Tensor& to = graph_.at(op.outputs[0]);
  const int64_t width = to.shape[1];
  auto* out = static_cast<uint8_t*>(memory(op.outputs[0]));
  for (int64_t n = rows.begin; n < rows.begin + rows.count; ++n) {
    ir::encode_row(to.dtype, to.encoding, floats(op.inputs[0]) + n * width, width,
                   out + dtype_bytes(to.dtype, static_cast<size_t>(n * width)));
  }
}

}  // namespace tandem::cpu

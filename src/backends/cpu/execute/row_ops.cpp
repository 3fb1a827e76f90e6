// The row-wise ops of StepRunner.
#include <algorithm>
#include <cmath>

#include "backends/cpu/execute/step_runner.h"
#include "backends/interface/io_conversion.h"
#include "base/error.h"

namespace tandem::cpu {
namespace {

using ir::Op;
using ir::OpKind;

// Below this many elements, about ten microseconds, the caller computes alone: waking another thread costs more.
constexpr int64_t kWorthSharing = 1 << 15;

}  // namespace

// Checks the ops' inputs before anything is computed.
Status StepRunner::check_rows(const Step& step, Rows rows) const {
  for (const uint32_t index : step.ops) {
    const Op& op = graph_.ops[index];
    for (int64_t n = rows.begin; n < rows.begin + rows.count; ++n) {
      if (op.kind == OpKind::kEmbedding) {
        const int32_t token = indices(op.inputs[0])[n];
        if (token < 0 || token >= weight_of(op).rows) {
          return invalid_argument("token {} is not in the vocabulary of {}", token, weight_of(op).rows);
        }
      } else if (op.kind == OpKind::kStoreKv) {
        const int32_t position = indices(op.inputs[1])[n];
        if (position < 0 || position >= graph_.context) {
          return invalid_argument("position {} is beyond the context of {}", position, graph_.context);
        }
      } else {
        break;
      }
    }
  }
  return ok_status();
}

void StepRunner::run_rows(const Step& step, Rows rows) {
  const Op* const layer = step.quantizes < 0 ? nullptr : &graph_.ops[static_cast<size_t>(step.quantizes)];
  const QuantizedLayout* const order =
      layer == nullptr ? nullptr : kernels_.quantized_layout(rows.count * rows_per_token(*layer));
  const int64_t together = order == nullptr ? kMaxLayoutGroup : order->group / rows_per_token(*layer);
  const int64_t parts = (rows.count + together - 1) / together;
  const auto run_part = [&](int64_t i, int thread) {
    const int64_t begin = rows.begin + i * together, end = std::min(begin + together, rows.begin + rows.count);
    uint8_t* const quantized = order == nullptr ? nullptr : scratch(thread) + plan_.group_quantized_offset;
    const Rows group{begin, end - begin, quantized};
    for (int64_t row = begin; row < end; row += kRowsTogether) {
      const Rows part{row, std::min(kRowsTogether, end - row), scratch(thread)};
      for (const uint32_t index : step.ops) row_op(graph_.ops[index], part);
      if (layer != nullptr) quantize(*layer, rows, group, part);
    }
    if (order != nullptr) arrange(*layer, *order, rows, group);
  };
  if (rows.count * step.row_cost < kWorthSharing) {
    for (int64_t i = 0; i < parts; ++i) run_part(i, 0);
  } else {
    pool_.run(parts, run_part);
  }
}

void StepRunner::row_op(const Op& op, Rows rows) {
  switch (op.kind) {
    case OpKind::kEmbedding: embedding(op, rows); return;
    case OpKind::kRmsNorm:
    case OpKind::kLayerNorm: norm(op, rows); return;
    case OpKind::kRopeTable: rope_table(op, rows); return;
    case OpKind::kRope: rope(op, rows); return;
    case OpKind::kHadamard: hadamard(op, rows); return;
    case OpKind::kStoreKv: store_kv(op, rows); return;
    case OpKind::kConvert: convert(op, rows); return;
    case OpKind::kAdd:
    case OpKind::kMul:
    case OpKind::kScale:
    case OpKind::kSilu:
    case OpKind::kGeluTanh:
    case OpKind::kSiluMul:
    case OpKind::kGeluTanhMul:
    case OpKind::kSoftcap: elementwise(op, rows); return;
    case OpKind::kLinear:
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
    case OpKind::kRescore: return;  // Steps of their own, or refused by check_ops().
  }
}

// `part` of the rows of a linear layer's input. Quantized values are kept for the rows of this call only: all of them,
// or, where the kernels want them rearranged, those of the thread's current group.
void StepRunner::quantize(const Op& op, Rows rows, Rows group, Rows part) {
  const PackedMatrix& weight = weight_of(op);
  const int64_t cols = weight.cols, stride = weight.padded_cols(), per_token = rows_per_token(op);
  const auto quantize_rows = op.attributes.int16_input ? kernels_.quantize_rows_int16 : kernels_.quantize_rows;
  auto* quantized = reinterpret_cast<int8_t*>(group.local == nullptr ? arena_ + plan_.quantized_offset : group.local);
  quantized += (part.begin - (group.local == nullptr ? rows.begin : group.begin)) * per_token * stride;
  auto* scales = reinterpret_cast<float*>(arena_ + plan_.scales_offset) + (part.begin - rows.begin) * per_token;
  quantize_rows(floats(op.inputs[0], part), cols, part.count, cols, quantized, stride, scales);
}

// The quantized values of a whole group of rows.
void StepRunner::arrange(const Op& op, const QuantizedLayout& order, Rows rows, Rows group) {
  const int64_t stride = weight_of(op).padded_cols(), per_token = rows_per_token(op);
  const int64_t index = (group.begin - rows.begin) * per_token / order.group;
  order.arrange(reinterpret_cast<const int8_t*>(group.local), stride, group.count * per_token, stride,
                arena_ + plan_.arranged_offset + index * order.group_bytes(stride));
}

void StepRunner::embedding(const Op& op, Rows rows) {
  const PackedMatrix& table = weight_of(op);
  const int32_t* tokens = indices(op.inputs[0]);
  float* y = floats(op.outputs[0], rows);
  for (int64_t n = 0; n < rows.count; ++n) unpack_row(table, tokens[rows.begin + n], y + n * table.cols);
}

void StepRunner::norm(const Op& op, Rows rows) {
  const int64_t width = graph_.at(op.inputs[0]).shape[1], group = graph_.at(op.inputs[1]).shape[0];
  const float* weight = floats(op.inputs[1]);
  const float* x = floats(op.inputs[0], rows);
  float* y = floats(op.outputs[0], rows);
  const ir::OpAttributes& a = op.attributes;
  if (op.kind == OpKind::kLayerNorm) {
    kernels_.layer_norm(x, rows.count, width, weight, floats(op.inputs[2]), a.eps, y);
  } else {
    kernels_.rms_norm(x, rows.count * (width / group), group, weight, a.weight_offset, a.eps, y);
  }
}

void StepRunner::elementwise(const Op& op, Rows rows) {
  const int64_t count = rows.count * graph_.at(op.inputs[0]).shape[1];
  const float* a = floats(op.inputs[0], rows);
  const float* b = op.inputs.size() > 1 ? floats(op.inputs[1], rows) : nullptr;
  float* y = floats(op.outputs[0], rows);
  const float factor = op.attributes.factor;
  switch (op.kind) {
    case OpKind::kAdd: kernels_.add(a, b, count, y); break;
    case OpKind::kMul: kernels_.mul(a, b, count, y); break;
    case OpKind::kScale: kernels_.scale(a, factor, count, y); break;
    case OpKind::kSilu: kernels_.silu(a, count, y); break;
    case OpKind::kGeluTanh: kernels_.gelu_tanh(a, count, y); break;
    case OpKind::kSiluMul: kernels_.silu_mul(a, b, count, y); break;
    case OpKind::kGeluTanhMul: kernels_.gelu_tanh_mul(a, b, count, y); break;
    case OpKind::kSoftcap: kernels_.softcap(a, factor, count, y); break;
    case OpKind::kEmbedding:
    case OpKind::kLinear:
    case OpKind::kRmsNorm:
    case OpKind::kLayerNorm:
    case OpKind::kRopeTable:
    case OpKind::kRope:
    case OpKind::kStoreKv:
    case OpKind::kAttention:
    case OpKind::kMaskToFloat:
    case OpKind::kConvert:
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
    case OpKind::kHadamard: break;  // Not elementwise.
  }
}

void StepRunner::rope_table(const Op& op, Rows rows) {
  const int64_t half = graph_.at(op.inputs[1]).shape[0];
  const float* frequency = floats(op.inputs[1]);
  const int32_t* positions = indices(op.inputs[0]) + rows.begin;
  const float* long_frequency = op.inputs.size() == 3 ? floats(op.inputs[2]) : nullptr;
  float* cos = floats(op.outputs[0], rows);
  float* sin = floats(op.outputs[1], rows);
  for (int64_t n = 0; n < rows.count; ++n) {
    const bool is_long = long_frequency != nullptr && positions[n] >= graph_.context;
    const auto position = static_cast<float>(is_long ? positions[n] - graph_.context : positions[n]);
    for (int64_t i = 0; i < half; ++i) {
      const float angle = position * (is_long ? long_frequency : frequency)[i];
      cos[n * half + i] = std::cos(angle) * op.attributes.factor;
      sin[n * half + i] = std::sin(angle) * op.attributes.factor;
    }
  }
}

void StepRunner::rope(const Op& op, Rows rows) {
  const int64_t width = graph_.at(op.inputs[0]).shape[1], half = graph_.at(op.inputs[1]).shape[1];
  const int64_t dim = op.attributes.head_dim;
  const float* cos = floats(op.inputs[1], rows);
  const float* sin = floats(op.inputs[2], rows);
  const float* x = floats(op.inputs[0], rows);
  float* y = floats(op.outputs[0], rows);
  for (int64_t n = 0; n < rows.count; ++n) {
    kernels_.rope(x + n * width, width / dim, dim, half, cos + n * half, sin + n * half, op.attributes.interleaved,
                  y + n * width);
  }
}

void StepRunner::hadamard(const Op& op, Rows rows) {
  const int64_t width = graph_.at(op.inputs[0]).shape[1], dim = op.attributes.head_dim;
  kernels_.hadamard(floats(op.inputs[0], rows), rows.count * (width / dim), dim, floats(op.outputs[0], rows));
}

void StepRunner::store_kv(const Op& op, Rows rows) {
  const int64_t width = graph_.at(op.inputs[0]).shape[1], dim = op.attributes.head_dim;
  const int64_t heads = width / dim, slots = graph_.at(op.inputs[2]).shape[1];
  const float* x = floats(op.inputs[0], rows);
  const int32_t* positions = indices(op.inputs[1]) + rows.begin;
  const auto store = plan_.is_keys[static_cast<size_t>(op.inputs[2])] ? kernels_.store_key : kernels_.store_value;
  for (int64_t h = 0; h < heads; ++h) {
    const KvHead head = kv_head(op.inputs[2], op.inputs.size() == 4 ? op.inputs[3] : -1, h);
    for (int64_t n = 0; n < rows.count; ++n) store(x + n * width + h * dim, dim, positions[n] % slots, head);
  }
}

void StepRunner::convert(const Op& op, Rows rows) {
  const ir::Tensor& to = graph_.at(op.outputs[0]);
  const int64_t width = to.shape[1];
  auto* out = static_cast<uint8_t*>(memory(op.outputs[0]));
  const float* x = floats(op.inputs[0], rows);
  for (int64_t n = 0; n < rows.count; ++n) {
    ir::encode_row(to.dtype, to.encoding, x + n * width, width,
                   out + dtype_bytes(to.dtype, static_cast<size_t>((rows.begin + n) * width)));
  }
}

}  // namespace tandem::cpu

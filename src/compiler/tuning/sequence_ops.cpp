#include "compiler/tuning/sequence_ops.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "compiler/tuning/sequence_attention.h"
#include "reference/row_ops.h"

namespace tandem {
namespace {

using ir::OpKind;

constexpr int64_t kTaskRows = 16;          // Of row-wise ops.
constexpr int64_t kReadWeights = 1 << 18;  // Read by a task.

// body(first row, rows) on all cores.
template <typename Body>
void for_rows(ThreadPool& pool, int64_t rows, Body&& body) {
  pool.run((rows + kTaskRows - 1) / kTaskRows, [&](int64_t task, int) {
    const int64_t begin = task * kTaskRows;
    body(begin, std::min(kTaskRows, rows - begin));
  });
}

}  // namespace

std::vector<SequenceRows> group_sequences(std::span<const std::vector<int32_t>> sequences, int64_t rows) {
  std::vector<SequenceRows> groups;
  for (const std::vector<int32_t>& sequence : sequences) {
    if (sequence.empty()) continue;
    if (groups.empty() || groups.back().rows() >= rows) groups.emplace_back();
    SequenceRows& group = groups.back();
    group.tokens.insert(group.tokens.end(), sequence.begin(), sequence.end());
    group.lengths.push_back(static_cast<int64_t>(sequence.size()));
  }
  return groups;
}

Result<const float*> FloatMatrices::matrix(const std::string& name, int64_t rows, int64_t cols) {
  const auto [it, is_new] = kept_.try_emplace(name);
  if (!is_new) return const_cast<const float*>(it->second.data());
  it->second.resize(static_cast<size_t>(rows * cols));
  float* values = it->second.data();
  const int64_t part = std::max<int64_t>(kReadWeights / cols, 1), tasks = (rows + part - 1) / part;
  std::vector<Status> failures(static_cast<size_t>(pool_.size()));
  pool_.run(tasks, [&](int64_t task, int thread) {
    const int64_t begin = task * part;
    Status status = weights_.read_rows(name, begin, std::min(part, rows - begin), values + begin * cols);
    if (!status.ok()) failures[static_cast<size_t>(thread)] = std::move(status);
  });
  for (Status& failure : failures) TANDEM_TRY(std::move(failure));
  return const_cast<const float*>(values);
}

Status FloatMatrices::embedding_rows(const std::string& name, std::span<const int32_t> tokens, int64_t cols,
                                     float* out) {
  for (size_t i = 0; i < tokens.size(); ++i) {
    TANDEM_TRY(weights_.read_rows(name, tokens[i], 1, out + static_cast<int64_t>(i) * cols));
  }
  return ok_status();
}

SequenceOps::SequenceOps(const ir::Graph& graph, int64_t longest, ThreadPool& pool)
    : graph_(graph),
      longest_(longest),
      pool_(pool),
      last_use_(graph.tensors.size(), 0),
      scratch_(static_cast<size_t>(pool.size())) {
  for (size_t i = 0; i < graph.ops.size(); ++i) {
    const ir::Op& op = graph.ops[i];
    for (const ir::TensorId id : op.inputs) last_use_[static_cast<size_t>(id)] = i;
    if (op.kind == OpKind::kStoreKv) stored_[op.inputs[2]] = op.inputs[0];
    // Attention reads what was stored.
    if (!ir::is_attention(op.kind)) continue;
    for (const size_t input : {1, 2}) last_use_[static_cast<size_t>(stored_.at(op.inputs[input]))] = i;
  }
}

Status SequenceOps::run(size_t begin, size_t end, const SequenceRows& rows, MatrixProvider& weights,
                        RowValues& values) {
  values.resize(graph_.tensors.size());
  for (size_t i = begin; i < end; ++i) {
    const ir::Op& op = graph_.ops[i];
    if (Status status = run_op(op, rows, weights, values); !status.ok()) {
      return with_context(std::move(status).error(), "op {} ({})", i, op_kind_name(op.kind));
    }
    for (size_t id = 0; id < values.size(); ++id) {
      if (!values[id].empty() && last_use_[id] <= i && last_use_[id] > 0) std::vector<float>().swap(values[id]);
    }
  }
  return ok_status();
}

Status SequenceOps::run_op(const ir::Op& op, const SequenceRows& rows, MatrixProvider& weights, RowValues& values) {
  switch (op.kind) {
    case OpKind::kEmbedding: return embed(op, rows, weights, values);
    case OpKind::kLinear: return multiply(op, rows.rows(), weights, values);
    case OpKind::kRmsNorm:
    case OpKind::kLayerNorm: return normalize(op, rows.rows(), weights, values);
    case OpKind::kRopeTable: return make_angles(op, weights);
    case OpKind::kRope: rotate(op, rows, values); return ok_status();
    case OpKind::kMaskToFloat:
    case OpKind::kStoreKv: return ok_status();  // Attention reads the rows where they are.
    case OpKind::kAttention: attend(op, rows, values); return ok_status();
    case OpKind::kAdd:
    case OpKind::kMul:
    case OpKind::kScale:
    case OpKind::kSilu:
    case OpKind::kGeluTanh:
    case OpKind::kSoftcap:
    case OpKind::kConvert: map_elements(op, rows.rows(), values); return ok_status();
    default: return internal_error("an op that only passes make");
  }
}

Status SequenceOps::embed(const ir::Op& op, const SequenceRows& rows, MatrixProvider& weights, RowValues& values) {
  const ir::Tensor& table = graph_.at(op.inputs[1]);
  for (const int32_t token : rows.tokens) {
    if (token < 0 || token >= table.shape[0]) {
      return invalid_argument("token {} is not in the vocabulary of {}", token, table.shape[0]);
    }
  }
  std::vector<float>& out = at(values, op.outputs[0]);
  out.resize(static_cast<size_t>(rows.rows() * table.shape[1]));
  return weights.embedding_rows(table.name, rows.tokens, table.shape[1], out.data());
}

Status SequenceOps::multiply(const ir::Op& op, int64_t rows, MatrixProvider& weights, RowValues& values) {
  const ir::Tensor& weight = graph_.at(op.inputs[1]);
  const int64_t outputs = weight.shape[0], cols = weight.shape[1];
  TANDEM_ASSIGN(const float* matrix, weights.matrix(weight.name, outputs, cols));
  std::vector<float>& out = at(values, op.outputs[0]);
  out.resize(static_cast<size_t>(rows * outputs));
  multiply_nt(ConstMatrix(at(values, op.inputs[0]).data(), rows, cols), ConstMatrix(matrix, outputs, cols),
              Matrix(out.data(), rows, outputs), pool_);
  if (op.inputs.size() < 3) return ok_status();
  TANDEM_ASSIGN(const std::vector<float> bias, weights.vector(graph_.at(op.inputs[2]).name));
  for_rows(pool_, rows, [&](int64_t first, int64_t count) {
    for (int64_t row = first; row < first + count; ++row) {
      for (int64_t i = 0; i < outputs; ++i) out[static_cast<size_t>(row * outputs + i)] += bias[static_cast<size_t>(i)];
    }
  });
  return ok_status();
}

Status SequenceOps::normalize(const ir::Op& op, int64_t rows, MatrixProvider& weights, RowValues& values) {
  const bool is_rms = op.kind == OpKind::kRmsNorm;
  TANDEM_ASSIGN(const std::vector<float> weight, weights.vector(graph_.at(op.inputs[1]).name));
  std::vector<float> bias;
  if (!is_rms) {
    TANDEM_ASSIGN(bias, weights.vector(graph_.at(op.inputs[2]).name));
  }
  const int64_t columns = width(op.inputs[0]), groups = columns / static_cast<int64_t>(weight.size());
  const std::vector<float>& x = at(values, op.inputs[0]);
  std::vector<float>& y = at(values, op.outputs[0]);
  y.resize(x.size());
  for_rows(pool_, rows, [&](int64_t first, int64_t count) {
    const float* from = x.data() + first * columns;
    float* to = y.data() + first * columns;
    if (is_rms) {
      rms_norm_rows(from, count * groups, weight, op.attributes.weight_offset, op.attributes.eps, to);
    } else {
      layer_norm_rows(from, count, weight, bias, op.attributes.eps, to);
    }
  });
  return ok_status();
}

Status SequenceOps::make_angles(const ir::Op& op, MatrixProvider& weights) {
  const bool has_long = op.inputs.size() == 3;
  // Rows of a table with two halves: sequences beyond the limit use the second one, all of them or none.
  const size_t frequencies = has_long && longest_ > graph_.at(op.inputs[0]).purpose.limit ? 2 : 1;
  TANDEM_ASSIGN(const std::vector<float> frequency, weights.vector(graph_.at(op.inputs[frequencies]).name));
  RopeAngles& angles = angles_[op.outputs[0]];
  if (!angles.cos.empty()) return ok_status();
  for (int64_t position = 0; position < longest_; ++position) {
    for (const float f : frequency) {
      const float angle = static_cast<float>(position) * f;
      angles.cos.push_back(std::cos(angle) * op.attributes.factor);
      angles.sin.push_back(std::sin(angle) * op.attributes.factor);
    }
  }
  return ok_status();
}

void SequenceOps::rotate(const ir::Op& op, const SequenceRows& rows, RowValues& values) {
  const RopeAngles& angles = angles_.at(op.inputs[1]);
  std::vector<float>& y = at(values, op.outputs[0]);
  y = at(values, op.inputs[0]);
  const int64_t columns = width(op.inputs[0]), half = width(op.inputs[1]);
  std::vector<int64_t> begins = {0};
  for (const int64_t length : rows.lengths) begins.push_back(begins.back() + length);
  pool_.run(static_cast<int64_t>(rows.lengths.size()), [&](int64_t i, int) {
    const auto index = static_cast<size_t>(i);
    const RopeShape shape{rows.lengths[index], columns, op.attributes.head_dim, half, op.attributes.interleaved};
    rotate_rows(y.data() + begins[index] * columns, angles.cos.data(), angles.sin.data(), shape);
  });
}

void SequenceOps::attend(const ir::Op& op, const SequenceRows& rows, RowValues& values) {
  std::vector<float>& y = at(values, op.outputs[0]);
  const int64_t columns = width(op.inputs[0]);
  y.resize(static_cast<size_t>(rows.rows() * columns));
  attend_sequences({.q = at(values, op.inputs[0]).data(),
                    .k = at(values, stored_.at(op.inputs[1])).data(),
                    .v = at(values, stored_.at(op.inputs[2])).data(),
                    .y = y.data(),
                    .lengths = rows.lengths,
                    .width = columns,
                    .kv_heads = graph_.at(op.inputs[1]).shape[0],
                    .attributes = op.attributes},
                   scratch_, pool_);
}

void SequenceOps::map_elements(const ir::Op& op, int64_t rows, RowValues& values) {
  const int64_t columns = width(op.outputs[0]);
  const float* a = at(values, op.inputs[0]).data();
  const float* b = op.inputs.size() > 1 ? at(values, op.inputs[1]).data() : nullptr;
  std::vector<float>& out = at(values, op.outputs[0]);
  out.resize(static_cast<size_t>(rows * columns));
  float* y = out.data();
  const float factor = op.attributes.factor;
  for_rows(pool_, rows, [&](int64_t first, int64_t count) {
    const int64_t begin = first * columns, end = (first + count) * columns;
    switch (op.kind) {
      case OpKind::kAdd:
        for (int64_t i = begin; i < end; ++i) y[i] = a[i] + b[i];
        return;
      case OpKind::kMul:
        for (int64_t i = begin; i < end; ++i) y[i] = a[i] * b[i];
        return;
      case OpKind::kScale:
        for (int64_t i = begin; i < end; ++i) y[i] = a[i] * factor;
        return;
      case OpKind::kSilu:
        for (int64_t i = begin; i < end; ++i) y[i] = silu(a[i]);
        return;
      case OpKind::kGeluTanh:
        for (int64_t i = begin; i < end; ++i) y[i] = gelu_tanh(a[i]);
        return;
      case OpKind::kSoftcap:
        for (int64_t i = begin; i < end; ++i) y[i] = softcap(a[i], factor);
        return;
      default: std::copy(a + begin, a + end, y + begin); return;
    }
  });
}

}  // namespace tandem

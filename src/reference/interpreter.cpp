#include "reference/interpreter.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>

#include "backends/interface/io_conversion.h"
#include "backends/interface/method_memory.h"
#include "base/error.h"
#include "base/half.h"
#include "ir/op_table.h"
#include "linalg/multiply.h"
#include "numerics/fake_quant.h"
#include "numerics/hadamard.h"
#include "reference/cache_attention.h"
#include "reference/kv_rows.h"
#include "reference/row_ops.h"
#include "reference/static_ops.h"

namespace tandem {
namespace {

using ir::Op;
using ir::OpKind;
using ir::Tensor;
using ir::TensorId;
using ir::TensorRole;

// Rows of a weight that one task reads and multiplies: small enough for a cache, large enough to be worth a task.
constexpr int64_t kRowsPerTask = 64;
constexpr int64_t kElementsPerTask = int64_t{1} << 14;

class Interpreter {
 public:
  Interpreter(const ir::Graph& graph, const WeightProvider& weights, ThreadPool& pool, const OpObserver& observer,
              bool rows_are_sequences, const Bindings& bindings)
      : graph_(graph),
        weights_(weights),
        pool_(pool),
        observer_(observer),
        rows_are_sequences_(rows_are_sequences),
        bindings_(bindings),
        values_(graph.tensors.size()) {}

  Status run() {
    if (bindings_.data.size() != graph_.tensors.size()) return internal_error("bindings of another method");
    const std::vector<size_t> last_use = find_last_uses();
    for (size_t i = 0; i < graph_.ops.size(); ++i) {
      op_ = &graph_.ops[i];
      for (size_t input = 0; input < op_->inputs.size(); ++input) read_io(input);
      for (const TensorId id : op_->outputs) {
        values_[static_cast<size_t>(id)].resize(static_cast<size_t>(ir::element_count_of(graph_.at(id))));
      }
      Status status = run_op();
      for (const TensorId id : op_->outputs) {
        if (status.ok()) status = round_output(id);
      }
      if (!status.ok()) return with_context(std::move(status).error(), "op {} ({})", i, op_kind_name(op_->kind));
      for (const TensorId id : op_->inputs) {
        if (last_use[static_cast<size_t>(id)] == i) std::vector<float>().swap(values_[static_cast<size_t>(id)]);
      }
    }
    return ok_status();
  }

 private:
  std::vector<size_t> find_last_uses() const {
    std::vector<size_t> last(graph_.tensors.size(), 0);
    for (size_t i = 0; i < graph_.ops.size(); ++i) {
      for (const TensorId id : graph_.ops[i].inputs) last[static_cast<size_t>(id)] = i;
    }
    return last;
  }

  // The caller's inputs as floats: the hidden state of a part of a model, a mask that is added as it is.
  void read_io(size_t input) {
    const TensorId id = op_->inputs[input];
    const Tensor& tensor = graph_.at(id);
    auto& values = values_[static_cast<size_t>(id)];
    const bool is_given = tensor.role == TensorRole::kInput || tensor.role == TensorRole::kState;
    if (!is_given || !is_numbers(op_info(op_->kind).input(input)) || !values.empty()) return;
    values.resize(static_cast<size_t>(ir::element_count_of(tensor)));
    ir::decode_row(tensor.dtype, tensor.encoding, bindings_.data[static_cast<size_t>(id)],
                   static_cast<int64_t>(values.size()), values.data());
  }

  // Rounds an op's output to what its dtype can represent.
  Status round_output(TensorId id) {
    const Tensor& tensor = graph_.at(id);
    auto& values = values_[static_cast<size_t>(id)];
    if (observer_) TANDEM_TRY(observer_(*op_, tensor, values));
    const auto count = static_cast<int64_t>(values.size());
    if (tensor.role == TensorRole::kOutput) {
      void* to = bindings_.data[static_cast<size_t>(id)];
      ir::encode_row(tensor.dtype, tensor.encoding, values.data(), count, to);
      ir::decode_row(tensor.dtype, tensor.encoding, to, count, values.data());
    } else if (tensor.dtype != DType::kF32) {
      ir::round_row(tensor.dtype, tensor.encoding, values.data(), count);
    }
    return ok_status();
  }

  const Tensor& in(size_t i) const { return graph_.at(op_->inputs[i]); }
  const Tensor& out() const { return graph_.at(op_->outputs[0]); }
  const float* x(size_t i) const { return values_[static_cast<size_t>(op_->inputs[i])].data(); }
  float* y(size_t i = 0) { return values_[static_cast<size_t>(op_->outputs[i])].data(); }
  template <typename T>
  T* bound(size_t i) const {
    return static_cast<T*>(bindings_.data[static_cast<size_t>(op_->inputs[i])]);
  }
  int64_t width(size_t i) const { return in(i).shape[1]; }

  template <typename Function>
  Status each_element(Function&& function) {
    const int64_t count = ir::element_count_of(out());
    float* const to = y();
    pool_.run((count + kElementsPerTask - 1) / kElementsPerTask, [&](int64_t task, int) {
      const int64_t end = std::min((task + 1) * kElementsPerTask, count);
      for (int64_t i = task * kElementsPerTask; i < end; ++i) to[i] = function(i);
    });
    return ok_status();
  }

  // Calls function(first, count) for parts of `rows` rows, whose numbers do not depend on each other.
  template <typename Function>
  void each_part(int64_t rows, int64_t width, Function&& function) {
    const int64_t step = std::max<int64_t>(kElementsPerTask / std::max<int64_t>(width, 1), 1);
    pool_.run((rows + step - 1) / step,
              [&](int64_t task, int) { function(task * step, std::min(step, rows - task * step)); });
  }

  Status run_op() {
    const float factor = op_->attributes.factor;
    switch (op_->kind) {
      case OpKind::kEmbedding: return embedding();
      case OpKind::kLinear: return linear();
      case OpKind::kRmsNorm: return rms_norm();
      case OpKind::kLayerNorm: return layer_norm();
      case OpKind::kAdd: return each_element([a = x(0), b = x(1)](int64_t i) { return a[i] + b[i]; });
      case OpKind::kMul: return each_element([a = x(0), b = x(1)](int64_t i) { return a[i] * b[i]; });
      case OpKind::kScale: return each_element([a = x(0), factor](int64_t i) { return a[i] * factor; });
      case OpKind::kSilu: return each_element([a = x(0)](int64_t i) { return silu(a[i]); });
      case OpKind::kGeluTanh: return each_element([a = x(0)](int64_t i) { return gelu_tanh(a[i]); });
      case OpKind::kSiluMul: return each_element([a = x(0), b = x(1)](int64_t i) { return silu(a[i]) * b[i]; });
      case OpKind::kGeluTanhMul:
        return each_element([a = x(0), b = x(1)](int64_t i) { return gelu_tanh(a[i]) * b[i]; });
      case OpKind::kSoftcap: return each_element([a = x(0), factor](int64_t i) { return softcap(a[i], factor); });
      case OpKind::kRopeTable: return rope_table();
      case OpKind::kRope: return rope();
      case OpKind::kHadamard: return hadamard();
      case OpKind::kStoreKv: return store_kv();
      case OpKind::kAttention:
      case OpKind::kQuantizedAttention: return attention();
      case OpKind::kMaskToFloat: return ir::mask_to_float(in(0), bound<void>(0), y());
      case OpKind::kConvert: return each_element([a = x(0)](int64_t i) { return a[i]; });
      case OpKind::kSplitHeads:
        split_heads(x(0), graph_.tokens, out().shape[0], out().shape[2], y());
        return ok_status();
      case OpKind::kJoinHeads: join_heads(x(0), graph_.tokens, in(0).shape[0], in(0).shape[2], y()); return ok_status();
      case OpKind::kAppendRows: return append();
      case OpKind::kMatMul:
        multiply_heads({x(0), in(0).shape}, {x(1), in(1).shape}, op_->attributes.transpose_b, y(), pool_);
        return ok_status();
      case OpKind::kAddMask: return add_mask();
      case OpKind::kSoftmax: return softmax(x(0));
      case OpKind::kMaskedSoftmax: TANDEM_TRY(add_mask()); return softmax(y());
      case OpKind::kSigmoid: return each_element([a = x(0)](int64_t i) { return 1.0f / (1.0f + std::exp(-a[i])); });
      case OpKind::kAddVector: return add_vector();
      case OpKind::kConcat: return concat();
      case OpKind::kSlice:
        slice_axis({x(0), in(0).shape}, out().shape, op_->attributes.axis, op_->attributes.begin, y());
        return ok_status();
      case OpKind::kRescore: return rescore();
    }
    return internal_error("unknown op");
  }

  Status embedding() {
    const int64_t vocabulary = in(1).shape[0], dim = in(1).shape[1];
    const int32_t* tokens = bound<int32_t>(0);
    for (int64_t n = 0; n < graph_.tokens; ++n) {
      if (tokens[n] < 0 || tokens[n] >= vocabulary) {
        return invalid_argument("token {} is not in the vocabulary of {}", tokens[n], vocabulary);
      }
      TANDEM_TRY(weights_.read_rows(in(1).name, tokens[n], 1, y() + n * dim));
    }
    return ok_status();
  }

  Status linear() {
    const int64_t rows = in(1).shape[0], cols = in(1).shape[1];
    const float* input = x(0);
    std::vector<float> rounded;
    if (op_->attributes.quantize_input) {
      rounded.assign(input, input + graph_.tokens * cols);
      const auto round_row = op_->attributes.int16_input ? fake_quantize_row_i16 : fake_quantize_row_i8;
      pool_.run(graph_.tokens, [&](int64_t n, int) { round_row(std::span(rounded).subspan(n * cols, cols)); });
      input = rounded.data();
    }
    std::vector<float> bias;
    if (op_->inputs.size() == 3) {
      TANDEM_ASSIGN(bias, weights_.read_vector(in(2).name));
    }
    const int64_t tasks = (rows + kRowsPerTask - 1) / kRowsPerTask;
    struct Scratch {
      std::vector<float> panel;
      MultiplyScratch multiply;
    };
    std::vector<Scratch> scratch(static_cast<size_t>(pool_.size()));
    std::vector<Status> failures(static_cast<size_t>(pool_.size()));
    pool_.run(tasks, [&](int64_t task, int thread) {
      const int64_t begin = task * kRowsPerTask, count = std::min(kRowsPerTask, rows - begin);
      auto& [panel, multiply] = scratch[static_cast<size_t>(thread)];
      panel.resize(static_cast<size_t>(kRowsPerTask * cols));
      if (Status status = weights_.read_rows(in(1).name, begin, count, panel.data()); !status.ok()) {
        failures[static_cast<size_t>(thread)] = std::move(status);
        return;
      }
      // For one token, too: its bits do not depend on how many are computed together.
      multiply_nt({input, graph_.tokens, cols}, {panel.data(), count, cols}, {y() + begin, graph_.tokens, count, rows},
                  multiply);
      if (bias.empty()) return;
      for (int64_t n = 0; n < graph_.tokens; ++n) {
        for (int64_t m = begin; m < begin + count; ++m) y()[n * rows + m] += bias[static_cast<size_t>(m)];
      }
    });
    for (Status& failure : failures) TANDEM_TRY(std::move(failure));
    return ok_status();
  }

  Status rms_norm() {
    TANDEM_ASSIGN(const std::vector<float> weight, weights_.read_vector(in(1).name));
    const int64_t groups = ir::element_count_of(in(0)) / static_cast<int64_t>(weight.size());
    const auto group = static_cast<int64_t>(weight.size());
    each_part(groups, group, [&, from = x(0), to = y()](int64_t first, int64_t count) {
      rms_norm_rows(from + first * group, count, weight, op_->attributes.weight_offset, op_->attributes.eps,
                    to + first * group);
    });
    return ok_status();
  }

  Status layer_norm() {
    TANDEM_ASSIGN(const std::vector<float> weight, weights_.read_vector(in(1).name));
    TANDEM_ASSIGN(const std::vector<float> bias, weights_.read_vector(in(2).name));
    const auto size = static_cast<int64_t>(weight.size());
    each_part(graph_.tokens, size, [&, from = x(0), to = y()](int64_t first, int64_t count) {
      layer_norm_rows(from + first * size, count, weight, bias, op_->attributes.eps, to + first * size);
    });
    return ok_status();
  }

  Status rope_table() {
    TANDEM_ASSIGN(const std::vector<float> frequency, weights_.read_vector(in(1).name));
    std::vector<float> long_frequency;
    if (op_->inputs.size() == 3) {
      TANDEM_ASSIGN(long_frequency, weights_.read_vector(in(2).name));
    }
    const int32_t* rows = bound<int32_t>(0);
    for (int64_t n = 0; n < graph_.tokens; ++n) {
      const bool is_long = !long_frequency.empty() && rows[n] >= graph_.context;
      // Padding has position -1 and is not rotated.
      const auto position = static_cast<float>(std::max<int64_t>(rows[n] - (is_long ? graph_.context : 0), 0));
      for (size_t i = 0; i < frequency.size(); ++i) {
        const float angle = position * (is_long ? long_frequency : frequency)[i];
        const size_t at = static_cast<size_t>(n) * frequency.size() + i;
        y(0)[at] = std::cos(angle) * op_->attributes.factor;
        y(1)[at] = std::sin(angle) * op_->attributes.factor;
      }
    }
    return ok_status();
  }

  Status rope() {
    const int64_t size = width(0), half = width(1);
    each_part(graph_.tokens, size, [&, from = x(0), to = y()](int64_t first, int64_t count) {
      std::copy_n(from + first * size, count * size, to + first * size);
      const RopeShape shape{count, size, op_->attributes.head_dim, half, op_->attributes.interleaved};
      rotate_rows(to + first * size, x(1) + first * half, x(2) + first * half, shape);
    });
    return ok_status();
  }

  Status hadamard() {
    const int64_t size = op_->attributes.head_dim;
    const Hadamard matrix(size, false);
    each_part(ir::element_count_of(in(0)) / size, size, [&, from = x(0), to = y()](int64_t first, int64_t count) {
      std::copy_n(from + first * size, count * size, to + first * size);
      matrix.rotate_rows(to + first * size, count);
    });
    return ok_status();
  }

  // Of the sequence that row n belongs to.
  KvRows kv_rows(size_t cache, size_t scales, int64_t n) const {
    const Tensor& tensor = in(cache);
    const int64_t copy = rows_are_sequences_ ? n : 0;
    auto* data = bound<uint8_t>(cache) + copy * static_cast<int64_t>(tensor_bytes(tensor));
    float* encodings = nullptr;
    if (scales < op_->inputs.size()) encodings = bound<float>(scales) + copy * ir::element_count_of(in(scales));
    return {tensor.dtype, data, encodings, tensor.shape[1], tensor.shape[2]};
  }

  Status store_kv() {
    const int64_t dim = op_->attributes.head_dim, heads = in(2).shape[0];
    const int32_t* positions = bound<int32_t>(1);
    for (int64_t n = 0; n < graph_.tokens; ++n) {
      if (positions[n] < 0) continue;  // Padding.
      const KvRows rows = kv_rows(2, 3, n);
      if (positions[n] >= graph_.context) {
        return invalid_argument("position {} is beyond the context of {}", positions[n], graph_.context);
      }
      for (int64_t h = 0; h < heads; ++h) rows.store(h, positions[n] % rows.slots, x(0) + n * width(0) + h * dim);
    }
    return ok_status();
  }

  // Of `tokens` rows from n on.
  void attend(int64_t n, int64_t tokens, ThreadPool& pool) {
    attend_cache({.q = x(0) + n * width(0),
                  .mask = x(3) + n * graph_.context,
                  .positions = bound<int32_t>(4) + n,
                  .keys = kv_rows(1, 5, n),
                  .values = kv_rows(2, 6, n),
                  .tokens = tokens,
                  .width = width(0),
                  .context = graph_.context,
                  .kv_heads = in(1).shape[0],
                  .quantized = op_->kind == OpKind::kQuantizedAttention,
                  .attributes = op_->attributes},
                 y() + n * width(0), pool);
  }

  Status attention() {
    if (!rows_are_sequences_) {
      attend(0, graph_.tokens, pool_);
      return ok_status();
    }
    std::vector<std::unique_ptr<ThreadPool>> single(static_cast<size_t>(pool_.size()));
    for (auto& pool : single) pool = std::make_unique<ThreadPool>(1);
    pool_.run(graph_.tokens, [&](int64_t n, int thread) { attend(n, 1, *single[static_cast<size_t>(thread)]); });
    return ok_status();
  }

  Status append() {
    const std::vector<int64_t>& cache = in(0).shape;
    const int64_t slots = cache[1] * cache[2], rows = in(1).shape[1] * cache[2];
    const size_t element = dtype_bytes(in(0).dtype, 1);
    for (int64_t h = 0; h < cache[0]; ++h) {
      float* to = y() + h * (slots + rows);
      ir::decode_row(in(0).dtype, in(0).encoding, bound<uint8_t>(0) + static_cast<size_t>(h * slots) * element, slots,
                     to);
      std::copy_n(x(1) + h * rows, rows, to + slots);
    }
    return ok_status();
  }

  // The same mask for every head.
  Status add_mask() {
    const int64_t size = in(1).shape.back(), rows = ir::element_count_of(in(1)) / size;
    each_part(ir::element_count_of(in(0)) / size, size,
              [&, a = x(0), b = x(1), to = y()](int64_t first, int64_t count) {
                for (int64_t row = first; row < first + count; ++row) {
                  const float* const mask = b + row % rows * size;
                  for (int64_t i = 0; i < size; ++i) to[row * size + i] = a[row * size + i] + mask[i];
                }
              });
    return ok_status();
  }

  Status softmax(const float* from) {
    const int64_t size = in(0).shape.back();
    each_part(ir::element_count_of(in(0)) / size, size, [&, to = y()](int64_t first, int64_t count) {
      softmax_rows(from + first * size, count, size, op_->attributes.factor, to + first * size);
    });
    return ok_status();
  }

  Status add_vector() {
    TANDEM_ASSIGN(const std::vector<float> vector, weights_.read_vector(in(1).name));
    return each_element(
        [a = x(0), &vector](int64_t i) { return a[i] + vector[static_cast<size_t>(i) % vector.size()]; });
  }

  Status concat() {
    std::vector<ColumnsView> parts;
    for (size_t i = 0; i < op_->inputs.size(); ++i) parts.push_back({x(i), in(i).shape.back()});
    concat_columns(parts, ir::element_count_of(out()) / out().shape.back(), y());
    return ok_status();
  }

  // The indices of the largest logits of a row, largest first, and the first of equal logits.
  static std::vector<int64_t> largest_of(std::span<const float> logits, int64_t count) {
    std::vector<int64_t> order(logits.size());
    std::iota(order.begin(), order.end(), 0);
    std::ranges::stable_sort(
        order, [&](int64_t a, int64_t b) { return logits[static_cast<size_t>(a)] > logits[static_cast<size_t>(b)]; });
    order.resize(static_cast<size_t>(count));
    return order;
  }

  Status rescore() {
    const ir::OpAttributes& a = op_->attributes;
    const int64_t vocabulary = width(0), dim = width(1);
    std::copy_n(x(0), graph_.tokens * vocabulary, y());
    std::vector<Status> failures(static_cast<size_t>(graph_.tokens));
    pool_.run(graph_.tokens, [&](int64_t n, int) {
      std::vector<float> row(static_cast<size_t>(dim));
      const std::span<const float> logits(x(0) + n * vocabulary, static_cast<size_t>(vocabulary));
      for (const int64_t token : largest_of(logits, a.candidates)) {
        Status& failure = failures[static_cast<size_t>(n)];
        failure = weights_.read_rows(in(2).name, token, 1, row.data());
        if (!failure.ok()) return;
        double sum = 0.0;
        for (int64_t i = 0; i < dim; ++i) sum += double{x(1)[n * dim + i]} * double{row[static_cast<size_t>(i)]};
        y()[n * vocabulary + token] = softcap(static_cast<float>(sum) * a.factor, a.softcap);
      }
    });
    for (Status& failure : failures) TANDEM_TRY(std::move(failure));
    return ok_status();
  }

  const ir::Graph& graph_;
  const WeightProvider& weights_;
  ThreadPool& pool_;
  const OpObserver& observer_;
  bool rows_are_sequences_;
  const Bindings& bindings_;
  std::vector<std::vector<float>> values_;
  const Op* op_ = nullptr;
};

class ReferenceProgram final : public Program {
 public:
  ReferenceProgram(std::vector<ir::Graph> methods, const WeightProvider& weights, ThreadPool& pool, OpObserver observer,
                   bool rows_are_sequences = false)
      : methods_(std::move(methods)),
        weights_(weights),
        pool_(pool),
        observer_(std::move(observer)),
        rows_are_sequences_(rows_are_sequences) {}

  size_t method_count() const override { return methods_.size(); }
  const ir::Graph& method(size_t index) const override { return methods_[index]; }
  Result<std::unique_ptr<ExecutionContext>> new_context() override {
    return std::unique_ptr<ExecutionContext>(std::make_unique<Context>(*this));
  }

 private:
  class Context final : public ExecutionContext {
   public:
    explicit Context(const ReferenceProgram& program) : program_(program) {}
    Status run(size_t method, const Bindings& bindings) override {
      return Interpreter(program_.methods_[method], program_.weights_, program_.pool_, program_.observer_,
                         program_.rows_are_sequences_, bindings)
          .run();
    }

   private:
    const ReferenceProgram& program_;
  };

  std::vector<ir::Graph> methods_;
  const WeightProvider& weights_;
  ThreadPool& pool_;
  OpObserver observer_;
  bool rows_are_sequences_;
};

}  // namespace

std::unique_ptr<Program> make_reference_program(std::vector<ir::Graph> methods, const WeightProvider& weights,
                                                ThreadPool& pool, OpObserver observer) {
  return std::make_unique<ReferenceProgram>(std::move(methods), weights, pool, std::move(observer));
}

std::unique_ptr<Program> make_batch_program(ir::Graph method, const WeightProvider& weights, ThreadPool& pool) {
  std::vector<ir::Graph> methods;
  methods.push_back(std::move(method));
  return std::make_unique<ReferenceProgram>(std::move(methods), weights, pool, OpObserver(), true);
}

}  // namespace tandem

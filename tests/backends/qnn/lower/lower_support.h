// What the tests of the lowering share: random weights that count how often they are requested, graphs built by hand in
// floats and then given encodings for the ranges that the reference interpreter observes, and one run of a graph on
// both interpreter and library.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "backends/interface/io_conversion.h"
#include "backends/qnn/api/qnn_support.h"
#include "backends/qnn/lower/lower.h"
#include "base/error.h"
#include "base/half.h"
#include "base/thread_pool.h"
#include "ir/verifier.h"
#include "reference/interpreter.h"
#include "weights/weight_provider.h"

namespace tandem::qnn::test {

// Both halves get their numbers from here.
class TestWeights final : public LoweringWeights, public WeightProvider {
 public:
  void add(const ir::Tensor& weight, uint32_t seed) {
    if (matrices_.contains(weight.name)) return;
    const int64_t rows = weight.shape[0], cols = weight.shape[1];
    if (is_quantized(weight.format)) {
      matrices_[weight.name] = random_weights(weight.format, rows, cols, weight.block, seed);
      // Products of about the size of their inputs.
      const float size = weight.format == WeightFormat::kLpbq4 ? 40.0f : 75.0f;
      for (float& scale : matrices_[weight.name].scales) {
        scale *= 1.5f / (size * std::sqrt(static_cast<float>(cols))) / (size == 40.0f ? 0.001f : 0.0005f);
      }
      return;
    }
    WeightMatrix matrix;
    matrix.format = weight.format;
    matrix.rows = rows;
    matrix.cols = cols;
    const float most = 1.7f / std::sqrt(static_cast<float>(cols));
    for (const float value : random_floats(static_cast<size_t>(rows * cols), -most, most, seed)) {
      if (weight.format == WeightFormat::kF32) {
        matrix.f32.push_back(f32_from_f16(f16_from_f32(value)));
      } else {
        matrix.half.push_back(f16_from_f32(value));
      }
    }
    matrices_[weight.name] = std::move(matrix);
  }
  void add_vector(std::string name, std::vector<float> values) { vectors_[std::move(name)] = std::move(values); }

  Result<WeightMatrix> matrix(const ir::Tensor& weight) const override {
    ++asked_[weight.name];
    const auto found = matrices_.find(weight.name);
    if (found == matrices_.end()) return not_found("no weight {}", weight.name);
    return found->second;
  }
  Result<std::vector<float>> vector(std::string_view name) const override {
    ++asked_[std::string(name)];
    return read_vector(name);
  }
  Status read_rows(std::string_view name, int64_t row_begin, int64_t rows, float* out) const override {
    const auto found = matrices_.find(std::string(name));
    if (found == matrices_.end()) return not_found("no weight {}", name);
    for (int64_t r = 0; r < rows; ++r) found->second.dequantize_row(row_begin + r, out + r * found->second.cols);
    return {};
  }
  Result<std::vector<float>> read_vector(std::string_view name) const override {
    const auto found = vectors_.find(std::string(name));
    if (found == vectors_.end()) return not_found("no vector {}", name);
    return found->second;
  }

  const std::map<std::string, int>& asked() const { return asked_; }
  std::map<std::string, WeightMatrix>& matrices() { return matrices_; }

 private:
  std::map<std::string, WeightMatrix> matrices_;
  std::map<std::string, std::vector<float>> vectors_;
  mutable std::map<std::string, int> asked_;
};

using Bytes = std::vector<uint8_t>;

inline bool is_constant(const ir::Tensor& tensor) {
  return tensor.role == ir::TensorRole::kWeight || tensor.role == ir::TensorRole::kVector;
}

// Numbers of inputs by tensor name: floats for a graph in floats, quantized values for one with encodings.
struct IoValues {
  std::map<std::string, std::vector<float>> floats;
  std::map<std::string, std::vector<int32_t>> indices;
};

inline Bytes io_bytes(const ir::Tensor& tensor, const IoValues& io) {
  const auto count = static_cast<size_t>(ir::element_count_of(tensor));
  Bytes bytes(dtype_bytes(tensor.dtype, count));
  if (tensor.dtype == DType::kI32) {
    std::memcpy(bytes.data(), io.indices.at(tensor.name).data(), bytes.size());
  } else {
    const std::vector<float>& values = io.floats.at(tensor.name);
    EXPECT_EQ(values.size(), count) << tensor.name;
    ir::encode_row(tensor.dtype, tensor.encoding, values.data(), static_cast<int64_t>(count), bytes.data());
  }
  return bytes;
}

inline ThreadPool& test_pool() {
  static auto* const pool = new ThreadPool(1);
  return *pool;
}

// Runs the graph on the interpreter. The outputs by name, as bytes.
inline std::map<std::string, Bytes> run_reference(const ir::Graph& graph, const TestWeights& weights,
                                                  const IoValues& io, OpObserver observer = {}) {
  auto program = make_reference_program({graph}, weights, test_pool(), std::move(observer));
  Bindings bindings;
  bindings.rows = graph.tokens;
  std::map<std::string, Bytes> memory;
  for (const ir::Tensor& tensor : graph.tensors) {
    void* data = nullptr;
    if (tensor.role == ir::TensorRole::kInput || tensor.role == ir::TensorRole::kState) {
      data = (memory[tensor.name] = io_bytes(tensor, io)).data();
    } else if (tensor.role == ir::TensorRole::kOutput) {
      memory[tensor.name].resize(dtype_bytes(tensor.dtype, static_cast<size_t>(ir::element_count_of(tensor))));
      data = memory[tensor.name].data();
    }
    bindings.data.push_back(data);
  }
  auto context = program->new_context();
  const Status status = context.ok() ? context.value()->run(0, bindings) : Status(context.error());
  EXPECT_TRUE(status.ok()) << status.error().message;
  std::erase_if(memory,
                [&](const auto& entry) { return graph.at(*graph.find(entry.first)).role != ir::TensorRole::kOutput; });
  return memory;
}

// Runs a lowered graph on the library.
inline std::map<std::string, Bytes> run_qnn(const LoweredGraph& lowered, const ir::Graph& graph, const IoValues& io) {
  std::map<std::string, Bytes> inputs, outputs;
  auto execution = Execution::create(lowered.graph);
  EXPECT_TRUE(execution.ok());
  if (!execution.ok()) return {};
  for (size_t i = 0; i < lowered.graph->inputs().size(); ++i) {
    const std::string& name = lowered.graph->inputs()[i].name;
    const auto id = graph.find(name);
    EXPECT_TRUE(id.has_value()) << name;
    if (!id) return {};
    inputs[name] = io_bytes(graph.at(*id), io);
    EXPECT_TRUE(execution->set_input(i, inputs[name]).ok()) << name;
  }
  for (size_t i = 0; i < lowered.graph->outputs().size(); ++i) {
    const TensorInfo& info = lowered.graph->outputs()[i];
    outputs[info.name].resize(info.bytes);
    EXPECT_TRUE(execution->set_output(i, outputs[info.name]).ok()) << info.name;
  }
  const Status status = execution->run();
  EXPECT_TRUE(status.ok()) << status.error().message;
  return outputs;
}

// Builds graphs in floats: activations get their types with give_encodings() or make_half().
class GraphMaker {
 public:
  GraphMaker(int64_t tokens, int64_t context, uint32_t seed = 1) : seed_(seed) {
    graph.name = "test";
    graph.tokens = tokens;
    graph.context = context;
  }

  ir::TensorId input(std::string name, std::vector<int64_t> shape, float lowest = -2, float highest = 2,
                     ir::TensorRole role = ir::TensorRole::kInput) {
    const auto id = graph.add({.name = name, .role = role, .shape = std::move(shape)});
    const auto count = static_cast<size_t>(ir::element_count_of(graph.at(id)));
    io.floats[name] = random_floats(count, lowest, highest, ++seed_);
    return id;
  }
  ir::TensorId indices(std::string name, std::vector<int32_t> values) {
    const auto count = static_cast<int64_t>(values.size());
    io.indices[name] = std::move(values);
    return graph.add({.name = name, .role = ir::TensorRole::kInput, .dtype = DType::kI32, .shape = {count}});
  }
  ir::TensorId weight(std::string name, int64_t rows, int64_t cols, WeightFormat format) {
    if (const auto found = graph.find(name)) return *found;
    ir::Tensor tensor = {.name = name, .role = ir::TensorRole::kWeight, .shape = {rows, cols}};
    tensor.format = format;
    tensor.block = format == WeightFormat::kLpbq4 ? 16 : 0;
    weights->add(tensor, ++seed_);
    return graph.add(tensor);
  }
  ir::TensorId vector(std::string name, int64_t length, float lowest, float highest) {
    if (!weights->read_vector(name).ok()) {
      weights->add_vector(name, random_floats(static_cast<size_t>(length), lowest, highest, ++seed_));
    }
    return graph.add({.name = name, .role = ir::TensorRole::kVector, .shape = {length}});
  }
  ir::TensorId op(ir::OpKind kind, std::string name, std::vector<ir::TensorId> inputs, std::vector<int64_t> shape,
                  ir::OpAttributes attributes = {}, ir::TensorRole role = ir::TensorRole::kActivation) {
    const auto id = graph.add({.name = std::move(name), .role = role, .shape = std::move(shape)});
    graph.ops.push_back({kind, std::move(inputs), {id}, attributes});
    return id;
  }
  // Of one-op graphs.
  ir::TensorId last(ir::OpKind kind, std::vector<ir::TensorId> inputs, std::vector<int64_t> shape,
                    ir::OpAttributes attributes = {}) {
    return op(kind, "y", std::move(inputs), std::move(shape), attributes, ir::TensorRole::kOutput);
  }

  // Every activation becomes u16 with the range that the float graph shows; caches and the tensors written to them
  // become `kv`.
  void give_encodings(DType kv = DType::kU8) {
    std::map<std::string, std::pair<float, float>> ranges;
    const auto widen = [&](const std::string& name, std::span<const float> values) {
      auto& [lowest, highest] = ranges.try_emplace(name, 0.0f, 0.0f).first->second;
      for (const float value : values) {
        lowest = std::min(lowest, value);
        highest = std::max(highest, value);
      }
    };
    for (const auto& [name, values] : io.floats) widen(name, values);
    run_reference(graph, *weights, io, [&](const ir::Op&, const ir::Tensor& tensor, std::span<const float> values) {
      widen(tensor.name, values);
      return Status();
    });
    for (ir::Tensor& tensor : graph.tensors) {
      if (tensor.dtype != DType::kF32 || is_constant(tensor)) continue;
      tensor.dtype = DType::kU16;
      const auto [lowest, highest] = ranges.at(tensor.name);
      const ScaleOffset encoding = encoding_for_range(DataType::kFixedU16, lowest, highest);
      tensor.encoding = {ir::EncodingKind::kPerTensor, encoding.scale, -encoding.offset};
    }
    for (const ir::Op& each : graph.ops) {
      if (each.kind == ir::OpKind::kSoftmax || each.kind == ir::OpKind::kSigmoid ||
          each.kind == ir::OpKind::kMaskedSoftmax) {
        graph.at(each.outputs[0]).encoding = {ir::EncodingKind::kPerTensor, 1.0f / 65536, 0};
      }
      if (each.kind != ir::OpKind::kAppendRows) continue;
      float most = 0;
      for (const ir::TensorId id : each.inputs) {
        const auto [lowest, highest] = ranges.at(graph.at(id).name);
        most = std::max({most, -lowest, highest});
      }
      const bool is_u8 = kv == DType::kU8;
      const ir::Encoding shared = {ir::EncodingKind::kPerTensor, most / (is_u8 ? 127 : 32767), is_u8 ? 128 : 32768};
      for (const ir::TensorId id : {each.inputs[0], each.inputs[1], each.outputs[0]}) {
        graph.at(id).dtype = kv;
        graph.at(id).encoding = shared;
      }
    }
  }
  void make_half() {
    for (ir::Tensor& tensor : graph.tensors) {
      if (tensor.dtype == DType::kF32 && !is_constant(tensor)) tensor.dtype = DType::kF16;
    }
  }

  ir::Graph graph;
  std::shared_ptr<TestWeights> weights = std::make_shared<TestWeights>();
  IoValues io;

 private:
  uint32_t seed_;
};

inline Result<std::vector<LoweredGraph>> lower_new(std::span<const NamedGraph> graphs, const TestWeights& weights,
                                                   bool sharing = false, const LoweringOptions& options = {}) {
  if (!qnn_device().ok()) return qnn_device().error();
  TANDEM_ASSIGN(const auto context, Context::create(qnn_device().value(), {.weight_sharing = sharing}));
  return lower_graphs(context, graphs, weights, options);
}

struct Difference {
  double steps = 0;    // The largest, in steps of the encoding; of floats, relative to the largest value.
  double sqnr_db = 0;  // Of the library's values to the interpreter's.
};

inline Difference compare(const ir::Tensor& tensor, const Bytes& got, const Bytes& expected) {
  const auto count = static_cast<size_t>(ir::element_count_of(tensor));
  EXPECT_EQ(got.size(), expected.size()) << tensor.name;
  if (got.size() != expected.size()) return {1e9, -1e9};
  std::vector<float> a(count), b(count);
  ir::decode_row(tensor.dtype, tensor.encoding, got.data(), static_cast<int64_t>(count), a.data());
  ir::decode_row(tensor.dtype, tensor.encoding, expected.data(), static_cast<int64_t>(count), b.data());
  double signal = 0, noise = 0, largest = 0, most = 0;
  for (size_t i = 0; i < count; ++i) {
    const double difference = double{a[i]} - b[i];
    signal += double{b[i]} * b[i];
    noise += difference * difference;
    largest = std::max(largest, std::abs(difference));
    most = std::max(most, std::abs(double{b[i]}));
  }
  Difference result;
  result.steps = largest / (dtype_is_float(tensor.dtype) ? most : double{tensor.encoding.scale});
  result.sqnr_db = noise == 0 ? 200 : 10 * std::log10(signal / noise);
  return result;
}

inline const char* test_name() { return ::testing::UnitTest::GetInstance()->current_test_info()->name(); }

// Lowers, runs on both, and returns the difference of each output by name. Every failure fails the test.
inline std::map<std::string, Difference> run_both(const GraphMaker& maker, size_t* nodes = nullptr) {
  const Status verified = ir::verify(maker.graph);
  EXPECT_TRUE(verified.ok()) << verified.error().message;
  if (!verified.ok()) return {};
  const NamedGraph named = {"graph", &maker.graph};
  auto lowered = lower_new({&named, 1}, *maker.weights);
  EXPECT_TRUE(lowered.ok()) << lowered.error().message;
  if (!lowered.ok()) return {};
  if (nodes != nullptr) *nodes = lowered->front().nodes;
  const auto got = run_qnn(lowered->front(), maker.graph, maker.io);
  const auto expected = run_reference(maker.graph, *maker.weights, maker.io);
  EXPECT_EQ(got.size(), expected.size());
  std::map<std::string, Difference> differences;
  for (const auto& [name, bytes] : got) {
    differences[name] = compare(maker.graph.at(*maker.graph.find(name)), bytes, expected.at(name));
    std::printf("[ measured ] V%d %s %s: %zu nodes, %.4f steps, %.1f dB\n", known_arch(test_soc()), test_name(),
                name.c_str(), lowered->front().nodes, differences[name].steps, differences[name].sqnr_db);
  }
  return differences;
}

class QnnLowering : public ::testing::Test {
 protected:
  void SetUp() override {
    TANDEM_NEEDS_QNN();
    ASSERT_TRUE(qnn_device().ok()) << qnn_device().error().message;
  }
};

}  // namespace tandem::qnn::test

// What the tests of the QNN layer share: the real library and a device if there is one, random tensors with their
// quantized values, and a way to run a graph of a few ops.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <initializer_list>
#include <limits>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "backends/qnn/api/context.h"
#include "backends/qnn/api/execution.h"
#include "backends/qnn/api/graph.h"
#include "backends/qnn/api/library.h"
#include "backends/qnn/api/tensor_builder.h"
#include "base/try.h"

namespace tandem::qnn::test {

// Loaded once per process: TANDEM_QNN_LIBS, build/qnn of the source tree, or the installed Python package.
inline const Result<std::shared_ptr<const Library>>& qnn_library() {
  static const auto* const library = [] {
    SearchOptions options;
    options.folders = {std::string(TANDEM_SOURCE_DIR) + "/build/qnn"};
    return new Result<std::shared_ptr<const Library>>(Library::load(options));
  }();
  return *library;
}

// One SoC per process; the tests start themselves again for others (device_test.cpp).
inline constexpr const char* kSocVariable = "TANDEM_QNN_TEST_SOC";
inline uint32_t test_soc() {
  const char* const soc = std::getenv(kSocVariable);
  return soc != nullptr ? static_cast<uint32_t>(std::strtoul(soc, nullptr, 10)) : 69;
}

inline const Result<std::shared_ptr<const Device>>& qnn_device() {
  using Created = Result<std::shared_ptr<const Device>>;
  static const Created* const device = [] {
    auto create = []() -> Created {
      if (!qnn_library().ok()) return qnn_library().error();
      TANDEM_ASSIGN(const auto backend, Backend::create(qnn_library().value()));
      return Device::create(backend, {.soc_model = test_soc(), .arch = known_arch(test_soc())});
    };
    return new Created(create());
  }();
  return *device;
}

// Whether an error's message contains all the parts.
inline ::testing::AssertionResult says(const Error& error, std::initializer_list<std::string_view> parts) {
  for (const std::string_view part : parts) {
    if (error.message.find(part) == std::string::npos) {
      return ::testing::AssertionFailure() << "\"" << error.message << "\" does not say \"" << part << "\"";
    }
  }
  return ::testing::AssertionSuccess();
}

// Random numbers of a fixed-point type: quantized, and the values that they represent.
struct Fixed {
  DataType dtype = DataType::kFixedU16;
  ScaleOffset encoding = {};
  std::vector<uint8_t> bytes;
  std::vector<float> values;
};

inline std::vector<float> decode(DataType dtype, const ScaleOffset& encoding, const std::vector<uint8_t>& bytes) {
  std::vector<float> values;
  const size_t each = element_bytes(dtype);
  for (size_t at = 0; at < bytes.size(); at += each) {
    uint32_t code = 0;
    std::memcpy(&code, bytes.data() + at, each);
    values.push_back(encoding.scale * static_cast<float>(static_cast<int32_t>(code) + encoding.offset));
  }
  return values;
}

inline std::vector<float> random_floats(size_t count, float lowest, float highest, uint32_t seed) {
  std::mt19937 random(seed);
  std::uniform_real_distribution<float> distribution(lowest, highest);
  std::vector<float> values(count);
  for (float& value : values) value = distribution(random);
  return values;
}

// u8 or u16.
inline Fixed make_fixed(DataType dtype, const std::vector<float>& values) {
  const auto [lowest, highest] = std::minmax_element(values.begin(), values.end());
  Fixed fixed;
  fixed.dtype = dtype;
  fixed.encoding = encoding_for_range(dtype, *lowest, *highest);
  fixed.bytes.resize(values.size() * element_bytes(dtype));
  for (size_t i = 0; i < values.size(); ++i) {
    const int64_t code = quantize(dtype, fixed.encoding, values[i]);
    std::memcpy(fixed.bytes.data() + i * element_bytes(dtype), &code, element_bytes(dtype));
  }
  fixed.values = decode(dtype, fixed.encoding, fixed.bytes);
  return fixed;
}

inline Fixed random_fixed(DataType dtype, size_t count, float lowest, float highest, uint32_t seed) {
  return make_fixed(dtype, random_floats(count, lowest, highest, seed));
}

// u8 with zero point 128: the only form in which HTP multiplies u8 exactly (known_traps.cpp).
inline Fixed symmetric_u8(const std::vector<float>& values) {
  float most = 0;
  for (const float value : values) most = std::max(most, std::abs(value));
  Fixed fixed;
  fixed.dtype = DataType::kFixedU8;
  fixed.encoding = {most / 127, -128};
  for (const float value : values) {
    fixed.bytes.push_back(static_cast<uint8_t>(quantize(DataType::kFixedU8, fixed.encoding, value)));
  }
  fixed.values = decode(fixed.dtype, fixed.encoding, fixed.bytes);
  return fixed;
}

// The largest difference, in steps of the output's encoding.
inline float largest_error(const Fixed& got, const std::vector<float>& expected) {
  if (got.values.size() != expected.size()) return std::numeric_limits<float>::infinity();
  float most = 0;
  for (size_t i = 0; i < expected.size(); ++i) most = std::max(most, std::abs(got.values[i] - expected[i]));
  return most / got.encoding.scale;
}

// A graph that is built op by op; after the first failure, which is kept, further calls do nothing.
class SmallGraph {
 public:
  explicit SmallGraph(std::shared_ptr<const Context> context = nullptr, std::string name = "graph",
                      Graph::Options options = {}) {
    if (!qnn_device().ok()) {
      status_ = qnn_device().error();
      return;
    }
    if (context == nullptr) {
      auto created = Context::create(qnn_device().value(), {});
      if (!keep(created)) return;
      context = created.value();
    }
    auto created = Graph::create(context, std::move(name), options);
    if (keep(created)) graph_ = created.value();
  }

  TensorRef add(const TensorSpec& spec) {
    if (!status_.ok()) return {};
    auto added = graph_->add_tensor(spec);
    return keep(added) ? added.value() : TensorRef{};
  }
  TensorRef add(Result<TensorSpec> spec) { return keep(spec) ? add(spec.value()) : TensorRef{}; }
  TensorRef input(std::string name, const Fixed& fixed, Shape shape) {
    data_[name] = fixed.bytes;
    return add(make_input(std::move(name), fixed.dtype, std::move(shape), fixed.encoding));
  }
  TensorRef input(std::string name, DataType dtype, Shape shape, std::vector<uint8_t> bytes) {
    data_[name] = std::move(bytes);
    return add(make_input(std::move(name), dtype, std::move(shape)));
  }
  TensorRef output(std::string name, DataType dtype, Shape shape, std::optional<ScaleOffset> encoding = {}) {
    return add(make_output(std::move(name), dtype, std::move(shape), encoding));
  }
  void node(std::string type, std::vector<TensorRef> inputs, std::vector<TensorRef> outputs,
            std::vector<NodeParam> params = {}) {
    if (!status_.ok()) return;
    status_ = graph_->add_node({"node" + std::to_string(graph_->node_count()), std::move(type), std::move(inputs),
                                std::move(outputs), std::move(params)});
  }
  Status finalize() {
    if (status_.ok() && !graph_->finalized()) status_ = graph_->finalize();
    return status_;
  }
  // Finalizes if needed and runs; the bytes of the first output.
  Result<std::vector<uint8_t>> run() {
    TANDEM_TRY(finalize());
    return run(graph_, data_);
  }
  static Result<std::vector<uint8_t>> run(const std::shared_ptr<const Graph>& graph,
                                          const std::map<std::string, std::vector<uint8_t>>& data) {
    TANDEM_ASSIGN(Execution execution, Execution::create(graph));
    for (size_t i = 0; i < graph->inputs().size(); ++i) {
      TANDEM_TRY(execution.set_input(i, data.at(graph->inputs()[i].name)));
    }
    std::vector<std::vector<uint8_t>> outputs;
    for (const TensorInfo& info : graph->outputs()) outputs.emplace_back(info.bytes);
    for (size_t i = 0; i < outputs.size(); ++i) TANDEM_TRY(execution.set_output(i, outputs[i]));
    TANDEM_TRY(execution.run());
    return outputs[0];
  }
  // The same, decoded. A failure fails the test.
  Fixed run_fixed() {
    auto bytes = run();
    Fixed fixed;
    EXPECT_TRUE(bytes.ok()) << bytes.error().message;
    if (!bytes.ok()) return fixed;
    fixed.dtype = graph_->outputs()[0].dtype;
    fixed.encoding = graph_->outputs()[0].encoding.value_or(ScaleOffset{});
    fixed.bytes = bytes.value();
    fixed.values = decode(fixed.dtype, fixed.encoding, fixed.bytes);
    return fixed;
  }

  const Status& status() const { return status_; }
  const std::shared_ptr<Graph>& graph() const { return graph_; }
  const std::map<std::string, std::vector<uint8_t>>& data() const { return data_; }

 private:
  template <typename T>
  bool keep(const Result<T>& result) {
    if (!result.ok() && status_.ok()) status_ = result.error();
    return result.ok();
  }

  Status status_;
  std::shared_ptr<Graph> graph_;
  std::map<std::string, std::vector<uint8_t>> data_;
};

// A random quantized matrix. kLpbq4 or kI8.
// A linear layer is a 1x1 convolution of [1, 1, rows, inputs].
inline std::vector<NodeParam> one_by_one() {
  return {{"stride", U32Values{{2}, {1, 1}}}, {"pad_amount", U32Values{{2, 2}, {0, 0, 0, 0}}}};
}

inline WeightMatrix random_weights(WeightFormat format, int64_t rows, int64_t cols, int block, uint32_t seed) {
  std::mt19937 random(seed);
  WeightMatrix weights;
  weights.format = format;
  weights.rows = rows;
  weights.cols = cols;
  const bool is_lpbq = format == WeightFormat::kLpbq4;
  weights.block = is_lpbq ? block : 0;
  const int most = is_lpbq ? 7 : 127;
  std::uniform_int_distribution<int> code(is_lpbq ? -8 : -127, most);
  std::uniform_int_distribution<int> multiplier(1, 16);
  std::uniform_real_distribution<float> scale(0.5f, 1.0f);
  for (int64_t i = 0; i < rows * cols; ++i) weights.quantized.push_back(static_cast<int8_t>(code(random)));
  for (int64_t i = 0; i < rows * weights.blocks_per_row(); ++i) {
    weights.multipliers.push_back(static_cast<uint8_t>(multiplier(random)));
  }
  for (int64_t i = 0; i < rows; ++i) weights.scales.push_back(scale(random) * (is_lpbq ? 0.001f : 0.0005f));
  return weights;
}

}  // namespace tandem::qnn::test

#define TANDEM_NEEDS_QNN()                      \
  if (!::tandem::qnn::test::qnn_library().ok()) \
  GTEST_SKIP() << "not tested, because " << ::tandem::qnn::test::qnn_library().error().message

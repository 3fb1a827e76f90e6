// The table of ops has a row for every kind, and the verifier enforces it.
#include "ir/op_table.h"

#include <gtest/gtest.h>

#include <set>

#include "ir/verifier.h"
#include "support/small_graph.h"

namespace tandem::ir {
namespace {

std::vector<OpKind> all_kinds() {
  std::vector<OpKind> kinds;
  for (int i = 0; i < kOpKindCount; ++i) kinds.push_back(static_cast<OpKind>(i));
  return kinds;
}

// A graph with a tensor of each kind of input, and tensors for outputs.
struct Samples {
  Samples() {
    graph.name = "samples";
    graph.tokens = 2;
    graph.context = 8;
    numbers = graph.add({.name = "numbers", .role = TensorRole::kInput, .shape = {2, 4}});
    indices = graph.add({.name = "indices", .role = TensorRole::kInput, .dtype = DType::kI32, .shape = {2}});
    weight = graph.add({.name = "weight", .role = TensorRole::kWeight, .shape = {4, 4}});
    vector = graph.add({.name = "vector", .role = TensorRole::kVector, .shape = {4}});
    state = graph.add({.name = "state", .role = TensorRole::kState, .shape = {1, 8, 4}});
    for (TensorId& out : outputs) out = graph.add({.name = "y" + std::to_string(&out - outputs), .shape = {2, 4}});
  }

  TensorId right(InputKind kind) const {
    switch (kind) {
      case InputKind::kNumbers:
      case InputKind::kNumbersOrCache:
      case InputKind::kMask:
      case InputKind::kEncodedMask: return numbers;
      case InputKind::kIndices: return indices;
      case InputKind::kWeight: return weight;
      case InputKind::kVector: return vector;
      case InputKind::kCache:
      case InputKind::kCacheScales: return state;
    }
    return -1;
  }

  TensorId wrong(InputKind kind) const {
    switch (kind) {
      case InputKind::kNumbers:
      case InputKind::kNumbersOrCache:
      case InputKind::kMask:
      case InputKind::kEncodedMask:
      case InputKind::kVector: return weight;
      case InputKind::kIndices:
      case InputKind::kCache:
      case InputKind::kCacheScales: return numbers;
      case InputKind::kWeight: return vector;
    }
    return -1;
  }

  // An op with this many inputs and outputs, each input of the kind that the table requires.
  Op op(OpKind kind, size_t input_count, size_t output_count) const {
    Op made{kind, {}, {outputs, outputs + output_count}, {}};
    for (size_t i = 0; i < input_count; ++i) made.inputs.push_back(right(op_info(kind).input(i)));
    return made;
  }

  std::string error(const Op& op) const {
    Graph with = graph;
    with.ops = {op};
    const Status status = verify(with);
    return status.ok() ? "" : status.error().message;
  }

  Graph graph;
  TensorId numbers, indices, weight, vector, state;
  TensorId outputs[3];
};

TEST(OpTable, HasARowForEveryKind) {
  std::set<std::string_view> names;
  for (const OpKind kind : all_kinds()) {
    const OpInfo& info = op_info(kind);
    EXPECT_EQ(info.kind, kind);
    EXPECT_EQ(info.name, op_kind_name(kind));
    EXPECT_TRUE(names.insert(info.name).second) << info.name;
    EXPECT_GE(info.min_inputs(), 1u) << info.name;
    EXPECT_LE(info.min_inputs(), info.max_inputs()) << info.name;
  }
}

TEST(OpTable, VerifierRefusesOtherNumbersOfInputsAndOutputs) {
  const Samples samples;
  for (const OpKind kind : all_kinds()) {
    const OpInfo& info = op_info(kind);
    for (const size_t inputs : {info.min_inputs() - 1, info.max_inputs() + 1}) {
      const std::string error = samples.error(samples.op(kind, inputs, info.outputs));
      EXPECT_NE(error.find(std::to_string(inputs) + " inputs"), std::string::npos) << info.name << ": " << error;
    }
    for (const size_t outputs : {info.outputs + 1, info.outputs == 0 ? size_t{2} : info.outputs - 1}) {
      const std::string error = samples.error(samples.op(kind, info.min_inputs(), outputs));
      EXPECT_NE(error.find(std::to_string(outputs) + " outputs"), std::string::npos) << info.name << ": " << error;
    }
  }
}

// An op with as many inputs as the table allows, of the kinds that it names, is never refused for their number.
TEST(OpTable, VerifierAcceptsTheNumbersOfTheTable) {
  const Samples samples;
  for (const OpKind kind : all_kinds()) {
    const OpInfo& info = op_info(kind);
    for (const size_t inputs : {info.min_inputs(), info.max_inputs()}) {
      const std::string error = samples.error(samples.op(kind, inputs, info.outputs));
      EXPECT_EQ(error.find("outputs"), std::string::npos) << info.name << ": " << error;
    }
  }
}

TEST(OpTable, VerifierRefusesOtherKindsOfInputs) {
  const Samples samples;
  for (const OpKind kind : all_kinds()) {
    const OpInfo& info = op_info(kind);
    for (size_t i = 0; i < info.inputs.count; ++i) {
      Op op = samples.op(kind, info.inputs.count, info.outputs);
      op.inputs[i] = samples.wrong(info.input(i));
      const std::string error = samples.error(op);
      EXPECT_NE(error.find("\"" + samples.graph.at(op.inputs[i]).name + "\""), std::string::npos)
          << info.name << ", input " << i << ": " << error;
    }
  }
}

TEST(OpTable, VerifierRefusesDevicesOpsOnTheHost) {
  const Samples samples;
  for (const OpKind kind : all_kinds()) {
    const OpInfo& info = op_info(kind);
    Op op = samples.op(kind, info.min_inputs(), info.outputs);
    op.attributes.on_host = true;
    const bool refused = samples.error(op).find("is left to the CPU") != std::string::npos;
    EXPECT_EQ(refused, !info.may_run_on_host) << info.name;
  }
}

TEST(OpTable, TheCpusGraphsHaveDynamicOpsOnly) {
  for (const Op& op : test::small_graph().ops) EXPECT_TRUE(op_info(op.kind).is_dynamic()) << op_kind_name(op.kind);
  EXPECT_FALSE(op_info(OpKind::kMatMul).is_dynamic());
  EXPECT_FALSE(op_info(OpKind::kStoreKv).is_static());
}

}  // namespace
}  // namespace tandem::ir

// What the run time reads from the methods of a program, and which one it calls.
#include "runtime/method_table.h"

#include <gtest/gtest.h>

#include <functional>

#include "base/error.h"
#include "support/small_graph.h"

namespace tandem {
namespace {

using ir::PurposeKind;
using ir::TensorId;
using ir::TensorRole;

class FakeMethods final : public Program {
 public:
  explicit FakeMethods(std::vector<ir::Graph> graphs) : graphs_(std::move(graphs)) {}
  size_t method_count() const override { return graphs_.size(); }
  const ir::Graph& method(size_t index) const override { return graphs_[index]; }
  Result<std::unique_ptr<ExecutionContext>> new_context() override { return internal_error("a fake runs nothing"); }

 private:
  std::vector<ir::Graph> graphs_;
};

ir::Graph method_of(int64_t tokens) {
  test::SmallGraphOptions options;
  options.name = tokens == 1 ? "decode" : "prefill_" + std::to_string(tokens);
  options.tokens = tokens;
  options.context = 256;
  return test::small_graph(options);
}

FakeMethods methods_of(const std::vector<int64_t>& tokens) {
  std::vector<ir::Graph> graphs;
  for (const int64_t count : tokens) graphs.push_back(method_of(count));
  return FakeMethods(std::move(graphs));
}

// A method of the static form: its outputs are new rows for each of two heads, and the hidden state.
ir::Graph static_method(int64_t tokens) {
  ir::Graph g;
  g.name = "decode";
  g.tokens = tokens;
  g.context = 16;
  const auto indices = [&](const char* name, PurposeKind kind) {
    g.add({.name = name, .role = TensorRole::kInput, .dtype = DType::kI32, .shape = {tokens}});
    g.tensors.back().purpose = {.kind = kind};
  };
  indices("a", PurposeKind::kTokens);
  indices("b", PurposeKind::kPositions);
  g.add({.name = "c", .role = TensorRole::kInput, .shape = {tokens, 16 + tokens}});
  g.tensors.back().purpose = {.kind = PurposeKind::kMask};
  g.add({.name = "d", .role = TensorRole::kInput, .shape = {tokens, 16 + tokens}});
  g.tensors.back().purpose = {.kind = PurposeKind::kWindowMask, .limit = 5};
  for (int32_t head = 0; head < 2; ++head) {
    for (const bool keys : {true, false}) {
      const std::string name = (keys ? "keys" : "values") + std::to_string(head);
      g.add({.name = name + " kept", .role = TensorRole::kState, .dtype = DType::kF16, .shape = {1, 16, 4}});
      g.tensors.back().purpose = {
          .kind = keys ? PurposeKind::kKeyCache : PurposeKind::kValueCache, .layer = 7, .kv_head = head};
      g.add({.name = name, .role = TensorRole::kOutput, .dtype = DType::kF16, .shape = {1, tokens, 4}});
      g.tensors.back().purpose = {
          .kind = keys ? PurposeKind::kNewKeys : PurposeKind::kNewValues, .layer = 7, .kv_head = head};
    }
  }
  g.add({.name = "after 7", .role = TensorRole::kOutput, .shape = {tokens, 8}});
  g.tensors.back().purpose = {.kind = PurposeKind::kHidden, .layer = 7};
  g.add({.name = "scores", .role = TensorRole::kOutput, .shape = {tokens, test::kSmallVocab}});
  g.tensors.back().purpose = {.kind = PurposeKind::kLogits};
  return g;
}

TEST(MethodTable, TakesTheLongestMethodThatIsFilledAndThenTheShortestThatHoldsTheRest) {
  const auto table = MethodTable::read(methods_of({32, 1, 128, 8}), test::kSmallVocab);  // In any order.
  ASSERT_TRUE(table.ok()) << table.error().message;
  EXPECT_EQ(table->mode(), Mode::kHybrid);
  EXPECT_EQ(table->context(), 256);
  const std::pair<int64_t, int64_t> expected[] = {{1, 1},    {2, 8},     {8, 8},     {9, 32},    {32, 32},
                                                  {33, 128}, {128, 128}, {129, 128}, {1000, 128}};
  for (const auto& [remaining, tokens] : expected) EXPECT_EQ(table->choose(remaining).tokens, tokens) << remaining;
  EXPECT_EQ(table->choose(1).index, 1u) << "the index is the program's";
  EXPECT_EQ(table->choose(128).index, 2u);
}

TEST(MethodTable, DecodeAloneIsModeKv) {
  const auto table = MethodTable::read(methods_of({1}), test::kSmallVocab);
  ASSERT_TRUE(table.ok()) << table.error().message;
  EXPECT_EQ(table->mode(), Mode::kKv);
  for (const int64_t remaining : {1, 2, 1000}) EXPECT_EQ(table->choose(remaining).tokens, 1);
}

TEST(MethodTable, ReadsInputsAndOutputsByTheirPurpose) {
  const ir::Graph graph = method_of(1);
  const auto table = MethodTable::read(FakeMethods({graph}), test::kSmallVocab);
  ASSERT_TRUE(table.ok()) << table.error().message;
  const MethodEntry& entry = table->methods()[0];
  EXPECT_EQ(entry.inputs.tokens, *graph.find("tokens"));
  EXPECT_EQ(entry.inputs.positions, *graph.find("positions"));
  ASSERT_EQ(entry.inputs.masks.size(), 1u);
  EXPECT_EQ(entry.inputs.masks[0].id, *graph.find("mask"));
  EXPECT_EQ(entry.logits_output, *graph.find("logits"));
  EXPECT_TRUE(entry.cache_writes.empty());
  EXPECT_TRUE(entry.trace_outputs.empty());
  EXPECT_FALSE(table->ring().has_value());
}

TEST(MethodTable, ReadsTheStaticForm) {
  const ir::Graph graph = static_method(1);
  const auto table = MethodTable::read(FakeMethods({graph}), test::kSmallVocab);
  ASSERT_TRUE(table.ok()) << table.error().message;
  const MethodEntry& entry = table->methods()[0];
  ASSERT_EQ(entry.cache_writes.size(), 4u);
  for (const CacheWrite& write : entry.cache_writes) {
    EXPECT_EQ(graph.at(write.cache).name, graph.at(write.rows).name + " kept");
    EXPECT_EQ(write.heads, 1);
    EXPECT_EQ(write.row_bytes, 8u);
  }
  ASSERT_EQ(entry.trace_outputs.size(), 1u);
  EXPECT_EQ(graph.at(entry.trace_outputs[0]).name, "after 7");
  ASSERT_EQ(entry.inputs.masks.size(), 2u);
  EXPECT_EQ(entry.inputs.masks[1].window, 5);
  EXPECT_EQ(entry.inputs.mask_columns, 17);
}

TEST(MethodTable, FindsTheCacheThatForgetsFirst) {
  ir::Graph graph = method_of(1);
  for (const char* name : {"k_cache.0", "v_cache.0"}) graph.at(*graph.find(name)).shape[1] = 40;
  for (ir::Op& op : graph.ops) {
    if (op.kind == ir::OpKind::kAttention) op.attributes.window = 24;
  }
  const auto table = MethodTable::read(FakeMethods({graph}), test::kSmallVocab);
  ASSERT_TRUE(table.ok()) << table.error().message;
  ASSERT_TRUE(table->ring().has_value());
  EXPECT_EQ(table->ring()->slots, 40);
  EXPECT_EQ(table->ring()->window, 24);
}

TEST(MethodTable, RefusesWhatItCannotRun) {
  const auto of = [](ir::Graph graph, PurposeKind kind, const std::function<void(ir::Tensor&)>& change) {
    change(graph.at(graph.find(kind).value()));
    return graph;
  };
  const auto unknown = [](ir::Tensor& tensor) { tensor.purpose = {}; };
  const std::pair<const char*, std::vector<ir::Graph>> wrong[] = {
      {"one token", {method_of(8)}},
      {"one token", {}},
      {"the input \"tokens\"", {of(method_of(1), PurposeKind::kTokens, unknown)}},
      {"the output \"logits\"", {of(method_of(1), PurposeKind::kLogits, unknown)}},
      {"no logits", {of(method_of(1), PurposeKind::kLogits, [](ir::Tensor& t) { t.role = TensorRole::kActivation; })}},
      {"model's 24 tokens", {of(method_of(1), PurposeKind::kLogits, [](ir::Tensor& t) { t.shape[1] = 23; })}},
      {"does not cover", {of(method_of(1), PurposeKind::kMask, [](ir::Tensor& t) { t.shape[1] = 255; })}},
      {"key_cache of layer 8",
       {of(static_method(1), PurposeKind::kNewKeys, [](ir::Tensor& t) { t.purpose.layer = 8; })}},
      {"value_cache of layer 7",
       {of(static_method(1), PurposeKind::kNewValues, [](ir::Tensor& t) { t.purpose.kv_head = 2; })}},
      {"does not fit", {of(static_method(1), PurposeKind::kNewKeys, [](ir::Tensor& t) { t.dtype = DType::kF32; })}},
      {"contexts of", {method_of(1), static_method(2)}},
  };
  for (const auto& [words, graphs] : wrong) {
    const auto table = MethodTable::read(FakeMethods(graphs), test::kSmallVocab);
    ASSERT_FALSE(table.ok()) << words;
    EXPECT_NE(table.error().message.find(words), std::string::npos) << table.error().message;
  }
}

}  // namespace
}  // namespace tandem

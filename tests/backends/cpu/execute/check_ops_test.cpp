// Graphs that are well formed and meant for other back ends.
#include "backends/cpu/execute/check_ops.h"

#include <gtest/gtest.h>

#include "ir/verifier.h"
#include "support/small_graph.h"

namespace tandem {
namespace check_ops_test {

using ir::OpKind;

TEST(CpuOps, WhatTheCompilerMakesForACpuPasses) { EXPECT_TRUE(cpu::check_ops(test::small_graph()).ok()); }

TEST(CpuOps, HeadsApartAreRefused) {
  ir::Graph graph = test::small_graph();
  const std::vector<int64_t> shape = {2, graph.tokens, 4};
  const auto heads = graph.add({.name = "heads", .role = ir::TensorRole::kInput, .shape = shape});
  const auto sum = graph.add({.name = "sum", .shape = shape});
  graph.ops.insert(graph.ops.begin(), {OpKind::kAdd, {heads, heads}, {sum}, {}});
  ASSERT_TRUE(ir::verify(graph).ok()) << ir::verify(graph).error().message;
  const Status status = cpu::check_ops(graph);
  ASSERT_FALSE(status.ok());
  EXPECT_NE(status.error().message.find("heads apart in \"sum\""), std::string::npos) << status.error().message;
}

TEST(CpuOps, OpsOfOtherBackEndsAreRefused) {
  ir::Graph graph = test::small_graph();
  const auto wide = graph.add({.name = "wide", .role = ir::TensorRole::kInput, .shape = {graph.tokens, 8}});
  const auto part = graph.add({.name = "part", .shape = {graph.tokens, 4}});
  ir::OpAttributes attributes;
  attributes.axis = 1;
  attributes.begin = 2;
  graph.ops.insert(graph.ops.begin(), {OpKind::kSlice, {wide}, {part}, attributes});
  ASSERT_TRUE(ir::verify(graph).ok()) << ir::verify(graph).error().message;
  const Status status = cpu::check_ops(graph);
  ASSERT_FALSE(status.ok());
  EXPECT_NE(status.error().message.find("slice"), std::string::npos) << status.error().message;
}

}  // namespace check_ops_test
}  // namespace tandem

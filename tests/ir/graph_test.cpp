// The graph as data, its text form, and the portable form of weights.
#include "ir/graph.h"

#include <gtest/gtest.h>

#include <set>

#include "base/half.h"
#include "ir/printer.h"
#include "numerics/weight_matrix.h"
#include "support/small_graph.h"

namespace tandem::ir {
namespace graph_test {

template <typename Enum, typename Name>
void expect_distinct_names(int count, Name name) {
  std::set<std::string_view> names;
  for (int i = 0; i < count; ++i) EXPECT_TRUE(names.insert(name(static_cast<Enum>(i))).second) << i;
  EXPECT_EQ(names.count("unknown"), 0u);
  EXPECT_EQ(name(static_cast<Enum>(count)), "unknown");
  EXPECT_EQ(name(static_cast<Enum>(255)), "unknown");
}

TEST(Graph, EverythingHasAName) {
  expect_distinct_names<OpKind>(kOpKindCount, op_kind_name);
  expect_distinct_names<TensorRole>(kTensorRoleCount, tensor_role_name);
  expect_distinct_names<EncodingKind>(kEncodingKindCount, encoding_kind_name);
  EXPECT_EQ(op_kind_name(OpKind::kConvert), "convert");
  EXPECT_EQ(op_kind_name(OpKind::kAttention), "attention");
  EXPECT_EQ(tensor_role_name(TensorRole::kVector), "vector");
}

TEST(Graph, FindsByName) {
  const Graph graph = test::small_graph();
  EXPECT_EQ(graph.at(graph.find("head").value()).name, "head");
  EXPECT_EQ(graph.find("absent"), std::nullopt);
  EXPECT_EQ(graph.find(""), std::nullopt);
  EXPECT_EQ(element_count_of(graph.at(*graph.find("k_cache.0"))), 2 * 8 * 4);
}

TEST(Printer, OneLineAnOp) {
  test::SmallGraphOptions options;
  options.kv = DType::kU8;
  options.mask.dtype = DType::kU16;
  options.mask.encoding = {EncodingKind::kPerTensor, 0.125f, 65535};
  const std::string text = to_text(test::small_graph(options));
  const char* wanted = R"(graph decode tokens=2 context=8
  input  %tokens: i32[2]
  input  %positions: i32[2]
  input  %mask: u16[2, 8] scale=0.125 zero=65535
  output %logits: f32[2, 24]
  state  %k_cache.0: u8[2, 8, 4] scale per row
  state  %k_cache.0.scales: f32[2, 8, 2]
  state  %v_cache.0: u8[2, 8, 4] scale per row
  state  %v_cache.0.scales: f32[2, 8, 2]
  weight %embedding: int8[24, 16]
  vector %layers.0.norm: f32[16]
  vector %rope.frequency: f32[2]
  vector %layers.0.q.bias: f32[16]
  weight %layers.0.q: lpbq4/16[16, 16]
  weight %layers.0.k: fp32[8, 16]
  weight %head: fp16[24, 16]
  %x: f32[2, 16] = embedding(%tokens, %embedding)
  %cos: f32[2, 2], %sin: f32[2, 2] = rope_table(%positions, %rope.frequency)
  %mask_f32: f32[2, 8] = mask_to_float(%mask)
  %h: f32[2, 16] = rms_norm(%x, %layers.0.norm) eps=1e-06
  %q: f32[2, 16] = linear(%h, %layers.0.q, %layers.0.q.bias) quantize_input
  %k: f32[2, 8] = linear(%h, %layers.0.k)
  %q_turned: f32[2, 16] = rope(%q, %cos, %sin) head_dim=4
  %k_turned: f32[2, 8] = rope(%k, %cos, %sin) head_dim=4
  store_kv(%k_turned, %positions, %k_cache.0, %k_cache.0.scales) head_dim=4
  store_kv(%k, %positions, %v_cache.0, %v_cache.0.scales) head_dim=4
  %mixed: f32[2, 16] = attention(%q_turned, %k_cache.0, %v_cache.0, %mask_f32, %positions, %k_cache.0.scales, %v_cache.0.scales) factor=0.5 head_dim=4
  %y: f32[2, 16] = add(%x, %mixed)
  %scores: f32[2, 24] = linear(%y, %head)
  %logits: f32[2, 24] = convert(%scores)
)";
  EXPECT_EQ(text, wanted);
}

TEST(Printer, EveryAttribute) {
  Graph graph;
  graph.name = "g";
  graph.tokens = graph.context = 1;
  const TensorId x = graph.add({.name = "x", .role = TensorRole::kInput, .shape = {1, 1}});
  const TensorId y = graph.add({.name = "y", .role = TensorRole::kOutput, .shape = {1, 1}});
  OpAttributes a;
  a.eps = 0.5f;
  a.weight_offset = 1.0f;
  a.factor = 2.0f;
  a.softcap = 30.0f;
  a.head_dim = 64;
  a.interleaved = true;
  a.window = 512;
  a.quantize_input = true;
  graph.ops.push_back({OpKind::kScale, {x}, {y}, a});
  EXPECT_NE(to_text(graph).find("%y: f32[1, 1] = scale(%x) eps=0.5 weight_offset=1 factor=2 softcap=30 head_dim=64 "
                                "interleaved window=512 quantize_input\n"),
            std::string::npos)
      << to_text(graph);
  graph.ops[0].attributes.int16_input = true;
  EXPECT_NE(to_text(graph).find(" window=512 quantize_input=int16\n"), std::string::npos) << to_text(graph);
}

// ---- WeightMatrix ----

TEST(WeightFormats, NamesLeadBack) {
  for (int i = 0; i < kWeightFormatCount; ++i) {
    const auto format = static_cast<WeightFormat>(i);
    EXPECT_EQ(weight_format_from_name(weight_format_name(format)), format);
  }
  EXPECT_EQ(weight_format_from_name("int4"), std::nullopt);
  EXPECT_FALSE(is_quantized(WeightFormat::kBF16));
  EXPECT_TRUE(is_quantized(WeightFormat::kI8));
  EXPECT_TRUE(is_quantized(WeightFormat::kLpbq4));
}

WeightMatrix matrix_of(WeightFormat format, int64_t rows, int64_t cols, int block = 0) {
  WeightMatrix matrix;
  matrix.format = format;
  matrix.rows = rows;
  matrix.cols = cols;
  matrix.block = block;
  return matrix;
}

std::vector<float> row_of(const WeightMatrix& matrix, int64_t row) {
  std::vector<float> values(static_cast<size_t>(matrix.cols));
  matrix.dequantize_row(row, values.data());
  return values;
}

TEST(WeightMatrix, FloatFormats) {
  WeightMatrix f32 = matrix_of(WeightFormat::kF32, 2, 3);
  f32.f32 = {1, 2, 3, 4, 5, 6};
  EXPECT_EQ(row_of(f32, 0), (std::vector<float>{1, 2, 3}));
  EXPECT_EQ(row_of(f32, 1), (std::vector<float>{4, 5, 6}));

  WeightMatrix f16 = matrix_of(WeightFormat::kF16, 2, 2);
  f16.half = {0x3c00, 0xc000, 0x0001, 0x7bff};
  EXPECT_EQ(row_of(f16, 0), (std::vector<float>{1.0f, -2.0f}));
  EXPECT_EQ(row_of(f16, 1), (std::vector<float>{0x1p-24f, 65504.0f}));

  WeightMatrix bf16 = matrix_of(WeightFormat::kBF16, 1, 2);
  bf16.half = {0x3f80, 0xc040};
  EXPECT_EQ(row_of(bf16, 0), (std::vector<float>{1.0f, -3.0f}));
  EXPECT_EQ(bf16.blocks_per_row(), 0);
}

TEST(WeightMatrix, Int8HasAScalePerRow) {
  WeightMatrix matrix = matrix_of(WeightFormat::kI8, 2, 2);
  matrix.quantized = {127, -127, 1, 0};
  matrix.scales = {0.5f, 0.25f};
  EXPECT_EQ(row_of(matrix, 0), (std::vector<float>{63.5f, -63.5f}));
  EXPECT_EQ(row_of(matrix, 1), (std::vector<float>{0.25f, 0.0f}));
}

TEST(WeightMatrix, LpbqHasAMultiplierPerBlockAndAShortLastBlock) {
  WeightMatrix matrix = matrix_of(WeightFormat::kLpbq4, 2, 20, 16);
  ASSERT_EQ(matrix.blocks_per_row(), 2);
  matrix.quantized.assign(40, 1);
  matrix.quantized[0] = -8;
  matrix.quantized[19] = 7;
  matrix.quantized[20] = 7;
  matrix.multipliers = {16, 3, 1, 2};
  matrix.scales = {0.5f, 2.0f};
  const std::vector<float> first = row_of(matrix, 0), second = row_of(matrix, 1);
  EXPECT_EQ(first[0], -64.0f);
  EXPECT_EQ(first[15], 8.0f);
  EXPECT_EQ(first[16], 1.5f);
  EXPECT_EQ(first[19], 10.5f);
  EXPECT_EQ(second[0], 14.0f);
  EXPECT_EQ(second[15], 2.0f);
  EXPECT_EQ(second[16], 4.0f);
}

}  // namespace graph_test
}  // namespace tandem::ir

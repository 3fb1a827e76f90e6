// Each op alone: lowered, run on the library, and compared with the interpreter on the same graph.
//
// The interpreter rounds the exact result to the output's encoding, so it is within half a step of it; the library is
// within what was measured of its ops alone (tests/qnn_api, docs/), and the limits here are the two together.
#include "backends/qnn/api/version_rules.h"
#include "backends/qnn/lower/lower_support.h"

namespace tandem::qnn {
namespace lower_ops_test {

using ir::OpKind;
using test::GraphMaker;
using test::QnnLowering;
using test::run_both;

constexpr double kOneRounding = 1.5;  // Ops that are within a step of the exact value.
constexpr double kHalfRelative = 2e-3;

bool is_old() { return known_arch(test::test_soc()) < 73; }
// Products with weights and caches, which V68 and V69 compute less exactly.
double product_limit() { return is_old() ? 30.0 : kOneRounding; }

double steps_of(const GraphMaker& maker, size_t* nodes = nullptr) {
  const auto differences = run_both(maker, nodes);
  return differences.contains("y") ? differences.at("y").steps : 1e9;
}

TEST_F(QnnLowering, LinearLpbq4) {
  GraphMaker maker(4, 32);
  maker.last(OpKind::kLinear, {maker.input("x", {4, 64}), maker.weight("w", 96, 64, WeightFormat::kLpbq4)}, {4, 96});
  maker.give_encodings();
  size_t nodes = 0;
  EXPECT_LE(steps_of(maker, &nodes), product_limit());
  EXPECT_EQ(nodes, 1u);
}

TEST_F(QnnLowering, LinearInt8) {
  GraphMaker maker(1, 32);
  maker.last(OpKind::kLinear, {maker.input("x", {1, 64}), maker.weight("w", 48, 64, WeightFormat::kI8)}, {1, 48});
  maker.give_encodings();
  EXPECT_LE(steps_of(maker), product_limit());
}

TEST_F(QnnLowering, LinearHalf) {
  for (const WeightFormat format : {WeightFormat::kF16, WeightFormat::kF32}) {
    GraphMaker maker(4, 32);
    maker.last(OpKind::kLinear, {maker.input("x", {4, 64}), maker.weight("w", 96, 64, format)}, {4, 96});
    maker.make_half();
    EXPECT_LE(steps_of(maker), kHalfRelative);
  }
}

// A table is exact: the same quantized values as the interpreter's.
TEST_F(QnnLowering, Embedding) {
  for (const bool half : {false, true}) {
    GraphMaker maker(4, 32);
    const auto tokens = maker.indices("tokens", {0, 99, 7, 50});
    maker.last(OpKind::kEmbedding, {tokens, maker.weight("table", 100, 64, WeightFormat::kLpbq4)}, {4, 64});
    if (half) {
      maker.make_half();
    } else {
      maker.give_encodings();
    }
    size_t nodes = 0;
    EXPECT_EQ(steps_of(maker, &nodes), 0.0);
    EXPECT_EQ(nodes, 1u);
  }
}

TEST_F(QnnLowering, RmsNorm) {
  GraphMaker maker(4, 32);
  const auto x = maker.input("x", {4, 64}, -5, 5);
  maker.last(OpKind::kRmsNorm, {x, maker.vector("gamma", 64, -0.5f, 0.5f)}, {4, 64},
             {.eps = 1e-6f, .weight_offset = 1.0f});
  maker.give_encodings();
  EXPECT_LE(steps_of(maker), kOneRounding);
}

TEST_F(QnnLowering, RmsNormOfHeads) {
  for (const int64_t tokens : {1, 4}) {
    GraphMaker maker(tokens, 32);
    const auto x = maker.input("x", {tokens, 64}, -5, 5);
    maker.last(OpKind::kRmsNorm, {x, maker.vector("gamma", 16, 0.5f, 1.5f)}, {tokens, 64}, {.eps = 1e-6f});
    maker.give_encodings();
    EXPECT_LE(steps_of(maker), kOneRounding);
  }
}

TEST_F(QnnLowering, RmsNormHalf) {
  GraphMaker maker(4, 32);
  const auto x = maker.input("x", {4, 64}, -5, 5);
  maker.last(OpKind::kRmsNorm, {x, maker.vector("gamma", 16, 0.5f, 1.5f)}, {4, 64}, {.eps = 1e-6f});
  maker.make_half();
  EXPECT_LE(steps_of(maker), kHalfRelative);
}

// Three roundings: of the normalized value (in steps of its own, wider range), of the product and of the sum.
TEST_F(QnnLowering, LayerNorm) {
  for (const bool with_beta : {true, false}) {
    GraphMaker maker(4, 32);
    const auto x = maker.input("x", {4, 64}, -1, 5);
    const auto gamma = maker.vector("gamma", 64, 0.5f, 1.5f);
    const auto beta = maker.vector("beta", 64, with_beta ? -0.5f : 0.0f, with_beta ? 0.5f : 0.0f);
    maker.last(OpKind::kLayerNorm, {x, gamma, beta}, {4, 64}, {.eps = 1e-5f});
    maker.give_encodings();
    EXPECT_LE(steps_of(maker), 6.0);
  }
}

TEST_F(QnnLowering, LayerNormHalf) {
  GraphMaker maker(4, 32);
  const auto x = maker.input("x", {4, 64}, -1, 5);
  maker.last(OpKind::kLayerNorm, {x, maker.vector("gamma", 64, 0.5f, 1.5f), maker.vector("beta", 64, -0.5f, 0.5f)},
             {4, 64}, {.eps = 1e-5f});
  maker.make_half();
  EXPECT_LE(steps_of(maker), kHalfRelative);
}

TEST_F(QnnLowering, AddAndMul) {
  for (const OpKind kind : {OpKind::kAdd, OpKind::kMul}) {
    GraphMaker maker(4, 32);
    maker.last(kind, {maker.input("a", {4, 64}), maker.input("b", {4, 64}, -1, 7)}, {4, 64});
    maker.give_encodings();
    EXPECT_LE(steps_of(maker), 1.7);
  }
}

TEST_F(QnnLowering, AddVector) {
  for (const bool half : {false, true}) {
    GraphMaker maker(4, 32);
    maker.last(OpKind::kAddVector, {maker.input("x", {4, 64}), maker.vector("bias", 64, -1, 2)}, {4, 64});
    half ? maker.make_half() : maker.give_encodings();
    EXPECT_LE(steps_of(maker), half ? kHalfRelative : 1.7);
  }
}

TEST_F(QnnLowering, Scale) {
  for (const float factor : {0.3f, -11.3f, 0.0f}) {
    GraphMaker maker(4, 32);
    maker.last(OpKind::kScale, {maker.input("x", {4, 64})}, {4, 64}, {.factor = factor});
    maker.give_encodings();
    EXPECT_LE(steps_of(maker), kOneRounding) << factor;
  }
}

TEST_F(QnnLowering, Softcap) {
  for (const bool half : {false, true}) {
    GraphMaker maker(4, 32);
    maker.last(OpKind::kSoftcap, {maker.input("x", {4, 64}, -100, 100)}, {4, 64}, {.factor = 30.0f});
    half ? maker.make_half() : maker.give_encodings();
    EXPECT_LE(steps_of(maker), half ? kHalfRelative : 4.0);
  }
}

TEST_F(QnnLowering, SigmoidAndGelu) {
  GraphMaker sigmoid(4, 32);
  sigmoid.last(OpKind::kSigmoid, {sigmoid.input("x", {4, 64}, -8, 8)}, {4, 64});
  sigmoid.give_encodings();
  EXPECT_LE(steps_of(sigmoid), 5.5);
  GraphMaker gelu(4, 32);
  gelu.last(OpKind::kGeluTanh, {gelu.input("x", {4, 64}, -6, 6)}, {4, 64});
  gelu.give_encodings();
  EXPECT_LE(steps_of(gelu), 20.0);
}

struct RopeCase {
  bool interleaved;
  int64_t rotated;
  int64_t tokens;
};

TEST_F(QnnLowering, Rope) {
  for (const RopeCase& each :
       {RopeCase{false, 16, 4}, {true, 16, 4}, {false, 8, 4}, {false, 16, 1}, {false, 8, 1}, {true, 16, 1}}) {
    for (const bool half : {false, true}) {
      if (half && each.interleaved && !rotary_embedding_takes_floats(test::qnn_library().value()->htp_version()))
        continue;
      GraphMaker maker(each.tokens, 32);
      std::vector<int32_t> places = {5, 6, 31, 0};
      places.resize(static_cast<size_t>(each.tokens));
      const auto positions = maker.indices("positions", places);
      const auto frequency = maker.vector("frequency", each.rotated / 2, 0.01f, 1.0f);
      const auto cos = maker.graph.add({.name = "cos", .shape = {each.tokens, each.rotated / 2}});
      const auto sin = maker.graph.add({.name = "sin", .shape = {each.tokens, each.rotated / 2}});
      maker.graph.ops.push_back({OpKind::kRopeTable, {positions, frequency}, {cos, sin}, {.factor = 1.1f}});
      const auto x = maker.input("x", {each.tokens, 64});
      maker.last(OpKind::kRope, {x, cos, sin}, {each.tokens, 64}, {.head_dim = 16, .interleaved = each.interleaved});
      half ? maker.make_half() : maker.give_encodings();
      // One row is rotated by products, each rounded on its own.
      EXPECT_LE(steps_of(maker), half ? kHalfRelative : each.tokens == 1 ? 3.0 : 2.0);
    }
  }
}

// The result saturates at the input's range, which is therefore four times as wide here as its values are. V68 and V69
// are off by 14 steps with heads of 128; the compiler leaves the op out there.
TEST_F(QnnLowering, Hadamard) {
  if (known_arch(test::test_soc()) < 73) return;
  for (const int64_t size : {64, 128, 256}) {
    for (const int64_t tokens : {1, 4}) {
      GraphMaker maker(tokens, 32);
      const auto x = maker.input("x", {tokens, 3 * size});
      maker.last(OpKind::kHadamard, {x}, {tokens, 3 * size}, {.head_dim = size});
      maker.give_encodings();
      ir::Tensor& input = maker.graph.at(x);
      input.encoding.scale *= 4.0f;
      input.encoding.zero_point = 32768;
      // The library is off by 1.1 steps of the input, which are 4 of the output, and rounds to those.
      EXPECT_LE(steps_of(maker), 1.1 * 4.0 + 1.0) << size << " of " << tokens;
    }
  }
}

// The new rows of a cache: split heads, u16 to u8.
TEST_F(QnnLowering, SplitHeadsAndAppendRows) {
  for (const DType kv : {DType::kU8, DType::kU16}) {
    for (const int64_t tokens : {1, 4}) {
      GraphMaker maker(tokens, 32);
      const auto x = maker.input("x", {tokens, 48});
      const auto cache = maker.input("cache", {3, 32, 16}, -2, 2, ir::TensorRole::kState);
      const auto rows =
          maker.op(OpKind::kSplitHeads, "rows", {x}, {3, tokens, 16}, {.head_dim = 16}, ir::TensorRole::kOutput);
      maker.last(OpKind::kAppendRows, {cache, rows}, {3, 32 + tokens, 16});
      maker.give_encodings(kv);
      const auto differences = run_both(maker);
      ASSERT_EQ(differences.size(), 2u);
      EXPECT_LE(differences.at("rows").steps, 1.01);  // A tie may go either way.
      EXPECT_LE(differences.at("y").steps, 1.01);
    }
  }
}

TEST_F(QnnLowering, SplitHeadsOfEqualEncodingsIsExact) {
  GraphMaker maker(4, 32);
  maker.last(OpKind::kSplitHeads, {maker.input("x", {4, 48})}, {3, 4, 16}, {.head_dim = 16});
  maker.give_encodings();
  EXPECT_EQ(steps_of(maker), 0.0);
}

TEST_F(QnnLowering, JoinHeads) {
  for (const int64_t tokens : {1, 4}) {
    GraphMaker maker(tokens, 32);
    maker.last(OpKind::kJoinHeads, {maker.input("x", {3, tokens, 16})}, {tokens, 48});
    maker.give_encodings();
    EXPECT_EQ(steps_of(maker), 0.0);
    // Another encoding: rounded once.
    maker.graph.at(*maker.graph.find("y")).encoding.scale *= 1.37f;
    EXPECT_LE(steps_of(maker), 1.01);
  }
}

// Products of u16 with u16 are the library's least exact, and not supported before V73.
TEST_F(QnnLowering, MatMulOfGroupedHeads) {
  for (const DType kv : {DType::kU8, DType::kU16}) {
    if (kv == DType::kU16 && is_old()) continue;
    for (const bool transpose : {true, false}) {
      for (const int64_t tokens : {1, 4, 8}) {
        GraphMaker maker(tokens, 32);
        const auto a = maker.input("a", {6, tokens, transpose ? 16 : 36});
        const auto b = maker.input("b", {3, 36, 16});
        maker.last(OpKind::kMatMul, {a, b}, {6, tokens, transpose ? 36 : 16}, {.transpose_b = transpose});
        maker.give_encodings();
        maker.graph.at(b).dtype = kv;
        maker.graph.at(b).encoding = {ir::EncodingKind::kPerTensor, 2.0f / (kv == DType::kU8 ? 127 : 32767),
                                      kv == DType::kU8 ? 128 : 32768};
        EXPECT_LE(steps_of(maker), kv == DType::kU8 ? product_limit() : 40.0);
      }
    }
  }
}

TEST_F(QnnLowering, AddMaskAndSoftmax) {
  for (const int64_t tokens : {1, 4}) {
    GraphMaker maker(tokens, 32);
    const auto scores = maker.input("scores", {6, tokens, 36}, -20, 20);
    const auto mask = maker.input("mask", {tokens, 36}, -80, 0);
    for (float& value : maker.io.floats["mask"]) value = value < -40 ? -80.0f : 0.0f;
    const auto masked =
        maker.op(OpKind::kAddMask, "masked", {scores, mask}, {6, tokens, 36}, {}, ir::TensorRole::kOutput);
    maker.last(OpKind::kSoftmax, {masked}, {6, tokens, 36}, {.factor = 0.25f});
    maker.give_encodings();
    const auto differences = run_both(maker);
    ASSERT_EQ(differences.size(), 2u);
    EXPECT_LE(differences.at("masked").steps, kOneRounding);
    EXPECT_LE(differences.at("y").steps, 10.0);
  }
}

// The sum is not rounded and never saturates, whether the library fuses it into one op or not.
TEST_F(QnnLowering, MaskedSoftmax) {
  for (const int64_t tokens : {1, 4}) {
    for (const bool half : {false, true}) {
      GraphMaker maker(tokens, 32);
      const auto scores = maker.input("scores", {6, tokens, 36}, -20, 20);
      const auto mask = maker.input("mask", {tokens, 36}, -80, 0);
      for (float& value : maker.io.floats["mask"]) value = value < -40 ? -120.0f : 0.0f;
      maker.last(OpKind::kMaskedSoftmax, {scores, mask}, {6, tokens, 36}, {.factor = 0.25f});
      half ? maker.make_half() : maker.give_encodings();
      EXPECT_LE(steps_of(maker), half ? kHalfRelative : 40.0);
    }
  }
}

TEST_F(QnnLowering, SlicesOfHeadsColumnsAndScores) {
  struct Case {
    std::vector<int64_t> whole, part;
    int32_t axis;
    int64_t begin;
  };
  for (const int64_t tokens : {int64_t{1}, int64_t{4}}) {
    const Case cases[] = {{{6, tokens, 16}, {2, tokens, 16}, 0, 3},
                          {{tokens, 96}, {tokens, 32}, 1, 64},
                          {{3, tokens, 36}, {3, tokens, 4}, 2, 32}};
    for (const Case& each : cases) {
      GraphMaker maker(tokens, 32);
      ir::OpAttributes attributes;
      attributes.axis = each.axis;
      attributes.begin = each.begin;
      maker.last(OpKind::kSlice, {maker.input("x", each.whole)}, each.part, attributes);
      maker.give_encodings();
      maker.graph.at(*maker.graph.find("y")).encoding = maker.graph.at(*maker.graph.find("x")).encoding;
      EXPECT_LE(steps_of(maker), 0.01) << "axis " << each.axis << ", tokens " << tokens;
    }
  }
}

// Scores of the cache and of a call's own rows, joined.
TEST_F(QnnLowering, ProductsWithACacheAndRowsApart) {
  for (const int64_t tokens : {int64_t{1}, int64_t{8}}) {
    for (const int64_t groups : {int64_t{1}, int64_t{2}}) {
      GraphMaker maker(tokens, 32);
      const auto q = maker.input("q", {4, tokens, 16}, -2, 2);
      const auto cache = maker.input("cache", {groups, 32, 16}, -2, 2, ir::TensorRole::kState);
      const auto rows = maker.input("rows", {groups, tokens, 16}, -2, 2);
      const auto old_scores = maker.op(OpKind::kMatMul, "old", {q, cache}, {4, tokens, 32}, {.transpose_b = true});
      const auto new_scores = maker.op(OpKind::kMatMul, "new", {q, rows}, {4, tokens, tokens}, {.transpose_b = true});
      maker.last(OpKind::kConcat, {old_scores, new_scores}, {4, tokens, 32 + tokens});
      maker.give_encodings();
      for (const char* name : {"cache", "rows"}) {
        ir::Tensor& tensor = maker.graph.at(*maker.graph.find(name));
        tensor.dtype = DType::kU8;
        tensor.encoding = {ir::EncodingKind::kPerTensor, 2.0f / 127, 128};
      }
      // As set_encodings assigns them: parts have the encoding of the whole.
      for (const char* name : {"old", "new"}) {
        maker.graph.at(*maker.graph.find(name)).encoding = maker.graph.at(*maker.graph.find("y")).encoding;
      }
      // Before V73 products are less exact.
      EXPECT_LE(steps_of(maker), test::qnn_device().value()->arch() < 73 ? 26.0 : 3.0);
    }
  }
}

TEST_F(QnnLowering, ConcatOfOtherEncodings) {
  GraphMaker maker(4, 32);
  maker.last(OpKind::kConcat, {maker.input("a", {4, 16}), maker.input("b", {4, 48}, -1, 7)}, {4, 64});
  maker.give_encodings();
  EXPECT_LE(steps_of(maker), 1.01);
}

TEST_F(QnnLowering, Convert) {
  for (const DType to : {DType::kU16, DType::kU8, DType::kF16}) {
    GraphMaker maker(4, 32);
    maker.last(OpKind::kConvert, {maker.input("x", {4, 16})}, {4, 16});
    maker.give_encodings();
    ir::Tensor& y = maker.graph.at(*maker.graph.find("y"));
    y.dtype = to;
    y.encoding = {ir::EncodingKind::kPerTensor, to == DType::kU8 ? 0.016f : 0.00007f, to == DType::kU8 ? 130 : 30000};
    if (to == DType::kF16) y.encoding = {};
    EXPECT_LE(steps_of(maker), to == DType::kF16 ? 5e-4 : 1.01);
  }
}

}  // namespace lower_ops_test
}  // namespace tandem::qnn

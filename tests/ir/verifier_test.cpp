// Every way to break a graph, one at a time: refused, with a message that names the thing.
#include "ir/verifier.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>

#include "support/small_graph.h"

namespace tandem::ir {
namespace verifier_test {

using test::small_graph;

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
constexpr float kInfinity = std::numeric_limits<float>::infinity();

Tensor& tensor(Graph& graph, std::string_view name) { return graph.at(graph.find(name).value()); }

Op& op(Graph& graph, OpKind kind, int number = 0) {
  for (Op& candidate : graph.ops) {
    if (candidate.kind == kind && number-- == 0) return candidate;
  }
  ADD_FAILURE() << "no such op";
  return graph.ops.front();
}

Graph u8_graph() {
  test::SmallGraphOptions options;
  options.kv = DType::kU8;
  return small_graph(options);
}

TEST(Verifier, AcceptsTheMethodsWeMake) {
  for (const DType kv : {DType::kF32, DType::kF16, DType::kU8}) {
    for (const DType mask : {DType::kF32, DType::kF16, DType::kU16, DType::kU8}) {
      for (const DType logits : {DType::kF32, DType::kF16, DType::kU16, DType::kU8}) {
        test::SmallGraphOptions options;
        options.kv = kv;
        options.mask.dtype = mask;
        if (!dtype_is_float(mask)) {
          options.mask.encoding = {EncodingKind::kPerTensor, 0.1f, static_cast<int32_t>(dtype_max(mask))};
        }
        options.logits.dtype = logits;
        if (!dtype_is_float(logits)) options.logits.encoding = {EncodingKind::kPerTensor, 0.1f, 100};
        const Status status = verify(small_graph(options));
        EXPECT_TRUE(status.ok()) << status.error().message;
      }
    }
  }
}

// Which back end computes with them is the back ends' business.
TEST(Verifier, AcceptsActivationsThatAreRounded) {
  Graph half = small_graph();
  half.at(*half.find("mixed")).dtype = DType::kF16;
  EXPECT_TRUE(verify(half).ok()) << verify(half).error().message;
  Graph encoded = small_graph();
  encoded.at(*encoded.find("mixed")).dtype = DType::kU16;
  encoded.at(*encoded.find("mixed")).encoding = {EncodingKind::kPerTensor, 0.1f, 100};
  const Status status = verify(encoded);
  EXPECT_TRUE(status.ok()) << status.error().message;
}

// The LM head in few bits writes "coarse" and reads "h".
Graph rescored_graph() {
  test::SmallGraphOptions options;
  options.logits.dtype = DType::kU16;
  options.logits.encoding = {EncodingKind::kPerTensor, 0.1f, 100};
  Graph graph = small_graph(options);
  const TensorId logits = graph.find("logits").value();
  Tensor coarse = graph.at(logits);
  coarse.name = "coarse";
  coarse.role = TensorRole::kActivation;
  coarse.purpose = {.kind = PurposeKind::kLmHead};
  const TensorId id = graph.add(coarse);
  for (Op& candidate : graph.ops) std::ranges::replace(candidate.outputs, logits, id);
  graph.ops.push_back({OpKind::kRescore,
                       {id, graph.find("h").value(), graph.find("embedding").value()},
                       {logits},
                       {.on_host = true, .candidates = 5}});
  return graph;
}

TEST(Verifier, ChecksWhatIsRescored) {
  const Status whole = verify(rescored_graph());
  ASSERT_TRUE(whole.ok()) << whole.error().message;
  const std::vector<std::pair<const char*, std::function<void(Graph&)>>> broken = {
      {"0 of 24", [](Graph& g) { op(g, OpKind::kRescore).attributes.candidates = 0; }},
      {"25 of 24", [](Graph& g) { op(g, OpKind::kRescore).attributes.candidates = 25; }},
      {"the CPU's", [](Graph& g) { op(g, OpKind::kRescore).attributes.on_host = false; }},
      {"one shape, dtype and encoding", [](Graph& g) { tensor(g, "coarse").encoding.scale = 0.2f; }},
      {"one shape, dtype and encoding", [](Graph& g) { tensor(g, "logits").encoding.zero_point = 101; }},
      {"inputs", [](Graph& g) { op(g, OpKind::kRescore).inputs.pop_back(); }},
      {"should be a weight", [](Graph& g) { op(g, OpKind::kRescore).inputs[2] = op(g, OpKind::kRescore).inputs[1]; }},
      {"should be a weight", [](Graph& g) { op(g, OpKind::kRescore).inputs[1] = op(g, OpKind::kRescore).inputs[0]; }},
  };
  for (const auto& [words, break_it] : broken) {
    Graph graph = rescored_graph();
    break_it(graph);
    const Status status = verify(graph);
    ASSERT_FALSE(status.ok()) << words;
    EXPECT_NE(status.error().message.find(words), std::string::npos) << status.error().message;
  }
}

struct Broken {
  const char* name;
  std::function<void(Graph&)> break_it;
  std::vector<const char*> words;  // All of them are in the message.
  bool u8_cache = false;
};

const std::vector<Broken>& broken_graphs() {
  using G = Graph;
  static const std::vector<Broken> list = {
      // The graph as a whole.
      {"NoTokens", [](G& g) { g.tokens = 0; }, {"decode", "0 tokens"}},
      {"NegativeTokens", [](G& g) { g.tokens = -1; }, {"decode", "-1 tokens"}},
      {"ContextTooShort", [](G& g) { g.context = 1; }, {"decode", "context of 1"}},
      {"HugeContext", [](G& g) { g.context = int64_t{1} << 40; }, {"decode", "too large"}},
      {"TooManyTensors", [](G& g) { g.tensors.resize(100'000, g.tensors[0]); }, {"decode", "too many"}},
      {"TooManyOps", [](G& g) { g.ops.resize(100'000, g.ops[0]); }, {"decode", "too many"}},
      // Tensors.
      {"NoName", [](G& g) { tensor(g, "h").name = ""; }, {"decode", "no name"}},
      {"TwoOfOneName", [](G& g) { tensor(g, "h").name = "x"; }, {"two tensors", "\"x\""}},
      {"NoDimensions", [](G& g) { tensor(g, "h").shape = {}; }, {"\"h\"", "0 dimensions"}},
      {"FiveDimensions",
       [](G& g) {
         tensor(g, "h").shape = {1, 1, 1, 1, 1};
       },
       {"\"h\"", "5 dimensions"}},
      {"ZeroDimension",
       [](G& g) {
         tensor(g, "h").shape = {2, 0};
       },
       {"\"h\"", "dimension of 0"}},
      {"NegativeDimension",
       [](G& g) {
         tensor(g, "h").shape = {2, -16};
       },
       {"\"h\"", "dimension of -16"}},
      {"HugeDimension",
       [](G& g) {
         tensor(g, "h").shape = {2, INT64_MAX};
       },
       {"\"h\"", "dimension of"}},
      {"HugeProduct",
       [](G& g) {
         tensor(g, "k_cache.0").shape = {1 << 30, 1 << 30, 1 << 30};
       },
       {"\"k_cache.0\"", "too large"}},
      {"WeightOnlyDtype", [](G& g) { tensor(g, "h").dtype = DType::kI4; }, {"\"h\"", "i4"}},
      {"UnknownDtype", [](G& g) { tensor(g, "h").dtype = static_cast<DType>(200); }, {"\"h\"", "unknown"}},
      {"UnknownRole", [](G& g) { tensor(g, "h").role = static_cast<TensorRole>(200); }, {"\"h\"", "unknown"}},
      {"UnknownEncoding",
       [](G& g) { tensor(g, "h").encoding.kind = static_cast<EncodingKind>(200); },
       {"\"h\"", "unknown"}},
      {"UnknownFormat",
       [](G& g) { tensor(g, "head").format = static_cast<WeightFormat>(200); },
       {"\"head\"", "unknown"}},
      {"FloatWithIntegerEncoding",
       [](G& g) {
         tensor(g, "mask").encoding = {EncodingKind::kPerTensor, 1.0f, 0};
       },
       {"\"mask\"", "integer encoding"}},
      {"ScaleZero",
       [](G& g) {
         tensor(g, "tokens").encoding = {EncodingKind::kPerTensor, 0.0f, 0};
       },
       {"\"tokens\"", "scale of 0"}},
      {"ScaleNaN",
       [](G& g) {
         tensor(g, "tokens").encoding = {EncodingKind::kPerTensor, kNaN, 0};
       },
       {"\"tokens\"", "scale of nan"}},
      {"ScaleInfinite",
       [](G& g) {
         tensor(g, "tokens").encoding = {EncodingKind::kPerTensor, kInfinity, 0};
       },
       {"\"tokens\"", "scale of inf"}},
      {"ZeroPointOutside",
       [](G& g) {
         tensor(g, "logits").dtype = DType::kU8;
         tensor(g, "logits").encoding = {EncodingKind::kPerTensor, 1.0f, 256};
       },
       {"\"logits\"", "zero point of 256"}},
      {"WeightNoMatrix", [](G& g) { tensor(g, "head").shape = {24}; }, {"\"head\"", "not a matrix"}},
      {"BlockMissing", [](G& g) { tensor(g, "layers.0.q").block = 0; }, {"\"layers.0.q\"", "block of 0"}},
      {"BlockOdd", [](G& g) { tensor(g, "layers.0.q").block = 17; }, {"\"layers.0.q\"", "block of 17"}},
      {"BlockUnwanted", [](G& g) { tensor(g, "head").block = 32; }, {"\"head\"", "block of 32"}},
      {"VectorNoRow",
       [](G& g) {
         tensor(g, "layers.0.norm").shape = {4, 4};
       },
       {"\"layers.0.norm\"", "f32"}},
      {"VectorNoFloat", [](G& g) { tensor(g, "layers.0.norm").dtype = DType::kF16; }, {"\"layers.0.norm\"", "f32"}},
      // Who writes, who reads.
      {"Cycle", [](G& g) { op(g, OpKind::kRmsNorm).inputs[0] = *g.find("y"); }, {"op 3", "rms_norm", "\"y\" before"}},
      {"ReadsItself", [](G& g) { op(g, OpKind::kAdd).inputs[0] = *g.find("y"); }, {"add", "\"y\" before"}},
      {"WrongOrder", [](G& g) { std::swap(g.ops[3], g.ops[4]); }, {"op 3", "linear", "\"h\" before"}},
      {"WrittenTwice", [](G& g) { g.ops.push_back(op(g, OpKind::kAdd)); }, {"op 14", "add", "\"y\""}},
      {"OneOutputTwice",
       [](G& g) { op(g, OpKind::kRopeTable).outputs[1] = *g.find("cos"); },
       {"rope_table", "\"cos\""}},
      {"WritesAnInput", [](G& g) { op(g, OpKind::kAdd).outputs[0] = *g.find("tokens"); }, {"add", "\"tokens\""}},
      {"WritesAWeight", [](G& g) { op(g, OpKind::kAdd).outputs[0] = *g.find("head"); }, {"add", "\"head\""}},
      {"WritesAState", [](G& g) { op(g, OpKind::kAdd).outputs[0] = *g.find("k_cache.0"); }, {"add", "\"k_cache.0\""}},
      {"OutputNotWritten", [](G& g) { g.ops.pop_back(); }, {"decode", "nothing writes", "\"logits\""}},
      {"ReadsBeyondTheList", [](G& g) { op(g, OpKind::kAdd).inputs[1] = 1000; }, {"add", "reads tensor 1000"}},
      {"ReadsANegative", [](G& g) { op(g, OpKind::kAdd).inputs[1] = -1; }, {"add", "reads tensor -1"}},
      {"WritesBeyondTheList", [](G& g) { op(g, OpKind::kAdd).outputs[0] = 1000; }, {"add", "writes tensor 1000"}},
      {"WritesANegative",
       [](G& g) { op(g, OpKind::kAdd).outputs[0] = INT32_MIN; },
       {"add", "writes tensor -2147483648"}},
      // Ops.
      {"UnknownKind", [](G& g) { g.ops[3].kind = static_cast<OpKind>(200); }, {"op 3", "unknown kind"}},
      {"TooFewInputs", [](G& g) { op(g, OpKind::kAdd).inputs.pop_back(); }, {"add", "1 inputs"}},
      {"TooManyInputs", [](G& g) { op(g, OpKind::kAdd).inputs.push_back(*g.find("x")); }, {"add", "3 inputs"}},
      {"NoInputs", [](G& g) { op(g, OpKind::kAdd).inputs.clear(); }, {"add", "0 inputs"}},
      {"NoOutputs", [](G& g) { op(g, OpKind::kRmsNorm).outputs.clear(); }, {"rms_norm", "0 outputs"}},
      {"EpsNaN", [](G& g) { op(g, OpKind::kRmsNorm).attributes.eps = kNaN; }, {"rms_norm", "attribute"}},
      {"EpsNegative", [](G& g) { op(g, OpKind::kRmsNorm).attributes.eps = -1; }, {"rms_norm", "attribute"}},
      {"FactorInfinite",
       [](G& g) { op(g, OpKind::kAttention).attributes.factor = kInfinity; },
       {"attention", "attribute"}},
      {"WindowNegative", [](G& g) { op(g, OpKind::kAttention).attributes.window = -1; }, {"attention", "attribute"}},
      {"SoftcapNegative", [](G& g) { op(g, OpKind::kAttention).attributes.softcap = -1; }, {"attention", "attribute"}},
      {"CapOfZero",
       [](G& g) {
         op(g, OpKind::kAdd).kind = OpKind::kSoftcap;
         op(g, OpKind::kSoftcap).inputs.pop_back();
         op(g, OpKind::kSoftcap).attributes.factor = 0;
       },
       {"softcap", "cap of 0"}},
      {"TokensAreFloats", [](G& g) { tensor(g, "tokens").dtype = DType::kF32; }, {"embedding", "\"tokens\"", "i32"}},
      {"TableIsNoWeight",
       [](G& g) { op(g, OpKind::kEmbedding).inputs[1] = *g.find("layers.0.norm"); },
       {"embedding", "\"layers.0.norm\"", "weight"}},
      {"EmbeddingOfAnotherWidth", [](G& g) { tensor(g, "embedding").shape[1] = 8; }, {"embedding", "\"x\"", "8"}},
      {"WeightOfAnotherWidth", [](G& g) { tensor(g, "head").shape[1] = 17; }, {"linear", "\"head\""}},
      {"LinearOutputTooNarrow", [](G& g) { tensor(g, "head").shape[0] = 25; }, {"linear", "\"scores\"", "25"}},
      {"BiasTooShort", [](G& g) { tensor(g, "layers.0.q.bias").shape[0] = 15; }, {"linear", "\"layers.0.q.bias\""}},
      {"BiasIsARow", [](G& g) { op(g, OpKind::kLinear).inputs[2] = *g.find("x"); }, {"linear", "\"x\"", "vector"}},
      {"IntegerWeightsFloatInput",
       [](G& g) { op(g, OpKind::kLinear).attributes.quantize_input = false; },
       {"linear", "\"layers.0.q\"", "lpbq4"}},
      {"FloatWeightsIntegerInput",
       [](G& g) { op(g, OpKind::kLinear, 1).attributes.quantize_input = true; },
       {"linear", "\"layers.0.k\"", "fp32"}},
      {"Int16InputThatIsNotRounded",
       [](G& g) { op(g, OpKind::kLinear, 1).attributes.int16_input = true; },
       {"linear", "16 bits"}},
      {"ActivationIsIndices", [](G& g) { tensor(g, "h").dtype = DType::kI32; }, {"rms_norm", "\"h\"", "no numbers"}},
      {"ActivationWithoutEncoding",
       [](G& g) { tensor(g, "h").dtype = DType::kU16; },
       {"rms_norm", "\"h\"", "no numbers"}},
      {"ActivationWithRowEncoding",
       [](G& g) {
         tensor(g, "h").dtype = DType::kU8;
         tensor(g, "h").encoding.kind = EncodingKind::kDynamicPerRow;
       },
       {"rms_norm", "\"h\"", "no numbers"}},
      {"ActivationOfOtherTokens", [](G& g) { tensor(g, "h").shape[0] = 3; }, {"rms_norm", "\"h\"", "[2, width]"}},
      {"ActivationIsAWeight", [](G& g) { op(g, OpKind::kAdd).inputs[1] = *g.find("head"); }, {"add", "\"head\""}},
      {"AddOfTwoWidths", [](G& g) { op(g, OpKind::kAdd).inputs[1] = *g.find("k"); }, {"add", "\"k\"", "8 wide"}},
      {"NormDoesNotDivide", [](G& g) { tensor(g, "layers.0.norm").shape[0] = 5; }, {"rms_norm", "\"layers.0.norm\""}},
      {"RopeTooWide", [](G& g) { op(g, OpKind::kRope).attributes.head_dim = 2; }, {"rope", "more than a head"}},
      {"RopeNoHeads", [](G& g) { op(g, OpKind::kRope).attributes.head_dim = 0; }, {"rope", "head size 0"}},
      {"RopeOddHeads", [](G& g) { op(g, OpKind::kRope).attributes.head_dim = 5; }, {"rope", "head size 5"}},
      {"HadamardOddHeads",
       [](G& g) {
         op(g, OpKind::kRope) = {OpKind::kHadamard, {*g.find("q")}, {*g.find("q_turned")}, {.head_dim = 5}};
       },
       {"hadamard", "head size 5"}},
      {"HadamardOfTwoWidths",
       [](G& g) {
         op(g, OpKind::kRope) = {OpKind::kHadamard, {*g.find("k")}, {*g.find("q_turned")}, {.head_dim = 4}};
       },
       {"hadamard", "should be 8"}},
      {"HadamardOfNoPowerOfTwo",
       [](G& g) {
         op(g, OpKind::kRope) = {OpKind::kHadamard, {*g.find("k")}, {*g.find("q_turned")}, {.head_dim = 6}};
         tensor(g, "k").shape[1] = tensor(g, "layers.0.k").shape[0] = 12;
       },
       {"hadamard", "heads of 6", "power of two"}},
      {"RopeTableWidths", [](G& g) { tensor(g, "sin").shape[1] = 1; }, {"rope_table", "\"sin\""}},
      {"CacheIsNoState",
       [](G& g) { op(g, OpKind::kStoreKv).inputs[2] = *g.find("x"); },
       {"store_kv", "\"x\"", "state"}},
      {"CacheOfAnotherContext", [](G& g) { tensor(g, "k_cache.0").shape[1] = 9; }, {"store_kv", "\"k_cache.0\"", "8"}},
      {"CacheOfAnotherHeadSize", [](G& g) { tensor(g, "k_cache.0").shape[2] = 8; }, {"store_kv", "\"k_cache.0\""}},
      {"CacheOfOtherHeads", [](G& g) { tensor(g, "k_cache.0").shape[0] = 3; }, {"store_kv", "\"k_cache.0\"", "heads"}},
      {"CacheDtype", [](G& g) { tensor(g, "k_cache.0").dtype = DType::kI16; }, {"store_kv", "\"k_cache.0\"", "i16"}},
      {"QueryHeadsDoNotShare",
       [](G& g) {
         g.ops.erase(g.ops.begin() + 8, g.ops.begin() + 10);  // The two store_kv.
         for (const char* name : {"k_cache.0", "v_cache.0"}) tensor(g, name).shape[0] = 3;
       },
       {"attention", "4 query heads", "3 key heads"}},
      {"MaskOfAnotherContext", [](G& g) { tensor(g, "mask").shape[1] = 9; }, {"mask_to_float", "\"mask\""}},
      {"MaskNotConverted",
       [](G& g) { op(g, OpKind::kAttention).inputs[3] = *g.find("x"); },
       {"attention", "\"x\"", "should be 8"}},
      {"MaskDtype", [](G& g) { tensor(g, "mask").dtype = DType::kI64; }, {"mask_to_float", "\"mask\"", "i64"}},
      {"MaskWithoutEncoding", [](G& g) { tensor(g, "mask").dtype = DType::kU8; }, {"mask_to_float", "\"mask\"", "u8"}},
      {"MaskWithOneCode",
       [](G& g) {
         tensor(g, "mask").dtype = DType::kU8;
         tensor(g, "mask").encoding = {EncodingKind::kPerTensor, 1.0f, 0};
       },
       {"mask_to_float", "\"mask\"", "one number"}},
      {"PositionsAreARow",
       [](G& g) { op(g, OpKind::kAttention).inputs[4] = *g.find("x"); },
       {"attention", "\"x\"", "i32"}},
      {"ConvertToAnUnknown", [](G& g) { tensor(g, "logits").dtype = DType::kI32; }, {"convert", "\"logits\""}},
      {"ConvertWithoutEncoding", [](G& g) { tensor(g, "logits").dtype = DType::kU16; }, {"convert", "\"logits\""}},
      {"ConvertToAnotherShape", [](G& g) { tensor(g, "logits").shape[1] = 23; }, {"convert", "\"logits\""}},
      // Caches in u8 have their scales beside them.
      {"ScalesMissing",
       [](G& g) { op(g, OpKind::kStoreKv).inputs.pop_back(); },
       {"store_kv", "\"k_cache.0\"", "scales"},
       true},
      {"CodesWithoutScales",
       [](G& g) { op(g, OpKind::kAttention).kind = OpKind::kQuantizedAttention; },
       {"quantized_attention", "5 inputs"}},
      {"ScalesOfOneCache", [](G& g) { op(g, OpKind::kAttention).inputs.pop_back(); }, {"attention", "one cache"}, true},
      {"ScalesOfAnotherShape",
       [](G& g) { tensor(g, "k_cache.0.scales").shape[2] = 1; },
       {"store_kv", "\"k_cache.0.scales\""},
       true},
      {"ScalesAreNoState",
       [](G& g) { op(g, OpKind::kStoreKv).inputs[3] = *g.find("x"); },
       {"store_kv", "\"x\"", "scales"},
       true},
      {"CacheWithoutRowEncoding",
       [](G& g) { tensor(g, "k_cache.0").encoding = {}; },
       {"store_kv", "\"k_cache.0\"", "scales"},
       true},
      {"ScalesOfAFloatCacheAreChecked",
       [](G& g) { op(g, OpKind::kStoreKv).inputs.push_back(*g.find("x")); },
       {"store_kv", "\"x\"", "scales"}},
  };
  return list;
}

class BrokenGraph : public ::testing::TestWithParam<size_t> {};

TEST_P(BrokenGraph, IsRefusedByName) {
  const Broken& broken = broken_graphs()[GetParam()];
  Graph graph = broken.u8_cache ? u8_graph() : small_graph();
  ASSERT_TRUE(verify(graph).ok());
  broken.break_it(graph);
  const Status status = verify(graph);
  ASSERT_FALSE(status.ok());
  for (const char* word : broken.words) {
    EXPECT_NE(status.error().message.find(word), std::string::npos) << status.error().message;
  }
}

INSTANTIATE_TEST_SUITE_P(Verifier, BrokenGraph, ::testing::Range(size_t{0}, broken_graphs().size()),
                         [](const auto& param) { return std::string(broken_graphs()[param.param].name); });

// Whatever single number of a graph changes, verify() answers; it never reads out of bounds (the sanitizers watch).
TEST(Verifier, AnyIdAnywhere) {
  const Graph whole = u8_graph();
  const auto count = static_cast<TensorId>(whole.tensors.size());
  int accepted = 0;
  for (size_t o = 0; o < whole.ops.size(); ++o) {
    for (size_t i = 0; i < whole.ops[o].inputs.size(); ++i) {
      for (TensorId id = -1; id <= count; ++id) {
        Graph graph = whole;
        graph.ops[o].inputs[i] = id;
        const Status status = verify(graph);
        accepted += status.ok();
        EXPECT_TRUE(status.ok() || !status.error().message.empty());
      }
    }
  }
  EXPECT_GT(accepted, 0);  // At least each id in its own place.
}

}  // namespace verifier_test
}  // namespace tandem::ir

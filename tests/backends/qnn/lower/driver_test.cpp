// Several graphs in one context: constants, sharing, binaries, stages, and what is refused.
#include "backends/qnn/api/binary_info.h"
#include "backends/qnn/lower/decoder.h"

namespace tandem::qnn {
namespace driver_test {

using ir::OpKind;
using test::DecoderMaker;
using test::GraphMaker;
using test::lower_new;
using test::QnnLowering;
using test::run_qnn;
using test::says;
using test::TestWeights;

// A prefill and a decode on the same weights, with the same encodings.
struct TwoMethods {
  TwoMethods() {
    prefill.give_encodings();
    decode.weights = prefill.weights;
    for (ir::Tensor& tensor : decode.graph.tensors) {
      const ir::Tensor& other = prefill.graph.at(*prefill.graph.find(tensor.name));
      tensor.dtype = other.dtype;
      tensor.encoding = other.encoding;
    }
    graphs = {{"prefill_4.layers.0-0", &prefill.graph}, {"decode.layers.0-0", &decode.graph}};
  }
  DecoderMaker prefill = DecoderMaker({.tokens = 4});
  DecoderMaker decode = DecoderMaker({.tokens = 1});
  std::vector<NamedGraph> graphs;
};

TEST_F(QnnLowering, TwoGraphsShareWhatIsAskedForOnce) {
  const TwoMethods methods;
  const auto lowered = lower_new(methods.graphs, *methods.prefill.weights);
  ASSERT_TRUE(lowered.ok()) << lowered.error().message;
  ASSERT_EQ(lowered->size(), 2u);
  // 7 matrices of the layer and one that is table and LM head; 5 norms and the frequencies.
  EXPECT_EQ(methods.prefill.weights->asked().size(), 8u + 6u);
  for (const auto& [name, times] : methods.prefill.weights->asked()) EXPECT_EQ(times, 1) << name;
  const DecoderMaker* const makers[] = {&methods.prefill, &methods.decode};
  for (size_t i = 0; i < 2; ++i) {
    const LoweredGraph& graph = (*lowered)[i];
    EXPECT_EQ(graph.name, methods.graphs[i].name);
    EXPECT_EQ(graph.nodes, graph.graph->node_count());
    EXPECT_GT(graph.build_seconds, 0);
    EXPECT_GT(graph.finalize_seconds, 0);
    const auto got = run_qnn(graph, makers[i]->graph, makers[i]->io);
    const auto expected = test::run_reference(makers[i]->graph, *methods.prefill.weights, makers[i]->io);
    const ir::Tensor& logits = makers[i]->graph.at(*makers[i]->graph.find("logits"));
    EXPECT_GE(test::compare(logits, got.at("logits"), expected.at("logits")).sqnr_db, 45);
  }
}

TEST_F(QnnLowering, SharingWeightsChangesNoNumber) {
  const TwoMethods methods;
  std::map<std::string, test::Bytes> outputs[2];
  uint64_t bytes[2] = {};
  for (const bool sharing : {false, true}) {
    const auto lowered = lower_new(methods.graphs, *methods.prefill.weights, sharing);
    ASSERT_TRUE(lowered.ok()) << lowered.error().message;
    for (const auto& [name, value] : run_qnn((*lowered)[0], methods.prefill.graph, methods.prefill.io)) {
      outputs[sharing]["prefill " + name] = value;
    }
    for (const auto& [name, value] : run_qnn((*lowered)[1], methods.decode.graph, methods.decode.io)) {
      outputs[sharing]["decode " + name] = value;
    }
    const auto size = lowered->front().graph->context()->binary_size();
    ASSERT_TRUE(size.ok()) << size.error().message;
    bytes[sharing] = *size;
  }
  EXPECT_EQ(outputs[0].size(), 6u);
  EXPECT_EQ(outputs[0], outputs[1]);
  EXPECT_LT(bytes[1], bytes[0]);
}

// The options have names that a later library may not know; it would silently ignore them.
TEST_F(QnnLowering, TheSizeOfTransfersChangesTheBinaryAndNoNumber) {
  if (test::qnn_device().value()->arch() < 73) return;  // It does not share weights.
  const auto make = [](int64_t tokens) {
    GraphMaker maker(tokens, 32);
    const auto weight = maker.weight("w", 1024, 1024, WeightFormat::kLpbq4);
    maker.last(OpKind::kLinear, {maker.input("x", {tokens, 1024}), weight}, {tokens, 1024});
    maker.give_encodings();
    return maker;
  };
  const GraphMaker decode = make(1), prefill = make(8);
  const NamedGraph graphs[] = {{"decode", &decode.graph}, {"prefill_8", &prefill.graph}};
  std::map<int, test::Bytes> outputs;
  std::map<int, uint64_t> sizes;
  for (const int channels : {0, 64, 256}) {
    LoweringOptions options;
    options.weight_tile_channels = channels;
    const auto lowered = lower_new(graphs, *prefill.weights, true, options);
    ASSERT_TRUE(lowered.ok()) << lowered.error().message;
    outputs[channels] = run_qnn((*lowered)[1], prefill.graph, prefill.io).at("y");
    const auto size = lowered->front().graph->context()->binary_size();
    ASSERT_TRUE(size.ok()) << size.error().message;
    sizes[channels] = *size;
  }
  EXPECT_EQ(outputs[64], outputs[0]);
  EXPECT_EQ(outputs[256], outputs[0]);
  EXPECT_EQ(sizes[64], sizes[0]) << "64 is the library's own choice";
  EXPECT_LT(sizes[256], sizes[0]) << "the library does not know the option any more";
}

// What the run time does with it. Names with every character that the compiler's names have come back as they were.
TEST_F(QnnLowering, ABinaryRunsAsTheGraphItWasMadeOf) {
  GraphMaker maker(4, 32);
  const auto x = maker.input("layers.0.attention.norm.out", {4, 64});
  maker.op(OpKind::kLinear, "layers.0.attention.q[64:128].out",
           {x, maker.weight("layers.0.attention.q[64:128]", 64, 64, WeightFormat::kLpbq4)}, {4, 64}, {},
           ir::TensorRole::kOutput);
  maker.give_encodings();
  const NamedGraph named = {"prefill_4.layers.0-0", &maker.graph};
  const auto lowered = lower_new({&named, 1}, *maker.weights);
  ASSERT_TRUE(lowered.ok()) << lowered.error().message;
  const auto binary = lowered->front().graph->context()->binary();
  ASSERT_TRUE(binary.ok()) << binary.error().message;
  const auto info = read_binary_info(*test::qnn_library().value(), binary->bytes);
  ASSERT_TRUE(info.ok()) << info.error().message;
  ASSERT_EQ(info->graphs.size(), 1u);
  EXPECT_EQ(info->graphs[0].name, named.name);
  ASSERT_EQ(info->graphs[0].inputs.size(), 1u);
  ASSERT_EQ(info->graphs[0].outputs.size(), 1u);
  EXPECT_EQ(info->graphs[0].inputs[0].name, "layers.0.attention.norm.out");
  EXPECT_EQ(info->graphs[0].outputs[0].name, "layers.0.attention.q[64:128].out");
  const auto context = Context::load(test::qnn_device().value(), binary->view());
  ASSERT_TRUE(context.ok()) << context.error().message;
  LoweredGraph loaded = {.name = named.name};
  const auto graph = Graph::retrieve(*context, info->graphs[0]);
  ASSERT_TRUE(graph.ok()) << graph.error().message;
  loaded.graph = *graph;
  EXPECT_EQ(run_qnn(loaded, maker.graph, maker.io), run_qnn(lowered->front(), maker.graph, maker.io));
}

TEST_F(QnnLowering, StagesAreToldAndCanBeStopped) {
  const TwoMethods methods;
  std::vector<std::string> stages;
  LoweringOptions options;
  options.progress = [&](std::string_view stage) { stages.emplace_back(stage); };
  ASSERT_TRUE(lower_new(methods.graphs, *methods.prefill.weights, false, options).ok());
  ASSERT_EQ(stages.size(), 8u + 2u + 2u);
  EXPECT_EQ(stages.front(), "weight embedding");
  EXPECT_EQ(stages[8], "ops of prefill_4.layers.0-0");
  EXPECT_EQ(stages.back(), "finalize decode.layers.0-0");
  for (const size_t after : {0u, 3u, 9u, 11u}) {
    size_t seen = 0;
    options.progress = {};
    options.stop = [&] { return seen++ == after; };
    const auto stopped = lower_new(methods.graphs, *methods.prefill.weights, false, options);
    ASSERT_FALSE(stopped.ok());
    EXPECT_EQ(stopped.error().code, ErrorCode::kCancelled);
    EXPECT_TRUE(says(stopped.error(), {"before: " + stages[after]}));
  }
}

// One op from x[4, 64] to y[4, 64], which the caller corrupts.
class Spoilt {
 public:
  explicit Spoilt(OpKind kind, ir::OpAttributes attributes = {}, WeightFormat format = WeightFormat::kLpbq4)
      : maker(4, 32) {
    std::vector<ir::TensorId> inputs = {maker.input("x", {4, 64})};
    if (kind == OpKind::kEmbedding) inputs = {maker.indices("tokens", {1, 2, 3, 4})};
    if (kind == OpKind::kLinear || kind == OpKind::kEmbedding) inputs.push_back(maker.weight("w", 64, 64, format));
    if (kind == OpKind::kRmsNorm) inputs.push_back(maker.vector("gamma", 64, 0, 1));
    if (kind == OpKind::kAdd || kind == OpKind::kSiluMul) inputs.push_back(maker.input("x2", {4, 64}));
    if (kind == OpKind::kEmbedding) {
      std::erase_if(maker.graph.tensors, [](const ir::Tensor& tensor) { return tensor.name == "x"; });
      for (ir::TensorId& id : inputs) --id;
    }
    maker.last(kind, inputs, {4, 64}, attributes);
    for (ir::Tensor& tensor : maker.graph.tensors) {
      if (test::is_constant(tensor) || tensor.dtype != DType::kF32) continue;
      tensor.dtype = DType::kU16;
      tensor.encoding = {ir::EncodingKind::kPerTensor, 0.001f, 32768};
    }
  }
  ir::Tensor& at(std::string_view name) { return maker.graph.at(*maker.graph.find(name)); }
  Error refused() {
    const NamedGraph named = {"graph", &maker.graph};
    auto lowered = lower_new({&named, 1}, *maker.weights);
    EXPECT_FALSE(lowered.ok());
    return lowered.ok() ? Error{} : lowered.error();
  }

  GraphMaker maker;
};

TEST_F(QnnLowering, WhatCannotBeLoweredIsNamed) {
  EXPECT_TRUE(says(Spoilt(OpKind::kSiluMul).refused(), {"graph graph", "silu_mul", "\"y\"", "split it first"}));
  EXPECT_TRUE(says(Spoilt(OpKind::kSilu).refused(), {"silu", "\"y\"", "split it first"}));
  EXPECT_TRUE(says(Spoilt(OpKind::kEmbedding, {.on_host = true}).refused(), {"embedding", "CPU", "cut the graph"}));

  Spoilt floats(OpKind::kAdd);
  for (const char* name : {"x", "x2", "y"}) {
    floats.at(name).dtype = DType::kF32;
    floats.at(name).encoding = {};
  }
  EXPECT_TRUE(says(floats.refused(), {"\"x\" is f32", "u16 or u8"}));

  Spoilt half(OpKind::kLinear, {}, WeightFormat::kF16);
  EXPECT_TRUE(says(half.refused(), {"linear", "no u16 by fp16 weights", "\"w\""}));

  Spoilt unread(OpKind::kRmsNorm);
  unread.maker.indices("positions", {1, 2, 3, 4});
  EXPECT_TRUE(says(unread.refused(), {"\"positions\"", "read by no op"}));

  Spoilt biased(OpKind::kLinear);
  biased.maker.graph.ops[0].inputs.push_back(biased.maker.vector("bias", 64, 0, 1));
  EXPECT_TRUE(says(biased.refused(), {"bias", "op of its own"}));
}

TEST_F(QnnLowering, BadConstantsAreNamed) {
  Spoilt missing(OpKind::kLinear);
  missing.maker.weights->matrices().clear();
  EXPECT_TRUE(says(missing.refused(), {"no weight w"}));

  Spoilt other(OpKind::kLinear);
  other.maker.weights->matrices()["w"].rows = 32;
  EXPECT_TRUE(says(other.refused(), {"\"w\" should be lpbq4 of 64 x 64"}));

  Spoilt cut(OpKind::kLinear);
  cut.maker.weights->matrices()["w"].quantized.resize(100);
  EXPECT_TRUE(says(cut.refused(), {"\"w\"", "numbers missing"}));

  Spoilt wild(OpKind::kLinear);
  wild.maker.weights->matrices()["w"].multipliers[5] = 17;
  EXPECT_TRUE(says(wild.refused(), {"w", "multiplier outside"}));

  Spoilt infinite(OpKind::kRmsNorm);
  infinite.maker.weights->add_vector("gamma", std::vector<float>(64, INFINITY));
  EXPECT_TRUE(says(infinite.refused(), {"rms_norm", "\"gamma\"", "not finite"}));

  Spoilt brief(OpKind::kRmsNorm);
  brief.maker.weights->add_vector("gamma", std::vector<float>(63, 1.0f));
  EXPECT_TRUE(says(brief.refused(), {"\"gamma\" should have 64 numbers"}));
}

TEST_F(QnnLowering, GraphsMustFitEachOther) {
  Spoilt one(OpKind::kLinear), two(OpKind::kLinear, {}, WeightFormat::kI8);
  const std::vector<NamedGraph> graphs = {{"a", &one.maker.graph}, {"b", &two.maker.graph}};
  const auto mixed = lower_new(graphs, *one.maker.weights);
  ASSERT_FALSE(mixed.ok());
  EXPECT_TRUE(says(mixed.error(), {"\"w\"", "graph b"}));
  const std::vector<NamedGraph> same = {{"a", &one.maker.graph}, {"a", &one.maker.graph}};
  const auto twice = lower_new(same, *one.maker.weights);
  ASSERT_FALSE(twice.ok());
  EXPECT_TRUE(says(twice.error(), {"two graphs are named a"}));
  EXPECT_FALSE(lower_new({}, *one.maker.weights).ok());
  const auto level = lower_new({graphs.data(), 1}, *one.maker.weights, false, {.optimization_level = 1});
  ASSERT_FALSE(level.ok());
  EXPECT_TRUE(says(level.error(), {"level 1"}));
}

}  // namespace driver_test
}  // namespace tandem::qnn

// Contexts and graphs on the real library: checks that it does not make, saving and loading binaries, weight sharing.
#include <cstdio>

#include "backends/qnn/api/qnn_support.h"
#include "backends/qnn/api/version_rules.h"

namespace tandem::qnn {
namespace graph_test {

using test::Fixed;
using test::says;
using test::SmallGraph;

constexpr DataType kU8 = DataType::kFixedU8;
constexpr DataType kU16 = DataType::kFixedU16;
constexpr ScaleOffset kUnit = {1.0f / 32768, -32768};

class QnnGraph : public ::testing::Test {
 protected:
  void SetUp() override {
    TANDEM_NEEDS_QNN();
    ASSERT_TRUE(test::qnn_device().ok()) << test::qnn_device().error().message;
  }

  // x[rows, k] times LPBQ weights; the weights are the same for every number of rows.
  static void add_linear(SmallGraph& graph, uint32_t rows, uint32_t k = 512, uint32_t n = 512) {
    const WeightMatrix weights = test::random_weights(WeightFormat::kLpbq4, n, k, 32, 100);
    const auto x = graph.input("x", test::random_fixed(kU16, rows * k, -1, 1, 101), {1, 1, rows, k});
    const auto w = graph.add(make_conv2d_weights("w", weights));
    const auto y = graph.output("y", kU16, {1, 1, rows, n}, ScaleOffset{0.0005f, -32768});
    graph.node("Conv2d", {x, w}, {y}, test::one_by_one());
  }
  static std::shared_ptr<const Context> make_context(bool weight_sharing = false) {
    auto context = Context::create(test::qnn_device().value(), {.weight_sharing = weight_sharing});
    EXPECT_TRUE(context.ok()) << context.error().message;
    return context.ok() ? context.value() : nullptr;
  }
  static OwnedBinary small_binary() {
    SmallGraph graph(nullptr, "decode");
    add_linear(graph, 1, 64, 64);
    EXPECT_TRUE(graph.finalize().ok()) << graph.status().error().message;
    auto binary = graph.graph()->context()->binary();
    EXPECT_TRUE(binary.ok()) << binary.error().message;
    return binary.ok() ? binary.value() : OwnedBinary{};
  }
};

TEST_F(QnnGraph, ASerializedGraphIsDescribedReloadedAndGivesTheSameNumbers) {
  SmallGraph graph(nullptr, "decode");
  add_linear(graph, 4);
  const auto live = graph.run();
  ASSERT_TRUE(live.ok()) << live.error().message;
  const auto binary = graph.graph()->context()->binary();
  ASSERT_TRUE(binary.ok()) << binary.error().message;
  EXPECT_EQ(binary->arch, known_arch(test::test_soc()));

  const auto info = read_binary_info(*test::qnn_library().value(), binary->bytes);
  ASSERT_TRUE(info.ok()) << info.error().message;
  EXPECT_EQ(info->arch, known_arch(test::test_soc()));
  EXPECT_EQ(info->soc_model, test::test_soc());
  EXPECT_EQ(version_text(info->core_version), version_text(test::qnn_library().value()->core_version()));
  EXPECT_EQ(info->find_graph("prefill"), nullptr);
  const GraphInfo* const decode = info->find_graph("decode");
  ASSERT_NE(decode, nullptr);
  EXPECT_EQ(decode->optimization_level, 3u);
  EXPECT_EQ(decode->vtcm_bytes, 8u << 20);
  ASSERT_EQ(decode->inputs.size(), 1u);
  ASSERT_EQ(decode->outputs.size(), 1u);
  EXPECT_EQ(decode->inputs[0].name, "x");
  EXPECT_EQ(decode->inputs[0].dtype, kU16);
  EXPECT_EQ(decode->inputs[0].shape, (Shape{1, 1, 4, 512}));
  EXPECT_EQ(decode->inputs[0].bytes, 4096u);
  ASSERT_TRUE(decode->outputs[0].encoding.has_value());
  EXPECT_EQ(decode->outputs[0].encoding->scale, 0.0005f);
  EXPECT_EQ(decode->outputs[0].encoding->offset, -32768);

  const auto context = Context::load(test::qnn_device().value(), binary->view());
  ASSERT_TRUE(context.ok()) << context.error().message;
  const auto loaded = Graph::retrieve(*context, *decode);
  ASSERT_TRUE(loaded.ok()) << loaded.error().message;
  const auto again = SmallGraph::run(*loaded, graph.data());
  ASSERT_TRUE(again.ok()) << again.error().message;
  EXPECT_EQ(*live, *again);
  EXPECT_TRUE(says(Graph::create(*context, "another").error(), {"takes no new graphs"}));
  GraphInfo no_graph;
  no_graph.name = "none";
  EXPECT_TRUE(says(Graph::retrieve(*context, no_graph).error(), {"finding graph none"}));
}

TEST_F(QnnGraph, ConstantsMayGoAwayOnceTheyAreAdded) {
  const uint32_t rows = 2, k = 1024, n = 1024;
  WeightMatrix weights = test::random_weights(WeightFormat::kLpbq4, n, k, 32, 1);
  const Fixed x = test::random_fixed(kU16, rows * k, -1, 1, 2);
  std::vector<uint8_t> output;
  for (const bool scribble : {false, true}) {
    SmallGraph graph;
    const auto input = graph.input("x", x, {1, 1, rows, k});
    WeightMatrix copy = weights;
    Result<TensorSpec> spec = make_conv2d_weights("w", copy);
    ASSERT_TRUE(spec.ok());
    const auto w = graph.add(*spec);
    if (scribble) {
      const auto codes = spec->data.bytes();
      std::memset(const_cast<uint8_t*>(codes.data()), 1, codes.size());
      std::ranges::fill(copy.multipliers, uint8_t{1});
      auto& lpbq = std::get<Lpbq>(spec->quantization);
      for (ScaleOffset& channel : lpbq.channels) channel.scale = 1;
    }
    const auto y = graph.output("y", kU16, {1, 1, rows, n}, ScaleOffset{0.0005f, -32768});
    graph.node("Conv2d", {input, w}, {y}, test::one_by_one());
    const auto got = graph.run();
    ASSERT_TRUE(got.ok()) << got.error().message;
    if (!scribble) {
      output = *got;
    } else {
      EXPECT_EQ(output, *got);
    }
  }
}

TEST_F(QnnGraph, SharedWeightsAreStoredOnceAndRunOnlyBeforeTheyAreSerialized) {
  uint64_t sizes[2] = {};
  OwnedBinary shared_binary;
  std::vector<std::vector<uint8_t>> outputs[2];
  for (const bool shared : {false, true}) {
    const auto context = make_context(shared);
    SmallGraph decode(context, "decode");
    add_linear(decode, 1);
    SmallGraph prefill(context, "prefill");
    add_linear(prefill, 32);
    for (SmallGraph* const graph : {&decode, &prefill}) {
      const auto output = graph->run();
      ASSERT_TRUE(output.ok()) << output.error().message;
      outputs[shared].push_back(*output);
    }
    auto binary = context->binary();
    ASSERT_TRUE(binary.ok()) << binary.error().message;
    sizes[shared] = binary->bytes.size();
    if (shared) shared_binary = std::move(*binary);
  }
  EXPECT_EQ(outputs[0], outputs[1]);
  std::printf("[ measured ] two graphs: %zu bytes unshared, %zu shared\n", static_cast<size_t>(sizes[0]),
              static_cast<size_t>(sizes[1]));
  EXPECT_LT(static_cast<double>(sizes[1]), 0.75 * static_cast<double>(sizes[0]));
  EXPECT_TRUE(shared_binary.weight_shared);
  // The library would crash here.
  const auto loaded = Context::load(test::qnn_device().value(), shared_binary.view());
  ASSERT_FALSE(loaded.ok());
  EXPECT_EQ(loaded.error().code, ErrorCode::kUnsupported);
  EXPECT_TRUE(says(loaded.error(), {"shares weights", "emulator on x86 cannot load", "compile for the emulator"}));
}

TEST_F(QnnGraph, DamagedBinariesAreRefused) {
  const OwnedBinary binary = small_binary();
  const auto load = [](const ContextBinary& view) { return Context::load(test::qnn_device().value(), view); };
  std::vector<uint8_t> bytes = binary.bytes;
  ContextBinary view = binary.view();
  view.bytes = bytes;
  ASSERT_TRUE(load(view).ok());

  bytes[bytes.size() / 2] ^= 1;
  auto loaded = load(view);
  ASSERT_FALSE(loaded.ok());
  EXPECT_EQ(loaded.error().code, ErrorCode::kCorrupt);
  EXPECT_TRUE(says(loaded.error(), {"damaged", "checksum"}));
  bytes[bytes.size() / 2] ^= 1;

  view.bytes = {};
  EXPECT_TRUE(says(load(view).error(), {"empty"}));
  EXPECT_TRUE(says(read_binary_info(*test::qnn_library().value(), {}).error(), {"empty"}));

  // With a matching checksum, so that the library sees them.
  for (const size_t length : {size_t{1}, size_t{100}, bytes.size() / 2, bytes.size() - 1}) {
    view.bytes = std::span(bytes).first(length);
    view.checksum = binary_checksum(view.bytes);
    loaded = load(view);
    ASSERT_FALSE(loaded.ok()) << length;
    EXPECT_EQ(loaded.error().code, ErrorCode::kCorrupt) << loaded.error().message;
    const auto info = read_binary_info(*test::qnn_library().value(), view.bytes);
    ASSERT_FALSE(info.ok()) << length;
    EXPECT_EQ(info.error().code, ErrorCode::kCorrupt) << info.error().message;
  }
  const std::vector<uint8_t> zeros(4096);
  EXPECT_TRUE(says(read_binary_info(*test::qnn_library().value(), zeros).error(), {"compile the model again"}));
}

TEST_F(QnnGraph, ABinaryForAnotherArchitectureIsRefused) {
  const OwnedBinary binary = small_binary();
  ContextBinary view = binary.view();
  view.arch = binary.arch == 73 ? 75 : 73;
  const auto loaded = Context::load(test::qnn_device().value(), view);
  ASSERT_FALSE(loaded.ok());
  EXPECT_TRUE(says(loaded.error(), {"was compiled for V", "compile the model for this target"}));
}

TEST_F(QnnGraph, AContextGroupThatThePlatformRefusesIsDoneWithout) {
  const OwnedBinary binary = small_binary();
  Context::LoadOptions options;
  options.use_group = true;
  options.group.spill_fill_bytes = 1 << 20;
  const auto first = Context::load(test::qnn_device().value(), binary.view(), options);
  ASSERT_TRUE(first.ok()) << first.error().message;
  options.group.first = *first;
  const auto second = Context::load(test::qnn_device().value(), binary.view(), options);
  ASSERT_TRUE(second.ok()) << second.error().message;
  EXPECT_EQ((*second)->in_group(), (*first)->in_group());
  EXPECT_EQ((*first)->in_group(), !is_emulator());
}

TEST_F(QnnGraph, BuffersOfTheWrongSizeAreRefused) {
  SmallGraph graph;
  add_linear(graph, 1, 64, 64);
  ASSERT_TRUE(graph.finalize().ok()) << graph.status().error().message;
  auto execution = Execution::create(graph.graph());
  ASSERT_TRUE(execution.ok());
  std::vector<uint8_t> buffer(512);
  const std::span<uint8_t> bytes(buffer);
  EXPECT_TRUE(says(execution->set_input(0, bytes.first(127)).error(), {"tensor x", "takes 128 bytes", "has 127"}));
  EXPECT_TRUE(says(execution->set_input(0, bytes.first(129)).error(), {"has 129"}));
  EXPECT_TRUE(says(execution->set_input(0, {}).error(), {"has 0"}));
  EXPECT_TRUE(says(execution->set_output(0, bytes.first(64)).error(), {"tensor y", "takes 128 bytes"}));
  EXPECT_TRUE(says(execution->set_input(1, bytes.first(128)).error(), {"number 1"}));
  EXPECT_TRUE(says(execution->run().error(), {"tensor x", "no buffer"}));
  ASSERT_TRUE(execution->set_input(0, bytes.first(128)).ok());
  EXPECT_TRUE(says(execution->run().error(), {"tensor y", "no buffer"}));
  ASSERT_TRUE(execution->set_output(0, bytes.subspan(127, 128)).ok());
  EXPECT_TRUE(says(execution->run().error(), {"share memory"}));
  ASSERT_TRUE(execution->set_output(0, bytes.subspan(128, 128)).ok());
  EXPECT_TRUE(execution->run().ok());
  EXPECT_EQ(execution->find_input("x"), 0u);
  EXPECT_EQ(execution->find_output("x"), std::nullopt);
}

TEST_F(QnnGraph, WhatTheLibraryWouldTakeAndComputeWronglyIsRefused) {
  // Mismatched shapes: only validation notices.
  {
    SmallGraph graph;
    const auto a = graph.add(make_input("a", kU16, {1, 32, 64}, kUnit));
    const auto b = graph.add(make_input("b", kU16, {1, 31, 64}, kUnit));
    const auto y = graph.output("y", kU16, {1, 32, 64}, kUnit);
    graph.node("ElementWiseAdd", {a, b}, {y});
    ASSERT_FALSE(graph.status().ok());
    EXPECT_TRUE(says(graph.status().error(), {"node0", "ElementWiseAdd", "3110", "The library says"}));
  }
  {
    SmallGraph graph;
    const auto a = graph.add(make_input("a", kU16, {1, 32, 64}, kUnit));
    const auto y = graph.output("y", kU16, {1, 32, 64}, kUnit);
    graph.node("NoSuchOp", {a}, {y});
    ASSERT_FALSE(graph.status().ok());
    EXPECT_EQ(graph.status().error().code, ErrorCode::kUnsupported) << graph.status().error().message;
    EXPECT_TRUE(says(graph.status().error(), {"NoSuchOp"}));
  }
  SmallGraph level(nullptr, "graph", {.optimization_level = 1});
  ASSERT_FALSE(level.status().ok());
  EXPECT_TRUE(says(level.status().error(), {"level 1", "use 2 or 3"}));
}

TEST_F(QnnGraph, KnownTrapsAreRefused) {
  struct Trap {
    const char* type;
    TensorSpec a, b, y;
    std::vector<NodeParam> params;
    const char* says;
  };
  const auto in = [](const char* name, DataType dtype, Shape shape, std::optional<ScaleOffset> encoding) {
    return make_input(name, dtype, std::move(shape), encoding);
  };
  const ScaleOffset other = {1.0f / 16384, -32768};
  const ScaleOffset u8 = {1.0f / 128, -128}, u8_shifted = {1.0f / 128, -100}, s8 = {1.0f / 128, 0};
  const DataType f16 = DataType::kFloat16, fixed_s8 = DataType::kFixedS8;
  const TensorSpec none;
  const std::vector<Trap> traps = {
      {"Transpose",
       in("a", kU16, {8, 4}, kUnit),
       none,
       make_output("y", kU16, {4, 8}, other),
       {{"perm", U32Values{{2}, {1, 0}}}},
       "copies codes unscaled"},
      {"Reshape", in("a", kU16, {8, 4}, kUnit), none, make_output("y", kU8, {4, 8}, u8), {}, "copies codes unscaled"},
      {"MatMul",
       in("a", kU16, {8, 4}, kUnit),
       in("b", fixed_s8, {4, 8}, s8),
       make_output("y", kU16, {8, 8}, kUnit),
       {},
       "no MatMul of u16 and signed"},
      {"MatMul",
       in("a", kU16, {8, 4}, kUnit),
       in("b", kU8, {4, 8}, u8_shifted),
       make_output("y", kU16, {8, 8}, kUnit),
       {},
       "around code 128 only"},
  };
  for (const Trap& trap : traps) {
    SmallGraph graph;
    std::vector<TensorRef> inputs = {graph.add(trap.a)};
    if (!trap.b.name.empty()) inputs.push_back(graph.add(trap.b));
    const auto y = graph.add(trap.y);
    ASSERT_TRUE(graph.status().ok()) << graph.status().error().message;
    graph.node(trap.type, inputs, {y}, trap.params);
    ASSERT_FALSE(graph.status().ok()) << trap.type;
    EXPECT_TRUE(says(graph.status().error(), {trap.says}));
  }
  SmallGraph graph(nullptr, "graph", {.float16 = true});
  const auto x = graph.add(in("x", f16, {8, 4}, {}));
  const auto gamma = graph.add(make_static_f16("gamma", {4}, std::vector<float>(4, 1.0f)));
  const auto beta = graph.add(make_static_f16("beta", {4}, std::vector<float>(4, 1.0f)));
  const auto y = graph.output("y", f16, {8, 4});
  graph.node("RmsNorm", {x, gamma, beta}, {y}, {{"epsilon", 1e-6f}, {"axes", U32Values{{1}, {1}}}});
  if (rms_norm_needs_beta(test::qnn_library().value()->htp_version())) return;
  ASSERT_FALSE(graph.status().ok());
  EXPECT_TRUE(says(graph.status().error(), {"ignores its beta"}));
}

TEST_F(QnnGraph, MistakesInBuildingAreSentences) {
  const auto context = make_context();
  SmallGraph graph(context, "graph");
  EXPECT_TRUE(says(graph.finalize().error(), {"no ops"}));
  EXPECT_TRUE(says(Graph::create(context, "").error(), {"needs a name"}));
  EXPECT_TRUE(says(Graph::create(context, "graph").error(), {"6003"}));

  const auto built = Graph::create(context, "built");
  ASSERT_TRUE(built.ok());
  Graph& g = **built;
  const auto x = g.add_tensor(make_input("x", kU16, {1, 8}, kUnit));
  const auto h = g.add_tensor(make_native("h", kU16, {1, 8}, kUnit));
  const auto y = g.add_tensor(make_output("y", kU16, {1, 8}, kUnit));
  ASSERT_TRUE(x.ok() && h.ok() && y.ok());
  EXPECT_TRUE(says(g.add_tensor(make_native("h", kU16, {1, 8}, kUnit)).error(), {"already has a tensor h"}));
  EXPECT_TRUE(says(g.add_node({"a", "Relu", {*h}, {*y}}).error(), {"reads tensor h before"}));
  EXPECT_TRUE(says(g.add_node({"a", "Relu", {*x}, {*x}}).error(), {"writes tensor x"}));
  EXPECT_TRUE(says(g.add_node({"a", "Relu", {TensorRef{99}}, {*y}}).error(), {"another graph"}));
  ASSERT_TRUE(g.add_node({"a", "Relu", {*x}, {*h}}).ok());
  EXPECT_TRUE(says(g.add_node({"a", "Relu", {*h}, {*y}}).error(), {"already has an op a"}));
  EXPECT_TRUE(says(g.add_node({"b", "Relu", {*x}, {*h}}).error(), {"writes tensor h"}));
  EXPECT_TRUE(says(g.finalize().error(), {"output y", "written by no op"}));
  EXPECT_TRUE(says(Execution::create(*built).error(), {"only a finalized graph"}));
  ASSERT_TRUE(g.add_node({"b", "Relu", {*h}, {*y}}).ok());
  ASSERT_TRUE(g.finalize().ok());
  EXPECT_TRUE(says(g.finalize().error(), {"already finalized"}));
  EXPECT_TRUE(says(g.add_tensor(make_native("z", kU16, {8}, kUnit)).error(), {"takes no more tensors"}));
}

}  // namespace graph_test
}  // namespace tandem::qnn

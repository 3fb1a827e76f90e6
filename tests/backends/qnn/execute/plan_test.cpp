// Plans from descriptions that do not match the methods: each must be an error. No library is needed.
#include "backends/qnn/execute/plan.h"

#include <gtest/gtest.h>

#include <random>

#include "backends/qnn/execute/tiny_model.h"

namespace tandem::qnn {
namespace plan_test {

TensorInfo info(const char* name, DataType dtype, std::vector<uint32_t> shape, const ir::Encoding& encoding = {}) {
  TensorInfo tensor;
  tensor.name = name;
  tensor.dtype = dtype;
  tensor.bytes = tensor_bytes(dtype, shape).value_or(0);
  tensor.shape = std::move(shape);
  if (encoding.kind == ir::EncodingKind::kPerTensor) tensor.encoding = test::offset_of(encoding);
  return tensor;
}

// The library's description of the binaries of tiny_model.h.
struct Description {
  ArtifactHeader header = test::tiny_header();
  std::vector<BinaryInfo> binaries = std::vector<BinaryInfo>(3);

  Description() {
    constexpr DataType u16 = DataType::kFixedU16;
    const auto w = static_cast<uint32_t>(test::kWidth), c = static_cast<uint32_t>(test::kContext);
    for (const uint32_t n : {1u, static_cast<uint32_t>(test::kPrefill)}) {
      const std::string method = n == 1 ? "decode" : "prefill_4";
      GraphInfo first;
      first.name = method + ".first";
      first.inputs = {info("embedding.out", u16, {n, w}, test::kUnit), info("positions", DataType::kInt32, {n})};
      first.outputs = {info("shifted", u16, {n, w}, test::kShifted)};
      binaries[0].graphs.push_back(first);
      GraphInfo second;
      second.name = method + ".second";
      second.inputs = {info("embedding.out", u16, {1, n, w}, test::kUnit),
                       info("shifted", u16, {1, n, w}, test::kShifted), info("mask", u16, {1, n, c + n}, test::kMask),
                       info("k_cache.0", DataType::kFixedU8, {1, c, w}, test::kKeys)};
      second.outputs = {info("hidden", u16, {1, n, w}, test::kHidden),
                        info("k_new.0", DataType::kFixedU8, {1, n, w}, test::kKeys)};
      binaries[1].graphs.push_back(second);
    }
    GraphInfo head_graph;
    head_graph.name = "head";
    head_graph.inputs = {info("hidden", u16, {1, 1, 1, w}, test::kHidden)};
    head_graph.outputs = {info("logits", u16, {1, 1, 1, static_cast<uint32_t>(test::kVocab)}, test::kLogits)};
    binaries[2].graphs = {head_graph};
  }

  Result<MethodPlan> plan(size_t method) const {
    std::vector<ShardDescription> shards;
    for (size_t i = 0; i < binaries.size(); ++i) shards.push_back({&header.shards[i], &binaries[i]});
    return plan_method(header.methods[method], shards);
  }
  GraphInfo& first(size_t method) { return binaries[0].graphs[method]; }
  GraphInfo& second(size_t method) { return binaries[1].graphs[method]; }
  GraphInfo& head_graph() { return binaries[2].graphs[0]; }
};

TEST(Plan, OfPrefillHasThreeStepsAndTheHeadByRow) {
  const Description d;
  const auto plan = d.plan(1);
  ASSERT_TRUE(plan.ok()) << plan.error().message;
  ASSERT_EQ(plan->steps.size(), 3u);
  EXPECT_FALSE(plan->steps[0].by_row);
  EXPECT_FALSE(plan->steps[1].by_row) << "it gives k_new, which is always wanted";
  EXPECT_TRUE(plan->steps[2].by_row);
  EXPECT_TRUE(plan->steps[2].staged);
  EXPECT_EQ(plan->steps[2].inputs[0].bytes, 2u * test::kWidth);
  ASSERT_EQ(plan->lookups.size(), 1u);
  ASSERT_EQ(plan->positions.size(), 1u);
  ASSERT_EQ(plan->token_limits.size(), 1u);
  EXPECT_EQ(plan->token_limits[0].rows, test::kVocab);
  // Nothing overlaps: embedding.out, positions, shifted, hidden and two rows.
  std::vector<std::pair<uint64_t, uint64_t>> ranges;
  const auto add = [&](uint64_t offset, uint64_t bytes) {
    EXPECT_EQ(offset % 64, 0u);
    EXPECT_LE(offset + bytes, plan->arena_bytes);
    ranges.emplace_back(offset, offset + bytes);
  };
  add(plan->lookups[0].output.offset, plan->lookups[0].output.bytes);
  add(plan->positions[0].port.offset, plan->positions[0].port.bytes);
  add(plan->steps[0].outputs[0].offset, plan->steps[0].outputs[0].bytes);
  add(plan->steps[1].outputs[0].offset, plan->steps[1].outputs[0].bytes);
  add(plan->steps[2].inputs[0].stage, plan->steps[2].inputs[0].bytes);
  add(plan->steps[2].outputs[0].stage, plan->steps[2].outputs[0].bytes);
  std::ranges::sort(ranges);
  for (size_t i = 1; i < ranges.size(); ++i) EXPECT_LE(ranges[i - 1].second, ranges[i].first);
  EXPECT_TRUE(plan->steps[1].inputs[0].in_arena);
  EXPECT_FALSE(plan->steps[1].inputs[3].in_arena) << "the cache is the caller's";
  EXPECT_FALSE(plan->steps[1].outputs[1].in_arena) << "k_new is the caller's";
}

TEST(Plan, OfDecodeLeavesTheHeadOutWhenNoRowIsWanted) {
  const Description d;
  const auto plan = d.plan(0);
  ASSERT_TRUE(plan.ok()) << plan.error().message;
  EXPECT_FALSE(plan->steps[1].by_row);
  EXPECT_TRUE(plan->steps[2].by_row);
  EXPECT_FALSE(plan->steps[2].staged);
}

// The LM head outputs coarse logits, and the CPU rescores them with the LM head's input.
void rescore(Description& d) {
  for (ir::Graph& graph : d.header.methods) {
    const ir::TensorId logits = graph.find("logits").value();
    ir::Tensor coarse = graph.at(logits);
    coarse.name = "coarse";
    coarse.role = ir::TensorRole::kActivation;
    coarse.purpose = {.kind = ir::PurposeKind::kLmHead};
    const ir::TensorId id = graph.add(coarse);
    for (ir::Op& op : graph.ops) std::ranges::replace(op.outputs, logits, id);
    graph.ops.push_back({ir::OpKind::kRescore,
                         {id, graph.find("hidden").value(), graph.find("embedding").value()},
                         {logits},
                         {.on_host = true, .candidates = 8}});
  }
  d.head_graph().outputs[0].name = "coarse";
}

TEST(Plan, LogitsAreRescoredWhereTheCallerWantsThem) {
  Description d;
  rescore(d);
  for (const size_t method : {0u, 1u}) {
    const auto plan = d.plan(method);
    ASSERT_TRUE(plan.ok()) << plan.error().message;
    ASSERT_EQ(plan->rescores.size(), 1u);
    const ir::TensorId logits = plan->graph->find("logits").value();
    EXPECT_EQ(plan->rescores[0].logits.tensor, logits);
    EXPECT_FALSE(plan->rescores[0].logits.in_arena);
    EXPECT_EQ(plan->rescores[0].attributes.candidates, 8);
    EXPECT_EQ(plan->rescores[0].x.offset, plan->steps[1].outputs[0].offset)
        << "the output of the shard before the LM head";
    const Step& head = plan->steps[2];
    EXPECT_TRUE(head.by_row);
    EXPECT_EQ(head.outputs[0].tensor, logits);
    EXPECT_EQ(plan->arena_bytes, Description().plan(method)->arena_bytes) << "no second copy of the logits";
  }
}

TEST(Plan, RescoringThatTheCpuDoesNotDoIsRefused) {
  const std::vector<std::function<void(Description&)>> changes = {
      // Another op reads the coarse logits too.
      [](Description& d) { d.header.methods[1].ops.push_back(d.header.methods[1].ops.back()); },
      [](Description& d) { d.header.methods[1].at(*d.header.methods[1].find("logits")).dtype = DType::kF32; },
      [](Description& d) { d.header.methods[1].at(*d.header.methods[1].find("coarse")).role = ir::TensorRole::kInput; },
  };
  for (const auto& change : changes) {
    Description d;
    rescore(d);
    change(d);
    const auto plan = d.plan(1);
    ASSERT_FALSE(plan.ok());
    EXPECT_EQ(plan.error().code, ErrorCode::kCorrupt);
    EXPECT_TRUE(test::says(plan.error(), {"rescores"}));
  }
  // Coarse logits that no shard writes.
  Description d;
  rescore(d);
  d.header.shards[2].graphs.clear();
  const auto plan = d.plan(1);
  ASSERT_FALSE(plan.ok());
  EXPECT_TRUE(test::says(plan.error(), {"no shard", "logits"}));
}

struct Hostile {
  const char* name;
  std::function<void(Description&)> change;
  const char* says;
};

class HostilePlan : public ::testing::TestWithParam<Hostile> {};

TEST_P(HostilePlan, IsRefused) {
  Description d;
  GetParam().change(d);
  bool refused = false;
  for (const size_t method : {0u, 1u}) {
    const auto plan = d.plan(method);
    if (plan.ok()) continue;
    refused = true;
    EXPECT_EQ(plan.error().code, ErrorCode::kCorrupt);
    EXPECT_TRUE(test::says(plan.error(), {GetParam().says}));
  }
  EXPECT_TRUE(refused);
}

INSTANTIATE_TEST_SUITE_P(
    Changes, HostilePlan,
    ::testing::Values(
        Hostile{"absent_tensor", [](Description& d) { d.first(0).inputs[0].name = "nobody"; }, "none of that name"},
        Hostile{"absent_graph", [](Description& d) { d.first(0).name = "other"; }, "has no graph \"decode.first\""},
        Hostile{"wrong_tokens", [](Description& d) { d.header.shards[0].graphs[1].tokens = 3; }, "takes 3 rows"},
        Hostile{"one_row_of_whole", [](Description& d) { d.header.shards[1].graphs[1].tokens = 1; }, ""},
        Hostile{"two_for_a_method",
                [](Description& d) {
                  d.header.shards[2].graphs.push_back({"head", "decode", 1});
                },
                "which is given or computed already"},
        Hostile{"two_by_no_name",
                [](Description& d) {
                  d.header.shards[2].graphs.push_back({"head", "", 1});
                },
                "which is given or computed already"},
        Hostile{"missing_shard", [](Description& d) { d.header.shards[2].graphs.clear(); },
                "no shard of the file computes"},
        Hostile{"missing_method", [](Description& d) { d.header.shards[1].graphs[0].method = "nobody"; },
                "which nothing has computed before"},
        Hostile{"wrong_order",
                [](Description& d) {
                  std::swap(d.header.shards[0], d.header.shards[1]);
                  std::swap(d.binaries[0], d.binaries[1]);
                },
                "which nothing has computed before"},
        Hostile{"written_twice", [](Description& d) { d.second(0).outputs.push_back(d.first(0).outputs[0]); },
                "which is given or computed already"},
        Hostile{"writes_the_embedding", [](Description& d) { d.first(0).outputs.push_back(d.first(0).inputs[0]); },
                "which is given or computed already"},
        Hostile{"writes_an_input", [](Description& d) { d.second(1).outputs.push_back(d.second(1).inputs[2]); },
                "which is given or computed already"},
        Hostile{"writes_a_state", [](Description& d) { d.second(1).outputs.push_back(d.second(1).inputs[3]); },
                "which is given or computed already"},
        Hostile{"reads_twice", [](Description& d) { d.first(1).inputs.push_back(d.first(1).inputs[0]); }, "twice"},
        Hostile{"reads_its_own_output", [](Description& d) { d.first(1).inputs.push_back(d.first(1).outputs[0]); },
                "which nothing has computed before"},
        Hostile{"reads_a_weight", [](Description& d) { d.first(1).inputs[0].name = "lm_head"; }, "takes the weight"},
        Hostile{"reads_a_vector", [](Description& d) { d.first(1).inputs[0].name = "inverse_frequency"; }, "weight"},
        Hostile{"rows_of_a_state", [](Description& d) { d.head_graph().inputs.push_back(d.second(0).inputs[3]); }, ""},
        Hostile{"no_outputs", [](Description& d) { d.head_graph().outputs.clear(); }, "has no outputs"},
        Hostile{"no_encoding", [](Description& d) { d.first(0).outputs[0].encoding.reset(); }, "no encoding"},
        Hostile{"nan_scale", [](Description& d) { d.first(0).outputs[0].encoding->scale = NAN; }, "scale nan"},
        Hostile{"lowest_offset", [](Description& d) { d.first(0).outputs[0].encoding->offset = INT32_MIN; },
                "zero point 2147483648"},
        Hostile{"encoded_positions",
                [](Description& d) {
                  d.first(0).inputs[1].encoding = abi::ScaleOffset{1, 0};
                },
                "\"positions\" has no encoding"},
        Hostile{"more_bytes", [](Description& d) { d.second(1).inputs[3].bytes += 2; }, "bytes in method"},
        Hostile{"no_bytes", [](Description& d) { d.second(1).inputs[3].bytes = 0; }, "bytes in method"},
        Hostile{"other_type", [](Description& d) { d.second(1).inputs[3].dtype = DataType::kFixedS8; }, "is u8 in"},
        Hostile{"unknown_type", [](Description& d) { d.second(1).inputs[3].dtype = static_cast<DataType>(0x777); },
                "unknown"}),
    [](const auto& param) { return std::string(param.param.name); });

TEST(Plan, AValueOfWantedRowsIsNotReadWhole) {
  // A shard after the LM head that reads all rows of the logits, of which only the wanted ones exist.
  Description d;
  d.header.shards.push_back({"tail", {}, 0, {{"tail", "prefill_4", test::kPrefill}}});
  GraphInfo tail;
  tail.name = "tail";
  tail.inputs = {info("logits", DataType::kFixedU16, {4, static_cast<uint32_t>(test::kVocab)}, test::kLogits)};
  tail.outputs = {info("cos", DataType::kFixedU16, {4, static_cast<uint32_t>(test::kWidth)}, test::kUnit)};
  d.binaries.push_back({});
  d.binaries.back().graphs = {tail};
  const auto plan = d.plan(1);
  ASSERT_FALSE(plan.ok());
  EXPECT_TRUE(test::says(plan.error(), {"reads \"logits\", which nothing has computed"}));
}

TEST(Plan, AShardMayHaveSeveralGraphsOfAMethodInOrder) {
  Description d;
  for (const ShardGraph& graph : d.header.shards[2].graphs) d.header.shards[1].graphs.push_back(graph);
  d.binaries[1].graphs.push_back(d.head_graph());
  d.header.shards.pop_back();
  d.binaries.pop_back();
  for (const size_t method : {0u, 1u}) {
    const auto plan = d.plan(method);
    ASSERT_TRUE(plan.ok()) << plan.error().message;
    ASSERT_EQ(plan->steps.size(), 3u);
    EXPECT_EQ(plan->steps[2].shard, 1u);
    EXPECT_EQ(plan->steps[2].graph, 2u);
    EXPECT_TRUE(plan->steps[2].by_row);
  }
}

TEST(Plan, AnEmbeddingInTheGraphIsCheckedAndNotLookedUp) {
  Description d;
  for (const size_t method : {0u, 1u}) {
    d.header.methods[method].ops[0].attributes.on_host = false;
    const auto n = static_cast<uint32_t>(d.header.methods[method].tokens);
    d.first(method).inputs[0] = info("tokens", DataType::kUint32, {n});
    d.first(method).outputs.push_back(
        info("embedding.out", DataType::kFixedU16, {n, static_cast<uint32_t>(test::kWidth)}, test::kUnit));
    const auto plan = d.plan(method);
    ASSERT_TRUE(plan.ok()) << plan.error().message;
    EXPECT_TRUE(plan->lookups.empty());
    EXPECT_EQ(plan->token_limits.size(), 1u);
    EXPECT_TRUE(plan->steps[0].outputs[1].in_arena);
  }
}

// Any mixture of descriptions gives a plan whose parts are inside the arena, or an error.
TEST(Plan, SurvivesShuffledDescriptions) {
  std::mt19937 random(7);
  const auto pick = [&](size_t count) { return std::uniform_int_distribution<size_t>(0, count - 1)(random); };
  int good = 0;
  for (int round = 0; round < 3000; ++round) {
    Description d;
    for (int change = 0; change < 3; ++change) {
      BinaryInfo& binary = d.binaries[pick(3)];
      BinaryInfo& other = d.binaries[pick(3)];
      if (binary.graphs.empty() || other.graphs.empty()) continue;
      GraphInfo& graph = binary.graphs[pick(binary.graphs.size())];
      GraphInfo& from = other.graphs[pick(other.graphs.size())];
      switch (pick(7)) {
        case 0: std::swap(graph.inputs, from.outputs); break;
        case 1: graph.inputs.insert(graph.inputs.end(), from.inputs.begin(), from.inputs.end()); break;
        case 2: graph.outputs.insert(graph.outputs.end(), from.outputs.begin(), from.outputs.end()); break;
        case 3: graph.name = from.name; break;
        case 4: d.header.shards[pick(3)].graphs = d.header.shards[pick(3)].graphs; break;
        case 5: std::swap(binary, other); break;
        default: {
          auto& graphs = d.header.shards[pick(3)].graphs;
          if (!graphs.empty()) graphs[pick(graphs.size())].tokens = static_cast<int64_t>(pick(6));
        }
      }
    }
    for (const size_t method : {0u, 1u}) {
      const auto plan = d.plan(method);
      if (!plan.ok()) continue;
      ++good;
      for (const Step& step : plan->steps) {
        ASSERT_LT(step.graph, d.binaries[step.shard].graphs.size());
        for (const std::vector<Port>* const ports : {&step.inputs, &step.outputs}) {
          for (const Port& port : *ports) {
            if (step.staged) {
              ASSERT_LE(port.stage + port.bytes, plan->arena_bytes);
            }
            if (port.in_arena) {
              ASSERT_LE(port.offset + port.bytes * static_cast<uint64_t>(step.staged ? plan->graph->tokens : 1),
                        plan->arena_bytes);
            }
          }
        }
      }
    }
  }
  EXPECT_GT(good, 100);
}

}  // namespace plan_test
}  // namespace tandem::qnn

// Each pass on the demo's graph, and the text that --dump-ir prints.
#include "compiler/passes/passes.h"

#include <gtest/gtest.h>

#include "ir/printer.h"
#include "ir/verifier.h"
#include "models/builder.h"
#include "support/compiled_model.h"

namespace tandem {
namespace passes_test {

using ir::OpKind;

class Passes : public testing::Test {
 protected:
  void SetUp() override {
    auto checkpoint = Checkpoint::open(test::demo_dir());
    ASSERT_TRUE(checkpoint.ok()) << checkpoint.error().message;
    auto plan = plan_model(*checkpoint);
    ASSERT_TRUE(plan.ok()) << plan.error().message;
    plan_.emplace(*std::move(plan));
    graph_ = build_graph(*plan_, {"prefill_8", 8, 64});
  }

  int64_t count(OpKind kind) const {
    return std::ranges::count_if(graph_.ops, [&](const ir::Op& op) { return op.kind == kind; });
  }
  const ir::Tensor& tensor(std::string_view name) const { return graph_.at(*graph_.find(name)); }
  void expect_verified() const {
    const Status status = ir::verify(graph_);
    EXPECT_TRUE(status.ok()) << status.error().message;
  }

  std::optional<ModelPlan> plan_;
  ir::Graph graph_;
};

TEST_F(Passes, GatedActivationsAreFused) {
  const Recipe recipe;
  const int64_t muls = count(OpKind::kMul);
  const size_t ops = graph_.ops.size();
  EXPECT_EQ(count(OpKind::kSilu), 6);
  ASSERT_TRUE(fuse_gated_activation(graph_, {*plan_, recipe}).ok());
  EXPECT_EQ(count(OpKind::kSilu), 0);
  EXPECT_EQ(count(OpKind::kSiluMul), 6);
  EXPECT_EQ(count(OpKind::kMul), muls - 6);
  EXPECT_EQ(graph_.ops.size(), ops - 6);
  expect_verified();
  // A second run changes nothing.
  ASSERT_TRUE(fuse_gated_activation(graph_, {*plan_, recipe}).ok());
  EXPECT_EQ(graph_.ops.size(), ops - 6);
}

// silu(x) that something else reads too must stay.
TEST_F(Passes, AnActivationWithTwoReadersIsNotFused) {
  const Recipe recipe;
  const auto silu = std::ranges::find(graph_.ops, OpKind::kSilu, &ir::Op::kind);
  const ir::TensorId acted = silu->outputs[0];
  ir::Tensor extra{.name = "extra", .shape = graph_.at(acted).shape};
  const ir::TensorId id = graph_.add(std::move(extra));
  const auto at = std::ranges::find(graph_.ops, OpKind::kSilu, &ir::Op::kind) + 1;
  graph_.ops.insert(at, {OpKind::kAdd, {acted, acted}, {id}, {}});
  ASSERT_TRUE(fuse_gated_activation(graph_, {*plan_, recipe}).ok());
  EXPECT_EQ(count(OpKind::kSilu), 1);
  EXPECT_EQ(count(OpKind::kSiluMul), 5);
  expect_verified();
}

TEST_F(Passes, ATiedHeadLeavesTheGraph) {
  const size_t tensors = graph_.tensors.size();
  ASSERT_TRUE(plan_->tied);
  const Recipe recipe;
  ASSERT_TRUE(share_tied_lm_head(graph_, {*plan_, recipe}).ok());
  EXPECT_EQ(graph_.tensors.size(), tensors - 1);
  EXPECT_FALSE(graph_.find("head").has_value());
  const auto embedding = graph_.find("embedding");
  ASSERT_TRUE(embedding.has_value());
  const auto reads = [&](const ir::Op& op) { return std::ranges::count(op.inputs, *embedding) > 0; };
  EXPECT_EQ(std::ranges::count_if(graph_.ops, reads), 2) << "the look-up and the last linear layer";
  expect_verified();
}

TEST_F(Passes, ATiedHeadWithAFormatOfItsOwnStays) {
  Recipe recipe;
  recipe.head = {WeightFormat::kF16, 0};
  ASSERT_TRUE(share_tied_lm_head(graph_, {*plan_, recipe}).ok());
  EXPECT_TRUE(graph_.find("head").has_value());
  Recipe by_rule;
  by_rule.rules.push_back({*Glob::compile("head"), WeightSpec{WeightFormat::kF32, 0}});
  ASSERT_TRUE(share_tied_lm_head(graph_, {*plan_, by_rule}).ok());
  EXPECT_TRUE(graph_.find("head").has_value());
}

TEST_F(Passes, ATiedHeadOfARotatedModelStays) {
  Recipe recipe;
  recipe.transforms.rotate_residual = true;
  ASSERT_TRUE(share_tied_lm_head(graph_, {*plan_, recipe}).ok());
  EXPECT_TRUE(graph_.find("head").has_value()) << "its rows have the final norm's weights in them";
}

TEST_F(Passes, WeightsGetTheirFormatsAndLinearLayersTheirRounding) {
  Recipe recipe;  // w4
  recipe.rules.push_back({*Glob::compile("layers.2.mlp.*"), WeightSpec{WeightFormat::kF16, 0}});
  ASSERT_TRUE(assign_weight_formats(graph_, {*plan_, recipe}).ok());
  EXPECT_EQ(tensor("layers.0.attention.q").format, WeightFormat::kLpbq4);
  EXPECT_EQ(tensor("layers.0.attention.q").block, 32);
  EXPECT_EQ(tensor("embedding").format, WeightFormat::kI8);
  EXPECT_EQ(tensor("embedding").block, 0);
  EXPECT_EQ(tensor("layers.2.mlp.up").format, WeightFormat::kF16);
  for (const ir::Op& op : graph_.ops) {
    if (op.kind != OpKind::kLinear) continue;
    const ir::Tensor& weight = graph_.at(op.inputs[1]);
    EXPECT_EQ(op.attributes.quantize_input, weight.format != WeightFormat::kF16) << weight.name;
  }
  expect_verified();
}

TEST_F(Passes, LinearLayersRoundTheirInputAsTheRecipeSays) {
  Recipe recipe;
  recipe.activations = ActivationFormat::kInt16;
  recipe.rules = {{*Glob::compile("layers.1.*"), {}, ActivationFormat::kInt8},
                  {*Glob::compile("layers.2.mlp.*"), WeightSpec{WeightFormat::kF16, 0}}};
  ASSERT_TRUE(share_tied_lm_head(graph_, {*plan_, recipe}).ok());
  ASSERT_TRUE(assign_weight_formats(graph_, {*plan_, recipe}).ok());
  for (const ir::Op& op : graph_.ops) {
    if (op.kind != OpKind::kLinear) continue;
    const ir::Tensor& weight = graph_.at(op.inputs[1]);
    const bool is_int16 = !weight.name.starts_with("layers.1.") && weight.format != WeightFormat::kF16;
    EXPECT_EQ(op.attributes.int16_input, is_int16) << weight.name;
  }
  expect_verified();
  // The LM head is named "head", whichever tensor holds its weights.
  recipe.rules = {{*Glob::compile("head"), {}, ActivationFormat::kInt8}};
  ASSERT_TRUE(assign_weight_formats(graph_, {*plan_, recipe}).ok());
  EXPECT_FALSE(graph_.ops.back().attributes.int16_input || graph_.ops[graph_.ops.size() - 2].attributes.int16_input);
  // Passes do not choose.
  recipe.rules = {{*Glob::compile("head"), {}, ActivationFormat::kAuto}};
  const Status open = assign_weight_formats(graph_, {*plan_, recipe});
  ASSERT_FALSE(open.ok());
  EXPECT_EQ(open.error().code, ErrorCode::kInvalidArgument);
}

TEST_F(Passes, U8CachesGetScalesBesideThem) {
  Recipe recipe;
  recipe.kv = KvFormat::kU8;
  ASSERT_TRUE(set_cache_format(graph_, {*plan_, recipe}).ok());
  for (int layer = 0; layer < 6; ++layer) {
    for (const char* which : {"k", "v"}) {
      const std::string name = std::string(which) + "_cache." + std::to_string(layer);
      EXPECT_EQ(tensor(name).dtype, DType::kU8);
      EXPECT_EQ(tensor(name).encoding.kind, ir::EncodingKind::kDynamicPerRow);
      EXPECT_EQ(tensor(name + ".scales").shape, (std::vector<int64_t>{2, 64, 2}));
      EXPECT_EQ(tensor(name + ".scales").role, ir::TensorRole::kState);
    }
  }
  for (const ir::Op& op : graph_.ops) {
    if (op.kind == OpKind::kStoreKv) {
      EXPECT_EQ(graph_.at(op.inputs[3]).name, graph_.at(op.inputs[2]).name + ".scales");
    }
    EXPECT_NE(op.kind, OpKind::kAttention);
    if (op.kind == OpKind::kQuantizedAttention) {
      EXPECT_EQ(graph_.at(op.inputs[5]).name, graph_.at(op.inputs[1]).name + ".scales");
      EXPECT_EQ(graph_.at(op.inputs[6]).name, graph_.at(op.inputs[2]).name + ".scales");
    }
  }
  expect_verified();
}

TEST_F(Passes, U8CachesHaveHeadsOf256EntriesAtMost) {
  Recipe recipe;
  recipe.kv = KvFormat::kU8;
  for (ir::Tensor& t : graph_.tensors) {
    if (t.role == ir::TensorRole::kState) t.shape[2] = 257;
  }
  const Status status = set_cache_format(graph_, {*plan_, recipe});
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().code, ErrorCode::kUnsupported);
  EXPECT_NE(status.error().message.find("257"), std::string::npos) << status.error().message;
}

TEST_F(Passes, OtherCachesHaveNoScales) {
  Recipe recipe;
  recipe.kv = KvFormat::kFp16;
  ASSERT_TRUE(set_cache_format(graph_, {*plan_, recipe}).ok());
  EXPECT_EQ(tensor("k_cache.3").dtype, DType::kF16);
  EXPECT_FALSE(graph_.find("k_cache.3.scales").has_value());
  expect_verified();
}

TEST_F(Passes, InputsAndOutputsGetTheRecipesDtypes) {
  Recipe recipe;
  recipe.mask = DType::kU8;
  recipe.logits = DType::kU16;
  // Integer logits without a range would be a bug of the compiler.
  EXPECT_FALSE(set_io_dtypes(graph_, {*plan_, recipe}).ok());
  const ir::Encoding range{ir::EncodingKind::kPerTensor, 0.001f, 30000};
  ASSERT_TRUE(set_io_dtypes(graph_, {*plan_, recipe, range}).ok());
  EXPECT_EQ(tensor("mask").dtype, DType::kU8);
  EXPECT_EQ(tensor("mask").encoding.zero_point, 255);
  EXPECT_EQ(tensor("logits").dtype, DType::kU16);
  EXPECT_EQ(tensor("logits").encoding, range);
  expect_verified();
}

TEST_F(Passes, QueriesAndKeysAreRotatedOnlyWhereAsked) {
  Recipe recipe;
  const ir::Graph before = graph_;
  ASSERT_TRUE(rotate_keys(graph_, {*plan_, recipe}).ok());
  EXPECT_EQ(graph_, before);
  recipe.transforms.rotate_keys = true;
  ASSERT_TRUE(rotate_keys(graph_, {*plan_, recipe}).ok());
  expect_verified();
  const auto writer = [&](ir::TensorId id) {
    return std::ranges::find_if(graph_.ops, [&](const ir::Op& op) { return std::ranges::count(op.outputs, id) > 0; });
  };
  size_t rotated = 0;
  for (const ir::Op& op : graph_.ops) {
    const bool keys = op.kind == OpKind::kStoreKv && ir::is_keys(graph_.at(op.inputs[2]).purpose);
    if (op.kind == OpKind::kStoreKv && !keys) {
      EXPECT_NE(writer(op.inputs[0])->kind, OpKind::kHadamard);
    }
    if (!keys && op.kind != OpKind::kAttention) continue;
    const auto rotation = writer(op.inputs[0]);
    EXPECT_EQ(rotation->kind, OpKind::kHadamard);
    EXPECT_EQ(rotation->attributes.head_dim, plan_->head_dim);
    EXPECT_EQ(writer(rotation->inputs[0])->kind, OpKind::kRope) << "behind everything else";
    ++rotated;
  }
  EXPECT_EQ(rotated, 2 * plan_->layers.size());
  EXPECT_EQ(graph_.ops.size(), before.ops.size() + rotated);
}

TEST_F(Passes, AllOfThemInOrderWithADumpAfterEach) {
  const Recipe recipe;
  std::vector<std::string> names;
  std::string last;
  ASSERT_TRUE(run_passes(graph_, {*plan_, recipe}, [&](std::string_view pass, const ir::Graph& graph) {
                names.emplace_back(pass);
                last = ir::to_text(graph);
              }).ok());
  EXPECT_EQ(names, (std::vector<std::string>{"build", "share_tied_lm_head", "rotate_keys", "assign_weight_formats",
                                             "shorten_window_caches", "set_cache_format", "set_io_dtypes",
                                             "fuse_gated_activation"}));
  EXPECT_TRUE(last.starts_with("graph prefill_8 tokens=8 context=64\n")) << last.substr(0, 100);
  for (const char* line : {"  input  %tokens: i32[8]\n", "  weight %embedding: int8[2048, 256]\n",
                           "  weight %layers.0.mlp.up: lpbq4/32[768, 256]\n", "  state  %k_cache.0: f16[2, 64, 64]\n",
                           "  output %logits: f32[8, 2048]\n", " = silu_mul(", " quantize_input\n"}) {
    EXPECT_NE(last.find(line), std::string::npos) << line << "\nis not in\n" << last.substr(0, 3000);
  }
}

TEST(DumpIr, ShowsEveryMethodAfterEveryPass) {
  const test::TempFolder folder;
  CompileOptions options = test::to_options({});
  int dumps = 0;
  options.dump_ir = [&](std::string_view, const ir::Graph& graph) {
    ++dumps;
    EXPECT_FALSE(ir::to_text(graph).empty());
  };
  ASSERT_TRUE(compile(test::golden_dir("qwen3"), folder / "x.tdm", options).ok());
  EXPECT_EQ(dumps, 3 * 8);
}

// Files from before purposes were stored have these names: they must imply the purposes that builder and passes set
// now.
TEST_F(Passes, NamesOfOldFilesStandForThePurposes) {
  for (const KvFormat kv : {KvFormat::kFp32, KvFormat::kU8}) {
    Recipe recipe;
    recipe.kv = kv;
    graph_ = build_graph(*plan_, {"prefill_8", 8, 64});
    const Status status = run_passes(graph_, {*plan_, recipe}, {});
    ASSERT_TRUE(status.ok()) << status.error().message;
    const ir::Graph made = graph_;
    ASSERT_TRUE(ir::set_purposes_from_names(graph_).ok());
    for (size_t i = 0; i < made.tensors.size(); ++i) {
      EXPECT_EQ(graph_.tensors[i].purpose, made.tensors[i].purpose) << made.tensors[i].name;
    }
  }
}

}  // namespace passes_test
}  // namespace tandem

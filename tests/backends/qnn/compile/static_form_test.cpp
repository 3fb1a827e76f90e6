// The passes for fixed graphs: in float they do not change what a model computes, whole or in shards.
#include <gtest/gtest.h>

#include "backends/interface/method_inputs.h"
#include "backends/qnn/compile/chained_program.h"
#include "backends/qnn/compile/npu_support.h"
#include "compiler/passes/passes.h"
#include "ir/verifier.h"
#include "weights/sliced_weights.h"

namespace tandem {
namespace static_form_test {

using ir::OpKind;
using ir::TensorRole;

constexpr int64_t kContext = 64;
// Sums in another order; a wrong scale, slot or head is off by a thousand times this.
constexpr double kTolerance = 1e-5;

std::vector<MethodShape> shapes() { return {{"decode", 1, kContext}, {"prefill_16", 16, kContext}}; }

ir::Graph static_graph(const ModelPlan& plan, const MethodShape& shape, const StaticForm& form) {
  const Recipe recipe;
  ir::Graph graph = build_graph(plan, shape);
  const Status status = run_passes(graph, {plan, recipe, {}, &form}, {});
  EXPECT_TRUE(status.ok()) << status.error().message;
  return graph;
}

std::vector<ir::Graph> static_graphs(const ModelPlan& plan, const StaticForm& form) {
  std::vector<ir::Graph> graphs;
  for (const MethodShape& shape : shapes()) graphs.push_back(static_graph(plan, shape, form));
  return graphs;
}

StaticForm form_with(const AttentionForm& attention) {
  StaticForm form;
  for (const MethodShape& shape : shapes()) form.attention.by_tokens[shape.tokens] = attention;
  return form;
}

int64_t count(const ir::Graph& graph, OpKind kind) {
  return std::ranges::count_if(graph.ops, [&](const ir::Op& op) { return op.kind == kind; });
}

// A shard outputs what others need, and nothing twice: its new keys and values and the state after its last layer.
void expect_io(const ir::Graph& part, const ShardRange& shard) {
  for (const ir::Tensor& tensor : part.tensors) {
    if (tensor.role == TensorRole::kOutput && !tensor.name.starts_with("k_new.") &&
        !tensor.name.starts_with("v_new.")) {
      EXPECT_EQ(tensor.name, "layers." + std::to_string(shard.layer_end - 1) + ".mlp.residual") << part.name;
    }
    const bool is_hidden =
        tensor.role == TensorRole::kInput && tensor.dtype == DType::kF32 && !ir::is_mask(tensor.purpose);
    if (is_hidden && shard.layer_begin == 0) {
      EXPECT_EQ(tensor.name, "embedding.out") << part.name;
    } else if (is_hidden) {
      EXPECT_EQ(tensor.name, "layers." + std::to_string(shard.layer_begin - 1) + ".mlp.residual") << part.name;
    }
  }
}

class StaticFormOf : public testing::TestWithParam<const char*> {
 protected:
  std::vector<float> in_place_logits() {
    std::vector<ir::Graph> graphs;
    for (const MethodShape& shape : shapes()) graphs.push_back(build_graph(model_.plan(), shape));
    const auto program = make_reference_program(std::move(graphs), model_.weights(), pool_);
    return test::logits_of(*program, model_.plan().vocab_size, prompt_);
  }
  std::vector<float> static_logits(const StaticForm& form) {
    const auto program = make_reference_program(static_graphs(model_.plan(), form), sliced_, pool_);
    return test::logits_of(*program, model_.plan().vocab_size, prompt_);
  }

  const test::OpenedModel model_{test::golden_dir(GetParam())};
  const SlicedWeights sliced_{model_.weights()};
  const std::vector<int32_t> prompt_ = test::golden_prompt(GetParam());
  ThreadPool pool_{2};
};

TEST_P(StaticFormOf, GivesTheLogitsOfTheFormInPlace) {
  const auto expected = in_place_logits();
  ASSERT_EQ(expected.size(), prompt_.size() * static_cast<size_t>(model_.plan().vocab_size));
  EXPECT_LE(test::worst_difference(expected, static_logits({})), kTolerance * test::standard_deviation(expected));
}

TEST_P(StaticFormOf, GivesThemInEveryFormOfAttention) {
  const auto expected = in_place_logits();
  for (const AttentionForm& attention : all_attention_forms()) {
    SCOPED_TRACE(attention_form_name(attention));
    const StaticForm form = form_with(attention);
    EXPECT_LE(test::worst_difference(expected, static_logits(form)), kTolerance * test::standard_deviation(expected));
    const ir::Graph graph = static_graph(model_.plan(), shapes()[0], form);
    const auto layers = static_cast<int64_t>(model_.plan().layers.size());
    const int64_t caches = attention.splits_cache() ? model_.plan().kv_heads : 1;
    const int64_t pieces = attention.heads == AttentionForm::Heads::kPerQueryHead ? model_.plan().heads : caches;
    EXPECT_EQ(count(graph, OpKind::kSoftmax), layers * pieces);
    const int64_t joined = (attention.keys_apart ? 0 : 1) + (attention.values_apart ? 0 : 1);
    EXPECT_EQ(count(graph, OpKind::kAppendRows), layers * caches * joined);
    int64_t states = 0;
    for (const ir::Tensor& tensor : graph.tensors) {
      if (tensor.role == TensorRole::kWeight) {
        EXPECT_EQ(tensor.name.find('['), std::string::npos) << tensor.name << " is cut";
      }
      if (tensor.role != TensorRole::kState) continue;
      ++states;
      EXPECT_EQ(tensor.shape[0], model_.plan().kv_heads / caches) << tensor.name;
    }
    EXPECT_EQ(states, layers * caches * 2);
  }
}

TEST_P(StaticFormOf, GivesTheSameBitsInShards) {
  for (const AttentionForm& attention :
       {AttentionForm(), *parse_attention_form("gqa+kv"), *parse_attention_form("sha+k")}) {
    for (const bool on_host : {false, true}) {
      StaticForm form = form_with(attention);
      form.embedding_on_host = on_host;
      const auto whole = static_graphs(model_.plan(), form);
      const auto expected = static_logits(form);
      const auto layers = static_cast<int>(model_.plan().layers.size());
      for (int shards = 1; shards <= layers + 1; ++shards) {
        SCOPED_TRACE(std::to_string(shards) + " shards");
        const auto plan = plan_shards(model_.plan(), Recipe(), {shards, 1});
        ASSERT_TRUE(plan.ok()) << plan.error().message;
        ASSERT_EQ(plan->size(), static_cast<size_t>(shards));
        std::vector<test::ChainedProgram::Method> methods;
        for (const ir::Graph& graph : whole) {
          std::vector<ir::Graph> parts;
          if (on_host) {
            // The CPU's part.
            ir::Graph lookup = graph;
            std::erase_if(lookup.ops, [](const ir::Op& op) { return op.kind != OpKind::kEmbedding; });
            lookup.at(lookup.ops[0].outputs[0]).role = TensorRole::kOutput;
            parts.push_back(std::move(lookup));
          }
          for (const ShardRange& shard : *plan) {
            if (!shard.has_layers()) continue;
            auto part = extract_layers(graph, shard);
            ASSERT_TRUE(part.ok()) << part.error().message;
            EXPECT_EQ(part->name, graph.name + "." + shard.name);
            expect_io(*part, shard);
            parts.push_back(*std::move(part));
          }
          methods.push_back({graph, std::move(parts)});
        }
        const auto head = extract_lm_head(static_graph(model_.plan(), {"head", 1, kContext}, form));
        ASSERT_TRUE(head.ok()) << head.error().message;
        test::ChainedProgram program(std::move(methods), *head, sliced_, pool_);
        EXPECT_TRUE(test::logits_of(program, model_.plan().vocab_size, prompt_) == expected);
      }
    }
  }
}

// One call of a method whose cache is empty.
void run_once(Program& program, MethodMemory& memory, std::span<const int32_t> tokens) {
  const auto n = static_cast<int64_t>(tokens.size());
  const auto inputs = ir::MethodInputs::read(program.method(0));
  ASSERT_TRUE(inputs.ok()) << inputs.error().message;
  ir::fill_inputs(program.method(0), *inputs, {tokens, 0, n > inputs->rope_limit}, memory.bindings(0));
  memory.bindings(0).rows = n;
  const auto context = program.new_context();
  const Status status = (*context)->run(0, memory.bindings(0));
  EXPECT_TRUE(status.ok()) << status.error().message;
}

// What `tandem eval` compares layer by layer.
TEST_P(StaticFormOf, TracesWhatIsBetweenTheLayers) {
  const auto tokens = std::span(prompt_).first(7);
  const MethodShape shape{"prefill_7", 7, 7};
  std::map<std::string, std::vector<float>> hidden;
  const auto remember = [&](const ir::Op&, const ir::Tensor& output, std::span<const float> values) {
    if (output.name.ends_with(".mlp.residual")) hidden[output.name].assign(values.begin(), values.end());
    return ok_status();
  };
  const auto in_place = make_reference_program({build_graph(model_.plan(), shape)}, model_.weights(), pool_, remember);
  auto memory = MethodMemory::allocate(*in_place);
  ASSERT_TRUE(memory.ok());
  run_once(*in_place, *memory, tokens);
  ASSERT_EQ(hidden.size(), model_.plan().layers.size());

  StaticForm form;
  form.trace = true;
  const auto program = make_reference_program({static_graph(model_.plan(), shape, form)}, sliced_, pool_);
  memory = MethodMemory::allocate(*program);
  ASSERT_TRUE(memory.ok());
  run_once(*program, *memory, tokens);
  for (const auto& [name, expected] : hidden) {
    const auto* data = static_cast<const float*>(memory->find(*program, 0, name));
    ASSERT_NE(data, nullptr) << name << " is no output";
    const std::vector<float> got(data, data + expected.size());
    EXPECT_LE(test::worst_difference(expected, got), kTolerance * test::standard_deviation(expected)) << name;
  }
  // The logits are the same with and without, to the bit, and without there are no traces.
  EXPECT_TRUE(static_logits(form) == static_logits({}));
  for (const ir::Tensor& tensor : static_graph(model_.plan(), shape, {}).tensors) {
    EXPECT_FALSE(tensor.role == TensorRole::kOutput && tensor.name.ends_with("residual")) << tensor.name;
  }
}

// Files from before purposes were stored have these names: they must imply the purposes that the passes set now.
TEST_P(StaticFormOf, NamesOfOldFilesStandForThePurposes) {
  for (const AttentionForm& attention : all_attention_forms()) {
    StaticForm form = form_with(attention);
    form.trace = true;
    for (const ir::Graph& graph : static_graphs(model_.plan(), form)) {
      for (const ir::Tensor& tensor : graph.tensors) {
        if (tensor.role == TensorRole::kActivation) continue;
        const auto purpose = ir::purpose_from_name(tensor.role, tensor.name);
        ASSERT_TRUE(purpose.ok()) << purpose.error().message;
        EXPECT_EQ(*purpose, tensor.purpose) << tensor.name << ", " << attention_form_name(attention);
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Families, StaticFormOf, testing::ValuesIn(test::kGoldenFamilies),
                         [](const auto& test) { return std::string(test.param); });

TEST(StaticPasses, HaveOneJobEach) {
  const test::OpenedModel model(test::golden_dir("qwen2_5"));  // With biases.
  std::vector<std::string> names;
  std::map<std::string, ir::Graph> after;
  ir::Graph graph = build_graph(model.plan(), shapes()[1]);
  const Recipe recipe;
  const StaticForm form;
  ASSERT_TRUE(run_passes(graph, {model.plan(), recipe, {}, &form}, [&](std::string_view pass, const ir::Graph& g) {
                names.emplace_back(pass);
                after.emplace(pass, g);
              }).ok());
  EXPECT_EQ(names, (std::vector<std::string>{"build", "split_bias", "expand_silu", "rotate_keys", "expand_attention",
                                             "resolve_outputs", "place_embedding", "set_encodings", "rescore_logits"}));
  EXPECT_EQ(count(after["build"], OpKind::kAddVector), 0);
  EXPECT_EQ(count(after["split_bias"], OpKind::kAddVector), 6) << "q, k and v of two layers";
  for (const ir::Op& op : after["split_bias"].ops) {
    if (op.kind == OpKind::kLinear) {
      EXPECT_EQ(op.inputs.size(), 2u);
    }
  }
  EXPECT_EQ(count(after["split_bias"], OpKind::kSilu), 2);
  EXPECT_EQ(count(after["expand_silu"], OpKind::kSilu), 0);
  EXPECT_EQ(count(after["expand_silu"], OpKind::kSigmoid), 2);
  EXPECT_EQ(count(after["expand_silu"], OpKind::kAttention), 2);
  const ir::Graph& expanded = after["expand_attention"];
  for (const OpKind kind : {OpKind::kAttention, OpKind::kStoreKv, OpKind::kMaskToFloat}) {
    EXPECT_EQ(count(expanded, kind), 0) << op_kind_name(kind);
  }
  EXPECT_EQ(count(expanded, OpKind::kMatMul), 4);
  EXPECT_EQ(count(expanded, OpKind::kConvert), 1);
  EXPECT_EQ(expanded.at(*expanded.find("mask")).shape, (std::vector<int64_t>{16, kContext + 16}));
  EXPECT_EQ(expanded.at(*expanded.find("k_new.1")).shape, (std::vector<int64_t>{2, 16, 16}));
  EXPECT_EQ(expanded.at(*expanded.find("k_new.1")).role, TensorRole::kOutput);
  EXPECT_EQ(count(after["resolve_outputs"], OpKind::kConvert), 0);
}

// The same graphs may come from untrusted files.
TEST(StaticGraphs, AreVerifiedInEveryNumber) {
  const test::OpenedModel model(test::golden_dir("qwen2_5"));
  for (const AttentionForm& attention : all_attention_forms()) {
    SCOPED_TRACE(attention_form_name(attention));
    StaticForm form;
    form.attention.by_tokens[4] = attention;
    const ir::Graph whole = static_graph(model.plan(), {"prefill_4", 4, 16}, form);
    ASSERT_TRUE(ir::verify(whole).ok());
    for (size_t i = 0; i < whole.tensors.size(); ++i) {
      for (size_t d = 0; d < whole.tensors[i].shape.size(); ++d) {
        for (const int64_t change : {-1, 1}) {
          ir::Graph graph = whole;
          graph.tensors[i].shape[d] += change;
          // Only a table's length and that of a head's norm are independent of all others.
          const bool is_free = whole.tensors[i].name == "embedding" && d == 0;
          // Heads of a cache and of its new rows, if they are multiplied separately: MethodTable compares them.
          const std::string& name = whole.tensors[i].name;
          const bool is_kv = name.starts_with("k_") || name.starts_with("v_");
          if (is_kv && d == 0 && (attention.keys_apart || attention.values_apart)) continue;
          EXPECT_EQ(ir::verify(graph).ok(), is_free) << whole.tensors[i].name << " " << d;
        }
      }
    }
    // Any id anywhere: an answer, whatever it is (the sanitizers watch).
    const auto count_of_ids = static_cast<ir::TensorId>(whole.tensors.size());
    for (size_t o = 0; o < whole.ops.size(); ++o) {
      for (size_t i = 0; i < whole.ops[o].inputs.size(); ++i) {
        for (ir::TensorId id = -1; id <= count_of_ids; id += 1 + static_cast<ir::TensorId>(o % 5)) {
          ir::Graph graph = whole;
          graph.ops[o].inputs[i] = id;
          const Status status = ir::verify(graph);
          EXPECT_TRUE(status.ok() || !status.error().message.empty());
        }
      }
    }
  }
}

TEST(StaticPasses, LayersWithAWindowHaveAMaskOfTheirOwn) {
  const test::OpenedModel model(test::golden_dir("gemma3"));
  const auto masks_of = [&](int64_t context) {
    std::vector<std::string> names;
    const ir::Graph graph = static_graph(model.plan(), {"decode", 1, context}, {});
    for (const ir::Op& op : graph.ops) {
      if (op.kind == OpKind::kAddMask) names.push_back(graph.at(op.inputs[1]).name);
    }
    return names;
  };
  EXPECT_EQ(masks_of(64), (std::vector<std::string>{"window_mask.12", "window_mask.12", "mask", "window_mask.12"}));
  // A window that covers the whole context has no effect.
  EXPECT_EQ(masks_of(12), (std::vector<std::string>{"mask", "mask", "mask", "mask"}));
}

}  // namespace static_form_test
}  // namespace tandem

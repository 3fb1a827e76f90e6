// The planner on small graphs: which ops run together, and where their outputs are.
#include "backends/cpu/execute/plan.h"

#include <gtest/gtest.h>

#include "artifact/writer.h"
#include "backends/cpu/execute/plan_printer.h"
#include "base/checked.h"
#include "support/small_graph.h"
#include "support/temp_folder.h"
#include "weight_layout/packed_matrix.h"

namespace tandem::cpu {
namespace {

using ir::Graph;
using ir::OpAttributes;
using ir::OpKind;
using ir::TensorId;
using ir::TensorRole;

// A graph with tensors of [tokens, width] by name, each written by the op that is added with it.
class Draw {
 public:
  explicit Draw(int64_t tokens = 4) {
    graph.name = "test";
    graph.tokens = tokens;
    graph.context = 8;
  }

  TensorId input(const char* name, int64_t width) {
    return graph.add({.name = name, .role = TensorRole::kInput, .shape = {graph.tokens, width}});
  }
  TensorId indices(const char* name) {
    return graph.add({.name = name, .role = TensorRole::kInput, .dtype = DType::kI32, .shape = {graph.tokens}});
  }
  TensorId weight(const char* name, int64_t rows, int64_t cols, WeightFormat format = WeightFormat::kF32) {
    return graph.add({.name = name, .role = TensorRole::kWeight, .shape = {rows, cols}, .format = format});
  }
  TensorId vector(const char* name, int64_t length) {
    return graph.add({.name = name, .role = TensorRole::kVector, .shape = {length}});
  }
  TensorId op(OpKind kind, std::vector<TensorId> inputs, const char* name, int64_t width,
              const OpAttributes& attributes = {}) {
    const TensorId out = graph.add({.name = name, .shape = {graph.tokens, width}});
    graph.ops.push_back({kind, std::move(inputs), {out}, attributes});
    return out;
  }
  TensorId output(TensorId id) {
    graph.at(id).role = TensorRole::kOutput;
    return id;
  }
  TensorId logits(TensorId from, DType dtype = DType::kF32) {
    const TensorId out = op(OpKind::kConvert, {from}, "logits", graph.at(from).shape[1]);
    graph.at(out).dtype = dtype;
    return output(out);
  }

  Graph graph;
};

// The graph as the only method of a file whose weights are zeros.
Result<Artifact> file_of(const Graph& graph, const test::TempFolder& folder) {
  ArtifactHeader header;
  header.backend = "cpu";
  header.model.vocab_size = 1;
  header.methods = {graph};
  uint64_t size = 0;
  const auto take = [&](uint64_t bytes) {
    if (bytes == 0) return Range{};
    size = round_up(size, kPartAlignment);
    const Range range{0, size, bytes};
    size += bytes;
    return range;
  };
  for (const ir::Tensor& t : graph.tensors) {
    if (t.role == TensorRole::kVector) {
      header.vectors.push_back({t.name, t.shape[0], take(4 * static_cast<uint64_t>(t.shape[0]))});
    } else if (t.role == TensorRole::kWeight) {
      const PackedSizes sizes = packed_sizes(t.format, t.shape[0], t.shape[1], t.block);
      WeightEntry entry;
      entry.name = t.name;
      entry.format = t.format;
      entry.block = t.block;
      entry.rows = t.shape[0];
      entry.cols = t.shape[1];
      entry.data = take(sizes.data);
      entry.scales = take(sizes.scales);
      entry.multipliers = take(sizes.multipliers);
      header.weights.push_back(entry);
    }
  }
  const std::vector<uint8_t> zeros(size + 1, 0);
  test::write_file(folder / "weights", zeros);
  const std::vector<SegmentFile> segments = {{"weights", folder / "weights", hash_bytes(zeros)}};
  if (Status status = write_artifact(folder / "file.tdm", header, segments); !status.ok()) return status.error();
  return Artifact::open(folder / "file.tdm");
}

std::string plan_text(Graph graph) {
  const Status named = ir::set_purposes_from_names(graph);
  EXPECT_TRUE(named.ok());
  const test::TempFolder folder;
  const auto artifact = file_of(graph, folder);
  if (!artifact.ok()) return artifact.error().message;
  const auto plan = make_plan(artifact->header().methods[0], *artifact, portable_kernels());
  return plan.ok() ? to_text(*plan) : plan.error().message;
}

TEST(CpuPlan, RowWiseOpsRunTogetherAndShareScratch) {
  Draw d;
  const TensorId x = d.input("x", 16), w = d.vector("w", 16);
  const TensorId a = d.op(OpKind::kRmsNorm, {x, w}, "a", 16);
  const TensorId b = d.op(OpKind::kSilu, {a}, "b", 16);
  d.output(d.op(OpKind::kAdd, {x, b}, "y", 16));
  EXPECT_EQ(plan_text(d.graph),
            "rows, tail: rms_norm(a), silu(b), add(y)\n"
            "buffers: a local+0, b local+256\n");
}

TEST(CpuPlan, LinearLayersOfOneInputAreOneStep) {
  Draw d;
  const TensorId x = d.input("x", 16);
  for (const char* name : {"q", "k", "v"}) {
    d.output(d.op(OpKind::kLinear, {x, d.weight((std::string("w") + name).c_str(), 16, 16)}, name, 16));
  }
  const TensorId other = d.input("other", 16);
  d.output(d.op(OpKind::kLinear, {other, d.weight("wo", 16, 16)}, "o", 16));
  EXPECT_EQ(plan_text(d.graph),
            "linear, tail: linear(q), linear(k), linear(v)\n"
            "linear, tail: linear(o)\n"
            "buffers:\n");
}

TEST(CpuPlan, InputsAreQuantizedOnceByTheStepBefore) {
  Draw d;
  const TensorId x = d.input("x", 64), w = d.vector("w", 64);
  const TensorId h = d.op(OpKind::kRmsNorm, {x, w}, "h", 64);
  const OpAttributes int8{.quantize_input = true};
  d.output(d.op(OpKind::kLinear, {h, d.weight("wq", 16, 64, WeightFormat::kI8)}, "q", 16, int8));
  d.output(d.op(OpKind::kLinear, {h, d.weight("wk", 16, 64, WeightFormat::kI8)}, "k", 16, int8));
  // One that reads floats cannot share the step, and needs the norm's output in memory.
  d.output(d.op(OpKind::kLinear, {h, d.weight("wv", 16, 64)}, "v", 16));
  EXPECT_EQ(plan_text(d.graph),
            "rows, tail: rms_norm(h), quantize for wq\n"
            "linear, tail: linear(q), linear(k)\n"
            "linear, tail: linear(v)\n"
            "buffers: h arena+0\n");
}

TEST(CpuPlan, AGateItsOtherLayerAndTheirProductAreOneStep) {
  Draw d;
  const TensorId x = d.input("x", 16);
  const TensorId gate = d.op(OpKind::kLinear, {x, d.weight("wg", 32, 16)}, "gate", 32);
  const TensorId up = d.op(OpKind::kLinear, {x, d.weight("wu", 32, 16)}, "up", 32);
  const TensorId product = d.op(OpKind::kSiluMul, {gate, up}, "product", 32);
  const TensorId down = d.op(OpKind::kLinear, {product, d.weight("wd", 16, 32)}, "down", 16);
  d.output(d.op(OpKind::kAdd, {x, down}, "y", 16));
  EXPECT_EQ(plan_text(d.graph),
            "linear, tail, gated: linear(gate), linear(up), silu_mul(product)\n"
            "linear, tail, adds %x: linear(down), add(y)\n"
            "buffers: gate nowhere, up nowhere, product arena+0, down nowhere\n");
}

TEST(CpuPlan, AGateThatIsReadAgainIsNotFused) {
  Draw d;
  const TensorId x = d.input("x", 16);
  const TensorId gate = d.op(OpKind::kLinear, {x, d.weight("wg", 16, 16)}, "gate", 16);
  const TensorId up = d.op(OpKind::kLinear, {x, d.weight("wu", 16, 16)}, "up", 16);
  const TensorId product = d.op(OpKind::kSiluMul, {gate, up}, "product", 16);
  d.output(d.op(OpKind::kAdd, {product, gate}, "y", 16));
  EXPECT_EQ(plan_text(d.graph),
            "linear, tail: linear(gate), linear(up)\n"
            "rows, tail: silu_mul(product), add(y)\n"
            "buffers: gate arena+0, up arena+256, product local+0\n");
}

// A sum is written where the residual stream was, which no later op reads.
TEST(CpuPlan, SumsOverwriteTheResidualStream) {
  Draw d;
  const TensorId x = d.input("x", 16);
  const TensorId first = d.op(OpKind::kLinear, {x, d.weight("w0", 16, 16)}, "first", 16);
  const TensorId inner = d.op(OpKind::kLinear, {first, d.weight("w1", 16, 16)}, "inner", 16);
  const TensorId branch = d.op(OpKind::kLinear, {inner, d.weight("w2", 16, 16)}, "branch", 16);
  const TensorId sum = d.op(OpKind::kAdd, {first, branch}, "sum", 16);
  d.output(d.op(OpKind::kLinear, {sum, d.weight("w3", 16, 16)}, "y", 16));
  EXPECT_EQ(plan_text(d.graph),
            "linear, tail: linear(first)\n"
            "linear, tail: linear(inner)\n"
            "linear, tail, adds %first: linear(branch), add(sum)\n"
            "linear, tail: linear(y)\n"
            "buffers: first arena+0, inner arena+256, branch nowhere, sum arena+0\n");
}

// Buffers that are no longer read are reused; those still read are not.
TEST(CpuPlan, TheArenaIsReusedByLiveRange) {
  Draw d;
  const TensorId x = d.input("x", 16);
  const TensorId a = d.op(OpKind::kLinear, {x, d.weight("w0", 32, 16)}, "a", 32);
  const TensorId b = d.op(OpKind::kLinear, {a, d.weight("w1", 16, 32)}, "b", 16);
  const TensorId c = d.op(OpKind::kLinear, {b, d.weight("w2", 16, 16)}, "c", 16);
  const TensorId e = d.op(OpKind::kLinear, {c, d.weight("w3", 64, 16)}, "e", 64);
  d.output(d.op(OpKind::kLinear, {e, d.weight("w4", 16, 64)}, "y", 16));
  EXPECT_EQ(plan_text(d.graph),
            "linear, tail: linear(a)\n"
            "linear, tail: linear(b)\n"
            "linear, tail: linear(c)\n"
            "linear, tail: linear(e)\n"
            "linear, tail: linear(y)\n"
            "buffers: a arena+0, b arena+512, c arena+0, e arena+256\n");
}

// Only ops after the last one that reads across tokens form the tail, where rows that are not read are skipped.
TEST(CpuPlan, TheTailBeginsBehindTheLastAttention) {
  test::SmallGraphOptions options;
  options.tokens = 4;
  EXPECT_EQ(plan_text(test::small_graph(options)),
            "rows: embedding(x), rope_table(cos), rms_norm(h), quantize for layers.0.q\n"
            "linear: linear(q)\n"
            "linear: linear(k)\n"
            "rows: rope(q_turned), rope(k_turned), store_kv(k_cache.0), store_kv(v_cache.0)\n"
            "attention: attention(mixed)\n"
            "rows, tail: add(y)\n"
            "linear, tail: linear(scores)\n"
            "buffers: x arena+0, h arena+384, q arena+640, k arena+896, cos arena+256, sin arena+320, "
            "q_turned arena+640, k_turned local+0, mask_f32 %mask, mixed arena+256, y arena+0, scores %logits\n"
            "lm head: step 6\n");
}

// Floats need no conversion: mask and logits are used in the caller's buffers. Other dtypes are converted.
TEST(CpuPlan, ConversionsFromFloatToFloatAreAliases) {
  test::SmallGraphOptions options;
  options.tokens = 4;
  options.mask.dtype = DType::kU8;
  options.mask.encoding = {ir::EncodingKind::kPerTensor, 0.5f, 255};
  options.logits.dtype = DType::kF16;
  const std::string text = plan_text(test::small_graph(options));
  EXPECT_NE(text.find("mask: mask_to_float(mask_f32)\n"), std::string::npos) << text;
  EXPECT_NE(text.find("rows, tail: convert(logits)\n"), std::string::npos) << text;
  EXPECT_EQ(text.find("mask_f32 %mask"), std::string::npos) << text;
  EXPECT_EQ(text.find("scores %logits"), std::string::npos) << text;
  EXPECT_NE(text.find("lm head: step "), std::string::npos) << text;
}

// The argmax without logits in memory is for logits alone.
TEST(CpuPlan, OnlyLogitsHaveAnLmHead) {
  for (const bool is_logits : {true, false}) {
    Draw d(1);
    const TensorId x = d.input("x", 16);
    const TensorId y = d.op(OpKind::kLinear, {x, d.weight("w", 32, 16)}, "y", 32);
    const TensorId capped = d.op(OpKind::kSoftcap, {y}, "capped", 32, {.factor = 30.0f});
    const TensorId out = d.logits(capped);
    if (!is_logits) d.graph.at(out).name = "others";
    const std::string text = plan_text(d.graph);
    EXPECT_EQ(text.find("lm head: step 0\n") != std::string::npos, is_logits) << text;
  }
}

TEST(CpuPlan, KeysAndValuesOfOneCacheAreRefused) {
  Graph graph = test::small_graph();
  for (ir::Op& op : graph.ops) {
    if (op.kind == OpKind::kAttention) op.inputs[2] = op.inputs[1];
  }
  const std::string text = plan_text(graph);
  EXPECT_NE(text.find("for keys and for values"), std::string::npos) << text;
}

}  // namespace
}  // namespace tandem::cpu

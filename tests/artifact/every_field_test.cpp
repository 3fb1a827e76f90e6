// Every field of a header, with a value that no other field has, written and read again. Structured bindings name all
// fields of each struct: a new field must be filled here before this compiles.
#include <gtest/gtest.h>

#include <algorithm>
#include <initializer_list>

#include "artifact/header_codec.h"

namespace tandem {
namespace {

constexpr uint64_t kDataEnd = uint64_t{1} << 20;

class Filler {
 public:
  ArtifactHeader header() {
    ArtifactHeader filled;
    auto& [producer, target, backend, model, segments, weights, vectors, methods, text, generation, recipe, metrics,
           checkpoint, device, shards, more_programs, calibration] = filled;
    for (std::string* field : {&producer, &target, &backend, &recipe, &calibration}) *field = word();
    checkpoint = number<uint64_t>();
    fill(model);
    fill(text);
    fill(generation);
    fill(device);
    segments.resize(2);
    for (Segment& segment : segments) fill(segment);
    weights.resize(2);
    for (WeightEntry& weight : weights) fill(weight);
    weights[1].format = WeightFormat::kI8;
    weights[1].layout = WeightLayout::kRows;
    vectors.resize(2);
    for (VectorEntry& vector : vectors) fill(vector);
    methods = {graph()};
    metrics.resize(2);
    for (Metric& metric : metrics) fill(metric);
    shards.resize(2);
    for (Shard& shard : shards) fill(shard);
    more_programs.resize(2);
    for (ProgramHeader& program : more_programs) fill(program);
    return filled;
  }

 private:
  std::string word() { return "word " + std::to_string(++count_); }
  template <typename T>
  T number() {
    return static_cast<T>(++count_);
  }

  void fill(ProgramHeader& program) {
    auto& [target, backend, weights, vectors, methods, recipe, metrics, device, shards, calibration] = program;
    for (std::string* field : {&target, &backend, &recipe, &calibration}) *field = word();
    weights.resize(1);
    fill(weights[0]);
    vectors.resize(1);
    fill(vectors[0]);
    methods = {graph()};
    metrics.resize(1);
    fill(metrics[0]);
    fill(device);
    shards.resize(1);
    fill(shards[0]);
  }

  // Bytes inside one of the segments.
  void fill(Range& range, uint64_t size = 0) {
    auto& [segment, offset, range_size] = range;
    segment = static_cast<uint32_t>(++count_ % 2);
    offset = 64 * number<uint64_t>();
    range_size = size == 0 ? number<uint64_t>() : size;
  }

  void fill(Segment& segment) {
    auto& [name, offset, size, hash] = segment;
    name = word();
    offset = kSegmentAlignment * (1 + 4 * segments_++);
    size = 60'000 + number<uint64_t>();
    hash = number<uint64_t>() << 40;
  }

  void fill(WeightEntry& weight) {
    auto& [name, format, layout, block, rows, cols, data, scales, multipliers] = weight;
    name = word();
    format = WeightFormat::kLpbq4;
    layout = WeightLayout::kPanel16;
    block = number<int>();
    rows = number<int64_t>();
    cols = number<int64_t>();
    for (Range* part : {&data, &scales, &multipliers}) fill(*part);
  }

  void fill(VectorEntry& vector) {
    auto& [name, length, data] = vector;
    name = word();
    length = number<int64_t>();
    fill(data, 4 * static_cast<uint64_t>(length));
  }

  void fill(ModelInfo& model) {
    auto& [name, family, architecture, vocab_size, hidden_size, layers, heads, kv_heads, head_dim, max_positions,
           parameters] = model;
    for (std::string* field : {&name, &family, &architecture}) *field = word();
    for (int64_t* field :
         {&vocab_size, &hidden_size, &layers, &heads, &kv_heads, &head_dim, &max_positions, &parameters}) {
      *field = number<int64_t>();
    }
  }

  void fill(TextInfo& text) {
    auto& [has_tokenizer, tokenizer, chat_template, bos_token, eos_token, special_tokens, tool_template, bos_id,
           eos_ids] = text;
    has_tokenizer = true;
    fill(tokenizer);
    for (std::string* field : {&chat_template, &bos_token, &eos_token, &special_tokens, &tool_template}) {
      *field = word();
    }
    bos_id = number<int32_t>();
    eos_ids = {number<int32_t>(), number<int32_t>()};
  }

  void fill(GenerationDefaults& defaults) {
    auto& [do_sample, temperature, top_k, top_p, min_p, repetition_penalty, max_new_tokens] = defaults;
    do_sample = true;
    for (float* field : {&temperature, &top_p, &min_p, &repetition_penalty}) *field = number<float>();
    for (int32_t* field : {&top_k, &max_new_tokens}) *field = number<int32_t>();
  }

  void fill(Metric& metric) {
    auto& [name, value] = metric;
    name = word();
    value = number<double>();
  }

  void fill(DeviceInfo& device) {
    auto& [soc_model, arch, vtcm_mb, weight_shared, core_version, backend_version, build_id, spill_fill_bytes,
           hvx_threads, optimization_level, signed_pd, profile] = device;
    soc_model = number<uint32_t>();
    for (int32_t* field : {&arch, &vtcm_mb}) *field = number<int32_t>();
    weight_shared = true;
    for (std::string* field : {&core_version, &backend_version, &build_id}) *field = word();
    spill_fill_bytes = number<uint64_t>();
    hvx_threads = number<int32_t>();
    optimization_level = number<int32_t>();
    signed_pd = true;
    profile = word();
  }

  void fill(Shard& shard) {
    auto& [name, binary, checksum, graphs] = shard;
    name = word();
    fill(binary);
    checksum = number<uint64_t>();
    graphs.resize(2);
    for (ShardGraph& graph : graphs) {
      auto& [graph_name, method, tokens] = graph;
      graph_name = word();
      method = word();
      tokens = number<int64_t>();
    }
  }

  // A graph that the verifier accepts, with every attribute and every part of a tensor set somewhere.
  ir::Graph graph() {
    using ir::OpKind;
    using ir::PurposeKind;
    using ir::TensorRole;
    ir::Graph g;
    auto& [name, tokens, context, tensors, ops] = g;
    name = word();
    tokens = 3;
    context = 11;
    const auto ids = g.add({.name = "ids", .role = TensorRole::kInput, .dtype = DType::kI32, .shape = {3}});
    const auto x = g.add({.name = "x", .role = TensorRole::kInput, .dtype = DType::kU16, .shape = {3, 8}});
    g.at(x).encoding = {ir::EncodingKind::kPerTensor, 0.25f, 77};
    g.at(x).part_of = word();
    g.at(x).purpose = {.layer = 5};
    const auto table = g.add({.name = "table", .role = TensorRole::kWeight, .shape = {7, 64}});
    g.at(table).format = WeightFormat::kLpbq4;
    g.at(table).block = 32;
    g.at(table).purpose = {.kind = PurposeKind::kEmbedding};
    g.add({.name = "window", .role = TensorRole::kInput, .shape = {3, 14}});
    tensors.back().purpose = {.kind = PurposeKind::kWindowMask, .limit = 6};
    g.add({.name = "keys", .role = TensorRole::kState, .shape = {1, 11, 8}});
    tensors.back().purpose = {.kind = PurposeKind::kKeyCache, .layer = 2, .kv_head = 1};
    const auto looked_up = g.add({.name = "looked_up", .role = TensorRole::kOutput, .shape = {3, 64}});

    ir::OpAttributes numbers;
    auto& [eps, weight_offset, factor, softcap, head_dim, interleaved, window, quantize_input, transpose_b, on_host,
           int16_input, axis, begin, candidates] = numbers;
    for (float* field : {&eps, &weight_offset, &factor, &softcap}) *field = number<float>();
    for (int64_t* field : {&head_dim, &window, &begin, &candidates}) *field = number<int64_t>();
    axis = number<int32_t>();
    std::vector<ir::OpAttributes> each = {numbers};
    for (bool* field : {&interleaved, &quantize_input, &transpose_b}) {
      *field = true;
      each.push_back(numbers);
      *field = false;
    }
    quantize_input = int16_input = true;
    each.push_back(numbers);
    quantize_input = int16_input = false;
    for (const ir::OpAttributes& attributes : each) {
      const auto y = g.add({.name = word(), .role = TensorRole::kOutput, .shape = {3, 8}});
      ops.push_back({OpKind::kScale, {x}, {y}, attributes});
    }
    on_host = true;
    ops.push_back({OpKind::kEmbedding, {ids, table}, {looked_up}, numbers});
    return g;
  }

  uint64_t count_ = 100;
  uint64_t segments_ = 0;
};

// Checks that for each field of a tensor, the header has a tensor in which it is not the default.
void expect_all_fields_set(const std::vector<ir::Tensor>& tensors) {
  const auto used = [&](auto field) {
    return std::ranges::any_of(tensors, [&](const ir::Tensor& t) { return t.*field != ir::Tensor().*field; });
  };
  [[maybe_unused]] const auto& [name, role, dtype, shape, encoding, format, block, purpose, part_of] = tensors[0];
  EXPECT_TRUE(used(&ir::Tensor::name) && used(&ir::Tensor::role) && used(&ir::Tensor::dtype) &&
              used(&ir::Tensor::shape) && used(&ir::Tensor::encoding) && used(&ir::Tensor::format) &&
              used(&ir::Tensor::block) && used(&ir::Tensor::purpose) && used(&ir::Tensor::part_of));
  [[maybe_unused]] const auto& [encoding_kind, scale, zero_point] = tensors[0].encoding;
  [[maybe_unused]] const auto& [purpose_kind, layer, kv_head, limit] = tensors[0].purpose;
  [[maybe_unused]] const auto& [op_kind, inputs, outputs, attributes] = ir::Op();
}

TEST(Artifact, EveryFieldComesBack) {
  const ArtifactHeader header = Filler().header();
  expect_all_fields_set(header.methods[0].tensors);
  const auto decoded = decode_header(encode_header(header), kDataEnd);
  ASSERT_TRUE(decoded.ok()) << decoded.error().message;
  EXPECT_EQ(decoded->model, header.model);
  EXPECT_EQ(decoded->text, header.text);
  EXPECT_EQ(decoded->generation, header.generation);
  EXPECT_EQ(decoded->device, header.device);
  EXPECT_EQ(decoded->segments, header.segments);
  EXPECT_EQ(decoded->weights, header.weights);
  EXPECT_EQ(decoded->vectors, header.vectors);
  EXPECT_EQ(decoded->metrics, header.metrics);
  EXPECT_EQ(decoded->shards, header.shards);
  ASSERT_EQ(decoded->methods.size(), 1u);
  EXPECT_EQ(decoded->methods[0].tensors, header.methods[0].tensors);
  EXPECT_EQ(decoded->methods[0].ops, header.methods[0].ops);
  ASSERT_EQ(decoded->more_programs.size(), 2u);
  EXPECT_EQ(decoded->more_programs[1].methods[0].ops, header.more_programs[1].methods[0].ops);
  EXPECT_TRUE(*decoded == header);
}

// A header without anything that may be absent.
TEST(Artifact, DefaultsComeBack) {
  ArtifactHeader header;
  header.model.vocab_size = 1;
  header.methods.resize(1);
  header.methods[0].tokens = header.methods[0].context = 1;
  const auto decoded = decode_header(encode_header(header), kDataEnd);
  ASSERT_TRUE(decoded.ok()) << decoded.error().message;
  EXPECT_TRUE(*decoded == header);
}

}  // namespace
}  // namespace tandem

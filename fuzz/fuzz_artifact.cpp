// The header of an artifact, from any bytes.
//
// The first byte of an input picks the mode. Even: the rest is used as a header. Odd: the rest is a list of
// changes {u16 offset, u8 value} to a valid header, which gets past the FlatBuffer's own checks far more often.
#include <cstdlib>
#include <cstring>
#include <vector>

#include "artifact/header_codec.h"
#include "backends/interface/method_memory.h"
#include "ir/printer.h"
#include "ir/verifier.h"

namespace {

using namespace tandem;

constexpr uint64_t kDataEnd = 4 * kSegmentAlignment;

ArtifactHeader valid_header() {
  ir::Graph g;
  g.name = "decode";
  g.tokens = 2;
  g.context = 8;
  const auto tokens = g.add({.name = "tokens", .role = ir::TensorRole::kInput, .dtype = DType::kI32, .shape = {2}});
  const auto positions = g.add({.name = "pos", .role = ir::TensorRole::kInput, .dtype = DType::kI32, .shape = {2}});
  const auto mask = g.add({.name = "mask",
                           .role = ir::TensorRole::kInput,
                           .dtype = DType::kU8,
                           .shape = {2, 8},
                           .encoding = {ir::EncodingKind::kPerTensor, 0.5f, 255}});
  const auto cache = g.add({.name = "cache",
                            .role = ir::TensorRole::kState,
                            .dtype = DType::kU8,
                            .shape = {1, 8, 16},
                            .encoding = {ir::EncodingKind::kDynamicPerRow, 1.0f, 0}});
  const auto scales = g.add({.name = "scales", .role = ir::TensorRole::kState, .shape = {1, 8, 2}});
  const auto table = g.add({.name = "table",
                            .role = ir::TensorRole::kWeight,
                            .shape = {4, 16},
                            .format = WeightFormat::kLpbq4,
                            .block = 16});
  const auto norm = g.add({.name = "norm", .role = ir::TensorRole::kVector, .shape = {16}});
  const auto rope = g.add({.name = "rope", .role = ir::TensorRole::kVector, .shape = {8}});
  const auto x = g.add({.name = "x", .shape = {2, 16}}), h = g.add({.name = "h", .shape = {2, 16}});
  const auto cos = g.add({.name = "cos", .shape = {2, 8}}), sin = g.add({.name = "sin", .shape = {2, 8}});
  const auto q = g.add({.name = "q", .shape = {2, 16}}), y = g.add({.name = "y", .shape = {2, 16}});
  const auto k = g.add({.name = "k", .shape = {2, 16}});
  const auto floats = g.add({.name = "floats", .shape = {2, 8}}), scores = g.add({.name = "scores", .shape = {2, 4}});
  const auto logits = g.add({.name = "logits",
                             .role = ir::TensorRole::kOutput,
                             .dtype = DType::kU16,
                             .shape = {2, 4},
                             .encoding = {ir::EncodingKind::kPerTensor, 0.1f, 1000}});
  const ir::OpAttributes heads{.head_dim = 16};
  g.ops = {{ir::OpKind::kEmbedding, {tokens, table}, {x}, {}},
           {ir::OpKind::kRmsNorm, {x, norm}, {h}, {.eps = 1e-5f}},
           {ir::OpKind::kRopeTable, {positions, rope}, {cos, sin}, {}},
           {ir::OpKind::kRope, {h, cos, sin}, {q}, heads},
           {ir::OpKind::kHadamard, {q}, {k}, heads},
           {ir::OpKind::kStoreKv, {k, positions, cache, scales}, {}, heads},
           {ir::OpKind::kMaskToFloat, {mask}, {floats}, {}},
           {ir::OpKind::kAttention, {q, cache, cache, floats, positions, scales, scales}, {y}, heads},
           {ir::OpKind::kLinear, {y, table}, {scores}, {.quantize_input = true}},
           {ir::OpKind::kConvert, {scores}, {logits}, {}}};
  if (!ir::set_purposes_from_names(g).ok()) std::abort();
  ArtifactHeader header;
  header.producer = "fuzz";
  header.target = header.backend = "cpu";
  header.model.vocab_size = 4;
  header.segments = {{"a", kSegmentAlignment, 4096, 1}, {"b", 2 * kSegmentAlignment, 100, 2}};
  header.weights = {
      {"table", WeightFormat::kLpbq4, WeightLayout::kPanel16, 16, 4, 16, {0, 0, 128}, {0, 128, 64}, {0, 192, 16}}};
  header.vectors = {{"norm", 16, {0, 512, 64}}, {"rope", 8, {0, 576, 32}}};
  header.methods = {g};
  header.text = {true, {1, 0, 100}, "template", "<s>", "</s>", R"({"unk_token": "<unk>"})", "tools", 1, {2, 3}};
  header.recipe = "{}";
  header.metrics = {{"metric", 1.0}};
  return header;
}

// The same with a second program.
ArtifactHeader valid_header_of_two() {
  ArtifactHeader header = valid_header();
  header.more_programs = {first_program(header)};
  header.more_programs[0].target = header.more_programs[0].backend = "reference";
  return header;
}

// What the rest of the program relies on once a header has been accepted, for one of its programs.
void check_program(const ArtifactHeader& header) {
  const auto inside = [&](const Range& range) {
    if (range.size == 0) return;
    if (range.segment >= header.segments.size()) std::abort();
    const uint64_t size = header.segments[range.segment].size;
    if (range.offset > size || range.size > size - range.offset) std::abort();
  };
  for (const Segment& segment : header.segments) {
    if (segment.offset > kDataEnd || segment.size > kDataEnd - segment.offset) std::abort();
  }
  for (const WeightEntry& weight : header.weights) {
    for (const Range* range : {&weight.data, &weight.scales, &weight.multipliers}) inside(*range);
  }
  for (const VectorEntry& vector : header.vectors) inside(vector.data);
  inside(header.text.tokenizer);
  if (header.methods.empty()) std::abort();
  for (const ir::Graph& graph : header.methods) {
    if (!ir::verify(graph).ok()) std::abort();
    if (ir::to_text(graph).empty()) std::abort();
    for (const ir::Tensor& tensor : graph.tensors) (void)tensor_bytes(tensor);
  }
  if (used_segments(header).size() != header.segments.size()) std::abort();
}

void check(const ArtifactHeader& header) {
  check_program(header);
  for (const ProgramHeader& program : header.more_programs) check_program(with_program(header, program));
  // What is accepted can be written again, and is accepted again.
  if (!decode_header(encode_header(header), kDataEnd).ok()) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto encode = [](const ArtifactHeader& valid) {
    std::vector<uint8_t> bytes = encode_header(valid);
    if (!decode_header(bytes, kDataEnd).ok()) std::abort();
    return bytes;
  };
  static const std::vector<uint8_t> kValid = encode(valid_header()), kValidOfTwo = encode(valid_header_of_two());
  if (size == 0) return 0;
  std::vector<uint8_t> bytes;
  if (data[0] % 2 == 0) {
    bytes.assign(data + 1, data + size);
  } else {
    bytes = data[0] % 4 == 1 ? kValid : kValidOfTwo;
    for (size_t i = 1; i + 3 <= size; i += 3) {
      const size_t offset = static_cast<size_t>(data[i] | data[i + 1] << 8) % bytes.size();
      bytes[offset] = data[i + 2];
    }
  }
  const auto header = decode_header(bytes, kDataEnd);
  if (header.ok()) {
    check(*header);
  } else if (header.error().message.empty()) {
    std::abort();
  }
  return 0;
}

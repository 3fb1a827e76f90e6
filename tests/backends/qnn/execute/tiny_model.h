// A model of three shards that is small enough to compile in a test, as an artifact with real context binaries, and the
// same model computed in plain floats.
//
// x = table[token]; shifted = x + cosines[position]; k_new = x in u8; keys = cache and k_new;
// hidden = shifted + (shifted . keys + mask) * keys; logits = head . hidden. Not a useful model, but one that reads and
// writes everything a decoder does.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "artifact/reader.h"
#include "artifact/writer.h"
#include "backends/interface/io_conversion.h"
#include "backends/qnn/api/qnn_support.h"
#include "backends/qnn/execute/program.h"
#include "base/checked.h"
#include "base/try.h"
#include "support/temp_folder.h"
#include "weight_layout/packed_matrix.h"

namespace tandem::qnn::test {

inline constexpr int64_t kWidth = 32;
inline constexpr int64_t kVocab = 64;
inline constexpr int64_t kContext = 16;
inline constexpr int64_t kPrefill = 4;

inline const ir::Encoding kUnit = {ir::EncodingKind::kPerTensor, 1.0f / 32768, 32768};     // -1 to 1
inline const ir::Encoding kShifted = {ir::EncodingKind::kPerTensor, 1.0f / 16384, 32768};  // -2 to 2
inline const ir::Encoding kKeys = {ir::EncodingKind::kPerTensor, 1.0f / 128, 128};         // u8
inline const ir::Encoding kScores = {ir::EncodingKind::kPerTensor, 1.0f / 1024, 32768};    // -32 to 32
inline const ir::Encoding kMask = {ir::EncodingKind::kPerTensor, 1.0f / 65536, 65535};     // -1 to 0
inline const ir::Encoding kHidden = {ir::EncodingKind::kPerTensor, 1.0f / 512, 32768};     // -64 to 64
inline const ir::Encoding kLogits = {ir::EncodingKind::kPerTensor, 1.0f / 256, 32768};     // -128 to 128

inline ScaleOffset offset_of(const ir::Encoding& encoding) { return {encoding.scale, -encoding.zero_point}; }

// The value after quantizing and dequantizing it.
inline float rounded(DType dtype, const ir::Encoding& encoding, float value) {
  uint16_t code = 0;
  ir::encode_row(dtype, encoding, &value, 1, &code);
  ir::decode_row(dtype, encoding, &code, 1, &value);
  return value;
}

// cos(position * inverse_frequency), as the shard has it in a table.
inline float cosine(int64_t position, int64_t i) {
  return std::cos(static_cast<float>(position) / static_cast<float>(i + 1));
}

struct TinyModel {
  std::vector<float> table;  // [kVocab, kWidth]
  WeightMatrix head = random_weights(WeightFormat::kI8, kVocab, kWidth, 0, 42);

  TinyModel() {
    table = random_floats(static_cast<size_t>(kVocab * kWidth), -0.5f, 0.5f, 41);
    for (float& scale : head.scales) scale *= 20;
  }
};

inline ir::Graph tiny_graph(const std::string& name, int64_t tokens) {
  using ir::TensorRole;
  ir::Graph g;
  g.name = name;
  g.tokens = tokens;
  g.context = kContext;
  const int64_t n = tokens, w = kWidth, c = kContext;
  const auto add = [&](const char* tensor, TensorRole role, DType dtype, std::vector<int64_t> shape,
                       const ir::Encoding& encoding = {}) {
    ir::Tensor t;
    t.name = tensor;
    t.role = role;
    t.dtype = dtype;
    t.shape = std::move(shape);
    t.encoding = encoding;
    return g.add(t);
  };
  const auto u16 = [&](const char* tensor, std::vector<int64_t> shape, const ir::Encoding& encoding) {
    return add(tensor, TensorRole::kActivation, DType::kU16, std::move(shape), encoding);
  };
  const auto op = [&](ir::OpKind kind, std::vector<ir::TensorId> in, std::vector<ir::TensorId> out,
                      ir::OpAttributes attributes = {}) {
    g.ops.push_back({kind, std::move(in), std::move(out), attributes});
  };
  ir::OpAttributes on_host, heads, transpose;
  on_host.on_host = true;
  heads.head_dim = w;
  transpose.transpose_b = true;
  const auto tokens_in = add("tokens", TensorRole::kInput, DType::kI32, {n});
  const auto positions = add("positions", TensorRole::kInput, DType::kI32, {n});
  const auto mask = add("mask", TensorRole::kInput, DType::kU16, {n, c + n}, kMask);
  const auto cache = add("k_cache.0", TensorRole::kState, DType::kU8, {1, c, w}, kKeys);
  const auto table = add("embedding", TensorRole::kWeight, DType::kF32, {kVocab, w});
  const auto lm_head = add("lm_head", TensorRole::kWeight, DType::kF32, {kVocab, w});
  g.at(lm_head).format = WeightFormat::kI8;
  const auto frequency = add("inverse_frequency", TensorRole::kVector, DType::kF32, {w});
  const auto x = u16("embedding.out", {n, w}, kUnit);
  const auto cos = u16("cos", {n, w}, kUnit);
  const auto sin = u16("sin", {n, w}, kUnit);
  const auto shifted = u16("shifted", {n, w}, kShifted);
  const auto k_new = add("k_new.0", TensorRole::kOutput, DType::kU8, {1, n, w}, kKeys);
  const auto keys = add("keys", TensorRole::kActivation, DType::kU8, {1, c + n, w}, kKeys);
  const auto q = u16("q", {1, n, w}, kShifted);
  const auto scores = u16("scores", {1, n, c + n}, kScores);
  const auto masked = u16("masked", {1, n, c + n}, kScores);
  const auto attended = u16("attended", {1, n, w}, kHidden);
  const auto joined = u16("joined", {n, w}, kHidden);
  const auto hidden = u16("hidden", {n, w}, kHidden);
  const auto logits = add("logits", TensorRole::kOutput, DType::kU16, {n, kVocab}, kLogits);
  op(ir::OpKind::kEmbedding, {tokens_in, table}, {x}, on_host);
  op(ir::OpKind::kRopeTable, {positions, frequency}, {cos, sin});
  op(ir::OpKind::kAdd, {x, cos}, {shifted});
  op(ir::OpKind::kSplitHeads, {x}, {k_new}, heads);
  op(ir::OpKind::kAppendRows, {cache, k_new}, {keys});
  op(ir::OpKind::kSplitHeads, {shifted}, {q}, heads);
  op(ir::OpKind::kMatMul, {q, keys}, {scores}, transpose);
  op(ir::OpKind::kAddMask, {scores, mask}, {masked});
  op(ir::OpKind::kMatMul, {masked, keys}, {attended});
  op(ir::OpKind::kJoinHeads, {attended}, {joined});
  op(ir::OpKind::kAdd, {shifted, joined}, {hidden});
  op(ir::OpKind::kLinear, {hidden, lm_head}, {logits});
  const Status named = ir::set_purposes_from_names(g);
  EXPECT_TRUE(named.ok());
  return g;
}

// The shards' graphs.
inline Status build_first(const std::shared_ptr<const Context>& context, const std::string& name, int64_t tokens) {
  const auto n = static_cast<uint32_t>(tokens);
  const auto w = static_cast<uint32_t>(kWidth);
  std::vector<float> cosines;
  for (int64_t p = 0; p < kContext; ++p) {
    for (int64_t i = 0; i < kWidth; ++i) cosines.push_back(cosine(p, i));
  }
  SmallGraph g(context, name);
  const auto x = g.add(make_input("embedding.out", DataType::kFixedU16, {n, w}, offset_of(kUnit)));
  const auto positions = g.add(make_input("positions", DataType::kInt32, {n}));
  const auto table = g.add(
      make_static_fixed("table", DataType::kFixedU16, {static_cast<uint32_t>(kContext), w}, cosines, offset_of(kUnit)));
  const auto cos = g.add(make_native("cos", DataType::kFixedU16, {n, w}, offset_of(kUnit)));
  const auto shifted = g.add(make_output("shifted", DataType::kFixedU16, {n, w}, offset_of(kShifted)));
  g.node("Gather", {table, positions}, {cos}, {{"axis", int32_t{0}}});
  g.node("ElementWiseAdd", {x, cos}, {shifted});
  return g.finalize();
}

inline Status build_second(const std::shared_ptr<const Context>& context, const std::string& name, int64_t tokens) {
  const auto n = static_cast<uint32_t>(tokens);
  const auto w = static_cast<uint32_t>(kWidth), c = static_cast<uint32_t>(kContext);
  constexpr DataType u16 = DataType::kFixedU16, u8 = DataType::kFixedU8;
  SmallGraph g(context, name);
  const auto x = g.add(make_input("embedding.out", u16, {1, n, w}, offset_of(kUnit)));
  const auto shifted = g.add(make_input("shifted", u16, {1, n, w}, offset_of(kShifted)));
  const auto mask = g.add(make_input("mask", u16, {1, n, c + n}, offset_of(kMask)));
  const auto cache = g.add(make_input("k_cache.0", u8, {1, c, w}, offset_of(kKeys)));
  const auto k_new = g.add(make_output("k_new.0", u8, {1, n, w}, offset_of(kKeys)));
  const auto keys = g.add(make_native("keys", u8, {1, c + n, w}, offset_of(kKeys)));
  const auto scores = g.add(make_native("scores", u16, {1, n, c + n}, offset_of(kScores)));
  const auto masked = g.add(make_native("masked", u16, {1, n, c + n}, offset_of(kScores)));
  const auto attended = g.add(make_native("attended", u16, {1, n, w}, offset_of(kHidden)));
  const auto hidden = g.add(make_output("hidden", u16, {1, n, w}, offset_of(kHidden)));
  g.node("Convert", {x}, {k_new});
  g.node("Concat", {cache, k_new}, {keys}, {{"axis", uint32_t{1}}});
  g.node("MatMul", {shifted, keys}, {scores}, {{"transpose_in1", true}});
  g.node("ElementWiseAdd", {scores, mask}, {masked});
  g.node("MatMul", {masked, keys}, {attended});
  g.node("ElementWiseAdd", {shifted, attended}, {hidden});
  return g.finalize();
}

inline Status build_head(const std::shared_ptr<const Context>& context, const TinyModel& model) {
  SmallGraph g(context, "head");
  const auto w = static_cast<uint32_t>(kWidth), v = static_cast<uint32_t>(kVocab);
  const auto hidden = g.add(make_input("hidden", DataType::kFixedU16, {1, 1, 1, w}, offset_of(kHidden)));
  const auto weights = g.add(make_conv2d_weights("lm_head", model.head));
  const auto logits = g.add(make_output("logits", DataType::kFixedU16, {1, 1, 1, v}, offset_of(kLogits)));
  g.node("Conv2d", {hidden, weights}, {logits},
         {{"stride", U32Values{{2}, {1, 1}}}, {"pad_amount", U32Values{{2, 2}, {0, 0, 0, 0}}}});
  return g.finalize();
}

// The binaries of the three shards, compiled once per process.
inline const Result<std::vector<OwnedBinary>>& tiny_binaries() {
  static const auto* const binaries = [] {
    const auto compile = []() -> Result<std::vector<OwnedBinary>> {
      if (!qnn_device().ok()) return qnn_device().error();
      std::vector<OwnedBinary> made;
      for (int shard = 0; shard < 3; ++shard) {
        TANDEM_ASSIGN(const auto context, Context::create(qnn_device().value(), {}));
        if (shard == 0) TANDEM_TRY(build_first(context, "decode.first", 1));
        if (shard == 0) TANDEM_TRY(build_first(context, "prefill_4.first", kPrefill));
        if (shard == 1) TANDEM_TRY(build_second(context, "decode.second", 1));
        if (shard == 1) TANDEM_TRY(build_second(context, "prefill_4.second", kPrefill));
        if (shard == 2) TANDEM_TRY(build_head(context, TinyModel()));
        TANDEM_ASSIGN(OwnedBinary binary, context->binary());
        made.push_back(std::move(binary));
      }
      return made;
    };
    return new Result<std::vector<OwnedBinary>>(compile());
  }();
  return *binaries;
}

inline ArtifactHeader tiny_header() {
  ArtifactHeader header;
  header.producer = "tandem test";
  header.target = "sm8750";
  header.backend = "qnn";
  header.model = {"tiny", "tiny", "Tiny", kVocab, kWidth, 1, 1, 1, kWidth, kContext, 0};
  header.methods = {tiny_graph("decode", 1), tiny_graph("prefill_4", kPrefill)};
  header.device.soc_model = test_soc();
  header.device.arch = known_arch(test_soc());
  header.device.vtcm_mb = 8;
  const auto& library = qnn_library();
  header.device.core_version = version_text(library.ok() ? library.value()->core_version() : kOldestCore);
  header.device.backend_version = version_text(library.ok() ? library.value()->htp_version() : kOldestHtp);
  header.shards.resize(3);
  header.shards[0].name = "first";
  header.shards[0].graphs = {{"decode.first", "decode", 1}, {"prefill_4.first", "prefill_4", kPrefill}};
  header.shards[1].name = "second";
  header.shards[1].graphs = {{"decode.second", "decode", 1}, {"prefill_4.second", "prefill_4", kPrefill}};
  header.shards[2].name = "head";
  header.shards[2].graphs = {{"head", "decode", 1}, {"head", "prefill_4", 1}};
  return header;
}

// Assembles the file: the table in segment 0, each binary in its own segment. `change` may corrupt the header, and the
// binaries before or after their checksums are computed.
struct TinyChanges {
  std::function<void(ArtifactHeader&)> header;
  std::function<void(std::vector<OwnedBinary>&)> binaries;
};
inline Result<Artifact> tiny_artifact(const ::tandem::test::TempFolder& folder, const TinyChanges& changes = {}) {
  TANDEM_ASSIGN(std::vector<OwnedBinary> binaries, tiny_binaries());
  if (changes.binaries) changes.binaries(binaries);
  ArtifactHeader header = tiny_header();
  std::vector<SegmentFile> files;
  const auto add_segment = [&](const std::string& name, std::span<const uint8_t> bytes) {
    ::tandem::test::write_file(folder / name, bytes);
    files.push_back({name, folder / name, hash_bytes(bytes)});
  };
  WeightMatrix table;
  table.format = WeightFormat::kF32;
  table.rows = kVocab;
  table.cols = kWidth;
  table.f32 = TinyModel().table;
  const PackedStorage packed = pack_matrix(table);
  add_segment("embedding", packed.data);
  WeightEntry entry;
  entry.name = "embedding";
  entry.rows = kVocab;
  entry.cols = kWidth;
  entry.data = {0, 0, packed.data.size()};
  header.weights = {entry};
  for (size_t i = 0; i < binaries.size(); ++i) {
    add_segment(header.shards[i].name, binaries[i].bytes);
    header.shards[i].binary = {static_cast<uint32_t>(i + 1), 0, binaries[i].bytes.size()};
    header.shards[i].checksum = binaries[i].checksum;
  }
  if (changes.header) changes.header(header);
  TANDEM_TRY(write_artifact(folder / "tiny.tdm", header, files, {}));
  return Artifact::open(folder / "tiny.tdm");
}

// The logits, rounded only at the shards' inputs and outputs. Rows of padding are left at 0.
inline std::vector<float> expected_logits(const std::vector<int32_t>& tokens, const std::vector<int32_t>& positions,
                                          const std::vector<float>& cache, const std::vector<float>& mask) {
  const TinyModel model;
  const size_t n = tokens.size(), w = kWidth, c = kContext;
  std::vector<float> x(n * w), keys = cache;
  for (size_t i = 0; i < n * w; ++i) {
    x[i] = rounded(DType::kU16, kUnit, model.table[static_cast<size_t>(tokens[i / w]) * w + i % w]);
    keys.push_back(rounded(DType::kU8, kKeys, x[i]));
  }
  std::vector<float> logits(n * static_cast<size_t>(kVocab));
  for (size_t row = 0; row < n; ++row) {
    if (positions[row] < 0) continue;
    std::vector<float> shifted(w), hidden(w), weights(w);
    for (size_t i = 0; i < w; ++i) {
      shifted[i] = rounded(DType::kU16, kShifted, x[row * w + i] + cosine(positions[row], static_cast<int64_t>(i)));
    }
    hidden = shifted;
    for (size_t slot = 0; slot < c + n; ++slot) {
      float score = 0;
      for (size_t i = 0; i < w; ++i) score += shifted[i] * keys[slot * w + i];
      score += mask[row * (c + n) + slot];
      for (size_t i = 0; i < w; ++i) hidden[i] += score * keys[slot * w + i];
    }
    for (float& value : hidden) value = rounded(DType::kU16, kHidden, value);
    for (int64_t v = 0; v < kVocab; ++v) {
      model.head.dequantize_row(v, weights.data());
      float sum = 0;
      for (size_t i = 0; i < w; ++i) sum += weights[i] * hidden[i];
      logits[row * static_cast<size_t>(kVocab) + static_cast<size_t>(v)] = sum;
    }
  }
  return logits;
}

inline QnnOptions tiny_options() {
  QnnOptions options;
  if (qnn_library().ok()) options.libraries = qnn_library().value()->path();
  return options;
}

}  // namespace tandem::qnn::test

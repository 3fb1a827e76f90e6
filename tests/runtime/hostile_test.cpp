// Well-formed headers that request something that no machine can do.
#include <gtest/gtest.h>

#include <cstring>

#include "artifact/header_codec.h"
#include "artifact/preamble.h"
#include "artifact/reader.h"
#include "eval/tested_model.h"
#include "support/compiled_model.h"
#include "support/score_rows.h"

namespace tandem {
namespace hostile_test {

class HostileHeader : public testing::Test {
 protected:
  void SetUp() override { open(TANDEM_SOURCE_DIR "/tests/data/artifact/v1.tdm"); }

  void open(const std::filesystem::path& path) {
    const auto bytes = test::read_file(path);
    Preamble preamble;
    std::memcpy(&preamble, bytes.data(), sizeof(preamble));
    data_.assign(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(preamble.header_offset));
    const auto artifact = Artifact::open(path);
    ASSERT_TRUE(artifact.ok()) << artifact.error().message;
    header_ = artifact->header();
  }

  // The file with the changed header and correct checksums.
  std::filesystem::path write() {
    const std::vector<uint8_t> encoded = encode_header(header_);
    Preamble preamble;
    preamble.version = kArtifactVersion;
    preamble.file_size = data_.size() + encoded.size();
    preamble.header_offset = data_.size();
    preamble.header_size = encoded.size();
    preamble.header_hash = hash_bytes(encoded);
    const std::span<const uint8_t> bytes(reinterpret_cast<const uint8_t*>(&preamble), sizeof(preamble));
    preamble.preamble_hash = hash_bytes(bytes.first(sizeof(preamble) - sizeof(uint64_t)));
    std::vector<uint8_t> file = data_;
    std::memcpy(file.data(), &preamble, sizeof(preamble));
    file.insert(file.end(), encoded.begin(), encoded.end());
    test::write_file(folder_ / "hostile.tdm", file);
    return folder_ / "hostile.tdm";
  }

  // Sets the context everywhere that a file compiled with it would have it.
  void set_context(int64_t context) {
    for (ir::Graph& graph : header_.methods) {
      for (const ir::Op& op : graph.ops) {
        if (op.kind == ir::OpKind::kMaskToFloat) graph.at(op.outputs[0]).shape[1] = context;
      }
      for (ir::Tensor& t : graph.tensors) {
        if (t.role == ir::TensorRole::kState || t.name == "mask") t.shape[1] = context;
      }
      graph.context = context;
    }
  }

  const test::TempFolder folder_;
  std::vector<uint8_t> data_;
  ArtifactHeader header_;
};

TEST_F(HostileHeader, UnchangedItRuns) {
  EXPECT_EQ(test::greedy_file(write(), std::vector<int32_t>{1, 2}, 3).size(), 3u);
  set_context(200);
  EXPECT_EQ(test::greedy_file(write(), std::vector<int32_t>(100, 2), 3).size(), 3u);
}

TEST_F(HostileHeader, ContextsThatNoMachineHolds) {
  for (const int64_t context : {int64_t{1} << 31, int64_t{1} << 30, (int64_t{1} << 31) - 1}) {
    SCOPED_TRACE(context);
    set_context(context);
    const auto engine = Engine::load(write(), {.threads = 1});
    if (!engine.ok()) continue;  // Refused even earlier.
    const auto session = (*engine)->new_session();
    ASSERT_FALSE(session.ok());
    EXPECT_EQ(session.error().code, ErrorCode::kResourceExhausted);
    EXPECT_NE(session.error().message.find("context"), std::string::npos) << session.error().message;
  }
  set_context(int64_t{1} << 40);
  EXPECT_FALSE(Engine::load(write(), {.threads = 1}).ok());
}

TEST_F(HostileHeader, ATokenizerThatIsNowhere) {
  header_.text.tokenizer = {};
  const auto engine = Engine::load(write(), {.threads = 1});
  ASSERT_FALSE(engine.ok());
  EXPECT_NE(engine.error().message.find("tokenizer"), std::string::npos) << engine.error().message;
}

// Graphs may have such activations; the CPU's kernels write floats.
TEST_F(HostileHeader, ActivationsThatAreNoFloatsAreRefused) {
  const ArtifactHeader whole = header_;
  for (size_t i = 0; i < whole.methods[0].tensors.size(); ++i) {
    if (whole.methods[0].tensors[i].role != ir::TensorRole::kActivation) continue;
    // The file has a few unused ones that passes left behind.
    const auto writes = [&](const ir::Op& op) { return std::ranges::count(op.outputs, static_cast<int32_t>(i)) > 0; };
    if (std::ranges::none_of(whole.methods[0].ops, writes)) continue;
    for (const DType dtype : {DType::kF16, DType::kU16, DType::kU8}) {
      header_ = whole;
      ir::Tensor& tensor = header_.methods[0].tensors[i];
      tensor.dtype = dtype;
      if (dtype != DType::kF16) tensor.encoding = {ir::EncodingKind::kPerTensor, 1.0f, 100};
      const auto engine = Engine::load(write(), {.threads = 1});
      ASSERT_FALSE(engine.ok()) << tensor.name;
      EXPECT_NE(engine.error().message.find("decode"), std::string::npos) << engine.error().message;
    }
  }
}

TEST_F(HostileHeader, KeysAndValuesOfDifferentTypesAreRefused) {
  for (ir::Graph& graph : header_.methods) {
    for (const ir::Op& op : graph.ops) {
      if (!ir::is_attention(op.kind)) continue;
      ASSERT_EQ(op.inputs.size(), 5u) << "the file's caches have scales";
      graph.at(op.inputs[1]).dtype = DType::kF16;
      graph.at(op.inputs[2]).dtype = DType::kF32;
    }
  }
  const auto engine = Engine::load(write(), {.threads = 1});
  ASSERT_FALSE(engine.ok());
  EXPECT_NE(engine.error().message.find("keys in f16 and values in f32"), std::string::npos) << engine.error().message;
}

// No model of ours does it, but a graph may: layers whose own input is added to their output. Results overwrite
// a buffer that no later op reads; it must not be one that other tasks of the layer still read.
TEST_F(HostileHeader, ALayersInputMayBeAddedToItsOutput) {
  // Enough tokens for a layer to have several tasks.
  open(test::compiled({.checkpoint = test::golden_dir("llama2"), .recipe = "fp32", .prefill = {128}, .context = 128}));
  int changed = 0;
  for (ir::Graph& graph : header_.methods) {
    for (size_t i = 1; i < graph.ops.size(); ++i) {
      const ir::Op& layer = graph.ops[i - 1];
      if (layer.kind != ir::OpKind::kLinear || graph.ops[i].kind != ir::OpKind::kAdd) continue;
      if (graph.at(layer.inputs[0]).shape != graph.at(layer.outputs[0]).shape) continue;
      graph.ops[i].inputs = {layer.inputs[0], layer.outputs[0]};
      ++changed;
    }
  }
  ASSERT_GT(changed, 0);
  const auto file = write();
  std::vector<int32_t> tokens;
  for (int32_t i = 0; i < 128; ++i) tokens.push_back(i * i % 97);
  TestedModelOptions options;
  options.phase = Phase::kQdq;
  options.context = static_cast<int64_t>(tokens.size());
  const auto reference = TestedModel::open(file, options);
  ASSERT_TRUE(reference.ok()) << reference.error().message;
  const auto wanted = test::score_rows(**reference, tokens);
  EXPECT_GE(test::sqnr_db(wanted, test::score_file(file, tokens)), 100.0);
}

TEST_F(HostileHeader, AnotherBackEndOrMethodIsRefusedByName) {
  header_.backend = "abacus";
  EXPECT_NE(Engine::load(write()).error().message.find("abacus"), std::string::npos);
  header_.backend = "cpu";
  std::erase_if(header_.methods, [](const ir::Graph& graph) { return graph.tokens == 1; });
  EXPECT_NE(Engine::load(write()).error().message.find("decode"), std::string::npos);
}

}  // namespace hostile_test
}  // namespace tandem

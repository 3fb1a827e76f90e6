// Runs the tool as a user would, and opens its output.
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <array>
#include <cmath>
#include <cstdio>
#include <set>

#include "checkpoint/checkpoint.h"
#include "checkpoint/support.h"

namespace tandem {
namespace make_checkpoint_test {

namespace fs = std::filesystem;
using test::TempFolder;

struct Outcome {
  int code = -1;
  std::string output;
};

Outcome run(const std::string& arguments) {
  Outcome result;
  FILE* pipe = ::popen((std::string(TANDEM_MAKE_CHECKPOINT) + " " + arguments + " 2>&1").c_str(), "r");
  if (pipe == nullptr) return result;
  std::array<char, 4096> buffer;
  while (std::fgets(buffer.data(), buffer.size(), pipe) != nullptr) result.output += buffer.data();
  const int status = ::pclose(pipe);
  result.code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  return result;
}

Result<Checkpoint> make(const fs::path& folder, const std::string& arguments) {
  const Outcome made = run(folder.string() + " -q " + arguments);
  EXPECT_EQ(made.code, 0) << made.output;
  EXPECT_EQ(made.output, "");
  return Checkpoint::open(folder);
}

TEST(MakeCheckpoint, EveryFamilyHasItsTensors) {
  for (const std::string family : {"llama", "qwen2", "qwen3"}) {
    SCOPED_TRACE(family);
    TempFolder folder;
    const auto checkpoint = make(folder.path(), "--shape tiny --untied --family " + family);
    ASSERT_TRUE(checkpoint.ok()) << checkpoint.error().message;
    const ModelConfig& config = checkpoint->config();
    EXPECT_EQ(config.model_type, family);
    EXPECT_EQ(config.tie_word_embeddings, false);
    EXPECT_TRUE(config.unread_keys.empty());
    EXPECT_EQ(checkpoint->has("model.layers.1.self_attn.q_proj.bias"), family == "qwen2");
    EXPECT_EQ(checkpoint->has("model.layers.1.self_attn.q_norm.weight"), family == "qwen3");
    EXPECT_EQ(checkpoint->tensor("lm_head.weight")->shape, (std::vector<int64_t>{320, 64}));
    EXPECT_EQ(checkpoint->tensor("model.layers.0.mlp.down_proj.weight")->shape, (std::vector<int64_t>{64, 160}));
    EXPECT_EQ(checkpoint->generation().eos_token_ids, (std::vector<int64_t>{258, 256}));
    EXPECT_TRUE(checkpoint->tokenizer_path().has_value());
    EXPECT_TRUE(checkpoint->tokenizer_config().chat_template.has_value());
    for (const auto& file : fs::directory_iterator(folder.path())) EXPECT_NE(file.path().extension(), ".partial");
  }
}

// The embedding of 2000 x 64 numbers has the expected standard deviation, in every dtype.
TEST(MakeCheckpoint, WeightsHaveTheExpectedDeviation) {
  for (const std::string dtype : {"f32", "f16", "bf16"}) {
    SCOPED_TRACE(dtype);
    TempFolder folder;
    const auto checkpoint = make(folder.path(), "--vocab 2000 --dtype " + dtype);
    ASSERT_TRUE(checkpoint.ok()) << checkpoint.error().message;
    const auto tensor = checkpoint->tensor("model.embed_tokens.weight");
    ASSERT_TRUE(tensor.ok());
    EXPECT_EQ(dtype_name(tensor->dtype), dtype);
    const auto values = read_tensor_f32(*tensor);
    ASSERT_TRUE(values.ok());
    double sum = 0, squares = 0;
    for (const float value : *values) {
      sum += static_cast<double>(value);
      squares += static_cast<double>(value) * static_cast<double>(value);
    }
    const double count = static_cast<double>(values->size());
    EXPECT_NEAR(sum / count, 0, 0.002);
    EXPECT_NEAR(std::sqrt(squares / count), 1 / 8.0, 0.002);
    const auto norm = read_tensor_f32(*checkpoint->tensor("model.norm.weight"));
    for (const float value : *norm) EXPECT_NEAR(value, 1, 0.25);
  }
}

TEST(MakeCheckpoint, ShardsHoldTheSameWeights) {
  TempFolder one, many;
  const auto whole = make(one.path(), "--seed 5 --threads 1");
  const auto sharded = make(many.path(), "--seed 5 --threads 3 --shard-size 50KB");
  ASSERT_TRUE(whole.ok() && sharded.ok());
  EXPECT_TRUE(fs::exists(many.path() / "model.safetensors.index.json"));
  EXPECT_GT(std::distance(fs::directory_iterator(many.path()), fs::directory_iterator()), 7);
  EXPECT_EQ(whole->names(), sharded->names());
  std::set<float> firsts;
  for (const std::string& name : whole->names()) {
    const auto values = read_tensor_f32(*whole->tensor(name));
    EXPECT_EQ(*values, *read_tensor_f32(*sharded->tensor(name))) << name;
    firsts.insert(values->front());
  }
  EXPECT_GT(firsts.size(), whole->names().size() / 2) << "tensors should differ";
  TempFolder other;
  const auto reseeded = make(other.path(), "--seed 6");
  EXPECT_NE(*read_tensor_f32(*whole->tensor("model.norm.weight")),
            *read_tensor_f32(*reseeded->tensor("model.norm.weight")));
}

TEST(MakeCheckpoint, KeepsAnOldCheckpointUnlessForced) {
  TempFolder folder;
  ASSERT_TRUE(make(folder.path(), "").ok());
  const Outcome again = run(folder.path().string());
  EXPECT_EQ(again.code, 1);
  EXPECT_NE(again.output.find("--force"), std::string::npos) << again.output;
  ASSERT_TRUE(make(folder.path(), "--force --shard-size 50KB").ok());
  EXPECT_FALSE(fs::exists(folder.path() / "model.safetensors"));
}

TEST(MakeCheckpoint, CopiesATokenizer) {
  TempFolder folder;
  const fs::path demo = fs::path(TANDEM_SOURCE_DIR) / "models/demo/tokenizer.json";
  const auto checkpoint = make(folder.path(), "--vocab 2048 --tokenizer " + demo.string());
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.error().message;
  EXPECT_EQ(test::read_all(*checkpoint->tokenizer_path()), test::read_all(demo));
  EXPECT_EQ(checkpoint->generation().eos_token_ids, (std::vector<int64_t>{2, 0}));
  TempFolder wrong;
  for (const char* content : {"", "[]", "{}", R"({"model":{}})", R"({"model":7})", R"({"model":{"vocab":7}})"}) {
    wrong.write("t.json", content);
    const Outcome bad = run((wrong.path() / "out").string() + " --tokenizer " + (wrong.path() / "t.json").string());
    EXPECT_EQ(bad.code, 1) << content << bad.output;
  }
  TempFolder small;
  const Outcome refused = run(small.path().string() + " --vocab 300 --tokenizer " + demo.string());
  EXPECT_EQ(refused.code, 1);
  EXPECT_NE(refused.output.find("--vocab"), std::string::npos) << refused.output;
}

TEST(MakeCheckpoint, RefusesWrongShapes) {
  for (const std::string arguments :
       {"--heads 3", "--head-dim 7", "--hidden 0", "--layers -1", "--vocab 100", "--shape qwen9", "--family gpt",
        "--tied --untied", "--heads 10000000 --kv-heads 1 --head-dim 10000000", "--shard-size lots", "--dtype int4"}) {
    TempFolder folder;
    const Outcome refused = run(folder.path().string() + " " + arguments);
    EXPECT_NE(refused.code, 0) << arguments;
    EXPECT_NE(refused.output, "") << arguments;
    EXPECT_TRUE(fs::is_empty(folder.path())) << arguments;
  }
}

TEST(MakeCheckpoint, TheByteTokenizerHasEveryByteOnce) {
  TempFolder folder;
  const auto checkpoint = make(folder.path(), "");
  ASSERT_TRUE(checkpoint.ok());
  const auto json = parse_json(test::read_all(*checkpoint->tokenizer_path()), "tokenizer.json");
  ASSERT_TRUE(json.ok());
  const Json& vocab = (*json)["model"]["vocab"];
  ASSERT_EQ(vocab.size(), 256u);
  std::set<int> ids;
  for (const auto& [text, id] : vocab.items()) ids.insert(id.get<int>());
  EXPECT_EQ(ids.size(), 256u);
  EXPECT_EQ(vocab["A"], 65);
  EXPECT_EQ(vocab["\u0120"], 32);  // A space, as every byte-level vocabulary writes it.
  EXPECT_EQ(vocab["\u010a"], 10);  // A line feed.
}

}  // namespace make_checkpoint_test
}  // namespace tandem

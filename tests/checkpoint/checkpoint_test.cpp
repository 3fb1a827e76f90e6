#include "checkpoint/checkpoint.h"

#include <cmath>
#include <set>

#include "checkpoint/hub/weight_index.h"
#include "checkpoint/support.h"

namespace tandem {
namespace checkpoint_test {

namespace fs = std::filesystem;
using test::kGolden;
using test::TempFolder;

TEST(Checkpoint, OpensEveryFamilyWithBothConfigs) {
  int families = 0;
  for (const auto& entry : fs::directory_iterator(kGolden)) {
    if (!entry.is_directory()) continue;
    ++families;
    for (const char* config : {"config.json", "config.v5.json"}) {
      SCOPED_TRACE(entry.path().string() + " " + config);
      const auto checkpoint = Checkpoint::open(entry.path(), {.config_name = config});
      ASSERT_TRUE(checkpoint.ok()) << checkpoint.error().message;
      const std::string embedding =
          checkpoint->config().model_type == "codegen" ? "transformer.wte.weight" : "model.embed_tokens.weight";
      const auto tensor = checkpoint->tensor(embedding);
      ASSERT_TRUE(tensor.ok()) << tensor.error().message;
      EXPECT_EQ(tensor->shape,
                (std::vector<int64_t>{checkpoint->config().vocab_size, checkpoint->config().hidden_size}));
      for (const std::string& name : checkpoint->names()) {
        const auto values = read_tensor_f32(*checkpoint->tensor(name));
        ASSERT_TRUE(values.ok());
        for (const float value : *values) ASSERT_TRUE(std::isfinite(value)) << name;
      }
      EXPECT_FALSE(checkpoint->tokenizer_path().has_value());
    }
  }
  EXPECT_EQ(families, 15);
}

struct Known {
  std::string family;
  std::string name;
  DType dtype;
  std::vector<int64_t> shape;
  double sum;
  double first;
  double last;
};

// Computed from the files with a few lines of Python's struct module.
TEST(Checkpoint, ReadsKnownTensors) {
  const Known known[] = {
      {"llama2",
       "model.layers.1.mlp.down_proj.weight",
       DType::kF32,
       {64, 172},
       -30.531026744622068,
       -0.43368545174598694,
       -0.05012870579957962},
      {"qwen2_5",
       "model.layers.0.self_attn.k_proj.bias",
       DType::kBF16,
       {32},
       -1.76153564453125,
       -0.1962890625,
       -0.77734375},
      {"qwen2_5", "model.embed_tokens.weight", DType::kBF16, {288, 64}, -12.225301049649715, 0.1064453125, 0.5390625},
      {"smollm2",
       "model.layers.2.mlp.up_proj.weight",
       DType::kF16,
       {120, 72},
       -6.514978528022766,
       -0.0065460205078125,
       -0.01220703125},
      {"smollm2", "model.norm.weight", DType::kF16, {72}, 70.7635498046875, 0.64990234375, 1.0322265625},
      {"granite3_3",
       "model.layers.1.self_attn.q_proj.weight",
       DType::kF32,
       {64, 64},
       14.407632302765705,
       -0.009325402788817883,
       -0.1766451895236969},
      {"granite3_3",
       "model.norm.weight",
       DType::kF32,
       {64},
       63.355245649814606,
       0.9364557862281799,
       1.2821276187896729},
      {"codegen",
       "transformer.h.1.attn.qkv_proj.weight",
       DType::kF32,
       {192, 64},
       -5.366405236791252,
       -0.007432119455188513,
       -0.15030202269554138},
  };
  for (const Known& k : known) {
    SCOPED_TRACE(k.family + " " + k.name);
    const auto checkpoint = Checkpoint::open(kGolden / k.family);
    ASSERT_TRUE(checkpoint.ok()) << checkpoint.error().message;
    EXPECT_TRUE(checkpoint->has(k.name));
    const auto tensor = checkpoint->tensor(k.name);
    ASSERT_TRUE(tensor.ok()) << tensor.error().message;
    EXPECT_EQ(tensor->dtype, k.dtype);
    EXPECT_EQ(tensor->shape, k.shape);
    const auto values = read_tensor_f32(*tensor);
    ASSERT_TRUE(values.ok());
    double sum = 0;
    for (const float value : *values) sum += static_cast<double>(value);
    EXPECT_NEAR(sum, k.sum, 1e-9);
    EXPECT_EQ(static_cast<double>(values->front()), k.first);
    EXPECT_EQ(static_cast<double>(values->back()), k.last);
    // Released pages are faulted in again on the next read.
    checkpoint->release(*tensor);
    EXPECT_EQ(*read_tensor_f32(*checkpoint->tensor(k.name)), *values);
  }
}

TEST(Checkpoint, OpensShards) {
  const auto checkpoint = Checkpoint::open(kGolden / "granite3_3");
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.error().message;
  EXPECT_EQ(checkpoint->names().size(), 29u);
  EXPECT_FALSE(checkpoint->has("lm_head.weight"));
  const auto missing = checkpoint->tensor("lm_head.weight");
  ASSERT_FALSE(missing.ok());
  EXPECT_EQ(missing.error().code, ErrorCode::kNotFound);
  EXPECT_NE(missing.error().message.find("lm_head.weight"), std::string::npos);
}

TEST(Checkpoint, OpensTheQualityModel) {
  const fs::path folder = test::kShared / "quality-model/checkpoint";
  if (!fs::exists(folder)) GTEST_SKIP() << folder << " is not here";
  const auto checkpoint = Checkpoint::open(folder);
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.error().message;
  EXPECT_EQ(checkpoint->config().num_layers, 8);
  EXPECT_EQ(checkpoint->config().rope.theta, 500000.0);
  EXPECT_TRUE(checkpoint->has("model.layers.7.mlp.down_proj.weight"));
  EXPECT_EQ(checkpoint->tokenizer_path()->filename(), "tokenizer.json");
}

TEST(Checkpoint, OpensTheDemoModel) {
  const auto checkpoint = Checkpoint::open(fs::path(TANDEM_SOURCE_DIR) / "models/demo");
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.error().message;
  EXPECT_EQ(checkpoint->config().vocab_size, 2048);
  EXPECT_EQ(checkpoint->generation().eos_token_ids, (std::vector<int64_t>{2, 0}));
  EXPECT_EQ(checkpoint->generation().temperature, 0.7);
  EXPECT_EQ(checkpoint->generation().bos_token_id, 0);  // From config.json.
  EXPECT_TRUE(checkpoint->tokenizer_config().chat_template.has_value());
  EXPECT_EQ(checkpoint->tokenizer_config().eos_token, "<|im_end|>");
}

TEST(Checkpoint, MissingSideFilesAreFine) {
  TempFolder folder;
  fs::copy(kGolden / "smollm2/config.json", folder.path());
  fs::copy(kGolden / "smollm2/model.safetensors", folder.path());
  auto checkpoint = Checkpoint::open(folder.path());
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.error().message;
  EXPECT_EQ(checkpoint->generation().eos_token_ids, std::vector<int64_t>{2});
  EXPECT_FALSE(checkpoint->tokenizer_config().chat_template.has_value());
  EXPECT_FALSE(checkpoint->tokenizer_path().has_value());

  folder.write("tokenizer_config.json", R"({"chat_template":"old"})");
  folder.write("tokenizer.json.gz", "");
  EXPECT_EQ(Checkpoint::open(folder.path())->tokenizer_config().chat_template, "old");
  EXPECT_EQ(Checkpoint::open(folder.path())->tokenizer_path()->filename(), "tokenizer.json.gz");
  folder.write("chat_template.jinja", "new");
  folder.write("tokenizer.json", "{}");
  EXPECT_EQ(Checkpoint::open(folder.path())->tokenizer_config().chat_template, "new");
  EXPECT_EQ(Checkpoint::open(folder.path())->tokenizer_path()->filename(), "tokenizer.json");

  folder.write("generation_config.json", "[");
  const auto broken = Checkpoint::open(folder.path());
  ASSERT_FALSE(broken.ok());
  EXPECT_NE(broken.error().message.find("generation_config.json"), std::string::npos);
}

void expect_error(const fs::path& folder, ErrorCode code, std::string_view says, CheckpointOptions options = {}) {
  const auto checkpoint = Checkpoint::open(folder, options);
  ASSERT_FALSE(checkpoint.ok()) << says;
  EXPECT_EQ(checkpoint.error().code, code) << checkpoint.error().message;
  EXPECT_NE(checkpoint.error().message.find(says), std::string::npos) << checkpoint.error().message;
}

TEST(Checkpoint, RefusesWrongFolders) {
  TempFolder folder;
  expect_error(folder.path() / "nothing", ErrorCode::kNotFound, "no such folder");
  expect_error(folder.path(), ErrorCode::kNotFound, "empty");
  folder.write("file.onnx", "ONNX");
  expect_error(folder.path() / "file.onnx", ErrorCode::kInvalidArgument, "this is a file");
  expect_error(folder.path(), ErrorCode::kNotFound, "config.json");
  fs::copy(kGolden / "llama2/config.json", folder.path());
  expect_error(folder.path(), ErrorCode::kUnsupported, "file.onnx");
  folder.write("a_model.bin", "");
  expect_error(folder.path(), ErrorCode::kUnsupported, "a_model.bin");
  folder.write("other.safetensors", "");
  expect_error(folder.path(), ErrorCode::kNotFound, "other.safetensors");
  expect_error(folder.path(), ErrorCode::kInvalidArgument, "../config.json", {.config_name = "../config.json"});
  expect_error(folder.path(), ErrorCode::kInvalidArgument, "file", {.config_name = ""});
  expect_error(folder.path(), ErrorCode::kNotFound, "config.v5.json", {.config_name = "config.v5.json"});
}

TEST(Checkpoint, RefusesAnUnreadableFolder) {
  if (::geteuid() == 0) GTEST_SKIP() << "root can read everything";
  TempFolder folder;
  fs::permissions(folder.path(), fs::perms::none);
  expect_error(folder.path(), ErrorCode::kIo, "cannot be listed");
  fs::permissions(folder.path(), fs::perms::owner_all);
}

TEST(Checkpoint, ReportsMissingWeights) {
  TempFolder folder;
  fs::copy(kGolden / "llama2/config.json", folder.path());
  expect_error(folder.path(), ErrorCode::kNotFound, "no weights");
  folder.write("model.safetensors", test::safetensors("{}", 0));
  expect_error(folder.path(), ErrorCode::kCorrupt, "no tensors");
}

TEST(Checkpoint, QuantizedIsRefused) {
  TempFolder folder;
  folder.copy_from(kGolden / "llama2");
  Json config = Json::parse(test::read_all(kGolden / "llama2/config.json"));
  config["quantization_config"] = {{"quant_method", "awq"}};
  folder.write("config.json", config.dump());
  expect_error(folder.path(), ErrorCode::kUnsupported, "awq");
}

TEST(Checkpoint, OtherDTypesAreListedButRefused) {
  TempFolder folder;
  fs::copy(kGolden / "llama2/config.json", folder.path());
  folder.write("model.safetensors", test::safetensors(R"({"a":{"dtype":"F8_E4M3","shape":[4],"data_offsets":[0,4]},)"
                                                      R"("b":{"dtype":"I64","shape":[1],"data_offsets":[4,12]},)"
                                                      R"("c":{"dtype":"F64","shape":[1],"data_offsets":[12,20]},)"
                                                      R"("d":{"dtype":"F16","shape":[0],"data_offsets":[20,20]}})",
                                                      20));
  const auto checkpoint = Checkpoint::open(folder.path());
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.error().message;
  EXPECT_EQ(checkpoint->names(), (std::vector<std::string>{"a", "b", "c", "d"}));
  for (const auto& [name, dtype] : {std::pair{"a", "F8_E4M3"}, {"b", "I64"}, {"c", "F64"}}) {
    const auto tensor = checkpoint->tensor(name);
    ASSERT_FALSE(tensor.ok());
    EXPECT_EQ(tensor.error().code, ErrorCode::kUnsupported);
    EXPECT_NE(tensor.error().message.find(dtype), std::string::npos) << tensor.error().message;
    EXPECT_NE(tensor.error().message.find("model.safetensors"), std::string::npos) << tensor.error().message;
  }
  const auto empty = checkpoint->tensor("d");
  ASSERT_TRUE(empty.ok());
  EXPECT_TRUE(read_tensor_f32(*empty)->empty());
  checkpoint->release(*empty);
  checkpoint->release(TensorView{});
}

TEST(Checkpoint, RefusesBrokenShards) {
  TempFolder folder;
  folder.copy_from(kGolden / "granite3_3");
  const fs::path shard = folder.path() / "model-00007-of-00011.safetensors";
  const std::string bytes = test::read_all(shard);
  fs::remove(shard);
  expect_error(folder.path(), ErrorCode::kNotFound, "model-00007-of-00011.safetensors is missing; download it");
  for (size_t size = 0; size < bytes.size(); size += 4096) {
    folder.write(shard.filename().string(), std::string_view(bytes).substr(0, size));
    expect_error(folder.path(), ErrorCode::kCorrupt, "model-00007-of-00011.safetensors");
  }
  // A complete shard, but the wrong one.
  folder.write(shard.filename().string(), test::read_all(folder.path() / "model-00010-of-00011.safetensors"));
  expect_error(folder.path(), ErrorCode::kCorrupt, "should be in model-00007-of-00011.safetensors");
  folder.write(shard.filename().string(), bytes);
  EXPECT_TRUE(Checkpoint::open(folder.path()).ok());
}

TEST(WeightMap, RefusesHostileIndexes) {
  const std::pair<const char*, const char*> cases[] = {
      {"", "JSON"},
      {"[]", "weight_map"},
      {"{}", "weight_map"},
      {R"({"weight_map":[]})", "weight_map"},
      {R"({"weight_map":{"a":1}})", "file name"},
      {R"({"weight_map":{"a":""}})", "file name"},
      {R"({"weight_map":{"a":"."}})", "file name"},
      {R"({"weight_map":{"a":".."}})", "file name"},
      {R"({"weight_map":{"a":"../b.safetensors"}})", "../b.safetensors"},
      {R"({"weight_map":{"a":"/etc/passwd"}})", "/etc/passwd"},
      {R"({"weight_map":{"a":"x/y.safetensors"}})", "x/y.safetensors"},
      {R"({"weight_map":{"a":"x\\y.safetensors"}})", "file name"},
      {R"({"weight_map":{"a":"x\u0000.safetensors"}})", "file name"},
      {R"({"weight_map":{"a":"x.safetensors","a":"y.safetensors"}})", "twice"},
  };
  for (const auto& [text, says] : cases) {
    const auto result = parse_weight_map(text, "i.json");
    ASSERT_FALSE(result.ok()) << text;
    EXPECT_NE(result.error().message.find(says), std::string::npos) << result.error().message;
  }
  const auto good = parse_weight_map(
      R"({"metadata":{"total_size":"whatever","a":1},"weight_map":{"a":"x.safetensors","b":"x.safetensors"}})", "i");
  ASSERT_TRUE(good.ok()) << good.error().message;
  EXPECT_EQ(good->at("b"), "x.safetensors");
}

TEST(Checkpoint, FingerprintFollowsTheFiles) {
  TempFolder a;
  a.copy_from(kGolden / "smollm2");
  const auto fingerprint = [&](CheckpointOptions options = {}) {
    auto checkpoint = Checkpoint::open(a.path(), options);
    EXPECT_TRUE(checkpoint.ok());
    return checkpoint.ok() ? checkpoint->fingerprint() : 0;
  };
  std::set<uint64_t> seen;
  seen.insert(fingerprint());
  EXPECT_TRUE(seen.contains(fingerprint()));
  EXPECT_TRUE(seen.insert(fingerprint({.config_name = "config.v5.json"})).second);
  const fs::path weights = a.path() / "model.safetensors";
  fs::last_write_time(weights, fs::last_write_time(weights) + std::chrono::seconds(5));
  EXPECT_TRUE(seen.insert(fingerprint()).second);
  Json config = Json::parse(test::read_all(a.path() / "config.json"));
  config["rms_norm_eps"] = 1e-6;
  a.write("config.json", config.dump());
  EXPECT_TRUE(seen.insert(fingerprint()).second);
  a.write("tokenizer.json", "{}");
  EXPECT_TRUE(seen.insert(fingerprint()).second);
  a.write("generation_config.json", R"({"eos_token_id":7})");
  EXPECT_TRUE(seen.insert(fingerprint()).second);
}

// If it were silently left out, a tokenizer or a configuration would be missing from everything made from the
// checkpoint.
TEST(Checkpoint, RefusesAFileThatCannotBeExamined) {
  for (const char* name : {"generation_config.json", "tokenizer_config.json", "chat_template.jinja", "tokenizer.json",
                           "tokenizer.model", "added_tokens.json", "model.safetensors.index.json"}) {
    SCOPED_TRACE(name);
    const TempFolder folder;
    const fs::path copy = folder.path() / "model";
    fs::copy(kGolden / "qwen3", copy, fs::copy_options::recursive);
    ASSERT_TRUE(Checkpoint::open(copy).ok());
    fs::remove(copy / name);
    fs::create_symlink(name, copy / name);  // A link to itself.
    const auto checkpoint = Checkpoint::open(copy);
    ASSERT_FALSE(checkpoint.ok());
    EXPECT_NE(checkpoint.error().message.find(std::string(name) + ": cannot be accessed"), std::string::npos)
        << checkpoint.error().message;
  }
}

// A link that has nothing to do with the checkpoint does not matter.
TEST(Checkpoint, OtherFilesMayBeAnything) {
  const TempFolder folder;
  const fs::path copy = folder.path() / "model";
  fs::copy(kGolden / "qwen3", copy, fs::copy_options::recursive);
  fs::create_symlink("notes", copy / "notes");
  const auto checkpoint = Checkpoint::open(copy);
  EXPECT_TRUE(checkpoint.ok()) << checkpoint.error().message;
}

}  // namespace checkpoint_test
}  // namespace tandem

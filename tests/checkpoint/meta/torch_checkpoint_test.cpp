// Files written by torch.save(): Meta's folders, llama2.c's files, pytorch_model.bin. The same weights as the hub's.
#include <set>

#include "checkpoint/meta/meta_from_hub.h"

namespace tandem {
namespace torch_checkpoint_test {

namespace fs = std::filesystem;

using test::expect_error;
using test::expect_same_weights;
using test::kGolden;
using test::TempFolder;
using test::TorchTensorSpec;
using test::TorchWriter;

const fs::path kMeta = fs::path(TANDEM_SOURCE_DIR) / "tests/data/meta";

void expect_llama2_config(const Checkpoint& checkpoint, int64_t positions) {
  const ModelConfig& got = checkpoint.config();
  const auto hub = Checkpoint::open(kGolden / "llama2");
  const ModelConfig& wanted = hub->config();
  EXPECT_EQ(got.architecture, wanted.architecture);
  EXPECT_EQ(got.vocab_size, wanted.vocab_size);
  EXPECT_EQ(got.hidden_size, wanted.hidden_size);
  EXPECT_EQ(got.intermediate_size, wanted.intermediate_size);
  EXPECT_EQ(got.num_layers, wanted.num_layers);
  EXPECT_EQ(got.num_heads, wanted.num_heads);
  EXPECT_EQ(got.num_kv_heads, wanted.num_kv_heads);
  EXPECT_EQ(got.norm_eps, wanted.norm_eps);
  EXPECT_EQ(got.rope.theta, wanted.rope.theta);
  EXPECT_EQ(got.rope.type, "default");
  EXPECT_EQ(got.tie_word_embeddings, false);
  EXPECT_EQ(got.max_position_embeddings, positions);
  EXPECT_TRUE(got.unread_keys.empty());
  EXPECT_EQ(checkpoint.generation().eos_token_ids, std::vector<int64_t>{2});
  EXPECT_EQ(checkpoint.generation().bos_token_id, 1);
}

TEST(TorchCheckpoint, MetaEqualsHub) {
  const auto hub = Checkpoint::open(kGolden / "llama2");
  for (const fs::path& path : {kMeta / "llama2_meta", kMeta / "llama2_meta/consolidated.00.pth"}) {
    const auto meta = Checkpoint::open(path);
    ASSERT_TRUE(meta.ok()) << meta.error().message;
    expect_llama2_config(*meta, 4096);
    expect_same_weights(*meta, *hub);
  }
  EXPECT_EQ(Checkpoint::open(kMeta / "llama2_meta")->name(), "llama2_meta");
}

TEST(TorchCheckpoint, Llama2cEqualsHub) {
  const auto hub = Checkpoint::open(kGolden / "llama2");
  for (const fs::path& path : {kMeta / "llama2_c", kMeta / "llama2_c/stories.pt"}) {
    const auto stories = Checkpoint::open(path);
    ASSERT_TRUE(stories.ok()) << stories.error().message;
    expect_llama2_config(*stories, 256);
    expect_same_weights(*stories, *hub);
  }
  EXPECT_EQ(Checkpoint::open(kMeta / "llama2_c/stories.pt")->name(), "stories");
}

TEST(TorchCheckpoint, Llama2cFolderMayHaveParams) {
  TempFolder folder;
  folder.copy_from(kMeta / "llama2_c");
  folder.write("params.json", R"({"dim": 64, "n_layers": 2, "n_heads": 4, "vocab_size": 256, "norm_eps": 1e-05})");
  const auto stories = Checkpoint::open(folder.path());
  ASSERT_TRUE(stories.ok()) << stories.error().message;
  expect_llama2_config(*stories, 256);
  expect_same_weights(*stories, *Checkpoint::open(kGolden / "llama2"));
  // Without the weights it is Meta's, and the error says what is missing there.
  fs::remove(folder.path() / "stories.pt");
  expect_error(folder.path(), ErrorCode::kNotFound, "consolidated.00.pth");
}

TEST(TorchCheckpoint, Llama2cOtherForms) {
  const auto hub = Checkpoint::open(kGolden / "llama2");
  TorchWriter writer;
  std::vector<std::pair<std::string, std::string>> items;
  // Names as torch.compile() leaves them; the LM head shares the embedding's storage.
  const std::string embedding = test::float_bytes(*read_tensor_f32(*hub->tensor("model.embed_tokens.weight")));
  for (const char* name : {"tok_embeddings.weight", "output.weight"}) {
    items.push_back(
        {"_orig_mod." + std::string(name), writer.tensor({{256, 64}, embedding, "FloatStorage", {}, 0, -1, "e"})});
  }
  for (const char* name : {"attention.wq", "attention.wk", "attention.wv", "attention.wo"}) {
    items.push_back(
        {"_orig_mod.layers.0." + std::string(name) + ".weight", writer.tensor({{64, 64}, std::string(16384, '\0')})});
  }
  items.push_back(
      {"_orig_mod.layers.0.feed_forward.w1.weight", writer.tensor({{96, 64}, std::string(96 * 256, '\0')})});
  items.push_back({"_orig_mod.freqs_cos", writer.tensor({{4}, std::string(16, '\0')})});
  const std::string args = TorchWriter::dict({{"dim", test::pickle_int(64)},
                                              {"n_layers", test::pickle_int(1)},
                                              {"n_heads", test::pickle_int(4)},
                                              {"n_kv_heads", "N"},
                                              {"vocab_size", test::pickle_int(256)},
                                              {"multiple_of", test::pickle_int(32)},
                                              {"max_seq_len", test::pickle_int(77)},
                                              {"dropout", std::string("G\0\0\0\0\0\0\0\0", 9)}});
  TempFolder folder;
  folder.write("a.pt",
               writer.finish(TorchWriter::dict(
                   {{"model", TorchWriter::dict(items)},
                    {"model_args", args},
                    {"iter_num", test::pickle_int(3)},
                    {"config", TorchWriter::dict({{"dtype", test::pickle_text("bfloat16")}, {"compile", "\x88"}})},
                    {"best_val_loss", writer.tensor({{}, std::string(4, '\0')})}})));
  const auto stories = Checkpoint::open(folder.path());
  ASSERT_TRUE(stories.ok()) << stories.error().message;
  EXPECT_EQ(stories->config().tie_word_embeddings, true);
  EXPECT_EQ(stories->config().num_kv_heads, 4);
  EXPECT_EQ(stories->config().intermediate_size, 96);
  EXPECT_EQ(stories->config().max_position_embeddings, 77);
  EXPECT_FALSE(stories->has("lm_head.weight"));
  EXPECT_FALSE(stories->has("freqs_cos"));
  EXPECT_FALSE(stories->embedded_tokenizer()->has_value());

  folder.write("b.pt", "x");
  expect_error(folder.path(), ErrorCode::kInvalidArgument, "2 checkpoints; give one of them, such as a.pt");
  expect_error(folder.path() / "b.pt", ErrorCode::kCorrupt, "torch.save()");
  folder.write("c.pt", TorchWriter().finish(TorchWriter::dict({{"model", "}"}})));
  expect_error(folder.path() / "c.pt", ErrorCode::kUnsupported, "model_args");
  folder.write("c.pt", TorchWriter().finish(TorchWriter::dict({{"model", "]"}, {"model_args", "}"}})));
  expect_error(folder.path() / "c.pt", ErrorCode::kUnsupported, "dictionary of tensors");
  folder.write("c.pt", TorchWriter().finish(
                           TorchWriter::dict({{"model", TorchWriter::dict({{"x", "K\x01"}})}, {"model_args", "}"}})));
  expect_error(folder.path() / "c.pt", ErrorCode::kUnsupported, "\"x\" should be a tensor, but is a whole number");
  folder.write("c.pt", TorchWriter().finish(test::pickle_global("posix", "system") +
                                            test::pickle_text("touch /tmp/ran") + "\x85R"));
  expect_error(folder.path() / "c.pt", ErrorCode::kUnsupported, "posix.system");
}

TEST(TorchCheckpoint, TokenizersBesideTheWeights) {
  TempFolder folder;
  folder.copy_from(kMeta / "llama2_c");
  const uint64_t without = Checkpoint::open(folder.path() / "stories.pt")->fingerprint();
  folder.write("tokenizer.bin", "x");
  auto checkpoint = Checkpoint::open(folder.path() / "stories.pt");
  EXPECT_EQ(checkpoint->tokenizer_path(), folder.path() / "tokenizer.bin");
  EXPECT_NE(checkpoint->fingerprint(), without);

  TempFolder meta;
  fs::copy(kMeta / "llama2_meta", meta.path() / "model");
  EXPECT_FALSE(Checkpoint::open(meta.path() / "model")->tokenizer_path().has_value());
  meta.write("tokenizer.model", "x");  // Llama 2's layout: one for all models.
  EXPECT_TRUE(
      fs::equivalent(*Checkpoint::open(meta.path() / "model")->tokenizer_path(), meta.path() / "tokenizer.model"));
  meta.write("model/tokenizer.model", "y");
  EXPECT_EQ(Checkpoint::open(meta.path() / "model")->tokenizer_path(), meta.path() / "model/tokenizer.model");
}

TEST(TorchCheckpoint, FingerprintFollowsTheFiles) {
  TempFolder folder;
  folder.copy_from(kMeta / "llama2_meta");
  std::set<uint64_t> seen;
  const auto is_new = [&] { return seen.insert(Checkpoint::open(folder.path())->fingerprint()).second; };
  EXPECT_TRUE(is_new());
  EXPECT_FALSE(is_new());
  for (const char* name : {"params.json", "consolidated.00.pth"}) {
    const fs::path path = folder.path() / name;
    fs::last_write_time(path, fs::last_write_time(path) + std::chrono::seconds(5));
    EXPECT_TRUE(is_new()) << name;
  }
}

TEST(TorchCheckpoint, HubFoldersWithTorchWeights) {
  const auto hub = Checkpoint::open(kGolden / "llama2");
  TorchWriter all, first, second;
  std::vector<std::pair<std::string, std::string>> all_items, first_items, second_items;
  Json map;
  for (const std::string& name : hub->names()) {
    const auto view = *hub->tensor(name);
    const TorchTensorSpec spec{view.shape, test::float_bytes(*read_tensor_f32(view))};
    all_items.push_back({name, all.tensor(spec)});
    const bool in_first = name.find("layers.0") != std::string::npos;
    (in_first ? first_items : second_items).push_back({name, (in_first ? first : second).tensor(spec)});
    map[name] = in_first ? "pytorch_model-00001-of-00002.bin" : "pytorch_model-00002-of-00002.bin";
  }
  TempFolder folder;
  folder.write("config.json", test::read_all(kGolden / "llama2/config.json"));
  folder.write("pytorch_model.bin", all.finish(TorchWriter::dict(all_items)));
  auto checkpoint = Checkpoint::open(folder.path());
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.error().message;
  expect_same_weights(*checkpoint, *hub);
  fs::remove(folder.path() / "pytorch_model.bin");
  folder.write("pytorch_model.bin.index.json", Json({{"weight_map", map}}).dump());
  folder.write("pytorch_model-00001-of-00002.bin", first.finish(TorchWriter::dict(first_items)));
  expect_error(folder.path(), ErrorCode::kNotFound, "pytorch_model-00002-of-00002.bin");
  folder.write("pytorch_model-00002-of-00002.bin", second.finish(TorchWriter::dict(second_items)));
  checkpoint = Checkpoint::open(folder.path());
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.error().message;
  expect_same_weights(*checkpoint, *hub);
}

TEST(TorchCheckpoint, OtherFilesAreRefusedByName) {
  TempFolder folder;
  const auto refuse = [&](std::string_view content, ErrorCode code, std::string_view says) {
    folder.write("x.pth", content);
    expect_error(folder.path() / "x.pth", code, says);
  };
  refuse("", ErrorCode::kCorrupt, "empty");
  refuse(std::string_view("\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19.more", 19), ErrorCode::kUnsupported,
         "torch's old format");
  refuse(std::string_view("\x80\x04K\x01.", 5), ErrorCode::kUnsupported, "bare pickle");
  refuse("version https://git-lfs.github.com/spec/v1\n", ErrorCode::kNotFound, "git lfs pull");
  refuse("nonsense", ErrorCode::kCorrupt, "torch.save()");
  test::ZipWriter zip;
  zip.members = {{"word/document.xml", "<x/>"}};
  refuse(zip.finish(), ErrorCode::kUnsupported, "no data.pkl");
  zip.members = {{"a/data.pkl", "N."}, {"b/data.pkl", "N."}};
  refuse(zip.finish(), ErrorCode::kCorrupt, "two pickles");
  zip.members = {{"a/data.pkl", "N."}, {"a/byteorder", "big"}};
  refuse(zip.finish(), ErrorCode::kUnsupported, "big endian");
  folder.write("x.tdm", "TDM");
  expect_error(folder.path() / "x.tdm", ErrorCode::kInvalidArgument, "folder");
}

TEST(TorchCheckpoint, EveryTruncationIsAnError) {
  TempFolder folder;
  folder.copy_from(kMeta / "llama2_meta");
  const std::string bytes = test::read_all(folder.path() / "consolidated.00.pth");
  for (size_t size = 0; size < bytes.size(); size += 9973) {
    folder.write("consolidated.00.pth", std::string_view(bytes).substr(0, size));
    expect_error(folder.path(), ErrorCode::kCorrupt, "consolidated.00.pth");
  }
}

}  // namespace torch_checkpoint_test
}  // namespace tandem

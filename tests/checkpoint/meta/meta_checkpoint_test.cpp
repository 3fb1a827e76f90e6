// Meta's folders: parts are joined, generations are told apart, mistakes are named.
#include "chat/chat_template.h"
#include "checkpoint/meta/meta_from_hub.h"

namespace tandem {
namespace meta_checkpoint_test {

namespace fs = std::filesystem;

using test::expect_error;
using test::expect_same_weights;
using test::kGolden;
using test::MetaModel;
using test::TempFolder;
using test::TorchTensorSpec;

TEST(MetaCheckpoint, JoinsParts) {
  // llama3_2: 8 heads, 2 KV heads, tied. llama2: 4 heads, its own LM head.
  for (const auto& [family, parts] : {std::pair{"llama2", 2}, {"llama2", 4}, {"llama3_2", 2}}) {
    for (const bool by_rows : {false, true}) {
      const auto hub = Checkpoint::open(kGolden / family);
      TempFolder folder;
      const MetaModel model{*hub, parts, by_rows};
      model.save(folder);
      const auto meta = Checkpoint::open(folder.path());
      ASSERT_TRUE(meta.ok()) << meta.error().message;
      EXPECT_EQ(meta->config().vocab_size, hub->config().vocab_size);
      EXPECT_EQ(meta->config().intermediate_size, hub->config().intermediate_size);
      EXPECT_EQ(meta->config().tie_word_embeddings, !hub->has("lm_head.weight"));
      expect_same_weights(*meta, *hub);
    }
  }
}

TEST(MetaCheckpoint, ReadsHalvesAndSharedLmHeads) {
  const auto hub = Checkpoint::open(kGolden / "smollm2");  // f16, tied.
  TempFolder folder;
  MetaModel{*hub, 1, true, true, "HalfStorage"}.save(folder);
  const auto meta = Checkpoint::open(folder.path());
  ASSERT_TRUE(meta.ok()) << meta.error().message;
  EXPECT_EQ(meta->config().tie_word_embeddings, true);
  expect_same_weights(*meta, *hub);

  const auto bf16 = Checkpoint::open(kGolden / "llama2");
  TempFolder other;
  MetaModel{*bf16, 1, false, false, "BFloat16Storage"}.save(other);
  const auto rounded = Checkpoint::open(other.path());
  ASSERT_TRUE(rounded.ok()) << rounded.error().message;
  for (const std::string& name : bf16->names()) {
    auto expected = *read_tensor_f32(*bf16->tensor(name));
    for (float& value : expected) value = f32_from_bf16(bf16_from_f32(value));
    EXPECT_EQ(*read_tensor_f32(*rounded->tensor(name)), expected) << name;
  }
}

TEST(MetaCheckpoint, ReadsParamsOfEveryGeneration) {
  const auto hub = Checkpoint::open(kGolden / "llama3_2");
  TempFolder folder;
  const MetaModel model{*hub};
  model.save(folder);
  Json params = model.params();
  params["use_scaled_rope"] = true;
  params["ffn_dim_multiplier"] = 1.5;
  params["head_gain"] = 2;
  folder.write("params.json", params.dump());
  auto meta = Checkpoint::open(folder.path());
  ASSERT_TRUE(meta.ok()) << meta.error().message;
  EXPECT_EQ(meta->config().rope.type, "llama3");
  EXPECT_EQ(meta->config().rope.factor, 8.0);
  EXPECT_EQ(meta->config().rope.low_freq_factor, 1.0);
  EXPECT_EQ(meta->config().rope.high_freq_factor, 4.0);
  EXPECT_EQ(meta->config().rope.original_max_position_embeddings, 8192);
  EXPECT_EQ(meta->config().max_position_embeddings, 131072);
  EXPECT_EQ(meta->config().unread_keys, std::vector<std::string>{"head_gain"});
  params["rope_scaling_factor"] = 32;
  params["max_seq_len"] = 1000;
  folder.write("params.json", params.dump());
  meta = Checkpoint::open(folder.path());
  EXPECT_EQ(meta->config().rope.factor, 32.0);
  EXPECT_EQ(meta->config().max_position_embeddings, 1000);
  params["moe_args"] = {{"num_experts", 16}};
  folder.write("params.json", params.dump());
  expect_error(folder.path(), ErrorCode::kUnsupported, "moe_args");
}

std::string render(const Checkpoint& checkpoint, const std::vector<Message>& messages, bool add_generation_prompt) {
  const auto chat = make_chat_template(chat_template_source(checkpoint.tokenizer_config()), nullptr);
  if (!chat.ok()) return chat.error().message;
  const auto text = (*chat)->render(messages, add_generation_prompt);
  return text.ok() ? *text : text.error().message;
}

// The format that Meta documents for Llama 3 Instruct.
TEST(MetaCheckpoint, Llama3HasItsDialogFormat) {
  const auto hub = Checkpoint::open(kGolden / "llama3_2");
  TempFolder folder;
  const MetaModel model{*hub};
  model.save(folder);
  EXPECT_FALSE(Checkpoint::open(folder.path())->tokenizer_config().chat_template.has_value()) << "a small vocabulary";
  Json params = model.params();
  params["vocab_size"] = 128256;
  folder.write("params.json", params.dump());
  const auto meta = Checkpoint::open(folder.path());
  ASSERT_TRUE(meta.ok()) << meta.error().message;
  const std::vector<Message> messages = {
      {"system", "Be brief."}, {"user", " What is 1 + 1?\n"}, {"assistant", "2"}, {"user", "And 2 + 2?"}};
  const std::string dialog =
      "<|begin_of_text|><|start_header_id|>system<|end_header_id|>\n\nBe brief.<|eot_id|>"
      "<|start_header_id|>user<|end_header_id|>\n\nWhat is 1 + 1?<|eot_id|>"
      "<|start_header_id|>assistant<|end_header_id|>\n\n2<|eot_id|>"
      "<|start_header_id|>user<|end_header_id|>\n\nAnd 2 + 2?<|eot_id|>";
  EXPECT_EQ(render(*meta, messages, false), dialog);
  EXPECT_EQ(render(*meta, messages, true), dialog + "<|start_header_id|>assistant<|end_header_id|>\n\n");
}

TEST(MetaCheckpoint, TakesTheTemplateBesideTheWeights) {
  const auto hub = Checkpoint::open(kGolden / "llama3_2");
  TempFolder folder;
  const MetaModel model{*hub};
  model.save(folder);
  const uint64_t without = Checkpoint::open(folder.path())->fingerprint();
  folder.write("chat_template.jinja", "{% for m in messages %}[{{ m.role }}]{{ m.content }}{% endfor %}");
  auto meta = Checkpoint::open(folder.path());
  ASSERT_TRUE(meta.ok()) << meta.error().message;
  EXPECT_EQ(render(*meta, {{"user", "Hi"}}, true), "[user]Hi");
  EXPECT_NE(meta->fingerprint(), without);
  // It counts more than the format of Llama 3.
  Json params = model.params();
  params["vocab_size"] = 128256;
  folder.write("params.json", params.dump());
  EXPECT_EQ(render(*Checkpoint::open(folder.path()), {{"user", "Hi"}}, true), "[user]Hi");

  TempFolder stories;
  stories.copy_from(fs::path(TANDEM_SOURCE_DIR) / "tests/data/meta/llama2_c");
  stories.write("chat_template.jinja", "{{ messages[0].content }}!");
  EXPECT_EQ(render(*Checkpoint::open(stories.path()), {{"user", "Hi"}}, true), "Hi!");
}

TEST(MetaCheckpoint, RefusesBrokenFolders) {
  const auto hub = Checkpoint::open(kGolden / "llama2");
  const MetaModel model{*hub, 2};
  TempFolder folder;
  model.save(folder);
  ASSERT_TRUE(Checkpoint::open(folder.path()).ok());
  expect_error(folder.path(), ErrorCode::kInvalidArgument, "config.v5.json", {.config_name = "config.v5.json"});

  const std::string second = test::read_all(folder.path() / "consolidated.01.pth");
  fs::remove(folder.path() / "consolidated.01.pth");
  expect_error(folder.path(), ErrorCode::kCorrupt, "are all parts there?");
  folder.write("consolidated.02.pth", second);
  expect_error(folder.path(), ErrorCode::kNotFound, "consolidated.01.pth is missing");
  fs::remove(folder.path() / "consolidated.02.pth");
  folder.write("consolidated.1.pth", second);
  folder.write("consolidated.01.pth", second);
  expect_error(folder.path(), ErrorCode::kCorrupt, "part 1");
  fs::remove(folder.path() / "consolidated.1.pth");

  const auto with_edit = [&](const std::function<void(std::string&, TorchTensorSpec&)>& edit, ErrorCode code,
                             std::string_view says) {
    folder.write("consolidated.01.pth", model.write(1, edit));
    expect_error(folder.path(), code, says);
  };
  with_edit(
      [](std::string& name, TorchTensorSpec&) {
        if (name == "layers.1.attention.wv.weight") name.clear();
      },
      ErrorCode::kCorrupt, "part 1 has no tensor \"layers.1.attention.wv.weight\"");
  with_edit(
      [](std::string& name, TorchTensorSpec& t) {
        if (name == "norm.weight") t.shape = {32, 2};
      },
      ErrorCode::kCorrupt, "\"norm.weight\" differs between the parts");
  folder.write("consolidated.01.pth", second);
  folder.write("consolidated.00.pth", model.write(0, [](std::string& name, TorchTensorSpec&) {
    if (name == "norm.weight") name = "extra.weight";
  }));
  expect_error(folder.path(), ErrorCode::kUnsupported, "\"extra.weight\" is not known");

  folder.write("consolidated.00.pth", model.write(0));
  for (const auto& [key, value] : {std::pair<const char*, Json>{"dim", nullptr},
                                   {"dim", 0},
                                   {"dim", "x"},
                                   {"n_heads", 1e9},
                                   {"n_layers", -3},
                                   {"norm_eps", "small"},
                                   {"use_scaled_rope", 1}}) {
    Json params = model.params();
    params[key] = value;
    folder.write("params.json", params.dump());
    expect_error(folder.path(), ErrorCode::kCorrupt, key);
  }
  Json params = model.params();
  params["n_heads"] = 5;
  folder.write("params.json", params.dump());
  expect_error(folder.path(), ErrorCode::kCorrupt, "5 heads");
  folder.write("params.json", "[1]");
  expect_error(folder.path(), ErrorCode::kCorrupt, "params.json");
  fs::remove(folder.path() / "params.json");
  expect_error(folder.path(), ErrorCode::kNotFound, "no params.json");
  TempFolder only_params;
  only_params.write("params.json", model.params().dump());
  expect_error(only_params.path(), ErrorCode::kNotFound, "consolidated.00.pth");
}

TEST(MetaCheckpoint, BrokenTensorsAreNamed) {
  const auto hub = Checkpoint::open(kGolden / "llama2");
  const MetaModel model{*hub};
  const std::string name = "layers.1.feed_forward.w2.weight";
  const auto with_edit = [&](const std::function<void(TorchTensorSpec&)>& edit, ErrorCode code, std::string_view says) {
    TempFolder folder;
    model.save(folder);
    folder.write("consolidated.00.pth", model.write(0, [&](std::string& n, TorchTensorSpec& t) {
      if (n == name) edit(t);
    }));
    expect_error(folder.path(), code, says);
    expect_error(folder.path(), code, name);
  };
  with_edit([](TorchTensorSpec& t) { t.strides = {1, t.shape[0]}; }, ErrorCode::kUnsupported, "contiguous()");
  with_edit([](TorchTensorSpec& t) { t.strides = {0, 0}; }, ErrorCode::kUnsupported, "contiguous()");
  with_edit([](TorchTensorSpec& t) { t.offset = 1; }, ErrorCode::kCorrupt, "extends past its data");
  with_edit([](TorchTensorSpec& t) { t.offset = INT64_MAX; }, ErrorCode::kCorrupt, "extends past its data");
  with_edit([](TorchTensorSpec& t) { t.shape[0] = INT64_MAX; }, ErrorCode::kUnsupported, "contiguous()");
  with_edit([](TorchTensorSpec& t) { t.elements = INT64_MAX; }, ErrorCode::kCorrupt, "bytes");
  with_edit(
      [](TorchTensorSpec& t) {
        t.data.resize(8);
        t.elements = 64 * 172;
      },
      ErrorCode::kCorrupt, "8 bytes");
  with_edit([](TorchTensorSpec& t) { t.storage = "DoubleStorage"; }, ErrorCode::kUnsupported, "DoubleStorage");
  with_edit([](TorchTensorSpec& t) { t.storage = "LongStorage"; }, ErrorCode::kUnsupported, "LongStorage");
  with_edit(
      [](TorchTensorSpec& t) {
        t.shape = {0, 4};
        t.strides = {4, 1};
      },
      ErrorCode::kCorrupt, "size");
}

// A slice of a larger storage, and irrelevant strides.
TEST(MetaCheckpoint, ReadsContiguousViews) {
  const auto hub = Checkpoint::open(kGolden / "llama2");
  TempFolder folder;
  const MetaModel model{*hub};
  model.save(folder);
  folder.write("consolidated.00.pth", model.write(0, [](std::string& name, TorchTensorSpec& t) {
    if (name == "norm.weight") {
      t.data = std::string(20, 'x') + t.data + std::string(12, 'y');
      t.offset = 5;
      t.parameter = true;
    }
  }));
  const auto meta = Checkpoint::open(folder.path());
  ASSERT_TRUE(meta.ok()) << meta.error().message;
  expect_same_weights(*meta, *hub);
}

}  // namespace meta_checkpoint_test
}  // namespace tandem

// GGUF files as checkpoints: the hub's weights, configuration and tokenizer of the same model.
#include <cmath>

#include "base/json.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/checkpoint_tokenizer.h"
#include "checkpoint/support.h"
#include "support/gguf_from_hub.h"

namespace tandem {
namespace gguf_checkpoint_test {

namespace fs = std::filesystem;

using test::GgufWriter;
using test::kGolden;
using test::TempFolder;

const fs::path kGguf = fs::path(TANDEM_SOURCE_DIR) / "tests/data/gguf";

void expect_error(const fs::path& path, ErrorCode code, std::string_view says, CheckpointOptions options = {}) {
  const auto checkpoint = Checkpoint::open(path, options);
  ASSERT_FALSE(checkpoint.ok()) << says;
  EXPECT_EQ(checkpoint.error().code, code) << checkpoint.error().message;
  EXPECT_NE(checkpoint.error().message.find(says), std::string::npos) << checkpoint.error().message;
}

struct Family {
  const char* name;
  const char* arch;
};
constexpr Family kFamilies[] = {{"llama2", "llama"}, {"llama3_2", "llama"}, {"smollm2", "llama"}, {"qwen2_5", "qwen2"},
                                {"qwen3", "qwen3"},  {"gemma", "gemma"},    {"gemma2", "gemma2"}, {"gemma3", "gemma3"}};

void expect_same_config(const ModelConfig& got, const ModelConfig& wanted) {
  EXPECT_EQ(got.architecture, wanted.architecture);
  EXPECT_EQ(got.model_type, wanted.model_type);
  EXPECT_EQ(got.vocab_size, wanted.vocab_size);
  EXPECT_EQ(got.hidden_size, wanted.hidden_size);
  EXPECT_EQ(got.intermediate_size, wanted.intermediate_size);
  EXPECT_EQ(got.num_layers, wanted.num_layers);
  EXPECT_EQ(got.num_heads, wanted.num_heads);
  EXPECT_EQ(got.num_kv_heads, wanted.num_kv_heads);
  EXPECT_EQ(got.head_dim, wanted.head_dim);
  EXPECT_EQ(got.max_position_embeddings, wanted.max_position_embeddings);
  EXPECT_EQ(got.norm_eps, wanted.norm_eps);
  EXPECT_EQ(got.rope.theta, wanted.rope.theta);
  EXPECT_EQ(got.rope.type, wanted.rope.type);
  EXPECT_EQ(got.rope.factor, wanted.rope.factor);
  // Several original contexts may scale a few frequencies in the same way.
  if (wanted.rope.type == "llama3") {
    EXPECT_EQ(test::llama3_factors(got), test::llama3_factors(wanted));
  }
  EXPECT_EQ(got.rope.partial_rotary_factor, wanted.rope.partial_rotary_factor);
  EXPECT_EQ(got.attn_logit_softcapping, wanted.attn_logit_softcapping);
  EXPECT_EQ(got.query_pre_attn_scalar, wanted.query_pre_attn_scalar);
  EXPECT_EQ(got.local_rope.has_value(), wanted.local_rope.has_value());
  if (got.local_rope) {
    EXPECT_EQ(got.local_rope->theta, wanted.local_rope->theta);
  }
  EXPECT_TRUE(got.unread_keys.empty());
}

TEST(GgufCheckpoint, EveryFamilyInEveryType) {
  for (const Family& family : kFamilies) {
    const auto hub = Checkpoint::open(kGolden / family.name);
    ASSERT_TRUE(hub.ok());
    for (const uint32_t type : {test::kGgufF32, test::kGgufF16, test::kGgufBF16, test::kGgufQ8_0, test::kGgufQ4_0}) {
      SCOPED_TRACE(std::string(family.name) + " in type " + std::to_string(type));
      TempFolder folder;
      folder.write("m.gguf", test::gguf_from_hub(*hub, family.arch, type).finish());
      const auto gguf = Checkpoint::open(folder.path() / "m.gguf");
      ASSERT_TRUE(gguf.ok()) << gguf.error().message;
      expect_same_config(gguf->config(), hub->config());
      EXPECT_EQ(gguf->config().tie_word_embeddings, !hub->has("lm_head.weight"));
      EXPECT_EQ(gguf->names(), hub->names());
      for (const std::string& name : hub->names()) {
        const auto wanted = *hub->tensor(name);
        const auto got = gguf->tensor(name);
        ASSERT_TRUE(got.ok()) << name;
        ASSERT_EQ(got->shape, wanted.shape) << name;
        auto values = test::encode_numbers(*read_tensor_f32(wanted), test::type_for(wanted.shape, type)).values;
        if (std::string_view(family.arch).starts_with("gemma") && name.ends_with("norm.weight")) {
          for (float& value : values) value = (value + 1.0f) - 1.0f;  // What is left after the converter's addition.
        }
        EXPECT_EQ(*read_tensor_f32(*got), values) << name;
        const int64_t rows = tensor_rows(*got), size = tensor_row_size(*got);
        std::vector<float> part(static_cast<size_t>(3 * size));
        ASSERT_TRUE(read_rows_f32(*got, rows / 2, 3, part).ok());
        EXPECT_TRUE(std::equal(part.begin(), part.end(), values.begin() + rows / 2 * size)) << name;
        gguf->release_rows(*got, rows / 2, 3);
        gguf->release(*got);
        EXPECT_FALSE(read_rows_f32(*got, rows, 1, part).ok());
        EXPECT_FALSE(read_rows_f32(*got, 0, 1, std::span(part).first(0)).ok());
      }
    }
  }
}

// Files that llama.cpp's own library wrote.
TEST(GgufCheckpoint, FilesOfLlamaCppEqualTheHub) {
  for (const auto& [file, family] : {std::pair{"smollm2_f16.gguf", "smollm2"}, {"qwen2_5_bf16.gguf", "qwen2_5"}}) {
    const auto hub = Checkpoint::open(kGolden / family);
    const auto gguf = Checkpoint::open(kGguf / file);
    ASSERT_TRUE(gguf.ok()) << gguf.error().message;
    expect_same_config(gguf->config(), hub->config());
    EXPECT_EQ(gguf->names(), hub->names());
    for (const std::string& name : hub->names()) {
      EXPECT_EQ(*read_tensor_f32(*gguf->tensor(name)), *read_tensor_f32(*hub->tensor(name))) << name;
    }
  }
}

TEST(GgufCheckpoint, WhatStandsAroundTheTokenizer) {
  const auto smollm2 = Checkpoint::open(kGguf / "smollm2_f16.gguf");
  EXPECT_EQ(smollm2->name(), "smollm2_f16");
  EXPECT_EQ(smollm2->tokenizer_config().bos_token, "<s>");
  EXPECT_EQ(smollm2->tokenizer_config().eos_token, "</s>");
  EXPECT_EQ(smollm2->tokenizer_config().unk_token, "<unk>");
  EXPECT_TRUE(smollm2->tokenizer_config().chat_template->starts_with("{% for m in messages"));
  EXPECT_EQ(smollm2->generation().bos_token_id, 1);
  EXPECT_EQ(smollm2->generation().eos_token_ids, std::vector<int64_t>{2});
  const auto qwen = Checkpoint::open(kGguf / "qwen2_5_bf16.gguf");
  EXPECT_EQ(qwen->tokenizer_config().eos_token, "<|im_end|>");
  EXPECT_EQ(qwen->tokenizer_config().add_bos_token, false);
  // Both ends that a chat model may give, the file's own first.
  EXPECT_EQ(qwen->generation().eos_token_ids, (std::vector<int64_t>{264, 262}));
  EXPECT_EQ(qwen->generation().pad_token_id, 262);
  EXPECT_FALSE(qwen->tokenizer_path().has_value());
  EXPECT_EQ(Json::parse(qwen->tokenizer_config().special_tokens), Json({{"pad_token", "<|endoftext|>"}}));

  TempFolder folder;
  const auto hub = Checkpoint::open(kGolden / "llama2");
  folder.write("m.gguf", test::gguf_from_hub(*hub, "llama", test::kGgufF32)
                             .text("tokenizer.chat_template", "main")
                             .text("tokenizer.chat_template.tool_use", "tools")
                             .finish());
  const auto named = Checkpoint::open(folder.path());
  EXPECT_EQ(named->tokenizer_config().chat_template, "main");
  EXPECT_EQ(named->tokenizer_config().named_templates.at("tool_use"), "tools");
  EXPECT_FALSE(named->embedded_tokenizer()->has_value());
}

TEST(GgufCheckpoint, SentencepieceTokenizer) {
  const auto read = Checkpoint::open(kGguf / "smollm2_f16.gguf")->embedded_tokenizer();
  ASSERT_TRUE(read.ok() && *read) << read.error().message;
  const TokenizerSpec& spec = **read;
  EXPECT_EQ(spec.model, ModelKind::kBpe);
  EXPECT_EQ(spec.vocabulary.size(), 272u);
  EXPECT_TRUE(spec.byte_fallback);
  // By the pieces' scores, highest first; of one piece the longer left part first.
  std::vector<std::pair<std::string, std::string>> merges;
  for (const BpeMerge& merge : spec.merges) {
    merges.emplace_back(spec.vocabulary[merge.left].token, spec.vocabulary[merge.right].token);
    EXPECT_EQ(spec.vocabulary[merge.merged].token, merges.back().first + merges.back().second);
    EXPECT_EQ(merge.rank, merges.size() - 1);
  }
  EXPECT_EQ(merges, (std::vector<std::pair<std::string, std::string>>{
                        {"t", "h"}, {"▁t", "he"}, {"h", "e"}, {"▁", "t"}, {"a", "t"}}));
  ASSERT_FALSE(spec.normalizers.empty());
  EXPECT_EQ(spec.normalizers[0].kind, NormalizerKind::kPrepend);
  ASSERT_EQ(spec.prefix.size(), 1u);
  EXPECT_EQ(spec.vocabulary[spec.prefix[0]].token, "<s>");
  EXPECT_EQ(spec.added_tokens.size(), 3u);
}

TEST(GgufCheckpoint, ByteLevelTokenizer) {
  const auto read = Checkpoint::open(kGguf / "qwen2_5_bf16.gguf")->embedded_tokenizer();
  ASSERT_TRUE(read.ok() && *read) << read.error().message;
  const TokenizerSpec& spec = **read;
  EXPECT_EQ(spec.vocabulary.size(), 262u);  // Neither added nor unused tokens.
  EXPECT_EQ(spec.merges.size(), 6u);
  ASSERT_EQ(spec.normalizers.size(), 1u);
  EXPECT_EQ(spec.normalizers[0].kind, NormalizerKind::kNfc);
  ASSERT_EQ(spec.added_tokens.size(), 4u);
  EXPECT_EQ(spec.added_tokens[3].content, "<think>");
  EXPECT_FALSE(spec.added_tokens[3].special);
  EXPECT_TRUE(spec.added_tokens[2].special);
  EXPECT_TRUE(spec.prefix.empty() && spec.suffix.empty());
}

// Added tokens need not come last.
TEST(GgufCheckpoint, AddedTokensKeepTheirIds) {
  TempFolder folder;
  const auto hub = Checkpoint::open(kGolden / "llama2");
  GgufWriter writer = test::gguf_from_hub(*hub, "llama", test::kGgufF32);
  writer.text("tokenizer.ggml.model", "gpt2").texts("tokenizer.ggml.tokens", {"<|end|>", "a", "b", "ab"});
  writer.text("tokenizer.ggml.pre", "qwen2").texts("tokenizer.ggml.merges", {"a b"});
  writer.ints("tokenizer.ggml.token_type", {3, 1, 1, 1});
  folder.write("m.gguf", writer.finish());
  const auto checkpoint = Checkpoint::open(folder.path());
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.error().message;
  const auto tokenizer = load_checkpoint_tokenizer(*checkpoint);
  ASSERT_TRUE(tokenizer.ok() && *tokenizer) << tokenizer.error().message;
  const auto ids = (*tokenizer)->encode("ab<|end|>a", false);
  ASSERT_TRUE(ids.ok()) << ids.error().message;
  EXPECT_EQ(*ids, (std::vector<int32_t>{3, 0, 1}));
}

TEST(GgufCheckpoint, FoldersWithAFile) {
  TempFolder folder;
  const std::string bytes = test::read_all(kGguf / "smollm2_f16.gguf");
  folder.write("a.gguf", bytes);
  folder.write("README.md", "");
  ASSERT_TRUE(Checkpoint::open(folder.path()).ok());
  folder.write("config.json", "{}");  // Some uploads have the original's configuration beside it.
  ASSERT_TRUE(Checkpoint::open(folder.path()).ok());
  folder.write("b.gguf", bytes);
  expect_error(folder.path(), ErrorCode::kInvalidArgument, "2 checkpoints; give one of them, such as a.gguf");
  ASSERT_TRUE(Checkpoint::open(folder.path() / "b.gguf").ok());
  folder.write("no_ending", bytes);
  ASSERT_TRUE(Checkpoint::open(folder.path() / "no_ending").ok());
  expect_error(folder.path() / "b.gguf", ErrorCode::kInvalidArgument, "other.json", {.config_name = "other.json"});
}

TEST(GgufCheckpoint, FingerprintFollowsTheFile) {
  TempFolder folder;
  folder.write("a.gguf", test::read_all(kGguf / "smollm2_f16.gguf"));
  const fs::path path = folder.path() / "a.gguf";
  const uint64_t first = Checkpoint::open(path)->fingerprint();
  EXPECT_EQ(Checkpoint::open(path)->fingerprint(), first);
  EXPECT_EQ(Checkpoint::open(folder.path())->fingerprint(), first);
  fs::last_write_time(path, fs::last_write_time(path) + std::chrono::seconds(5));
  EXPECT_NE(Checkpoint::open(path)->fingerprint(), first);
}

TEST(GgufCheckpoint, WhatCannotBeReadIsRefusedByName) {
  const auto hub = Checkpoint::open(kGolden / "llama2");
  TempFolder folder;
  const fs::path path = folder.path() / "m.gguf";
  const auto refuse = [&](const std::function<void(GgufWriter&)>& edit, ErrorCode code, std::string_view says,
                          const char* arch = "llama") {
    GgufWriter writer = test::gguf_from_hub(*hub, arch, test::kGgufF32);
    edit(writer);
    folder.write("m.gguf", writer.finish());
    expect_error(path, code, says);
  };
  refuse([](GgufWriter&) {}, ErrorCode::kUnsupported,
         "architecture \"mamba\" are not supported; these are: llama, qwen2", "mamba");
  refuse([](GgufWriter& w) { w.u32("llama.expert_count", 8); }, ErrorCode::kUnsupported, "8 experts");
  refuse([](GgufWriter& w) { w.u32("split.count", 3); }, ErrorCode::kUnsupported, "one of 3 parts");
  refuse([](GgufWriter& w) { w.text("general.type", "adapter"); }, ErrorCode::kUnsupported, "adapter");
  refuse([](GgufWriter& w) { w.u32("llama.attention.sliding_window", 64); }, ErrorCode::kUnsupported, "sliding window");
  refuse([](GgufWriter& w) { w.u32("llama.attention.value_length", 8); }, ErrorCode::kUnsupported, "values of 8");
  refuse([](GgufWriter& w) { w.tensor("blk.0.x", {256}, test::kGgufQ4_K, std::string(144, 'x')); },
         ErrorCode::kUnsupported, "\"blk.0.x\" is Q4_K");
  refuse([](GgufWriter& w) { w.tensor("rope_freqs.weight", {3}, 0, std::string(12, '\x3f')); }, ErrorCode::kCorrupt,
         "should have 8 numbers");
  refuse([](GgufWriter& w) { w.tensor("rope_freqs.weight", {8}, 0, std::string(32, '\xff')); }, ErrorCode::kCorrupt,
         "rope_freqs.weight");
  refuse([](GgufWriter& w) { w.u64("llama.attention.key_length", 1ull << 62); }, ErrorCode::kCorrupt, "m.gguf");
  refuse(
      [](GgufWriter& w) {
        w.texts("tokenizer.ggml.tokens", {"a"}).ints("tokenizer.ggml.token_type", {1, 1});
      },
      ErrorCode::kCorrupt, "1 tokens have 2 types");
  refuse([](GgufWriter& w) { w.texts("tokenizer.ggml.tokens", {"a"}).ints("tokenizer.ggml.token_type", {9}); },
         ErrorCode::kCorrupt, "unknown type 9");
}

TEST(GgufCheckpoint, MissingAndOddKeys) {
  TempFolder folder;
  const auto write = [&](const char* skip, const std::function<void(GgufWriter&)>& more) {
    GgufWriter w;
    w.text("general.architecture", "llama");
    for (const auto& [key, value] : {std::pair{"block_count", 1},
                                     {"embedding_length", 32},
                                     {"context_length", 64},
                                     {"feed_forward_length", 32},
                                     {"attention.head_count", 2}}) {
      if (std::string_view(skip) != key) w.u32("llama." + std::string(key), static_cast<uint32_t>(value));
    }
    if (std::string_view(skip) != "attention.layer_norm_rms_epsilon")
      w.f32("llama.attention.layer_norm_rms_epsilon", 1e-5f);
    if (std::string_view(skip) != "token_embd") w.tensor("token_embd.weight", {40, 32}, 0, std::string(5120, '\0'));
    more(w);
    folder.write("m.gguf", w.finish());
  };
  const fs::path path = folder.path() / "m.gguf";
  write("", [](GgufWriter&) {});
  ASSERT_TRUE(Checkpoint::open(path).ok());
  for (const char* key : {"block_count", "embedding_length", "context_length", "feed_forward_length",
                          "attention.head_count", "attention.layer_norm_rms_epsilon", "token_embd"}) {
    write(key, [](GgufWriter&) {});
    expect_error(path, ErrorCode::kCorrupt, key);
  }
  // One number for each layer is one number if they are equal.
  write("", [](GgufWriter& w) { w.ints("llama.attention.head_count_kv", {1, 1}); });
  EXPECT_EQ(Checkpoint::open(path)->config().num_kv_heads, 1);
  write("", [](GgufWriter& w) { w.ints("llama.attention.head_count_kv", {1, 2}); });
  expect_error(path, ErrorCode::kUnsupported, "differs from layer to layer");
  write("", [](GgufWriter& w) { w.ints("llama.attention.head_count_kv", {0}); });
  expect_error(path, ErrorCode::kCorrupt, "num_key_value_heads");
  for (const int32_t heads : {0, -2, INT32_MIN}) {
    write("attention.head_count", [&](GgufWriter& w) { w.ints("llama.attention.head_count", {heads}); });
    expect_error(path, ErrorCode::kCorrupt, "heads");
  }
  write("embedding_length", [](GgufWriter& w) { w.text("llama.embedding_length", "32"); });
  expect_error(path, ErrorCode::kCorrupt, "llama.embedding_length");
  // Half of each head rotated; linear scaling under both of its names; scaling that is only a list of factors.
  write("", [](GgufWriter& w) { w.u32("llama.rope.dimension_count", 8); });
  EXPECT_EQ(Checkpoint::open(path)->config().rope.partial_rotary_factor, 0.5);
  write("", [](GgufWriter& w) { w.u32("llama.rope.dimension_count", 17); });
  expect_error(path, ErrorCode::kCorrupt, "17 of 16");
  write("", [](GgufWriter& w) { w.text("llama.rope.scaling.type", "linear").f32("llama.rope.scaling.factor", 4.0f); });
  EXPECT_EQ(Checkpoint::open(path)->config().rope.type, "linear");
  write("", [](GgufWriter& w) { w.f32("llama.rope.scale_linear", 2.0f); });
  EXPECT_EQ(Checkpoint::open(path)->config().rope.factor, 2.0);
  write("", [](GgufWriter& w) {
    const auto bytes = test::encode_numbers({1, 1, 1.5f, 2, 3, 4, 5, 6}, 0).bytes;
    w.tensor("rope_freqs.weight", {8}, 0, bytes);
  });
  const auto factors = Checkpoint::open(path);
  ASSERT_TRUE(factors.ok()) << factors.error().message;
  EXPECT_EQ(factors->config().rope.type, "longrope");
  EXPECT_EQ(factors->config().rope.short_factor, (std::vector<double>{1, 1, 1.5, 2, 3, 4, 5, 6}));
  EXPECT_EQ(factors->config().rope.attention_factor, 1.0);
}

TEST(GgufCheckpoint, OddTokenizers) {
  TempFolder folder;
  const auto hub = Checkpoint::open(kGolden / "llama2");
  const auto refuse = [&](const std::function<void(GgufWriter&)>& edit, ErrorCode code, std::string_view says) {
    GgufWriter writer = test::gguf_from_hub(*hub, "llama", test::kGgufF32);
    edit(writer);
    folder.write("m.gguf", writer.finish());
    const auto checkpoint = Checkpoint::open(folder.path());
    ASSERT_TRUE(checkpoint.ok()) << checkpoint.error().message;  // The weights can be used all the same.
    const auto text = checkpoint->embedded_tokenizer();
    ASSERT_FALSE(text.ok()) << says;
    EXPECT_EQ(text.error().code, code) << text.error().message;
    EXPECT_NE(text.error().message.find(says), std::string::npos) << text.error().message;
  };
  const auto vocabulary = [](GgufWriter& w, const char* model, const std::vector<std::string>& tokens) -> GgufWriter& {
    return w.text("tokenizer.ggml.model", model).texts("tokenizer.ggml.tokens", tokens);
  };
  refuse([&](GgufWriter& w) { vocabulary(w, "bert", {"a"}); }, ErrorCode::kUnsupported, "\"bert\"");
  refuse([&](GgufWriter& w) { w.texts("tokenizer.ggml.tokens", {"a"}); }, ErrorCode::kUnsupported, "type \"\"");
  refuse([&](GgufWriter& w) { vocabulary(w, "gpt2", {"a"}).text("tokenizer.ggml.pre", "tekken"); },
         ErrorCode::kUnsupported, "\"tekken\"");
  refuse(
      [&](GgufWriter& w) {
        vocabulary(w, "gpt2", {"a", "a"}).text("tokenizer.ggml.pre", "qwen2");
      },
      ErrorCode::kUnsupported, "tokens 0 and 1 are the same");
  refuse([&](GgufWriter& w) { vocabulary(w, "llama", {}); }, ErrorCode::kCorrupt, "empty");
  refuse(
      [&](GgufWriter& w) {
        vocabulary(w, "llama", {"a", "b"}).floats("tokenizer.ggml.scores", {1});
      },
      ErrorCode::kCorrupt, "2 tokens have 1 scores");
  refuse([&](GgufWriter& w) { vocabulary(w, "llama", {"a"}).floats("tokenizer.ggml.scores", {NAN}); },
         ErrorCode::kCorrupt, "not a number");
  refuse([&](GgufWriter& w) { vocabulary(w, "llama", {"\xff\xfe"}).floats("tokenizer.ggml.scores", {1}); },
         ErrorCode::kCorrupt, "token 0");
  refuse([&](GgufWriter& w) { vocabulary(w, "llama", {std::string(5000, 'a')}).floats("tokenizer.ggml.scores", {1}); },
         ErrorCode::kCorrupt, "5000 bytes");
  refuse(
      [&](GgufWriter& w) {
        vocabulary(w, "llama", {"a"}).floats("tokenizer.ggml.scores", {1}).u32("tokenizer.ggml.bos_token_id", 5);
      },
      ErrorCode::kCorrupt, "token 5");
  refuse(
      [&](GgufWriter& w) {
        vocabulary(w, "gpt2", {"a"}).text("tokenizer.ggml.pre", "gpt-2").texts("tokenizer.ggml.merges", {"\xc3("});
      },
      ErrorCode::kCorrupt, "merge 0");
}

}  // namespace gguf_checkpoint_test
}  // namespace tandem

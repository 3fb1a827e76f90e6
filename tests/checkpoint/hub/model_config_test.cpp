#include "checkpoint/hub/model_config.h"

#include "checkpoint/hub/generation_config.h"
#include "checkpoint/hub/tokenizer_config.h"
#include "checkpoint/support.h"

namespace tandem {
namespace model_config_test {

namespace fs = std::filesystem;

Json tiny() {
  return Json::parse(R"({"architectures":["LlamaForCausalLM"],"model_type":"llama","vocab_size":256,"hidden_size":64,
    "intermediate_size":128,"num_hidden_layers":2,"num_attention_heads":4,"max_position_embeddings":128,
    "rms_norm_eps":1e-5,"rope_theta":500000.0})");
}

Json tiny_with(std::string_view extra) {
  Json json = tiny();
  json.update(Json::parse(extra));
  return json;
}

// Every value that both styles can express. What hub files leave to the family's default (layer types, tying) may be
// absent in one and present in the other.
void expect_same(const ModelConfig& hub, const ModelConfig& v5) {
  EXPECT_EQ(hub.architecture, v5.architecture);
  EXPECT_EQ(hub.model_type, v5.model_type);
  EXPECT_EQ(hub.vocab_size, v5.vocab_size);
  EXPECT_EQ(hub.hidden_size, v5.hidden_size);
  EXPECT_EQ(hub.intermediate_size, v5.intermediate_size);
  EXPECT_EQ(hub.num_layers, v5.num_layers);
  EXPECT_EQ(hub.num_heads, v5.num_heads);
  EXPECT_EQ(hub.num_kv_heads, v5.num_kv_heads);
  EXPECT_EQ(hub.head_dim, v5.head_dim);
  EXPECT_EQ(hub.max_position_embeddings, v5.max_position_embeddings);
  EXPECT_EQ(hub.norm_eps, v5.norm_eps);
  EXPECT_EQ(hub.hidden_act, v5.hidden_act);
  EXPECT_EQ(hub.attention_bias, v5.attention_bias);
  EXPECT_EQ(hub.mlp_bias, v5.mlp_bias);
  EXPECT_EQ(hub.tie_word_embeddings.value_or(*v5.tie_word_embeddings), *v5.tie_word_embeddings);
  EXPECT_EQ(hub.rope, v5.rope);
  EXPECT_EQ(hub.local_rope, v5.local_rope);
  EXPECT_EQ(hub.rotary_dim, v5.rotary_dim);
  EXPECT_EQ(hub.no_rope_layers, v5.no_rope_layers);
  EXPECT_EQ(hub.no_rope_layer_interval, v5.no_rope_layer_interval);
  EXPECT_EQ(hub.sliding_window, v5.sliding_window);
  EXPECT_EQ(hub.max_window_layers, v5.max_window_layers);
  EXPECT_EQ(hub.sliding_window_pattern, v5.sliding_window_pattern);
  EXPECT_EQ(hub.layer_types.empty() ? v5.layer_types : hub.layer_types, v5.layer_types);
  EXPECT_EQ(hub.query_pre_attn_scalar, v5.query_pre_attn_scalar);
  EXPECT_EQ(hub.attn_logit_softcapping, v5.attn_logit_softcapping);
  EXPECT_EQ(hub.final_logit_softcapping, v5.final_logit_softcapping);
  EXPECT_EQ(hub.attention_multiplier, v5.attention_multiplier);
  EXPECT_EQ(hub.embedding_multiplier, v5.embedding_multiplier);
  EXPECT_EQ(hub.residual_multiplier, v5.residual_multiplier);
  EXPECT_EQ(hub.logits_scaling, v5.logits_scaling);
  EXPECT_EQ(hub.dtype, v5.dtype);
  EXPECT_EQ(hub.bos_token_id, v5.bos_token_id);
  EXPECT_EQ(hub.eos_token_ids, v5.eos_token_ids);
  EXPECT_EQ(hub.pad_token_id, v5.pad_token_id);
}

TEST(ModelConfig, BothStylesSayTheSameForEveryFamily) {
  int families = 0;
  for (const auto& entry : fs::directory_iterator(test::kGolden)) {
    if (!entry.is_directory()) continue;
    SCOPED_TRACE(entry.path().filename().string());
    const auto hub = ModelConfig::parse(test::read_all(entry.path() / "config.json"));
    const auto v5 = ModelConfig::parse(test::read_all(entry.path() / "config.v5.json"));
    ASSERT_TRUE(hub.ok()) << hub.error().message;
    ASSERT_TRUE(v5.ok()) << v5.error().message;
    expect_same(*hub, *v5);
    EXPECT_EQ(hub->unread_keys, std::vector<std::string>());
    EXPECT_EQ(v5->unread_keys, std::vector<std::string>());
    ++families;
  }
  EXPECT_EQ(families, 15);
}

ModelConfig golden(const std::string& family, const std::string& file = "config.json") {
  auto config = ModelConfig::parse(test::read_all(test::kGolden / family / file));
  EXPECT_TRUE(config.ok()) << family;
  return config.ok() ? *std::move(config) : ModelConfig{};
}

TEST(ModelConfig, ValuesOfTheFamilies) {
  const ModelConfig llama = golden("llama3_2");
  EXPECT_EQ(llama.architecture, "LlamaForCausalLM");
  EXPECT_EQ(llama.rope.type, "llama3");
  EXPECT_EQ(llama.rope.theta, 500000.0);
  EXPECT_EQ(llama.rope.factor, 32.0);
  EXPECT_EQ(llama.rope.low_freq_factor, 1.0);
  EXPECT_EQ(llama.rope.high_freq_factor, 4.0);
  EXPECT_EQ(llama.rope.original_max_position_embeddings, 64);
  EXPECT_EQ(llama.head_dim, 8);
  EXPECT_EQ(llama.num_kv_heads, 2);
  EXPECT_EQ(llama.tie_word_embeddings, true);

  const ModelConfig phi = golden("phi4_mini");
  EXPECT_EQ(phi.rope.type, "longrope");
  EXPECT_EQ(phi.rope.partial_rotary_factor, 0.75);
  EXPECT_EQ(phi.rope.original_max_position_embeddings, 32);
  EXPECT_EQ(phi.rope.long_factor, (std::vector<double>{1.0, 1.2, 1.9, 3.5, 9.0, 20.0}));
  EXPECT_EQ(phi.sliding_window, 1024);

  const ModelConfig gemma = golden("gemma3");
  EXPECT_EQ(gemma.rope.theta, 1e6);
  ASSERT_TRUE(gemma.local_rope.has_value());
  EXPECT_EQ(gemma.local_rope->theta, 1e4);
  EXPECT_EQ(gemma.sliding_window_pattern, 3);
  EXPECT_EQ(gemma.query_pre_attn_scalar, 24.0);
  EXPECT_FALSE(gemma.tie_word_embeddings.has_value());
  EXPECT_FALSE(gemma.attn_logit_softcapping.has_value());
  EXPECT_EQ(golden("gemma3", "config.v5.json").layer_types[2], "full_attention");

  const ModelConfig codegen = golden("codegen2");
  EXPECT_EQ(codegen.hidden_size, 64);
  EXPECT_EQ(codegen.intermediate_size, 256);
  EXPECT_EQ(codegen.num_layers, 2);
  EXPECT_EQ(codegen.max_position_embeddings, 128);
  EXPECT_EQ(codegen.rotary_dim, 4);
  EXPECT_TRUE(codegen.head_dim_given);
  EXPECT_FALSE(golden("codegen").head_dim_given);
  EXPECT_EQ(codegen.hidden_act, "gelu_new");

  EXPECT_EQ(golden("granite3_3").logits_scaling, 0.5);
  EXPECT_EQ(golden("granite3_3").embedding_multiplier, 12.0);
  EXPECT_EQ(golden("smollm3").no_rope_layers, (std::vector<int64_t>{1, 1, 1, 0}));
  EXPECT_EQ(golden("glm_edge").rope.partial_rotary_factor, 0.5);
  EXPECT_EQ(golden("glm_edge").eos_token_ids, (std::vector<int64_t>{2, 3}));
  EXPECT_FALSE(golden("glm_edge").bos_token_id.has_value());
  EXPECT_TRUE(golden("glm_edge").attention_bias);
  // use_sliding_window is false.
  EXPECT_FALSE(golden("qwen2_5").sliding_window.has_value());
  EXPECT_EQ(golden("qwen2_5").dtype, "bfloat16");
}

TEST(ModelConfig, Defaults) {
  const auto config = ModelConfig::from_json(tiny());
  ASSERT_TRUE(config.ok()) << config.error().message;
  EXPECT_EQ(config->num_kv_heads, 4);
  EXPECT_EQ(config->head_dim, 16);
  EXPECT_FALSE(config->head_dim_given);
  EXPECT_EQ(config->rope.type, "default");
  EXPECT_TRUE(config->rope.theta_given);
  EXPECT_FALSE(config->tie_word_embeddings.has_value());
  EXPECT_TRUE(config->eos_token_ids.empty());
  Json no_theta = tiny();
  no_theta.erase("rope_theta");
  EXPECT_FALSE(ModelConfig::from_json(no_theta)->rope.theta_given);
  EXPECT_EQ(ModelConfig::from_json(no_theta)->rope.theta, 10000.0);
}

TEST(ModelConfig, Accepts) {
  EXPECT_EQ(ModelConfig::from_json(tiny_with(R"({"head_dim":null,"rope_scaling":null,"quantization_config":null})"))
                ->head_dim,
            16);
  EXPECT_EQ(ModelConfig::from_json(tiny_with(R"({"head_dim":33})"))->head_dim, 33);
  EXPECT_EQ(ModelConfig::from_json(tiny_with(R"({"pad_token_id":-1,"eos_token_id":[1,-1]})"))->eos_token_ids,
            std::vector<int64_t>{1});
  EXPECT_EQ(ModelConfig::from_json(tiny_with(R"({"torch_dtype":"torch.float16"})"))->dtype, "float16");
  EXPECT_EQ(ModelConfig::from_json(tiny_with(R"({"hidden_size":64.0})"))->hidden_size, 64);
  const auto su = ModelConfig::from_json(tiny_with(
      R"({"rope_scaling":{"type":"su","short_factor":[1],"long_factor":[2]},"original_max_position_embeddings":64})"));
  ASSERT_TRUE(su.ok()) << su.error().message;
  EXPECT_EQ(su->rope.type, "longrope");
  const auto linear = ModelConfig::from_json(
      tiny_with(R"({"rope_scaling":{"rope_type":"linear","factor":8.0},"rope_local_base_freq":10000.0})"));
  ASSERT_TRUE(linear.ok()) << linear.error().message;
  EXPECT_EQ(linear->rope.factor, 8.0);
  EXPECT_EQ(linear->local_rope->type, "default");
  // Gemma: the older key says "gelu", the newer one what is meant.
  EXPECT_EQ(
      ModelConfig::from_json(tiny_with(R"({"hidden_act":"gelu","hidden_activation":"gelu_pytorch_tanh"})"))->hidden_act,
      "gelu_pytorch_tanh");
  // Both styles at once, saying the same.
  const auto both = ModelConfig::from_json(tiny_with(
      R"({"rope_scaling":{"type":"linear","factor":2},"rope_parameters":{"rope_type":"linear","factor":2,"rope_theta":7}})"));
  ASSERT_TRUE(both.ok()) << both.error().message;
  EXPECT_EQ(both->rope.theta, 7.0);
}

TEST(ModelConfig, ListsUnreadKeys) {
  const auto config = ModelConfig::from_json(tiny_with(
      R"({"num_experts":8,"use_cache":true,"nothing":null,"attention_dropout":0.1,
          "rope_scaling":{"type":"yarn","factor":4,"mrope_section":[1,2]}})"));
  ASSERT_TRUE(config.ok()) << config.error().message;
  EXPECT_EQ(config->unread_keys, (std::vector<std::string>{"num_experts", "rope_scaling.mrope_section"}));
  EXPECT_EQ(config->raw["num_experts"], 8);
}

struct Bad {
  std::string_view extra;
  std::string_view says;
};

TEST(ModelConfig, RefusesNonsense) {
  const Bad cases[] = {
      {R"({"hidden_size":0})", "hidden_size"},
      {R"({"hidden_size":-64})", "hidden_size"},
      {R"({"hidden_size":2000000})", "hidden_size"},
      {R"({"hidden_size":"64"})", "hidden_size"},
      {R"({"hidden_size":64.5})", "hidden_size"},
      {R"({"hidden_size":null})", "hidden_size"},
      {R"({"hidden_size":99999999999999999999})", "hidden_size"},
      {R"({"hidden_size":66})", "multiple"},
      {R"({"n_embd":65})", "n_embd"},
      {R"({"num_hidden_layers":0})", "num_hidden_layers"},
      {R"({"num_hidden_layers":10001})", "num_hidden_layers"},
      {R"({"num_hidden_layers":[2]})", "num_hidden_layers"},
      {R"({"vocab_size":10000001})", "vocab_size"},
      {R"({"intermediate_size":null})", "intermediate_size"},
      {R"({"num_attention_heads":0})", "num_attention_heads"},
      {R"({"num_key_value_heads":3})", "num_key_value_heads"},
      {R"({"num_key_value_heads":0})", "num_key_value_heads"},
      {R"({"num_key_value_heads":8})", "num_key_value_heads"},
      {R"({"head_dim":0})", "head_dim"},
      {R"({"head_dim":65537})", "head_dim"},
      {R"({"num_attention_heads":65536,"head_dim":65536})", "more than any model"},
      {R"({"max_position_embeddings":-1})", "max_position_embeddings"},
      {R"({"rms_norm_eps":null})", "rms_norm_eps"},
      {R"({"rms_norm_eps":-1e-5})", "epsilon"},
      {R"({"rms_norm_eps":5})", "epsilon"},
      {R"({"rms_norm_eps":"1e-5"})", "rms_norm_eps"},
      {R"({"rope_theta":0})", "rope_theta"},
      {R"({"rope_theta":"x"})", "rope_theta"},
      {R"({"rope_scaling":7})", "rope_scaling"},
      {R"({"rope_scaling":{"factor":2}})", "rope_type"},
      {R"({"rope_scaling":{"type":7}})", "type"},
      {R"({"rope_scaling":{"type":"linear"}})", "factor"},
      {R"({"rope_scaling":{"type":"linear","factor":0}})", "factor"},
      {R"({"rope_scaling":{"type":"llama3","factor":8}})", "low_freq_factor"},
      {R"({"rope_scaling":{"type":"llama3","factor":8,"low_freq_factor":4,"high_freq_factor":4,
           "original_max_position_embeddings":64}})",
       "high_freq_factor"},
      {R"({"rope_scaling":{"type":"longrope","short_factor":[1],"long_factor":[1,2]}})", "long_factor"},
      {R"({"rope_scaling":{"type":"longrope","short_factor":[1],"long_factor":[0]}})", "long_factor"},
      {R"({"rope_scaling":{"type":"longrope","short_factor":[1],"long_factor":["a"]}})", "long_factor"},
      {R"({"rope_scaling":{"type":"longrope","short_factor":[1],"long_factor":[1]}})", "original_max"},
      {R"({"rope_parameters":{"rope_type":"linear","factor":2},"rope_scaling":{"type":"linear","factor":3}})",
       "different things"},
      {R"({"rope_parameters":{"full_attention":{},"chunked_attention":{}}})", "chunked_attention"},
      {R"({"rope_parameters":{"full_attention":{},"rope_theta":1}})", "rope_theta"},
      {R"({"partial_rotary_factor":1.5})", "partial_rotary_factor"},
      {R"({"partial_rotary_factor":0})", "partial_rotary_factor"},
      {R"({"rotary_dim":18})", "rotary_dim"},
      {R"({"rotary_dim":7})", "rotary_dim"},
      {R"({"layer_types":["full_attention"]})", "layer_types"},
      {R"({"layer_types":[1,2]})", "layer_types"},
      {R"({"layer_types":"full_attention"})", "layer_types"},
      {R"({"no_rope_layers":[1]})", "no_rope_layers"},
      {R"({"no_rope_layers":[1,2]})", "no_rope_layers"},
      {R"({"no_rope_layer_interval":0})", "no_rope_layer_interval"},
      {R"({"sliding_window":0})", "sliding_window"},
      {R"({"max_window_layers":-1})", "max_window_layers"},
      {R"({"sliding_window_pattern":0})", "sliding_window_pattern"},
      {R"({"attention_bias":1})", "attention_bias"},
      {R"({"tie_word_embeddings":"yes"})", "tie_word_embeddings"},
      {R"({"attn_logit_softcapping":-1})", "attn_logit_softcapping"},
      {R"({"logits_scaling":0})", "logits_scaling"},
      {R"({"eos_token_id":"</s>"})", "eos_token_id"},
      {R"({"eos_token_id":[1,null]})", "eos_token_id"},
      {R"({"eos_token_id":4294967296})", "eos_token_id"},
      {R"({"architectures":"LlamaForCausalLM"})", "architectures"},
      {R"({"model_type":1})", "model_type"},
      {R"({"is_encoder_decoder":true})", "encoder-decoder"},
      {R"({"quantization_config":{"quant_method":"gptq","bits":4}})", "gptq"},
      {R"({"quantization_config":7})", "quantization_config"},
      {R"({"compression_config":{}})", "compression_config"},
      {R"({"dtype":"float16","torch_dtype":"float32"})", "torch_dtype"},
  };
  for (const Bad& bad : cases) {
    const auto config = ModelConfig::from_json(tiny_with(bad.extra), "c.json");
    ASSERT_FALSE(config.ok()) << bad.extra;
    EXPECT_NE(config.error().message.find(bad.says), std::string::npos) << bad.extra << ": " << config.error().message;
    EXPECT_TRUE(config.error().message.starts_with("c.json")) << config.error().message;
  }
  for (const char* key : {"vocab_size", "hidden_size", "num_hidden_layers", "num_attention_heads", "intermediate_size",
                          "max_position_embeddings", "rms_norm_eps"}) {
    Json json = tiny();
    json.erase(key);
    const auto config = ModelConfig::from_json(json);
    ASSERT_FALSE(config.ok()) << key;
    EXPECT_NE(config.error().message.find(key), std::string::npos) << config.error().message;
  }
  Json nan = tiny();
  nan["rms_norm_eps"] = std::numeric_limits<double>::quiet_NaN();
  EXPECT_FALSE(ModelConfig::from_json(nan).ok());
  nan["rms_norm_eps"] = 1e-5;
  nan["rope_theta"] = std::numeric_limits<double>::infinity();
  EXPECT_FALSE(ModelConfig::from_json(nan).ok());
}

TEST(ModelConfig, RefusesWhatIsNoObject) {
  for (const char* text : {"", "[]", "null", "7", "\"x\"", "{", "{}", R"({"text_config":{"hidden_size":64}})"}) {
    EXPECT_FALSE(ModelConfig::parse(text).ok()) << text;
    if (std::string_view(text) != "{}" && std::string_view(text).size() < 5) {
      EXPECT_FALSE(GenerationConfig::parse(text).ok()) << text;
      EXPECT_FALSE(TokenizerConfig::parse(text).ok()) << text;
    }
  }
  EXPECT_EQ(ModelConfig::parse(R"({"text_config":{"hidden_size":64}})").error().code, ErrorCode::kUnsupported);
}

TEST(GenerationConfig, ReadsAndRefuses) {
  const auto config = GenerationConfig::parse(R"({"eos_token_id":[2,0],"pad_token_id":0,"bos_token_id":null,
      "temperature":0.7,"top_k":20,"top_p":0.9,"min_p":0.05,"repetition_penalty":1.1,"max_new_tokens":64,
      "do_sample":true,"transformers_version":"4"})");
  ASSERT_TRUE(config.ok()) << config.error().message;
  EXPECT_EQ(config->eos_token_ids, (std::vector<int64_t>{2, 0}));
  EXPECT_EQ(config->pad_token_id, 0);
  EXPECT_FALSE(config->bos_token_id.has_value());
  EXPECT_EQ(config->temperature, 0.7);
  EXPECT_EQ(config->top_k, 20);
  EXPECT_EQ(config->top_p, 0.9);
  EXPECT_EQ(config->min_p, 0.05);
  EXPECT_EQ(config->repetition_penalty, 1.1);
  EXPECT_EQ(config->max_new_tokens, 64);
  EXPECT_EQ(config->do_sample, true);
  EXPECT_FALSE(GenerationConfig::parse("{}")->temperature.has_value());
  EXPECT_EQ(GenerationConfig::parse(R"({"top_k":-1})")->top_k, 0);
  for (const char* bad :
       {R"({"temperature":-1})", R"({"temperature":"hot"})", R"({"top_p":0})", R"({"top_p":1.5})", R"({"min_p":2})",
        R"({"repetition_penalty":0})", R"({"max_new_tokens":0})", R"({"top_k":1.5})", R"({"top_k":99999999999})",
        R"({"do_sample":1})", R"({"eos_token_id":{}})"}) {
    const auto result = GenerationConfig::parse(bad, "g.json");
    ASSERT_FALSE(result.ok()) << bad;
    EXPECT_TRUE(result.error().message.starts_with("g.json")) << result.error().message;
  }
}

TEST(TokenizerConfig, ReadsAndRefuses) {
  const auto config = TokenizerConfig::parse(R"({"chat_template":[{"name":"rag","template":"R"},
      {"name":"default","template":"D"}],"bos_token":{"content":"<s>","lstrip":false},"eos_token":"</s>",
      "pad_token":null,"add_bos_token":true,"model_max_length":1000000000000000019884624838656,
      "tokenizer_class":"LlamaTokenizer"})");
  ASSERT_TRUE(config.ok()) << config.error().message;
  EXPECT_EQ(config->chat_template, "D");
  EXPECT_EQ(config->named_templates.at("rag"), "R");
  EXPECT_EQ(config->bos_token, "<s>");
  EXPECT_EQ(config->eos_token, "</s>");
  EXPECT_FALSE(config->pad_token.has_value());
  EXPECT_EQ(config->add_bos_token, true);
  EXPECT_FALSE(config->model_max_length.has_value());
  EXPECT_EQ(TokenizerConfig::parse(R"({"chat_template":[{"name":"x","template":"X"}]})")->chat_template, "X");
  EXPECT_EQ(TokenizerConfig::parse(R"({"chat_template":"T","model_max_length":2048})")->model_max_length, 2048);
  EXPECT_FALSE(TokenizerConfig::parse("{}")->chat_template.has_value());
  for (const char* bad : {R"({"chat_template":7})", R"({"chat_template":[7]})", R"({"chat_template":[{"name":"a"}]})",
                          R"({"chat_template":[{"name":1,"template":"x"}]})", R"({"bos_token":7})",
                          R"({"eos_token":{"id":7}})", R"({"add_bos_token":"yes"})", R"({"model_max_length":"long"})",
                          R"({"chat_template":[{"name":"a","template":"1"},{"name":"a","template":"2"}]})"}) {
    const auto result = TokenizerConfig::parse(bad, "t.json");
    ASSERT_FALSE(result.ok()) << bad;
    EXPECT_TRUE(result.error().message.starts_with("t.json")) << result.error().message;
  }
}

}  // namespace model_config_test
}  // namespace tandem

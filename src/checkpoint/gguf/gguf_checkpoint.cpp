// A GGUF file as a checkpoint: its tensors under the hub's names and in the hub's order, its tokenizer and template.
#include <algorithm>
#include <memory>

#include "base/error.h"
#include "base/format.h"
#include "checkpoint/container.h"
#include "checkpoint/gguf/gguf.h"
#include "checkpoint/gguf/gguf_config.h"
#include "checkpoint/gguf/gguf_vocabulary.h"
#include "checkpoint/hub/safetensors.h"

namespace tandem {
namespace {

// Tokens that end a turn or a text. Few files name more than one of them, while chat models use several.
constexpr std::string_view kEndings[] = {"<|eot_id|>",    "<|eom_id|>",    "<|end_of_text|>", "<|im_end|>",
                                         "<|endoftext|>", "<end_of_turn>", "<|end|>",         "</s>"};

bool is_attention_row(std::string_view name, std::string_view which) {
  const std::string suffix = str_format(".self_attn.{}_proj.", which);
  return name.find(suffix) != std::string_view::npos;
}

Result<Vocabulary> read_vocabulary(const GgufContent& content) {
  Vocabulary vocabulary;
  TANDEM_ASSIGN(vocabulary.tokens, content.strings("tokenizer.ggml.tokens"));
  TANDEM_ASSIGN(const auto types, content.integers("tokenizer.ggml.token_type"));
  if (types.empty()) vocabulary.kinds.assign(vocabulary.tokens.size(), TokenKind::kNormal);
  for (const int64_t type : types) {
    if (type < 0 || type > 6) return corrupt("{}: a token has the unknown type {}", content.what(), type);
    vocabulary.kinds.push_back(type == 0 ? TokenKind::kNormal : static_cast<TokenKind>(type));
  }
  if (vocabulary.kinds.size() != vocabulary.tokens.size()) {
    return corrupt("{}: {} tokens have {} types", content.what(), vocabulary.tokens.size(), vocabulary.kinds.size());
  }
  return vocabulary;
}

Result<TokenizerSpec> make_tokenizer(const GgufContent& content) {
  TANDEM_ASSIGN(Vocabulary vocabulary, read_vocabulary(content));
  TANDEM_ASSIGN(const auto model, content.string("tokenizer.ggml.model"));
  TANDEM_ASSIGN(const auto pre, content.string("tokenizer.ggml.pre"));
  TANDEM_ASSIGN(const auto bos, content.integer("tokenizer.ggml.bos_token_id"));
  TANDEM_ASSIGN(const auto eos, content.integer("tokenizer.ggml.eos_token_id"));
  TANDEM_ASSIGN(const auto add_bos, content.boolean("tokenizer.ggml.add_bos_token"));
  TANDEM_ASSIGN(const auto add_eos, content.boolean("tokenizer.ggml.add_eos_token"));
  const bool is_sentencepiece = model && *model == "llama";
  vocabulary.pre = pre.value_or("");
  const bool bos_is_usual =
      is_sentencepiece || vocabulary.pre == "llama-bpe" || vocabulary.pre == "llama3" || vocabulary.pre == "llama-v3";
  if (add_bos.value_or(bos_is_usual)) vocabulary.bos = bos;
  if (add_eos.value_or(false)) vocabulary.eos = eos;
  if (is_sentencepiece) {
    TANDEM_ASSIGN(vocabulary.scores, content.floats("tokenizer.ggml.scores"));
    TANDEM_ASSIGN(const auto prefix, content.boolean("tokenizer.ggml.add_space_prefix"));
    vocabulary.add_space_prefix = prefix.value_or(true);
    return sentencepiece_spec(vocabulary, content.what());
  }
  if (model && *model == "gpt2") {
    TANDEM_ASSIGN(vocabulary.merges, content.strings("tokenizer.ggml.merges"));
    return byte_level_spec(vocabulary, content.what());
  }
  return unsupported("{}: tokenizers of type \"{}\" are not supported (llama and gpt2 are)", content.what(),
                     printable_name(model.value_or("")));
}

// tokenizer_config.json, as far as a GGUF file has it.
Result<TokenizerConfig> make_tokenizer_config(const GgufContent& content, const Vocabulary& vocabulary) {
  Json json = Json::object();
  for (const auto& [name, hub] :
       {std::pair{"bos", "bos_token"}, {"eos", "eos_token"}, {"unknown", "unk_token"}, {"padding", "pad_token"}}) {
    TANDEM_ASSIGN(const auto id, content.integer(str_format("tokenizer.ggml.{}_token_id", name)));
    if (id && *id >= 0 && static_cast<size_t>(*id) < vocabulary.tokens.size()) {
      json[hub] = vocabulary.tokens[static_cast<size_t>(*id)];
    }
  }
  for (const char* name : {"add_bos_token", "add_eos_token"}) {
    TANDEM_ASSIGN(const auto value, content.boolean(str_format("tokenizer.ggml.{}", name)));
    if (value) json[name] = *value;
  }
  constexpr std::string_view kTemplate = "tokenizer.chat_template";
  Json templates = Json::array();
  TANDEM_ASSIGN(const auto main, content.string(kTemplate));
  if (main) templates.push_back({{"name", "default"}, {"template", *main}});
  const std::string prefix = std::string(kTemplate) + ".";
  for (const std::string_view key : content.keys(prefix)) {
    TANDEM_ASSIGN(const auto text, content.string(key));
    templates.push_back({{"name", key.substr(prefix.size())}, {"template", *text}});
  }
  if (!templates.empty()) json["chat_template"] = std::move(templates);
  return TokenizerConfig::from_json(json, content.what());
}

Status read_special_tokens(const GgufContent& content, Container& container) {
  TANDEM_ASSIGN(const Vocabulary vocabulary, read_vocabulary(content));
  TANDEM_ASSIGN(container.tokenizer_config, make_tokenizer_config(content, vocabulary));
  std::vector<int64_t>& endings = container.generation.eos_token_ids;
  const auto add_ending = [&](int64_t id) {
    if (std::ranges::find(endings, id) == endings.end()) endings.push_back(id);
  };
  for (const char* name : {"eos", "eot", "eom"}) {
    TANDEM_ASSIGN(const auto id, content.integer(str_format("tokenizer.ggml.{}_token_id", name)));
    if (id && *id >= 0) add_ending(*id);
  }
  for (size_t i = 0; i < vocabulary.tokens.size(); ++i) {
    if (vocabulary.kinds[i] == TokenKind::kControl &&
        std::ranges::find(kEndings, vocabulary.tokens[i]) != std::end(kEndings)) {
      add_ending(static_cast<int64_t>(i));
    }
  }
  return ok_status();
}

Status add_tensors(const GgufContent& content, const GgufArchitecture& architecture, Container& container) {
  const auto heads = container.config["num_attention_heads"].get<int64_t>();
  const int64_t kv_heads = container.config.value("num_key_value_heads", heads);
  for (const GgufTensor& tensor : content.tensors()) {
    std::string name = hub_name_of_gguf(tensor.name, architecture);
    if (name.empty()) continue;
    StoredTensor stored{.encoding = tensor.encoding, .shape = tensor.shape, .parts = {tensor.bytes}};
    if (architecture.interleaved_heads && is_attention_row(name, "q")) stored.interleaved_heads = heads;
    if (architecture.interleaved_heads && is_attention_row(name, "k")) stored.interleaved_heads = kv_heads;
    if (architecture.norms_plus_one && name.ends_with("norm.weight")) stored.offset = -1.0f;
    TANDEM_TRY(container.add(std::move(name), std::move(stored), content.what(), tensor.name));
  }
  return ok_status();
}

}  // namespace

Result<Container> open_gguf(const std::filesystem::path& path) {
  TANDEM_ASSIGN(MappedFile file, MappedFile::open(path));
  TANDEM_ASSIGN(Container container, if_unchanged(file, parse_gguf(file.bytes(), path.string())));
  container.files.push_back(std::move(file));  // Its bytes stay in place.
  return container;
}

Result<Container> parse_gguf(std::span<const uint8_t> bytes, std::string_view what) {
  Container container;
  TANDEM_ASSIGN(GgufContent parsed, GgufContent::parse(bytes, what));
  const auto content = std::make_shared<const GgufContent>(std::move(parsed));
  TANDEM_ASSIGN(const GgufArchitecture* architecture, find_gguf_architecture(*content));
  TANDEM_ASSIGN(container.config, make_gguf_config(*content, *architecture));
  container.config_what = what;
  TANDEM_TRY(add_tensors(*content, *architecture, container));
  TANDEM_TRY(read_special_tokens(*content, container));
  if (content->has("tokenizer.ggml.tokens")) {
    container.tokenizer = [content] { return make_tokenizer(*content); };
  }
  return container;
}

}  // namespace tandem

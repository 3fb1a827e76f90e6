#include "checkpoint/meta/llama_params.h"

#include <algorithm>

#include "base/error.h"
#include "base/format.h"
#include "checkpoint/hub/config_reader.h"
#include "checkpoint/hub/safetensors.h"

namespace tandem {
namespace {

enum class Cut {
  kCopied,     // Every part has all of it.
  kRows,       // Each part has some of the rows (Meta: column parallel).
  kColumns,    // Each part has some of the columns (Meta: row parallel).
  kEmbedding,  // Columns up to Llama 2, rows from Llama 3 on.
};

struct MetaName {
  std::string_view meta;
  std::string_view hub;
  Cut cut;
};
constexpr MetaName kMetaTopNames[] = {
    {"tok_embeddings.weight", "model.embed_tokens.weight", Cut::kEmbedding},
    {"norm.weight", "model.norm.weight", Cut::kCopied},
    {"output.weight", "lm_head.weight", Cut::kRows},
};
constexpr MetaName kMetaLayerNames[] = {
    {"attention.wq.weight", "self_attn.q_proj.weight", Cut::kRows},
    {"attention.wk.weight", "self_attn.k_proj.weight", Cut::kRows},
    {"attention.wv.weight", "self_attn.v_proj.weight", Cut::kRows},
    {"attention.wo.weight", "self_attn.o_proj.weight", Cut::kColumns},
    {"feed_forward.w1.weight", "mlp.gate_proj.weight", Cut::kRows},
    {"feed_forward.w2.weight", "mlp.down_proj.weight", Cut::kColumns},
    {"feed_forward.w3.weight", "mlp.up_proj.weight", Cut::kRows},
    {"attention_norm.weight", "input_layernorm.weight", Cut::kCopied},
    {"ffn_norm.weight", "post_attention_layernorm.weight", Cut::kCopied},
};

// Frequencies and masks, which are recomputed.
bool is_made_anew(std::string_view name) {
  return name == "rope.freqs" || name.ends_with(".rope.freqs") || name == "freqs_cos" || name == "freqs_sin" ||
         name == "freqs_cis" || name.ends_with(".attention.mask");
}

// The table row of a name, and the hub's name; no row for an unknown name, which stays as it is.
std::pair<const MetaName*, std::string> find_name(std::string_view name) {
  for (const MetaName& row : kMetaTopNames) {
    if (name == row.meta) return {&row, std::string(row.hub)};
  }
  constexpr std::string_view kLayers = "layers.";
  const size_t end = name.find('.', kLayers.size());
  if (name.starts_with(kLayers) && end != std::string_view::npos) {
    for (const MetaName& row : kMetaLayerNames) {
      if (name.substr(end + 1) == row.meta) {
        return {&row, str_format("model.layers.{}.{}", name.substr(kLayers.size(), end - kLayers.size()), row.hub)};
      }
    }
  }
  return {nullptr, std::string(name)};
}

struct LlamaParams {
  int64_t dim = 0;
  int64_t layers = 0;
  int64_t heads = 0;
  int64_t kv_heads = 0;
  std::optional<int64_t> vocab_size;
  double norm_eps = 1e-5;
  double rope_theta = 10000.0;
  bool scaled_rope = false;
  std::optional<double> rope_factor;
  std::optional<int64_t> max_seq_len;
  std::vector<std::string> unknown;
};

Result<LlamaParams> read_params(const Json& json, std::string_view what) {
  if (!json.is_object()) return corrupt("{}: should be a JSON object, but is {}", what, json.type_name());
  ConfigReader reader(json, what);
  LlamaParams params;
  for (const char* key : {"moe", "moe_args", "quantization_args", "lora_args", "vision_chunk_size"}) {
    const auto it = json.find(key);
    if (it == json.end() || it->is_null() || *it == Json(-1) || *it == Json(false)) {
      reader.ignore(key);
      continue;
    }
    return unsupported("{}: models with \"{}\" are not supported", what, key);
  }
  TANDEM_ASSIGN(params.dim, reader.required_size({"dim"}, 1'000'000));
  TANDEM_ASSIGN(params.layers, reader.required_size({"n_layers"}, 10'000));
  TANDEM_ASSIGN(params.heads, reader.required_size({"n_heads"}, 65'536));
  TANDEM_ASSIGN(const auto kv_heads, reader.size({"n_kv_heads"}, 65'536));
  params.kv_heads = kv_heads.value_or(params.heads);
  TANDEM_ASSIGN(params.vocab_size, reader.integer({"vocab_size"}));
  if (params.vocab_size && *params.vocab_size <= 0) params.vocab_size.reset();  // -1: the tokenizer's size.
  TANDEM_ASSIGN(const auto eps, reader.positive({"norm_eps"}));
  TANDEM_ASSIGN(const auto theta, reader.positive({"rope_theta"}));
  TANDEM_ASSIGN(const auto scaled, reader.boolean({"use_scaled_rope"}));
  TANDEM_ASSIGN(params.rope_factor, reader.positive({"rope_scaling_factor"}));
  TANDEM_ASSIGN(params.max_seq_len, reader.size({"max_seq_len"}, INT32_MAX));
  params.norm_eps = eps.value_or(params.norm_eps);
  params.rope_theta = theta.value_or(params.rope_theta);
  params.scaled_rope = scaled.value_or(false);
  // The width of the MLP is taken from its weights; these only say how it was computed.
  for (const char* key : {"multiple_of", "ffn_dim_multiplier", "hidden_dim", "dropout", "max_batch_size"}) {
    reader.ignore(key);
  }
  params.unknown = reader.unread();
  return params;
}

// params.json does not say how many positions a model was trained for; these are the numbers of each generation.
int64_t context_of(const LlamaParams& params) {
  if (params.max_seq_len) return *params.max_seq_len;
  if (params.scaled_rope) return 131072;               // Llama 3.1 and later
  if (params.rope_theta == 1'000'000.0) return 16384;  // Code Llama
  if (params.rope_theta == 500'000.0) return 8192;     // Llama 3
  return 4096;                                         // Llama 2
}

// Llama 3.1 scales the rope by 8. The two small models of Llama 3.2 scale it by 32, which no key says.
double rope_factor_of(const LlamaParams& params) {
  if (params.rope_factor) return *params.rope_factor;
  const bool is_1b = params.dim == 2048 && params.layers == 16, is_3b = params.dim == 3072 && params.layers == 28;
  return is_1b || is_3b ? 32.0 : 8.0;
}

Json make_config(const LlamaParams& params, const Json& given, int64_t vocab_size, int64_t intermediate, bool tied) {
  Json config = {{"architectures", {"LlamaForCausalLM"}},
                 {"model_type", "llama"},
                 {"vocab_size", vocab_size},
                 {"hidden_size", params.dim},
                 {"intermediate_size", intermediate},
                 {"num_hidden_layers", params.layers},
                 {"num_attention_heads", params.heads},
                 {"num_key_value_heads", params.kv_heads},
                 {"hidden_act", "silu"},
                 {"max_position_embeddings", context_of(params)},
                 {"rms_norm_eps", params.norm_eps},
                 {"rope_theta", params.rope_theta},
                 {"tie_word_embeddings", tied}};
  if (params.scaled_rope) {
    config["rope_scaling"] = {{"rope_type", "llama3"},
                              {"factor", rope_factor_of(params)},
                              {"low_freq_factor", 1.0},
                              {"high_freq_factor", 4.0},
                              {"original_max_position_embeddings", 8192}};
  }
  // Llama 3's vocabulary has its own ids; earlier ones have sentencepiece's usual ones.
  if (vocab_size >= kLlama3Bos) {
    config["bos_token_id"] = kLlama3Bos;
    config["eos_token_id"] = {128001, 128008, 128009};
  } else {
    config["bos_token_id"] = 1;
    config["eos_token_id"] = 2;
  }
  for (const std::string& key : params.unknown) {
    if (!config.contains(key)) config[key] = given[key];  // So that it is reported as unknown.
  }
  return config;
}

// Joins all parts of one weight.
Result<StoredTensor> join(std::string_view name, Cut cut, int64_t dim, const std::vector<TorchTensors>& shards,
                          std::string_view what) {
  const TorchTensor& first = shards[0].at(std::string(name));
  StoredTensor tensor{.encoding = encoding_of(first.dtype), .shape = first.shape};
  for (size_t i = 0; i < shards.size(); ++i) {
    const auto part = shards[i].find(std::string(name));
    if (part == shards[i].end()) {
      return corrupt("{}: part {} has no tensor \"{}\", but part 0 has", what, i, printable_name(name));
    }
    if (part->second.shape != first.shape || part->second.dtype != first.dtype) {
      return corrupt("{}: tensor \"{}\" differs between the parts in shape or type ({} [{}], {} [{}])", what,
                     printable_name(name), dtype_name(first.dtype), str_join(first.shape, ", "),
                     dtype_name(part->second.dtype), str_join(part->second.shape, ", "));
    }
    tensor.parts.push_back(part->second.bytes);
  }
  const auto count = static_cast<int64_t>(shards.size());
  if (count == 1) return tensor;
  if (cut == Cut::kEmbedding) cut = first.shape.size() == 2 && first.shape[1] == dim ? Cut::kRows : Cut::kColumns;
  if (cut == Cut::kCopied) {
    tensor.parts.resize(1);
    return tensor;
  }
  tensor.parts_axis = cut == Cut::kRows ? 0 : 1;
  if (tensor.shape.size() != 2 || tensor.shape[static_cast<size_t>(tensor.parts_axis)] > INT64_MAX / count) {
    return corrupt("{}: tensor \"{}\" should have two dimensions, but its shape is [{}]", what, printable_name(name),
                   str_join(tensor.shape, ", "));
  }
  tensor.shape[static_cast<size_t>(tensor.parts_axis)] *= count;
  return tensor;
}

// Whether the LM head is the embedding itself, not a copy.
bool is_same_data(const StoredTensor& a, const StoredTensor& b) {
  return a.encoding == b.encoding && a.shape == b.shape && a.parts_axis == b.parts_axis &&
         std::equal(a.parts.begin(), a.parts.end(), b.parts.begin(), b.parts.end(),
                    [](const auto& x, const auto& y) { return x.data() == y.data() && x.size() == y.size(); });
}

}  // namespace

Status add_llama(const Json& given, std::string_view params_what, const std::vector<TorchTensors>& shards,
                 std::string_view what, Container& container) {
  TANDEM_ASSIGN(const LlamaParams params, read_params(given, params_what));
  for (const auto& [name, first] : shards[0]) {
    if (is_made_anew(name)) continue;
    const auto [row, hub_name] = find_name(name);
    if (row == nullptr && shards.size() > 1) {
      return unsupported("{}: tensor \"{}\" is not known, so its parts cannot be put together", what,
                         printable_name(name));
    }
    TANDEM_ASSIGN(StoredTensor tensor, join(name, row ? row->cut : Cut::kCopied, params.dim, shards, what));
    if (row && row->hub == "self_attn.q_proj.weight") tensor.interleaved_heads = params.heads;
    if (row && row->hub == "self_attn.k_proj.weight") tensor.interleaved_heads = params.kv_heads;
    TANDEM_TRY(container.add(hub_name, std::move(tensor), what, name));
  }

  const auto find = [&](const char* hub, std::string_view meta) -> Result<const StoredTensor*> {
    const auto it = container.tensors.find(hub);
    if (it == container.tensors.end()) {
      return corrupt("{}: there is no tensor \"{}\"; this is not a Llama model in Meta's form", what, meta);
    }
    return &it->second;
  };
  TANDEM_ASSIGN(const StoredTensor* embedding, find("model.embed_tokens.weight", "tok_embeddings.weight"));
  TANDEM_ASSIGN(const StoredTensor* query,
                find("model.layers.0.self_attn.q_proj.weight", "layers.0.attention.wq.weight"));
  TANDEM_ASSIGN(const StoredTensor* gate,
                find("model.layers.0.mlp.gate_proj.weight", "layers.0.feed_forward.w1.weight"));
  if (query->rows() != params.dim) {
    return corrupt("{}: attention.wq has {} rows in {} parts, but {} asks for {}; are all parts there?", what,
                   query->rows(), shards.size(), params_what, params.dim);
  }
  const int64_t vocab_size = params.vocab_size.value_or(embedding->rows());
  const auto head = container.tensors.find("lm_head.weight");
  const bool tied = head == container.tensors.end() || is_same_data(head->second, *embedding);
  if (tied && head != container.tensors.end()) container.tensors.erase(head);
  container.config = make_config(params, given, vocab_size, gate->rows(), tied);
  container.config_what = params_what;
  return ok_status();
}

}  // namespace tandem

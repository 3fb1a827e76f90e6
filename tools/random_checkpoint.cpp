#include "random_checkpoint.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>

#include "base/atomic_file.h"
#include "base/checked.h"
#include "base/error.h"
#include "base/format.h"
#include "base/half.h"
#include "base/json.h"
#include "base/mapped_file.h"
#include "base/thread_pool.h"
#include "byte_tokenizer.h"

namespace tandem::tools {
namespace {

namespace fs = std::filesystem;

constexpr uint64_t kChunk = 256 * 1024;  // Elements that a thread makes at a time.
constexpr uint64_t kMaxTokenizerBytes = 100u << 20;

struct Tensor {
  std::string name;
  std::vector<int64_t> shape;
  double mean = 0;
  double deviation = 0;
  uint64_t elements() const { return *element_count(shape); }
};

std::vector<Tensor> tensors_of(const Shape& s) {
  const int64_t q = s.heads * s.head_dim;
  const int64_t kv = s.kv_heads * s.head_dim;
  std::vector<Tensor> tensors;
  // A sum over n inputs keeps its magnitude if the weights' standard deviation is 1 / sqrt(n).
  const auto matrix = [&](const std::string& name, int64_t out, int64_t in) {
    tensors.push_back({name + ".weight", {out, in}, 0, 1 / std::sqrt(static_cast<double>(in))});
  };
  const auto norm = [&](const std::string& name, int64_t size) {
    tensors.push_back({name + ".weight", {size}, 1, 0.05});
  };
  matrix("model.embed_tokens", s.vocab, s.hidden);
  for (int64_t layer = 0; layer < s.layers; ++layer) {
    const std::string prefix = str_format("model.layers.{}.", layer);
    norm(prefix + "input_layernorm", s.hidden);
    matrix(prefix + "self_attn.q_proj", q, s.hidden);
    matrix(prefix + "self_attn.k_proj", kv, s.hidden);
    matrix(prefix + "self_attn.v_proj", kv, s.hidden);
    if (s.family == "qwen2") {
      tensors.push_back({prefix + "self_attn.q_proj.bias", {q}, 0, 0.2});
      tensors.push_back({prefix + "self_attn.k_proj.bias", {kv}, 0, 0.2});
      tensors.push_back({prefix + "self_attn.v_proj.bias", {kv}, 0, 0.2});
    }
    if (s.family == "qwen3") {
      norm(prefix + "self_attn.q_norm", s.head_dim);
      norm(prefix + "self_attn.k_norm", s.head_dim);
    }
    matrix(prefix + "self_attn.o_proj", s.hidden, q);
    norm(prefix + "post_attention_layernorm", s.hidden);
    matrix(prefix + "mlp.gate_proj", s.ffn, s.hidden);
    matrix(prefix + "mlp.up_proj", s.ffn, s.hidden);
    matrix(prefix + "mlp.down_proj", s.hidden, s.ffn);
  }
  norm("model.norm", s.hidden);
  if (!s.tied) matrix("lm_head", s.vocab, s.hidden);
  return tensors;
}

// Well-mixed bits of a counter, so that any thread can make any element on its own.
inline uint64_t mix(uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

// The sum of four uniform numbers: close enough to a normal distribution, and one mix() per element.
template <typename Store>
void fill(const Tensor& tensor, uint64_t stream, uint64_t begin, uint64_t end, Store store) {
  const float mean = static_cast<float>(tensor.mean);
  const float scale =
      static_cast<float>(tensor.deviation * std::sqrt(3.0) / 65536.0);  // Standard deviation of the sum.
  for (uint64_t i = begin; i < end; ++i) {
    const uint64_t bits = mix(stream + i * 0x9e3779b97f4a7c15u);
    const int32_t sum =
        static_cast<int32_t>((bits & 0xffff) + ((bits >> 16) & 0xffff) + ((bits >> 32) & 0xffff) + (bits >> 48)) -
        2 * 65535;
    store(i - begin, mean + scale * static_cast<float>(sum));
  }
}

void fill_chunk(const Tensor& tensor, DType dtype, uint64_t stream, uint64_t begin, uint64_t end, uint8_t* out) {
  switch (dtype) {
    case DType::kF16:
      fill(tensor, stream, begin, end, [out](uint64_t i, float value) {
        const uint16_t half = f16_from_f32(value);
        std::memcpy(out + 2 * i, &half, 2);
      });
      break;
    case DType::kBF16:
      fill(tensor, stream, begin, end, [out](uint64_t i, float value) {
        const uint16_t half = bf16_from_f32(value);
        std::memcpy(out + 2 * i, &half, 2);
      });
      break;
    default:
      fill(tensor, stream, begin, end, [out](uint64_t i, float value) { std::memcpy(out + 4 * i, &value, 4); });
      break;
  }
}

class Writer {
 public:
  Writer(const RandomCheckpointOptions& options, uint64_t total,
         const std::function<void(uint64_t, uint64_t)>& progress, const std::atomic<bool>& cancel)
      : dtype_(options.dtype),
        element_size_(dtype_bytes(options.dtype, 1)),
        seed_(options.seed),
        total_(total),
        progress_(progress),
        cancel_(cancel),
        pool_(options.threads),
        buffer_(static_cast<size_t>(pool_.size()) * kChunk * element_size_) {}

  // One safetensors file. `first` is the index of its first tensor among all of the model's.
  Status write(const fs::path& path, std::span<const Tensor> tensors, uint64_t first) {
    TANDEM_ASSIGN(AtomicFile file, AtomicFile::create(path));
    TANDEM_TRY(write_header(file, tensors));
    for (size_t i = 0; i < tensors.size(); ++i) TANDEM_TRY(write_tensor(file, tensors[i], mix(seed_ + mix(first + i))));
    return file.commit();
  }

 private:
  Status write_header(AtomicFile& file, std::span<const Tensor> tensors) {
    Json header = {{"__metadata__", {{"format", "pt"}}}};
    uint64_t offset = 0;
    for (const Tensor& tensor : tensors) {
      const uint64_t end = offset + tensor.elements() * element_size_;
      const char* dtype = dtype_ == DType::kF32 ? "F32" : dtype_ == DType::kF16 ? "F16" : "BF16";
      header[tensor.name] = {{"dtype", dtype}, {"shape", tensor.shape}, {"data_offsets", {offset, end}}};
      offset = end;
    }
    std::string text = dump_json(header);
    text.resize(round_up(text.size(), 8), ' ');
    std::string length;
    for (int i = 0; i < 8; ++i) length += static_cast<char>(text.size() >> (8 * i));
    TANDEM_TRY(file.write(length));
    return file.write(text);
  }

  Status write_tensor(AtomicFile& file, const Tensor& tensor, uint64_t stream) {
    const uint64_t elements = tensor.elements();
    const uint64_t batch = static_cast<uint64_t>(pool_.size()) * kChunk;
    for (uint64_t begin = 0; begin < elements; begin += batch) {
      if (cancel_.load()) return cancelled("stopped; nothing half-written is left");
      const uint64_t end = std::min(elements, begin + batch);
      const auto chunks = static_cast<int64_t>((end - begin + kChunk - 1) / kChunk);
      pool_.run(chunks, [&](int64_t chunk, int) {
        const uint64_t from = begin + static_cast<uint64_t>(chunk) * kChunk;
        fill_chunk(tensor, dtype_, stream, from, std::min(end, from + kChunk),
                   buffer_.data() + (from - begin) * element_size_);
      });
      const uint64_t bytes = (end - begin) * element_size_;
      TANDEM_TRY(file.write(std::span<const uint8_t>(buffer_).first(bytes)));
      done_ += bytes;
      progress_(done_, total_);
    }
    return ok_status();
  }

  DType dtype_;
  uint64_t element_size_;
  uint64_t seed_;
  uint64_t total_;
  uint64_t done_ = 0;
  const std::function<void(uint64_t, uint64_t)>& progress_;
  const std::atomic<bool>& cancel_;
  ThreadPool pool_;
  std::vector<uint8_t> buffer_;
};

struct TokenizerFiles {
  std::string tokenizer;
  Json config;
  Json eos = nullptr;  // A number, a list, or null.
  Json bos = nullptr;
};

Result<TokenizerFiles> load_tokenizer(const RandomCheckpointOptions& options) {
  const Shape& shape = options.shape;
  TokenizerFiles files;
  if (options.tokenizer.empty()) {
    if (shape.vocab < kByteTokenizerSize) {
      return invalid_argument("--vocab {} is too small for the built-in tokenizer, which has {} tokens", shape.vocab,
                              kByteTokenizerSize);
    }
    files.tokenizer = dump_json(byte_tokenizer(), 1);
    files.config = chatml_tokenizer_config(shape.context);
    files.eos = Json::array({kImEnd, kEndOfText});
    return files;
  }
  const std::string what = options.tokenizer.string();
  TANDEM_ASSIGN(files.tokenizer, read_text_file(options.tokenizer, kMaxTokenizerBytes));
  TANDEM_ASSIGN(const Json json, parse_json(files.tokenizer, what));
  static const Json kNothing;
  const auto member = [](const Json& object, const char* key) -> const Json& {
    const auto it = object.find(key);
    return it == object.end() ? kNothing : *it;
  };
  const Json& vocab = member(member(json, "model"), "vocab");
  if (!vocab.is_object() && !vocab.is_array()) {
    return invalid_argument("{}: has no model with a vocab; give a tokenizer.json", what);
  }
  int64_t largest = static_cast<int64_t>(vocab.size()) - 1;
  std::map<std::string, int64_t> special;
  if (const Json& added = member(json, "added_tokens"); added.is_array()) {
    for (const Json& token : added) {
      TANDEM_ASSIGN(const auto id, json_int(token, "id"));
      TANDEM_ASSIGN(const auto content, json_string(token, "content"));
      if (!id || !content) return invalid_argument("{}: an added token has no id or content", what);
      largest = std::max(largest, *id);
      special[*content] = *id;
    }
  }
  if (largest >= shape.vocab) {
    return invalid_argument("{}: has token {}, but --vocab is {}; make it larger", what, largest, shape.vocab);
  }
  Json eos = Json::array();
  for (const char* name : {"<|im_end|>", "<|eot_id|>", "<|endoftext|>", "<|end_of_text|>", "</s>"}) {
    if (const auto it = special.find(name); it != special.end()) eos.push_back(it->second);
  }
  if (!eos.empty()) files.eos = std::move(eos);
  for (const char* name : {"<|begin_of_text|>", "<s>"}) {
    if (const auto it = special.find(name); it != special.end() && files.bos.is_null()) files.bos = it->second;
  }
  if (special.contains("<|im_start|>") && special.contains("<|im_end|>")) {
    files.config = chatml_tokenizer_config(shape.context);
    if (!special.contains("<|endoftext|>")) files.config.erase("pad_token");
  } else {
    files.config = {{"tokenizer_class", "PreTrainedTokenizerFast"}, {"model_max_length", shape.context}};
  }
  return files;
}

Json config_json(const RandomCheckpointOptions& options, const TokenizerFiles& tokenizer) {
  const Shape& s = options.shape;
  const char* architecture = s.family == "llama"   ? "LlamaForCausalLM"
                             : s.family == "qwen2" ? "Qwen2ForCausalLM"
                                                   : "Qwen3ForCausalLM";
  Json config = {{"architectures", {architecture}},
                 {"model_type", s.family},
                 {"vocab_size", s.vocab},
                 {"hidden_size", s.hidden},
                 {"intermediate_size", s.ffn},
                 {"num_hidden_layers", s.layers},
                 {"num_attention_heads", s.heads},
                 {"num_key_value_heads", s.kv_heads},
                 {"head_dim", s.head_dim},
                 {"hidden_act", "silu"},
                 {"max_position_embeddings", s.context},
                 {"rms_norm_eps", s.norm_eps},
                 {"rope_theta", s.rope_theta},
                 {"rope_scaling", nullptr},
                 {"tie_word_embeddings", s.tied},
                 {"bos_token_id", tokenizer.bos},
                 {"eos_token_id", tokenizer.eos},
                 {"torch_dtype", options.dtype == DType::kF32   ? "float32"
                                 : options.dtype == DType::kF16 ? "float16"
                                                                : "bfloat16"},
                 {"use_cache", true}};
  if (s.llama3_rope) {
    config["rope_scaling"] = {{"rope_type", "llama3"},
                              {"factor", 32.0},
                              {"low_freq_factor", 1.0},
                              {"high_freq_factor", 4.0},
                              {"original_max_position_embeddings", std::max<int64_t>(s.context / 16, 1)}};
  }
  if (s.family != "qwen2") config["attention_bias"] = false;
  if (s.family == "llama") config["mlp_bias"] = false;
  if (s.family != "llama") config.update({{"use_sliding_window", false}, {"sliding_window", nullptr}});
  return config;
}

Status check_shape(const Shape& s) {
  if (s.family != "llama" && s.family != "qwen2" && s.family != "qwen3") {
    return invalid_argument("--family {} is not known; use llama, qwen2 or qwen3", s.family);
  }
  const std::pair<const char*, int64_t> sizes[] = {
      {"--hidden", s.hidden},     {"--layers", s.layers}, {"--heads", s.heads}, {"--kv-heads", s.kv_heads},
      {"--head-dim", s.head_dim}, {"--ffn", s.ffn},       {"--vocab", s.vocab}, {"--context", s.context}};
  for (const auto& [name, value] : sizes) {
    if (value < 1 || value > 10'000'000) {
      return invalid_argument("{} is {}, but must be between 1 and 10000000", name, value);
    }
  }
  if (s.layers > 10'000) return invalid_argument("--layers is {}, but must be 10000 at most", s.layers);
  if (s.heads % s.kv_heads != 0) {
    return invalid_argument("--heads ({}) must be a multiple of --kv-heads ({})", s.heads, s.kv_heads);
  }
  if (s.heads * s.head_dim > 10'000'000) {
    return invalid_argument("{} heads of {} are too many", s.heads, s.head_dim);
  }
  if (s.head_dim % 2 != 0) return invalid_argument("--head-dim ({}) must be even", s.head_dim);
  return ok_status();
}

// Files of an older checkpoint would be taken for parts of the new one.
Status prepare_folder(const fs::path& folder, bool overwrite) {
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) return io_error("{}: cannot be created ({})", folder.string(), error.message());
  std::vector<fs::path> old;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    const std::string name = it->path().filename().string();
    if (it->path().extension() == ".safetensors" || name == "config.json" || name == "model.safetensors.index.json") {
      old.push_back(it->path());
    }
  }
  if (error) return io_error("{}: cannot be listed ({})", folder.string(), error.message());
  if (!old.empty() && !overwrite) {
    return invalid_argument("{}: there is a checkpoint already; use another folder, or --force", folder.string());
  }
  for (const fs::path& path : old) {
    fs::remove(path, error);
    if (error) return io_error("{}: cannot be removed ({})", path.string(), error.message());
  }
  return ok_status();
}

}  // namespace

const std::vector<NamedShape>& known_shapes() {
  static const std::vector<NamedShape> shapes = {
      {"tiny", {}},
      {"qwen3-0.6b", {"qwen3", 1024, 28, 16, 8, 128, 3072, 151936, 40960, true, 1e6, 1e-6, false}},
      {"qwen3-1.7b", {"qwen3", 2048, 28, 16, 8, 128, 6144, 151936, 40960, true, 1e6, 1e-6, false}},
      {"qwen3-4b", {"qwen3", 2560, 36, 32, 8, 128, 9728, 151936, 40960, true, 1e6, 1e-6, false}},
      {"qwen2.5-0.5b", {"qwen2", 896, 24, 14, 2, 64, 4864, 151936, 32768, true, 1e6, 1e-6, false}},
      {"smollm2-135m", {"llama", 576, 30, 9, 3, 64, 1536, 49152, 8192, true, 1e5, 1e-5, false}},
      {"llama3.2-1b", {"llama", 2048, 16, 32, 8, 64, 8192, 128256, 131072, true, 5e5, 1e-5, true}},
  };
  return shapes;
}

Result<RandomCheckpointResult> write_random_checkpoint(const fs::path& folder, const RandomCheckpointOptions& options,
                                                       const std::function<void(uint64_t, uint64_t)>& progress,
                                                       const std::atomic<bool>& cancel) {
  TANDEM_TRY(check_shape(options.shape));
  TANDEM_ASSIGN(const TokenizerFiles tokenizer, load_tokenizer(options));
  TANDEM_TRY(prepare_folder(folder, options.overwrite));

  const std::vector<Tensor> tensors = tensors_of(options.shape);
  RandomCheckpointResult result;
  std::vector<size_t> shard_begin = {0};
  uint64_t shard_bytes = 0;
  for (size_t i = 0; i < tensors.size(); ++i) {
    const uint64_t bytes = dtype_bytes(options.dtype, tensors[i].elements());
    if (shard_bytes > 0 && shard_bytes + bytes > options.shard_size) {
      shard_begin.push_back(i);
      shard_bytes = 0;
    }
    shard_bytes += bytes;
    result.bytes += bytes;
    result.parameters += tensors[i].elements();
  }
  shard_begin.push_back(tensors.size());
  const size_t shards = shard_begin.size() - 1;
  result.files = static_cast<int>(shards);

  Writer writer(options, result.bytes, progress, cancel);
  Json weight_map = Json::object();
  for (size_t shard = 0; shard < shards; ++shard) {
    const std::string name =
        shards == 1 ? "model.safetensors" : str_format("model-{:05}-of-{:05}.safetensors", shard + 1, shards);
    const size_t begin = shard_begin[shard];
    const auto part = std::span(tensors).subspan(begin, shard_begin[shard + 1] - begin);
    TANDEM_TRY(writer.write(folder / name, part, begin));
    for (const Tensor& tensor : part) weight_map[tensor.name] = name;
  }
  if (shards > 1) {
    const Json index = {{"metadata", {{"total_size", result.bytes}}}, {"weight_map", weight_map}};
    TANDEM_TRY(write_file_atomically(folder / "model.safetensors.index.json", dump_json(index, 2)));
  }
  TANDEM_TRY(write_file_atomically(folder / "tokenizer.json", tokenizer.tokenizer));
  TANDEM_TRY(write_file_atomically(folder / "tokenizer_config.json", dump_json(tokenizer.config, 2)));
  const Json generation = {{"bos_token_id", tokenizer.bos},
                           {"eos_token_id", tokenizer.eos},
                           {"do_sample", true},
                           {"temperature", 0.7},
                           {"top_k", 20},
                           {"top_p", 0.9}};
  TANDEM_TRY(write_file_atomically(folder / "generation_config.json", dump_json(generation, 2)));
  // Last: a folder with a config.json is complete.
  TANDEM_TRY(write_file_atomically(folder / "config.json", dump_json(config_json(options, tokenizer), 2)));
  return result;
}

}  // namespace tandem::tools

// Detects which kind of tokenizer a file or a folder has, and reads it with its companion files.
#include "tokenizer/import/tokenizer_files.h"

#include <algorithm>

#include "base/error.h"
#include "base/file_status.h"
#include "base/json.h"
#include "base/mapped_file.h"
#include "tokenizer/import/gzip.h"
#include "tokenizer/import/sentencepiece_model.h"
#include "tokenizer/import/tiktoken_model.h"
#include "tokenizer/import/tokenizer_extras.h"
#include "tokenizer/import/tokenizer_json.h"
#include "tokenizer/import/vocab_merges.h"

namespace tandem {
namespace {

constexpr uint64_t kMaxJsonBytes = 256u << 20;
constexpr uint64_t kMaxModelBytes = 256u << 20;

// In the order in which a folder is searched.
constexpr const char* kFileNames[] = {"tokenizer.json", "tokenizer.json.gz", "tokenizer.model",
                                      "qwen.tiktoken",  "vocab.json",        "tokenizer.bin"};

// What the post-processor adds, where the configuration overrides the files' default.
void apply_bos_and_eos(const TokenizerExtras& extras, TokenizerSpec& spec) {
  const auto id_of = [&](const std::optional<std::string>& token) {
    return token ? find_token(spec, *token) : std::nullopt;
  };
  if (extras.add_bos_token == false) spec.prefix.clear();
  if (extras.add_bos_token == true && spec.prefix.empty()) {
    if (const auto id = id_of(extras.bos_token)) spec.prefix.push_back(*id);
  }
  if (extras.add_eos_token == true) {
    if (const auto id = id_of(extras.eos_token)) spec.suffix.push_back(*id);
  }
}

Result<TokenizerSpec> read_sentencepiece(std::string_view bytes, const TokenizerExtras& extras) {
  TANDEM_ASSIGN(const SentencePieceModel model, read_sentencepiece_model(bytes));
  TANDEM_ASSIGN(TokenizerSpec spec, make_sentencepiece_spec(model));
  if (extras.add_eos_token == true && !extras.eos_token && model.eos_id >= 0 &&
      static_cast<uint64_t>(model.eos_id) < model.pieces.size()) {
    spec.suffix.push_back(static_cast<uint32_t>(model.eos_id));
  }
  return spec;
}

Result<TokenizerSpec> read_llama2c(std::string_view bytes) {
  TANDEM_ASSIGN(const SentencePieceModel model, read_llama2c_tokenizer(bytes));
  return make_sentencepiece_spec(model);
}

Result<TokenizerSpec> read_vocab(std::string_view bytes, const std::filesystem::path& path,
                                 const TokenizerExtras& extras) {
  const std::filesystem::path merges_path = path.parent_path() / "merges.txt";
  TANDEM_ASSIGN(const bool has_merges, regular_file_exists(merges_path));
  if (!has_merges) return not_found("a vocab.json needs a merges.txt beside it");
  TANDEM_ASSIGN(const std::string merges, read_text_file(merges_path, kMaxModelBytes));
  return read_vocab_and_merges(bytes, merges, extras);
}

Result<TokenizerSpec> read_tiktoken_file(std::string_view bytes, const std::filesystem::path& path,
                                         const TokenizerExtras& extras) {
  if (path.extension() == ".tiktoken") {
    if (path.filename() != "qwen.tiktoken") {
      return unsupported("of the tiktoken files, only Llama 3's tokenizer.model and qwen.tiktoken are supported");
    }
    return read_tiktoken(bytes, TiktokenUser::kQwen);
  }
  const std::string& name = extras.tokenizer_class;
  if (!name.empty() && name != "PreTrainedTokenizer" && name != "LlamaTokenizer") {
    return unsupported("a tiktoken file of the class \"{}\" is not supported; convert it to a tokenizer.json", name);
  }
  return read_tiktoken(bytes, TiktokenUser::kLlama3);
}

Result<Tokenizer> read_tokenizer_file(const std::filesystem::path& path) {
  TANDEM_ASSIGN(const std::string file, read_text_file(path, kMaxModelBytes));
  std::string_view bytes = file;
  std::string unpacked;
  if (is_gzip(bytes)) {
    TANDEM_ASSIGN(unpacked, gunzip(bytes, kMaxJsonBytes));
    bytes = unpacked;
  }
  const size_t start = bytes.find_first_not_of(" \t\r\n");
  const bool is_json = start != std::string_view::npos && bytes[start] == '{';
  if (is_json && path.filename() != "vocab.json") return tokenizer_from_json(bytes);

  TANDEM_ASSIGN(const TokenizerExtras extras, read_tokenizer_extras(path.parent_path()));
  const auto read = [&]() -> Result<TokenizerSpec> {
    if (is_json) return read_vocab(bytes, path, extras);
    if (looks_like_tiktoken(bytes)) return read_tiktoken_file(bytes, path, extras);
    if (looks_like_sentencepiece(bytes)) return read_sentencepiece(bytes, extras);
    if (looks_like_llama2c_tokenizer(bytes)) return read_llama2c(bytes);
    return corrupt("this is no tokenizer: neither JSON, nor sentencepiece, nor tiktoken, nor of llama2.c");
  };
  TANDEM_ASSIGN(TokenizerSpec spec, read());
  TANDEM_TRY(apply_tokenizer_extras(extras, spec));
  apply_bos_and_eos(extras, spec);
  return tokenizer_from_spec(spec);
}

}  // namespace

Result<Tokenizer> tokenizer_from_spec(const TokenizerSpec& spec) {
  TANDEM_ASSIGN(std::vector<uint8_t> blob, compile_tokenizer(spec));
  return Tokenizer::from_owned_blob(std::move(blob));
}

Result<Tokenizer> tokenizer_from_json(std::string_view tokenizer_json) {
  if (tokenizer_json.size() > kMaxJsonBytes) {
    return corrupt("tokenizer.json has {} bytes, more than such a file can have", tokenizer_json.size());
  }
  TokenizerSpec spec;
  {
    TANDEM_ASSIGN(const Json json, parse_json(tokenizer_json, "tokenizer.json"));
    TANDEM_ASSIGN(spec, read_tokenizer_json(json));
  }
  return tokenizer_from_spec(spec);
}

std::vector<uint8_t> serialize_tokenizer(const Tokenizer& tokenizer) {
  return {tokenizer.blob().begin(), tokenizer.blob().end()};
}

Result<Tokenizer> tokenizer_from_file(const std::filesystem::path& path) {
  Result<Tokenizer> tokenizer = read_tokenizer_file(path);
  if (!tokenizer.ok()) return with_context(std::move(tokenizer).error(), "{}", path.string());
  return tokenizer;
}

Result<std::optional<Tokenizer>> tokenizer_from_directory(const std::filesystem::path& folder,
                                                          const std::optional<std::filesystem::path>& file) {
  std::optional<std::filesystem::path> path = file;
  for (const char* name : kFileNames) {
    if (path) break;
    TANDEM_ASSIGN(const bool is_there, regular_file_exists(folder / name));
    if (is_there) path = folder / name;
  }
  if (!path) return std::optional<Tokenizer>();
  TANDEM_ASSIGN(Tokenizer tokenizer, tokenizer_from_file(*path));
  return std::optional<Tokenizer>(std::move(tokenizer));
}

}  // namespace tandem

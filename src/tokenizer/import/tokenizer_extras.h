// The files that transformers reads in addition to a vocabulary other than tokenizer.json: tokenizer_config.json,
// special_tokens_map.json and added_tokens.json.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "tandem/status.h"
#include "tokenizer/tokenizer_spec.h"

namespace tandem {

struct TokenizerExtras {
  std::string tokenizer_class;  // Without "Fast"; empty if unknown.
  std::optional<bool> add_bos_token;
  std::optional<bool> add_eos_token;
  std::optional<bool> add_prefix_space;
  std::optional<std::string> bos_token;
  std::optional<std::string> eos_token;
  std::optional<std::string> unk_token;
  std::vector<AddedToken> added_tokens;     // With their ids.
  std::vector<std::string> special_tokens;  // From special_tokens_map.json.
};

// All files are optional; a broken one is an error.
Result<TokenizerExtras> read_tokenizer_extras(const std::filesystem::path& folder);

// Adds the tokens to a tokenizer that has its vocabulary: those already in it keep their ids and become added tokens.
Status apply_tokenizer_extras(const TokenizerExtras& extras, TokenizerSpec& spec);

// The id of a token of the vocabulary or of an added one.
std::optional<uint32_t> find_token(const TokenizerSpec& spec, std::string_view token);

}  // namespace tandem

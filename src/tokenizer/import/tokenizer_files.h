// Reads the tokenizers of checkpoints and compiles them for the run time.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string_view>
#include <vector>

#include "tandem/status.h"
#include "tokenizer/tokenizer.h"
#include "tokenizer/tokenizer_spec.h"

namespace tandem {

// The tokenizer of a checkpoint's folder, from the first of these that exists: tokenizer.json (or .gz), tokenizer.model
// (sentencepiece or tiktoken), qwen.tiktoken, vocab.json with merges.txt, tokenizer.bin (llama2.c). Nothing if there is
// none. What the older files lack is read from tokenizer_config.json, special_tokens_map.json and added_tokens.json in
// the same folder. A `file` that the checkpoint names is tried first.
Result<std::optional<Tokenizer>> tokenizer_from_directory(const std::filesystem::path& folder,
                                                          const std::optional<std::filesystem::path>& file = {});
// One of these files, whatever its name; a vocab.json needs its merges.txt in the same folder.
Result<Tokenizer> tokenizer_from_file(const std::filesystem::path& path);
// The text of a tokenizer.json. Unsupported features are refused by name (kUnsupported).
Result<Tokenizer> tokenizer_from_json(std::string_view tokenizer_json);
Result<Tokenizer> tokenizer_from_spec(const TokenizerSpec& spec);

// The compiled form, for an artifact. Fails only for what the format cannot represent and for unsupported patterns.
Result<std::vector<uint8_t>> compile_tokenizer(const TokenizerSpec& spec);
// The compiled form that a tokenizer runs.
std::vector<uint8_t> serialize_tokenizer(const Tokenizer& tokenizer);

}  // namespace tandem

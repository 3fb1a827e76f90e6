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

// The tokenizer of a checkpoint's folder, from whichever of these it has, the first that is there: tokenizer.json
// (or .gz), tokenizer.model (sentencepiece or tiktoken), qwen.tiktoken, vocab.json with merges.txt, tokenizer.bin
// (llama2.c). Nothing if it has none. What the older files do not say is read from tokenizer_config.json,
// special_tokens_map.json and added_tokens.json beside them. A `file` that the checkpoint names goes first.
Result<std::optional<Tokenizer>> tokenizer_from_directory(const std::filesystem::path& folder,
                                                          const std::optional<std::filesystem::path>& file = {});
// One of these files, whatever it is called; a vocab.json needs its merges.txt beside it.
Result<Tokenizer> tokenizer_from_file(const std::filesystem::path& path);
// The text of a tokenizer.json. What is not supported is refused by name (kUnsupported).
Result<Tokenizer> tokenizer_from_json(std::string_view tokenizer_json);
Result<Tokenizer> tokenizer_from_spec(const TokenizerSpec& spec);

// The compiled form, for an artifact. Fails only for what the format cannot hold, and for patterns that are not
// supported.
Result<std::vector<uint8_t>> compile_tokenizer(const TokenizerSpec& spec);
// The compiled form that a tokenizer runs.
std::vector<uint8_t> serialize_tokenizer(const Tokenizer& tokenizer);

}  // namespace tandem

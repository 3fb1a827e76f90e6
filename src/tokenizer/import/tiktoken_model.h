// Reads tiktoken vocabularies: a line for each token, its bytes in base64 and its rank. The files contain neither the
// pattern nor the special tokens, so both depend on the model that uses the file.
#pragma once

#include <string_view>

#include "tandem/status.h"
#include "tokenizer/tokenizer_spec.h"

namespace tandem {

enum class TiktokenUser { kLlama3, kQwen };

bool looks_like_tiktoken(std::string_view bytes);
Result<TokenizerSpec> read_tiktoken(std::string_view bytes, TiktokenUser user);

}  // namespace tandem

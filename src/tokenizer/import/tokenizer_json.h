// Reads tokenizer.json, as the Hugging Face `tokenizers` library does.
#pragma once

#include "base/json.h"
#include "tandem/status.h"
#include "tokenizer/tokenizer_spec.h"

namespace tandem {

// Unsupported features are refused by name (kUnsupported).
Result<TokenizerSpec> read_tokenizer_json(const Json& json);

// The flags of one added token ({"content": …, "lstrip": …}); its id is ignored.
Result<AddedToken> read_added_token(const Json& item);

}  // namespace tandem

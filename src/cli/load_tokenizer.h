// Finds the tokenizer of the model that the user named.
#pragma once

#include <filesystem>

#include "tandem/status.h"
#include "tokenizer/tokenizer.h"

namespace tandem {

// `model` is a checkpoint folder, a compiled file, or a tokenizer file (tokenizer.json, tokenizer.model, …).
Result<Tokenizer> load_tokenizer(const std::filesystem::path& model);

}  // namespace tandem

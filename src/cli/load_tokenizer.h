// Finds the tokenizer of whatever the user named as a model.
#pragma once

#include <filesystem>

#include "tandem/status.h"
#include "tokenizer/tokenizer.h"

namespace tandem {

// `model` is a checkpoint folder, a compiled file, or a tokenizer's own file (tokenizer.json, tokenizer.model, …).
Result<Tokenizer> load_tokenizer(const std::filesystem::path& model);

}  // namespace tandem

// Finds the tokenizer of whatever the user named as a model.
#pragma once

#include <filesystem>

#include "tandem/status.h"
#include "text/tokenizer.h"

namespace tandem {

// `model` is a checkpoint folder, a tokenizer.json or a tokenizer.json.gz.
Result<Tokenizer> load_tokenizer(const std::filesystem::path& model);

}  // namespace tandem

// Loads a checkpoint's tokenizer, wherever it is stored.
#pragma once

#include <optional>

#include "checkpoint/checkpoint.h"
#include "tandem/status.h"
#include "tokenizer/tokenizer.h"

namespace tandem {

// From inside the checkpoint (GGUF), or from the files next to its weights. Nothing if there is neither.
Result<std::optional<Tokenizer>> load_checkpoint_tokenizer(const Checkpoint& checkpoint);

}  // namespace tandem

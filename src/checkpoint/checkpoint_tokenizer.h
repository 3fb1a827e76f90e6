// The tokenizer of a checkpoint, wherever that has it.
#pragma once

#include <optional>

#include "checkpoint/checkpoint.h"
#include "tandem/status.h"
#include "tokenizer/tokenizer.h"

namespace tandem {

// From what is inside the checkpoint (GGUF), or from the files beside its weights. Nothing if there is neither.
Result<std::optional<Tokenizer>> load_checkpoint_tokenizer(const Checkpoint& checkpoint);

}  // namespace tandem

#include "checkpoint/checkpoint_tokenizer.h"

#include "base/error.h"

namespace tandem {

Result<std::optional<Tokenizer>> load_checkpoint_tokenizer(const Checkpoint& checkpoint) {
  TANDEM_ASSIGN(const std::optional<std::string> embedded, checkpoint.embedded_tokenizer_json());
  if (!embedded) return Tokenizer::from_directory(checkpoint.folder(), checkpoint.tokenizer_path());
  TANDEM_ASSIGN(Tokenizer tokenizer, Tokenizer::from_json(*embedded));
  return std::optional<Tokenizer>(std::move(tokenizer));
}

}  // namespace tandem

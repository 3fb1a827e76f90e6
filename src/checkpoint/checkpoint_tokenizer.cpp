#include "checkpoint/checkpoint_tokenizer.h"

#include "base/error.h"
#include "tokenizer/import/tokenizer_files.h"

namespace tandem {

Result<std::optional<Tokenizer>> load_checkpoint_tokenizer(const Checkpoint& checkpoint) {
  TANDEM_ASSIGN(const std::optional<TokenizerSpec> embedded, checkpoint.embedded_tokenizer());
  if (!embedded) return tokenizer_from_directory(checkpoint.folder(), checkpoint.tokenizer_path());
  TANDEM_ASSIGN(Tokenizer tokenizer, tokenizer_from_spec(*embedded));
  return std::optional<Tokenizer>(std::move(tokenizer));
}

}  // namespace tandem

#include "cli/load_tokenizer.h"

#include <deque>

#include "artifact/reader.h"
#include "base/error.h"
#include "checkpoint/checkpoint_tokenizer.h"
#include "tokenizer/import/tokenizer_files.h"

namespace tandem {
namespace {

Result<Tokenizer> from_artifact(const std::filesystem::path& path) {
  static std::deque<Artifact> kept;  // A tokenizer reads the mapped file until the process ends.
  TANDEM_ASSIGN(Artifact artifact, Artifact::open(path));
  const TextInfo& text = artifact.header().text;
  if (!text.has_tokenizer) return not_found("{}: this file has no tokenizer", path.string());
  TANDEM_TRY(artifact.verify_segment(text.tokenizer.segment));
  kept.push_back(std::move(artifact));
  return Tokenizer::from_blob(kept.back().bytes(kept.back().header().text.tokenizer));
}

}  // namespace

Result<Tokenizer> load_tokenizer(const std::filesystem::path& model) {
  std::error_code error;
  if (looks_like_artifact(model)) return from_artifact(model);
  const bool is_folder = std::filesystem::is_directory(model, error);
  if (!is_folder && model.extension() != ".gguf") return tokenizer_from_file(model);
  std::optional<Tokenizer> tokenizer;
  if (is_folder) {
    TANDEM_ASSIGN(tokenizer, tokenizer_from_directory(model));
  }
  if (!tokenizer) {
    // A checkpoint that contains it. A folder need not be a checkpoint to have a tokenizer, so this comes last.
    auto checkpoint = Checkpoint::open(model);
    if (!checkpoint.ok() && !is_folder) return std::move(checkpoint).error();
    if (checkpoint.ok()) {
      TANDEM_ASSIGN(tokenizer, load_checkpoint_tokenizer(*checkpoint));
    }
  }
  if (tokenizer) return *std::move(tokenizer);
  return not_found("{}: this folder has no tokenizer; name a checkpoint folder or the tokenizer's file",
                   model.string());
}

}  // namespace tandem

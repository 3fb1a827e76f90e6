#include "cli/load_tokenizer.h"

#include <deque>

#include "artifact/reader.h"
#include "base/error.h"

namespace tandem {
namespace {

Result<Tokenizer> from_artifact(const std::filesystem::path& path) {
  static std::deque<Artifact> kept;  // A tokenizer reads from the file's memory for as long as the process lives.
  TANDEM_ASSIGN(Artifact artifact, Artifact::open(path));
  const TextInfo& text = artifact.head().text;
  if (!text.has_tokenizer) return not_found("{}: this file has no tokenizer", path.string());
  TANDEM_TRY(artifact.verify_segment(text.tokenizer.segment));
  kept.push_back(std::move(artifact));
  return Tokenizer::from_blob(kept.back().bytes(kept.back().head().text.tokenizer));
}

}  // namespace

Result<Tokenizer> load_tokenizer(const std::filesystem::path& model) {
  std::error_code error;
  if (looks_like_artifact(model)) return from_artifact(model);
  if (!std::filesystem::is_directory(model, error)) return Tokenizer::from_file(model);
  for (const char* name : {"tokenizer.json", "tokenizer.json.gz"}) {
    const std::filesystem::path path = model / name;
    if (std::filesystem::exists(path, error)) return Tokenizer::from_file(path);
  }
  return not_found("{}: this folder has no tokenizer.json; name a checkpoint folder or the file itself",
                   model.string());
}

}  // namespace tandem

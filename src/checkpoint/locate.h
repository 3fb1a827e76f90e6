// Which kind of checkpoint a path is.
#pragma once

#include <filesystem>
#include <string>

#include "tandem/status.h"

namespace tandem {

enum class CheckpointKind { kHub, kMeta, kLlama2c, kGguf };

struct CheckpointPlace {
  CheckpointKind kind = CheckpointKind::kHub;
  std::filesystem::path path;  // The folder of a hub's or Meta's, the file of the others.
};

// Files go by their first bytes and their endings. A folder is a hub's if it has `config_name`, but for one that has no
// weights of a hub's and a single GGUF file instead.
Result<CheckpointPlace> locate_checkpoint(const std::filesystem::path& path, const std::string& config_name);

// Whether a path is a file that begins as a checkpoint in one file does (GGUF, torch.save()). Never an error.
bool is_checkpoint_file(const std::filesystem::path& path);

}  // namespace tandem

// Which kind of checkpoint a path is.
#pragma once

#include <filesystem>
#include <string>

#include "tandem/status.h"

namespace tandem {

enum class CheckpointKind { kHub, kMeta, kLlama2c, kGguf };

struct CheckpointLocation {
  CheckpointKind kind = CheckpointKind::kHub;
  std::filesystem::path path;  // The folder of a hub's or Meta's checkpoint, the file of the others.
};

// Files are recognized by their first bytes and extensions. A folder is a hub's if it has `config_name`, unless it has
// no hub weights and a single GGUF file instead.
Result<CheckpointLocation> locate_checkpoint(const std::filesystem::path& path, const std::string& config_name);

// Whether a path is a file that begins like a single-file checkpoint (GGUF, torch.save()). Never an error.
bool is_checkpoint_file(const std::filesystem::path& path);

}  // namespace tandem

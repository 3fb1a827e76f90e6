// Reads conversations from a file, for evaluation or calibration.
#pragma once

#include <filesystem>
#include <vector>

#include "tandem/message.h"
#include "tandem/status.h"

namespace tandem {

using Conversation = std::vector<Message>;

// {"conversations": [[{"role": ..., "content": ...}, ...], ...]}
Result<std::vector<Conversation>> read_conversations(const std::filesystem::path& path);

}  // namespace tandem

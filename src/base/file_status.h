// Whether a file is there, told apart from not being able to look.
#pragma once

#include <filesystem>

#include "tandem/status.h"

namespace tandem {

// True for a regular file or a link to one; false if there is nothing, or something else. A file that cannot be looked
// at (no permission, a disk that does not answer) is an error: a caller that took it for absent would leave out a
// tokenizer or a configuration and say nothing.
Result<bool> regular_file_exists(const std::filesystem::path& path);

}  // namespace tandem

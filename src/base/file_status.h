// Whether a file exists, as opposed to not being able to find out.
#pragma once

#include <filesystem>

#include "tandem/status.h"

namespace tandem {

// True for a regular file or a link to one; false if there is nothing, or something else. A file that cannot be
// examined (no permission, a disk that does not answer) is an error: a caller that took it for absent would silently
// leave out a tokenizer or a configuration.
Result<bool> regular_file_exists(const std::filesystem::path& path);

}  // namespace tandem

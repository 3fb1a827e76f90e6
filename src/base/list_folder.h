// Lists a folder.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "tandem/status.h"

namespace tandem {

// The names of all entries, sorted. Not with std::filesystem, whose iterators terminate the process when memory runs
// out.
Result<std::vector<std::string>> list_folder(const std::filesystem::path& folder);

}  // namespace tandem

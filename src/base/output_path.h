// What may be written where: checks a user's output path before any work is done.
#pragma once

#include <filesystem>
#include <functional>
#include <span>
#include <string_view>

#include "tandem/status.h"

namespace tandem {

struct OutputRules {
  // Files that are read. The output must be none of them, by whatever name or link: not even `force` allows that.
  std::span<const std::filesystem::path> inputs = {};
  // Whether an existing file is of the kind that is written, and so may be replaced. Empty: none is. Empty files always
  // may be.
  std::function<bool(const std::filesystem::path&)> may_replace = {};
  std::string_view kind = "a file of this kind";  // What `may_replace` looks for: "a compiled file".
  std::string_view advice = {};                   // Appended to the refusal: "; `force` replaces it".
  bool force = false;                             // Replace any regular file or link.
};

// Refuses an empty path, folders, devices, pipes, links, a parent folder that does not exist or is not writable, any of
// the inputs, and files that somebody else made.
Status check_output_path(const std::filesystem::path& path, const OutputRules& rules);

// Whether both are the same file, by whatever names (links are followed). False if one does not exist.
Result<bool> is_same_file(const std::filesystem::path& a, const std::filesystem::path& b);

// Whether a regular file begins with these bytes: how we recognize our own kinds of files.
bool file_starts_with(const std::filesystem::path& path, std::string_view start);

}  // namespace tandem

// What may be written where: the checks of a path that the user gave for output, before any work is done.
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
  // Tells whether a file that is there already is of the kind that is written, and so may be replaced. Empty: none is.
  // Files of zero bytes always may.
  std::function<bool(const std::filesystem::path&)> may_replace = {};
  std::string_view kind = "a file of this kind";  // What `may_replace` looks for: "a compiled file".
  std::string_view way_out = {};                  // Put behind the refusal: "; `force` replaces it".
  bool force = false;                             // Whatever regular file or link is there is replaced.
};

// Refuses an empty path, folders, devices, pipes, links, a parent folder that does not exist or cannot be written to,
// one of the inputs, and files that somebody else made.
Status check_output_path(const std::filesystem::path& path, const OutputRules& rules);

// Whether both are one file, by whatever names (links are followed). False if one is not there.
Result<bool> is_same_file(const std::filesystem::path& a, const std::filesystem::path& b);

// Whether a regular file begins with these bytes: by that, files of one kind are told from others.
bool file_starts_with(const std::filesystem::path& path, std::string_view start);

}  // namespace tandem

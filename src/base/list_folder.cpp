#include "base/list_folder.h"

#include <dirent.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <string_view>

#include "base/error.h"

namespace tandem {

Result<std::vector<std::string>> list_folder(const std::filesystem::path& folder) {
  const std::unique_ptr<DIR, int (*)(DIR*)> open(::opendir(folder.c_str()), ::closedir);
  if (open == nullptr) return io_error("{}: cannot be listed ({})", folder.string(), std::strerror(errno));
  std::vector<std::string> names;
  for (;;) {
    errno = 0;
    const dirent* entry = ::readdir(open.get());
    if (entry == nullptr) break;
    const std::string_view name = entry->d_name;
    if (name != "." && name != "..") names.emplace_back(name);
  }
  // A partial list could be taken for a different kind of folder.
  if (errno != 0) return io_error("{}: cannot be listed ({})", folder.string(), std::strerror(errno));
  std::ranges::sort(names);
  return names;
}

}  // namespace tandem

// A temporary folder for files that adb shall copy, removed with its content at the end.
#pragma once

#include <stdlib.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <string>

#include "base/error.h"
#include "tandem/status.h"

namespace tandem {

class StagingFolder {
 public:
  StagingFolder() = default;
  StagingFolder(const StagingFolder&) = delete;
  StagingFolder& operator=(const StagingFolder&) = delete;
  ~StagingFolder() {
    std::error_code ignored;
    if (!path_.empty()) std::filesystem::remove_all(path_, ignored);
  }

  Status create() {
    std::error_code error;
    const auto folder = std::filesystem::temp_directory_path(error);
    if (error) return io_error("there is no folder for temporary files ({}); set TMPDIR to one", error.message());
    std::string name = (folder / "tandem-deploy-XXXXXX").string();
    if (::mkdtemp(name.data()) == nullptr) {
      return io_error("{}: no temporary folder can be made in it ({})", folder.string(), std::strerror(errno));
    }
    path_ = name;
    return ok_status();
  }
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

}  // namespace tandem

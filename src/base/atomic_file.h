// A file that appears whole or not at all: written under a temporary name, synced, renamed into place.
//
// The temporary file is created exclusively, under an unguessable name, and no link is ever followed: whatever is in
// the folder already stays as it is. A killed process leaves it behind as NAME.<16 hex digits>.partial.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>

#include "tandem/status.h"

namespace tandem {

struct AtomicFileOptions {
  // Where the temporary file is written; must be on the same file system. Empty: next to the file.
  std::filesystem::path temporary_folder = {};
  // A symbolic link at `path` is replaced by the file (its target stays as it is). Otherwise it is refused.
  bool replace_link = false;
};

class AtomicFile {
 public:
  // commit() replaces an existing file, and the new one gets its permissions. A link, a folder, a device or a pipe is
  // refused.
  static Result<AtomicFile> create(const std::filesystem::path& path, const AtomicFileOptions& options = {});

  AtomicFile(AtomicFile&& other) noexcept;
  AtomicFile& operator=(AtomicFile&&) = delete;
  // Without commit() the temporary file is removed.
  ~AtomicFile();

  Status write(std::span<const uint8_t> bytes);
  Status write(std::string_view text);
  // Overwrites bytes written before; the end of the file does not move.
  Status write_at(uint64_t offset, std::span<const uint8_t> bytes);
  // Makes the file `size` bytes long, new bytes zero, so that write_at() can fill it in any order.
  Status set_size(uint64_t size);
  // Zeros up to the next multiple of `alignment`.
  Status align(uint64_t alignment);
  uint64_t size() const { return size_; }
  // Syncs the file, renames it to its final name and syncs the folder, so that a power cut leaves the old file or the
  // new one. If nothing was at the path on creation and something is now, that stays, and this fails.
  Status commit();

 private:
  AtomicFile() = default;

  int fd_ = -1;
  uint64_t size_ = 0;
  bool replaces_ = false;  // There was a file at the path.
  std::filesystem::path path_;
  std::filesystem::path partial_;
};

Status write_file_atomically(const std::filesystem::path& path, std::string_view content);

// Whether `temporary` is the name of a temporary file for the file `name`: "model.tdm.0123456789abcdef.partial".
bool is_temporary_name_of(std::string_view temporary, std::string_view name);
// The length of the suffix of temporary names.
inline constexpr size_t kTemporarySuffixBytes = std::string_view(".0123456789abcdef.partial").size();

// Makes files created, renamed or removed in a folder survive a power cut.
Status sync_folder(const std::filesystem::path& folder);

// The folder of a path: "." for a bare name.
std::filesystem::path parent_folder(const std::filesystem::path& path);

}  // namespace tandem

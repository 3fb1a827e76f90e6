// A file mapped read-only into memory.
//
// The bytes are the file's, not a copy: writing to the file changes them, and truncating it takes them away. check()
// detects both. Renaming a new file over the old one is harmless: the old one stays as long as it is mapped.
#pragma once

#include <sys/types.h>
#include <time.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>

#include "base/mapping_guard.h"
#include "base/try.h"
#include "tandem/file_region.h"
#include "tandem/status.h"

namespace tandem {

class MappedFile {
 public:
  static Result<MappedFile> open(const std::filesystem::path& path);
  // A part of a file. Where it does not begin at a multiple of kRegionAlignment, bytes() is a copy.
  static Result<MappedFile> open(const FileRegion& region);
  static constexpr size_t kRegionAlignment = 64;  // What code that reads mapped numbers relies on.

  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;
  ~MappedFile();

  std::span<const uint8_t> bytes() const { return {data_, size_}; }
  bool is_copy() const { return is_copy_; }
  const std::filesystem::path& path() const { return path_; }

  // An error if the file was written to or truncated since open(), or if some of it could not be read. Call it after
  // bytes were used and before their results are trusted; costs one system call, less than a microsecond.
  Status check() const;

  // Tells the system that these bytes are not needed for now: their pages no longer count as ours. The next read faults
  // them in again, so this is about memory, never about correctness.
  void release(std::span<const uint8_t> range) const;

 private:
  MappedFile() = default;
  Status map(int64_t offset, size_t size);
  Status copy(int64_t offset, size_t size);
  void unmap() noexcept;
  Error changed() const;

  int fd_ = -1;
  const uint8_t* data_ = nullptr;
  size_t size_ = 0;
  size_t skipped_ = 0;    // Bytes between the beginning of the mapping, which is that of a page, and data_.
  size_t file_size_ = 0;  // Of the whole file.
  bool is_copy_ = false;
  timespec modified_{};  // Not the status change time: renaming something over the file sets that.
  MappingRecord record_;
  std::filesystem::path path_;
};

// A result computed from a file's bytes, unless the file changed meanwhile: then that is the error.
template <typename T>
Result<T> if_unchanged(const MappedFile& file, Result<T> made) {
  TANDEM_TRY(file.check());
  return made;
}

// The whole file as a string, read and not mapped; refuses files larger than `limit`, so that a wrong path cannot
// exhaust memory.
Result<std::string> read_text_file(const std::filesystem::path& path, uint64_t limit);

}  // namespace tandem

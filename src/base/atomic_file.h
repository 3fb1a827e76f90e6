// A file that appears whole or not at all: written under a temporary name, synced, renamed into place.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>

#include "tandem/status.h"

namespace tandem {

class AtomicFile {
 public:
  // Creates `path` + ".partial" (replacing one that a crash left there).
  static Result<AtomicFile> create(const std::filesystem::path& path);

  AtomicFile(AtomicFile&& other) noexcept;
  AtomicFile& operator=(AtomicFile&&) = delete;
  // Without commit() the temporary file is removed.
  ~AtomicFile();

  Status write(std::span<const uint8_t> bytes);
  Status write(std::string_view text);
  // Overwrites bytes that were written before; the end stays where it is.
  Status write_at(uint64_t offset, std::span<const uint8_t> bytes);
  // Makes the file `size` bytes long, new bytes zero, so that write_at() can fill it in any order.
  Status set_size(uint64_t size);
  // Zeros up to the next multiple of `alignment`.
  Status align(uint64_t alignment);
  uint64_t size() const { return size_; }
  // Syncs to disk and renames to the final name.
  Status commit();

 private:
  AtomicFile() = default;

  int fd_ = -1;
  uint64_t size_ = 0;
  std::filesystem::path path_;
  std::filesystem::path partial_;
};

Status write_file_atomically(const std::filesystem::path& path, std::string_view content);

}  // namespace tandem

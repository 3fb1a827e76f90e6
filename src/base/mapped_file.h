// A file mapped read-only into memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>

#include "tandem/status.h"

namespace tandem {

class MappedFile {
 public:
  static Result<MappedFile> open(const std::filesystem::path& path);

  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;
  ~MappedFile();

  std::span<const uint8_t> bytes() const { return {data_, size_}; }
  const std::filesystem::path& path() const { return path_; }

  // Tells the system that these bytes are not needed for now: their pages no longer count as ours.
  // The next read of them faults them in again, so this is about memory, never about correctness.
  void release(std::span<const uint8_t> range) const;

 private:
  MappedFile() = default;
  void unmap();

  const uint8_t* data_ = nullptr;
  size_t size_ = 0;
  std::filesystem::path path_;
};

// The whole file as a string; refuses files larger than `limit`, so that a wrong path cannot eat the memory.
Result<std::string> read_text_file(const std::filesystem::path& path, uint64_t limit);

}  // namespace tandem

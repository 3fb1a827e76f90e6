// The bytes of a file to be deployed: mapped, or unpacked from an archive.
#pragma once

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/mapped_file.h"
#include "base/progress.h"
#include "tandem/status.h"

namespace tandem {

class FileContent {
 public:
  static Result<FileContent> map(const std::filesystem::path& path);
  static FileContent own(std::vector<uint8_t> bytes);

  std::span<const uint8_t> bytes() const;
  // An error if the file has changed since it was mapped.
  Status check() const;
  // Where it is on disk; empty if it was unpacked.
  std::filesystem::path path() const;

  // Passes the bytes to consume() in chunks, until it or `stop` ends it, and lets go of the pages behind.
  template <typename Consume>
  Status in_chunks(const StopCallback& stop, Consume&& consume) const {
    constexpr size_t kChunk = 1 << 20;
    for (size_t at = 0; at < bytes().size(); at += kChunk) {
      if (stop && stop()) return Error{ErrorCode::kCancelled, "stopped; the same command goes on where it was"};
      const auto chunk = bytes().subspan(at, std::min(kChunk, bytes().size() - at));
      TANDEM_TRY(consume(chunk));
      if (file_ != nullptr) file_->release(chunk);
    }
    return check();
  }

 private:
  std::shared_ptr<const MappedFile> file_;
  std::shared_ptr<const std::vector<uint8_t>> owned_;
};

Result<std::string> sha256_of(const FileContent& content, const StopCallback& stop);

}  // namespace tandem

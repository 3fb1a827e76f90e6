#include "base/atomic_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "base/checked.h"
#include "base/error.h"

namespace tandem {
namespace {

Status write_all(int fd, std::span<const uint8_t> bytes, uint64_t offset, const std::filesystem::path& path) {
  while (!bytes.empty()) {
    const ssize_t written = ::pwrite(fd, bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (written < 0) {
      if (errno == EINTR) continue;
      return io_error("{}: cannot be written ({})", path.string(), std::strerror(errno));
    }
    bytes = bytes.subspan(static_cast<size_t>(written));
    offset += static_cast<uint64_t>(written);
  }
  return ok_status();
}

}  // namespace

Result<AtomicFile> AtomicFile::create(const std::filesystem::path& path) {
  // Renaming onto a device or a folder would replace it, or fail at the very end.
  std::error_code ignored;
  const auto existing = std::filesystem::status(path, ignored);
  if (std::filesystem::exists(existing) && !std::filesystem::is_regular_file(existing)) {
    return invalid_argument("{} is not a regular file; give the name of a file to write", path.string());
  }
  AtomicFile file;
  file.path_ = path;
  file.partial_ = path;
  file.partial_ += ".partial";
  file.fd_ = ::open(file.partial_.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (file.fd_ < 0) {
    return io_error("{}: cannot be created ({})", file.partial_.string(), std::strerror(errno));
  }
  return file;
}

AtomicFile::AtomicFile(AtomicFile&& other) noexcept
    : fd_(std::exchange(other.fd_, -1)),
      size_(other.size_),
      path_(std::move(other.path_)),
      partial_(std::move(other.partial_)) {}

AtomicFile::~AtomicFile() {
  if (fd_ < 0) return;
  ::close(fd_);
  ::unlink(partial_.c_str());
}

Status AtomicFile::write(std::span<const uint8_t> bytes) {
  TANDEM_TRY(write_all(fd_, bytes, size_, partial_));
  size_ += bytes.size();
  return ok_status();
}

Status AtomicFile::write(std::string_view text) {
  return write(std::span(reinterpret_cast<const uint8_t*>(text.data()), text.size()));
}

Status AtomicFile::write_at(uint64_t offset, std::span<const uint8_t> bytes) {
  if (!range_inside(offset, bytes.size(), size_)) return internal_error("write_at past the end of {}", path_.string());
  return write_all(fd_, bytes, offset, partial_);
}

Status AtomicFile::set_size(uint64_t size) {
  if (::ftruncate(fd_, static_cast<off_t>(size)) != 0) {
    return io_error("{}: cannot be made {} bytes long ({})", partial_.string(), size, std::strerror(errno));
  }
  size_ = size;
  return ok_status();
}

Status AtomicFile::align(uint64_t alignment) {
  static constexpr std::array<uint8_t, 4096> kZeros{};
  uint64_t missing = round_up(size_, alignment) - size_;
  while (missing > 0) {
    const uint64_t chunk = std::min<uint64_t>(missing, kZeros.size());
    TANDEM_TRY(write(std::span(kZeros).first(chunk)));
    missing -= chunk;
  }
  return ok_status();
}

Status AtomicFile::commit() {
  if (::fsync(fd_) != 0) return io_error("{}: cannot be synced ({})", partial_.string(), std::strerror(errno));
  ::close(std::exchange(fd_, -1));
  if (::rename(partial_.c_str(), path_.c_str()) != 0) {
    const int error = errno;
    ::unlink(partial_.c_str());
    return io_error("{}: cannot be renamed into place ({})", path_.string(), std::strerror(error));
  }
  return ok_status();
}

Status write_file_atomically(const std::filesystem::path& path, std::string_view content) {
  TANDEM_ASSIGN(AtomicFile file, AtomicFile::create(path));
  TANDEM_TRY(file.write(content));
  return file.commit();
}

}  // namespace tandem

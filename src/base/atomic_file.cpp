#include "base/atomic_file.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <optional>
#include <utility>

#include "base/checked.h"
#include "base/error.h"
#include "base/format.h"

namespace tandem {
namespace {

constexpr std::string_view kPartial = ".partial";
constexpr size_t kRandomDigits = 16;
// File systems limit names to 255 bytes; a long one is cut to leave space for the suffix.
constexpr size_t kMaxStem = 200;

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

// The lstat() of a path; nothing if nothing is there. Links are not followed.
Result<std::optional<struct stat>> stat_link(const std::filesystem::path& path) {
  struct stat info {};
  if (::lstat(path.c_str(), &info) == 0) return std::optional(info);
  if (errno == ENOENT) return std::optional<struct stat>();
  return io_error("{}: cannot be accessed ({})", path.string(), std::strerror(errno));
}

uint64_t random_number() {
  uint64_t number = 0;
#ifdef __ANDROID__
  ::arc4random_buf(&number, sizeof(number));  // getrandom() is there from API 28 on only.
#else
  if (::getrandom(&number, sizeof(number), GRND_NONBLOCK) != static_cast<ssize_t>(sizeof(number))) {
    // Exclusive creation is the protection; the number only has to differ from the last one.
    static std::atomic<uint64_t> count{0};
    const auto now = std::chrono::steady_clock::now().time_since_epoch().count();
    number = static_cast<uint64_t>(now) * 0x9e3779b97f4a7c15u + static_cast<uint64_t>(::getpid()) + ++count;
  }
#endif
  return number;
}

std::string stem_of(std::string_view name) { return std::string(name.substr(0, kMaxStem)); }

// Opens a new file in the folder; `path` is set to its name.
Result<int> create_temporary(const std::filesystem::path& folder, const std::string& name,
                             std::filesystem::path& path) {
  constexpr int kTries = 16;
  for (int i = 0;; ++i) {
    path = folder / str_format("{}.{:016x}{}", stem_of(name), random_number(), kPartial);
    const int fd = ::open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
    if (fd >= 0) return fd;
    if ((errno == EEXIST && i < kTries) || errno == EINTR) continue;
    return io_error("{}: cannot be created ({})", path.string(), std::strerror(errno));
  }
}

// 0, or errno.
int sync(int fd) {
  int result = 0;
  while ((result = ::fsync(fd)) != 0 && errno == EINTR) {
  }
  return result == 0 ? 0 : errno;
}

// 0, or errno. Without `replaces`, an existing `to` stays, and the error is EEXIST.
int rename_file(const std::filesystem::path& from, const std::filesystem::path& to, bool replaces) {
#ifdef __ANDROID__
  // renameat2() is there from API 30 on only, and a process that calls the kernel by number is killed on older ones.
  if (!replaces && ::access(to.c_str(), F_OK) == 0) return EEXIST;
#elif defined(RENAME_NOREPLACE)
  if (!replaces) {
    if (::renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), RENAME_NOREPLACE) == 0) return 0;
    if (errno != EINVAL && errno != ENOSYS) return errno;  // Otherwise the file system does not support it.
  }
#else
  (void)replaces;
#endif
  return ::rename(from.c_str(), to.c_str()) == 0 ? 0 : errno;
}

}  // namespace

Status sync_folder(const std::filesystem::path& folder) {
  const int fd = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) {
    if (errno == EACCES) return ok_status();  // Writable, but not readable: nothing can be done.
    return io_error("{}: cannot be opened ({})", folder.string(), std::strerror(errno));
  }
  const int error = sync(fd);
  ::close(fd);
  // Some file systems do not support it.
  if (error == 0 || error == EINVAL || error == ENOTSUP || error == EROFS) return ok_status();
  return io_error("{}: cannot be synced ({})", folder.string(), std::strerror(error));
}

std::filesystem::path parent_folder(const std::filesystem::path& path) {
  return path.has_parent_path() ? path.parent_path() : std::filesystem::path(".");
}

bool is_temporary_name_of(std::string_view temporary, std::string_view name) {
  const std::string stem = stem_of(name) + ".";
  if (temporary.size() != stem.size() + kRandomDigits + kPartial.size()) return false;
  const std::string_view digits = temporary.substr(stem.size(), kRandomDigits);
  return temporary.starts_with(stem) && temporary.ends_with(kPartial) &&
         digits.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

Result<AtomicFile> AtomicFile::create(const std::filesystem::path& path, const AtomicFileOptions& options) {
  if (!path.has_filename()) return invalid_argument("\"{}\" is not the name of a file to write", path.string());
  TANDEM_ASSIGN(const std::optional<struct stat> existing, stat_link(path));
  const bool is_link = existing && S_ISLNK(existing->st_mode);
  if (is_link && !options.replace_link) {
    return invalid_argument("{} is a symbolic link; give the file that it points to", path.string());
  }
  // Renaming onto a device or a folder would replace it, or fail at the very end.
  if (existing && !is_link && !S_ISREG(existing->st_mode)) {
    return invalid_argument("{} is not a regular file; give the name of a file to write", path.string());
  }
  AtomicFile file;
  file.path_ = path;
  file.replaces_ = existing.has_value();
  const auto folder = options.temporary_folder.empty() ? parent_folder(path) : options.temporary_folder;
  TANDEM_ASSIGN(file.fd_, create_temporary(folder, path.filename().string(), file.partial_));
  // Whoever could not read the old file must not be able to read the new one. Not all file systems have permissions.
  if (existing && S_ISREG(existing->st_mode) && ::fchmod(file.fd_, existing->st_mode & 0777) != 0 && errno == EIO) {
    return io_error("{}: cannot get its permissions ({})", file.partial_.string(), std::strerror(errno));
  }
  return file;
}

AtomicFile::AtomicFile(AtomicFile&& other) noexcept
    : fd_(std::exchange(other.fd_, -1)),
      size_(other.size_),
      replaces_(other.replaces_),
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
  if (fd_ < 0) return internal_error("{}: written after its end", path_.string());
  if (const int error = sync(fd_); error != 0) {
    return io_error("{}: cannot be synced ({})", partial_.string(), std::strerror(error));
  }
  int error = ::close(std::exchange(fd_, -1)) == 0 ? 0 : errno;
  if (error == 0 || error == EINTR) error = rename_file(partial_, path_, replaces_);
  if (error != 0) {
    ::unlink(partial_.c_str());
    if (error == EEXIST) return io_error("{}: somebody else has made this file meanwhile; it stays", path_.string());
    return io_error("{}: cannot be renamed into place ({})", path_.string(), std::strerror(error));
  }
  return sync_folder(parent_folder(path_));
}

Status write_file_atomically(const std::filesystem::path& path, std::string_view content) {
  TANDEM_ASSIGN(AtomicFile file, AtomicFile::create(path));
  TANDEM_TRY(file.write(content));
  return file.commit();
}

}  // namespace tandem

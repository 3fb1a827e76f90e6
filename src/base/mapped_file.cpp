#include "base/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "base/error.h"
#include "base/format.h"

namespace tandem {

namespace {

// A descriptor that is closed on destruction.
class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  ~Descriptor() {
    if (fd_ >= 0) ::close(fd_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;

  int get() const { return fd_; }
  int release() { return std::exchange(fd_, -1); }

 private:
  int fd_;
};

Status open_regular(const std::filesystem::path& path, int& fd, struct stat& info) {
  if (path.empty()) return invalid_argument("no file is named; give the path of one");
  // The system would open the file named by the part before the NUL.
  if (path.native().find('\0') != std::string::npos)
    return invalid_argument("the name of a file has a zero byte in it");
  // Non-blocking: opening a named pipe would otherwise hang until somebody writes to it.
  Descriptor opened(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (opened.get() < 0) {
    if (errno == ENOENT) return not_found("{}: no such file", path.string());
    return io_error("{}: cannot be opened ({})", path.string(), std::strerror(errno));
  }
  if (::fstat(opened.get(), &info) != 0 || !S_ISREG(info.st_mode)) {
    return invalid_argument("{}: not a regular file", path.string());
  }
  fd = opened.release();
  return ok_status();
}

}  // namespace

Result<MappedFile> MappedFile::open(const std::filesystem::path& path) {
  MappedFile file;
  file.path_ = path;
  struct stat info {};
  TANDEM_TRY(open_regular(path, file.fd_, info));
  file.modified_ = info.st_mtim;
  file.file_size_ = static_cast<size_t>(info.st_size);
  TANDEM_TRY(file.map(0, file.file_size_));
  return file;
}

Result<MappedFile> MappedFile::open(const FileRegion& region) {
  MappedFile file;
  file.path_ = str_format("file descriptor {}", region.descriptor);
  struct stat info {};
  if (region.descriptor < 0 || ::fstat(region.descriptor, &info) != 0) {
    return invalid_argument("{} is not an open one; give one that is open for reading", file.path_.string());
  }
  if (!S_ISREG(info.st_mode)) {
    return invalid_argument("{} is not of a regular file; only those can be mapped", file.path_.string());
  }
  const bool begins_inside = region.offset >= 0 && region.offset <= info.st_size;
  const int64_t most = begins_inside ? info.st_size - region.offset : 0;
  const int64_t length = region.length == -1 ? most : region.length;
  if (!begins_inside || length < 0 || length > most) {
    return invalid_argument("{}: offset {} and length {} are not inside the file, which has {} bytes",
                            file.path_.string(), region.offset, region.length, info.st_size);
  }
  file.fd_ = ::fcntl(region.descriptor, F_DUPFD_CLOEXEC, 0);
  if (file.fd_ < 0) return io_error("{}: cannot be duplicated ({})", file.path_.string(), std::strerror(errno));
  file.modified_ = info.st_mtim;
  file.file_size_ = static_cast<size_t>(info.st_size);
  const bool is_aligned = region.offset % static_cast<int64_t>(kRegionAlignment) == 0;
  TANDEM_TRY(is_aligned ? file.map(region.offset, static_cast<size_t>(length))
                        : file.copy(region.offset, static_cast<size_t>(length)));
  return file;
}

Status MappedFile::map(int64_t offset, size_t size) {
  if (size == 0) return ok_status();  // mmap refuses length 0; an empty file is an empty span.
  const int64_t page = ::sysconf(_SC_PAGESIZE);
  skipped_ = static_cast<size_t>(offset % page);
  void* data = ::mmap(nullptr, skipped_ + size, PROT_READ, MAP_SHARED, fd_, offset - offset % page);
  if (data == MAP_FAILED) return io_error("{}: cannot be mapped ({})", path_.string(), std::strerror(errno));
  data_ = static_cast<const uint8_t*>(data) + skipped_;
  size_ = size;
  record_ = MappingRecord(data, skipped_ + size);
  return ok_status();
}

Status MappedFile::copy(int64_t offset, size_t size) {
  is_copy_ = true;
  if (size == 0) return ok_status();
  void* data = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (data == MAP_FAILED) {
    return resource_exhausted("{}: there is no memory for a copy of {} bytes; put the model at a multiple of {} bytes",
                              path_.string(), size, kRegionAlignment);
  }
  data_ = static_cast<const uint8_t*>(data);
  size_ = size;
  for (size_t done = 0; done < size;) {
    const ssize_t count =
        ::pread(fd_, static_cast<uint8_t*>(data) + done, size - done, offset + static_cast<int64_t>(done));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return io_error("{}: cannot be read ({})", path_.string(), std::strerror(errno));
    if (count == 0) return changed();
    done += static_cast<size_t>(count);
  }
  return ok_status();
}

MappedFile::MappedFile(MappedFile&& other) noexcept { *this = std::move(other); }

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  if (this != &other) {
    unmap();
    fd_ = std::exchange(other.fd_, -1);
    data_ = std::exchange(other.data_, nullptr);
    size_ = std::exchange(other.size_, 0);
    skipped_ = std::exchange(other.skipped_, 0);
    file_size_ = other.file_size_;
    is_copy_ = other.is_copy_;
    modified_ = other.modified_;
    record_ = std::move(other.record_);
    path_ = std::move(other.path_);
  }
  return *this;
}

MappedFile::~MappedFile() { unmap(); }

void MappedFile::unmap() noexcept {
  { const MappingRecord gone = std::move(record_); }
  if (data_ != nullptr) ::munmap(const_cast<uint8_t*>(data_) - skipped_, skipped_ + size_);
  if (fd_ >= 0) ::close(fd_);
  data_ = nullptr;
  size_ = skipped_ = 0;
  fd_ = -1;
}

Status MappedFile::check() const {
  struct stat now {};
  const bool same = !record_.has_faulted() && ::fstat(fd_, &now) == 0 &&
                    static_cast<size_t>(now.st_size) == file_size_ && now.st_mtim.tv_sec == modified_.tv_sec &&
                    now.st_mtim.tv_nsec == modified_.tv_nsec;
  if (same) return ok_status();
  return changed();
}

Error MappedFile::changed() const {
  struct stat now {};
  if (::fstat(fd_, &now) != 0) {
    return io_error("{}: can no longer be accessed ({}); start again", path_.string(), std::strerror(errno));
  }
  const bool same_time = now.st_mtim.tv_sec == modified_.tv_sec && now.st_mtim.tv_nsec == modified_.tv_nsec;
  if (static_cast<size_t>(now.st_size) == file_size_ && same_time) {
    return io_error("{}: a part of the file cannot be read; check the disk or the network that it is on",
                    path_.string());
  }
  return io_error(
      "{} was changed or truncated while it was in use; put it back and start again (to replace a file that is in use, "
      "rename a new one over it)",
      path_.string());
}

void MappedFile::release(std::span<const uint8_t> range) const {
  if (range.empty() || is_copy_) return;  // Pages of a copy would come back as zeros.
  // Only whole pages inside the range: neighbouring bytes may be in use.
  const auto page = static_cast<uintptr_t>(::sysconf(_SC_PAGESIZE));
  const auto begin = (reinterpret_cast<uintptr_t>(range.data()) + page - 1) / page * page;
  const auto end = reinterpret_cast<uintptr_t>(range.data() + range.size()) / page * page;
  if (begin < end) ::madvise(reinterpret_cast<void*>(begin), end - begin, MADV_DONTNEED);
}

Result<std::string> read_text_file(const std::filesystem::path& path, uint64_t limit) {
  int fd = -1;
  struct stat info {};
  TANDEM_TRY(open_regular(path, fd, info));
  const Descriptor file(fd);
  const auto size = static_cast<uint64_t>(info.st_size);
  if (size > limit) {
    return corrupt("{}: {} bytes is more than such a file can have ({} at most)", path.string(), size, limit);
  }
  std::string text(size, '\0');
  size_t done = 0;
  while (done < size) {
    const ssize_t count = ::read(file.get(), text.data() + done, size - done);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return io_error("{}: cannot be read ({})", path.string(), std::strerror(errno));
    if (count == 0) return io_error("{} was truncated while it was read; put it back and start again", path.string());
    done += static_cast<size_t>(count);
  }
  return text;
}

}  // namespace tandem

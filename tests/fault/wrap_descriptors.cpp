// Calls that take a descriptor, an address in a mapped file, or neither.
#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <spawn.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdarg>
#include <cstdint>
#include <cstdio>
#include <map>
#include <mutex>

#include "shim.h"

using tandem::fault::active;
using tandem::fault::Change;
using tandem::fault::forget;
using tandem::fault::injected;
using tandem::fault::Kind;
using tandem::fault::kPipe;
using tandem::fault::kShort;
using tandem::fault::path_of;
using tandem::fault::track;
using tandem::fault::when_active;

namespace {

bool is_tracked(int descriptor) { return !path_of(descriptor).empty(); }
bool is_file(int descriptor) { return is_tracked(descriptor) && path_of(descriptor) != kPipe; }

// Reads and writes: `real` gets the bytes that it may transfer.
template <typename Transfer>
ssize_t transfer(Kind kind, int descriptor, size_t size, const Transfer& real) {
  const int error = injected(kind, path_of(descriptor));
  if (error > 0) {
    errno = error;
    return -1;
  }
  return real(error == kShort ? (size + 1) / 2 : size);
}

template <typename Write>
ssize_t write_file(int descriptor, const void* data, size_t size, off_t offset, const Write& real) {
  return transfer(Kind::write, descriptor, size, [&](size_t most) {
    const Change change(is_file(descriptor));
    const ssize_t done = real(most);
    if (done > 0) {
      const off_t at = offset >= 0 ? offset : ::lseek(descriptor, 0, SEEK_CUR) - done;
      change.wrote(descriptor, at, data, static_cast<size_t>(done));
    }
    return done;
  });
}

// One part at a time, as the system may do as well.
template <typename Write>
ssize_t write_parts(int descriptor, const iovec* parts, int count, off_t offset, const Write& real) {
  while (count > 1 && parts->iov_len == 0) ++parts, --count;
  if (count < 1) return 0;
  return write_file(descriptor, parts->iov_base, parts->iov_len, offset, [&](size_t most) {
    const iovec part = {parts->iov_base, most};
    return real(&part);
  });
}

std::mutex mappings_mutex;
struct Mapping {
  size_t size = 0;
  std::string path;
};
std::map<uintptr_t, Mapping>& mappings() {
  static auto* const instance = new std::map<uintptr_t, Mapping>;
  return *instance;
}

// Of the file that is mapped there; "" if none of ours is.
std::string mapped_path(const void* address) {
  const std::lock_guard lock(mappings_mutex);
  const auto at = reinterpret_cast<uintptr_t>(address);
  auto it = mappings().upper_bound(at);
  if (it == mappings().begin()) return {};
  --it;
  return at < it->first + it->second.size ? it->second.path : std::string();
}

template <typename Map>
void* map_file(size_t size, int descriptor, const Map& real) {
  const std::string name = path_of(descriptor);
  if (const int error = injected(Kind::mmap, name); error > 0) {
    errno = error;
    return MAP_FAILED;
  }
  void* const address = real();
  if (!name.empty() && address != MAP_FAILED) {
    const std::lock_guard lock(mappings_mutex);
    mappings()[reinterpret_cast<uintptr_t>(address)] = {size, name};
  }
  return address;
}

template <typename Truncate>
int truncate_file(int descriptor, off_t size, const Truncate& real) {
  TANDEM_FAIL(truncate, path_of(descriptor));
  const Change change(is_file(descriptor));
  const int result = real();
  if (result == 0) change.truncated(descriptor, size);
  return result;
}

template <typename Sync>
int sync_file(int descriptor, const Sync& real) {
  TANDEM_FAIL(fsync, path_of(descriptor));
  const Change change(is_file(descriptor));
  const int result = real();
  if (result == 0) change.synced(descriptor);
  return result;
}

}  // namespace

extern "C" {

ssize_t read(int fd, void* buffer, size_t size) {
  TANDEM_REAL(read);
  return transfer(Kind::read, fd, size, [&](size_t most) { return real(fd, buffer, most); });
}

ssize_t pread(int fd, void* buffer, size_t size, off_t offset) {
  TANDEM_REAL(pread);
  return transfer(Kind::read, fd, size, [&](size_t most) { return real(fd, buffer, most, offset); });
}

ssize_t pread64(int fd, void* buffer, size_t size, off64_t offset) {
  TANDEM_REAL(pread64);
  return transfer(Kind::read, fd, size, [&](size_t most) { return real(fd, buffer, most, offset); });
}

ssize_t write(int fd, const void* data, size_t size) {
  TANDEM_REAL(write);
  return write_file(fd, data, size, -1, [&](size_t most) { return real(fd, data, most); });
}

ssize_t pwrite(int fd, const void* data, size_t size, off_t offset) {
  TANDEM_REAL(pwrite);
  return write_file(fd, data, size, offset, [&](size_t most) { return real(fd, data, most, offset); });
}

ssize_t pwrite64(int fd, const void* data, size_t size, off64_t offset) {
  TANDEM_REAL(pwrite64);
  return write_file(fd, data, size, offset, [&](size_t most) { return real(fd, data, most, offset); });
}

ssize_t writev(int fd, const iovec* parts, int count) {
  TANDEM_REAL(writev);
  if (!is_tracked(fd)) return real(fd, parts, count);
  return write_parts(fd, parts, count, -1, [&](const iovec* part) { return real(fd, part, 1); });
}

ssize_t pwritev(int fd, const iovec* parts, int count, off_t offset) {
  TANDEM_REAL(pwritev);
  if (!is_tracked(fd)) return real(fd, parts, count, offset);
  return write_parts(fd, parts, count, offset, [&](const iovec* part) { return real(fd, part, 1, offset); });
}

int fsync(int fd) {
  TANDEM_REAL(fsync);
  return sync_file(fd, [&] { return real(fd); });
}

int fdatasync(int fd) {
  TANDEM_REAL(fdatasync);
  return sync_file(fd, [&] { return real(fd); });
}

int ftruncate(int fd, off_t size) noexcept {
  TANDEM_REAL(ftruncate);
  return truncate_file(fd, size, [&] { return real(fd, size); });
}

int ftruncate64(int fd, off64_t size) noexcept {
  TANDEM_REAL(ftruncate64);
  return truncate_file(fd, size, [&] { return real(fd, size); });
}

int fstat(int fd, struct stat* info) noexcept {
  TANDEM_REAL(fstat);
  TANDEM_FAIL(stat, path_of(fd));
  return real(fd, info);
}

int fstat64(int fd, struct stat64* info) noexcept {
  TANDEM_REAL(fstat64);
  TANDEM_FAIL(stat, path_of(fd));
  return real(fd, info);
}

int fchmod(int fd, mode_t mode) noexcept {
  TANDEM_REAL(fchmod);
  TANDEM_FAIL(chmod, path_of(fd));
  return real(fd, mode);
}

int flock(int fd, int operation) noexcept {
  TANDEM_REAL(flock);
  TANDEM_FAIL(flock, path_of(fd));
  return real(fd, operation);
}

// A close that reports an error has closed all the same, as on Linux.
int close(int fd) {
  TANDEM_REAL(close);
  const int error = injected(Kind::close, path_of(fd));
  forget(fd);
  const int result = real(fd);
  if (error <= 0) return result;
  errno = error;
  return -1;
}

int fclose(FILE* stream) {
  TANDEM_REAL(fclose);
  forget(::fileno(stream));
  return real(stream);
}

int dup2(int from, int to) noexcept {
  TANDEM_REAL(dup2);
  TANDEM_FAIL(dup, when_active("dup"));
  const int result = real(from, to);
  if (result >= 0) track(result, path_of(from));
  return result;
}

static int control(int fd, int command, void* argument, int (*real)(int, int, ...)) {
  const bool copies = command == F_DUPFD || command == F_DUPFD_CLOEXEC;
  if (copies) {
    TANDEM_FAIL(dup, when_active("dup"));
  } else {
    TANDEM_FAIL(fcntl, path_of(fd));
  }
  const int result = real(fd, command, argument);
  if (copies && result >= 0) track(result, path_of(fd));
  return result;
}

#define TANDEM_FCNTL(function)                   \
  int function(int fd, int command, ...) {       \
    TANDEM_REAL(function);                       \
    va_list more;                                \
    va_start(more, command);                     \
    void* const argument = va_arg(more, void*);  \
    va_end(more);                                \
    return control(fd, command, argument, real); \
  }
TANDEM_FCNTL(fcntl)
TANDEM_FCNTL(fcntl64)

int pipe2(int ends[2], int flags) noexcept {
  TANDEM_REAL(pipe2);
  TANDEM_FAIL(pipe, when_active("pipe"));
  const int result = real(ends, flags);
  if (result == 0 && active()) {
    track(ends[0], kPipe);
    track(ends[1], kPipe);
  }
  return result;
}

int poll(pollfd* polled, nfds_t count, int milliseconds) {
  TANDEM_REAL(poll);
  TANDEM_FAIL(poll, count > 0 ? path_of(polled[0].fd) : "");
  return real(polled, count, milliseconds);
}

pid_t waitpid(pid_t child, int* status, int options) {
  TANDEM_REAL(waitpid);
  TANDEM_FAIL(wait, when_active("wait"));
  return real(child, status, options);
}

// These return what the others leave in errno.
#define TANDEM_SPAWN(function)                                                                            \
  int function(pid_t* child, const char* path, const posix_spawn_file_actions_t* actions,                 \
               const posix_spawnattr_t* attributes, char* const arguments[], char* const environment[]) { \
    TANDEM_REAL(function);                                                                                \
    if (const int error = injected(Kind::spawn, when_active("spawn")); error > 0) return error;           \
    return real(child, path, actions, attributes, arguments, environment);                                \
  }
TANDEM_SPAWN(posix_spawn)
TANDEM_SPAWN(posix_spawnp)

int pthread_create(pthread_t* thread, const pthread_attr_t* attributes, void* (*start)(void*),
                   void* argument) noexcept {
  TANDEM_REAL(pthread_create);
  if (const int error = injected(Kind::thread, when_active("thread")); error > 0) return error;
  return real(thread, attributes, start, argument);
}

void* mmap(void* address, size_t size, int protection, int flags, int fd, off_t offset) noexcept {
  TANDEM_REAL(mmap);
  return map_file(size, fd, [&] { return real(address, size, protection, flags, fd, offset); });
}

void* mmap64(void* address, size_t size, int protection, int flags, int fd, off64_t offset) noexcept {
  TANDEM_REAL(mmap64);
  return map_file(size, fd, [&] { return real(address, size, protection, flags, fd, offset); });
}

int munmap(void* address, size_t size) noexcept {
  TANDEM_REAL(munmap);
  TANDEM_FAIL(munmap, mapped_path(address));
  {
    const std::lock_guard lock(mappings_mutex);
    mappings().erase(reinterpret_cast<uintptr_t>(address));
  }
  return real(address, size);
}

int madvise(void* address, size_t size, int advice) noexcept {
  TANDEM_REAL(madvise);
  TANDEM_FAIL(madvise, mapped_path(address));
  return real(address, size, advice);
}

ssize_t getrandom(void* buffer, size_t size, unsigned flags) {
  TANDEM_REAL(getrandom);
  const int error = injected(Kind::random, when_active("random"));
  if (error > 0) {
    errno = error;
    return -1;
  }
  return real(buffer, error == kShort ? (size + 1) / 2 : size, flags);
}

int getentropy(void* buffer, size_t size) {
  TANDEM_REAL(getentropy);
  TANDEM_FAIL(random, when_active("random"));
  return real(buffer, size);
}

DIR* fdopendir(int fd) {
  TANDEM_REAL(fdopendir);
  if (const int error = injected(Kind::opendir, path_of(fd)); error > 0) {
    errno = error;
    return nullptr;
  }
  return real(fd);
}

#define TANDEM_READDIR(function, type)                                                    \
  type* function(DIR* folder) {                                                           \
    TANDEM_REAL(function);                                                                \
    if (const int error = injected(Kind::readdir, path_of(::dirfd(folder))); error > 0) { \
      errno = error;                                                                      \
      return nullptr;                                                                     \
    }                                                                                     \
    return real(folder);                                                                  \
  }
TANDEM_READDIR(readdir, dirent)
TANDEM_READDIR(readdir64, dirent64)

int closedir(DIR* folder) {
  TANDEM_REAL(closedir);
  const int fd = ::dirfd(folder);
  TANDEM_FAIL(close, path_of(fd));
  forget(fd);
  return real(folder);
}

}  // extern "C"

// Calls that take a file's name.
#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <cstdarg>
#include <cstdio>
#include <cstdlib>

#include "shim.h"

using tandem::fault::Change;
using tandem::fault::injected;
using tandem::fault::inside;
using tandem::fault::Kind;
using tandem::fault::name_exists;
using tandem::fault::path_of;
using tandem::fault::track;

namespace {

bool makes_file(int flags) { return (flags & (O_CREAT | O_TRUNC)) != 0; }

// All forms of open(); `real` has the form of openat().
template <typename Open>
int open_at(int folder, const char* path, int flags, const Open& real) {
  const std::string name = inside(folder, path);
  TANDEM_FAIL(open, name);
  const Change change(!name.empty() && makes_file(flags));
  const bool existed = name.empty() || name_exists(name);
  const int descriptor = real();
  change.opened(descriptor, name, existed, (flags & O_TRUNC) != 0);
  track(descriptor, name);
  return descriptor;
}

template <typename Open>
FILE* open_stream(const char* path, const char* mode, const Open& real) {
  const std::string name = inside(AT_FDCWD, path);
  if (const int error = injected(Kind::open, name); error > 0) {
    errno = error;
    return nullptr;
  }
  const Change change(!name.empty() && mode[0] != 'r');
  const bool existed = name.empty() || name_exists(name);
  FILE* const stream = real();
  if (stream == nullptr) return nullptr;
  change.opened(::fileno(stream), name, existed, mode[0] == 'w');
  track(::fileno(stream), name);
  return stream;
}

template <typename Make>
int make_temporary(const char* pattern, const Make& real) {
  const std::string unfilled = inside(AT_FDCWD, pattern);
  TANDEM_FAIL(open, unfilled);
  const Change change(!unfilled.empty());
  const int descriptor = real();
  const std::string name = inside(AT_FDCWD, pattern);  // Filled in by now.
  change.opened(descriptor, name, false, false);
  track(descriptor, name);
  return descriptor;
}

template <typename Rename>
int rename_at(int from_folder, const char* from, int to_folder, const char* to, const Rename& real) {
  const std::string old_name = inside(from_folder, from), new_name = inside(to_folder, to);
  const std::string& about = new_name.empty() ? old_name : new_name;
  TANDEM_FAIL(rename, about);
  const Change change(!about.empty());
  const int result = real();
  if (result == 0) change.renamed(old_name, new_name);
  return result;
}

template <typename Link>
int link_at(int folder, const char* to, const Link& real) {
  const std::string name = inside(folder, to);
  TANDEM_FAIL(link, name);
  const Change change(!name.empty());
  const int result = real();
  if (result == 0) change.linked(name);
  return result;
}

template <typename Remove>
int remove_at(int folder, const char* path, bool is_folder, const Remove& real) {
  const std::string name = inside(folder, path);
  if (is_folder) {
    TANDEM_FAIL(rmdir, name);
  } else {
    TANDEM_FAIL(unlink, name);
  }
  const Change change(!name.empty());
  const int result = real();
  if (result == 0) change.removed(name);
  return result;
}

template <typename Make>
int make_folder_at(int folder, const char* path, const Make& real) {
  const std::string name = inside(folder, path);
  TANDEM_FAIL(mkdir, name);
  const Change change(!name.empty());
  const int result = real();
  if (result == 0) change.made_folder(name);
  return result;
}

mode_t mode_of(int flags, va_list more) {
  return (flags & (O_CREAT | __O_TMPFILE)) != 0 ? static_cast<mode_t>(va_arg(more, int)) : 0;
}

}  // namespace

extern "C" {

#define TANDEM_OPEN(function)                                                       \
  int function(const char* path, int flags, ...) {                                  \
    TANDEM_REAL(function);                                                          \
    va_list more;                                                                   \
    va_start(more, flags);                                                          \
    const mode_t mode = mode_of(flags, more);                                       \
    va_end(more);                                                                   \
    return open_at(AT_FDCWD, path, flags, [&] { return real(path, flags, mode); }); \
  }
TANDEM_OPEN(open)
TANDEM_OPEN(open64)

#define TANDEM_OPENAT(function)                                                           \
  int function(int folder, const char* path, int flags, ...) {                            \
    TANDEM_REAL(function);                                                                \
    va_list more;                                                                         \
    va_start(more, flags);                                                                \
    const mode_t mode = mode_of(flags, more);                                             \
    va_end(more);                                                                         \
    return open_at(folder, path, flags, [&] { return real(folder, path, flags, mode); }); \
  }
TANDEM_OPENAT(openat)
TANDEM_OPENAT(openat64)

int creat(const char* path, mode_t mode) { return open(path, O_CREAT | O_WRONLY | O_TRUNC, mode); }
int creat64(const char* path, mode_t mode) { return open(path, O_CREAT | O_WRONLY | O_TRUNC, mode); }

FILE* fopen(const char* path, const char* mode) {
  TANDEM_REAL(fopen);
  return open_stream(path, mode, [&] { return real(path, mode); });
}

FILE* fopen64(const char* path, const char* mode) {
  TANDEM_REAL(fopen64);
  return open_stream(path, mode, [&] { return real(path, mode); });
}

int mkstemp(char* pattern) {
  TANDEM_REAL(mkstemp);
  return make_temporary(pattern, [&] { return real(pattern); });
}

int mkostemp(char* pattern, int flags) {
  TANDEM_REAL(mkostemp);
  return make_temporary(pattern, [&] { return real(pattern, flags); });
}

int mkstemps(char* pattern, int suffix) {
  TANDEM_REAL(mkstemps);
  return make_temporary(pattern, [&] { return real(pattern, suffix); });
}

int mkostemps(char* pattern, int suffix, int flags) {
  TANDEM_REAL(mkostemps);
  return make_temporary(pattern, [&] { return real(pattern, suffix, flags); });
}

int rename(const char* from, const char* to) noexcept {
  TANDEM_REAL(rename);
  return rename_at(AT_FDCWD, from, AT_FDCWD, to, [&] { return real(from, to); });
}

int renameat(int from_folder, const char* from, int to_folder, const char* to) noexcept {
  TANDEM_REAL(renameat);
  return rename_at(from_folder, from, to_folder, to, [&] { return real(from_folder, from, to_folder, to); });
}

int renameat2(int from_folder, const char* from, int to_folder, const char* to, unsigned flags) noexcept {
  TANDEM_REAL(renameat2);
  return rename_at(from_folder, from, to_folder, to, [&] { return real(from_folder, from, to_folder, to, flags); });
}

int link(const char* from, const char* to) noexcept {
  TANDEM_REAL(link);
  return link_at(AT_FDCWD, to, [&] { return real(from, to); });
}

int linkat(int from_folder, const char* from, int to_folder, const char* to, int flags) noexcept {
  TANDEM_REAL(linkat);
  return link_at(to_folder, to, [&] { return real(from_folder, from, to_folder, to, flags); });
}

int unlink(const char* path) noexcept {
  TANDEM_REAL(unlink);
  return remove_at(AT_FDCWD, path, false, [&] { return real(path); });
}

int unlinkat(int folder, const char* path, int flags) noexcept {
  TANDEM_REAL(unlinkat);
  return remove_at(folder, path, (flags & AT_REMOVEDIR) != 0, [&] { return real(folder, path, flags); });
}

int remove(const char* path) noexcept {
  TANDEM_REAL(remove);
  return remove_at(AT_FDCWD, path, false, [&] { return real(path); });
}

int rmdir(const char* path) noexcept {
  TANDEM_REAL(rmdir);
  return remove_at(AT_FDCWD, path, true, [&] { return real(path); });
}

int mkdir(const char* path, mode_t mode) noexcept {
  TANDEM_REAL(mkdir);
  return make_folder_at(AT_FDCWD, path, [&] { return real(path, mode); });
}

int mkdirat(int folder, const char* path, mode_t mode) noexcept {
  TANDEM_REAL(mkdirat);
  return make_folder_at(folder, path, [&] { return real(folder, path, mode); });
}

#define TANDEM_STAT(function, type)                            \
  int function(const char* path, struct type* info) noexcept { \
    TANDEM_REAL(function);                                     \
    TANDEM_FAIL(stat, inside(AT_FDCWD, path));                 \
    return real(path, info);                                   \
  }
TANDEM_STAT(stat, stat)
TANDEM_STAT(stat64, stat64)
TANDEM_STAT(lstat, stat)
TANDEM_STAT(lstat64, stat64)

int fstatat(int folder, const char* path, struct stat* info, int flags) noexcept {
  TANDEM_REAL(fstatat);
  TANDEM_FAIL(stat, inside(folder, path));
  return real(folder, path, info, flags);
}

int fstatat64(int folder, const char* path, struct stat64* info, int flags) noexcept {
  TANDEM_REAL(fstatat64);
  TANDEM_FAIL(stat, inside(folder, path));
  return real(folder, path, info, flags);
}

int statx(int folder, const char* path, int flags, unsigned mask, struct statx* info) noexcept {
  TANDEM_REAL(statx);
  TANDEM_FAIL(stat, inside(folder, path));
  return real(folder, path, flags, mask, info);
}

int statvfs(const char* path, struct statvfs* info) noexcept {
  TANDEM_REAL(statvfs);
  TANDEM_FAIL(statvfs, inside(AT_FDCWD, path));
  return real(path, info);
}

ssize_t readlink(const char* path, char* buffer, size_t size) noexcept {
  TANDEM_REAL(readlink);
  TANDEM_FAIL(readlink, inside(AT_FDCWD, path));
  return real(path, buffer, size);
}

char* realpath(const char* path, char* resolved) noexcept {
  TANDEM_REAL(realpath);
  if (const int error = injected(Kind::readlink, inside(AT_FDCWD, path)); error > 0) {
    errno = error;
    return nullptr;
  }
  return real(path, resolved);
}

int fchmodat(int folder, const char* path, mode_t mode, int flags) noexcept {
  TANDEM_REAL(fchmodat);
  TANDEM_FAIL(chmod, inside(folder, path));
  return real(folder, path, mode, flags);
}

int access(const char* path, int mode) noexcept {
  TANDEM_REAL(access);
  TANDEM_FAIL(stat, inside(AT_FDCWD, path));
  return real(path, mode);
}

DIR* opendir(const char* path) {
  TANDEM_REAL(opendir);
  const std::string name = inside(AT_FDCWD, path);
  if (const int error = injected(Kind::opendir, name); error > 0) {
    errno = error;
    return nullptr;
  }
  DIR* const folder = real(path);
  if (folder != nullptr) track(::dirfd(folder), name);
  return folder;
}

}  // extern "C"

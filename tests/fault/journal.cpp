#include "journal.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <mutex>

#include "shim.h"

namespace tandem::fault {
namespace {

int journal = -1;
long changes = 0;
long last_change = 0;  // The one that is not survived; 0: none.
std::mutex one_change;

// By number: the functions of these names are interposed.
struct stat info_of(int descriptor) {
  struct stat info {};
  ::syscall(SYS_fstat, descriptor, &info);
  return info;
}

struct stat info_of(const std::string& path) {
  struct stat info {};
  ::syscall(SYS_newfstatat, AT_FDCWD, path.c_str(), &info, AT_SYMLINK_NOFOLLOW);
  return info;
}

// In one call, so that processes can share a journal.
void record(char op, ino_t inode, off_t number, const std::string& path, const std::string& second = {},
            const void* data = nullptr, size_t size = 0) {
  if (journal < 0) return;
  std::string line = std::string(1, op) + " " + std::to_string(inode) + " " + std::to_string(number) + " " +
                     std::to_string(size) + "\t" + path + "\t" + second + "\n";
  const iovec parts[2] = {{line.data(), line.size()}, {const_cast<void*>(data), size}};
  if (::syscall(SYS_writev, journal, parts, 2) != static_cast<long>(line.size() + size)) ::_exit(99);
}

}  // namespace

void open_journal() {
  if (const char* const kill = std::getenv("TANDEM_FAULT_KILL")) last_change = std::atol(kill);
  const char* const path = std::getenv("TANDEM_FAULT_JOURNAL");
  if (path == nullptr) return;
  journal = static_cast<int>(::syscall(SYS_openat, AT_FDCWD, path, O_CREAT | O_WRONLY | O_APPEND | O_CLOEXEC, 0644));
  if (journal < 0) ::_exit(99);
}

bool name_exists(const std::string& path) { return info_of(path).st_ino != 0; }

Change::Change(bool matters) : matters_(matters && (journal >= 0 || last_change > 0)) {
  if (!matters_) return;
  one_change.lock();
  if (++changes == last_change) ::kill(::getpid(), SIGKILL);
}

Change::~Change() {
  if (matters_) one_change.unlock();
}

void Change::opened(int descriptor, const std::string& path, bool existed, bool truncates) const {
  if (!matters_ || descriptor < 0) return;
  if (!existed) {
    record('C', info_of(descriptor).st_ino, 0, path);
  } else if (truncates) {
    record('T', info_of(descriptor).st_ino, 0, path);
  }
}

void Change::wrote(int descriptor, off_t offset, const void* data, size_t size) const {
  if (matters_) record('W', info_of(descriptor).st_ino, offset, path_of(descriptor), {}, data, size);
}

void Change::truncated(int descriptor, off_t size) const {
  if (matters_) record('T', info_of(descriptor).st_ino, size, path_of(descriptor));
}

void Change::synced(int descriptor) const {
  if (!matters_) return;
  const struct stat info = info_of(descriptor);
  record(S_ISDIR(info.st_mode) ? 'D' : 'S', info.st_ino, 0, path_of(descriptor));
}

void Change::renamed(const std::string& from, const std::string& to) const {
  if (matters_) record('R', 0, 0, from, to);
}

void Change::linked(const std::string& path) const {
  if (matters_) record('N', info_of(path).st_ino, 0, path);
}

void Change::removed(const std::string& path) const {
  if (matters_) record('U', 0, 0, path);
}

void Change::made_folder(const std::string& path) const {
  if (matters_) record('M', 0, 0, path);
}

}  // namespace tandem::fault

// A library for LD_PRELOAD that stands between a program and the C library's system calls. It counts them, makes a
// chosen one fail, and keeps a journal of what changes in a folder, for test_faults.py and test_power_cut.py.
//
// Only calls on files under one folder count (and pipes, processes and threads that the program starts after main()
// begins): what the loader and the C library do on their own differs from machine to machine. The C library's calls to
// itself do not come by here; so fopen, opendir and the like are interposed as well.
//
// Environment:
//   TANDEM_FAULT_PROGRAM  names of the programs that all this is for, with commas; in others the library does nothing
//   TANDEM_FAULT_ROOT     the folder, absolute and without symbolic links
//   TANDEM_FAULT          KIND:N:ERRNO makes the N-th call of a kind fail once, KIND:N+:ERRNO the later ones too;
//                         "short" in place of a number transfers half of the bytes
//   TANDEM_FAULT_MARK     when a fault happens, this file says on what
//   TANDEM_FAULT_COUNTS   at the end, one line "KIND COUNT" for each kind is appended here
//   TANDEM_FAULT_JOURNAL  changes under the folder are appended here (journal.cpp has the format)
//   TANDEM_FAULT_KILL     SIGKILL instead of the N-th change
#pragma once

#include <dlfcn.h>
#include <sys/types.h>

#include <cerrno>
#include <cstddef>
#include <string>

namespace tandem::fault {

#define TANDEM_FAULT_KINDS(X) \
  X(open)                     \
  X(read)                     \
  X(write)                    \
  X(fsync)                    \
  X(truncate)                 \
  X(rename)                   \
  X(link)                     \
  X(unlink)                   \
  X(mkdir)                    \
  X(rmdir)                    \
  X(mmap)                     \
  X(munmap)                   \
  X(madvise)                  \
  X(stat)                     \
  X(opendir)                  \
  X(readdir)                  \
  X(readlink)                 \
  X(chmod)                    \
  X(flock)                    \
  X(fcntl)                    \
  X(close)                    \
  X(dup)                      \
  X(statvfs)                  \
  X(pipe)                     \
  X(spawn)                    \
  X(poll)                     \
  X(wait)                     \
  X(thread)                   \
  X(random)

enum class Kind {
#define TANDEM_FAULT_KIND(name) name,
  TANDEM_FAULT_KINDS(TANDEM_FAULT_KIND)
#undef TANDEM_FAULT_KIND
      count
};

// Counts a call on what matters: a path, or other words; "" is none of ours. 0: it goes through; an errno: it must fail
// with that; kShort: it transfers half.
constexpr int kShort = -1;
int injected(Kind kind, const std::string& about);

// main() has begun, and this is the program that is tested.
bool active();
inline std::string when_active(const char* about) { return active() ? about : ""; }

// The absolute path of a name, seen from a folder's descriptor; "" if unknown or not under the root.
std::string inside(int folder, const char* path);

// Descriptors of files under the root, and of pipes. The path of one that is neither is "".
void track(int descriptor, const std::string& path);
void forget(int descriptor);
std::string path_of(int descriptor);
constexpr const char* kPipe = "|";

// Holds back other threads' changes until this one is in the journal; kills the program if its time has come.
class Change {
 public:
  explicit Change(bool matters);
  ~Change();
  Change(const Change&) = delete;
  Change& operator=(const Change&) = delete;

  // `existed`: whether the name was there before the open.
  void opened(int descriptor, const std::string& path, bool existed, bool truncates) const;
  void wrote(int descriptor, off_t offset, const void* data, size_t size) const;
  void truncated(int descriptor, off_t size) const;
  void synced(int descriptor) const;
  void renamed(const std::string& from, const std::string& to) const;
  void linked(const std::string& path) const;
  void removed(const std::string& path) const;
  void made_folder(const std::string& path) const;

 private:
  const bool matters_;
};

bool name_exists(const std::string& path);

}  // namespace tandem::fault

// The C library's own function of this name.
#define TANDEM_REAL(name) static const auto real = reinterpret_cast<decltype(&::name)>(::dlsym(RTLD_NEXT, #name))

// Leaves the function with -1 and errno if a fault is due.
#define TANDEM_FAIL(kind, about)                                                                  \
  do {                                                                                            \
    if (const int error = tandem::fault::injected(tandem::fault::Kind::kind, about); error > 0) { \
      errno = error;                                                                              \
      return -1;                                                                                  \
    }                                                                                             \
  } while (false)

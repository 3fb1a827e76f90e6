#include "shim.h"

#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <map>
#include <mutex>
#include <sstream>

#include "journal.h"

namespace tandem::fault {
namespace {

constexpr size_t kKinds = static_cast<size_t>(Kind::count);
constexpr std::array<const char*, kKinds> kNames = {
#define TANDEM_FAULT_NAME(name) #name,
    TANDEM_FAULT_KINDS(TANDEM_FAULT_NAME)
#undef TANDEM_FAULT_NAME
};

std::string variable(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? "" : value;
}

struct State {
  std::mutex mutex;
  bool active = false;
  std::string root;
  std::map<int, std::string> descriptors;
  std::array<long, kKinds> counts{};
  std::string kind;  // Of the call that fails.
  long occurrence = 0;
  bool stays = false;
  int error = 0;

  State() {
    root = variable("TANDEM_FAULT_ROOT");
    const std::string fault = variable("TANDEM_FAULT");
    const size_t first = fault.find(':'), second = fault.rfind(':');
    if (first == std::string::npos || first == second) return;
    kind = fault.substr(0, first);
    occurrence = std::atol(fault.c_str() + first + 1);
    stays = fault[second - 1] == '+';
    const std::string what = fault.substr(second + 1);
    error = what == "short" ? kShort : std::atoi(what.c_str());
  }
};

// Never destroyed: other libraries' destructors may still close files.
State& state() {
  static State* const instance = new State;
  return *instance;
}

void leave_mark(const std::string& about) {
  const std::string path = variable("TANDEM_FAULT_MARK");
  if (path.empty()) return;
  const long fd = ::syscall(SYS_openat, AT_FDCWD, path.c_str(), O_CREAT | O_WRONLY | O_CLOEXEC, 0644);
  if (fd < 0) return;
  ::syscall(SYS_write, fd, about.data(), about.size());
  ::syscall(SYS_close, fd);
}

void write_counts() {
  const std::string path = variable("TANDEM_FAULT_COUNTS");
  if (path.empty()) return;
  std::string text;
  for (size_t i = 0; i < kKinds; ++i) text += std::string(kNames[i]) + " " + std::to_string(state().counts[i]) + "\n";
  const long fd = ::syscall(SYS_openat, AT_FDCWD, path.c_str(), O_CREAT | O_WRONLY | O_APPEND | O_CLOEXEC, 0644);
  if (fd < 0) return;
  ::syscall(SYS_write, fd, text.data(), text.size());
  ::syscall(SYS_close, fd);
}

using Main = int (*)(int, char**, char**);
Main real_main = nullptr;

int watched_main(int argc, char** argv, char** environment) {
  std::istringstream programs(variable("TANDEM_FAULT_PROGRAM"));
  for (std::string name; std::getline(programs, name, ',');) {
    if (name == program_invocation_short_name) state().active = true;
  }
  if (active()) open_journal();
  const int code = real_main(argc, argv, environment);
  if (active()) write_counts();
  state().active = false;
  return code;
}

}  // namespace

bool active() { return state().active; }

int injected(Kind kind, const std::string& about) {
  if (about.empty() || !active()) return 0;
  const std::lock_guard lock(state().mutex);
  const auto index = static_cast<size_t>(kind);
  const long count = ++state().counts[index];
  if (state().kind != kNames[index]) return 0;
  if (count != state().occurrence && !(state().stays && count > state().occurrence)) return 0;
  leave_mark(about);
  return state().error;
}

std::string inside(int folder, const char* path) {
  if (!active() || path == nullptr) return {};
  std::filesystem::path whole = path;
  if (whole.is_relative()) {
    std::array<char, 4096> here{};
    const std::string base = folder != AT_FDCWD                              ? path_of(folder)
                             : ::getcwd(here.data(), here.size()) != nullptr ? std::string(here.data())
                                                                             : std::string();
    if (base.empty()) return {};
    whole = std::filesystem::path(base) / whole;
  }
  std::string name = whole.lexically_normal().string();
  if (name.size() > 1 && name.back() == '/') name.pop_back();
  const std::string& root = state().root;
  const bool is_inside = name == root || (name.starts_with(root) && name[root.size()] == '/');
  return is_inside ? name : std::string();
}

void track(int descriptor, const std::string& path) {
  if (descriptor < 0 || path.empty()) return;
  const std::lock_guard lock(state().mutex);
  state().descriptors[descriptor] = path;
}

void forget(int descriptor) {
  const std::lock_guard lock(state().mutex);
  state().descriptors.erase(descriptor);
}

std::string path_of(int descriptor) {
  if (!active()) return {};
  const std::lock_guard lock(state().mutex);
  const auto it = state().descriptors.find(descriptor);
  return it == state().descriptors.end() ? std::string() : it->second;
}

}  // namespace tandem::fault

// What happens before main() is the loader's and the C++ library's: counting begins there.
extern "C" int __libc_start_main(tandem::fault::Main main, int argc, char** argv, void (*init)(), void (*fini)(),
                                 void (*loader_fini)(), void* stack) {
  using Start = int (*)(tandem::fault::Main, int, char**, void (*)(), void (*)(), void (*)(), void*);
  static const auto real = reinterpret_cast<Start>(::dlsym(RTLD_NEXT, "__libc_start_main"));
  tandem::fault::real_main = main;
  return real(tandem::fault::watched_main, argc, argv, init, fini, loader_fini, stack);
}

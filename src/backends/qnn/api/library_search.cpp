#include "backends/qnn/api/library_search.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <optional>

#include "base/error.h"

extern char** environ;

namespace tandem::qnn {
namespace {

namespace fs = std::filesystem;

constexpr const char* kHtpName = "libQnnHtp.so";
constexpr const char* kSystemName = "libQnnSystem.so";
constexpr const char* kPackageFolder = "onnxruntime_qnn";
constexpr std::chrono::seconds kPythonPatience{10};

// Finds the package without running any of it. The working directory is taken off the path first: a file there must not
// become part of this.
constexpr const char* kAskPython =
    "import sys\n"
    "sys.path[:] = [p for p in sys.path if p]\n"
    "import importlib.util\n"
    "spec = importlib.util.find_spec('onnxruntime_qnn')\n"
    "places = list(spec.submodule_search_locations or []) if spec else []\n"
    "print(places[0] if places else '')\n";

bool is_file(const fs::path& path) {
  std::error_code error;
  return fs::is_regular_file(path, error);
}

std::optional<LibraryPaths> paths_in(const fs::path& place, std::string found_by) {
  std::error_code error;
  std::vector<fs::path> candidates;
  if (is_file(place)) {
    candidates = {place};
  } else {
    candidates = {place / kHtpName, place / kPackageFolder / kHtpName};
  }
  for (const fs::path& htp : candidates) {
    if (!is_file(htp)) continue;
    // Absolute: dlopen searches elsewhere for a name without a slash.
    fs::path absolute = fs::absolute(htp, error);
    if (error) absolute = htp;
    const fs::path system = absolute.parent_path() / kSystemName;
    return LibraryPaths{absolute.string(), is_file(system) ? system.string() : "", std::move(found_by)};
  }
  return std::nullopt;
}

// What the process wrote until it ended or closed its output; "" if it took too long.
std::string read_with_patience(int descriptor) {
  const auto deadline = std::chrono::steady_clock::now() + kPythonPatience;
  std::string text;
  for (;;) {
    const auto left =
        std::chrono::duration_cast<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now());
    if (left.count() <= 0) return {};
    pollfd waiting = {descriptor, POLLIN, 0};
    const int ready = ::poll(&waiting, 1, static_cast<int>(left.count()));
    if (ready < 0 && errno == EINTR) continue;
    if (ready <= 0) return {};
    std::array<char, 1024> buffer;
    const ssize_t got = ::read(descriptor, buffer.data(), buffer.size());
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return {};
    if (got == 0) return text;
    text.append(buffer.data(), static_cast<size_t>(got));
    if (text.size() > 8192) return {};
  }
}

// The package's folder according to python3; "" if there is none. No shell is involved.
std::string ask_python() {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return {};
  posix_spawn_file_actions_t actions;
  if (::posix_spawn_file_actions_init(&actions) != 0) {
    ::close(ends[0]);
    ::close(ends[1]);
    return {};
  }
  int failed = ::posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
  if (failed == 0) failed = ::posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  if (failed == 0) failed = ::posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
  std::string program = "python3";
  std::string flag = "-c";
  std::string script = kAskPython;
  std::array<char*, 4> arguments = {program.data(), flag.data(), script.data(), nullptr};
  pid_t child = -1;
  // Without them it would write to our own output.
  if (failed == 0) failed = ::posix_spawnp(&child, program.c_str(), &actions, nullptr, arguments.data(), environ);
  ::posix_spawn_file_actions_destroy(&actions);
  ::close(ends[1]);
  if (failed != 0) {
    ::close(ends[0]);
    return {};
  }
  std::string text = read_with_patience(ends[0]);
  ::close(ends[0]);
  if (text.empty()) ::kill(child, SIGKILL);
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  while (!text.empty() && (text.back() == '\n' || text.back() == '\r')) text.pop_back();
  return text;
}

}  // namespace

Result<LibraryPaths> find_libraries(const SearchOptions& options) {
  if (!options.path.empty()) {
    auto paths = paths_in(options.path, "the given path");
    if (paths) return *std::move(paths);
    return not_found("there is no {} in {}, which was given as the place of the QNN libraries; {}", kHtpName,
                     options.path, kHowToGet);
  }
  if (const char* const variable = std::getenv(kLibrariesVariable); variable != nullptr && *variable != '\0') {
    auto paths = paths_in(variable, kLibrariesVariable);
    if (paths) return *std::move(paths);
    return not_found("there is no {} in {}, which {} names as the place of the QNN libraries; {}", kHtpName, variable,
                     kLibrariesVariable, kHowToGet);
  }
  for (const std::string& folder : options.folders) {
    if (auto paths = paths_in(folder, folder)) return *std::move(paths);
  }
  if (options.ask_python) {
    const std::string folder = ask_python();
    if (!folder.empty()) {
      if (auto paths = paths_in(folder, "the installed Python package")) return *std::move(paths);
    }
  }
#if !defined(__x86_64__)
  // On a device they are where the app's or the system's libraries are, which only the loader knows.
  return LibraryPaths{kHtpName, kSystemName, "the loader's own search"};
#else
  return not_found("the QNN libraries ({}, {}) were not found; {}, or set {} to the folder that has them", kHtpName,
                   kSystemName, kHowToGet, kLibrariesVariable);
#endif
}

}  // namespace tandem::qnn

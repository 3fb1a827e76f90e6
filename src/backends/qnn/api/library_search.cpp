#include "backends/qnn/api/library_search.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <string_view>

#include "base/error.h"

namespace tandem::qnn {
namespace {

namespace fs = std::filesystem;

constexpr const char* kHtpName = "libQnnHtp.so";
constexpr const char* kSystemName = "libQnnSystem.so";
constexpr const char* kPackageFolder = "onnxruntime_qnn";

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

std::string variable(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? "" : value;
}

// The entries of a list like PATH. Relative ones are left out: a file in the working directory must not become part of
// this.
std::vector<fs::path> absolute_entries(std::string_view list) {
  std::vector<fs::path> entries;
  while (!list.empty()) {
    const size_t end = std::min(list.find(':'), list.size());
    fs::path entry(list.substr(0, end));
    if (entry.is_absolute()) entries.push_back(std::move(entry));
    list.remove_prefix(std::min(end + 1, list.size()));
  }
  return entries;
}

// PREFIX/lib/python3.11/site-packages and the like, the newest version first; Debian has dist-packages.
void add_packages_of(const fs::path& prefix, std::vector<fs::path>& places) {
  for (const char* const library : {"lib", "lib64"}) {
    std::error_code error;
    std::vector<fs::path> versions;
    for (fs::directory_iterator at(prefix / library, error), end; !error && at != end; at.increment(error)) {
      if (at->path().filename().string().starts_with("python3")) versions.push_back(at->path());
    }
    // "python3.9" is older than "python3.11".
    std::ranges::sort(versions, std::greater<>(), [](const fs::path& version) {
      const std::string name = version.filename().string();
      return std::pair(name.size(), name);
    });
    for (const fs::path& version : versions) {
      places.push_back(version / "site-packages");
      places.push_back(version / "dist-packages");
    }
  }
}

std::vector<fs::path> python_package_folders() {
  std::vector<fs::path> places = absolute_entries(variable("PYTHONPATH"));
  std::vector<fs::path> prefixes = absolute_entries(variable("VIRTUAL_ENV"));
  for (const fs::path& folder : absolute_entries(variable("PATH"))) {
    if (is_file(folder / "python3")) prefixes.push_back(folder.parent_path());
  }
  for (const fs::path& home : absolute_entries(variable("HOME"))) prefixes.push_back(home / ".local");
  prefixes.insert(prefixes.end(), {"/usr/local", "/usr"});
  for (const fs::path& prefix : prefixes) add_packages_of(prefix, places);
  return places;
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
  if (options.python_packages) {
    for (const fs::path& folder : python_package_folders()) {
      if (auto paths = paths_in(folder / kPackageFolder, "the installed Python package")) return *std::move(paths);
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

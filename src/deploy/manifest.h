// The list of deployed files, manifest.json beside them: what a later deployment may replace, and how to run them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/json.h"
#include "tandem/status.h"

namespace tandem {

inline constexpr const char* kManifestName = "manifest.json";

struct ManifestFile {
  std::string name;  // Without a folder.
  uint64_t size = 0;
  std::string sha256;
  std::string kind;       // "model", "runtime" or "vendor".
  std::string processor;  // "arm64", "hexagon"; "" for a model.

  bool is_same_content(const ManifestFile& other) const { return size == other.size && sha256 == other.sha256; }
  bool operator==(const ManifestFile&) const = default;
};

struct Manifest {
  // False while files are being replaced: a name may then be listed twice, as it was and as it shall be.
  bool complete = true;
  std::string model;  // The name of the compiled file.
  std::string target;
  std::string backend;
  std::string library_found;   // The vendor's release, and the one that the file needs at least.
  std::string library_needed;  // "" where there is none.
  std::string folder;          // On the device.
  std::vector<std::pair<std::string, std::string>> environment;
  std::string command;  // How to run it, a command for the device's shell; "" without a program.
  std::vector<ManifestFile> files;
  std::vector<std::string> warnings;

  std::vector<const ManifestFile*> find(std::string_view name) const;
  Json to_json() const;
  std::string to_text() const;  // As the file has it.
  // From an untrusted file; `what` names it in errors. Only `complete` and `files` are read.
  static Result<Manifest> parse(std::string_view text, std::string_view what);
};

// Whether it can be the name of a deployed file: not empty, no folder, no control characters, not manifest.json.
bool is_plain_name(std::string_view name);

}  // namespace tandem

// A chip that is not in the table of targets, described by a JSON file of the user (docs/targets.md has an example).
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

#include "backends/qnn/compile/npu_targets.h"
#include "tandem/backend_options.h"
#include "tandem/status.h"

namespace tandem {

struct ChipFile {
  std::string name;
  NpuTarget target;         // Its name is above: it must not outlive this.
  BackendOptions settings;  // Options of the back end that the file has values for.

  ChipFile() = default;
  ChipFile(const ChipFile& other) : name(other.name), target(other.target), settings(other.settings) {
    target.name = name;
  }
  ChipFile& operator=(const ChipFile& other) {
    name = other.name;
    target = other.target;
    settings = other.settings;
    target.name = name;
    return *this;
  }
};

// Unknown keys, wrong types and numbers that no chip has are refused, each with its key.
Result<ChipFile> parse_chip(std::string_view text);
Result<ChipFile> read_chip(const std::filesystem::path& path);

}  // namespace tandem

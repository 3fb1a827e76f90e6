// The files of a chip's vendor that a device needs to run a compiled file: what `tandem deploy` collects.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tandem {

enum class DeviceProcessor : uint8_t { kArm64, kHexagon };

struct DeviceFile {
  std::string name;
  DeviceProcessor processor = DeviceProcessor::kArm64;
  int architecture = 0;  // Hexagon's version: 79. 0: any.
  // Where the vendor's packages have it, the preferred place first; "" is the top.
  std::vector<std::string> folders;
};

struct DeviceNeeds {
  std::vector<DeviceFile> files;  // None: the file runs without.
  // Variables to be set before the vendor's library is loaded; "{}" is the folder on the device.
  std::vector<std::pair<std::string, std::string>> environment;
  std::string option;  // Of deploy_options(): where the files come from.
  std::string remedy;  // Where a user gets them: "the SDK has them".
};

// A file that was found, by its name in DeviceNeeds.
struct DeviceFileContent {
  std::string_view name;
  std::span<const uint8_t> bytes;
};

struct DeviceVersions {
  std::string found;   // "v2.51.0.260929181845"; "" if the files do not say.
  std::string needed;  // At least this one; "" if not known.
  std::vector<std::string> warnings;
};

}  // namespace tandem

// Qualcomm's libraries that a phone needs to run a compiled file: their names, where Qualcomm's packages have them, and
// which release they are of. Phones' libraries cannot be loaded on a PC, so the release is read from their bytes.
#pragma once

#include <array>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "artifact/header.h"
#include "backends/interface/options.h"
#include "compiler/device_files.h"
#include "tandem/status.h"

namespace tandem::qnn {

// "v2.51.0.260929181845": what QnnBackend_getBuildId() returns, and a file's header has.
struct BuildId {
  std::array<uint32_t, 3> release = {};
  std::string text;

  // Nothing if the text does not begin like one.
  static std::optional<BuildId> parse(std::string_view text);
};

// The first build id in a library's bytes.
std::optional<BuildId> find_build_id(std::span<const uint8_t> library);

// libQnnHtp.so, libQnnSystem.so, and the stub and skel of the file's Hexagon version. Not libQnnHtpPrepare.so (90 MB),
// which compiles graphs: a file's graphs are compiled.
Result<DeviceNeeds> libraries_needed(const ArtifactHeader& header);

Result<DeviceVersions> check_libraries(const ArtifactHeader& header, std::span<const DeviceFileContent> files);

std::span<const OptionSpec> library_source_options();

}  // namespace tandem::qnn

// What is in the folder on a device: the manifest of an earlier deployment, and the sizes of the files.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "deploy/adb.h"
#include "deploy/deploy_plan.h"
#include "deploy/manifest.h"
#include "tandem/status.h"

namespace tandem {

struct DeviceState {
  std::string folder;
  std::string manifest_text;              // "" without one.
  Manifest manifest;                      // Of an earlier deployment.
  std::map<std::string, uint64_t> sizes;  // Of the files that are there.

  // Refuses a folder whose files of these names are not of an earlier deployment.
  static Result<DeviceState> read(const Adb& adb, const std::string& folder, const DeployPlan& plan);

  // Whether the file is there with this content: by the manifest, and by its checksum if the last deployment did not
  // finish.
  Result<bool> has(const Adb& adb, const ManifestFile& file) const;
  // Files of the earlier deployment that the new one does not have.
  std::vector<std::string> left_over(const DeployPlan& plan) const;
};

// "" if the device cannot compute it.
Result<std::string> device_sha256(const Adb& adb, const std::string& folder, const std::string& name);

// From the output of `df -k FOLDER`.
std::optional<uint64_t> parse_free_bytes(std::string_view text);

}  // namespace tandem

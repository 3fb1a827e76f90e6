// Deploys to a device behind adb, and runs the file there.
#pragma once

#include <string>
#include <vector>

#include "base/json.h"
#include "deploy/adb.h"
#include "deploy/deploy_plan.h"
#include "tandem/status.h"

namespace tandem {

// What a device says of itself.
struct DeviceProperties {
  bool is_android = false;
  int api_level = 0;
  std::string abis;     // "arm64-v8a"
  std::string soc;      // "SM8750"; older devices do not say.
  std::string model;    // "Pixel 9"
  std::string machine;  // "aarch64"
};

Result<DeviceProperties> query_device(const Adb& adb);
// Whether the deployment can run there; `warnings` gets what may be wrong.
Status check_device(const DeviceProperties& device, const DeployPlan& plan, std::vector<std::string>& warnings);

// Whether a folder on a device can be deployed to: absolute, not the root, no "..", no control characters.
Status check_remote_folder(const std::string& folder);

// Pushes what the device does not have yet; each file gets its name once its checksum on the device is right. Only
// files of an earlier deployment are replaced.
Result<DeployReport> deploy_to_device(const DeployPlan& plan, const Adb& adb, const DeployOptions& options);

// Runs the deployed program on the device with these arguments, and returns the JSON object that it prints. The program
// finds the compiled file as ./NAME.
Result<Json> run_on_device(const DeployPlan& plan, const Adb& adb, std::vector<std::string> arguments);

}  // namespace tandem

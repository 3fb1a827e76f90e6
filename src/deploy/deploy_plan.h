// What a deployment consists of: the compiled file, what runs it, and the vendor's files that it needs, all checked
// before anything is written.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "base/progress.h"
#include "deploy/elf_info.h"
#include "deploy/file_content.h"
#include "deploy/manifest.h"
#include "tandem/backend_options.h"
#include "tandem/status.h"

namespace tandem {

inline constexpr const char* kDefaultRemoteFolder = "/data/local/tmp/tandem";

struct DeployOptions {
  std::filesystem::path file;
  // A program or library for the device; empty: what the Android build of this tree made, if it is there.
  std::filesystem::path runtime = {};
  // Where the vendor's files come from, by the names of BackendCompiler::deploy_options().
  BackendOptions packages = {};
  std::string remote_folder = kDefaultRemoteFolder;
  bool dry_run = false;  // Nothing is written, here or on the device.
  ProgressCallback progress = {};
  StopCallback stop = {};
};

struct PlannedFile {
  ManifestFile entry;
  FileContent content;
  bool is_program = false;
};

struct DeployPlan {
  std::vector<PlannedFile> files;
  Manifest manifest;
  std::string program;  // The name of the program that runs files; "" if there is none.
  DeviceSystem system = DeviceSystem::kUnknown;
  std::vector<std::string> targets;
  bool needs_chip = false;  // It runs on the chips of its targets only.
  int64_t context = 0;      // Tokens that it can hold.
};

Result<DeployPlan> plan_deployment(const DeployOptions& options);

// What a deployment did, or would do.
struct DeployReport {
  Manifest manifest;
  std::vector<std::string> written;
  std::vector<std::string> unchanged;
  std::vector<std::string> removed;  // Files of an earlier deployment.
  std::vector<std::string> warnings;
};

}  // namespace tandem

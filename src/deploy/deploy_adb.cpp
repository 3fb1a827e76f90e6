#include "deploy/deploy_adb.h"

#include <algorithm>
#include <charconv>

#include "base/atomic_file.h"
#include "base/error.h"
#include "base/printable.h"
#include "deploy/deploy_folder.h"
#include "deploy/device_files_state.h"
#include "deploy/shell_quote.h"
#include "deploy/staging_folder.h"

namespace tandem {
namespace {

constexpr int kOldestApi = 26;  // docs/phones.md

std::vector<std::string> lines_of(std::string_view text) {
  std::vector<std::string> lines;
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    lines.emplace_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return lines;
}

class DeviceDeployment {
 public:
  DeviceDeployment(const DeployPlan& plan, const Adb& adb, const DeployOptions& options)
      : plan_(plan), adb_(adb), options_(options), folder_(options.remote_folder) {}

  Result<DeployReport> run() {
    TANDEM_TRY(check_remote_folder(folder_));
    report_.manifest = plan_.manifest;
    report_.warnings = plan_.manifest.warnings;
    TANDEM_ASSIGN(const DeviceProperties device, query_device(adb_));
    TANDEM_TRY(check_device(device, plan_, report_.warnings));
    TANDEM_ASSIGN(state_, DeviceState::read(adb_, folder_, plan_));
    TANDEM_TRY(compare());
    if (options_.dry_run) return std::move(report_);
    TANDEM_TRY(write());
    return std::move(report_);
  }

 private:
  Status compare() {
    for (const PlannedFile& file : plan_.files) {
      TANDEM_ASSIGN(const bool is_there, state_.has(adb_, file.entry));
      if (is_there) {
        report_.unchanged.push_back(file.entry.name);
      } else {
        changed_.push_back(&file);
        report_.written.push_back(file.entry.name);
      }
    }
    report_.removed = state_.left_over(plan_);
    return ok_status();
  }

  Status write() {
    if (changed_.empty() && report_.removed.empty() && state_.manifest_text == plan_.manifest.to_text()) {
      return ok_status();
    }
    TANDEM_ASSIGN(auto ignored, adb_.shell_output(str_format("mkdir -p {}", shell_quote(folder_)),
                                                  "making the folder on the device"));
    TANDEM_TRY(check_space());
    TANDEM_TRY(staging_.create());
    TANDEM_TRY(push_manifest(manifest_in_progress(state_.manifest, plan_)));
    uint64_t total = 0, done = 0;
    for (const PlannedFile* file : changed_) total += file->entry.size;
    for (const PlannedFile* file : changed_) {
      if (options_.progress) options_.progress({"copying", done, total});
      TANDEM_TRY(push(*file));
      done += file->entry.size;
    }
    if (!report_.removed.empty()) {
      std::string command = in_folder(folder_) + "rm -f";
      for (const std::string& name : report_.removed) append_format(command, " {}", shell_quote("./" + name));
      TANDEM_ASSIGN(ignored, adb_.shell_output(command, "removing old files from the device"));
    }
    return push_manifest(plan_.manifest);
  }

  // A device that runs full in the middle of a push is worse than one that is not touched.
  Status check_space() const {
    TANDEM_ASSIGN(const ProcessResult result, adb_.shell(str_format("df -k {}", shell_quote(folder_)), 60));
    const auto free = parse_free_bytes(result.output);
    uint64_t needed = 0;
    for (const PlannedFile* file : changed_) needed += file->entry.size;
    if (result.exit_code != 0 || !free || needed <= *free) return ok_status();
    return resource_exhausted(
        "the device has {} MB free in {} and {} MB are to be copied; delete something on it, or use another folder "
        "with "
        "`remote_dir`",
        *free >> 20, folder_, (needed >> 20) + 1);
  }

  Status push_manifest(const Manifest& manifest) {
    const std::string text = manifest.to_text();
    const auto path = staging_.path() / kManifestName;
    TANDEM_TRY(write_file_atomically(path, text));
    return push_as(path, kManifestName, {}, false);
  }

  Status push(const PlannedFile& file) {
    auto path = file.content.path();
    if (path.empty()) {  // It was unpacked, and adb copies files.
      path = staging_.path() / file.entry.name;
      TANDEM_ASSIGN(AtomicFile out, AtomicFile::create(path));
      TANDEM_TRY(
          file.content.in_chunks(options_.stop, [&](std::span<const uint8_t> chunk) { return out.write(chunk); }));
      TANDEM_TRY(out.commit());
    }
    TANDEM_TRY(push_as(path, file.entry.name, file.entry.sha256, file.is_program));
    return file.content.check();
  }

  // Under another name until it is whole.
  Status push_as(const std::filesystem::path& path, const std::string& name, const std::string& sha256,
                 bool is_program) {
    const std::string partial = name + ".tandem-part";
    Status status = push_partial(path, partial, sha256);
    const std::string here = in_folder(folder_);
    const std::string from = shell_quote("./" + partial), to = shell_quote("./" + name);
    if (status.ok()) {
      const std::string mode = is_program ? str_format("chmod 755 {} && ", from) : "";
      status = adb_.shell_output(str_format("{}{}mv -f {} {}", here, mode, from, to), "renaming a file on the device")
                   .status();
    }
    if (!status.ok()) adb_.clean_up(here + "rm -f " + from);
    return status;
  }

  Status push_partial(const std::filesystem::path& path, const std::string& partial, const std::string& sha256) const {
    TANDEM_TRY(adb_.push(path, folder_ + "/" + partial));
    if (sha256.empty()) return ok_status();
    TANDEM_ASSIGN(const std::string found, device_sha256(adb_, folder_, partial));
    if (found.empty() || found == sha256) return ok_status();
    return io_error("{} arrived damaged on the device; run the same command again, with another cable or port",
                    path.filename().string());
  }

  const DeployPlan& plan_;
  const Adb& adb_;
  const DeployOptions& options_;
  const std::string& folder_;
  StagingFolder staging_;
  DeviceState state_;
  std::vector<const PlannedFile*> changed_;
  DeployReport report_;
};

}  // namespace

Status check_remote_folder(const std::string& folder) {
  const auto is_control = [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; };
  const bool is_absolute = folder.size() > 1 && folder[0] == '/' && folder[1] != '/';
  if (!is_absolute || std::ranges::any_of(folder, is_control) || (folder + "/").find("/../") != std::string::npos) {
    return invalid_argument("`remote_dir` must be the whole path of a folder on the device, such as {}, and not \"{}\"",
                            kDefaultRemoteFolder, folder);
  }
  return ok_status();
}

Result<DeviceProperties> query_device(const Adb& adb) {
  // Linux devices have no properties, and say nothing.
  TANDEM_ASSIGN(
      const std::string text,
      adb.shell_output("for p in ro.build.version.sdk ro.product.cpu.abilist64 ro.soc.model ro.product.model; "
                       "do echo \"$(getprop $p 2>/dev/null)\"; done; uname -m",
                       "reading the device's properties"));
  const auto lines = lines_of(text);
  if (lines.size() != 5) {
    return io_error("the device {} answers a simple command with {} lines instead of 5; is its shell in order?",
                    adb.serial(), lines.size());
  }
  DeviceProperties device{.abis = lines[1], .soc = lines[2], .model = lines[3], .machine = lines[4]};
  device.is_android = !lines[0].empty();
  std::from_chars(lines[0].data(), lines[0].data() + lines[0].size(), device.api_level);
  return device;
}

Status check_device(const DeviceProperties& device, const DeployPlan& plan, std::vector<std::string>& warnings) {
  if (device.machine != "aarch64" && device.abis.find("arm64-v8a") == std::string::npos) {
    return unsupported("the device is a {}, and the files are for 64-bit ARM; use a device that has it",
                       printable_message(device.machine));
  }
  if (device.is_android && device.api_level < kOldestApi) {
    return unsupported("the device has Android's API level {}, and {} (Android 8) is the oldest that tandem runs on",
                       device.api_level, kOldestApi);
  }
  const DeviceSystem system = device.is_android ? DeviceSystem::kAndroid : DeviceSystem::kLinux;
  if (plan.system != DeviceSystem::kUnknown && plan.system != system) {
    return unsupported("the device runs {}, and the program and libraries are for {}; give those for {}",
                       device.is_android ? "Android" : "Linux", device.is_android ? "Linux" : "Android",
                       device.is_android ? "Android" : "Linux");
  }
  std::string soc = device.soc;
  for (char& c : soc) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  const auto is_target = [&](const std::string& target) { return soc.starts_with(target); };
  if (plan.needs_chip && !soc.empty() && std::ranges::none_of(plan.targets, is_target)) {
    warnings.push_back(str_format("the device says that it is a {}, and the file is for {}",
                                  printable_message(device.soc), plan.manifest.target));
  }
  return ok_status();
}

Result<DeployReport> deploy_to_device(const DeployPlan& plan, const Adb& adb, const DeployOptions& options) {
  return DeviceDeployment(plan, adb, options).run();
}

}  // namespace tandem

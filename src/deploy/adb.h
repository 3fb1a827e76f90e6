// A device behind adb, Android's debug bridge. adb is started with a list of arguments, never through a shell of this
// machine; the device's own shell gets quoted text (shell_quote.h). What adb complains about becomes a sentence that
// says what to do.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "base/progress.h"
#include "deploy/process.h"
#include "tandem/status.h"

namespace tandem {

struct AdbOptions {
  std::filesystem::path program = {};  // Empty: in PATH, or in the SDK that ANDROID_HOME or ANDROID_SDK_ROOT names.
  std::string serial = {};             // Empty: the only device.
  StopCallback stop = {};
};

struct AdbDevice {
  std::string serial;
  std::string state;  // "device": it can be used.
};

// The output of `adb devices`.
std::vector<AdbDevice> parse_device_list(std::string_view output);
// The device to use: the one with this serial number, or the only one. An error says what to do.
Result<std::string> select_device(const std::vector<AdbDevice>& devices, std::string_view serial);
// A sentence for what adb, or a command on the device, wrote to its standard error.
Error describe_adb_failure(std::string_view doing, const ProcessResult& result);

class Adb {
 public:
  // Finds adb and the device.
  static Result<Adb> connect(const AdbOptions& options);

  const std::string& serial() const { return serial_; }

  // Runs a command of the device's shell to its end; any exit status is a result, adb's own failures are errors.
  // `timeout_seconds` 0: however long it takes.
  Result<ProcessResult> shell(const std::string& command, double timeout_seconds) const;
  // The output of a command that must succeed; `doing` begins the error: "reading the device's properties".
  Result<std::string> shell_output(const std::string& command, std::string_view doing) const;
  Status push(const std::filesystem::path& file, const std::string& remote) const;
  // Runs a command even after a stop, ignores failures, and does not take long.
  void clean_up(const std::string& command) const;

 private:
  Result<ProcessResult> run(std::vector<std::string> arguments, const ProcessOptions& options) const;

  std::filesystem::path program_;
  std::string serial_;
  StopCallback stop_;
};

}  // namespace tandem

#include "deploy/adb.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <optional>

#include "base/error.h"
#include "base/find_text.h"
#include "base/printable.h"

namespace tandem {
namespace {

constexpr double kAnswerSeconds = 120;  // adb may have to start its server first.
constexpr double kCleanUpSeconds = 10;
constexpr size_t kLongestQuote = 300;

bool is_executable(const std::filesystem::path& path) {
  std::error_code error;
  return std::filesystem::is_regular_file(path, error) && ::access(path.c_str(), X_OK) == 0;
}

std::string environment_text(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? std::string() : std::string(value);
}

Result<std::filesystem::path> find_adb(const std::filesystem::path& given) {
  constexpr const char* kInstall =
      "install Android's platform tools (`apt install adb`, or developer.android.com/tools/releases/platform-tools), "
      "or "
      "give its path with `adb`";
  if (!given.empty()) {
    const auto path = given.has_parent_path() ? given : "." / given;
    if (is_executable(path)) return path;
    return not_found("{} is not there or cannot be started; {}", given.string(), kInstall);
  }
  std::vector<std::filesystem::path> places;
  std::string path = environment_text("PATH");
  for (size_t begin = 0; begin < path.size();) {
    const size_t end = std::min(path.find(':', begin), path.size());
    const std::filesystem::path folder(path.substr(begin, end - begin));
    if (folder.is_absolute()) places.push_back(folder);  // Not what lies in the working directory.
    begin = end + 1;
  }
  for (const char* name : {"ANDROID_HOME", "ANDROID_SDK_ROOT"}) {
    const std::filesystem::path sdk(environment_text(name));
    if (sdk.is_absolute()) places.push_back(sdk / "platform-tools");
  }
  for (const auto& folder : places) {
    if (is_executable(folder / "adb")) return folder / "adb";
  }
  return not_found("adb was not found in PATH or in ANDROID_HOME; {}", kInstall);
}

Error state_error(const AdbDevice& device) {
  const std::string_view state = device.state;
  if (state == "unauthorized" || state == "authorizing") {
    return io_error("the device {} does not trust this computer yet; unlock it and allow USB debugging", device.serial);
  }
  if (state == "offline" || state == "connecting") {
    return io_error("the device {} is offline; plug it in again, or restart adb with `adb kill-server`", device.serial);
  }
  if (state.starts_with("no permissions")) {
    return io_error(
        "this user may not use the device {}; add the udev rules of Android devices (`apt install "
        "android-sdk-platform-tools-common`) and join the group plugdev",
        device.serial);
  }
  return io_error("the device {} is in the state \"{}\"; start its normal system", device.serial,
                  printable_message(state));
}

// The last lines that say something, on one line.
std::string last_words(std::string_view text) {
  while (!text.empty() && (text.back() == '\n' || text.back() == '\r' || text.back() == ' ')) text.remove_suffix(1);
  std::string line(text);
  std::ranges::replace(line, '\n', ' ');
  std::erase(line, '\r');
  return shortened(printable(line), kLongestQuote);
}

struct KnownFailure {
  std::string_view text;  // In what adb writes.
  ErrorCode code;
  std::string_view advice;
};

constexpr KnownFailure kKnownFailures[] = {
    {"No space left on device", ErrorCode::kResourceExhausted,
     "the device has no space left; delete something on it, or use another folder with `remote_dir`"},
    {"Read-only file system", ErrorCode::kIo,
     "that folder of the device cannot be written to; use one below /data/local/tmp with `remote_dir`"},
    {"Permission denied", ErrorCode::kIo,
     "adb's user may not do that in this folder of the device; use one below /data/local/tmp with `remote_dir`"},
    {"no devices/emulators found", ErrorCode::kNotFound, "the device is gone; plug it in again"},
    {"device offline", ErrorCode::kIo,
     "the device is offline; plug it in again, or restart adb with `adb kill-server`"},
    {"device unauthorized", ErrorCode::kIo,
     "the device does not trust this computer any more; unlock it and allow USB debugging"},
    {": closed", ErrorCode::kIo, "the connection was lost; plug the device in again"},
    {"' not found", ErrorCode::kNotFound, "plug the device in again; `adb devices` lists what adb sees"},
};

// adb's own words begin so. A program on the device may begin with "error: " as well.
constexpr std::string_view kAdbBeginnings[] = {"adb: ",
                                               "error: device ",
                                               "error: no devices",
                                               "error: closed",
                                               "error: protocol fault",
                                               "error: more than one",
                                               "error: cannot connect"};

bool is_from_adb(std::string_view errors) {
  return std::ranges::any_of(kAdbBeginnings, [&](std::string_view beginning) { return errors.starts_with(beginning); });
}

}  // namespace

std::vector<AdbDevice> parse_device_list(std::string_view output) {
  std::vector<AdbDevice> devices;
  while (!output.empty()) {
    const size_t end = std::min(output.find('\n'), output.size());
    std::string_view line = output.substr(0, end);
    output.remove_prefix(std::min(end + 1, output.size()));
    if (!line.empty() && line.back() == '\r') line.remove_suffix(1);
    // Lines of adb's own begin with a star; the title has no tab.
    const size_t tab = line.find('\t');
    if (line.starts_with('*') || tab == std::string_view::npos || tab == 0) continue;
    devices.push_back({std::string(line.substr(0, tab)), std::string(line.substr(tab + 1))});
  }
  return devices;
}

Result<std::string> select_device(const std::vector<AdbDevice>& devices, std::string_view serial) {
  std::vector<std::string> serials;
  for (const AdbDevice& device : devices) serials.push_back(printable_message(device.serial));
  if (devices.empty()) {
    return not_found(
        "adb sees no device; plug one in, turn on USB debugging in its developer options, and see `adb devices`");
  }
  if (serial.empty() && devices.size() > 1) {
    return invalid_argument("adb sees several devices ({}); say which with `to` adb:SERIAL", str_join(serials, ", "));
  }
  const auto found = serial.empty() ? devices.begin()
                                    : std::ranges::find(devices, serial, [](const AdbDevice& d) { return d.serial; });
  if (found == devices.end()) {
    return not_found("adb sees no device {}, only {}; plug it in, or name another with `to` adb:SERIAL", serial,
                     str_join(serials, ", "));
  }
  if (found->state != "device") return state_error(*found);
  return found->serial;
}

Error describe_adb_failure(std::string_view doing, const ProcessResult& result) {
  const std::string words = last_words(result.errors.empty() ? result.output : result.errors);
  for (const KnownFailure& known : kKnownFailures) {
    if (find_text(result.errors, known.text) == std::string::npos &&
        find_text(result.output, known.text) == std::string::npos) {
      continue;
    }
    return {known.code, str_format("{} failed: {} ({})", doing, known.advice, words)};
  }
  if (result.signal != 0) return io_error("{} failed: adb was ended by signal {}", doing, result.signal);
  if (words.empty()) return io_error("{} failed: adb ended with status {} and said nothing", doing, result.exit_code);
  return io_error("{} failed: {}", doing, words);
}

Result<ProcessResult> Adb::run(std::vector<std::string> arguments, const ProcessOptions& options) const {
  if (!serial_.empty()) arguments.insert(arguments.begin(), {"-s", serial_});
  return run_process(program_, arguments, options);
}

Result<Adb> Adb::connect(const AdbOptions& options) {
  Adb adb;
  adb.stop_ = options.stop;
  TANDEM_ASSIGN(adb.program_, find_adb(options.program));
  TANDEM_ASSIGN(const ProcessResult listed,
                adb.run({"devices"}, {.stop = options.stop, .timeout_seconds = kAnswerSeconds}));
  if (listed.exit_code != 0) return describe_adb_failure("asking adb for its devices", listed);
  TANDEM_ASSIGN(adb.serial_, select_device(parse_device_list(listed.output), options.serial));
  return adb;
}

Result<ProcessResult> Adb::shell(const std::string& command, double timeout_seconds) const {
  TANDEM_ASSIGN(ProcessResult result, run({"shell", command}, {.stop = stop_, .timeout_seconds = timeout_seconds}));
  if (result.exit_code != 0 && is_from_adb(result.errors)) {
    return describe_adb_failure("a command on the device", result);
  }
  if (result.exit_code < 0) return describe_adb_failure("a command on the device", result);
  return result;
}

Result<std::string> Adb::shell_output(const std::string& command, std::string_view doing) const {
  TANDEM_ASSIGN(ProcessResult result, shell(command, kAnswerSeconds));
  if (result.exit_code != 0) return describe_adb_failure(doing, result);
  std::erase(result.output, '\r');
  return std::move(result.output);
}

Status Adb::push(const std::filesystem::path& file, const std::string& remote) const {
  std::error_code error;
  auto path = std::filesystem::absolute(file, error);  // A name that begins with a dash is no option.
  if (error) path = file;
  TANDEM_ASSIGN(const ProcessResult result, run({"push", path.string(), remote}, {.stop = stop_}));
  if (result.exit_code == 0) return ok_status();
  return describe_adb_failure(str_format("copying {} to the device", file.filename().string()), result);
}

void Adb::clean_up(const std::string& command) const {
  const auto result = run({"shell", command}, {.timeout_seconds = kCleanUpSeconds});
  (void)result;
}

}  // namespace tandem

// Runs the deployed program on a device and brings its JSON back.
#include <signal.h>

#include <algorithm>

#include "base/error.h"
#include "base/find_text.h"
#include "base/printable.h"
#include "deploy/deploy_adb.h"
#include "deploy/shell_quote.h"

namespace tandem {
namespace {

// A command line's argument may have 128 KB on Linux, and quoting makes it longer.
constexpr size_t kLongestArgument = 64'000;
constexpr size_t kLongestWords = 500;

// The last words, on one line.
std::string said(const ProcessResult& result) {
  std::string text = result.errors.empty() ? result.output : result.errors;
  while (!text.empty() && (text.back() == '\n' || text.back() == '\r')) text.pop_back();
  if (text.size() > kLongestWords) text.replace(0, text.size() - kLongestWords, "…");
  std::ranges::replace(text, '\n', ' ');
  return printable(text);
}

Error device_failure(const std::string& program, const ProcessResult& result) {
  const std::string words = said(result), quoted = words.empty() ? "" : "; it said: " + words;
  const int signal = result.exit_code > 128 ? result.exit_code - 128 : 0;
  if (signal == SIGKILL) {
    return resource_exhausted(
        "{} was killed on the device, most likely for want of memory; close apps, or compile with "
        "a shorter `context`{}",
        program, quoted);
  }
  if (signal == SIGINT || signal == SIGTERM || signal == SIGHUP) {
    return io_error("{} was stopped on the device{}", program, quoted);
  }
  if (signal != 0) {
    return io_error("{} crashed on the device (signal {}, {}); `adb logcat -b crash -d` shows where{}", program, signal,
                    ::strsignal(signal), quoted);
  }
  if (find_text(result.errors, "CANNOT LINK EXECUTABLE") != std::string::npos) {
    return unsupported("{} does not find a library that it needs on the device{}", program, quoted);
  }
  if (result.exit_code == 126 || result.exit_code == 127) {
    return unsupported("{} cannot be started on the device; is it for this system?{}", program, quoted);
  }
  return io_error("{} failed on the device with exit status {}{}", program, result.exit_code, quoted);
}

}  // namespace

Result<Json> run_on_device(const DeployPlan& plan, const Adb& adb, std::vector<std::string> arguments) {
  const auto is_too_long = [](const std::string& argument) { return argument.size() > kLongestArgument; };
  if (std::ranges::any_of(arguments, is_too_long)) {
    return invalid_argument("a `prompt` of more than {} bytes does not fit a command line of the device",
                            kLongestArgument);
  }
  if (plan.program.empty()) {
    return invalid_argument(
        "there is no program among the files that could run on the device; give one with "
        "`runtime`");
  }
  arguments.insert(arguments.begin(), "./" + plan.program);
  TANDEM_ASSIGN(const ProcessResult result, adb.shell(device_command(plan.manifest, arguments), 0));
  if (result.exit_code != 0) return device_failure(plan.program, result);
  auto json = parse_json(result.output, "the device's answer");
  if (!json.ok() || !json->is_object()) {
    return io_error("{} printed no JSON on the device; is it the command line of this version? It said: {}",
                    plan.program, said(result));
  }
  return json;
}

}  // namespace tandem

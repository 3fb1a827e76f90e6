#include "deploy/device_files_state.h"

#include <algorithm>
#include <charconv>
#include <set>

#include "base/error.h"
#include "deploy/deploy_folder.h"
#include "deploy/shell_quote.h"

namespace tandem {
namespace {

template <typename Number>
std::optional<Number> whole_text_number(std::string_view text) {
  Number number{};
  const auto parsed = std::from_chars(text.data(), text.data() + text.size(), number);
  if (parsed.ec != std::errc() || parsed.ptr != text.data() + text.size()) return std::nullopt;
  return number;
}

std::vector<std::string_view> split_text(std::string_view text, std::string_view separators) {
  std::vector<std::string_view> parts;
  while (!text.empty()) {
    const size_t end = std::min(text.find_first_of(separators), text.size());
    if (end > 0) parts.push_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return parts;
}

// A line for each name: its size, "none", or "other" for a folder, a link and the like.
std::string sizes_command(const std::string& folder, const std::vector<std::string>& names) {
  std::string command = str_format("cd {} 2>/dev/null || exit 0; for f in", shell_quote(folder));
  for (const std::string& name : names) append_format(command, " {}", shell_quote("./" + name));
  return command +
         "; do if [ -L \"$f\" ]; then echo other; elif [ -f \"$f\" ]; then stat -c %s \"$f\"; "
         "elif [ -e \"$f\" ]; then echo other; else echo none; fi; done";
}

Error foreign(const std::string& folder, const std::string& name) {
  return invalid_argument(
      "{}/{} is on the device already and is not as an earlier deployment left it; remove it, or use another folder "
      "with "
      "`remote_dir`",
      folder, name);
}

}  // namespace

std::optional<uint64_t> parse_free_bytes(std::string_view text) {
  const auto lines = split_text(text, "\r\n");
  if (lines.size() < 2) return std::nullopt;
  // Filesystem, 1K-blocks, Used, Available, …; a long name of a file system may be on a line of its own.
  const auto fields = split_text(lines.back(), " \t");
  const auto percent = std::ranges::find_if(fields, [](std::string_view field) { return field.ends_with('%'); });
  if (percent == fields.begin() || percent == fields.end()) return std::nullopt;
  const auto blocks = whole_text_number<uint64_t>(*(percent - 1));
  if (!blocks || *blocks > UINT64_MAX / 1024) return std::nullopt;
  return *blocks * 1024;
}

Result<std::string> device_sha256(const Adb& adb, const std::string& folder, const std::string& name) {
  TANDEM_ASSIGN(const ProcessResult result,
                adb.shell(str_format("{}sha256sum {}", in_folder(folder), shell_quote("./" + name)), 0));
  constexpr size_t kDigits = 64;
  const std::string sum = result.output.substr(0, kDigits);
  const bool is_sum = sum.size() == kDigits && sum.find_first_not_of("0123456789abcdef") == std::string::npos;
  return result.exit_code == 0 && is_sum ? sum : std::string();
}

Result<DeviceState> DeviceState::read(const Adb& adb, const std::string& folder, const DeployPlan& plan) {
  DeviceState state;
  state.folder = folder;
  const std::string path = shell_quote(folder + "/" + kManifestName);
  TANDEM_ASSIGN(state.manifest_text, adb.shell_output(str_format("if [ -f {} ]; then cat {}; fi", path, path),
                                                      "reading the manifest on the device"));
  if (!state.manifest_text.empty()) {
    auto parsed = Manifest::parse(state.manifest_text, kManifestName);
    if (!parsed.ok()) return foreign(folder, kManifestName);
    state.manifest = std::move(parsed).value();
  }
  std::set<std::string> unique;
  for (const PlannedFile& file : plan.files) unique.insert(file.entry.name);
  for (const ManifestFile& file : state.manifest.files) unique.insert(file.name);
  const std::vector<std::string> names(unique.begin(), unique.end());
  TANDEM_ASSIGN(const std::string output, adb.shell_output(sizes_command(folder, names), "listing the device's files"));
  const auto lines = split_text(output, "\n");
  if (lines.empty()) return state;  // There is no such folder.
  if (lines.size() != names.size()) {
    return io_error("the device lists {} files instead of {}; is its shell in order?", lines.size(), names.size());
  }
  for (size_t i = 0; i < names.size(); ++i) {
    if (lines[i] == "none") continue;
    const auto size = whole_text_number<uint64_t>(lines[i]);
    const auto listed = state.manifest.find(names[i]);
    const auto has_size = [&](const ManifestFile* file) { return size && file->size == *size; };
    const bool ours = std::ranges::any_of(listed, has_size);
    if (ours) {
      state.sizes[names[i]] = *size;
    } else if (!plan.manifest.find(names[i]).empty()) {
      return foreign(folder, names[i]);
    }
  }
  return state;
}

Result<bool> DeviceState::has(const Adb& adb, const ManifestFile& file) const {
  const auto size = sizes.find(file.name);
  if (size == sizes.end() || size->second != file.size) return false;
  const auto listed = manifest.find(file.name);
  if (std::ranges::none_of(listed, [&](const ManifestFile* f) { return f->is_same_content(file); })) return false;
  if (manifest.complete) return true;
  TANDEM_ASSIGN(const std::string sum, device_sha256(adb, folder, file.name));
  return sum == file.sha256;
}

std::vector<std::string> DeviceState::left_over(const DeployPlan& plan) const {
  std::set<std::string> names;
  for (const ManifestFile* file : files_left_over(manifest, plan)) {
    if (sizes.contains(file->name)) names.insert(file->name);
  }
  return {names.begin(), names.end()};
}

}  // namespace tandem

#include "backends/qnn/compile/device_libraries.h"

#include <algorithm>
#include <charconv>

#include "base/error.h"

namespace tandem::qnn {
namespace {

constexpr OptionSpec kSourceOptions[] = {
    {.name = "qnn-libs",
     .help = "Qualcomm's run time for the device: a folder (of QAIRT, of the Python package, or with all files in it), "
             "or a .aar or .whl file",
     .is_about_machine = true},
};

constexpr const char* kLibraryRemedy =
    "QAIRT has them for Android, and so has the AAR com.qualcomm.qti:qnn-runtime (docs/phones.md)";

// FastRPC looks for the skel there, and separates folders by semicolons. The device's own follow ours: its DSP's
// libraries are in them.
constexpr const char* kDspFolders = "{};/vendor/dsp/cdsp;/vendor/lib/rfsa/adsp;/system/lib/rfsa/adsp;/dsp";

bool is_digit(char c) { return c >= '0' && c <= '9'; }

DeviceFile host_library(std::string name) {
  return {.name = std::move(name),
          .processor = DeviceProcessor::kArm64,
          // A flat folder, QAIRT, an AAR, a wheel or the folder where it is installed; QAIRT's Linux libraries last.
          .folders = {"", "lib/aarch64-android", "aarch64-android", "jni/arm64-v8a", "arm64-v8a", "onnxruntime_qnn",
                      "lib/aarch64-oe-linux-gcc11.2", "lib/aarch64-ubuntu-gcc9.4"}};
}

DeviceFile dsp_library(std::string name, int arch) {
  const std::string hexagon = str_format("hexagon-v{}/unsigned", arch);
  return {.name = std::move(name),
          .processor = DeviceProcessor::kHexagon,
          .architecture = arch,
          .folders = {"", "lib/" + hexagon, hexagon, "jni/arm64-v8a", "arm64-v8a", "onnxruntime_qnn"}};
}

}  // namespace

std::optional<BuildId> BuildId::parse(std::string_view text) {
  if (text.empty() || text[0] != 'v') return std::nullopt;
  BuildId id;
  const char* at = text.data() + 1;
  const char* const end = text.data() + text.size();
  for (uint32_t& number : id.release) {
    const auto parsed = std::from_chars(at, end, number);
    if (parsed.ec != std::errc() || parsed.ptr == end || *parsed.ptr != '.') return std::nullopt;
    at = parsed.ptr + 1;
  }
  // The date and time of the build; shorter numbers are versions of something else.
  constexpr ptrdiff_t kDateDigits = 6;
  const char* const date = std::find_if_not(at, end, is_digit);
  if (date - at < kDateDigits) return std::nullopt;
  id.text.assign(text.data(), date);
  return id;
}

std::optional<BuildId> find_build_id(std::span<const uint8_t> library) {
  constexpr size_t kLongest = 64;
  const std::string_view text(reinterpret_cast<const char*>(library.data()), library.size());
  for (size_t at = text.find('v'); at != std::string_view::npos; at = text.find('v', at + 1)) {
    if (at + 1 >= text.size() || !is_digit(text[at + 1])) continue;
    if (auto id = BuildId::parse(text.substr(at, kLongest))) return id;
  }
  return std::nullopt;
}

Result<DeviceNeeds> libraries_needed(const ArtifactHeader& header) {
  const int arch = header.device.arch;
  if (arch <= 0 || arch >= 1000) {
    return corrupt("the file does not say which Hexagon it was compiled for; compile it again");
  }
  DeviceNeeds needs;
  needs.files = {host_library("libQnnHtp.so"), host_library("libQnnSystem.so"),
                 host_library(str_format("libQnnHtpV{}Stub.so", arch)),
                 dsp_library(str_format("libQnnHtpV{}Skel.so", arch), arch)};
  needs.environment = {{"LD_LIBRARY_PATH", "{}"}, {"ADSP_LIBRARY_PATH", kDspFolders}};
  needs.option = kSourceOptions[0].name;
  needs.remedy = kLibraryRemedy;
  return needs;
}

Result<DeviceVersions> check_libraries(const ArtifactHeader& header, std::span<const DeviceFileContent> files) {
  DeviceVersions versions;
  versions.needed = header.device.build_id;
  std::optional<BuildId> found;
  std::string_view found_in;
  for (const DeviceFileContent& file : files) {
    const auto id = find_build_id(file.bytes);
    if (!id) continue;  // libQnnSystem.so does not have it.
    if (found && found->text != id->text) {
      return unsupported(
          "{} is of release {} and {} of {}, which do not work together; take all of Qualcomm's files from one package",
          found_in, found->text, file.name, id->text);
    }
    found = id;
    found_in = file.name;
  }
  if (!found) {
    versions.warnings.push_back(
        "Qualcomm's libraries do not say which release they are of, so nothing tells whether they are new enough");
    return versions;
  }
  versions.found = found->text;
  const auto needed = BuildId::parse(header.device.build_id);
  if (!needed) {
    versions.warnings.push_back(
        "the file does not say which release compiled it, so nothing tells whether Qualcomm's "
        "libraries are new enough");
    return versions;
  }
  if (found->release[0] != needed->release[0] || found->release < needed->release) {
    return unsupported(
        "the file was compiled by release {} of Qualcomm's libraries, and these are of {}; deploy that release or a "
        "later one, or compile the model again with an older one",
        needed->text, found->text);
  }
  return versions;
}

std::span<const OptionSpec> library_source_options() { return kSourceOptions; }

}  // namespace tandem::qnn

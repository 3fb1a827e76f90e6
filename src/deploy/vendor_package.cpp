#include "deploy/vendor_package.h"

#include "base/error.h"
#include "base/file_status.h"

namespace tandem {
namespace {

// The largest library of Qualcomm's has 90 MB.
constexpr uint64_t kLargestLibrary = uint64_t{1} << 30;

std::string place_of(const std::string& folder, const std::string& name) {
  return folder.empty() ? name : folder + "/" + name;
}

}  // namespace

Status check_processor(const ElfInfo& elf, const DeviceFile& file, std::string_view what) {
  const bool wants_arm = file.processor == DeviceProcessor::kArm64;
  if (elf.machine != (wants_arm ? kElfMachineArm64 : kElfMachineHexagon)) {
    return unsupported("{} is for {}, and the device needs it for {}", what, machine_name(elf.machine),
                       wants_arm ? "64-bit ARM" : "Hexagon");
  }
  // The version is written as hexadecimal digits: 0x79 is V79. The upper bits have other meanings.
  const uint32_t wanted = static_cast<uint32_t>(file.architecture / 10 * 16 + file.architecture % 10);
  if (!wants_arm && file.architecture != 0 && (elf.flags & 0xff) != wanted) {
    return unsupported("{} is for Hexagon V{:x}, and the file was compiled for V{}; give the files of that version",
                       what, elf.flags & 0xff, file.architecture);
  }
  return ok_status();
}

Result<VendorPackage> VendorPackage::open(const std::filesystem::path& path) {
  VendorPackage package;
  package.path_ = path;
  std::error_code error;
  if (std::filesystem::is_directory(path, error)) return package;
  TANDEM_ASSIGN(package.archive_, FileContent::map(path));
  if (!looks_like_zip(package.archive_.bytes())) {
    return invalid_argument("{} is neither a folder nor an .aar or .whl file", path.string());
  }
  TANDEM_ASSIGN(package.entries_, read_zip_entries(package.archive_.bytes(), path.string()));
  TANDEM_TRY(package.archive_.check());
  return package;
}

Result<std::optional<FileContent>> VendorPackage::load(const std::string& name) const {
  if (entries_) {
    const auto entry = entries_->find(name);
    if (entry == entries_->end()) return std::optional<FileContent>();
    TANDEM_ASSIGN(std::vector<uint8_t> bytes, unpack(entry->second, name, path_.string(), kLargestLibrary));
    TANDEM_TRY(archive_.check());
    return std::optional(FileContent::own(std::move(bytes)));
  }
  TANDEM_ASSIGN(const bool exists, regular_file_exists(path_ / name));
  if (!exists) return std::optional<FileContent>();
  TANDEM_ASSIGN(FileContent content, FileContent::map(path_ / name));
  return std::optional(std::move(content));
}

Result<bool> VendorPackage::has(const DeviceFile& file) const {
  for (const std::string& folder : file.folders) {
    const std::string name = place_of(folder, file.name);
    if (entries_) {
      if (entries_->contains(name)) return true;
      continue;
    }
    TANDEM_ASSIGN(const bool exists, regular_file_exists(path_ / name));
    if (exists) return true;
  }
  return false;
}

Result<VendorFile> VendorPackage::read(const DeviceFile& file) const {
  std::optional<Error> refused;
  for (const std::string& folder : file.folders) {
    const std::string name = place_of(folder, file.name);
    TANDEM_ASSIGN(auto content, load(name));
    if (!content) continue;
    const std::string what = (path_ / name).string();
    TANDEM_ASSIGN(ElfInfo elf, read_elf(content->bytes(), what));
    TANDEM_TRY(content->check());
    const Status fits = check_processor(elf, file, what);
    if (fits.ok()) return VendorFile{*std::move(content), std::move(elf)};
    if (!refused) refused = fits.error();
  }
  if (refused) return *std::move(refused);
  return not_found("{} has no {}", path_.string(), file.name);
}

}  // namespace tandem

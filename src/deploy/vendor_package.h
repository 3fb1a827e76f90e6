// A vendor's files as users have them: a folder of an SDK, an installed Python package, a wheel, an AAR.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "archive/zip_reader.h"
#include "compiler/device_files.h"
#include "deploy/elf_info.h"
#include "deploy/file_content.h"
#include "tandem/status.h"

namespace tandem {

struct VendorFile {
  FileContent content;
  ElfInfo elf;
};

class VendorPackage {
 public:
  // A folder, or a zip archive.
  static Result<VendorPackage> open(const std::filesystem::path& path);

  // The first of the file's places that holds one for its processor. An error says what is wrong with the one that is
  // there, if any is.
  Result<VendorFile> read(const DeviceFile& file) const;
  // Whether any of the file's places holds it.
  Result<bool> has(const DeviceFile& file) const;

 private:
  // Nothing if it is not there. Names are relative to the package.
  Result<std::optional<FileContent>> load(const std::string& name) const;

  std::filesystem::path path_;
  FileContent archive_;
  std::optional<ZipEntries> entries_;  // Of archive_.
};

// Whether an ELF file is for the processor that the device needs; `what` names the file.
Status check_processor(const ElfInfo& elf, const DeviceFile& file, std::string_view what);

}  // namespace tandem

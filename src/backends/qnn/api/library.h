// The QNN libraries, loaded and checked: libQnnHtp.so (compiler, and on x86 the emulator) and libQnnSystem.so
// (describes context binaries). Nothing of QNN is linked; both come by dlopen.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "backends/qnn/api/abi_tables.h"
#include "backends/qnn/api/library_search.h"
#include "tandem/status.h"

namespace tandem::qnn {

// The oldest interfaces whose layouts abi*.h declares, those of QAIRT 2.36. A library must have the same major and at
// least the same minor version.
inline constexpr abi::Version kOldestCore = {2, 27, 0};
inline constexpr abi::Version kOldestHtp = {5, 36, 0};
inline constexpr abi::Version kOldestSystem = {1, 4, 0};
inline constexpr const char* kOldestRelease = "QAIRT 2.36";
// HTP back ends that the tests have run on: QAIRT 2.47 to 2.51, which is what PyPI has. HTP 5.N comes with QAIRT 2.N.
inline constexpr abi::Version kOldestTestedHtp = {5, 47, 0};
inline constexpr abi::Version kNewestTestedHtp = {5, 51, 0};
// The Python package that has the newest of them.
inline constexpr const char* kPackageVersion = "2.7.0";

std::string version_text(const abi::Version& version);  // "2.40.0"

// Loaded once, and kept loaded until the process ends: the library has threads, and its code must not go away under
// them.
class Library {
 public:
  static Result<std::shared_ptr<const Library>> load(const SearchOptions& options = {});
  static Result<std::shared_ptr<const Library>> load(const LibraryPaths& paths);

  const abi::CoreTable& core() const { return core_->functions; }
  const std::string& path() const { return paths_.htp; }
  const std::string& found_by() const { return paths_.found_by; }
  abi::Version core_version() const { return core_->core_version; }
  abi::Version htp_version() const { return core_->backend_version; }
  const std::string& build_id() const { return build_id_; }

  // libQnnSystem.so, loaded on first use by the caller's wish: an error if it is not beside libQnnHtp.so or does not
  // fit.
  Result<const abi::SystemTable*> system() const;

 private:
  Library() = default;

  LibraryPaths paths_;
  const abi::CoreProvider* core_ = nullptr;
  std::string build_id_;
};

// Whether the library in this process is Qualcomm's x86 emulator, which cannot load weight-shared binaries.
constexpr bool is_emulator() {
#if defined(__x86_64__)
  return true;
#else
  return false;
#endif
}

}  // namespace tandem::qnn

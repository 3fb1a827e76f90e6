#include "backends/qnn/api/library.h"

#include <dlfcn.h>

#include <initializer_list>
#include <utility>

#include "backends/qnn/api/errors.h"
#include "backends/qnn/api/log.h"
#include "base/error.h"
#include "base/format.h"

namespace tandem::qnn {
namespace {

bool fits(const abi::Version& have, const abi::Version& want) {
  return have.major == want.major && have.minor >= want.minor;
}

Error wrong_version(const std::string& path, std::string_view what, const abi::Version& have,
                    const abi::Version& want) {
  return unsupported(
      "{} has version {} of QNN's {}, and tandem needs {}.{} or a later {}.x, that of {}; install onnxruntime-qnn {} "
      "(`make qnn`, or `pip install onnxruntime-qnn=={}`) or update tandem",
      path, version_text(have), what, want.major, want.minor, want.major, kOldestRelease, kPackageVersion,
      kPackageVersion);
}

// The library's provider, or why not. Provider structs are static in the library.
template <typename Provider>
Result<const Provider*> open_provider(const std::string& path, const char* symbol) {
  using GetProviders = abi::ErrorHandle (*)(const Provider***, uint32_t*);
  const StdoutCapture capture;  // libQnnHtp.so prints a line when it is loaded.
  ::dlerror();
  // RTLD_NODELETE, and the handle is never closed: see Library.
  void* const handle = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  if (handle == nullptr) {
    const char* const reason = ::dlerror();
    return io_error("{} could not be loaded ({}); {}", path, reason != nullptr ? reason : "no reason given", kHowToGet);
  }
  const auto get_providers = reinterpret_cast<GetProviders>(::dlsym(handle, symbol));
  if (get_providers == nullptr) {
    return unsupported("{} is not a QNN library: it has no {}; {}", path, symbol, kHowToGet);
  }
  const Provider** providers = nullptr;
  uint32_t count = 0;
  if (const auto result = get_providers(&providers, &count); result != abi::kSuccess) {
    return describe_error(result, str_format("asking {} for its interface", path));
  }
  if (providers == nullptr || count == 0 || providers[0] == nullptr) {
    return unsupported("{} offers no interface; {}", path, kHowToGet);
  }
  return providers[0];
}

// All functions that we call, so that no wrapper needs to ask.
bool has_all_functions(const abi::CoreTable& t) {
  const auto all = [](auto... functions) { return ((functions != nullptr) && ...); };
  return all(t.backend_create, t.backend_get_build_id, t.backend_validate_op_config, t.backend_free, t.context_create,
             t.context_get_binary_size, t.context_get_binary, t.context_create_from_binary, t.context_free,
             t.graph_create, t.graph_add_node, t.graph_finalize, t.graph_retrieve, t.graph_execute,
             t.tensor_create_graph_tensor, t.log_create, t.log_free, t.device_create, t.device_free);
}

}  // namespace

std::string version_text(const abi::Version& version) {
  return str_format("{}.{}.{}", version.major, version.minor, version.patch);
}

Result<std::shared_ptr<const Library>> Library::load(const SearchOptions& options) {
  TANDEM_ASSIGN(const LibraryPaths paths, find_libraries(options));
  return load(paths);
}

Result<std::shared_ptr<const Library>> Library::load(const LibraryPaths& paths) {
  TANDEM_ASSIGN(const abi::CoreProvider* const provider,
                open_provider<abi::CoreProvider>(paths.htp, abi::kGetCoreProviders));
  // The id and the versions come first in the struct; nothing behind them is read before they are known to fit.
  if (provider->backend_id != abi::kHtpBackendId) {
    return unsupported("{} is QNN's back end number {}, not HTP ({}); give the path of libQnnHtp.so", paths.htp,
                       provider->backend_id, abi::kHtpBackendId);
  }
  if (!fits(provider->core_version, kOldestCore)) {
    return wrong_version(paths.htp, "core interface", provider->core_version, kOldestCore);
  }
  if (!fits(provider->backend_version, kOldestHtp)) {
    return wrong_version(paths.htp, "HTP back end", provider->backend_version, kOldestHtp);
  }
  if (!has_all_functions(provider->functions)) {
    return unsupported("{} lacks functions that tandem needs; install onnxruntime-qnn {} (`make qnn`)", paths.htp,
                       kPackageVersion);
  }
  auto library = std::shared_ptr<Library>(new Library);
  library->paths_ = paths;
  library->core_ = provider;
  const char* build = nullptr;
  if (provider->functions.backend_get_build_id(&build) == abi::kSuccess && build != nullptr) library->build_id_ = build;
  return std::shared_ptr<const Library>(std::move(library));
}

Result<const abi::SystemTable*> Library::system() const {
  if (paths_.system.empty()) {
    return not_found("libQnnSystem.so is not beside {}; {}", paths_.htp, kHowToGet);
  }
  TANDEM_ASSIGN(const abi::SystemProvider* const provider,
                open_provider<abi::SystemProvider>(paths_.system, abi::kGetSystemProviders));
  if (!fits(provider->version, kOldestSystem)) {
    return wrong_version(paths_.system, "system interface", provider->version, kOldestSystem);
  }
  const abi::SystemTable& table = provider->functions;
  if (table.context_create == nullptr || table.context_get_metadata == nullptr || table.context_free == nullptr) {
    return unsupported("{} lacks functions that tandem needs; install onnxruntime-qnn {} (`make qnn`)", paths_.system,
                       kPackageVersion);
  }
  return &table;
}

}  // namespace tandem::qnn

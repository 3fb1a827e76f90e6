// Whether a file can run on this machine.
#include "tandem/probe.h"

#include "base/error.h"
#include "c_api/border.h"
#include "c_api/options.h"

namespace tandem::c_api {
namespace {

// ask(options) gives the report.
tandem_status probe_as_json(const tandem_engine_options* options, char** json,
                            FunctionRef<Result<ProbeReport>(const EngineOptions&)> ask) {
  return at_border([&]() -> Status {
    TANDEM_TRY(clear(json, nullptr));
    TANDEM_ASSIGN(const EngineOptions given, to_engine_options(options));
    TANDEM_ASSIGN(const ProbeReport report, ask(given));
    return copy_text(report.to_json(), json, nullptr);
  });
}

}  // namespace
}  // namespace tandem::c_api

extern "C" {

tandem_status tandem_probe(const char* path, const tandem_engine_options* options, char** json) {
  return tandem::c_api::probe_as_json(options, json, [&](const tandem::EngineOptions& given) {
    return tandem::probe(path == nullptr ? std::filesystem::path() : std::filesystem::path(path), given);
  });
}

tandem_status tandem_probe_fd(int32_t descriptor, int64_t offset, int64_t length, const tandem_engine_options* options,
                              char** json) {
  return tandem::c_api::probe_as_json(options, json, [&](const tandem::EngineOptions& given) {
    return tandem::probe(tandem::FileRegion{descriptor, offset, length}, given);
  });
}
}

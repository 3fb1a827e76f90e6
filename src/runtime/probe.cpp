#include "tandem/probe.h"

#include <algorithm>

#include "artifact/reader.h"
#include "backends/interface/probe.h"
#include "backends/registry/registry.h"
#include "base/error.h"
#include "base/guarded.h"
#include "base/json.h"
#include "base/log.h"
#include "runtime/loaded_engine.h"
#include "runtime/program_choice.h"

namespace tandem {
namespace {

Json backend_json(const BackendProbe& probe) {
  return {{"backend", probe.backend},
          {"target", probe.target},
          {"usable", probe.usable},
          {"reason", probe.reason},
          {"remedy", probe.remedy},
          {"warnings", probe.warnings},
          {"device", probe.device},
          {"library", probe.library},
          {"library_version", probe.library_version},
          {"library_version_needed", probe.library_version_needed},
          {"memory_needed_bytes", probe.memory_needed_bytes},
          {"session_bytes", probe.session_bytes},
          {"memory_free_bytes", probe.memory_free_bytes},
          {"context_bytes", probe.context_bytes},
          {"context_limit_bytes", probe.context_limit_bytes}};
}

Result<BackendProbe> probe_backend(const Backend& backend, const Artifact* artifact, const EngineOptions& options) {
  const Log log(options.log, options.log_level);
  TANDEM_ASSIGN(BackendProbe probe, backend.probe(artifact, own_options(backend.options(), options.backend), log));
  probe.backend = backend.name();
  if (artifact != nullptr) probe.target = artifact->header().target;
  return probe;
}

Result<BackendProbe> probe_program(const Artifact& artifact, const EngineOptions& options) {
  const auto backend = backend_of(artifact.header());
  if (backend.ok()) return probe_backend(**backend, &artifact, options);
  BackendProbe probe;
  probe.backend = artifact.header().backend;
  probe.target = artifact.header().target;
  set_obstacle(probe, backend.error(), "use a newer tandem");
  return probe;
}

Result<ProbeReport> probe_build(const EngineOptions& options) {
  ProbeReport report;
  for (const Backend* backend : backends()) {
    if (!options.run_on.empty() && options.run_on != backend->name()) continue;
    TANDEM_ASSIGN(BackendProbe probe, probe_backend(*backend, nullptr, options));
    set_memory(probe, 0, 0, available_memory());
    report.usable = report.usable || probe.usable;
    report.backends.push_back(std::move(probe));
  }
  if (report.backends.empty()) {
    return invalid_argument("this build has no back end \"{}\"; without a file, `run_on` names one", options.run_on);
  }
  return report;
}

Result<ProbeReport> probe_file(Result<Artifact> artifact, const EngineOptions& options) {
  if (!artifact.ok()) return std::move(artifact).error();
  ProbeReport report;
  report.file = artifact->path();
  auto candidates = candidate_programs(artifact->header(), options.run_on);
  if (!candidates.ok()) return with_context(candidates.error(), "{}", report.file.string());
  if (!options.decode_on.empty()) {
    const auto more = candidate_programs(artifact->header(), options.decode_on, "decode_on");
    if (!more.ok()) return with_context(more.error(), "{}", report.file.string());
    for (const size_t index : *more) {
      if (std::ranges::find(*candidates, index) == candidates->end()) candidates->push_back(index);
    }
  }
  for (const size_t index : *candidates) {
    auto probe = probe_program(artifact->program(index), options);
    TANDEM_TRY(artifact->check());
    if (!probe.ok()) return with_context(std::move(probe).error(), "{}", report.file.string());
    report.usable = report.usable || probe->usable;
    report.backends.push_back(std::move(probe).value());
  }
  return report;
}

}  // namespace

std::string ProbeReport::to_json() const {
  Json list = Json::array();
  for (const BackendProbe& probe : backends) list.push_back(backend_json(probe));
  return dump_json({{"file", file.string()}, {"usable", usable}, {"backends", std::move(list)}}, 2);
}

Result<ProbeReport> probe(const std::filesystem::path& file, const EngineOptions& options) {
  return guarded([&]() -> Result<ProbeReport> {
    TANDEM_TRY(check_engine_options(options));
    TANDEM_TRY(check_option_names(options.backend));
    return file.empty() ? probe_build(options) : probe_file(Artifact::open(file), options);
  });
}

Result<ProbeReport> probe(const FileRegion& region, const EngineOptions& options) {
  return guarded([&]() -> Result<ProbeReport> {
    TANDEM_TRY(check_engine_options(options));
    TANDEM_TRY(check_option_names(options.backend));
    return probe_file(Artifact::open(region), options);
  });
}

}  // namespace tandem

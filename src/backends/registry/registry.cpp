#include "backends/registry/registry.h"

#include <algorithm>

#include "base/error.h"
#include "base/log.h"

namespace tandem {
namespace {

std::string list(std::string_view separator, std::string_view more = {}) {
  std::string names;
  for (const Backend* backend : backends()) {
    names.append(names.empty() ? "" : separator).append(backend->name());
  }
  if (!more.empty()) names.append(names.empty() ? "" : separator).append(more);
  return names;
}

}  // namespace

const Backend* find_backend(std::string_view name) {
  const auto found = std::ranges::find(backends(), name, &Backend::name);
  return found == backends().end() ? nullptr : *found;
}

Result<const Backend*> backend_of(const ArtifactHeader& header) {
  if (const Backend* backend = find_backend(header.backend)) return backend;
  const auto known = backends_in_sources();
  if (std::ranges::find(known, header.backend) == known.end()) {
    return unsupported("the file is for the back end \"{}\" (target {}), and this build has {}; use a newer tandem",
                       header.backend, header.target, list(", "));
  }
  return unsupported(
      "the file is for the back end \"{}\" (target {}), and this build has {}; build tandem with "
      "-DTANDEM_BACKENDS=\"{}\", or compile the model for another target",
      header.backend, header.target, list(", "), list(";", header.backend));
}

std::vector<OptionSpec> all_backend_options() {
  std::vector<OptionSpec> all;
  for (const Backend* backend : backends()) {
    for (const OptionSpec& spec : backend->options()) {
      if (find_option(all, spec.name) == nullptr) all.push_back(spec);
    }
  }
  return all;
}

Status check_option_names(const BackendOptions& options) {
  const std::vector<OptionSpec> all = all_backend_options();
  for (const auto& [name, value] : options) {
    if (find_option(all, name) == nullptr) {
      return invalid_argument("no back end has the option `{}`; these are known: {}", name, option_names(all));
    }
  }
  return ok_status();
}

Result<std::unique_ptr<Program>> load_methods(const Artifact& artifact, ThreadPool& pool, const BackendOptions& options,
                                              const Log& log) {
  TANDEM_ASSIGN(const Backend* backend, backend_of(artifact.header()));
  TANDEM_TRY(check_option_names(options));
  return backend->load(artifact, pool, own_options(backend->options(), options), log);
}

}  // namespace tandem

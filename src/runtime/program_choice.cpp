#include "runtime/program_choice.h"

#include <algorithm>
#include <functional>
#include <numeric>

#include "backends/registry/registry.h"
#include "base/error.h"
#include "base/format.h"

namespace tandem {

Result<std::vector<size_t>> candidate_programs(const ArtifactHeader& header, const std::string& name,
                                               std::string_view option) {
  struct Name {
    std::string_view target, backend;
  };
  std::vector<Name> names = {{header.target, header.backend}};
  for (const ProgramHeader& program : header.more_programs) names.push_back({program.target, program.backend});
  std::vector<size_t> candidates(names.size());
  std::iota(candidates.begin(), candidates.end(), size_t{0});
  if (name.empty()) return candidates;
  // A target's name comes first: some back ends have a target of their own name.
  for (const auto field : {&Name::target, &Name::backend}) {
    std::vector<size_t> named = candidates;
    std::erase_if(named, [&](size_t i) { return names[i].*field != name; });
    if (!named.empty()) return named;
  }
  std::string known;
  for (const Name& program : names) known += str_format("{}{}", known.empty() ? "" : ", ", program.target);
  return invalid_argument(
      "the file has no program for \"{}\"; `{}` may be a target or its back end, and the file is for {}", name, option,
      known);
}

Status check_program_options(const ArtifactHeader& header, const std::vector<size_t>& programs,
                             const BackendOptions& options) {
  TANDEM_TRY(check_option_names(options));
  for (const size_t index : programs) {
    const Backend* backend = find_backend(index == 0 ? header.backend : header.more_programs[index - 1].backend);
    if (backend == nullptr) continue;
    TANDEM_TRY(check_options(backend->options(), own_options(backend->options(), options)));
  }
  return ok_status();
}

Error no_program_works(const std::vector<FailedProgram>& failed) {
  if (failed.size() == 1) return failed.front().error;
  std::string reasons;
  for (const FailedProgram& program : failed) {
    reasons += str_format("{}{}: {}", reasons.empty() ? "" : " | ", program.target, program.error.message);
  }
  return {failed.back().error.code, str_format("none of the file's programs can run here; {}", reasons)};
}

}  // namespace tandem

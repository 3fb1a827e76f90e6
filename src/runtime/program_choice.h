// Which of a file's programs an engine takes.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "artifact/header.h"
#include "tandem/backend_options.h"
#include "tandem/status.h"

namespace tandem {

// The programs that may be tried, in order: all of them, or those whose target or else whose back end has that name.
// The error lists what the file has; `option` is the option that has the name.
Result<std::vector<size_t>> candidate_programs(const ArtifactHeader& header, const std::string& name,
                                               std::string_view option = "run_on");

// Whether the back ends of these programs can be given the options. Back ends that this build lacks are not asked.
Status check_program_options(const ArtifactHeader& header, const std::vector<size_t>& programs,
                             const BackendOptions& options);

struct FailedProgram {
  std::string target;
  Error error;
};
// One error for all of them: that of the only program, or a list.
Error no_program_works(const std::vector<FailedProgram>& failed);

}  // namespace tandem

// One file for several targets: each program is compiled as it would be alone, and stored parts are shared.
#pragma once

#include <filesystem>
#include <vector>

#include "compiler/compile.h"
#include "compiler/targets.h"
#include "tandem/status.h"

namespace tandem {

// What any target refuses is refused before work for the first begins. The report's file_size is left to the caller.
Result<CompileReport> compile_several(const std::filesystem::path& checkpoint, const std::filesystem::path& output,
                                      const CompileOptions& options, const std::vector<const Target*>& targets);

}  // namespace tandem

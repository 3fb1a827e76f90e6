#include "compiler/compile.h"

#include <algorithm>
#include <array>

#include "base/error.h"
#include "base/guarded.h"
#include "compiler/backend_compiler.h"
#include "compiler/compile_job.h"
#include "compiler/compile_several.h"

namespace tandem {

namespace {

constexpr std::array<std::string_view, 3> kTuneNames = {"none", "fast", "full"};

}  // namespace

std::string_view tune_name(Tune tune) { return kTuneNames[static_cast<size_t>(tune)]; }

Result<Tune> parse_tune(std::string_view name) {
  const auto it = std::ranges::find(kTuneNames, name);
  if (it == kTuneNames.end()) return invalid_argument("weights are tuned none, fast or full, not \"{}\"", name);
  return static_cast<Tune>(it - kTuneNames.begin());
}

Result<CompileReport> compile(const std::filesystem::path& checkpoint, const std::filesystem::path& output,
                              const CompileOptions& options) {
  return guarded([&]() -> Result<CompileReport> {
    TANDEM_ASSIGN(const std::vector<const Target*> targets, find_targets(options.target));
    CompileReport report;
    if (targets.size() > 1) {
      TANDEM_ASSIGN(report, compile_several(checkpoint, output, options, targets));
    } else {
      TANDEM_ASSIGN(const std::unique_ptr<CompileJob> job, CompileJob::open(checkpoint, output, options));
      TANDEM_TRY(compiler_of(job->target()).compile(*job));
      report = std::move(job->report());
    }
    // Only for the summary: the file is complete and synced.
    std::error_code error;
    const auto size = std::filesystem::file_size(output, error);
    report.file_size = error ? 0 : size;
    return report;
  });
}

}  // namespace tandem

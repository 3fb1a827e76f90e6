#include "compiler/compile.h"

#include "base/guarded.h"
#include "compiler/backend_compiler.h"
#include "compiler/compile_job.h"
#include "compiler/compile_several.h"

namespace tandem {

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

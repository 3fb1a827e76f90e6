#include "compiler/compile_several.h"

#include <algorithm>
#include <memory>
#include <set>

#include "base/error.h"
#include "base/format.h"
#include "compiler/backend_compiler.h"
#include "compiler/combine_programs.h"
#include "compiler/compile_job.h"

namespace tandem {
namespace {

// One target's share of the whole: an equal one, because the units of different back ends have nothing in common.
ProgressCallback share_of_progress(const ProgressCallback& progress, std::string_view target, size_t index,
                                   size_t count) {
  if (!progress) return {};
  return [=, name = std::string(target)](const Progress& p) {
    constexpr uint64_t kShare = 1 << 20;
    const double part = p.total == 0 ? 0.0 : static_cast<double>(p.done) / static_cast<double>(p.total);
    progress({name + ": " + p.stage, kShare * index + static_cast<uint64_t>(part * kShare), kShare * count});
  };
}

class SeveralTargets {
 public:
  SeveralTargets(const std::filesystem::path& output, const CompileOptions& options,
                 const std::vector<const Target*>& targets)
      : output_(output), options_(options), targets_(targets) {}

  Result<CompileReport> run(const std::filesystem::path& checkpoint) {
    TANDEM_TRY(open_jobs(checkpoint));
    // Keeps other compiles away from the output, whatever their targets. It holds nothing, so it does not stay.
    TANDEM_ASSIGN(const WorkFolder work, WorkFolder::open(output_, "several targets"));
    Status status = compile_all();
    if (status.ok()) status = assemble(work.folder());
    if (!status.ok()) {
      for (FinishedProgram& program : finished_) status = program.work.give_up(std::move(status).error());
      return std::move(status).error();
    }
    for (FinishedProgram& program : finished_) program.work.remove();
    return make_report();
  }

 private:
  // What only other targets of the file obey is left out.
  CompileOptions options_for(size_t index) const {
    const Target& target = *targets_[index];
    const BackendCompiler& compiler = compiler_of(target);
    CompileOptions own = options_;
    own.target = target.name;
    own.progress = share_of_progress(options_.progress, target.name, index, targets_.size());
    ObeyedOptions others;
    for (size_t i = 0; i < targets_.size(); ++i) {
      if (i == index) continue;
      own.other_targets.emplace_back(targets_[i]->name);
      const BackendCompiler& other = compiler_of(*targets_[i]);
      const ObeyedOptions obeyed = other.obeyed_options();
      others.activations |= obeyed.activations;
      others.rescore |= obeyed.rescore;
      others.encodings |= obeyed.encodings;
      std::erase_if(own.backend, [&](const auto& option) {
        return find_option(other.options(), option.first) != nullptr &&
               find_option(compiler.options(), option.first) == nullptr;
      });
    }
    const ObeyedOptions obeyed = compiler.obeyed_options();
    if (!obeyed.activations && others.activations) own.activations.reset();
    if (!obeyed.rescore && others.rescore) {
      own.rescore.reset();
      own.recipe.rescore.reset();
    }
    if (!obeyed.encodings && others.encodings) {
      own.calibration_is_optional = true;
      own.calibration.import_encodings.clear();
      own.calibration.export_encodings.clear();
      own.calibration.report.clear();
    }
    return own;
  }

  // Each target would write it anew.
  Status check_extra_outputs() const {
    std::set<std::filesystem::path> written;
    for (const auto& options : own_options_) {
      std::vector<std::filesystem::path> paths = {options->calibration.export_encodings, options->calibration.report};
      const Target& target = *targets_[static_cast<size_t>(&options - own_options_.data())];
      for (const ExtraOutput& extra : compiler_of(target).extra_outputs(options->backend)) paths.push_back(extra.path);
      for (const std::filesystem::path& path : paths) {
        if (path.empty() || written.insert(path).second) continue;
        return invalid_argument(
            "{} would be written for several targets, each over the one before; compile for {} "
            "alone to get it",
            path.string(), target.name);
      }
    }
    return ok_status();
  }

  Status open_jobs(const std::filesystem::path& checkpoint) {
    for (size_t i = 0; i < targets_.size(); ++i) {
      own_options_.push_back(std::make_unique<CompileOptions>(options_for(i)));
    }
    TANDEM_TRY(check_extra_outputs());
    for (size_t i = 0; i < targets_.size(); ++i) {
      auto job = CompileJob::open(checkpoint, output_, *own_options_[i]);
      if (!job.ok()) return named(std::move(job).error(), *targets_[i]);
      jobs_.push_back(std::move(job).value());
    }
    return ok_status();
  }

  // Which of the targets refuses. Other errors are about the checkpoint, or the machine.
  static Error named(Error error, const Target& target) {
    const bool is_refusal = error.code == ErrorCode::kUnsupported || error.code == ErrorCode::kInvalidArgument;
    const bool is_named = error.message.find(target.name) != std::string::npos;
    return is_refusal && !is_named ? with_context(std::move(error), "target {}", target.name) : error;
  }

  Status compile_all() {
    for (size_t i = 0; i < targets_.size(); ++i) {
      Status status = compiler_of(*targets_[i]).compile(*jobs_[i]);
      if (!status.ok()) return named(std::move(status).error(), *targets_[i]);
      finished_.push_back(jobs_[i]->take_finished());
    }
    return ok_status();
  }

  Status assemble(const std::filesystem::path& folder) {
    if (options_.progress) options_.progress({"writing the file", 1, 1});
    TANDEM_ASSIGN(CombinedFile file, combine_programs(finished_, options_.stop));
    for (size_t i = 0; i < jobs_.size(); ++i) {
      jobs_[i]->report().program_bytes = file.sizes[i].bytes;
      jobs_[i]->report().shared_bytes = file.sizes[i].shared_bytes;
    }
    return write_artifact(output_, std::move(file.header), file.segments, jobs_.front()->write_options(folder));
  }

  CompileReport make_report() {
    CompileReport report = jobs_.front()->report();
    report.warnings.clear();
    for (const auto& job : jobs_) {
      // What the checkpoint has to be warned of, every target's compile says.
      for (const std::string& warning : job->report().warnings) {
        if (std::ranges::find(report.warnings, warning) == report.warnings.end()) report.warnings.push_back(warning);
      }
      report.programs.push_back(std::move(job->report()));
    }
    return report;
  }

  const std::filesystem::path& output_;
  const CompileOptions& options_;
  const std::vector<const Target*>& targets_;
  std::vector<std::unique_ptr<CompileOptions>> own_options_;  // Jobs refer to them.
  std::vector<std::unique_ptr<CompileJob>> jobs_;
  std::vector<FinishedProgram> finished_;
};

}  // namespace

Result<CompileReport> compile_several(const std::filesystem::path& checkpoint, const std::filesystem::path& output,
                                      const CompileOptions& options, const std::vector<const Target*>& targets) {
  return SeveralTargets(output, options, targets).run(checkpoint);
}

}  // namespace tandem

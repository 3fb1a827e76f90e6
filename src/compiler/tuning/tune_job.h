// Tuning as a step of a compile: with the compile's samples, its work folder, and its report.
#pragma once

#include "base/thread_pool.h"
#include "compiler/compile_job.h"
#include "compiler/work_folder.h"

namespace tandem {

// Whether CompileOptions::tune asks for anything that this recipe and model have.
bool tunes_weights(const CompileOptions& options, const Recipe& recipe, const ModelPlan& plan);

// Refuses a budget of bits where there is nothing to choose.
Status check_bits(const CompileOptions& options, const Recipe& recipe);

// Gives the layers' weights their formats within CompileOptions::bits, if that is given: the job's recipe says which.
// `whole_blocks`: LPBQ's blocks must divide a row.
Status resolve_bits(CompileJob& job, WorkFolder& work, bool whole_blocks, ThreadPool& pool);

// Tunes the weights of the job's recipe, layer by layer; from here on the job's quantized rows are the tuned ones. What
// an earlier run has finished is taken from the work folder.
Status tune_job_weights(CompileJob& job, WorkFolder& work, ThreadPool& pool);

// The options that the tuned weights depend on, but for the calibration's.
std::string tuning_key(const CompileOptions& options);
// How many calibration tokens the steps of this compile need, if it is not the user who says it; 0: the usual.
int64_t calibration_tokens(const CompileJob& job);
// Whether a compile for a CPU reads calibration data at all.
bool reads_calibration_data(const CompileJob& job);

// The tuned weights in a work folder whose layers are all finished: for the workers of a compile.
Result<TunedWeights> open_tuned_weights(const std::filesystem::path& folder, int64_t layers);

}  // namespace tandem

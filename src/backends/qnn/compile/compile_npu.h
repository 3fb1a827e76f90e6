// Compiles for a Snapdragon's NPU: calibration, shards in processes of their own, one file.
#pragma once

#include "backends/qnn/compile/npu_options.h"
#include "compiler/compile_job.h"

namespace tandem {

Status compile_for_npu(CompileJob& job, const NpuOptions& options);

}  // namespace tandem

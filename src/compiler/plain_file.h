// Files of back ends that run the methods as the passes leave them, with weights in the file's own layout: the layers
// with int16 activations, the methods' graphs, the segments.
#pragma once

#include <vector>

#include "base/thread_pool.h"
#include "compiler/compile_job.h"
#include "ir/graph.h"

namespace tandem {

// A graph per method, after all passes. Nothing of the recipe may be open.
Result<std::vector<ir::Graph>> build_methods(CompileJob& job, ThreadPool& pool);

// Writes the job's file; what an earlier run has finished is reused.
Status compile_plain_file(CompileJob& job, ThreadPool& pool);

}  // namespace tandem

// Files of back ends that run the methods as the passes leave them, with weights in the file's own layout: the layers
// with int16 activations, the methods' graphs, the segments.
#pragma once

#include <vector>

#include "base/thread_pool.h"
#include "compiler/compile_job.h"
#include "ir/graph.h"

namespace tandem {

// Decides which layers get int16 activations, where the recipe leaves it open.
Status resolve_activations(CompileJob& job, ThreadPool& pool);
// A graph per method, after all passes.
Result<std::vector<ir::Graph>> build_methods(CompileJob& job, ThreadPool& pool);
// Writes the file of these methods; an earlier run's finished segments are reused.
Status write_plain_file(CompileJob& job, std::vector<ir::Graph> methods, ThreadPool& pool);

}  // namespace tandem

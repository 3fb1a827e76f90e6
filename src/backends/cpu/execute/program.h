// The CPU back end's run time: an artifact's methods, planned and bound to the mapped weights.
#pragma once

#include <memory>

#include "artifact/reader.h"
#include "backends/interface/program.h"
#include "base/thread_pool.h"
#include "tandem/probe.h"
#include "tandem/status.h"

namespace tandem::cpu {

// The artifact and the pool must outlive the program. Nothing is copied or repacked: kernels read the mapped file.
Result<std::unique_ptr<Program>> load_program(const Artifact& artifact, ThreadPool& pool);

// The answer to Backend::probe(); null: without a file.
Result<BackendProbe> probe_program(const Artifact* artifact);

}  // namespace tandem::cpu

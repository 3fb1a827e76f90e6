// Whether this machine can run an NPU's file: the checks of loading (preflight.h), up to the point where binaries would
// be passed to the library.
#pragma once

#include "artifact/reader.h"
#include "backends/qnn/execute/platform.h"
#include "backends/qnn/execute/program.h"
#include "tandem/probe.h"
#include "tandem/status.h"

namespace tandem::qnn {

// The answer to Backend::probe(); null: without a file. The log's warnings are part of it.
Result<BackendProbe> probe_npu(const Artifact* artifact, const QnnOptions& options,
                               const Platform& platform = Platform::here());

}  // namespace tandem::qnn

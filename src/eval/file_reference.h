// The reference interpreter on a compiled file's own graphs: what its back end should compute, to the last rounding.
#pragma once

#include <filesystem>
#include <memory>
#include <string>

#include "artifact/reader.h"
#include "backends/interface/program.h"
#include "base/thread_pool.h"
#include "checkpoint/checkpoint.h"

namespace tandem {

struct FileReferenceOptions {
  // What the file was compiled from. Files for an NPU need it: their weights are inside of the vendor's binaries.
  std::filesystem::path checkpoint = {};
  std::string config_name = "config.json";
};

// The artifact and the pool must outlive the program. A vendor's library is not looked at.
Result<std::unique_ptr<Program>> make_file_reference(const Artifact& artifact, ThreadPool& pool,
                                                     const FileReferenceOptions& options);

// Whether a file was compiled from this checkpoint; the error says so if not. Files that do not know are let through.
Status check_compiled_from(const ArtifactHeader& header, const Checkpoint& checkpoint);

}  // namespace tandem

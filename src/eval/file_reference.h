// The reference interpreter on a compiled file's own graphs: what its back end should compute, down to the last
// rounding.
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
  // The checkpoint that the file was compiled from. NPU files need it: their weights are inside the vendor's binaries.
  std::filesystem::path checkpoint = {};
  std::string config_name = "config.json";
};

// The artifact and the pool must outlive the program. No vendor library is loaded.
Result<std::unique_ptr<Program>> make_file_reference(const Artifact& artifact, ThreadPool& pool,
                                                     const FileReferenceOptions& options);

// Whether a file was compiled from this checkpoint; if not, the error says so. Files without that record pass.
Status check_compiled_from(const ArtifactHeader& header, const Checkpoint& checkpoint);

}  // namespace tandem

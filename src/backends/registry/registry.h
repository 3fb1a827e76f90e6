// The back ends of this build, in the order of the CMake option TANDEM_BACKENDS. The list itself is generated
// (backends/backends.cmake).
#pragma once

#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "artifact/reader.h"
#include "backends/interface/backend.h"
#include "base/thread_pool.h"

namespace tandem {

std::span<const Backend* const> backends();
// All back ends in the sources, whether or not this build has them.
std::span<const std::string_view> backends_in_sources();

// Null if this build does not have it.
const Backend* find_backend(std::string_view name);
// The one that a file was compiled for. The error says what this build has and how to get the missing one.
Result<const Backend*> backend_of(const ArtifactHeader& header);

// The options of all back ends, each name once.
std::vector<OptionSpec> all_backend_options();
// Refuses options that no back end knows.
Status check_option_names(const BackendOptions& options);

// Loads a file's methods on its back end. Options of other back ends are ignored; those that no back end knows are
// refused.
Result<std::unique_ptr<Program>> load_methods(const Artifact& artifact, ThreadPool& pool, const BackendOptions& options,
                                              const Log& log);

}  // namespace tandem

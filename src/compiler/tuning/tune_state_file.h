// The state of a stopped tuning (tune_weights.h) as a file.
#pragma once

#include <filesystem>

#include "compiler/tuning/tune_weights.h"

namespace tandem {

Status write_tune_state(const std::filesystem::path& path, const TuneState& state);
Result<TuneState> read_tune_state(const std::filesystem::path& path);

}  // namespace tandem

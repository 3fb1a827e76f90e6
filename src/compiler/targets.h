// The targets table: what can be compiled for, and what each target can do. Every back end has its rows
// (compiler/backend_compiler.h); docs/targets.md explains the columns.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/dtype.h"
#include "numerics/weight_matrix.h"
#include "tandem/backend_options.h"
#include "tandem/status.h"

namespace tandem {

struct Target {
  std::string_view name;
  std::string_view backend;
  std::string_view description;
  std::vector<WeightFormat> weight_formats;
  std::vector<DType> kv_dtypes;
};

// The targets of all back ends in this build, in their order.
std::span<const Target> targets();
// The first of them, or the one that a back end's options imply.
std::string_view default_target(const BackendOptions& options = {});
// An unknown name is an error that lists the known ones.
Result<const Target*> find_target(std::string_view name);
// Of names separated by commas; each may be there once.
Result<std::vector<const Target*>> find_targets(std::string_view names);
// The name of the target whose chip has this number from its vendor; otherwise "SoC" and the number.
std::string device_name(uint32_t soc_model);

}  // namespace tandem

// The targets table: what a compile can be for, and what each target can do. docs/targets.md explains the columns.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "base/dtype.h"
#include "ir/weight_matrix.h"
#include "tandem/status.h"

namespace tandem {

struct Target {
  std::string_view name;
  std::string_view backend;
  std::string_view description;
  std::vector<WeightFormat> weight_formats;
  std::vector<DType> kv_dtypes;
  bool updates_cache_in_place = false;
};

std::span<const Target> targets();
// An unknown name is an error that lists the known ones.
Result<const Target*> find_target(std::string_view name);

}  // namespace tandem

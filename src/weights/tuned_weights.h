// Quantized matrices that were chosen ahead of packing (compiler/tuning), in files of a compile's work folder: one for
// each layer.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/mapped_file.h"
#include "numerics/weight_matrix.h"
#include "tandem/status.h"

namespace tandem {

// Replaces the file.
Status write_tuned_file(const std::filesystem::path& path,
                        const std::vector<std::pair<std::string, WeightMatrix>>& matrices);

class TunedWeights {
 public:
  // Adds the matrices of a file that write_tuned_file() wrote.
  Status add_file(const std::filesystem::path& path);

  bool empty() const { return entries_.empty(); }
  bool has(std::string_view name) const { return entries_.contains(name); }
  // Rows [begin, begin + count) of a matrix that is there. The error names it if it has another format than the caller
  // wants.
  Result<WeightMatrix> rows(std::string_view name, int64_t begin, int64_t count, WeightFormat format, int block) const;

 private:
  struct Entry {
    size_t file = 0;
    WeightFormat format = WeightFormat::kLpbq4;
    int block = 0;
    int64_t rows = 0;
    int64_t cols = 0;
    uint64_t offset = 0;  // Of the scales; multipliers and quantized values follow.

    int64_t blocks() const { return block == 0 ? 0 : (cols + block - 1) / block; }
    uint64_t bytes() const {
      return static_cast<uint64_t>(rows) * (sizeof(float) + static_cast<uint64_t>(blocks() + cols));
    }
  };
  std::vector<MappedFile> files_;
  std::map<std::string, Entry, std::less<>> entries_;
};

}  // namespace tandem

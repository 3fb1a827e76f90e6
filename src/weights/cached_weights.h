// A cache for weights that are expensive to compute.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "weights/weight_provider.h"

namespace tandem {

struct WeightShape {
  std::string name;
  int64_t rows = 0;
  int64_t cols = 0;
};

// Caches another provider's rows as floats, in blocks, from their first use on. Searching for the scales of a quantized
// weight costs far more than multiplying with it, and decoding reads every weight for every token. What exceeds the
// limit is requested anew each time.
class CachedWeights final : public WeightProvider {
 public:
  static constexpr uint64_t kDefaultLimit = uint64_t{1} << 30;

  // The source must outlive it.
  CachedWeights(const WeightProvider& source, std::span<const WeightShape> shapes, uint64_t limit = kDefaultLimit);

  Status read_rows(std::string_view name, int64_t row_begin, int64_t rows, float* out) const override;
  Result<std::vector<float>> read_vector(std::string_view name) const override { return source_.read_vector(name); }

  uint64_t bytes_kept() const { return limit_ - left_.load(); }

 private:
  struct Block {
    std::once_flag once;
    std::vector<float> values;  // Empty: not cached.
    Status status;
  };
  struct Entry {
    int64_t rows = 0;
    int64_t cols = 0;
    std::unique_ptr<Block[]> blocks;
  };

  // Fills the block, if the limit allows.
  void fill(std::string_view name, const Entry& entry, int64_t block) const;

  const WeightProvider& source_;
  uint64_t limit_;
  mutable std::atomic<uint64_t> left_;
  std::map<std::string, Entry, std::less<>> entries_;
};

}  // namespace tandem

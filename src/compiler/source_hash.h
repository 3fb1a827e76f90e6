// A checksum of the inputs of a part of the file, so that finished work is only reused for the same bytes. Sizes and
// times of files do not suffice: a copy can have the times of the file it replaced.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "tandem/status.h"
#include "weights/source_weights.h"

namespace tandem {

class SourceHash {
 public:
  // The checkpoint's bytes of a weight or a vector, by its canonical name.
  Status add_weight(const SourceWeights& weights, std::string_view name);
  void add(std::span<const uint8_t> bytes);
  void add(uint64_t hash) { hashes_.push_back(hash); }
  uint64_t value() const;

 private:
  std::vector<uint64_t> hashes_;
};

}  // namespace tandem

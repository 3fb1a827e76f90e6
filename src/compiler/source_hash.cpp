#include "compiler/source_hash.h"

#include "artifact/reader.h"

namespace tandem {
void SourceHash::add(std::span<const uint8_t> bytes) { hashes_.push_back(hash_bytes(bytes)); }

Status SourceHash::add_weight(const SourceWeights& weights, std::string_view name) {
  add({reinterpret_cast<const uint8_t*>(name.data()), name.size()});
  return weights.visit_source(name, [&](std::span<const uint8_t> bytes) { add(bytes); });
}

uint64_t SourceHash::value() const {
  return hash_bytes({reinterpret_cast<const uint8_t*>(hashes_.data()), hashes_.size() * sizeof(uint64_t)});
}

}  // namespace tandem

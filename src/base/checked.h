// Arithmetic on sizes that come from files: overflow is an answer, not undefined behaviour.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

namespace tandem {

inline std::optional<uint64_t> checked_mul(uint64_t a, uint64_t b) {
  uint64_t product;
  if (__builtin_mul_overflow(a, b, &product)) return std::nullopt;
  return product;
}

inline std::optional<uint64_t> checked_add(uint64_t a, uint64_t b) {
  uint64_t sum;
  if (__builtin_add_overflow(a, b, &sum)) return std::nullopt;
  return sum;
}

// The product of all dimensions, or nothing if one is negative or the product does not fit.
inline std::optional<uint64_t> element_count(std::span<const int64_t> shape) {
  uint64_t count = 1;
  for (const int64_t dim : shape) {
    if (dim < 0) return std::nullopt;
    const auto next = checked_mul(count, static_cast<uint64_t>(dim));
    if (!next) return std::nullopt;
    count = *next;
  }
  return count;
}

// True if [offset, offset + size) lies inside [0, total), without overflow.
inline bool range_inside(uint64_t offset, uint64_t size, uint64_t total) {
  return offset <= total && size <= total - offset;
}

inline constexpr uint64_t round_up(uint64_t value, uint64_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

}  // namespace tandem

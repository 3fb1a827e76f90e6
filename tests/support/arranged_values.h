// Codes in the order that a table's linear() reads them in.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "backends/cpu/kernels/kernels.h"

namespace tandem::test {

// Nothing where the table wants them as they are, or where there are none (float formats, whose columns are not
// padded).
inline std::vector<uint8_t> arranged_values(const cpu::KernelTable& kernels, const int8_t* codes, int64_t stride,
                                            int64_t rows, int64_t cols) {
  std::vector<uint8_t> out;
  const cpu::QuantizedLayout* order = kernels.quantized_layout(rows);
  if (order == nullptr || cols % kColAlign != 0) return out;
  for (int64_t first = 0; first < rows; first += order->group) {
    // Each group in memory of its own, so that writing beyond it is found.
    std::vector<uint8_t> group(static_cast<size_t>(order->group_bytes(cols)));
    order->arrange(codes + first * stride, stride, std::min(order->group, rows - first), cols, group.data());
    out.insert(out.end(), group.begin(), group.end());
  }
  return out;
}

}  // namespace tandem::test

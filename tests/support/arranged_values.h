// Quantized values in the order in which a table's linear() reads them.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "backends/cpu/kernels/kernels.h"

namespace tandem::test {

// Nothing if the table reads them unchanged, or if there are none (float formats, whose columns are not padded).
inline std::vector<uint8_t> arranged_values(const cpu::KernelTable& kernels, const int8_t* quantized, int64_t stride,
                                            int64_t rows, int64_t cols) {
  std::vector<uint8_t> out;
  const cpu::QuantizedLayout* layout = kernels.quantized_layout(rows);
  if (layout == nullptr || cols % kColAlign != 0) return out;
  for (int64_t first = 0; first < rows; first += layout->group) {
    // Each group in its own memory, so that a write beyond it is detected.
    std::vector<uint8_t> group(static_cast<size_t>(layout->group_bytes(cols)));
    layout->arrange(quantized + first * stride, stride, std::min(layout->group, rows - first), cols, group.data());
    out.insert(out.end(), group.begin(), group.end());
  }
  return out;
}

}  // namespace tandem::test

// Exponentials of attention scores, vectorized.
#pragma once

#include <cstdint>

namespace tandem {

// row[i] = exp(row[i] - highest), exactly zero for -infinity; returns their sum. `highest` is the largest of them and
// finite. Within 2 units in the last place of exp().
double exp_row(float* row, int64_t count, float highest);

}  // namespace tandem

// Triangular factors of symmetric positive definite matrices, and solving with them; blocked, on all cores, with the
// same bits for any number of threads.
#pragma once

#include <cstdint>

#include "linalg/matrix.h"
#include "linalg/multiply.h"

namespace tandem {

// Factors h = R Rᵀ with R upper triangular, in place: a Cholesky decomposition that begins with the last row. Reads
// the upper triangle of h with the diagonal; what is below is neither read nor kept. Returns the row of the first pivot
// that is not positive (h is not positive definite, or has numbers that are not finite), or -1 if all are; h is
// unspecified after a failure.
int64_t factor_upper(const Matrix& h, ThreadPool& pool);

// g <- g (R Rᵀ)⁻¹ in each row of g[rows, n], for R of factor_upper(): what is below R's diagonal is not read.
void solve_upper(const ConstMatrix& r, const Matrix& g, ThreadPool& pool);

}  // namespace tandem

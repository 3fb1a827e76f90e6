#include "linalg/factor.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "linalg/tile_kernels.h"

namespace tandem {
namespace {

// Columns that are factored or solved at a time; the rest is products.
constexpr int64_t kColsPerStep = 128;

// The diagonal block: sums in double, because it is small and everything else builds on it. Returns as factor_upper().
int64_t factor_diagonal(const Matrix& h) {
  for (int64_t j = h.cols - 1; j >= 0; --j) {
    float* const row_j = h.row(j);
    double pivot = row_j[j];
    for (int64_t l = j + 1; l < h.cols; ++l) pivot -= double{row_j[l]} * double{row_j[l]};
    if (!(pivot > 0.0) || !std::isfinite(pivot)) return j;
    const double diagonal = std::sqrt(pivot);
    row_j[j] = static_cast<float>(diagonal);
    for (int64_t i = 0; i < j; ++i) {
      float* const row_i = h.row(i);
      double sum = row_i[j];
      for (int64_t l = j + 1; l < h.cols; ++l) sum -= double{row_i[l]} * double{row_j[l]};
      row_i[j] = static_cast<float>(sum / diagonal);
    }
  }
  return -1;
}

// A triangular system as solve_lanes() takes it: unknowns in the order in which they are solved.
struct Steps {
  std::vector<float> factor;
  int64_t size = 0;
  bool is_backward = false;
  int64_t column(int64_t step) const { return is_backward ? size - 1 - step : step; }
};

// x Rᵀ = g is solved from the last column to the first, x R = g from the first.
Steps steps_of(const ConstMatrix& r, bool is_transposed) {
  Steps steps{std::vector<float>(static_cast<size_t>(r.rows * r.rows)), r.rows, is_transposed};
  for (int64_t s = 0; s < r.rows; ++s) {
    for (int64_t p = 0; p <= s; ++p) {
      const int64_t from = steps.column(p), to = steps.column(s);
      steps.factor[static_cast<size_t>(s * r.rows + p)] =
          is_transposed ? r.data[to * r.stride + from] : r.data[from * r.stride + to];
    }
  }
  return steps;
}

void solve_rows(const Steps& steps, const Matrix& g, ThreadPool& pool) {
  constexpr int64_t kLanes = linalg::kSolveLanes;
  pool.run((g.rows + kLanes - 1) / kLanes, [&](int64_t task, int) {
    const int64_t begin = task * kLanes, count = std::min(kLanes, g.rows - begin);
    alignas(64) float lanes[kColsPerStep * kLanes];
    std::fill_n(lanes, steps.size * kLanes, 0.0f);
    for (int64_t i = 0; i < count; ++i) {
      for (int64_t s = 0; s < steps.size; ++s) lanes[s * kLanes + i] = g.row(begin + i)[steps.column(s)];
    }
    linalg::tile_kernels().solve_lanes(steps.factor.data(), steps.size, lanes);
    for (int64_t i = 0; i < count; ++i) {
      for (int64_t s = 0; s < steps.size; ++s) g.row(begin + i)[steps.column(s)] = lanes[s * kLanes + i];
    }
  });
}

}  // namespace

int64_t factor_upper(const Matrix& h, ThreadPool& pool) {
  for (int64_t end = h.rows; end > 0;) {
    const int64_t begin = std::max<int64_t>(end - kColsPerStep, 0), size = end - begin;
    const Matrix diagonal = h.block(begin, begin, size, size);
    if (const int64_t failed = factor_diagonal(diagonal); failed >= 0) return begin + failed;
    const Matrix above = h.block(0, begin, begin, size);
    solve_rows(steps_of(diagonal, true), above, pool);
    multiply_nt_upper(above, above, h.block(0, 0, begin, begin), pool, Store::kSubtract);
    end = begin;
  }
  return -1;
}

void solve_upper(const ConstMatrix& r, const Matrix& g, ThreadPool& pool) {
  const int64_t n = r.rows;
  for (int64_t end = n; end > 0;) {
    const int64_t begin = std::max<int64_t>(end - kColsPerStep, 0), size = end - begin;
    const Matrix solved = g.block(0, begin, g.rows, size);
    solve_rows(steps_of(r.block(begin, begin, size, size), true), solved, pool);
    multiply_nt(solved, r.block(0, begin, begin, size), g.block(0, 0, g.rows, begin), pool, Store::kSubtract);
    end = begin;
  }
  for (int64_t begin = 0; begin < n; begin += kColsPerStep) {
    const int64_t size = std::min(kColsPerStep, n - begin), end = begin + size;
    const Matrix solved = g.block(0, begin, g.rows, size);
    solve_rows(steps_of(r.block(begin, begin, size, size), false), solved, pool);
    multiply_nn(solved, r.block(begin, end, size, n - end), g.block(0, end, g.rows, n - end), pool, Store::kSubtract);
  }
}

}  // namespace tandem

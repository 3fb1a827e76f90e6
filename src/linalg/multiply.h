// Products of dense float matrices on all cores.
//
// Each element of a result is summed in an order that depends on the number of its terms alone: fused multiply-adds one
// after the other within a block of 256 terms, then the blocks. So the bits are the same for any number of threads,
// whether a matrix is multiplied at once or in parts, and on every CPU with fused multiply-adds.
//
// Results must not overlap their operands.
#pragma once

#include <cstddef>
#include <memory>

#include "base/thread_pool.h"
#include "linalg/matrix.h"

namespace tandem {

enum class Store { kReplace, kAdd, kSubtract };  // c = ab, c += ab, c -= ab

// Memory that products on one thread work in. Grows as needed.
class MultiplyScratch {
 public:
  float* floats(size_t count);  // Aligned to 64 bytes; forgets earlier contents.

 private:
  struct Free {
    void operator()(float* memory) const;
  };
  std::unique_ptr<float[], Free> memory_;
  size_t size_ = 0;
};

// c[m, n] = a[m, k] bᵀ, with b[n, k]: a linear layer, whose rows are outputs.
void multiply_nt(const ConstMatrix& a, const ConstMatrix& b, const Matrix& c, ThreadPool& pool,
                 Store store = Store::kReplace);
// The same on the calling thread, for callers that share the work themselves.
void multiply_nt(const ConstMatrix& a, const ConstMatrix& b, const Matrix& c, MultiplyScratch& scratch,
                 Store store = Store::kReplace);

// c[m, n] = a[m, k] b[k, n]
void multiply_nn(const ConstMatrix& a, const ConstMatrix& b, const Matrix& c, ThreadPool& pool,
                 Store store = Store::kReplace);
void multiply_nn(const ConstMatrix& a, const ConstMatrix& b, const Matrix& c, MultiplyScratch& scratch,
                 Store store = Store::kReplace);

// c[m, n] = aᵀ b, with a[k, m] and b[k, n]: cross moments, where rows are tokens.
void multiply_tn(const ConstMatrix& a, const ConstMatrix& b, const Matrix& c, ThreadPool& pool,
                 Store store = Store::kReplace);

// The upper triangle of c (with the diagonal) as multiply_nt(a, b, c) would change it. What is below is unspecified.
void multiply_nt_upper(const ConstMatrix& a, const ConstMatrix& b, const Matrix& c, ThreadPool& pool, Store store);

// h[k, k] += xᵀ x for x[t, k]: the upper triangle with the diagonal; what is below is unspecified until
// mirror_upper().
void add_gram(const ConstMatrix& x, const Matrix& h, ThreadPool& pool);

// Copies the upper triangle of a square matrix to the lower one.
void mirror_upper(const Matrix& h, ThreadPool& pool);

}  // namespace tandem

// Hadamard matrices, scaled to be orthogonal: rotations that spread a large entry of a vector over all of it, computed
// with additions.
#pragma once

#include <cstdint>
#include <vector>

namespace tandem {

// An orthogonal matrix R of n by n. For n = 2^m it is Sylvester's matrix; for n = k * 2^m with a matrix of Paley's of
// order k (12, 20, 28, 36, 60, ...) the Kronecker product of the two; else blocks of the largest power of two that
// divides n. With signs, row i is multiplied by a sign that a fixed generator draws: without them a vector of equal
// entries would become one large entry.
class Hadamard {
 public:
  Hadamard(int64_t n, bool random_signs);

  int64_t size() const { return n_; }
  // False: blocks of a power of two.
  bool is_whole() const { return blocks_ == 1; }

  // x R for `count` row vectors of n entries each, one after the other. In place.
  void rotate_rows(float* x, int64_t count) const;
  // R^T X for a matrix of n rows and `width` columns: each column is rotated as a row is above. In place.
  void rotate_columns(float* x, int64_t width) const;

 private:
  // The product with one block's matrix, for vectors of `width` interleaved entries.
  void transform(float* x, int64_t width, std::vector<float>& scratch) const;
  void rotate(float* x, int64_t width, std::vector<float>& scratch) const;

  int64_t n_;
  int64_t blocks_ = 1;
  int64_t order_ = 1;         // Of the Paley matrix; 1: none.
  int64_t power_ = 1;         // Of the Sylvester matrix.
  std::vector<float> paley_;  // order_ * order_ of +-1.
  std::vector<float> signs_;  // Empty: none.
  float scale_ = 1.0f;
};

}  // namespace tandem

#include "numerics/hadamard.h"

#include <algorithm>
#include <bit>
#include <cmath>

namespace tandem {
namespace {

// Paley matrices of a higher order are not looked for: the dense product would cost more than it is worth.
constexpr int64_t kLargestPaley = 512;
// Columns that are rotated at a time: few enough for a core's cache, enough for whole vectors.
constexpr int64_t kStrip = 64;

bool is_prime(int64_t q) {
  if (q < 2) return false;
  for (int64_t d = 2; d * d <= q; ++d) {
    if (q % d == 0) return false;
  }
  return true;
}

// chi(a): 0 for 0, 1 for squares modulo q, -1 for the others.
std::vector<float> quadratic_character(int64_t q) {
  std::vector<float> chi(static_cast<size_t>(q), -1.0f);
  chi[0] = 0.0f;
  for (int64_t i = 1; i < q; ++i) chi[static_cast<size_t>(i * i % q)] = 1.0f;
  return chi;
}

// Paley's conference matrix of order q + 1: zeros on the diagonal, +-1 elsewhere, C C^T = q I. Symmetric for
// q = 1 mod 4, skew for q = 3 mod 4.
std::vector<float> conference_matrix(int64_t q) {
  const std::vector<float> chi = quadratic_character(q);
  const auto n = static_cast<size_t>(q) + 1;
  std::vector<float> c(n * n, 0.0f);
  for (size_t i = 1; i < n; ++i) {
    c[i] = 1.0f;
    c[i * n] = q % 4 == 1 ? 1.0f : -1.0f;
    for (size_t j = 1; j < n; ++j) c[i * n + j] = chi[(i + n - 1 - j) % (n - 1)];
  }
  return c;
}

// Paley's constructions for primes (R. E. A. C. Paley, "On orthogonal matrices", 1933): I + C of order q + 1 for
// q = 3 mod 4, and of order 2 (q + 1) for q = 1 mod 4. Empty: neither applies.
std::vector<float> paley_matrix(int64_t order) {
  const auto n = static_cast<size_t>(order);
  if (order % 4 == 0 && is_prime(order - 1)) {
    std::vector<float> h = conference_matrix(order - 1);
    for (size_t i = 0; i < n; ++i) h[i * n + i] = 1.0f;
    return h;
  }
  const int64_t q = order / 2 - 1;
  if (order % 4 != 0 || q % 4 != 1 || !is_prime(q)) return {};
  const std::vector<float> c = conference_matrix(q);
  const size_t half = n / 2;
  // Each 0 becomes [1 -1; -1 -1], each +-1 becomes +-[1 1; 1 -1].
  std::vector<float> h(n * n);
  for (size_t i = 0; i < half; ++i) {
    for (size_t j = 0; j < half; ++j) {
      const float entry = c[i * half + j];
      float* at = &h[2 * i * n + 2 * j];
      at[0] = entry == 0.0f ? 1.0f : entry;
      at[1] = at[n] = entry == 0.0f ? -1.0f : entry;
      at[n + 1] = entry == 0.0f ? -1.0f : -entry;
    }
  }
  return h;
}

// splitmix64: the same signs on every machine.
uint64_t next_random(uint64_t& state) {
  uint64_t z = state += 0x9e3779b97f4a7c15u;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

}  // namespace

Hadamard::Hadamard(int64_t n, bool random_signs) : n_(n) {
  power_ = int64_t{1} << std::countr_zero(static_cast<uint64_t>(n));
  const int64_t odd = n / power_;
  if (odd > 1) {
    for (int64_t order = 4 * odd; order <= kLargestPaley && n % order == 0 && paley_.empty(); order *= 2) {
      paley_ = paley_matrix(order);
      if (!paley_.empty()) order_ = order;
    }
    if (paley_.empty()) {
      blocks_ = odd;
    } else {
      power_ = n / order_;
    }
  }
  scale_ = static_cast<float>(1.0 / std::sqrt(static_cast<double>(order_ * power_)));
  if (!random_signs) return;
  uint64_t state = static_cast<uint64_t>(n);
  for (int64_t i = 0; i < n; ++i) signs_.push_back(next_random(state) >> 63 != 0 ? -1.0f : 1.0f);
}

void Hadamard::transform(float* x, int64_t width, std::vector<float>& scratch) const {
  const int64_t group = power_ * width;
  for (int64_t half = 1; half < power_; half *= 2) {
    const int64_t step = half * width;
    for (float* a = x; a < x + order_ * group; a += 2 * step) {
      float* b = a + step;
      for (int64_t i = 0; i < step; ++i) {
        const float sum = a[i] + b[i], difference = a[i] - b[i];
        a[i] = sum;
        b[i] = difference;
      }
    }
  }
  if (order_ > 1) {
    scratch.assign(x, x + order_ * group);
    for (int64_t to = 0; to < order_; ++to) {
      float* out = x + to * group;
      std::fill_n(out, group, 0.0f);
      for (int64_t from = 0; from < order_; ++from) {
        const float sign = paley_[static_cast<size_t>(from * order_ + to)];
        const float* in = scratch.data() + from * group;
        for (int64_t i = 0; i < group; ++i) out[i] += sign * in[i];
      }
    }
  }
  for (int64_t i = 0; i < order_ * group; ++i) x[i] *= scale_;
}

void Hadamard::rotate(float* x, int64_t width, std::vector<float>& scratch) const {
  for (int64_t i = 0; i < n_ && !signs_.empty(); ++i) {
    for (int64_t w = 0; w < width; ++w) x[i * width + w] *= signs_[static_cast<size_t>(i)];
  }
  const int64_t block = order_ * power_ * width;
  for (int64_t b = 0; b < blocks_; ++b) transform(x + b * block, width, scratch);
}

void Hadamard::rotate_rows(float* x, int64_t count) const {
  std::vector<float> scratch;
  for (int64_t i = 0; i < count; ++i) rotate(x + i * n_, 1, scratch);
}

void Hadamard::rotate_columns(float* x, int64_t width) const {
  std::vector<float> strip, scratch;
  for (int64_t begin = 0; begin < width; begin += kStrip) {
    const int64_t count = std::min(kStrip, width - begin);
    strip.resize(static_cast<size_t>(n_ * count));
    for (int64_t i = 0; i < n_; ++i) std::copy_n(x + i * width + begin, count, strip.data() + i * count);
    rotate(strip.data(), count, scratch);
    for (int64_t i = 0; i < n_; ++i) std::copy_n(strip.data() + i * count, count, x + i * width + begin);
  }
}

}  // namespace tandem

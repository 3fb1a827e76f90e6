// How fast the products and factors of src/linalg are, next to what a core reaches with fused multiply-adds on
// registers alone.
//
//   bench_linalg [threads]
//
// A multiply-add counts as two operations. Each line is the best of several runs: machines are shared.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <vector>

#include "linalg/factor.h"
#include "linalg/multiply.h"
#include "linalg/tile_kernels.h"

namespace {

using tandem::ConstMatrix;
using tandem::Matrix;

template <typename Body>
double best_seconds(Body&& body) {
  double best = 1e9;
  for (int run = 0; run < 7; ++run) {
    const auto begin = std::chrono::steady_clock::now();
    body();
    best = std::min(best, std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
  }
  return best;
}

std::vector<float> random_floats(int64_t count) {
  std::mt19937 random(1);
  std::uniform_real_distribution<float> uniform(-1.0f, 1.0f);
  std::vector<float> values(static_cast<size_t>(count));
  for (float& value : values) value = uniform(random);
  return values;
}

// A tile whose operands stay in the first-level cache: nothing but multiply-adds.
double peak_gflops(tandem::ThreadPool& pool) {
  const auto& tiles = tandem::linalg::tile_kernels();
  constexpr int64_t kTerms = 64, kRepeats = 20000;
  const double seconds = best_seconds([&] {
    pool.run(pool.size(), [&](int64_t, int) {
      const std::vector<float> a(static_cast<size_t>(tiles.tile_rows * kTerms)),
          b(static_cast<size_t>(tiles.tile_cols * kTerms + 16));
      std::vector<float> c(static_cast<size_t>(tiles.tile_rows * tiles.tile_cols + 16));
      const auto aligned = [](auto* data) { return data + (64 - reinterpret_cast<uintptr_t>(data) % 64) % 64 / 4; };
      for (int64_t i = 0; i < kRepeats; ++i) {
        tiles.multiply_tile(kTerms, a.data(), aligned(b.data()), aligned(c.data()), tiles.tile_cols, tiles.tile_rows,
                            tiles.tile_cols, tandem::linalg::TileStore::kReplace);
      }
    });
  });
  return 2e-9 * static_cast<double>(tiles.tile_rows * tiles.tile_cols * kTerms * kRepeats * pool.size()) / seconds;
}

void report(const char* name, int64_t m, int64_t n, int64_t k, double operations, double seconds, double peak) {
  const double gflops = 1e-9 * operations / seconds;
  std::printf("%-14s %5lld x %5lld x %5lld  %8.2f ms  %7.1f GFLOPS  %3.0f %% of peak\n", name,
              static_cast<long long>(m), static_cast<long long>(n), static_cast<long long>(k), 1e3 * seconds, gflops,
              100.0 * gflops / peak);
}

void products(int64_t m, int64_t n, int64_t k, tandem::ThreadPool& pool, double peak) {
  const std::vector<float> a = random_floats(m * k), b = random_floats(n * k);
  std::vector<float> c(static_cast<size_t>(m * n));
  const Matrix result(c.data(), m, n);
  const double operations = 2.0 * static_cast<double>(m * n * k);
  report("multiply_nt", m, n, k, operations,
         best_seconds([&] { multiply_nt(ConstMatrix(a.data(), m, k), ConstMatrix(b.data(), n, k), result, pool); }),
         peak);
  report("multiply_nn", m, n, k, operations,
         best_seconds([&] { multiply_nn(ConstMatrix(a.data(), m, k), ConstMatrix(b.data(), k, n), result, pool); }),
         peak);
  report("multiply_tn", m, n, k, operations,
         best_seconds([&] { multiply_tn(ConstMatrix(a.data(), k, m), ConstMatrix(b.data(), k, n), result, pool); }),
         peak);
}

void factors(int64_t n, int64_t tokens, tandem::ThreadPool& pool, double peak) {
  const std::vector<float> x = random_floats(tokens * n);
  std::vector<float> h(static_cast<size_t>(n * n)), r = h, g = random_floats(n * n);
  const Matrix gram(h.data(), n, n), factor(r.data(), n, n), rows(g.data(), n, n);
  const auto size = static_cast<double>(n);
  report("add_gram", n, n, tokens, size * size * static_cast<double>(tokens),
         best_seconds([&] { add_gram(ConstMatrix(x.data(), tokens, n), gram, pool); }), peak);
  for (int64_t i = 0; i < n; ++i) gram.row(i)[i] *= 1.1f;
  report("factor_upper", n, n, n, size * size * size / 3.0, best_seconds([&] {
           std::copy(h.begin(), h.end(), r.begin());
           if (factor_upper(factor, pool) >= 0) std::exit(1);
         }),
         peak);
  report("solve_upper", n, n, n, 2.0 * size * size * size, best_seconds([&] { solve_upper(factor, rows, pool); }),
         peak);
}

}  // namespace

int main(int argc, char** argv) {
  tandem::ThreadPool pool(argc > 1 ? std::atoi(argv[1]) : 1);
  const double peak = peak_gflops(pool);
  std::printf("%s, %d threads: %.1f GFLOPS on registers\n", tandem::linalg::tile_kernels().name, pool.size(), peak);
  products(1024, 1024, 1024, pool, peak);
  products(512, 3072, 1024, pool, peak);
  products(32, 3072, 1024, pool, peak);
  products(8, 3072, 1024, pool, peak);
  factors(1024, 4096, pool, peak);
  factors(3072, 4096, pool, peak);
  return 0;
}

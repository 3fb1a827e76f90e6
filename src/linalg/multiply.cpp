#include "linalg/multiply.h"

#include <algorithm>
#include <cstring>
#include <new>
#include <vector>

#include "linalg/tile_kernels.h"

namespace tandem {
namespace {

using linalg::TileKernels;
using linalg::TileStore;

// Terms that are summed in registers before c is touched. Part of what the bits depend on.
constexpr int64_t kTermsPerBlock = 256;
// Of c, per task: blocks of a and b of this size, 384 KB and 256 KB, stay in a second-level cache.
constexpr int64_t kRowsPerBlock = 384, kColsPerBlock = 256;
constexpr int64_t kAlignment = 64;

int64_t round_up(int64_t value, int64_t unit) { return (value + unit - 1) / unit * unit; }

// One operand as [lanes, k]: a's rows or b's columns.
struct Operand {
  const float* data = nullptr;
  int64_t lane_stride = 1;
  int64_t term_stride = 1;  // One of the two is 1.
};

struct Product {
  Operand a, b;
  int64_t terms = 0;
  Matrix c;
  Store store = Store::kReplace;
  bool upper_only = false;
};

struct Range {
  int64_t begin = 0, end = 0;
  int64_t size() const { return end - begin; }
};

// Panels of `width` lanes, each [terms, width].
void pack(const Operand& from, Range lanes, Range terms, int64_t width, const TileKernels& kernels, float* to) {
  for (int64_t lane = lanes.begin; lane < lanes.end; lane += width) {
    const int64_t count = std::min(width, lanes.end - lane);
    const float* const corner = from.data + lane * from.lane_stride + terms.begin * from.term_stride;
    if (from.term_stride == 1) {
      kernels.pack_transposed(corner, from.lane_stride, count, terms.size(), width, to);
    } else {
      for (int64_t p = 0; p < terms.size(); ++p) {
        std::memcpy(to + p * width, corner + p * from.term_stride, sizeof(float) * static_cast<size_t>(count));
        std::fill(to + p * width + count, to + (p + 1) * width, 0.0f);
      }
    }
    to += terms.size() * width;
  }
}

size_t scratch_floats(const Product& product, int64_t rows, int64_t cols, const TileKernels& kernels) {
  const int64_t terms = std::min(product.terms, kTermsPerBlock);
  return static_cast<size_t>(round_up(rows, kernels.tile_rows) * terms + kAlignment +
                             round_up(cols, kernels.tile_cols) * terms);
}

TileStore tile_store(Store store, bool is_first) {
  switch (store) {
    case Store::kReplace: return is_first ? TileStore::kReplace : TileStore::kAdd;
    case Store::kAdd: return TileStore::kAdd;
    case Store::kSubtract: return TileStore::kSubtract;
  }
  return TileStore::kAdd;
}

// One block of c, all terms.
void multiply_block(const Product& product, Range rows, Range cols, MultiplyScratch& scratch) {
  const TileKernels& kernels = linalg::tile_kernels();
  const int64_t tile_rows = kernels.tile_rows, tile_cols = kernels.tile_cols;
  float* const packed_a = scratch.floats(scratch_floats(product, rows.size(), cols.size(), kernels));
  const int64_t a_floats = round_up(rows.size(), tile_rows) * std::min(product.terms, kTermsPerBlock);
  float* const packed_b = packed_a + round_up(a_floats, kAlignment / static_cast<int64_t>(sizeof(float)));
  for (int64_t term = 0; term < product.terms; term += kTermsPerBlock) {
    const Range terms{term, std::min(term + kTermsPerBlock, product.terms)};
    pack(product.a, rows, terms, tile_rows, kernels, packed_a);
    pack(product.b, cols, terms, tile_cols, kernels, packed_b);
    const TileStore store = tile_store(product.store, term == 0);
    for (int64_t col = cols.begin; col < cols.end; col += tile_cols) {
      const int64_t col_count = std::min(tile_cols, cols.end - col);
      const float* const b = packed_b + (col - cols.begin) * terms.size();
      for (int64_t row = rows.begin; row < rows.end; row += tile_rows) {
        if (product.upper_only && row >= col + col_count) break;
        const float* const a = packed_a + (row - rows.begin) * terms.size();
        kernels.multiply_tile(terms.size(), a, b, product.c.row(row) + col, product.c.stride,
                              std::min(tile_rows, rows.end - row), col_count, store);
      }
    }
  }
}

// No terms: the sums are zero.
bool is_trivial(const Product& product) {
  if (product.terms > 0) return false;
  if (product.store != Store::kReplace) return true;
  for (int64_t i = 0; i < product.c.rows; ++i) std::fill_n(product.c.row(i), product.c.cols, 0.0f);
  return true;
}

// The size of equal blocks, multiples of `tile`, none larger than `most`.
int64_t block_size(int64_t total, int64_t most, int64_t tile) {
  const int64_t blocks = (total + most - 1) / most;
  return std::max(tile, round_up((total + blocks - 1) / std::max<int64_t>(blocks, 1), tile));
}

void multiply(const Product& product, MultiplyScratch& scratch) {
  if (is_trivial(product)) return;
  const TileKernels& kernels = linalg::tile_kernels();
  const int64_t rows = block_size(product.c.rows, kRowsPerBlock, kernels.tile_rows);
  const int64_t cols = block_size(product.c.cols, kColsPerBlock, kernels.tile_cols);
  for (int64_t col = 0; col < product.c.cols; col += cols) {
    for (int64_t row = 0; row < product.c.rows; row += rows) {
      multiply_block(product, {row, std::min(row + rows, product.c.rows)}, {col, std::min(col + cols, product.c.cols)},
                     scratch);
    }
  }
}

void multiply(const Product& product, ThreadPool& pool) {
  if (is_trivial(product)) return;
  const TileKernels& kernels = linalg::tile_kernels();
  const int64_t total_rows = product.c.rows, total_cols = product.c.cols;
  int64_t rows = block_size(total_rows, kRowsPerBlock, kernels.tile_rows);
  int64_t cols = block_size(total_cols, kColsPerBlock, kernels.tile_cols);
  const auto count = [](int64_t total, int64_t size) { return (total + size - 1) / size; };
  // Enough tasks to keep all threads busy to the end. Smaller ones pack more often.
  const int64_t wanted = pool.size() == 1 ? 1 : 4 * int64_t{pool.size()};
  while (count(total_rows, rows) * count(total_cols, cols) < wanted) {
    const bool is_wide = cols >= 2 * kernels.tile_cols, is_tall = rows >= 8 * kernels.tile_rows;
    if (is_tall && (rows >= cols || !is_wide)) {
      rows = round_up(rows / 2, kernels.tile_rows);
    } else if (is_wide) {
      cols = round_up(cols / 2, kernels.tile_cols);
    } else {
      break;
    }
  }
  const int64_t row_blocks = count(total_rows, rows);
  std::vector<MultiplyScratch> scratch(static_cast<size_t>(pool.size()));
  pool.run(row_blocks * count(total_cols, cols), [&](int64_t task, int thread) {
    const int64_t row = task % row_blocks * rows, col = task / row_blocks * cols;
    const Range of_rows{row, std::min(row + rows, total_rows)}, of_cols{col, std::min(col + cols, total_cols)};
    if (product.upper_only && of_rows.begin >= of_cols.end) return;
    multiply_block(product, of_rows, of_cols, scratch[static_cast<size_t>(thread)]);
  });
}

Product product_nt(const ConstMatrix& a, const ConstMatrix& b, const Matrix& c, Store store) {
  return {{a.data, a.stride, 1}, {b.data, b.stride, 1}, a.cols, c, store};
}
Product product_nn(const ConstMatrix& a, const ConstMatrix& b, const Matrix& c, Store store) {
  return {{a.data, a.stride, 1}, {b.data, 1, b.stride}, a.cols, c, store};
}
Product product_tn(const ConstMatrix& a, const ConstMatrix& b, const Matrix& c, Store store) {
  return {{a.data, 1, a.stride}, {b.data, 1, b.stride}, a.rows, c, store};
}

}  // namespace

float* MultiplyScratch::floats(size_t count) {
  if (count > size_) {
    memory_.reset();
    memory_.reset(static_cast<float*>(::operator new (count * sizeof(float), std::align_val_t{kAlignment})));
    size_ = count;
  }
  return memory_.get();
}

void MultiplyScratch::Free::operator()(float* memory) const {
  ::operator delete (memory, std::align_val_t{kAlignment});
}

void multiply_nt(const ConstMatrix& a, const ConstMatrix& b, const Matrix& c, ThreadPool& pool, Store store) {
  multiply(product_nt(a, b, c, store), pool);
}
void multiply_nt(const ConstMatrix& a, const ConstMatrix& b, const Matrix& c, MultiplyScratch& scratch, Store store) {
  multiply(product_nt(a, b, c, store), scratch);
}

void multiply_nn(const ConstMatrix& a, const ConstMatrix& b, const Matrix& c, ThreadPool& pool, Store store) {
  multiply(product_nn(a, b, c, store), pool);
}
void multiply_nn(const ConstMatrix& a, const ConstMatrix& b, const Matrix& c, MultiplyScratch& scratch, Store store) {
  multiply(product_nn(a, b, c, store), scratch);
}

void multiply_tn(const ConstMatrix& a, const ConstMatrix& b, const Matrix& c, ThreadPool& pool, Store store) {
  multiply(product_tn(a, b, c, store), pool);
}

void multiply_nt_upper(const ConstMatrix& a, const ConstMatrix& b, const Matrix& c, ThreadPool& pool, Store store) {
  Product product = product_nt(a, b, c, store);
  product.upper_only = true;
  multiply(product, pool);
}

void add_gram(const ConstMatrix& x, const Matrix& h, ThreadPool& pool) {
  Product product = product_tn(x, x, h, Store::kAdd);
  product.upper_only = true;
  multiply(product, pool);
}

void mirror_upper(const Matrix& h, ThreadPool& pool) {
  constexpr int64_t kBlock = 32;  // Rows and columns of a block share cache lines.
  const int64_t blocks = (h.rows + kBlock - 1) / kBlock;
  pool.run(blocks, [&](int64_t task, int) {
    const int64_t begin = task * kBlock, end = std::min(begin + kBlock, h.rows);
    for (int64_t first = 0; first < end; first += kBlock) {
      for (int64_t i = begin; i < end; ++i) {
        for (int64_t j = first; j < std::min(first + kBlock, i); ++j) h.row(i)[j] = h.row(j)[i];
      }
    }
  });
}

}  // namespace tandem

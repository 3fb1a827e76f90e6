// Products against plain loops in double, and the promises about their bits.
#include "linalg/multiply.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "linalg/tile_kernels.h"
#include "support/random_floats.h"

namespace tandem::multiply_test {

using test::random_floats;

enum class Form { kNt, kNn, kTn };

struct Shape {
  int64_t m, n, k;
};
// Multiples of tiles and not, single rows and columns, more terms than a block of sums.
constexpr Shape kShapes[] = {{1, 1, 1},     {12, 32, 256}, {13, 33, 257}, {5, 200, 7},   {200, 5, 300},
                             {97, 101, 53}, {1, 64, 513},  {64, 1, 40},   {23, 47, 600}, {190, 170, 31}};

// Strides are larger than rows, and what lies between them must stay as it is.
constexpr int64_t kGap = 3;
constexpr float kUntouched = 12345.0f;

struct Case {
  Form form;
  Shape shape;
  std::vector<float> a, b;
  ConstMatrix a_view, b_view;

  Case(Form which, Shape size)
      : form(which),
        shape(size),
        a(random_floats((rows_of(true) + 1) * (cols_of(true) + kGap), 1)),
        b(random_floats((rows_of(false) + 1) * (cols_of(false) + kGap), 2)),
        a_view(a.data(), rows_of(true), cols_of(true), cols_of(true) + kGap),
        b_view(b.data(), rows_of(false), cols_of(false), cols_of(false) + kGap) {}

  int64_t rows_of(bool is_a) const {
    if (is_a) return form == Form::kTn ? shape.k : shape.m;
    return form == Form::kNt ? shape.n : shape.k;
  }
  int64_t cols_of(bool is_a) const {
    if (is_a) return form == Form::kTn ? shape.m : shape.k;
    return form == Form::kNt ? shape.k : shape.n;
  }
  double term(int64_t i, int64_t j, int64_t p) const {
    const float left = form == Form::kTn ? a_view.data[p * a_view.stride + i] : a_view.data[i * a_view.stride + p];
    const float right = form == Form::kNt ? b_view.data[j * b_view.stride + p] : b_view.data[p * b_view.stride + j];
    return double{left} * double{right};
  }
  void multiply(const Matrix& c, ThreadPool& pool, Store store) const {
    if (form == Form::kNt) multiply_nt(a_view, b_view, c, pool, store);
    if (form == Form::kNn) multiply_nn(a_view, b_view, c, pool, store);
    if (form == Form::kTn) multiply_tn(a_view, b_view, c, pool, store);
  }
};

TEST(Multiply, AgreesWithPlainLoopsInDouble) {
  ThreadPool pool(2);
  for (const Form form : {Form::kNt, Form::kNn, Form::kTn}) {
    for (const Shape& shape : kShapes) {
      const Case test(form, shape);
      for (const Store store : {Store::kReplace, Store::kAdd, Store::kSubtract}) {
        const int64_t stride = shape.n + kGap;
        std::vector<float> c(static_cast<size_t>(shape.m * stride), kUntouched);
        test.multiply({c.data(), shape.m, shape.n, stride}, pool, store);
        for (int64_t i = 0; i < shape.m; ++i) {
          for (int64_t j = 0; j < stride; ++j) {
            double expected = store == Store::kReplace && j < shape.n ? 0.0 : double{kUntouched}, size = 0.0;
            for (int64_t p = 0; p < (j < shape.n ? shape.k : 0); ++p) {
              expected += store == Store::kSubtract ? -test.term(i, j, p) : test.term(i, j, p);
              size += std::abs(test.term(i, j, p));
            }
            const double allowed = j < shape.n ? 1e-6 * (size + std::abs(expected)) : 0.0;
            ASSERT_NEAR(c[static_cast<size_t>(i * stride + j)], expected, allowed) << i << " " << j;
          }
        }
      }
    }
  }
}

TEST(Multiply, HasTheSameBitsForAnyNumberOfThreadsAndInParts) {
  ThreadPool one(1), two(2), five(5);
  for (const Form form : {Form::kNt, Form::kNn, Form::kTn}) {
    const Shape shape{201, 333, 700};
    const Case test(form, shape);
    std::vector<float> c1(static_cast<size_t>(shape.m * shape.n)), c2 = c1, c5 = c1;
    test.multiply({c1.data(), shape.m, shape.n}, one, Store::kReplace);
    test.multiply({c2.data(), shape.m, shape.n}, two, Store::kReplace);
    test.multiply({c5.data(), shape.m, shape.n}, five, Store::kReplace);
    EXPECT_EQ(c1, c2);
    EXPECT_EQ(c1, c5);
    if (form != Form::kNt) continue;
    std::vector<float> parts(c1.size());
    MultiplyScratch scratch;
    for (int64_t i = 0; i < shape.m; i += 67) {  // Rows of a, on the calling thread.
      multiply_nt(test.a_view.block(i, 0, 67, shape.k), test.b_view, Matrix(parts.data() + i * shape.n, 67, shape.n),
                  scratch);
    }
    EXPECT_EQ(c1, parts);
  }
}

TEST(Multiply, GramIsSymmetricAndAddsUp) {
  ThreadPool pool(2), one(1);
  const int64_t tokens = 70, width = 131;
  const std::vector<float> x = random_floats(2 * tokens * width, 3);
  std::vector<float> h(static_cast<size_t>(width * width)), h1 = h;
  for (int64_t half = 0; half < 2; ++half) {
    add_gram({x.data() + half * tokens * width, tokens, width}, {h.data(), width, width}, pool);
    add_gram({x.data() + half * tokens * width, tokens, width}, {h1.data(), width, width}, one);
  }
  mirror_upper({h.data(), width, width}, pool);
  mirror_upper({h1.data(), width, width}, one);
  EXPECT_EQ(h, h1);
  for (int64_t i = 0; i < width; ++i) {
    for (int64_t j = 0; j < width; ++j) {
      double expected = 0.0;
      for (int64_t t = 0; t < 2 * tokens; ++t) expected += double{x[t * width + i]} * double{x[t * width + j]};
      ASSERT_NEAR(h[static_cast<size_t>(i * width + j)], expected, 1e-4);
      ASSERT_EQ(h[static_cast<size_t>(i * width + j)], h[static_cast<size_t>(j * width + i)]);
    }
  }
}

TEST(Multiply, NoTermsMakeZeros) {
  ThreadPool pool(2);
  std::vector<float> c(6, 1.0f);
  multiply_nt({nullptr, 2, 0}, {nullptr, 3, 0}, {c.data(), 2, 3}, pool, Store::kAdd);
  EXPECT_EQ(c, std::vector<float>(6, 1.0f));
  multiply_nt({nullptr, 2, 0}, {nullptr, 3, 0}, {c.data(), 2, 3}, pool);
  EXPECT_EQ(c, std::vector<float>(6, 0.0f));
}

// Every instruction set that this machine has, not only the one that is used. With fused multiply-adds the bits are the
// same as well.
TEST(Multiply, InstructionSetsAgree) {
  const int64_t k = 77, rows = 6, cols = 8;
  std::vector<float> expected;
  for (const linalg::TileKernels* tiles : linalg::available_tiles()) {
    const std::vector<float> a = random_floats(rows * k, 4), b = random_floats(cols * k, 5);
    std::vector<float> packed_a(static_cast<size_t>(tiles->tile_rows * k)),
        packed_b(static_cast<size_t>(tiles->tile_cols * k)), c(static_cast<size_t>(rows * cols));
    tiles->pack_transposed(a.data(), k, rows, k, tiles->tile_rows, packed_a.data());
    tiles->pack_transposed(b.data(), k, cols, k, tiles->tile_cols, packed_b.data());
    tiles->multiply_tile(k, packed_a.data(), packed_b.data(), c.data(), cols, rows, cols, linalg::TileStore::kReplace);
    for (int64_t i = 0; i < rows; ++i) {
      for (int64_t j = 0; j < cols; ++j) {
        double sum = 0.0;
        for (int64_t p = 0; p < k; ++p) sum += double{a[i * k + p]} * double{b[j * k + p]};
        ASSERT_NEAR(c[static_cast<size_t>(i * cols + j)], sum, 1e-5) << tiles->name;
      }
    }
    if (tiles->name == std::string("portable")) continue;
    if (expected.empty()) expected = c;
    EXPECT_EQ(c, expected) << tiles->name;
  }
}

}  // namespace tandem::multiply_test

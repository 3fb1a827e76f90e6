#include "compiler/tuning/sequence_attention.h"

#include <algorithm>
#include <limits>

#include "reference/row_ops.h"
#include "reference/softmax.h"

namespace tandem {
namespace {

// Queries that are multiplied with the keys at once.
constexpr int64_t kQueries = 64;

// softmax of one query's visible scores [begin, end); the others of the row become 0.
void weigh(const ir::OpAttributes& a, int64_t begin, int64_t end, std::span<float> row) {
  float highest = -std::numeric_limits<float>::infinity();
  for (int64_t j = begin; j < end; ++j) {
    float& score = row[static_cast<size_t>(j)];
    score = softcap(score * a.factor, a.softcap);
    highest = std::max(highest, score);
  }
  const auto sum = static_cast<float>(exp_row(row.data() + begin, end - begin, highest));
  for (int64_t j = begin; j < end; ++j) row[static_cast<size_t>(j)] /= sum;
  std::fill_n(row.begin(), begin, 0.0f);
  std::fill(row.begin() + end, row.end(), 0.0f);
}

// One query head of one sequence, whose first row is `first`.
void attend_head(const SequenceAttention& work, int64_t first, int64_t length, int64_t head, MultiplyScratch& scratch) {
  const ir::OpAttributes& a = work.attributes;
  const int64_t dim = a.head_dim, kv_width = work.kv_heads * dim;
  const int64_t kv_head = head / (work.width / dim / work.kv_heads);
  const ConstMatrix keys(work.k + first * kv_width + kv_head * dim, length, dim, kv_width);
  const ConstMatrix values(work.v + first * kv_width + kv_head * dim, length, dim, kv_width);
  std::vector<float> scores;
  for (int64_t begin = 0; begin < length; begin += kQueries) {
    const int64_t count = std::min(kQueries, length - begin), end = begin + count;
    const int64_t at = (first + begin) * work.width + head * dim;
    scores.resize(static_cast<size_t>(count * end));
    multiply_nt(ConstMatrix(work.q + at, count, dim, work.width), keys.block(0, 0, end, dim),
                Matrix(scores.data(), count, end), scratch);
    for (int64_t n = 0; n < count; ++n) {
      const int64_t seen = begin + n + 1;
      const int64_t oldest = a.window > 0 ? std::max<int64_t>(seen - a.window, 0) : 0;
      weigh(a, oldest, seen, std::span(scores).subspan(static_cast<size_t>(n * end), static_cast<size_t>(end)));
    }
    multiply_nn(ConstMatrix(scores.data(), count, end), values.block(0, 0, end, dim),
                Matrix(work.y + at, count, dim, work.width), scratch);
  }
}

}  // namespace

void attend_sequences(const SequenceAttention& work, std::span<MultiplyScratch> scratch, ThreadPool& pool) {
  std::vector<int64_t> firsts = {0};
  for (const int64_t length : work.lengths) firsts.push_back(firsts.back() + length);
  const int64_t heads = work.width / work.attributes.head_dim;
  pool.run(static_cast<int64_t>(work.lengths.size()) * heads, [&](int64_t task, int thread) {
    const auto sequence = static_cast<size_t>(task / heads);
    attend_head(work, firsts[sequence], work.lengths[sequence], task % heads, scratch[static_cast<size_t>(thread)]);
  });
}

}  // namespace tandem

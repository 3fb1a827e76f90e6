#include "quant/feedback_panel.h"

#include <algorithm>
#include <cstring>
#include <limits>

#include "base/target_clones.h"

// Vectors never cross a call here (everything is inlined), so their calling convention does not matter.
#pragma GCC diagnostic ignored "-Wpsabi"

namespace tandem {
namespace {

using PanelLanes = float __attribute__((vector_size(64)));
constexpr int64_t kPanelLanes = 16;
static_assert(kFeedbackRows == 2 * kPanelLanes);

#define TANDEM_PANEL_INLINE [[gnu::always_inline]] static inline

// One number of each row of a panel.
struct PanelVec {
  PanelLanes a, b;
};

TANDEM_PANEL_INLINE PanelLanes panel_lanes(float x) { return x - PanelLanes{}; }
TANDEM_PANEL_INLINE PanelVec every_row(float x) { return {panel_lanes(x), panel_lanes(x)}; }
TANDEM_PANEL_INLINE PanelVec load_rows(const float* from) {
  PanelVec x;
  std::memcpy(&x.a, from, sizeof(PanelLanes));
  std::memcpy(&x.b, from + kPanelLanes, sizeof(PanelLanes));
  return x;
}
TANDEM_PANEL_INLINE void store_rows(float* to, const PanelVec& x) {
  std::memcpy(to, &x.a, sizeof(PanelLanes));
  std::memcpy(to + kPanelLanes, &x.b, sizeof(PanelLanes));
}
TANDEM_PANEL_INLINE PanelVec operator+(const PanelVec& x, const PanelVec& y) { return {x.a + y.a, x.b + y.b}; }
TANDEM_PANEL_INLINE PanelVec operator-(const PanelVec& x, const PanelVec& y) { return {x.a - y.a, x.b - y.b}; }
TANDEM_PANEL_INLINE PanelVec operator*(const PanelVec& x, const PanelVec& y) { return {x.a * y.a, x.b * y.b}; }
TANDEM_PANEL_INLINE PanelVec operator/(const PanelVec& x, const PanelVec& y) { return {x.a / y.a, x.b / y.b}; }
TANDEM_PANEL_INLINE PanelVec vmin(const PanelVec& x, const PanelVec& y) {
  return {x.a < y.a ? x.a : y.a, x.b < y.b ? x.b : y.b};
}
TANDEM_PANEL_INLINE PanelVec vmax(const PanelVec& x, const PanelVec& y) {
  return {x.a > y.a ? x.a : y.a, x.b > y.b ? x.b : y.b};
}
// Lane by lane: x where p < q, otherwise y.
TANDEM_PANEL_INLINE PanelVec where_less(const PanelVec& p, const PanelVec& q, const PanelVec& x, const PanelVec& y) {
  return {p.a < q.a ? x.a : y.a, p.b < q.b ? x.b : y.b};
}
// To the nearest integer, ties to even, for |x| < 2^22.
TANDEM_PANEL_INLINE PanelVec round_rows(const PanelVec& x) {
  const PanelVec magic = every_row(0x1.8p23f);
  return (x + magic) - magic;
}

// sums[j] += sum over k < depth of matrix[k][first + j] * rows[k], for kCount columns of a matrix of `width`.
template <int kCount>
TANDEM_PANEL_INLINE void add_products(const float* matrix, int64_t width, int64_t depth, const float* rows,
                                      float* sums) {
  PanelVec total[kCount];
  for (int j = 0; j < kCount; ++j) total[j] = load_rows(sums + j * kFeedbackRows);
  for (int64_t k = 0; k < depth; ++k) {
    const PanelVec x = load_rows(rows + k * kFeedbackRows);
    const float* factors = matrix + k * width;
    for (int j = 0; j < kCount; ++j) {
      const PanelLanes factor = panel_lanes(factors[j]);
      total[j].a += factor * x.a;
      total[j].b += factor * x.b;
    }
  }
  for (int j = 0; j < kCount; ++j) store_rows(sums + j * kFeedbackRows, total[j]);
}

TANDEM_PANEL_INLINE void add_all_products(const float* matrix, int64_t width, int64_t depth, const float* rows,
                                          float* sums) {
  if (depth == 0) return;  // before the first group, there is no matrix either
  int64_t j = 0;
  for (; j + 4 <= width; j += 4) add_products<4>(matrix + j, width, depth, rows, sums + j * kFeedbackRows);
  for (; j < width; ++j) add_products<1>(matrix + j, width, depth, rows, sums + j * kFeedbackRows);
}

// Rounds a group column by column. `targets` are the group's own, `shifted` the same with the errors of other groups
// made up for; returns the error.
TANDEM_PANEL_INLINE PanelVec round_columns(const float* targets, const float* shifted, int64_t width,
                                           const float* feedback, const float* pivots, const PanelVec& step, float low,
                                           float high, float* quantized) {
  float errors[kFeedbackWidth * kFeedbackRows];
  const PanelVec inverse = every_row(1.0f) / step;
  PanelVec total = every_row(0.0f);
  for (int64_t j = 0; j < width; ++j) {
    PanelVec t = load_rows(shifted + j * kFeedbackRows);
    for (int64_t i = 0; i < j; ++i) {
      const PanelVec e = load_rows(errors + i * kFeedbackRows);
      const PanelLanes factor = panel_lanes(feedback[i * width + j]);
      t.a += factor * e.a;
      t.b += factor * e.b;
    }
    const PanelVec q = round_rows(vmin(vmax(t * inverse, every_row(low)), every_row(high)));
    const PanelVec value = q * step;
    const PanelVec missed = t - value;
    total = total + every_row(pivots[j]) * missed * missed;
    store_rows(errors + j * kFeedbackRows, load_rows(targets + j * kFeedbackRows) - value);
    store_rows(quantized + j * kFeedbackRows, q);
  }
  return total;
}

// The smallest multiplier at which nothing of the group is clipped.
TANDEM_PANEL_INLINE PanelVec covering_multiplier(const float* shifted, int64_t width, const PanelVec& scale,
                                                 const FeedbackGrid& grid) {
  PanelVec low = every_row(0.0f), high = every_row(0.0f);
  for (int64_t j = 0; j < width; ++j) {
    const PanelVec t = load_rows(shifted + j * kFeedbackRows);
    low = vmin(low, t);
    high = vmax(high, t);
  }
  const PanelVec needed = vmax(high * every_row(1.0f / grid.high), low * every_row(1.0f / grid.low)) / scale;
  return vmin(vmax(round_rows(needed + every_row(0.4f)), every_row(1.0f)), every_row(grid.largest_multiplier));
}

// The best of several multipliers so far.
struct BestMultiplier {
  PanelVec error = every_row(std::numeric_limits<float>::max());
  PanelVec multiplier = every_row(1.0f);
};

TANDEM_PANEL_INLINE void keep_better(const PanelVec& error, const PanelVec& multiplier, int64_t width,
                                     const float* trial, float* quantized, BestMultiplier& best) {
  for (int64_t j = 0; j < width; ++j) {
    const PanelVec old = load_rows(quantized + j * kFeedbackRows), now = load_rows(trial + j * kFeedbackRows);
    store_rows(quantized + j * kFeedbackRows, where_less(error, best.error, now, old));
  }
  best.multiplier = where_less(error, best.error, multiplier, best.multiplier);
  best.error = vmin(error, best.error);
}

// The panel's errors of a group from its quantized values.
TANDEM_PANEL_INLINE void update_errors(const FeedbackGroup& group, const PanelVec& step, FeedbackPanel& panel) {
  for (int64_t j = group.begin; j < group.begin + group.width; ++j) {
    const int64_t at = j * kFeedbackRows;
    store_rows(panel.errors.data() + at,
               load_rows(panel.targets.data() + at) - step * load_rows(panel.quantized.data() + at));
  }
}

}  // namespace

void FeedbackPanel::resize(int64_t cols, int64_t groups) {
  const auto count = static_cast<size_t>(cols * kFeedbackRows);
  for (std::vector<float>* numbers : {&targets, &shifted, &errors, &gradient, &changes, &quantized}) {
    numbers->resize(count);
  }
  multipliers.resize(static_cast<size_t>(groups * kFeedbackRows));
}

TANDEM_CLONES void quantize_group(const FeedbackGroup& group, const FeedbackGrid& grid, int64_t index,
                                  FeedbackPanel& panel) {
  const float* targets = panel.targets.data() + group.begin * kFeedbackRows;
  float* quantized = panel.quantized.data() + group.begin * kFeedbackRows;
  float shifted[kFeedbackWidth * kFeedbackRows], trial[kFeedbackWidth * kFeedbackRows];
  std::copy_n(panel.shifted.data() + group.begin * kFeedbackRows, group.width * kFeedbackRows, shifted);
  add_all_products(group.feedback, group.width, group.begin, panel.errors.data(), shifted);
  const float* own = group.feedback + group.begin * group.width;
  const PanelVec scale = load_rows(panel.scales);
  BestMultiplier best;
  PanelVec multiplier = covering_multiplier(shifted, group.width, scale, grid);
  for (int i = 0; i < grid.candidates; ++i) {
    const PanelVec error =
        round_columns(targets, shifted, group.width, own, group.pivots, scale * multiplier, grid.low, grid.high, trial);
    keep_better(error, multiplier, group.width, trial, quantized, best);
    if (grid.largest_multiplier == 1.0f) break;
    // Some 8 % less each time, or the next integer.
    const PanelVec less = round_rows(multiplier * every_row(0.92f));
    multiplier = vmax(vmin(less, multiplier - every_row(1.0f)), every_row(1.0f));
  }
  store_rows(panel.multipliers.data() + index * kFeedbackRows, best.multiplier);
  update_errors(group, scale * best.multiplier, panel);
}

TANDEM_CLONES void solve_group(const FeedbackGroup& group, const FeedbackGrid& grid, int64_t index,
                               FeedbackPanel& panel) {
  constexpr int64_t kNumbers = kFeedbackWidth * kFeedbackRows;
  const int64_t width = group.width;
  float gradient[kNumbers], shift[kNumbers] = {}, wanted[kNumbers], trial[kNumbers];
  std::copy_n(panel.gradient.data() + group.begin * kFeedbackRows, width * kFeedbackRows, gradient);
  add_all_products(group.moments, width, group.begin, panel.changes.data(), gradient);
  // Where the group should be for the others' errors, and how far it is from there.
  add_all_products(group.own_inverse, width, width, gradient, shift);
  float* quantized = panel.quantized.data() + group.begin * kFeedbackRows;
  float* multipliers = panel.multipliers.data() + index * kFeedbackRows;
  const PanelVec scale = load_rows(panel.scales), multiplier = load_rows(multipliers);
  BestMultiplier best;
  best.error = every_row(0.0f);
  best.multiplier = multiplier;
  for (int64_t j = 0; j < width; ++j) {
    const int64_t at = j * kFeedbackRows;
    store_rows(wanted + at, scale * multiplier * load_rows(quantized + at) + load_rows(shift + at));
    best.error = best.error + load_rows(gradient + at) * load_rows(shift + at);
  }
  // Sums of floats: what is better by less than their rounding is not better.
  best.error = best.error * every_row(1.0f - 1e-5f);
  const int trials = grid.largest_multiplier == 1.0f ? 1 : 3;
  for (int i = 0; i < trials; ++i) {
    const float offset = i == 0 ? 0.0f : i == 1 ? -1.0f : 1.0f;
    const PanelVec m = vmin(vmax(multiplier + every_row(offset), every_row(1.0f)), every_row(grid.largest_multiplier));
    const PanelVec error = round_columns(wanted, wanted, width, group.own_feedback, group.own_pivots, scale * m,
                                         grid.low, grid.high, trial);
    keep_better(error, m, width, trial, quantized, best);
  }
  store_rows(multipliers, best.multiplier);
  float* errors = panel.errors.data() + group.begin * kFeedbackRows;
  float* changes = panel.changes.data() + group.begin * kFeedbackRows;
  std::copy_n(errors, width * kFeedbackRows, changes);
  update_errors(group, scale * best.multiplier, panel);
  for (int64_t i = 0; i < width * kFeedbackRows; ++i) changes[i] = errors[i] - changes[i];
}

}  // namespace tandem

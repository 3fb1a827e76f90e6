// The inner loops of error feedback (error_feedback.h): a panel of weight rows, one row to a vector lane.
//
// A layer's columns come in the order in which they are quantized, in groups: LPBQ's blocks, or any runs of columns for
// int8. With H = (I + U) D (I + U)^T, U strictly upper triangular, the error of a row e = w - q is
//   e H e^T = sum over k of D[k] * (t[k] - q[k])^2,   t[k] = w[k] + sum over i < k of e[i] * U[i][k],
// so each column is rounded where the errors of earlier ones are made up for as well as they can be.
//
// A panel has the columns of one span, a few groups. What spans do to each other are products of large matrices, which
// error_feedback.cpp computes between them.
#pragma once

#include <cstdint>
#include <vector>

namespace tandem {

inline constexpr int64_t kFeedbackRows = 32;   // Rows of a panel.
inline constexpr int64_t kFeedbackWidth = 64;  // The widest group.

// The matrices of one group, columns [begin, begin + width) of its span.
struct FeedbackGroup {
  int64_t begin = 0;
  int64_t width = 0;
  const float* feedback = nullptr;  // U[0 .. begin + width)[width]: earlier columns of the span, then the group's own.
  const float* pivots = nullptr;    // D[width]
  const float* moments = nullptr;   // H[0 .. begin)[width]
  // H of the group alone, with its own factors: for re-solving it while the others stay.
  const float* own_inverse = nullptr;   // [width][width]
  const float* own_feedback = nullptr;  // [width][width], strictly upper
  const float* own_pivots = nullptr;    // [width]
};

// What values a format has: scale * multiplier * q.
struct FeedbackGrid {
  float low = -8.0f;  // q
  float high = 7.0f;
  float largest_multiplier = 16.0f;  // 1: there are none.
  int candidates = 4;                // Multipliers to try for each block.
};

// Numbers are [column of the span][kFeedbackRows].
struct FeedbackPanel {
  std::vector<float> targets;      // w
  std::vector<float> shifted;      // w with the errors of earlier spans made up for
  std::vector<float> errors;       // w - what its quantized value stands for
  std::vector<float> gradient;     // H e
  std::vector<float> changes;      // What solve_group() has changed of the errors.
  std::vector<float> quantized;    // q
  std::vector<float> multipliers;  // [group][kFeedbackRows]
  float scales[kFeedbackRows] = {};

  void resize(int64_t cols, int64_t groups);
};

// Quantizes a group after all earlier ones, with the multiplier that has the smallest error. Reads targets and shifted.
void quantize_group(const FeedbackGroup& group, const FeedbackGrid& grid, int64_t index, FeedbackPanel& panel);

// Quantizes a group again with all others as they are now. Rows that do not get better keep what they have. Reads
// targets, errors and the gradient, which is of before the span's first group was solved; writes changes.
void solve_group(const FeedbackGroup& group, const FeedbackGrid& grid, int64_t index, FeedbackPanel& panel);

}  // namespace tandem

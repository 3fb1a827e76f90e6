// Scales of the channels between two matrices whose product does not change when one is divided by them and the other
// multiplied: keys and queries, values and the output projection, `up` and `down` of a gated MLP.
#pragma once

#include <cstdint>
#include <functional>
#include <mutex>
#include <span>
#include <vector>

#include "tandem/status.h"

namespace tandem {

// Computed when first asked for, because that takes a pass over a matrix. Any number of threads may ask.
class PairScales {
 public:
  struct Factors {
    // For each row of k, v or up, for each entry of k_norm, or for each column of the layers behind a norm.
    std::vector<float> first;
    // The inverse, for each row of q, each column of o or down, each entry of q_norm or of a norm.
    std::vector<float> second;
  };
  explicit PairScales(std::function<Result<Factors>()> compute) : compute_(std::move(compute)) {}

  Result<const Factors*> get() {
    std::call_once(once_, [&] {
      auto computed = compute_();
      if (computed.ok()) {
        factors_ = std::move(computed).value();
      } else {
        status_ = std::move(computed).error();
      }
    });
    if (!status_.ok()) return status_.error();
    return &factors_;
  }

 private:
  std::function<Result<Factors>()> compute_;
  std::once_flag once_;
  Status status_;
  Factors factors_;
};

// How the channels of a head are laid out, and how many query heads share a key's.
struct HeadShape {
  int64_t heads = 0;
  int64_t kv_heads = 0;
  int64_t head_dim = 0;
  int64_t rotated_pairs = 0;  // Per head; a pair must have one scale, since rope mixes its two channels.
  bool interleaved = false;
};

// From the root mean squares of a head's channels, without their biases, to the largest values to be expected. Rope
// turns a pair, so both of its channels reach the length of the pair's bias.
void set_peaks(std::span<float> head, std::span<const float> bias, const HeadShape& shape);
// Divides by the geometric mean. Channels that are far below the others, such as dead ones, are raised first: nothing
// is gained from factors beyond that, and zero has no inverse.
void normalize_scales(std::span<float> scales);
// Lowers scales with which an activation would grow far beyond the others of its row. Columns of one size are best for
// rounding weights, and channels of one size for rounding activations: where the columns of a channel are large, what
// is in it is, too, and the two disagree. `sizes` are those of the channels now.
void limit_growth(std::span<float> scales, std::span<const float> sizes);
// 1/s, and s.
PairScales::Factors factors_of(std::span<const float> scales);
// From one size for each channel of the query heads to the root mean square of those that read a KV head's channel.
std::vector<float> gather_from_query_heads(std::span<const float> sizes, const HeadShape& shape);
// From one scale for each channel of the KV heads to one for each channel of the query heads that read them.
std::vector<float> spread_to_query_heads(std::span<const float> scales, const HeadShape& shape);

}  // namespace tandem

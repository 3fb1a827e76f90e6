// How many bytes and words of text a model predicted: what perplexities per byte and per word are normalized by, so
// that models with different tokenizers can be compared.
#pragma once

#include <cmath>
#include <cstdint>

namespace tandem {

// Sums; the metrics are lm-eval's of the same names.
struct TextSize {
  int64_t bytes = 0;
  int64_t words = 0;

  // `nats`: the sum of -log p over the text.
  double bits_per_byte(double nats) const { return nats / (static_cast<double>(bytes) * std::log(2.0)); }
  double byte_perplexity(double nats) const { return std::exp(nats / static_cast<double>(bytes)); }
  double word_perplexity(double nats) const { return std::exp(nats / static_cast<double>(words)); }
};

}  // namespace tandem

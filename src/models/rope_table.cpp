#include "models/rope_table.h"

#include <cmath>
#include <numbers>

#include "base/error.h"

namespace tandem {
namespace {

Result<double> required(const std::optional<double>& value, const char* key) {
  if (!value) return corrupt("config.json: the rope scaling lacks \"{}\"", key);
  if (!(*value > 0.0) || !std::isfinite(*value)) return corrupt("config.json: rope \"{}\" is {}", key, *value);
  return *value;
}

// Llama 3: long wavelengths are slowed down by `factor`, short ones kept, those between blended.
Status scale_llama3(const RopeConfig& rope, std::vector<double>& frequency) {
  TANDEM_ASSIGN(const double factor, required(rope.factor, "factor"));
  TANDEM_ASSIGN(const double low, required(rope.low_freq_factor, "low_freq_factor"));
  TANDEM_ASSIGN(const double high, required(rope.high_freq_factor, "high_freq_factor"));
  if (!rope.original_max_position_embeddings || *rope.original_max_position_embeddings < 1) {
    return corrupt("config.json: the rope scaling lacks \"original_max_position_embeddings\"");
  }
  if (high == low) return corrupt("config.json: high_freq_factor equals low_freq_factor");
  const auto original = static_cast<double>(*rope.original_max_position_embeddings);
  for (double& f : frequency) {
    const double wavelength = 2.0 * std::numbers::pi / f;
    if (wavelength < original / high) continue;
    if (wavelength > original / low) {
      f /= factor;
    } else {
      const double smooth = (original / wavelength - low) / (high - low);
      f = (1.0 - smooth) * f / factor + smooth * f;
    }
  }
  return ok_status();
}

// Phi: each frequency has its own divisor, one set for short sequences and one for long ones. cos and sin are scaled at
// every length.
Status scale_longrope(const RopeConfig& rope, int64_t max_positions, const std::vector<double>& frequency,
                      std::vector<double>& scaled, std::vector<double>& long_scaled, RopeTable& table) {
  if (rope.short_factor.size() != frequency.size() || rope.long_factor.size() != frequency.size()) {
    return corrupt("config.json: short_factor and long_factor have {} and {} numbers, and {} pairs are rotated",
                   rope.short_factor.size(), rope.long_factor.size(), frequency.size());
  }
  if (rope.short_mscale || rope.long_mscale) {
    return unsupported("config.json: longrope with short_mscale or long_mscale is not supported");
  }
  table.limit = rope.original_max_position_embeddings.value_or(max_positions);
  const auto original = static_cast<double>(table.limit);
  const double stretch = rope.factor.value_or(static_cast<double>(max_positions) / original);
  double factor = stretch <= 1.0 || original <= 1.0 ? 1.0 : std::sqrt(1.0 + std::log(stretch) / std::log(original));
  if (rope.attention_factor) factor = *rope.attention_factor;
  table.factor = static_cast<float>(factor);
  for (size_t i = 0; i < frequency.size(); ++i) {
    scaled[i] = frequency[i] / rope.short_factor[i];
    long_scaled.push_back(frequency[i] / rope.long_factor[i]);
  }
  return ok_status();
}

}  // namespace

Result<RopeTable> make_rope_table(const RopeConfig& rope, int64_t rotary_dim, int64_t max_positions) {
  if (rotary_dim < 2 || rotary_dim % 2 != 0) {
    return unsupported("config.json: {} rotated entries per head; it must be an even number", rotary_dim);
  }
  if (!(rope.theta > 0.0) || !std::isfinite(rope.theta)) return corrupt("config.json: rope_theta is {}", rope.theta);
  std::vector<double> frequency(static_cast<size_t>(rotary_dim / 2));
  for (size_t i = 0; i < frequency.size(); ++i) {
    frequency[i] = std::pow(rope.theta, -2.0 * static_cast<double>(i) / static_cast<double>(rotary_dim));
  }
  std::vector<double> long_frequency;
  RopeTable table;
  if (rope.type == "linear") {
    TANDEM_ASSIGN(const double factor, required(rope.factor, "factor"));
    for (double& f : frequency) f /= factor;
  } else if (rope.type == "llama3") {
    TANDEM_TRY(scale_llama3(rope, frequency));
  } else if (rope.type == "longrope") {
    TANDEM_TRY(scale_longrope(rope, max_positions, std::vector<double>(frequency), frequency, long_frequency, table));
  } else if (rope.type != "default") {
    return unsupported(
        "config.json: rope scaling of type \"{}\" is not supported (default, linear, llama3 and longrope are)",
        rope.type);
  }
  for (const double f : frequency) table.inverse_frequency.push_back(static_cast<float>(f));
  for (const double f : long_frequency) table.long_inverse_frequency.push_back(static_cast<float>(f));
  return table;
}

}  // namespace tandem

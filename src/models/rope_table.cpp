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

}  // namespace

Result<RopeTable> make_rope_table(const RopeConfig& rope, int64_t rotary_dim) {
  if (rotary_dim < 2 || rotary_dim % 2 != 0) {
    return unsupported("config.json: {} rotated entries per head; it must be an even number", rotary_dim);
  }
  if (!(rope.theta > 0.0) || !std::isfinite(rope.theta)) return corrupt("config.json: rope_theta is {}", rope.theta);
  std::vector<double> frequency(static_cast<size_t>(rotary_dim / 2));
  for (size_t i = 0; i < frequency.size(); ++i) {
    frequency[i] = std::pow(rope.theta, -2.0 * static_cast<double>(i) / static_cast<double>(rotary_dim));
  }
  if (rope.type == "linear") {
    TANDEM_ASSIGN(const double factor, required(rope.factor, "factor"));
    for (double& f : frequency) f /= factor;
  } else if (rope.type == "llama3") {
    TANDEM_TRY(scale_llama3(rope, frequency));
  } else if (rope.type != "default") {
    return unsupported("config.json: rope scaling of type \"{}\" is not supported (default, linear and llama3 are)",
                       rope.type);
  }
  RopeTable table;
  for (const double f : frequency) table.inverse_frequency.push_back(static_cast<float>(f));
  return table;
}

}  // namespace tandem

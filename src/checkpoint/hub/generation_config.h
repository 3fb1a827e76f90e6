// generation_config.json: the sampling defaults that a model's authors chose. Everything in it is optional, and so is
// the file.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "tandem/status.h"

namespace tandem {

struct GenerationConfig {
  std::vector<int64_t> eos_token_ids;
  std::optional<int64_t> bos_token_id;
  std::optional<int64_t> pad_token_id;
  std::optional<bool> do_sample;
  std::optional<double> temperature;         // 0 or above.
  std::optional<int64_t> top_k;              // 0: off.
  std::optional<double> top_p;               // In (0, 1].
  std::optional<double> min_p;               // In [0, 1].
  std::optional<double> repetition_penalty;  // Above 0.
  std::optional<int64_t> max_new_tokens;

  static Result<GenerationConfig> from_json(const Json& json, std::string_view what = "generation_config.json");
  static Result<GenerationConfig> parse(std::string_view text, std::string_view what = "generation_config.json");
};

}  // namespace tandem

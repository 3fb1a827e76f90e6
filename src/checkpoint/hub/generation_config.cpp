#include "checkpoint/hub/generation_config.h"

#include "base/error.h"
#include "checkpoint/hub/config_reader.h"

namespace tandem {

Result<GenerationConfig> GenerationConfig::from_json(const Json& json, std::string_view what) {
  if (!json.is_object()) return corrupt("{}: should be a JSON object, but is {}", what, json.type_name());
  ConfigReader reader(json, what);
  GenerationConfig config;
  TANDEM_ASSIGN(config.eos_token_ids, reader.token_ids("eos_token_id"));
  TANDEM_ASSIGN(config.bos_token_id, reader.token_id("bos_token_id"));
  TANDEM_ASSIGN(config.pad_token_id, reader.token_id("pad_token_id"));
  TANDEM_ASSIGN(config.do_sample, reader.boolean({"do_sample"}));
  TANDEM_ASSIGN(config.temperature, reader.number({"temperature"}));
  TANDEM_ASSIGN(config.top_k, reader.integer({"top_k"}));
  TANDEM_ASSIGN(config.top_p, reader.positive({"top_p"}));
  TANDEM_ASSIGN(config.min_p, reader.number({"min_p"}));
  TANDEM_ASSIGN(config.repetition_penalty, reader.positive({"repetition_penalty"}));
  TANDEM_ASSIGN(config.max_new_tokens, reader.size({"max_new_tokens"}, INT32_MAX));

  if (config.temperature && *config.temperature < 0) {
    return corrupt("{}: temperature is {}, but must not be negative", what, *config.temperature);
  }
  if (config.top_k && *config.top_k > INT32_MAX) return corrupt("{}: top_k is too large", what);
  if (config.top_k && *config.top_k < 0) config.top_k = 0;  // Some writers disable it with -1.
  if (config.top_p && *config.top_p > 1)
    return corrupt("{}: top_p is {}, but must not be above 1", what, *config.top_p);
  if (config.min_p && (*config.min_p < 0 || *config.min_p > 1)) {
    return corrupt("{}: min_p is {}, but must be between 0 and 1", what, *config.min_p);
  }
  return config;
}

Result<GenerationConfig> GenerationConfig::parse(std::string_view text, std::string_view what) {
  TANDEM_ASSIGN(const Json json, parse_json(text, what));
  return from_json(json, what);
}

}  // namespace tandem

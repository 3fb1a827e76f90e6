#include "checkpoint/hub/rope_config.h"

#include <algorithm>

#include "base/error.h"
#include "base/format.h"
#include "checkpoint/hub/safetensors.h"

namespace tandem {
namespace {

constexpr int64_t kMaxTrainedPositions = INT32_MAX;

// Settings at the top of the file rather than in a rope object.
struct TopLevel {
  std::optional<double> theta;
  std::optional<double> partial_rotary_factor;
  std::optional<int64_t> original_max_position_embeddings;
};

Status check_factors(const std::vector<double>& factors, std::string_view key, std::string_view what) {
  if (std::any_of(factors.begin(), factors.end(), [](double factor) { return factor <= 0; })) {
    return corrupt("{}: key \"{}\" must hold numbers above 0 only", what, key);
  }
  return ok_status();
}

// A scaling without its parameters would silently give wrong results.
Status check_complete(const RopeConfig& rope, std::string_view what) {
  const auto need = [&](bool there, std::string_view key) -> Status {
    if (there) return ok_status();
    return corrupt("{}: rope type \"{}\" needs the key \"{}\"", what, rope.type, key);
  };
  if (rope.type == "linear" || rope.type == "dynamic" || rope.type == "yarn" || rope.type == "llama3") {
    TANDEM_TRY(need(rope.factor.has_value(), "factor"));
  }
  if (rope.type == "llama3") {
    TANDEM_TRY(need(rope.low_freq_factor.has_value(), "low_freq_factor"));
    TANDEM_TRY(need(rope.high_freq_factor.has_value(), "high_freq_factor"));
    TANDEM_TRY(need(rope.original_max_position_embeddings.has_value(), "original_max_position_embeddings"));
    if (*rope.high_freq_factor <= *rope.low_freq_factor) {
      return corrupt("{}: high_freq_factor ({}) must be above low_freq_factor ({})", what, *rope.high_freq_factor,
                     *rope.low_freq_factor);
    }
  }
  if (rope.type == "longrope") {
    TANDEM_TRY(need(!rope.short_factor.empty(), "short_factor"));
    TANDEM_TRY(need(!rope.long_factor.empty(), "long_factor"));
    if (rope.short_factor.size() != rope.long_factor.size()) {
      return corrupt("{}: short_factor has {} numbers, but long_factor has {}", what, rope.short_factor.size(),
                     rope.long_factor.size());
    }
    TANDEM_TRY(need(rope.factor.has_value() || rope.original_max_position_embeddings.has_value(),
                    "original_max_position_embeddings"));
  }
  return ok_status();
}

// One rope object: rope_scaling, rope_parameters, or one layer type's part of that.
Result<RopeConfig> read_rope_object(const Json& object, const std::string& what, const std::string& name,
                                    const TopLevel& top, std::vector<std::string>& unread_keys) {
  ConfigReader reader(object, str_format("{}: {}", what, name));
  RopeConfig rope;
  TANDEM_ASSIGN(const auto rope_type, reader.string({"rope_type"}));
  TANDEM_ASSIGN(const auto old_type, reader.string({"type"}));
  if (rope_type) {
    rope.type = *rope_type;
  } else if (old_type) {
    rope.type = *old_type;
  } else if (object.contains("factor")) {
    return corrupt("{}: {} has a factor, but no \"rope_type\" to say how it is used", what, name);
  }
  if (rope.type == "su") rope.type = "longrope";  // Phi-3's first name for it.

  TANDEM_ASSIGN(const auto theta, reader.positive({"rope_theta"}));
  TANDEM_ASSIGN(rope.factor, reader.positive({"factor"}));
  TANDEM_ASSIGN(rope.low_freq_factor, reader.positive({"low_freq_factor"}));
  TANDEM_ASSIGN(rope.high_freq_factor, reader.positive({"high_freq_factor"}));
  TANDEM_ASSIGN(rope.original_max_position_embeddings,
                reader.size({"original_max_position_embeddings"}, kMaxTrainedPositions));
  TANDEM_ASSIGN(rope.short_factor, reader.numbers("short_factor"));
  TANDEM_ASSIGN(rope.long_factor, reader.numbers("long_factor"));
  TANDEM_TRY(check_factors(rope.short_factor, "short_factor", reader.what()));
  TANDEM_TRY(check_factors(rope.long_factor, "long_factor", reader.what()));
  TANDEM_ASSIGN(rope.short_mscale, reader.positive({"short_mscale"}));
  TANDEM_ASSIGN(rope.long_mscale, reader.positive({"long_mscale"}));
  TANDEM_ASSIGN(rope.attention_factor, reader.positive({"attention_factor"}));
  TANDEM_ASSIGN(rope.beta_fast, reader.positive({"beta_fast"}));
  TANDEM_ASSIGN(rope.beta_slow, reader.positive({"beta_slow"}));
  TANDEM_ASSIGN(rope.mscale, reader.number({"mscale"}));
  TANDEM_ASSIGN(rope.mscale_all_dim, reader.number({"mscale_all_dim"}));
  TANDEM_ASSIGN(rope.truncate, reader.boolean({"truncate"}));
  TANDEM_ASSIGN(rope.partial_rotary_factor, reader.positive({"partial_rotary_factor"}));

  if (!rope.partial_rotary_factor) rope.partial_rotary_factor = top.partial_rotary_factor;
  if (!rope.original_max_position_embeddings) {
    rope.original_max_position_embeddings = top.original_max_position_embeddings;
  }
  if (theta || top.theta) {
    rope.theta = theta ? *theta : *top.theta;
    rope.theta_given = true;
  }
  if (rope.partial_rotary_factor && *rope.partial_rotary_factor > 1) {
    return corrupt("{}: partial_rotary_factor is {}, but must not be above 1", what, *rope.partial_rotary_factor);
  }
  TANDEM_TRY(check_complete(rope, reader.what()));
  for (const std::string& key : reader.unread()) unread_keys.push_back(name + "." + key);
  return rope;
}

// rope_parameters keyed by layer type, as transformers 5 writes Gemma 3.
Status read_per_layer_type(const Json& object, const std::string& what, const TopLevel& top, ModelConfig& config) {
  for (const auto& [key, value] : object.items()) {
    if (value.is_null()) continue;
    const std::string name = str_format("rope_parameters.{}", printable_name(key));
    if (!value.is_object()) {
      return corrupt("{}: {} should be an object, as its neighbours are, but is {}", what, name, value.type_name());
    }
    if (key == "full_attention") {
      TANDEM_ASSIGN(config.rope, read_rope_object(value, what, name, top, config.unread_keys));
    } else if (key == "sliding_attention") {
      TANDEM_ASSIGN(config.local_rope, read_rope_object(value, what, name, top, config.unread_keys));
    } else {
      return unsupported("{}: {}: layers of type \"{}\" are not known; only full_attention and sliding_attention are",
                         what, name, printable_name(key));
    }
  }
  return ok_status();
}

}  // namespace

Status read_rope(ConfigReader& reader, ModelConfig& config) {
  const std::string& what = reader.what();
  TopLevel top;
  TANDEM_ASSIGN(top.theta, reader.positive({"rope_theta"}));
  TANDEM_ASSIGN(top.partial_rotary_factor, reader.positive({"partial_rotary_factor"}));
  TANDEM_ASSIGN(top.original_max_position_embeddings,
                reader.size({"original_max_position_embeddings"}, kMaxTrainedPositions));
  TANDEM_ASSIGN(const Json* parameters, reader.object("rope_parameters"));
  TANDEM_ASSIGN(const Json* scaling, reader.object("rope_scaling"));

  static const Json kEmpty = Json::object();
  const bool per_layer_type = parameters != nullptr && std::any_of(parameters->begin(), parameters->end(),
                                                                   [](const Json& value) { return value.is_object(); });
  if (per_layer_type) {
    TANDEM_TRY(read_per_layer_type(*parameters, what, top, config));
  } else {
    TANDEM_ASSIGN(config.rope, read_rope_object(parameters != nullptr ? *parameters : kEmpty, what, "rope_parameters",
                                                top, config.unread_keys));
  }
  if (scaling != nullptr) {
    TANDEM_ASSIGN(RopeConfig scaled, read_rope_object(*scaling, what, "rope_scaling", top, config.unread_keys));
    if (parameters == nullptr) {
      config.rope = std::move(scaled);
    } else if (scaled.type != config.rope.type || scaled.factor != config.rope.factor ||
               scaled.short_factor != config.rope.short_factor || scaled.long_factor != config.rope.long_factor) {
      return corrupt("{}: rope_parameters and rope_scaling say different things; remove the wrong one", what);
    }
  }

  TANDEM_ASSIGN(const auto local_theta, reader.positive({"rope_local_base_freq"}));
  if (local_theta && !config.local_rope) {
    config.local_rope.emplace();  // Never scaled: the window is short.
    config.local_rope->theta = *local_theta;
    config.local_rope->theta_given = true;
    config.local_rope->partial_rotary_factor = top.partial_rotary_factor;
  }
  return ok_status();
}

}  // namespace tandem

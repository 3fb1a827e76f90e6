// The parts of a tokenizer.json that are lists of steps: normalizer, pre-tokenizer, decoder.
#pragma once

#include <string>
#include <string_view>

#include "base/error.h"
#include "base/json.h"
#include "tandem/status.h"
#include "tokenizer/tokenizer_spec.h"

namespace tandem {

// The value of a key, or nothing if it is absent or null.
inline const Json* json_member(const Json& object, const char* key) {
  if (!object.is_object()) return nullptr;
  const auto it = object.find(key);
  return it == object.end() || it->is_null() ? nullptr : &*it;
}

inline Result<bool> json_flag(const Json& object, const char* key, bool fallback) {
  TANDEM_ASSIGN(const std::optional<bool> value, json_bool(object, key));
  return value.value_or(fallback);
}

// Calls visit(step, type) for the object, or for each member of a Sequence, in order.
template <typename Visit>
Status for_each_step(const Json& object, std::string_view what, const char* list_key, Visit&& visit) {
  if (!object.is_object()) return corrupt("the tokenizer's {} is not an object", what);
  TANDEM_ASSIGN(const std::optional<std::string> type, json_string(object, "type"));
  if (!type) return corrupt("the tokenizer's {} has no \"type\"", what);
  if (*type != "Sequence") return visit(object, *type);
  const Json* list = json_member(object, list_key);
  if (list == nullptr || !list->is_array()) {
    return corrupt("the tokenizer's {} is a Sequence without a list \"{}\"", what, list_key);
  }
  if (list->size() > kMaxTokenizerSteps) {
    return unsupported("the tokenizer's {} has more than {} steps", what, kMaxTokenizerSteps);
  }
  for (const Json& step : *list) TANDEM_TRY(for_each_step(step, what, list_key, visit));
  return ok_status();
}

Status read_normalizer(const Json& object, TokenizerSpec& spec);
Status read_pre_tokenizer(const Json& object, TokenizerSpec& spec);
Status read_decoder(const Json& object, TokenizerSpec& spec);

}  // namespace tandem

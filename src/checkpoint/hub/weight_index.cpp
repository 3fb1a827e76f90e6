#include "checkpoint/hub/weight_index.h"

#include <optional>
#include <set>

#include "base/error.h"
#include "base/json.h"
#include "checkpoint/hub/safetensors.h"

namespace tandem {

Result<std::map<std::string, std::string>> parse_weight_map(std::string_view text, std::string_view what) {
  // A document would silently keep the last of duplicate keys, so they are counted while parsing.
  std::set<std::string> keys;
  std::optional<std::string> duplicate;
  const auto watch = [&](int depth, Json::parse_event_t event, Json& value) {
    if (event == Json::parse_event_t::key && depth == 2 && !duplicate) {
      if (!keys.insert(value.get<std::string>()).second) duplicate = value.get<std::string>();
    } else if (event == Json::parse_event_t::object_start && depth == 1) {
      keys.clear();
    }
    return true;
  };
  TANDEM_TRY(parse_json(text, what).status());  // Reports what is wrong, and bounds the nesting.
  const Json json = Json::parse(text, watch, /*allow_exceptions=*/false);
  if (duplicate) return corrupt("{}: \"{}\" is there twice", what, printable_name(*duplicate));
  const auto weight_map = json.is_object() ? json.find("weight_map") : json.end();
  if (weight_map == json.end() || !weight_map->is_object()) {
    return corrupt("{}: has no object \"weight_map\"", what);
  }
  std::map<std::string, std::string> shards;
  for (const auto& [name, shard] : weight_map->items()) {
    if (!shard.is_string()) {
      return corrupt("{}: the shard of tensor \"{}\" should be a file name, but is {}", what, printable_name(name),
                     shard.type_name());
    }
    const std::string file = shard.get<std::string>();
    // A downloaded index must not reach outside its folder.
    if (file.empty() || file == "." || file.find("..") != std::string::npos ||
        file.find_first_of(std::string_view("/\\\0", 3)) != std::string::npos) {
      return corrupt("{}: tensor \"{}\" is said to be in \"{}\", which is no file name in this folder", what,
                     printable_name(name), printable_name(file));
    }
    shards.emplace(name, file);
  }
  return shards;
}

}  // namespace tandem

// JSON from untrusted files: parse errors as a Status instead of an exception, and typed look-ups that name the key.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tandem/status.h"

namespace tandem {

using Json = nlohmann::json;

// `what` names the source in the error ("config.json").
Result<Json> parse_json(std::string_view text, std::string_view what);

// Look-ups in an object. A key that is absent or null gives the fallback (or nullopt); one of another type is an error.
Result<std::optional<int64_t>> json_int(const Json& object, std::string_view key);
Result<std::optional<double>> json_number(const Json& object, std::string_view key);
Result<std::optional<bool>> json_bool(const Json& object, std::string_view key);
Result<std::optional<std::string>> json_string(const Json& object, std::string_view key);
// A number, or a list of numbers (as eos_token_id may be).
Result<std::vector<int64_t>> json_ints(const Json& object, std::string_view key);

// Text for a terminal or JSON output even if strings hold invalid UTF-8.
std::string dump_json(const Json& json, int indent = -1);

}  // namespace tandem

#include "base/json.h"

#include <cmath>

#include "base/error.h"

namespace tandem {
namespace {

// Deeper than any file of ours or a hub's; recursion over a parsed document stays far from the stack's end.
constexpr int kMaxDepth = 256;

const Json* find(const Json& object, std::string_view key) {
  if (!object.is_object()) return nullptr;
  const auto it = object.find(key);
  return it == object.end() || it->is_null() ? nullptr : &*it;
}

Error wrong_type(std::string_view key, const char* wanted, const Json& value) {
  return corrupt("key \"{}\" should be {}, but is {}", key, wanted, value.type_name());
}

Result<int64_t> as_int(std::string_view key, const Json& value) {
  if (value.is_number_unsigned() && value.get<uint64_t>() > static_cast<uint64_t>(INT64_MAX)) {
    return corrupt("key \"{}\" is too large", key);
  }
  if (value.is_number_integer()) return value.get<int64_t>();
  if (value.is_number_float()) {
    // Some writers give whole numbers as 1.0.
    const double number = value.get<double>();
    if (std::floor(number) == number && std::fabs(number) < 9e15) return static_cast<int64_t>(number);
  }
  return wrong_type(key, "a whole number", value);
}

}  // namespace

Result<Json> parse_json(std::string_view text, std::string_view what) {
  // The parser takes a NUL for the end of the text and would not look at what is behind it.
  if (text.find('\0') != std::string_view::npos) return corrupt("{}: not valid JSON (it has a NUL byte)", what);
  int depth = 0;
  bool too_deep = false;
  const auto watch_depth = [&](int, Json::parse_event_t event, Json&) {
    if (event == Json::parse_event_t::object_start || event == Json::parse_event_t::array_start) {
      if (++depth > kMaxDepth) too_deep = true;
      return depth <= kMaxDepth;  // Nothing below that is kept.
    }
    if (event == Json::parse_event_t::object_end || event == Json::parse_event_t::array_end) --depth;
    return true;
  };
  Json json = Json::parse(text, watch_depth, /*allow_exceptions=*/false);
  if (too_deep) return corrupt("{}: nested deeper than {} levels", what, kMaxDepth);
  if (json.is_discarded()) return corrupt("{}: not valid JSON", what);
  return json;
}

Result<std::optional<int64_t>> json_int(const Json& object, std::string_view key) {
  const Json* value = find(object, key);
  if (value == nullptr) return std::optional<int64_t>();
  TANDEM_ASSIGN(const int64_t number, as_int(key, *value));
  return std::optional<int64_t>(number);
}

Result<std::optional<double>> json_number(const Json& object, std::string_view key) {
  const Json* value = find(object, key);
  if (value == nullptr) return std::optional<double>();
  if (!value->is_number()) return wrong_type(key, "a number", *value);
  return std::optional<double>(value->get<double>());
}

Result<std::optional<bool>> json_bool(const Json& object, std::string_view key) {
  const Json* value = find(object, key);
  if (value == nullptr) return std::optional<bool>();
  if (!value->is_boolean()) return wrong_type(key, "true or false", *value);
  return std::optional<bool>(value->get<bool>());
}

Result<std::optional<std::string>> json_string(const Json& object, std::string_view key) {
  const Json* value = find(object, key);
  if (value == nullptr) return std::optional<std::string>();
  if (!value->is_string()) return wrong_type(key, "a string", *value);
  return std::optional<std::string>(value->get<std::string>());
}

Result<std::vector<int64_t>> json_ints(const Json& object, std::string_view key) {
  std::vector<int64_t> numbers;
  const Json* value = find(object, key);
  if (value == nullptr) return numbers;
  if (!value->is_array()) {
    TANDEM_ASSIGN(const int64_t number, as_int(key, *value));
    numbers.push_back(number);
    return numbers;
  }
  for (const Json& item : *value) {
    TANDEM_ASSIGN(const int64_t number, as_int(key, item));
    numbers.push_back(number);
  }
  return numbers;
}

std::string dump_json(const Json& json, int indent) {
  return json.dump(indent, ' ', false, Json::error_handler_t::replace);
}

}  // namespace tandem

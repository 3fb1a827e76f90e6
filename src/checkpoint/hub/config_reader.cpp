#include "checkpoint/hub/config_reader.h"

#include <cmath>

#include "base/error.h"
#include "base/format.h"
#include "checkpoint/hub/safetensors.h"

namespace tandem {
namespace {

// Lists in configurations have one item per layer or per rotary frequency.
constexpr size_t kMaxListLength = 100'000;

template <typename T, typename Lookup>
Result<std::optional<T>> read_alias(const Json& object, std::initializer_list<std::string_view> keys,
                                    const std::string& what, std::set<std::string, std::less<>>& read, Lookup lookup) {
  std::optional<T> found;
  std::string_view found_key;
  for (const std::string_view key : keys) {
    read.emplace(key);
    auto result = lookup(object, key);
    if (!result.ok()) return with_context(std::move(result).error(), "{}", what);
    std::optional<T> value = std::move(result).value();
    if (!value) continue;
    if (found && *found != *value) {
      return corrupt("{}: keys \"{}\" and \"{}\" mean the same, but differ; remove the wrong one", what, found_key,
                     key);
    }
    found = std::move(value);
    found_key = key;
  }
  return found;
}

std::string joined(std::initializer_list<std::string_view> keys) {
  std::string text;
  for (const std::string_view key : keys) text += str_format("{}\"{}\"", text.empty() ? "" : " or ", key);
  return text;
}

}  // namespace

Result<std::optional<int64_t>> ConfigReader::integer(Keys keys) {
  return read_alias<int64_t>(object_, keys, what_, read_, json_int);
}

Result<std::optional<double>> ConfigReader::number(Keys keys) {
  TANDEM_ASSIGN(const auto value, (read_alias<double>(object_, keys, what_, read_, json_number)));
  if (value && !std::isfinite(*value)) return corrupt("{}: key {} is not a finite number", what_, joined(keys));
  return value;
}

Result<std::optional<bool>> ConfigReader::boolean(Keys keys) {
  return read_alias<bool>(object_, keys, what_, read_, json_bool);
}

Result<std::optional<std::string>> ConfigReader::string(Keys keys) {
  return read_alias<std::string>(object_, keys, what_, read_, json_string);
}

Result<std::vector<int64_t>> ConfigReader::integers(std::string_view key) {
  read_.emplace(key);
  auto result = json_ints(object_, key);
  if (!result.ok()) return with_context(std::move(result).error(), "{}", what_);
  if (result->size() > kMaxListLength) return corrupt("{}: key \"{}\" is an absurdly long list", what_, key);
  return result;
}

Result<std::vector<double>> ConfigReader::numbers(std::string_view key) {
  read_.emplace(key);
  std::vector<double> values;
  const auto it = object_.find(key);
  if (it == object_.end() || it->is_null()) return values;
  if (!it->is_array())
    return corrupt("{}: key \"{}\" should be a list of numbers, but is {}", what_, key, it->type_name());
  if (it->size() > kMaxListLength) return corrupt("{}: key \"{}\" is an absurdly long list", what_, key);
  for (const Json& item : *it) {
    if (!item.is_number() || !std::isfinite(item.get<double>())) {
      return corrupt("{}: key \"{}\" should hold finite numbers only, but has {}", what_, key, item.type_name());
    }
    values.push_back(item.get<double>());
  }
  return values;
}

Result<std::vector<std::string>> ConfigReader::strings(std::string_view key) {
  read_.emplace(key);
  std::vector<std::string> values;
  const auto it = object_.find(key);
  if (it == object_.end() || it->is_null()) return values;
  if (!it->is_array())
    return corrupt("{}: key \"{}\" should be a list of strings, but is {}", what_, key, it->type_name());
  if (it->size() > kMaxListLength) return corrupt("{}: key \"{}\" is an absurdly long list", what_, key);
  for (const Json& item : *it) {
    if (!item.is_string()) {
      return corrupt("{}: key \"{}\" should hold strings only, but has {}", what_, key, item.type_name());
    }
    values.push_back(item.get<std::string>());
  }
  return values;
}

Result<const Json*> ConfigReader::object(std::string_view key) {
  read_.emplace(key);
  const auto it = object_.find(key);
  if (it == object_.end() || it->is_null()) return static_cast<const Json*>(nullptr);
  if (!it->is_object()) return corrupt("{}: key \"{}\" should be an object, but is {}", what_, key, it->type_name());
  return &*it;
}

Result<std::optional<int64_t>> ConfigReader::size(Keys keys, int64_t limit) {
  TANDEM_ASSIGN(const auto value, integer(keys));
  if (value && (*value < 1 || *value > limit)) {
    return corrupt("{}: key {} is {}, but must be between 1 and {}", what_, joined(keys), *value, limit);
  }
  return value;
}

Result<int64_t> ConfigReader::required_size(Keys keys, int64_t limit) {
  TANDEM_ASSIGN(const auto value, size(keys, limit));
  if (!value) return corrupt("{}: key {} is missing", what_, joined(keys));
  return *value;
}

Result<std::optional<double>> ConfigReader::positive(Keys keys) {
  TANDEM_ASSIGN(const auto value, number(keys));
  if (value && *value <= 0) return corrupt("{}: key {} is {}, but must be above 0", what_, joined(keys), *value);
  return value;
}

Result<std::optional<int64_t>> ConfigReader::token_id(std::string_view key) {
  TANDEM_ASSIGN(const auto value, integer({key}));
  if (!value || *value < 0) return std::optional<int64_t>();
  if (*value > INT32_MAX) return corrupt("{}: key \"{}\" is {}, which is no token id", what_, key, *value);
  return value;
}

Result<std::vector<int64_t>> ConfigReader::token_ids(std::string_view key) {
  TANDEM_ASSIGN(const auto values, integers(key));
  std::vector<int64_t> ids;
  for (const int64_t value : values) {
    if (value > INT32_MAX) return corrupt("{}: key \"{}\" holds {}, which is no token id", what_, key, value);
    if (value >= 0) ids.push_back(value);
  }
  return ids;
}

std::vector<std::string> ConfigReader::unread() const {
  std::vector<std::string> keys;
  for (const auto& [key, value] : object_.items()) {
    if (!value.is_null() && !read_.contains(key)) keys.push_back(printable_name(key));
  }
  return keys;
}

}  // namespace tandem

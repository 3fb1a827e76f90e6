// Reads a JSON configuration key by key: every error names the file and the key, several names may stand for one
// setting, and it records which keys were read, so that the rest can be reported.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "tandem/status.h"

namespace tandem {

class ConfigReader {
 public:
  // One setting under the names that different writers use. If several are present, they must agree.
  using Keys = std::initializer_list<std::string_view>;

  // `object` must be a JSON object and outlive the reader. `what` begins every error: "config.json".
  ConfigReader(const Json& object, std::string_view what) : object_(object), what_(what) {}

  // Absent and null both give nothing.
  Result<std::optional<int64_t>> integer(Keys keys);
  Result<std::optional<double>> number(Keys keys);  // Finite, or an error.
  Result<std::optional<bool>> boolean(Keys keys);
  Result<std::optional<std::string>> string(Keys keys);
  // A list, or a single value as a list of one; empty if absent.
  Result<std::vector<int64_t>> integers(std::string_view key);
  Result<std::vector<double>> numbers(std::string_view key);
  Result<std::vector<std::string>> strings(std::string_view key);
  // Null if absent or null; an error if it is not an object.
  Result<const Json*> object(std::string_view key);

  // A size: between 1 and `limit`.
  Result<std::optional<int64_t>> size(Keys keys, int64_t limit);
  Result<int64_t> required_size(Keys keys, int64_t limit);
  // A number above zero.
  Result<std::optional<double>> positive(Keys keys);
  // A token id. Some old files write -1 for "none".
  Result<std::optional<int64_t>> token_id(std::string_view key);
  Result<std::vector<int64_t>> token_ids(std::string_view key);

  // Counts as read, though its value is not used.
  void ignore(std::string_view key) { read_.emplace(key); }
  // Keys that are present, not null, and were not read.
  std::vector<std::string> unread() const;
  const std::string& what() const { return what_; }

 private:
  const Json& object_;
  std::string what_;
  std::set<std::string, std::less<>> read_;
};

}  // namespace tandem

// GGUF files (versions 2 and 3, little endian): metadata of keys and values, descriptions of tensors, and their data.
// Everything is checked before it is used; strings and data are used in place in the mapped file.
//
// The format: "GGUF", the version, the numbers of tensors and of keys; the keys, each with a typed value (numbers,
// strings, or a list of one of these); the tensors' names, dimensions (the fastest first), types and offsets; then,
// aligned to general.alignment (32), the data.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/stored_tensor.h"
#include "tandem/status.h"

namespace tandem {

struct GgufTensor {
  std::string name;
  WeightEncoding encoding = WeightEncoding::kF32;
  std::vector<int64_t> shape;  // The slowest dimension first, as everywhere else.
  std::span<const uint8_t> bytes;
};

class GgufContent {
 public:
  // `what` names the file in errors. A tensor of a type that cannot be read is refused, naming it.
  static Result<GgufContent> parse(std::span<const uint8_t> file, std::string_view what);

  const std::vector<GgufTensor>& tensors() const { return tensors_; }
  const GgufTensor* find_tensor(std::string_view name) const;
  const std::string& what() const { return what_; }

  // Metadata. An absent key gives nothing; one of another type is an error.
  bool has(std::string_view key) const { return values_.contains(key); }
  Result<std::optional<int64_t>> integer(std::string_view key) const;
  Result<std::optional<double>> number(std::string_view key) const;  // Finite, or an error.
  Result<std::optional<bool>> boolean(std::string_view key) const;
  Result<std::optional<std::string_view>> string(std::string_view key) const;
  // Lists; empty if the key is absent. A single integer is a list of one.
  Result<std::vector<std::string_view>> strings(std::string_view key) const;
  Result<std::vector<int64_t>> integers(std::string_view key) const;
  Result<std::vector<float>> floats(std::string_view key) const;
  // All keys with this prefix, sorted.
  std::vector<std::string_view> keys(std::string_view prefix) const;

 private:
  friend class GgufParser;
  struct Value {
    uint32_t type = 0;
    uint32_t element_type = 0;       // Of a list.
    uint64_t count = 0;              // Of a list.
    std::span<const uint8_t> bytes;  // The number, the text, or the list's elements.
  };
  const Value* find(std::string_view key) const;
  Error wrong_type(std::string_view key, std::string_view wanted, const Value& value) const;

  std::string what_;
  std::map<std::string, Value, std::less<>> values_;
  std::vector<GgufTensor> tensors_;  // In the file's order.
  std::map<std::string, size_t, std::less<>> by_name_;
};

}  // namespace tandem

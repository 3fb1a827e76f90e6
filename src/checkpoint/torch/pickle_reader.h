// Pickles as torch.save() writes them for dictionaries of tensors and numbers, read without executing anything in them.
//
// A pickle is a program for a small stack machine that may call any Python function. Here it can make only
// dictionaries, lists, tuples, strings, numbers, booleans, None, and torch's tensors (which are descriptions: a
// storage's name, an offset, a shape). Every other opcode, and every function or class that is not on the list of
// pickle_reader.cpp, is refused by its name; nothing is ever imported or called.
//
// Values are nodes in a flat list that refer to each other by index, because a pickle may share them: there is no
// recursion, and memory is bounded by the pickle's own size.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tandem/status.h"

namespace tandem {

inline constexpr uint64_t kMaxPickleBytes = 16u << 20;  // That of a 70B model has 200 KB.

struct PickleValue {
  enum class Kind : uint8_t {
    kNone,
    kBool,      // integer
    kInteger,   // integer
    kNumber,    // number
    kString,    // text
    kTuple,     // items
    kList,      // items
    kDict,      // items: key, value, key, value, ...
    kFunction,  // text: "torch._utils._rebuild_tensor_v2"; only as an argument of what makes a tensor
    kStorage,   // text: its key in the archive; storage_type; integer: its number of elements
    kTensor,    // items[0]: its storage; integer: offset in elements; shape, strides
  };
  Kind kind = Kind::kNone;
  int64_t integer = 0;
  double number = 0;
  std::string text = {};
  std::string storage_type = {};  // "BFloat16Storage"
  std::vector<uint32_t> items = {};
  std::vector<int64_t> shape = {};
  std::vector<int64_t> strides = {};
};

class PickleTree {
 public:
  // `what` names the file in errors.
  static Result<PickleTree> parse(std::span<const uint8_t> pickle, std::string_view what);

  const PickleValue& root() const { return values_[root_]; }
  const PickleValue& at(uint32_t index) const { return values_[index]; }
  // The value of a string key of a dictionary; null if it is absent, or `dict` is not a dictionary.
  const PickleValue* find(const PickleValue& dict, std::string_view key) const;
  // A readable type name of a value, for errors: "a list".
  static std::string_view kind_name(PickleValue::Kind kind);

 private:
  friend class PickleMachine;
  std::vector<PickleValue> values_;
  uint32_t root_ = 0;
};

}  // namespace tandem

#include "checkpoint/torch/pickle_reader.h"

#include <algorithm>
#include <bit>
#include <unordered_map>

#include "base/byte_reader.h"
#include "base/error.h"
#include "checkpoint/hub/safetensors.h"
#include "checkpoint/torch/pickle_opcodes.h"

namespace tandem {
namespace {

constexpr uint8_t kMaxProtocol = 5;
constexpr size_t kMaxValues = 500'000;  // A checkpoint has about ten per tensor.
constexpr size_t kMaxKeyBytes = 64;     // Of a storage; they are numbers.
constexpr size_t kMaxPickledRank = 16;
constexpr size_t kMaxGlobalBytes = 200;

// Everything that a pickle may name. Anything else could be code.
constexpr std::string_view kRebuildTensor = "torch._utils._rebuild_tensor";
constexpr std::string_view kRebuildTensorV2 = "torch._utils._rebuild_tensor_v2";
constexpr std::string_view kRebuildParameter = "torch._utils._rebuild_parameter";
constexpr std::string_view kOrderedDict = "collections.OrderedDict";
constexpr std::string_view kStorages[] = {
    "torch.FloatStorage", "torch.HalfStorage",  "torch.BFloat16Storage", "torch.DoubleStorage", "torch.LongStorage",
    "torch.IntStorage",   "torch.ShortStorage", "torch.CharStorage",     "torch.ByteStorage",   "torch.BoolStorage",
};

bool is_storage(std::string_view name) { return std::ranges::find(kStorages, name) != std::end(kStorages); }

bool is_known(std::string_view name) {
  return name == kRebuildTensor || name == kRebuildTensorV2 || name == kRebuildParameter || name == kOrderedDict ||
         is_storage(name);
}

using Kind = PickleValue::Kind;

}  // namespace

class PickleMachine {
 public:
  PickleMachine(std::span<const uint8_t> pickle, std::string_view what) : reader_(pickle), what_(what) {}

  Result<PickleTree> run() {
    while (true) {
      const uint64_t at = reader_.position();
      const uint8_t code = reader_.u8();
      if (!reader_.ok()) return corrupt("{}: the pickle is cut off at byte {}", what_, at);
      if (code == '.') break;
      TANDEM_TRY(step(code));
      if (!reader_.ok()) {
        return corrupt("{}: the pickle is cut off in {} at byte {}", what_, pickle_opcode_name(code), at);
      }
      if (std::max({tree_.values_.size(), stack_.size(), marks_.size(), memo_.size()}) > kMaxValues) {
        return corrupt("{}: the pickle makes more than {} values, which no checkpoint has", what_, kMaxValues);
      }
    }
    TANDEM_ASSIGN(tree_.root_, pop());
    return std::move(tree_);
  }

 private:
  Status step(uint8_t code) {
    switch (code) {
      case 0x80: {  // PROTO
        const uint8_t protocol = reader_.u8();
        if (protocol > kMaxProtocol) {
          return unsupported("{}: pickle protocol {} is not known (0 to {} are)", what_, protocol, kMaxProtocol);
        }
        return ok_status();
      }
      case 0x95: reader_.skip(8); return ok_status();  // FRAME: how the writer split its buffers.
      case 'N': return push({.kind = Kind::kNone});
      case 0x88: return push({.kind = Kind::kBool, .integer = 1});
      case 0x89: return push({.kind = Kind::kBool});
      case 'K': return push({.kind = Kind::kInteger, .integer = reader_.u8()});
      case 'M': return push({.kind = Kind::kInteger, .integer = reader_.u16()});
      case 'J': return push({.kind = Kind::kInteger, .integer = reader_.i32()});
      case 0x8a: return long_number();
      case 'G': return push({.kind = Kind::kNumber, .number = big_endian_double()});
      case 'X': return string(reader_.u32());
      case 0x8c: return string(reader_.u8());
      case 0x8d: return string(reader_.u64());
      case ')': return push({.kind = Kind::kTuple});
      case ']': return push({.kind = Kind::kList});
      case '}': return push({.kind = Kind::kDict});
      case '(': marks_.push_back(stack_.size()); return ok_status();
      case 't': return tuple_from_mark();
      case 0x85: return tuple_of(1);
      case 0x86: return tuple_of(2);
      case 0x87: return tuple_of(3);
      case 'a': return append();
      case 'e': return append_from_mark(Kind::kList);
      case 's': return set_item();
      case 'u': return append_from_mark(Kind::kDict);
      case 'q': return remember(reader_.u8());
      case 'r': return remember(reader_.u32());
      case 0x94: return remember(static_cast<uint32_t>(memo_.size()));
      case 'h': return recall(reader_.u8());
      case 'j': return recall(reader_.u32());
      case 'c': return global();
      case 0x93: return stack_global();
      case 'Q': return storage();
      case 'R': return reduce();
      case 'b': return build();
      default:
        return unsupported(
            "{}: the pickle uses {}, which a file of tensors, dictionaries, numbers and strings does not need; it was "
            "not run",
            what_, pickle_opcode_name(code));
    }
  }

  // ---- The stack ----

  size_t height() const { return stack_.size() - (marks_.empty() ? 0 : marks_.back()); }

  Error underflow() const { return corrupt("{}: the pickle takes a value that it has not made", what_); }

  Status push(PickleValue value) {
    stack_.push_back(static_cast<uint32_t>(tree_.values_.size()));
    tree_.values_.push_back(std::move(value));
    return ok_status();
  }

  Result<uint32_t> pop() {
    if (height() == 0) return underflow();
    const uint32_t top = stack_.back();
    stack_.pop_back();
    return top;
  }

  // Pops all values above the last mark, and the mark.
  Result<std::vector<uint32_t>> pop_mark() {
    if (marks_.empty()) return underflow();
    const auto begin = stack_.begin() + static_cast<std::ptrdiff_t>(marks_.back());
    std::vector<uint32_t> values(begin, stack_.end());
    stack_.erase(begin, stack_.end());
    marks_.pop_back();
    return values;
  }

  Result<PickleValue*> top_of_kind(Kind kind) {
    if (height() == 0) return underflow();
    PickleValue& top = tree_.values_[stack_.back()];
    if (top.kind != kind) {
      return corrupt("{}: the pickle adds items to {}", what_, PickleTree::kind_name(top.kind));
    }
    return &top;
  }

  // ---- Plain values ----

  Status long_number() {
    const uint8_t size = reader_.u8();
    const auto bytes = reader_.read_bytes(size);
    if (size > 8) return unsupported("{}: the pickle has a whole number of {} bytes; 8 are the most", what_, size);
    uint64_t value = 0;
    for (size_t i = 0; i < bytes.size(); ++i) value |= uint64_t{bytes[i]} << (8 * i);
    // Two's complement in as many bytes as there are.
    if (!bytes.empty() && bytes.size() < 8 && (bytes.back() & 0x80u) != 0) value |= ~uint64_t{0} << (8 * bytes.size());
    return push({.kind = Kind::kInteger, .integer = static_cast<int64_t>(value)});
  }

  double big_endian_double() {
    uint64_t bits = 0;
    for (const uint8_t byte : reader_.read_bytes(8)) bits = bits << 8 | byte;
    return std::bit_cast<double>(bits);
  }

  Status string(uint64_t size) { return push({.kind = Kind::kString, .text = std::string(reader_.text(size))}); }

  Status tuple_of(size_t count) {
    if (height() < count) return underflow();
    const auto begin = stack_.end() - static_cast<std::ptrdiff_t>(count);
    std::vector<uint32_t> items(begin, stack_.end());
    stack_.erase(begin, stack_.end());
    return push({.kind = Kind::kTuple, .items = std::move(items)});
  }

  Status tuple_from_mark() {
    TANDEM_ASSIGN(std::vector<uint32_t> items, pop_mark());
    return push({.kind = Kind::kTuple, .items = std::move(items)});
  }

  Status append() {
    TANDEM_ASSIGN(const uint32_t item, pop());
    TANDEM_ASSIGN(PickleValue * list, top_of_kind(Kind::kList));
    list->items.push_back(item);
    return ok_status();
  }

  Status append_from_mark(Kind kind) {
    TANDEM_ASSIGN(const std::vector<uint32_t> items, pop_mark());
    TANDEM_ASSIGN(PickleValue * container, top_of_kind(kind));
    if (kind == Kind::kDict && items.size() % 2 != 0) {
      return corrupt("{}: the pickle gives a dictionary a key without a value", what_);
    }
    container->items.insert(container->items.end(), items.begin(), items.end());
    return ok_status();
  }

  Status set_item() {
    TANDEM_ASSIGN(const uint32_t value, pop());
    TANDEM_ASSIGN(const uint32_t key, pop());
    TANDEM_ASSIGN(PickleValue * dict, top_of_kind(Kind::kDict));
    dict->items.push_back(key);
    dict->items.push_back(value);
    return ok_status();
  }

  Status remember(uint32_t slot) {
    if (height() == 0) return underflow();
    memo_[slot] = stack_.back();
    return ok_status();
  }

  Status recall(uint32_t slot) {
    const auto it = memo_.find(slot);
    if (it == memo_.end()) return corrupt("{}: the pickle recalls value {}, which it has not kept", what_, slot);
    stack_.push_back(it->second);
    return ok_status();
  }

  // ---- What Python would import and call ----

  Status function(std::string name) {
    if (!is_known(name)) {
      return unsupported(
          "{}: the pickle names {}, which is none of the few things that a file of tensors needs; it was not run",
          what_, printable_name(name));
    }
    return push({.kind = Kind::kFunction, .text = std::move(name)});
  }

  // Text up to the end of the line.
  std::string line() {
    std::string text;
    for (char c = static_cast<char>(reader_.u8()); reader_.ok() && c != '\n'; c = static_cast<char>(reader_.u8())) {
      if (text.size() < kMaxGlobalBytes) text += c;
    }
    return text;
  }

  Status global() {
    const std::string module = line();
    const std::string name = line();
    if (!reader_.ok()) return ok_status();  // The caller checks.
    return function(module + "." + name);
  }

  Status stack_global() {
    TANDEM_ASSIGN(const uint32_t name, pop());
    TANDEM_ASSIGN(const uint32_t module, pop());
    if (at(name).kind != Kind::kString || at(module).kind != Kind::kString) {
      return corrupt("{}: the pickle names a function by something that is no text", what_);
    }
    return function(at(module).text.substr(0, kMaxGlobalBytes) + "." + at(name).text.substr(0, kMaxGlobalBytes));
  }

  const PickleValue& at(uint32_t index) const { return tree_.values_[index]; }
  // The i-th item of a tuple or list.
  const PickleValue& item(const PickleValue& of, size_t i) const { return at(of.items[i]); }

  // A storage is a persistent id: ("storage", its class, key in the archive, device, number of elements).
  Status storage() {
    TANDEM_ASSIGN(const uint32_t index, pop());
    const PickleValue& id = at(index);
    if (id.kind != Kind::kTuple || id.items.size() < 5 || item(id, 0).kind != Kind::kString ||
        item(id, 0).text != "storage" || item(id, 1).kind != Kind::kFunction || !is_storage(item(id, 1).text) ||
        item(id, 2).kind != Kind::kString || item(id, 2).text.size() > kMaxKeyBytes ||
        item(id, 4).kind != Kind::kInteger || item(id, 4).integer < 0) {
      return corrupt("{}: the pickle refers to something outside of it that is not a tensor's storage", what_);
    }
    PickleValue value{.kind = Kind::kStorage, .integer = item(id, 4).integer, .text = item(id, 2).text};
    value.storage_type = item(id, 1).text.substr(std::string_view("torch.").size());
    return push(std::move(value));
  }

  Status reduce() {
    TANDEM_ASSIGN(const uint32_t arguments_index, pop());
    TANDEM_ASSIGN(const uint32_t function_index, pop());
    const PickleValue& callee = at(function_index);
    const PickleValue& arguments = at(arguments_index);
    if (callee.kind != Kind::kFunction || arguments.kind != Kind::kTuple) {
      return corrupt("{}: the pickle calls {}", what_, PickleTree::kind_name(callee.kind));
    }
    if (callee.text == kOrderedDict) {
      if (!arguments.items.empty()) return unsupported("{}: the pickle makes an OrderedDict from a list", what_);
      return push({.kind = Kind::kDict});
    }
    if (callee.text == kRebuildParameter) {
      if (arguments.items.empty() || item(arguments, 0).kind != Kind::kTensor) {
        return corrupt("{}: the pickle makes a parameter of something that is no tensor", what_);
      }
      stack_.push_back(arguments.items[0]);
      return ok_status();
    }
    if (callee.text == kRebuildTensor || callee.text == kRebuildTensorV2) return tensor(arguments);
    return unsupported("{}: the pickle calls {}, which makes no tensor; it was not run", what_, callee.text);
  }

  // (storage, offset, shape, strides, whether it was trained, hooks, ...)
  Status tensor(const PickleValue& arguments) {
    if (arguments.items.size() < 4 || item(arguments, 0).kind != Kind::kStorage ||
        item(arguments, 1).kind != Kind::kInteger || item(arguments, 1).integer < 0) {
      return corrupt("{}: the pickle makes a tensor of wrong arguments", what_);
    }
    PickleValue value{.kind = Kind::kTensor, .integer = item(arguments, 1).integer, .items = {arguments.items[0]}};
    for (const auto& [position, target] : {std::pair{size_t{2}, &value.shape}, {size_t{3}, &value.strides}}) {
      const PickleValue& sizes = item(arguments, position);
      if (sizes.kind != Kind::kTuple || sizes.items.size() > kMaxPickledRank) {
        return corrupt("{}: the pickle makes a tensor without a proper shape", what_);
      }
      for (size_t i = 0; i < sizes.items.size(); ++i) {
        const PickleValue& size = item(sizes, i);
        if (size.kind != Kind::kInteger || size.integer < 0) {
          return corrupt("{}: the pickle makes a tensor without a proper shape", what_);
        }
        target->push_back(size.integer);
      }
    }
    if (value.shape.size() != value.strides.size()) {
      return corrupt("{}: the pickle makes a tensor of {} dimensions and {} strides", what_, value.shape.size(),
                     value.strides.size());
    }
    return push(std::move(value));
  }

  // Sets attributes. A state_dict stores the versions of its modules this way, which are not needed here.
  Status build() {
    TANDEM_TRY(pop().status());
    if (height() == 0) return underflow();
    const PickleValue& object = at(stack_.back());
    if (object.kind == Kind::kDict) return ok_status();
    return unsupported("{}: the pickle sets attributes of {}; only dictionaries have any here", what_,
                       PickleTree::kind_name(object.kind));
  }

  ByteReader reader_;
  std::string what_;
  PickleTree tree_;
  std::vector<uint32_t> stack_;
  std::vector<size_t> marks_;
  std::unordered_map<uint32_t, uint32_t> memo_;
};

Result<PickleTree> PickleTree::parse(std::span<const uint8_t> pickle, std::string_view what) {
  if (pickle.size() > kMaxPickleBytes) {
    return corrupt("{}: a pickle of {} bytes is more than any checkpoint has", what, pickle.size());
  }
  return PickleMachine(pickle, what).run();
}

const PickleValue* PickleTree::find(const PickleValue& dict, std::string_view key) const {
  if (dict.kind != Kind::kDict) return nullptr;
  const PickleValue* found = nullptr;
  for (size_t i = 0; i + 1 < dict.items.size(); i += 2) {
    const PickleValue& name = values_[dict.items[i]];
    if (name.kind == Kind::kString && name.text == key) found = &values_[dict.items[i + 1]];  // The last one wins.
  }
  return found;
}

std::string_view PickleTree::kind_name(Kind kind) {
  switch (kind) {
    case Kind::kNone: return "None";
    case Kind::kBool: return "a truth value";
    case Kind::kInteger: return "a whole number";
    case Kind::kNumber: return "a number";
    case Kind::kString: return "a text";
    case Kind::kTuple: return "a tuple";
    case Kind::kList: return "a list";
    case Kind::kDict: return "a dictionary";
    case Kind::kFunction: return "a function";
    case Kind::kStorage: return "a storage";
    case Kind::kTensor: return "a tensor";
  }
  return "something";
}

}  // namespace tandem

#include "checkpoint/gguf/gguf.h"

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <cmath>

#include "base/byte_reader.h"
#include "base/checked.h"
#include "base/error.h"
#include "base/format.h"
#include "checkpoint/file_kind.h"
#include "checkpoint/hub/safetensors.h"

namespace tandem {
namespace {

constexpr uint64_t kMaxGgufNameBytes = 65535;
constexpr uint32_t kMaxGgufRank = 4;
constexpr uint64_t kDefaultAlignment = 32;
constexpr uint64_t kMaxAlignment = 1 << 20;
// No real file has this many; each uses memory in addition to its bytes.
constexpr uint64_t kMaxKeys = 100'000;
constexpr uint64_t kMaxTensors = 1'000'000;

enum ValueType : uint32_t {
  kU8 = 0,
  kI8 = 1,
  kU16 = 2,
  kI16 = 3,
  kU32 = 4,
  kI32 = 5,
  kF32 = 6,
  kBool = 7,
  kString = 8,
  kArray = 9,
  kU64 = 10,
  kI64 = 11,
  kF64 = 12,
};

struct ValueTypeRow {
  std::string_view name;
  uint64_t bytes;  // 0: no fixed size.
};
constexpr std::array<ValueTypeRow, 13> kValueTypes = {{
    {"an 8-bit number", 1},
    {"an 8-bit number", 1},
    {"a 16-bit number", 2},
    {"a 16-bit number", 2},
    {"a 32-bit number", 4},
    {"a 32-bit number", 4},
    {"a float", 4},
    {"a truth value", 1},
    {"a text", 0},
    {"a list", 0},
    {"a 64-bit number", 8},
    {"a 64-bit number", 8},
    {"a double", 8},
}};

struct TensorTypeRow {
  uint32_t type;
  std::string_view name;
  std::optional<WeightEncoding> encoding;
};
constexpr TensorTypeRow kTensorTypes[] = {
    {0, "F32", WeightEncoding::kF32},
    {1, "F16", WeightEncoding::kF16},
    {2, "Q4_0", WeightEncoding::kQ4_0},
    {3, "Q4_1", {}},
    {6, "Q5_0", {}},
    {7, "Q5_1", {}},
    {8, "Q8_0", WeightEncoding::kQ8_0},
    {9, "Q8_1", {}},
    {10, "Q2_K", {}},
    {11, "Q3_K", {}},
    {12, "Q4_K", {}},
    {13, "Q5_K", {}},
    {14, "Q6_K", WeightEncoding::kQ6_K},
    {15, "Q8_K", {}},
    {16, "IQ2_XXS", {}},
    {17, "IQ2_XS", {}},
    {18, "IQ3_XXS", {}},
    {19, "IQ1_S", {}},
    {20, "IQ4_NL", {}},
    {21, "IQ3_S", {}},
    {22, "IQ2_S", {}},
    {23, "IQ4_XS", {}},
    {24, "I8", {}},
    {25, "I16", {}},
    {26, "I32", {}},
    {27, "I64", {}},
    {28, "F64", {}},
    {29, "IQ1_M", {}},
    {30, "BF16", WeightEncoding::kBF16},
    {34, "TQ1_0", {}},
    {35, "TQ2_0", {}},
    {39, "MXFP4", {}},
};

std::optional<int64_t> as_integer(uint32_t type, ByteReader& reader) {
  switch (type) {
    case kU8: return reader.u8();
    case kI8: return reader.i8();
    case kU16: return reader.u16();
    case kI16: return reader.i16();
    case kU32: return reader.u32();
    case kI32: return reader.i32();
    case kI64: return reader.i64();
    case kU64: {
      const uint64_t value = reader.u64();
      if (value > static_cast<uint64_t>(INT64_MAX)) return std::nullopt;
      return static_cast<int64_t>(value);
    }
    default: return std::nullopt;
  }
}

std::string_view as_text(std::span<const uint8_t> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

}  // namespace

class GgufParser {
 public:
  GgufParser(std::span<const uint8_t> file, std::string_view what) : file_(file), reader_(file), what_(what) {
    content_.what_ = what;
  }

  Result<GgufContent> run() {
    if (!looks_like_gguf(file_)) return wrong_kind(file_, what_, "a GGUF file");
    reader_.skip(4);
    const uint32_t version = reader_.u32();
    if (!reader_.ok()) return cut_off();
    if (version != 0 && (version & 0xffffu) == 0) {
      return unsupported("{}: this GGUF file is big endian; only little endian ones can be read", what_);
    }
    if (version != 2 && version != 3) {
      return unsupported("{}: GGUF version {} is not known (2 and 3 are); convert the model again", what_, version);
    }
    const uint64_t tensors = reader_.u64(), keys = reader_.u64();
    if (!reader_.ok()) return cut_off();
    if (keys > kMaxKeys || tensors > kMaxTensors) {
      return corrupt("{}: {} tensors and {} keys are more than any model has", what_, tensors, keys);
    }
    for (uint64_t i = 0; i < keys; ++i) TANDEM_TRY(read_key());
    TANDEM_TRY(read_alignment());
    std::vector<uint64_t> offsets;
    for (uint64_t i = 0; i < tensors; ++i) TANDEM_TRY(read_tensor(offsets));
    TANDEM_TRY(find_data(offsets));
    return std::move(content_);
  }

 private:
  Error cut_off() const { return corrupt("{}: the file is cut off; download it again", what_); }

  Result<std::string_view> read_string(uint64_t limit, std::string_view of) {
    const uint64_t size = reader_.u64();
    if (reader_.ok() && size > limit && size <= reader_.left()) {
      return corrupt("{}: {} of {} bytes is more than any file has", what_, of, size);
    }
    const std::string_view text = reader_.text(size);
    if (!reader_.ok()) return cut_off();
    return text;
  }

  Status read_key() {
    TANDEM_ASSIGN(const std::string_view key, read_string(kMaxGgufNameBytes, "a key's name"));
    GgufContent::Value value;
    value.type = reader_.u32();
    if (!reader_.ok()) return cut_off();
    TANDEM_TRY(read_value(key, value));
    if (!content_.values_.emplace(std::string(key), value).second) {
      return corrupt("{}: key \"{}\" is there twice", what_, printable_name(key));
    }
    return ok_status();
  }

  Status read_value(std::string_view key, GgufContent::Value& value) {
    if (value.type >= kValueTypes.size()) {
      return corrupt("{}: key \"{}\" has the unknown type {}", what_, printable_name(key), value.type);
    }
    if (value.type == kString) {
      value.bytes = reader_.read_bytes(reader_.u64());
    } else if (value.type != kArray) {
      value.bytes = reader_.read_bytes(kValueTypes[value.type].bytes);
    } else {
      value.element_type = reader_.u32();
      value.count = reader_.u64();
      if (!reader_.ok()) return cut_off();
      if (value.element_type >= kValueTypes.size() || value.element_type == kArray) {
        return corrupt("{}: key \"{}\" is a list of the unknown type {}", what_, printable_name(key),
                       value.element_type);
      }
      const uint64_t begin = reader_.position();
      if (value.element_type == kString) {
        // Each has at least eight bytes, so a huge count ends with the file.
        for (uint64_t i = 0; i < value.count && reader_.ok(); ++i) reader_.skip(reader_.u64());
      } else {
        const auto size = checked_mul(value.count, kValueTypes[value.element_type].bytes);
        if (!size) return cut_off();
        reader_.skip(*size);
      }
      if (reader_.ok()) value.bytes = file_.subspan(begin, reader_.position() - begin);
    }
    return reader_.ok() ? ok_status() : Status(cut_off());
  }

  Status read_alignment() {
    TANDEM_ASSIGN(const auto alignment, content_.integer("general.alignment"));
    if (!alignment) return ok_status();
    if (*alignment < 1 || *alignment > static_cast<int64_t>(kMaxAlignment) ||
        !std::has_single_bit(static_cast<uint64_t>(*alignment))) {
      return corrupt("{}: general.alignment is {}, but must be a power of two up to {}", what_, *alignment,
                     kMaxAlignment);
    }
    alignment_ = static_cast<uint64_t>(*alignment);
    return ok_status();
  }

  Status read_tensor(std::vector<uint64_t>& offsets) {
    TANDEM_ASSIGN(const std::string_view name, read_string(kMaxGgufNameBytes, "a tensor's name"));
    GgufTensor tensor;
    tensor.name = name;
    const uint32_t rank = reader_.u32();
    if (!reader_.ok()) return cut_off();
    if (rank > kMaxGgufRank) {
      return corrupt("{}: tensor \"{}\" has {} dimensions; {} are the most", what_, printable_name(name), rank,
                     kMaxGgufRank);
    }
    for (uint32_t i = 0; i < rank; ++i) {
      const uint64_t dimension = reader_.u64();
      if (reader_.ok() && (dimension == 0 || dimension > static_cast<uint64_t>(INT64_MAX))) {
        return corrupt("{}: tensor \"{}\" has a dimension of {}", what_, printable_name(name), dimension);
      }
      tensor.shape.insert(tensor.shape.begin(), static_cast<int64_t>(dimension));
    }
    const uint32_t type = reader_.u32();
    offsets.push_back(reader_.u64());
    if (!reader_.ok()) return cut_off();
    const auto row = std::ranges::find(kTensorTypes, type, &TensorTypeRow::type);
    if (row == std::end(kTensorTypes)) {
      return unsupported("{}: tensor \"{}\" has the unknown type {}", what_, printable_name(name), type);
    }
    if (!row->encoding) {
      return unsupported("{}: tensor \"{}\" is {}, which cannot be read; use a file in F32, F16, BF16, Q8_0 or Q4_0",
                         what_, printable_name(name), row->name);
    }
    tensor.encoding = *row->encoding;
    if (!content_.by_name_.emplace(tensor.name, content_.tensors_.size()).second) {
      return corrupt("{}: tensor \"{}\" is there twice", what_, printable_name(name));
    }
    content_.tensors_.push_back(std::move(tensor));
    return ok_status();
  }

  Status find_data(const std::vector<uint64_t>& offsets) {
    const uint64_t begin = round_up(reader_.position(), alignment_);
    const uint64_t size = begin < file_.size() ? file_.size() - begin : 0;
    for (size_t i = 0; i < offsets.size(); ++i) {
      GgufTensor& tensor = content_.tensors_[i];
      const auto wrong = [&](std::string_view why) {
        return corrupt("{}: tensor \"{}\" ({} [{}]) {}", what_, printable_name(tensor.name),
                       encoding_layout(tensor.encoding).name, str_join(tensor.shape, ", "), why);
      };
      const int64_t row = tensor.shape.empty() ? 1 : tensor.shape.back();
      const auto count = element_count(tensor.shape);
      const auto row_bytes = encoded_bytes(tensor.encoding, static_cast<uint64_t>(row));
      if (static_cast<uint64_t>(row) % encoding_layout(tensor.encoding).elements != 0) {
        return wrong("has rows that are no whole number of blocks");
      }
      const auto bytes =
          count && row_bytes ? checked_mul(*row_bytes, *count / static_cast<uint64_t>(row)) : std::nullopt;
      if (!bytes) return wrong("is larger than any file");
      if (offsets[i] % alignment_ != 0) return wrong("does not begin where the file's alignment asks for");
      if (!range_inside(offsets[i], *bytes, size)) return wrong("reaches out of the file, which may be cut off");
      tensor.bytes = file_.subspan(begin + offsets[i], *bytes);
    }
    return ok_status();
  }

  std::span<const uint8_t> file_;
  ByteReader reader_;
  std::string what_;
  GgufContent content_;
  uint64_t alignment_ = kDefaultAlignment;
};

Result<GgufContent> GgufContent::parse(std::span<const uint8_t> file, std::string_view what) {
  return GgufParser(file, what).run();
}

const GgufTensor* GgufContent::find_tensor(std::string_view name) const {
  const auto it = by_name_.find(name);
  return it == by_name_.end() ? nullptr : &tensors_[it->second];
}

const GgufContent::Value* GgufContent::find(std::string_view key) const {
  const auto it = values_.find(key);
  return it == values_.end() ? nullptr : &it->second;
}

Error GgufContent::wrong_type(std::string_view key, std::string_view wanted, const Value& value) const {
  return corrupt("{}: key \"{}\" should be {}, but is {}", what_, key, wanted, kValueTypes[value.type].name);
}

Result<std::optional<int64_t>> GgufContent::integer(std::string_view key) const {
  const Value* value = find(key);
  if (value == nullptr) return std::optional<int64_t>();
  ByteReader reader(value->bytes);
  const auto number = as_integer(value->type, reader);
  if (!number) return wrong_type(key, "a whole number", *value);
  return std::optional<int64_t>(*number);
}

Result<std::optional<double>> GgufContent::number(std::string_view key) const {
  const Value* value = find(key);
  if (value == nullptr) return std::optional<double>();
  ByteReader reader(value->bytes);
  double number = 0;
  if (value->type == kF32) {
    // The shortest decimal for this float is what the model's author wrote: 1e-5, not 9.99999974738e-06.
    const std::string text = str_format("{}", reader.f32());
    std::from_chars(text.data(), text.data() + text.size(), number);
  } else if (value->type == kF64) {
    number = reader.f64();
  } else if (const auto whole = as_integer(value->type, reader)) {
    number = static_cast<double>(*whole);
  } else {
    return wrong_type(key, "a number", *value);
  }
  if (!std::isfinite(number)) return corrupt("{}: key \"{}\" is not a finite number", what_, key);
  return std::optional<double>(number);
}

Result<std::optional<bool>> GgufContent::boolean(std::string_view key) const {
  const Value* value = find(key);
  if (value == nullptr) return std::optional<bool>();
  if (value->type != kBool) return wrong_type(key, "a truth value", *value);
  return std::optional<bool>(value->bytes[0] != 0);
}

Result<std::optional<std::string_view>> GgufContent::string(std::string_view key) const {
  const Value* value = find(key);
  if (value == nullptr) return std::optional<std::string_view>();
  if (value->type != kString) return wrong_type(key, "a text", *value);
  return std::optional(as_text(value->bytes));
}

Result<std::vector<std::string_view>> GgufContent::strings(std::string_view key) const {
  std::vector<std::string_view> list;
  const Value* value = find(key);
  if (value == nullptr) return list;
  if (value->type != kArray || value->element_type != kString) return wrong_type(key, "a list of texts", *value);
  list.reserve(value->count);
  ByteReader reader(value->bytes);
  for (uint64_t i = 0; i < value->count; ++i) list.push_back(reader.text(reader.u64()));
  return list;
}

Result<std::vector<int64_t>> GgufContent::integers(std::string_view key) const {
  std::vector<int64_t> list;
  const Value* value = find(key);
  if (value == nullptr) return list;
  const bool is_list = value->type == kArray;
  ByteReader reader(value->bytes);
  for (uint64_t i = 0; i < (is_list ? value->count : 1); ++i) {
    const auto number = as_integer(is_list ? value->element_type : value->type, reader);
    if (!number) return wrong_type(key, "whole numbers", *value);
    list.push_back(*number);
  }
  return list;
}

Result<std::vector<float>> GgufContent::floats(std::string_view key) const {
  std::vector<float> list;
  const Value* value = find(key);
  if (value == nullptr) return list;
  if (value->type != kArray || value->element_type != kF32) return wrong_type(key, "a list of floats", *value);
  ByteReader reader(value->bytes);
  for (uint64_t i = 0; i < value->count; ++i) list.push_back(reader.f32());
  return list;
}

std::vector<std::string_view> GgufContent::keys(std::string_view prefix) const {
  std::vector<std::string_view> found;
  for (auto it = values_.lower_bound(prefix); it != values_.end() && it->first.starts_with(prefix); ++it) {
    found.push_back(it->first);
  }
  return found;
}

}  // namespace tandem

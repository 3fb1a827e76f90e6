#include "checkpoint/hub/safetensors.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <unordered_set>

#include "base/checked.h"
#include "base/error.h"
#include "base/format.h"
#include "base/json.h"

namespace tandem {
namespace {

constexpr size_t kMaxRank = 16;

struct DTypeRow {
  std::string_view name;
  uint64_t bits;
  std::optional<DType> dtype;
};

// Every type of the format, so that sizes can be checked even for tensors that we cannot use.
constexpr std::array<DTypeRow, 22> kDTypes = {{
    {"F32", 32, DType::kF32},
    {"F16", 16, DType::kF16},
    {"BF16", 16, DType::kBF16},
    {"I8", 8, DType::kI8},
    {"U8", 8, DType::kU8},
    {"I16", 16, DType::kI16},
    {"U16", 16, DType::kU16},
    {"I32", 32, DType::kI32},
    {"I64", 64, DType::kI64},
    {"F64", 64, std::nullopt},
    {"U32", 32, std::nullopt},
    {"U64", 64, std::nullopt},
    {"BOOL", 8, std::nullopt},
    {"C64", 64, std::nullopt},
    {"F8_E4M3", 8, std::nullopt},
    {"F8_E5M2", 8, std::nullopt},
    {"F8_E8M0", 8, std::nullopt},
    {"F8_E4M3FNUZ", 8, std::nullopt},
    {"F8_E5M2FNUZ", 8, std::nullopt},
    {"F6_E2M3", 6, std::nullopt},
    {"F6_E3M2", 6, std::nullopt},
    {"F4", 4, std::nullopt},
}};

const DTypeRow* find_dtype(std::string_view name) {
  const auto it = std::find_if(kDTypes.begin(), kDTypes.end(), [&](const DTypeRow& row) { return row.name == name; });
  return it == kDTypes.end() ? nullptr : &*it;
}

// Handles the header's JSON event by event. Building a document first would lose duplicate keys (the last one wins) and
// take many times the header's size in memory.
class HeaderHandler {
 public:
  HeaderHandler(std::string_view what, SafetensorsHeader& header) : what_(what), header_(header) {}

  std::optional<Error> take_error() { return std::move(error_); }

  bool null() {
    // A writer without metadata may write null.
    if (state_ == State::kTop && in_metadata_) return true;
    return scalar("null");
  }
  bool boolean(bool) { return scalar("a boolean"); }
  bool number_integer(Json::number_integer_t) { return scalar("a negative number"); }
  bool number_float(Json::number_float_t, const std::string&) { return scalar("a fraction or a number too large"); }
  bool binary(Json::binary_t&) { return scalar("binary data"); }

  bool number_unsigned(Json::number_unsigned_t value) {
    if (state_ == State::kShape) {
      if (value > static_cast<uint64_t>(INT64_MAX)) return fail_entry("a dimension is too large");
      if (entry_.shape.size() == kMaxRank) return fail_entry(str_format("has more than {} dimensions", kMaxRank));
      entry_.shape.push_back(static_cast<int64_t>(value));
      return true;
    }
    if (state_ == State::kOffsets) {
      if (offsets_ == 2) return fail_entry("data_offsets has more than two numbers");
      (offsets_++ == 0 ? entry_.begin : entry_.end) = value;
      return true;
    }
    return scalar("a number");
  }

  bool string(std::string& value) {
    if (state_ == State::kMetadata) {
      header_.metadata[key_] = std::move(value);
      return true;
    }
    if (state_ == State::kEntry && field_ == Field::kDType) {
      entry_.dtype_name = std::move(value);
      return true;
    }
    return scalar("a string");
  }

  bool start_object(size_t) {
    switch (state_) {
      case State::kStart: state_ = State::kTop; return true;
      case State::kTop: state_ = in_metadata_ ? State::kMetadata : State::kEntry; return true;
      default: return start_nested("an object");
    }
  }

  bool end_object() {
    switch (state_) {
      case State::kSkip: return end_nested();
      case State::kMetadata: state_ = State::kTop; return true;
      case State::kEntry: state_ = State::kTop; return finish_entry();
      default: state_ = State::kStart; return true;
    }
  }

  bool start_array(size_t) {
    if (state_ == State::kEntry && field_ == Field::kShape) {
      state_ = State::kShape;
      return true;
    }
    if (state_ == State::kEntry && field_ == Field::kOffsets) {
      state_ = State::kOffsets;
      return true;
    }
    return start_nested("a list");
  }

  bool end_array() {
    if (state_ == State::kSkip) return end_nested();
    state_ = State::kEntry;
    return true;
  }

  bool key(std::string& value) {
    if (state_ == State::kTop) {
      if (!names_.insert(value).second) {
        return fail(corrupt("{}: tensor \"{}\" is in the header twice", what_, printable_name(value)));
      }
      in_metadata_ = value == "__metadata__";
      entry_ = SafetensorsEntry{};
      entry_.name = value;
      has_ = {};
      offsets_ = 0;
    } else if (state_ == State::kMetadata) {
      key_ = value;
    } else if (state_ == State::kEntry) {
      field_ = value == "dtype"          ? Field::kDType
               : value == "shape"        ? Field::kShape
               : value == "data_offsets" ? Field::kOffsets
                                         : Field::kOther;
      bool& seen = has_[static_cast<size_t>(field_)];
      if (seen && field_ != Field::kOther) return fail_entry(str_format("has \"{}\" twice", value));
      seen = true;
    }
    return true;
  }

  bool parse_error(size_t position, const std::string&, const nlohmann::detail::exception&) {
    return fail(corrupt("{}: the header is not valid JSON (at byte {}); the file is damaged or not a safetensors file",
                        what_, position));
  }

 private:
  enum class State { kStart, kTop, kMetadata, kEntry, kShape, kOffsets, kSkip };
  enum class Field : size_t { kDType, kShape, kOffsets, kOther };

  bool fail(Error error) {
    if (!error_) error_ = std::move(error);
    return false;
  }
  bool fail_entry(std::string_view problem) {
    return fail(corrupt("{}: tensor \"{}\": {}", what_, printable_name(entry_.name), problem));
  }

  // A value of the wrong type for its position. Unknown fields are skipped, as in other readers.
  bool scalar(std::string_view found) {
    if (state_ == State::kSkip || (state_ == State::kEntry && field_ == Field::kOther)) return true;
    return misplaced(found);
  }

  bool misplaced(std::string_view found) {
    switch (state_) {
      case State::kStart: return fail(corrupt("{}: the header is {}, not an object", what_, found));
      case State::kTop:
        if (in_metadata_) return fail(corrupt("{}: __metadata__ is {}, not an object", what_, found));
        return fail_entry(str_format("its entry is {}, not an object", found));
      case State::kMetadata:
        return fail(corrupt("{}: __metadata__ entry \"{}\" is {}, not a string", what_, printable_name(key_), found));
      case State::kShape: return fail_entry(str_format("shape holds {}", found));
      case State::kOffsets: return fail_entry(str_format("data_offsets holds {}", found));
      default: break;
    }
    static constexpr std::string_view kNames[] = {"dtype", "shape", "data_offsets", ""};
    return fail_entry(str_format("{} is {}", kNames[static_cast<size_t>(field_)], found));
  }

  bool start_nested(std::string_view found) {
    if (state_ == State::kSkip) {
      ++skip_depth_;
      return true;
    }
    if (state_ == State::kEntry && field_ == Field::kOther) {
      state_ = State::kSkip;
      skip_depth_ = 1;
      return true;
    }
    return misplaced(found);
  }

  bool end_nested() {
    if (--skip_depth_ == 0) state_ = State::kEntry;
    return true;
  }

  bool finish_entry() {
    if (!has_[0]) return fail_entry("has no dtype");
    if (!has_[1]) return fail_entry("has no shape");
    if (!has_[2]) return fail_entry("has no data_offsets");
    if (offsets_ != 2) return fail_entry("data_offsets must be two numbers");
    header_.entries.push_back(std::move(entry_));
    return true;
  }

  std::string_view what_;
  SafetensorsHeader& header_;
  std::optional<Error> error_;
  State state_ = State::kStart;
  bool in_metadata_ = false;
  Field field_ = Field::kOther;
  SafetensorsEntry entry_;
  std::string key_;
  std::array<bool, 4> has_{};
  int offsets_ = 0;
  uint64_t skip_depth_ = 0;
  std::unordered_set<std::string> names_;
};

Status check_entry(SafetensorsEntry& entry, uint64_t data_size, std::string_view what) {
  const std::string name = printable_name(entry.name);
  const DTypeRow* row = find_dtype(entry.dtype_name);
  if (row == nullptr) {
    return unsupported("{}: tensor \"{}\" has the unknown dtype \"{}\"", what, name, printable_name(entry.dtype_name));
  }
  entry.dtype = row->dtype;
  if (entry.begin > entry.end) {
    return corrupt("{}: tensor \"{}\": its data ends ({}) before it begins ({})", what, name, entry.end, entry.begin);
  }
  if (entry.end > data_size) {
    return corrupt("{}: tensor \"{}\": its data ends at byte {}, but the file has only {}; download the file again",
                   what, name, entry.end, data_size);
  }
  const auto count = element_count(entry.shape);
  const auto bits = count ? checked_mul(*count, row->bits) : std::nullopt;
  if (!bits || *bits % 8 != 0) {
    return corrupt("{}: tensor \"{}\": shape [{}] is too large or does not fill whole bytes", what, name,
                   str_join(entry.shape, ", "));
  }
  if (*bits / 8 != entry.end - entry.begin) {
    return corrupt("{}: tensor \"{}\": shape [{}] of {} needs {} bytes, but its data has {}", what, name,
                   str_join(entry.shape, ", "), entry.dtype_name, *bits / 8, entry.end - entry.begin);
  }
  return ok_status();
}

// The ranges, in order, must be contiguous from the first byte to the last.
Status check_layout(const std::vector<SafetensorsEntry>& entries, uint64_t data_size, std::string_view what) {
  uint64_t covered = 0;
  const SafetensorsEntry* previous = nullptr;
  for (const SafetensorsEntry& entry : entries) {
    if (entry.begin < covered) {
      return corrupt("{}: tensors \"{}\" and \"{}\" overlap", what, printable_name(previous->name),
                     printable_name(entry.name));
    }
    if (entry.begin > covered) {
      return corrupt("{}: bytes {} to {} before tensor \"{}\" belong to no tensor", what, covered, entry.begin,
                     printable_name(entry.name));
    }
    covered = entry.end;
    previous = &entry;
  }
  if (covered != data_size) {
    return corrupt("{}: {} bytes after the last tensor (\"{}\") belong to no tensor", what, data_size - covered,
                   previous == nullptr ? "" : printable_name(previous->name));
  }
  return ok_status();
}

}  // namespace

std::string printable_name(std::string_view name) {
  constexpr size_t kMaxLength = 200;
  std::string text;
  for (const char c : name.substr(0, kMaxLength)) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) {
      text += str_format("\\x{:02x}", static_cast<unsigned char>(c));
    } else {
      text += c;
    }
  }
  if (name.size() > kMaxLength) text += "...";
  return text;
}

Result<SafetensorsHeader> parse_safetensors(std::span<const uint8_t> file, std::string_view what) {
  const std::string_view text(reinterpret_cast<const char*>(file.data()), file.size());
  if (text.starts_with("version https://git-lfs")) {
    return corrupt("{}: this is a Git LFS pointer, not the weights; run `git lfs pull`, or download the file itself",
                   what);
  }
  if (file.size() < 8) {
    return corrupt("{}: {} bytes is too short for a safetensors file; download the file again", what, file.size());
  }
  uint64_t header_size = 0;
  for (size_t i = 0; i < 8; ++i) header_size |= uint64_t{file[i]} << (8 * i);
  if (header_size > kMaxSafetensorsHeader) {
    return corrupt("{}: a header of {} bytes is more than the format allows ({}); this is not a safetensors file", what,
                   header_size, kMaxSafetensorsHeader);
  }
  if (header_size > file.size() - 8) {
    return corrupt("{}: the header should have {} bytes, but the file ends after {}; download the file again", what,
                   header_size, file.size() - 8);
  }
  const std::string_view json = text.substr(8, header_size);
  if (!json.starts_with('{')) {
    return corrupt("{}: the header does not begin with '{{'; this is not a safetensors file", what);
  }

  // The JSON parser takes a NUL for the end, and would ignore what follows.
  if (const size_t nul = json.find('\0'); nul != std::string_view::npos) {
    return corrupt("{}: the header is not valid JSON (at byte {})", what, nul);
  }

  SafetensorsHeader header;
  header.data_begin = 8 + header_size;
  HeaderHandler handler(what, header);
  if (!Json::sax_parse(json, &handler)) {
    auto error = handler.take_error();
    return error ? *std::move(error) : corrupt("{}: the header is not valid JSON", what);
  }
  const uint64_t data_size = file.size() - header.data_begin;
  for (SafetensorsEntry& entry : header.entries) TANDEM_TRY(check_entry(entry, data_size, what));
  // An empty tensor sorts before the one that starts at the same byte.
  std::stable_sort(header.entries.begin(), header.entries.end(),
                   [](const auto& a, const auto& b) { return a.begin != b.begin ? a.begin < b.begin : a.end < b.end; });
  TANDEM_TRY(check_layout(header.entries, data_size, what));
  return header;
}

SafetensorsFile::SafetensorsFile(MappedFile file, SafetensorsHeader header)
    : file_(std::move(file)), header_(std::move(header)), by_name_(header_.entries.size()) {
  std::iota(by_name_.begin(), by_name_.end(), 0u);
  std::sort(by_name_.begin(), by_name_.end(),
            [this](uint32_t a, uint32_t b) { return header_.entries[a].name < header_.entries[b].name; });
}

Result<SafetensorsFile> SafetensorsFile::open(const std::filesystem::path& path) {
  TANDEM_ASSIGN(MappedFile file, MappedFile::open(path));
  TANDEM_ASSIGN(SafetensorsHeader header, if_unchanged(file, parse_safetensors(file.bytes(), path.string())));
  return SafetensorsFile(std::move(file), std::move(header));
}

const SafetensorsEntry* SafetensorsFile::find(std::string_view name) const {
  const auto it =
      std::lower_bound(by_name_.begin(), by_name_.end(), name,
                       [this](uint32_t index, std::string_view key) { return header_.entries[index].name < key; });
  if (it == by_name_.end() || header_.entries[*it].name != name) return nullptr;
  return &header_.entries[*it];
}

std::span<const uint8_t> SafetensorsFile::bytes(const SafetensorsEntry& entry) const {
  return file_.bytes().subspan(header_.data_begin + entry.begin, entry.end - entry.begin);
}

}  // namespace tandem

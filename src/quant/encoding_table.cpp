#include "quant/encoding_table.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "base/ascii.h"
#include "base/atomic_file.h"
#include "base/error.h"
#include "base/format.h"
#include "base/mapped_file.h"
#include "quant/observer.h"

namespace tandem {
namespace {

constexpr int64_t kVersion = 1;
// Tables within these limits fit into files within the first one.
constexpr size_t kMaxEncodingsBytes = size_t{64} << 20;
constexpr size_t kMaxEntries = 65536;
constexpr size_t kMaxTensorName = 256;
constexpr size_t kMaxMethod = 64;
constexpr size_t kMaxCalibrationBytes = size_t{64} << 10;

std::string json_text(std::string_view text) { return dump_json(Json(std::string(text))); }

// UTF-8 without control characters.
bool is_plain_text(std::string_view text) {
  if (std::any_of(text.begin(), text.end(), [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; })) {
    return false;
  }
  // Serializing replaces invalid bytes.
  const Json back = Json::parse(json_text(text), nullptr, /*allow_exceptions=*/false);
  return back.is_string() && back.get_ref<const std::string&>() == text;
}

Error wrong(std::string_view name, std::string_view what) {
  return invalid_argument("encodings: {}: {}", json_text(name.substr(0, kMaxTensorName)), what);
}

Status validate(std::string_view name, const TensorEncoding& e) {
  if (name.empty() || name.size() > kMaxTensorName) {
    return wrong(name.substr(0, 64), str_format("the name should have 1 to {} bytes", kMaxTensorName));
  }
  if (!is_plain_text(name)) return wrong(name, "the name should be UTF-8 without control characters");
  if (e.dtype != DType::kU8 && e.dtype != DType::kU16) {
    return wrong(name, str_format("dtype {} (possible: u8, u16)", dtype_name(e.dtype)));
  }
  if (e.encoding.kind != ir::EncodingKind::kPerTensor) {
    return wrong(name, str_format("encoding {}, where only {} can be", ir::encoding_kind_name(e.encoding.kind),
                                  ir::encoding_kind_name(ir::EncodingKind::kPerTensor)));
  }
  // Denormals have no finite inverse.
  if (!std::isnormal(e.encoding.scale) || e.encoding.scale < 0.0f) {
    return wrong(name, str_format("scale {} should be a positive number from 1.2e-38 to 3.4e38", e.encoding.scale));
  }
  if (e.encoding.zero_point < 0 || e.encoding.zero_point > dtype_max(e.dtype)) {
    return wrong(name, str_format("zero point {} is not a value of {} (0 to {})", e.encoding.zero_point,
                                  dtype_name(e.dtype), dtype_max(e.dtype)));
  }
  if (e.encoding.scale > std::numeric_limits<float>::max() / static_cast<float>(dtype_max(e.dtype))) {
    return wrong(name, str_format("with scale {} its values go beyond the range of floats", e.encoding.scale));
  }
  if (!std::isfinite(e.observed_min) || !std::isfinite(e.observed_max) || e.observed_min > e.observed_max) {
    return wrong(name, str_format("min {} and max {} are no range", e.observed_min, e.observed_max));
  }
  if (!std::isnan(e.clipped) && !(e.clipped >= 0.0 && e.clipped <= 1.0)) {
    return wrong(name, str_format("clipped {} should be a share from 0 to 1", e.clipped));
  }
  if (std::isinf(e.sqnr_db)) return wrong(name, "sqnr_db is infinite");
  if (e.method.empty() || e.method.size() > kMaxMethod || !is_plain_text(e.method)) {
    return wrong(name, str_format("method should have 1 to {} bytes of plain text", kMaxMethod));
  }
  return ok_status();
}

// ---- Writing ----

// The shortest text that gives the same float even if a JSON reader parses it as a double first; almost always the
// shortest text of the float itself.
std::string number(float value) {
  const std::string text = str_format("{}", value);
  const Json back = Json::parse(text, nullptr, false);
  if (back.is_number() &&
      std::bit_cast<uint32_t>(static_cast<float>(back.get<double>())) == std::bit_cast<uint32_t>(value)) {
    return text;
  }
  return dump_json(Json(static_cast<double>(value)));
}
std::string number(double value) { return dump_json(Json(value)); }

// ---- Reading ----

// Checks a text before it is parsed into a document: the parser keeps the last of duplicate keys, so nobody would
// notice the others, and a hostile text may be deep or many times larger in memory. (The parser's own callbacks could
// do the same, but then it searches an object again at the end of each object inside it.)
class TextCheck : public nlohmann::json_sax<Json> {
 public:
  // `depth`: how deep the text is inside a file.
  explicit TextCheck(size_t depth = 0) : keys_(depth) {}

  Status check(std::string_view text) {
    if (text.find('\0') != std::string_view::npos) return corrupt("encodings: not valid JSON (it has a NUL byte)");
    if (Json::sax_parse(text, this)) return ok_status();
    return problem_ ? *std::move(problem_) : corrupt("encodings: not valid JSON");
  }

  bool null() override { return count(); }
  bool boolean(bool) override { return count(); }
  bool number_integer(number_integer_t) override { return count(); }
  bool number_unsigned(number_unsigned_t) override { return count(); }
  bool number_float(number_float_t, const string_t&) override { return count(); }
  bool string(string_t&) override { return count(); }
  bool binary(binary_t&) override { return count(); }
  bool start_object(size_t) override { return open(); }
  bool start_array(size_t) override { return open(); }
  bool end_object() override { return close(); }
  bool end_array() override { return close(); }
  bool key(string_t& key) override {
    if (keys_.back().insert(key).second) return true;
    problem_ = invalid_argument("encodings: the key {} is there twice", json_text(key.substr(0, kMaxTensorName)));
    return false;
  }
  bool parse_error(size_t, const std::string&, const nlohmann::detail::exception&) override { return false; }

 private:
  static constexpr size_t kMaxDepth = 64;
  static constexpr size_t kMaxValues = 16 * kMaxEntries;

  bool count() {
    if (++values_ <= kMaxValues) return true;
    problem_ = invalid_argument("encodings: more than {} values", kMaxValues);
    return false;
  }
  bool open() {
    keys_.emplace_back();
    if (keys_.size() > kMaxDepth) {
      problem_ = invalid_argument("encodings: nested deeper than {} levels", kMaxDepth);
      return false;
    }
    return count();
  }
  bool close() {
    keys_.pop_back();
    return true;
  }

  std::vector<std::set<std::string>> keys_;  // For open objects; empty for arrays.
  size_t values_ = 0;
  std::optional<Error> problem_;
};

// A value as messages show it.
std::string shown(const Json& value) {
  return value.is_primitive() ? dump_json(value).substr(0, 64) : std::string(value.type_name());
}

Result<double> number_of(std::string_view name, std::string_view key, const Json& value) {
  if (!value.is_number()) return wrong(name, str_format("{} should be a number, but is {}", key, shown(value)));
  return value.get<double>();
}

Result<float> float_of(std::string_view name, std::string_view key, const Json& value) {
  TANDEM_ASSIGN(const double number, number_of(name, key, value));
  if (!(std::fabs(number) <= std::numeric_limits<float>::max())) {
    return wrong(name, str_format("{} {} is beyond the range of floats", key, shown(value)));
  }
  return static_cast<float>(number);
}

Result<TensorEncoding> entry_from_json(std::string_view name, const Json& object) {
  if (!object.is_object()) return wrong(name, str_format("should be an object, but is {}", object.type_name()));
  TensorEncoding e;
  e.encoding.kind = ir::EncodingKind::kPerTensor;
  bool has_dtype = false, has_scale = false, has_zero_point = false, has_min = false, has_max = false;
  for (const auto& [key, value] : object.items()) {
    if (key == "dtype") {
      const auto dtype = value.is_string() ? dtype_from_name(value.get_ref<const std::string&>()) : std::nullopt;
      if (!dtype) return wrong(name, str_format("dtype {} (possible: \"u8\", \"u16\")", shown(value)));
      e.dtype = *dtype;
      has_dtype = true;
    } else if (key == "scale") {
      TANDEM_ASSIGN(e.encoding.scale, float_of(name, key, value));
      has_scale = true;
    } else if (key == "zero_point") {
      if (!value.is_number_unsigned() || value.get<uint64_t>() > UINT16_MAX) {
        return wrong(name, str_format("zero_point {} should be an integer from 0 to 65535", shown(value)));
      }
      e.encoding.zero_point = value.get<int32_t>();
      has_zero_point = true;
    } else if (key == "min" || key == "max") {
      TANDEM_ASSIGN((key == "min" ? e.observed_min : e.observed_max), float_of(name, key, value));
      (key == "min" ? has_min : has_max) = true;
    } else if (key == "clipped") {
      TANDEM_ASSIGN(e.clipped, number_of(name, key, value));
    } else if (key == "sqnr_db") {
      TANDEM_ASSIGN(e.sqnr_db, number_of(name, key, value));
    } else if (key == "method") {
      if (!value.is_string()) return wrong(name, str_format("method should be a string, but is {}", shown(value)));
      e.method = value.get<std::string>();
    } else {
      return wrong(name, str_format("unknown key {} (possible: dtype, scale, zero_point, min, max, clipped, sqnr_db, "
                                    "method)",
                                    json_text(std::string_view(key).substr(0, 64))));
    }
  }
  if (!has_dtype || !has_scale || !has_zero_point) return wrong(name, "should have dtype, scale and zero_point");
  if (has_min != has_max) return wrong(name, "has one of min and max, but not the other");
  if (!has_min) {
    const Interval range = encoded_range(e.dtype, e.encoding);
    e.observed_min = range.low;
    e.observed_max = range.high;
  }
  return e;
}

}  // namespace

bool operator==(const TensorEncoding& a, const TensorEncoding& b) {
  const auto same = [](double x, double y) { return x == y || (std::isnan(x) && std::isnan(y)); };
  return a.dtype == b.dtype && a.encoding == b.encoding && a.observed_min == b.observed_min &&
         a.observed_max == b.observed_max && same(a.clipped, b.clipped) && same(a.sqnr_db, b.sqnr_db) &&
         a.method == b.method;
}

bool NaturalOrder::operator()(std::string_view a, std::string_view b) const {
  size_t i = 0, j = 0;
  while (i < a.size() && j < b.size()) {
    if (!is_ascii_digit(a[i]) || !is_ascii_digit(b[j])) {
      if (a[i] != b[j]) return static_cast<unsigned char>(a[i]) < static_cast<unsigned char>(b[j]);
      ++i, ++j;
      continue;
    }
    // Without leading zeros the longer number is the larger one.
    while (i < a.size() && a[i] == '0') ++i;
    while (j < b.size() && b[j] == '0') ++j;
    size_t a_end = i, b_end = j;
    while (a_end < a.size() && is_ascii_digit(a[a_end])) ++a_end;
    while (b_end < b.size() && is_ascii_digit(b[b_end])) ++b_end;
    if (a_end - i != b_end - j) return a_end - i < b_end - j;
    if (const int order = a.substr(i, a_end - i).compare(b.substr(j, b_end - j)); order != 0) return order < 0;
    i = a_end;
    j = b_end;
  }
  if (i < a.size() || j < b.size()) return i == a.size();
  return a < b;  // Equal except for leading zeros.
}

Status EncodingTable::set(std::string_view name, TensorEncoding encoding) {
  // A file for people should not have negative zeros.
  encoding.observed_min += 0.0f;
  encoding.observed_max += 0.0f;
  TANDEM_TRY(validate(name, encoding));
  if (const auto it = entries_.find(name); it != entries_.end()) {
    it->second = std::move(encoding);
    return ok_status();
  }
  if (entries_.size() >= kMaxEntries) return invalid_argument("encodings: more than {} entries", kMaxEntries);
  entries_.emplace(std::string(name), std::move(encoding));
  return ok_status();
}

const TensorEncoding* EncodingTable::find(std::string_view name) const {
  const auto it = entries_.find(name);
  return it == entries_.end() ? nullptr : &it->second;
}

Status EncodingTable::set_calibration(const Json& info) {
  if (!info.is_object()) {
    return invalid_argument("encodings: \"calibration\" should be an object, but is {}", info.type_name());
  }
  const std::string text = dump_json(info);
  if (text.size() > kMaxCalibrationBytes) {
    return invalid_argument("encodings: \"calibration\" is larger than {} KiB", kMaxCalibrationBytes >> 10);
  }
  // Through the text, so that it contains nothing that a file cannot: NaN, invalid UTF-8, deep nesting.
  TANDEM_TRY(TextCheck(1).check(text));
  calibration_ = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  return ok_status();
}

std::string EncodingTable::to_json() const {
  // Written by hand, because the library sorts keys by their bytes and this is for people too: one line per tensor.
  std::string out = str_format("{{\n  \"version\": {},\n  \"calibration\": {},\n  \"encodings\": {{", kVersion,
                               dump_json(calibration_));
  const char* separator = "\n";
  for (const auto& [name, e] : entries_) {
    append_format(out, "{}    {}: {{\"dtype\": \"{}\", \"scale\": {}, \"zero_point\": {}, \"min\": {}, \"max\": {}",
                  separator, json_text(name), dtype_name(e.dtype), number(e.encoding.scale), e.encoding.zero_point,
                  number(e.observed_min), number(e.observed_max));
    if (!std::isnan(e.clipped)) append_format(out, ", \"clipped\": {}", number(e.clipped));
    if (!std::isnan(e.sqnr_db)) append_format(out, ", \"sqnr_db\": {}", number(e.sqnr_db));
    append_format(out, ", \"method\": {}}}", json_text(e.method));
    separator = ",\n";
  }
  out += entries_.empty() ? "}\n}\n" : "\n  }\n}\n";
  return out;
}

Result<EncodingTable> EncodingTable::from_json(std::string_view text) {
  if (text.size() > kMaxEncodingsBytes)
    return invalid_argument("encodings: larger than {} MiB", kMaxEncodingsBytes >> 20);
  TANDEM_TRY(TextCheck().check(text));
  const Json json = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) return invalid_argument("encodings: should be an object, but is {}", json.type_name());
  // The version first: another one may have other keys.
  const auto version = json.find("version");
  if (version == json.end() || !version->is_number_integer()) {
    return invalid_argument("encodings: no \"version\"; this is not a file of encodings");
  }
  if (*version != kVersion) {
    return unsupported("encodings: version {}, but this program knows version {} only", shown(*version), kVersion);
  }
  EncodingTable table;
  const Json* encodings = nullptr;
  for (const auto& [key, value] : json.items()) {
    if (key == "version") continue;
    if (key == "calibration") {
      TANDEM_TRY(table.set_calibration(value));
    } else if (key == "encodings") {
      encodings = &value;
    } else {
      return invalid_argument("encodings: unknown key {} (possible: version, calibration, encodings)",
                              json_text(std::string_view(key).substr(0, 64)));
    }
  }
  if (encodings == nullptr || !encodings->is_object()) return invalid_argument("encodings: no object \"encodings\"");
  if (encodings->size() > kMaxEntries) return invalid_argument("encodings: more than {} entries", kMaxEntries);
  for (const auto& [name, value] : encodings->items()) {
    TANDEM_ASSIGN(TensorEncoding entry, entry_from_json(name, value));
    TANDEM_TRY(table.set(name, std::move(entry)));
  }
  return table;
}

Result<EncodingTable> EncodingTable::load(const std::filesystem::path& path) {
  TANDEM_ASSIGN(const std::string text, read_text_file(path, kMaxEncodingsBytes));
  auto table = from_json(text);
  if (!table.ok()) return with_context(std::move(table).error(), "{}", path.string());
  return table;
}

Status EncodingTable::save(const std::filesystem::path& path) const { return write_file_atomically(path, to_json()); }

}  // namespace tandem

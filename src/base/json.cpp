#include "base/json.h"

#include <cmath>
#include <utility>

#include "base/error.h"

namespace tandem {
namespace {

// Deeper than any file of ours or from a hub; recursion over a parsed document stays far from a stack overflow.
constexpr size_t kMaxDepth = 256;
// A value takes up to 64 bytes of memory for as little as two of text. The largest tokenizers have two million.
constexpr size_t kMaxValues = 8'000'000;

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
    // Some writers write whole numbers as 1.0.
    const double number = value.get<double>();
    if (std::floor(number) == number && std::fabs(number) < 9e15) return static_cast<int64_t>(number);
  }
  return wrong_type(key, "a whole number", value);
}

// Builds the document from the parser's events. The parser's own filter callback walks a whole object each time that
// something inside it ends: minutes for 100,000 added tokens or tensors.
class TreeBuilder {
 public:
  bool too_deep() const { return too_deep_; }
  bool too_many() const { return count_ > kMaxValues; }
  Json take() { return std::move(root_); }

  // The parser calls these; false stops it.
  bool null() { return add(nullptr); }
  bool boolean(bool value) { return add(value); }
  bool number_integer(Json::number_integer_t value) { return add(value); }
  bool number_unsigned(Json::number_unsigned_t value) { return add(value); }
  bool number_float(Json::number_float_t value, const Json::string_t&) { return add(value); }
  bool string(Json::string_t& value) { return add(std::move(value)); }
  bool binary(Json::binary_t&) { return false; }
  bool start_object(size_t) { return open(Json::object()); }
  bool start_array(size_t) { return open(Json::array()); }
  bool end_object() { return close(); }
  bool end_array() { return close(); }
  bool key(Json::string_t& name) {
    member_ = &(*open_.back())[name];
    return true;
  }
  bool parse_error(size_t, const std::string&, const Json::exception&) { return false; }

 private:
  Json* insert(Json value) {
    if (open_.empty()) {
      root_ = std::move(value);
      return &root_;
    }
    if (open_.back()->is_array()) {
      open_.back()->push_back(std::move(value));
      return &open_.back()->back();
    }
    *member_ = std::move(value);
    return member_;
  }
  bool add(Json value) {
    insert(std::move(value));
    return ++count_ <= kMaxValues;
  }
  bool open(Json empty) {
    if (++count_ > kMaxValues) return false;
    too_deep_ = open_.size() >= kMaxDepth;
    if (!too_deep_) open_.push_back(insert(std::move(empty)));
    return !too_deep_;
  }
  bool close() {
    open_.pop_back();
    return true;
  }

  Json root_;
  std::vector<Json*> open_;  // Objects and lists not closed yet; none of them moves while it is here.
  Json* member_ = nullptr;   // Where the next value of the innermost object goes.
  bool too_deep_ = false;
  size_t count_ = 0;
};

}  // namespace

Result<Json> parse_json(std::string_view text, std::string_view what) {
  // The parser takes a NUL for the end of the text and would ignore what follows it.
  if (text.find('\0') != std::string_view::npos) return corrupt("{}: not valid JSON (it has a NUL byte)", what);
  TreeBuilder builder;
  const bool parsed = Json::sax_parse(text, &builder);
  if (builder.too_deep()) return corrupt("{}: nested deeper than {} levels", what, kMaxDepth);
  if (builder.too_many()) return corrupt("{}: more than {} values, which no such file has", what, kMaxValues);
  if (!parsed) return corrupt("{}: not valid JSON", what);
  return builder.take();
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

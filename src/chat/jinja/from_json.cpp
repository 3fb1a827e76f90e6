// JSON text as values. Not through a JSON document, whose objects do not keep the order of their keys.
#include <cmath>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/format.h"
#include "chat/jinja/template.h"
#include "chat/jinja/unicode.h"

namespace tandem::jinja {
namespace {

constexpr size_t kMaxJsonDepth = 256;
static_assert(kMaxJsonDepth + 16 < kMaxValueDepth);

class Builder final : public nlohmann::json_sax<nlohmann::json> {
 public:
  explicit Builder(Origin origin) : origin_(origin) {}

  bool null() override { return add(Value::none().from(origin_)); }
  bool boolean(bool value) override { return add(Value::boolean(value).from(origin_)); }
  bool number_integer(number_integer_t value) override { return add(Value::integer(value).from(origin_)); }
  bool number_unsigned(number_unsigned_t value) override {
    if (value > static_cast<uint64_t>(INT64_MAX)) return fail("a number does not fit 64 bits");
    return add(Value::integer(static_cast<int64_t>(value)).from(origin_));
  }
  bool number_float(number_float_t value, const string_t& text) override {
    if (text.find_first_of(".eE") == std::string::npos) return fail("a number does not fit 64 bits");
    return add(Value::real(value).from(origin_));
  }
  bool string(string_t& value) override { return add(text(value)); }
  bool binary(binary_t&) override { return fail("not JSON"); }
  bool start_object(std::size_t) override { return open(false); }
  bool start_array(std::size_t) override { return open(true); }
  bool key(string_t& value) override {
    open_.back().key = text(value);
    return true;
  }
  bool end_object() override {
    Value dict = Value::object(Kind::kDict, std::move(open_.back().dict));
    open_.pop_back();
    return add(std::move(dict));
  }
  bool end_array() override {
    Value list = Value::list(std::move(open_.back().items));
    open_.pop_back();
    return add(std::move(list));
  }
  bool parse_error(std::size_t position, const std::string&, const nlohmann::detail::exception&) override {
    return fail(str_format("not valid JSON (near byte {})", position));
  }

  Value result;
  std::string error;

 private:
  struct Level {
    bool is_list = false;
    Value key;
    std::vector<Value> items;
    std::shared_ptr<DictObject> dict;
  };

  Value text(string_t& value) const { return Value::string(MarkedText(std::move(value), origin_)); }
  bool fail(std::string why) {
    if (error.empty()) error = std::move(why);
    return false;
  }
  bool open(bool is_list) {
    if (open_.size() >= kMaxJsonDepth) return fail(str_format("nested deeper than {} levels", kMaxJsonDepth));
    open_.emplace_back();
    open_.back().is_list = is_list;
    if (!is_list) open_.back().dict = std::make_shared<DictObject>();
    return true;
  }
  bool add(Value value) {
    if (open_.empty()) {
      result = std::move(value);
    } else if (open_.back().is_list) {
      open_.back().items.push_back(std::move(value));
    } else {
      open_.back().dict->set(std::move(open_.back().key), std::move(value));
    }
    return true;
  }

  Origin origin_;
  std::vector<Level> open_;
};

}  // namespace

Result<Value> parse_json_value(std::string_view text, std::string_view what, Origin origin) {
  // The parser takes a NUL for the end of the text and would ignore what follows it.
  if (text.find('\0') != std::string_view::npos) return corrupt("{}: not valid JSON (it has a NUL byte)", what);
  if (find_invalid_utf8(text) != std::string_view::npos) return corrupt("{}: not valid UTF-8", what);
  Builder builder(origin);
  if (!nlohmann::json::sax_parse(text, &builder)) {
    return corrupt("{}: {}", what, builder.error.empty() ? "not valid JSON" : builder.error);
  }
  return std::move(builder.result);
}

}  // namespace tandem::jinja

#include "backends/interface/options.h"

#include <algorithm>
#include <charconv>
#include <optional>

#include "base/error.h"
#include "base/format.h"
#include "base/parse_double.h"

namespace tandem {
namespace {

// The whole text as a decimal number.
std::optional<int64_t> parse_count(std::string_view text) {
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

}  // namespace

const OptionSpec* find_option(std::span<const OptionSpec> specs, std::string_view name) {
  const auto found = std::ranges::find(specs, name, &OptionSpec::name);
  return found == specs.end() ? nullptr : &*found;
}

BackendOptions own_options(std::span<const OptionSpec> specs, const BackendOptions& options) {
  BackendOptions own;
  for (const auto& [name, value] : options) {
    if (find_option(specs, name) != nullptr) own.emplace(name, value);
  }
  return own;
}

std::string option_names(std::span<const OptionSpec> specs) {
  std::string names;
  for (const OptionSpec& spec : specs) names += (names.empty() ? "" : ", ") + std::string(spec.name);
  return names.empty() ? "none" : names;
}

Status check_option(const OptionSpec& spec, std::string_view value) {
  if (value.empty()) return invalid_argument("the option `{}` has an empty value; leave it out", spec.name);
  switch (spec.kind) {
    case OptionKind::kFlag:
      if (value == "true" || value == "false") break;
      return invalid_argument("the option `{}` is \"{}\"; give true or false", spec.name, value);
    case OptionKind::kCount:
      if (const auto count = parse_count(value); count && *count >= spec.least && *count <= spec.most) break;
      return invalid_argument("the option `{}` is \"{}\"; give a whole number from {} to {}", spec.name, value,
                              spec.least, spec.most);
    case OptionKind::kNumber:
      if (const auto number = parse_double(value);
          number && *number > static_cast<double>(spec.least) && *number <= static_cast<double>(spec.most)) {
        break;
      }
      return invalid_argument("the option `{}` is \"{}\"; give a number above {} and up to {}", spec.name, value,
                              spec.least, spec.most);
    case OptionKind::kText: break;
  }
  if (spec.check == nullptr) return ok_status();
  if (Status status = spec.check(value); !status.ok()) {
    return with_context(std::move(status).error(), "the option `{}`", spec.name);
  }
  return ok_status();
}

Status check_options(std::span<const OptionSpec> specs, const BackendOptions& options) {
  for (const auto& [name, value] : options) {
    const OptionSpec* spec = find_option(specs, name);
    if (spec == nullptr) {
      return invalid_argument("the option `{}` is unknown; these are known: {}", name, option_names(specs));
    }
    TANDEM_TRY(check_option(*spec, value));
  }
  return ok_status();
}

Result<OptionValues> OptionValues::read(std::span<const OptionSpec> specs, const BackendOptions& options) {
  TANDEM_TRY(check_options(specs, options));
  return OptionValues(specs, options);
}

std::string OptionValues::text(std::string_view name) const {
  if (const auto given = options_.find(name); given != options_.end()) return given->second;
  const OptionSpec* spec = find_option(specs_, name);
  return spec == nullptr ? std::string() : std::string(spec->default_value);
}

int64_t OptionValues::count(std::string_view name) const { return parse_count(text(name)).value_or(0); }

double OptionValues::number(std::string_view name) const { return parse_double(text(name)).value_or(0.0); }

}  // namespace tandem

// A back end's own options: a table of specs lists them, and their values travel as text from an app or the command
// line to the back end, through code that knows neither. The command line makes its flags from the specs.
#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "tandem/backend_options.h"
#include "tandem/status.h"

namespace tandem {

enum class OptionKind {
  kFlag,    // "true" or "false"
  kText,    // Anything but an empty text.
  kCount,   // A whole number from `least` to `most`.
  kNumber,  // A number above `least` and up to `most`.
};

inline constexpr int64_t kLargestCount = std::numeric_limits<int32_t>::max();

struct OptionSpec {
  std::string_view name;  // Of the flag too: --NAME.
  OptionKind kind = OptionKind::kText;
  std::string_view help;
  std::string_view default_value = {};  // Empty: the help says what happens then.
  int64_t least = 0;
  int64_t most = kLargestCount;
  Status (*check)(std::string_view value) = nullptr;  // Further conditions on a value.
  std::string_view value_name = {};                   // In the help; empty: by kind.
  bool has_flag = true;                               // False: for apps, not for the command line.
  // Describes this machine and requests nothing, so that no back end has to refuse it.
  bool is_about_machine = false;
};

const OptionSpec* find_option(std::span<const OptionSpec> specs, std::string_view name);
// Those among `options` that have a spec.
BackendOptions own_options(std::span<const OptionSpec> specs, const BackendOptions& options);
// "profile, qnn-libs, signed-pd"
std::string option_names(std::span<const OptionSpec> specs);
// Whether the spec allows a value; the error names the option.
Status check_option(const OptionSpec& spec, std::string_view value);

// Refuses names that are not among the specs (the error lists those that are) and values that the specs do not allow.
Status check_options(std::span<const OptionSpec> specs, const BackendOptions& options);

// The values of a back end's options.
class OptionValues {
 public:
  // Fails where check_options() fails. The specs must outlive this.
  static Result<OptionValues> read(std::span<const OptionSpec> specs, const BackendOptions& options);

  // Whether the caller set it.
  bool has(std::string_view name) const { return options_.contains(name); }
  // The given value, or the default; "", 0 or false without either.
  std::string text(std::string_view name) const;
  bool flag(std::string_view name) const { return text(name) == "true"; }
  int64_t count(std::string_view name) const;
  double number(std::string_view name) const;

 private:
  OptionValues(std::span<const OptionSpec> specs, BackendOptions options)
      : specs_(specs), options_(std::move(options)) {}

  std::span<const OptionSpec> specs_;
  BackendOptions options_;
};

}  // namespace tandem

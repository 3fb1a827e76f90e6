// Options that a back end has of its own: a table of specs says which there are, and values travel as text from an app
// or the command line to the back end, past code that knows neither. The command line makes its flags from the specs.
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
  Status (*check)(std::string_view value) = nullptr;  // What else a value must be.
  std::string_view value_name = {};                   // In the help; empty: by kind.
  bool has_flag = true;                               // False: for apps, not for the command line.
  // Says something about this machine and asks for nothing, so that nobody has to refuse it.
  bool is_about_machine = false;
};

const OptionSpec* find_option(std::span<const OptionSpec> specs, std::string_view name);
// "profile, qnn-libs, signed-pd"
std::string option_names(std::span<const OptionSpec> specs);
// Whether a value is one that the spec allows; the error names the option.
Status check_option(const OptionSpec& spec, std::string_view value);

// Refuses names that are not among the specs, with a list of those that are, and values that they do not allow.
Status check_options(std::span<const OptionSpec> specs, const BackendOptions& options);

// The values of a back end's options.
class OptionValues {
 public:
  // What check_options() refuses is refused. The specs must outlive this.
  static Result<OptionValues> read(std::span<const OptionSpec> specs, const BackendOptions& options);

  // Whether somebody gave it.
  bool has(std::string_view name) const { return options_.contains(name); }
  // What was given, or the default; "", 0 or false without either.
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

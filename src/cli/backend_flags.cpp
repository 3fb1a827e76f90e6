#include "cli/backend_flags.h"

#include <CLI/CLI.hpp>

#include "cli/validators.h"

namespace tandem {
namespace {

void add_check(CLI::Option& option, const OptionSpec& spec) {
  switch (spec.kind) {
    case OptionKind::kFlag:
    case OptionKind::kText: break;
    case OptionKind::kCount: option.check(whole_number(spec.least, spec.most))->type_name("INT"); break;
    case OptionKind::kNumber:
      option.check(real_number_above(static_cast<double>(spec.least), static_cast<double>(spec.most)));
      option.type_name("FLOAT");
      break;
  }
  if (spec.check != nullptr) {
    const auto check = spec.check;
    option.check(CLI::Validator(
        [check](const std::string& text) {
          const Status status = check(text);
          return status.ok() ? std::string() : status.error().message;
        },
        ""));
  }
  if (!spec.value_name.empty()) option.type_name(std::string(spec.value_name));
}

}  // namespace

void BackendFlags::add_to(CLI::App& command, std::span<const OptionSpec> specs, const std::string& group) {
  for (const OptionSpec& spec : specs) {
    const std::string name(spec.name), flag = "--" + name, help(spec.help);
    if (!spec.has_flag || flags_.contains(name) || texts_.contains(name)) continue;
    CLI::Option* option = nullptr;
    if (spec.kind == OptionKind::kFlag) {
      option = command.add_flag(flag, flags_[name], help);
    } else {
      std::string& text = texts_[name] = std::string(spec.default_value);
      option = command.add_option(flag, text, help);
      if (!spec.default_value.empty()) option->capture_default_str();
      add_check(*option, spec);
    }
    if (!group.empty()) option->group(group);
    options_[name] = option;
  }
}

BackendOptions BackendFlags::options() const {
  BackendOptions given;
  // Also where the value is the usual one: a file may have another.
  for (const auto& [name, value] : texts_) {
    if (options_.at(name)->count() > 0) given[name] = value;
  }
  for (const auto& [name, value] : flags_) {
    if (options_.at(name)->count() > 0) given[name] = value ? "true" : "false";
  }
  return given;
}

}  // namespace tandem

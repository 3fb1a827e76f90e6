// Flags for the options of back ends, made from their specs.
#pragma once

#include <map>
#include <span>
#include <string>

#include "backends/interface/options.h"

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace tandem {

// Must not move once flags are added: the parser writes to it.
class BackendFlags {
 public:
  // Options without a flag, and those already added, are skipped. An empty group means the command's own options.
  void add_to(CLI::App& command, std::span<const OptionSpec> specs, const std::string& group = {});
  // The options that were given.
  BackendOptions options() const;

 private:
  std::map<std::string, std::string, std::less<>> texts_;  // With their defaults.
  std::map<std::string, bool, std::less<>> flags_;
  std::map<std::string, const CLI::Option*, std::less<>> options_;
};

}  // namespace tandem

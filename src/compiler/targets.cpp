#include "compiler/targets.h"

#include <algorithm>

#include "artifact/limits.h"
#include "base/error.h"
#include "base/format.h"
#include "compiler/backend_compiler.h"

namespace tandem {

std::span<const Target> targets() {
  static const std::vector<Target> kTargets = [] {
    std::vector<Target> list;
    for (const BackendCompiler* compiler : backend_compilers()) {
      const std::vector<Target> rows = compiler->targets();
      list.insert(list.end(), rows.begin(), rows.end());
    }
    return list;
  }();
  return kTargets;
}

std::string_view default_target(const BackendOptions& options) {
  for (const BackendCompiler* compiler : backend_compilers()) {
    if (const std::string_view name = compiler->implied_target(options); !name.empty()) return name;
  }
  return targets().empty() ? std::string_view() : targets().front().name;
}

Result<const Target*> find_target(std::string_view name) {
  std::string known;
  for (const Target& target : targets()) {
    if (target.name == name) return &target;
    known += (known.empty() ? "" : ", ") + std::string(target.name);
  }
  return invalid_argument("target \"{}\" is unknown; these are known: {}", name, known);
}

Result<std::vector<const Target*>> find_targets(std::string_view names) {
  std::vector<const Target*> found;
  for (size_t begin = 0; begin <= names.size();) {
    const size_t end = std::min(names.find(',', begin), names.size());
    TANDEM_ASSIGN(const Target* target, find_target(names.substr(begin, end - begin)));
    if (std::ranges::find(found, target) != found.end()) {
      return invalid_argument("target {} is there twice; name each once", target->name);
    }
    found.push_back(target);
    begin = end + 1;
  }
  if (found.size() > kMaxPrograms) {
    return invalid_argument("{} targets are too many: a file can have {} programs", found.size(), kMaxPrograms);
  }
  return found;
}

std::string device_name(uint32_t soc_model) {
  for (const BackendCompiler* compiler : backend_compilers()) {
    if (const std::string_view name = compiler->target_of_device(soc_model); !name.empty()) return std::string(name);
  }
  return str_format("SoC {}", soc_model);
}

const BackendCompiler& compiler_of(const Target& target) {
  return **std::ranges::find(backend_compilers(), target.backend, &BackendCompiler::name);
}

}  // namespace tandem
